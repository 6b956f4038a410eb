//! Limits on `billing`. Where a partition's `TRESBillingWeights` name types, a request without a type costs nothing
//! when Slurm tests such a limit, and its full price when it runs.

use super::{Accounting, Association, GovernedAccounts, Judgement};
use crate::mend::mended;

/// The GRES to which a text of `TRESBillingWeights` gives a weight, such as `gpu:a40`.
fn weighed(weights: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    weights.split(|byte| *byte == b',').filter_map(|part| {
        let (name, weight) = part.split_at(part.iter().position(|byte| *byte == b'=')?);
        let counts = weight.iter().any(|digit| (b'1'..=b'9').contains(digit));
        let name = name.trim_ascii().to_ascii_lowercase();
        name.strip_prefix(b"gres/").filter(|_| counts).map(<[u8]>::to_vec)
    })
}

impl<A: Accounting> Judgement<'_, '_, A> {
    /// Whether a partition in which the job may run bills this GRES: by its type, or all of it alike.
    fn bills(&self, gres: &[u8], by_type: bool) -> bool {
        let billed = self.billed.get_or_init(|| {
            let mut billed = Vec::new();
            self.accounting.billing_weights(self.request, |weights| billed.extend(weighed(weights)));
            billed
        });
        let found = billed.iter().any(|name| match name.strip_prefix(gres) {
            Some([]) => !by_type,
            Some([b':', ..]) => by_type,
            _ => false,
        });
        found && mended("billing")
    }

    /// Whether such a limit counts types of this GRES.
    pub(super) fn bills_types(&self, gres: &[u8]) -> bool {
        self.bills(gres, true)
    }

    /// Whether such a limit counts types of any GRES to which the rules apply.
    pub(super) fn bills_any_types(&self) -> bool {
        self.policy.gres.0.iter().any(|gres| self.bills_types(gres.as_bytes()))
    }

    /// Whether such a limit counts GPUs of any type alike.
    pub(super) fn bills_all(&self) -> bool {
        self.bills(super::GPU, false)
    }

    /// Whether an association has such a limit that counts types.
    pub(super) fn is_billed_by_type(&self, association: &Association) -> bool {
        association.billing && self.policy.accounts == GovernedAccounts::Auto && self.bills_any_types()
    }
}

#[cfg(test)]
mod tests {
    use super::weighed;

    #[test]
    fn what_has_a_weight_is_billed() {
        for (weights, expected) in [
            ("CPU=1.0,Mem=0.25G,GRES/gpu=2.0", &["gpu"][..]),
            ("GRES/gpu:A40=1.5,gres/gpu:h100=0.0,GRES/gpu:t4=0", &["gpu:a40"]),
            ("gres/gpu:a40=.5,gres/mps:a40=0.01", &["gpu:a40", "mps:a40"]),
            ("license/matlab=3,billing=1,gres/gpu", &[]),
            ("", &[]),
        ] {
            assert_eq!(
                weighed(weights.as_bytes()).collect::<Vec<_>>(),
                expected.iter().map(|name| name.as_bytes()).collect::<Vec<_>>(),
                "{weights}"
            );
        }
    }
}
