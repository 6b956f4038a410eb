//! What the rules leave to limits in the database: jobs that get whole nodes.

use super::policy::{ForeignTypes, Governed, Mode, Policy};
use crate::text::pattern::Case;

/// Whether jobs under a QOS with limits on GPU types may use no other types. Slurm itself gives a whole-node job all
/// GPUs of its nodes, whatever the job requests: only a limit of 0 on the other types prevents that.
pub fn keeps_to_its_types(policy: &Policy, qos: &[u8]) -> bool {
    let governed = match &policy.governed {
        Governed::Auto => true,
        Governed::Names(patterns) => patterns.match_name(qos, Case::Ignored),
    };
    let enforced = matches!(policy.mode(qos), Mode::Enforce | Mode::Default);
    governed && enforced && policy.gres.has(b"gpu") && policy.foreign_types == ForeignTypes::Deny
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::rules::Rules;

    #[test]
    fn a_qos_keeps_to_its_types_where_its_requests_are_refused_for_others() {
        for (site, expected) in [
            ("", true),
            ("GovernedQOS=qos_*", true),
            ("GovernedQOS=other", false),
            ("Mode=default", true),
            ("Mode=warn", false),
            ("QOS=qos_a40 Mode=audit", false),
            ("QOS=other Mode=audit", true),
            ("ForeignTypes=allow", false),
            ("GovernedGRES=mps", false),
        ] {
            let policy = Rules::parse(site).unwrap().policy;
            assert_eq!(keeps_to_its_types(&policy, b"qos_a40"), expected, "{site}");
        }
    }
}
