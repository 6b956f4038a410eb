//! Who has whose GPUs now: what groups lend, and to whom.
//!
//! Slurm counts GPUs by type and QOS; no GPU is a particular group's. So this is bookkeeping: what a borrower has comes
//! first from its own group's unused GPUs, then from those that nobody owns, then from the group with the most unused.

use std::collections::{BTreeMap, HashMap};

use crate::TYPE;
use crate::config::ManagedQos;
use crate::config::lending::{is_on, owns};
use crate::usage::Usage;

/// GPUs of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loan {
    /// The type, as in the file.
    pub gres_type: String,
    /// How many.
    pub number: u64,
    /// The owner's QOS.
    pub lender: String,
    /// The QOS of the jobs that have them.
    pub borrower: String,
}

/// All loans of groups that lend; empty if the file has no `Burst`. `gpus` are all GPUs of the cluster by type.
pub fn loans(qoses: &[ManagedQos], used: &HashMap<String, Usage>, gpus: &BTreeMap<String, u64>) -> Vec<Loan> {
    let mut types: Vec<&str> = Vec::new();
    for (gres_type, _) in qoses.iter().filter(|_| is_on(qoses)).flat_map(|managed| &managed.gpus) {
        if !types.iter().any(|known| known.eq_ignore_ascii_case(gres_type)) {
            types.push(gres_type);
        }
    }
    types.into_iter().flat_map(|gres_type| of_type(gres_type, qoses, used, gpus)).collect()
}

fn of_type(
    gres_type: &str,
    qoses: &[ManagedQos],
    usages: &HashMap<String, Usage>,
    gpus: &BTreeMap<String, u64>,
) -> Vec<Loan> {
    let name = format!("{TYPE}{gres_type}");
    let used = |usage: &Usage| {
        let found = usage.tres.iter().find(|(tres, _)| tres.eq_ignore_ascii_case(&name));
        found.map_or(0, |(_, used)| *used)
    };
    let of_qos = |qos: &str| usages.get(qos).map_or(0, used);
    let quota = |managed: &ManagedQos| {
        let of_it = managed.gpus.iter().find(|(known, _)| known.eq_ignore_ascii_case(gres_type));
        of_it.filter(|_| owns(managed)).map(|(_, number)| *number)
    };
    let owners: Vec<(&str, u64)> =
        qoses.iter().filter_map(|managed| Some((managed.name.as_str(), quota(managed)?))).collect();
    let mut unused: Vec<(&str, u64)> =
        owners.iter().map(|(qos, quota)| (*qos, quota.saturating_sub(of_qos(qos)))).collect();
    let owned: u64 = owners.iter().map(|(_, quota)| quota).sum();
    let all = gpus.iter().find(|(known, _)| known.eq_ignore_ascii_case(gres_type)).map_or(0, |(_, all)| *all);
    let mut nobodys = all.saturating_sub(owned);

    // Jobs without a quota use what nobody owns before borrowers do.
    let mut others: Vec<&str> = usages.keys().map(String::as_str).collect();
    others.sort_unstable();
    others.retain(|qos| {
        !qoses.iter().any(|managed| managed.name == *qos && (owns(managed) || managed.burst_of.is_some()))
    });
    let seconds = qoses.iter().filter(|managed| managed.burst_of.is_some());
    let seconds = seconds.map(|managed| (managed.name.as_str(), managed.burst_of.as_deref()));
    let mut loans = Vec::new();
    for (borrower, own) in others.into_iter().map(|qos| (qos, None)).chain(seconds) {
        let mut rest = of_qos(borrower);
        let mut take = |from: &mut u64| {
            let taken = rest.min(*from);
            *from -= taken;
            rest -= taken;
            taken
        };
        if let Some((_, left)) = unused.iter_mut().find(|(qos, _)| Some(*qos) == own) {
            take(left);
        }
        take(&mut nobodys);
        // The sort is stable: of equal ones, the first in the file.
        let mut by_size: Vec<&mut (&str, u64)> = unused.iter_mut().collect();
        by_size.sort_by_key(|(_, left)| std::cmp::Reverse(*left));
        for (lender, left) in by_size {
            let number = take(left);
            if number > 0 {
                let (lender, borrower) = ((*lender).to_owned(), borrower.to_owned());
                loans.push(Loan { gres_type: gres_type.to_owned(), number, lender, borrower });
            }
        }
    }
    loans
}

/// What a QOS has lent and what it has borrowed, as text; empty if nothing.
pub fn in_words(loans: &[Loan], qos: &str) -> [String; 2] {
    let all = |own: fn(&Loan) -> &str, other: fn(&Loan) -> &str, word: &str| {
        let of_it = loans.iter().filter(|loan| own(loan) == qos);
        let one = |loan: &Loan| format!("{} {} {word} {}", loan.number, loan.gres_type, other(loan));
        of_it.map(one).collect::<Vec<_>>().join(", ")
    };
    [
        all(|loan| &loan.lender, |loan| &loan.borrower, "to"),
        all(|loan| &loan.borrower, |loan| &loan.lender, "from"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Database;

    const FILE: &str = "QOS=x Account=x GPUs=a40:4 Burst=2x\nQOS=y Account=y GPUs=A40:4 Burst=1x\n\
                        QOS=z Account=z GPUs=a40:2\nQOS=h Account=h GPUs=h100:2";

    fn said(cluster: u64, used: &[(&str, u64)]) -> Vec<String> {
        let qoses = Database::parse(FILE).unwrap().qoses;
        let usage = |number| Usage {
            jobs: 1,
            tres: [("gres/gpu:a40".to_owned(), number)].into(),
            ..Usage::default()
        };
        let usages = used.iter().map(|(qos, number)| ((*qos).to_owned(), usage(*number))).collect();
        let loans = loans(&qoses, &usages, &[("a40".to_owned(), cluster)].into());
        loans.iter().map(|loan| format!("{}: {} to {}", loan.lender, loan.number, loan.borrower)).collect()
    }

    #[test]
    fn who_has_whose() {
        for (cluster, used, expected) in [
            (10, &[("x", 4), ("x_burst", 3)][..], &["y: 3 to x_burst"][..]),
            (10, &[("x", 4), ("x_burst", 5)], &["y: 4 to x_burst", "z: 1 to x_burst"]),
            (10, &[("x_burst", 5)], &["y: 1 to x_burst"]),
            (13, &[("x", 4), ("x_burst", 3)], &[]),
            (12, &[("x", 4), ("x_burst", 3), ("normal", 1)], &["y: 2 to x_burst"]),
            (10, &[("normal", 5)], &["x: 4 to normal", "y: 1 to normal"]),
            (10, &[("x", 2), ("y_burst", 4), ("y", 4), ("z", 2)], &["x: 2 to y_burst"]),
            (10, &[], &[]),
        ] {
            assert_eq!(said(cluster, used), expected, "{cluster} {used:?}");
        }
    }

    #[test]
    fn a_qos_is_told_both_sides() {
        let loan = |lender: &str, borrower: &str| Loan {
            gres_type: "a40".into(),
            number: 2,
            lender: lender.into(),
            borrower: borrower.into(),
        };
        let loans = [loan("x", "y_burst"), loan("z", "y_burst")];
        assert_eq!(in_words(&loans, "y_burst"), ["", "2 a40 from x, 2 a40 from z"]);
        assert_eq!(in_words(&loans, "x"), ["2 a40 to y_burst", ""]);
    }

    #[test]
    fn without_burst_nobody_lends() {
        let qoses = Database::parse("QOS=x Account=x GPUs=a40:4").unwrap().qoses;
        let usage = Usage { jobs: 1, tres: [("gres/gpu:a40".to_owned(), 3)].into(), ..Usage::default() };
        assert!(loans(&qoses, &[("normal".to_owned(), usage)].into(), &BTreeMap::new()).is_empty());
    }
}
