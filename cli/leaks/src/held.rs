//! How many GPUs of each limited type a job had: as accounting says, or else its nodes, if these show it.

use std::collections::HashMap;

use super::limits::Limits;
use gpushare_history::nodes::Nodes;
use gpushare_slurm_text::sacct::{Row, gpus};

/// The GPUs of one type that a job had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// How many for certain.
    pub sure: u32,
    /// How many at most.
    pub most: u32,
    /// How many of them the job's limits were not tested with.
    pub unseen: u32,
    /// Known from its nodes, not from accounting.
    pub by_nodes: bool,
}

/// Of each limited type.
pub fn held<'l>(nodes: &mut Nodes, job: &Row, limits: &'l Limits) -> HashMap<&'l str, Held> {
    let sum = |list, wanted: &dyn Fn(Option<&[u8]>) -> bool| -> u32 {
        gpus(list).filter(|(found, _)| wanted(*found)).map(|(_, count)| count).sum()
    };
    let of = |list, wanted: &str| {
        sum(list, &|found| found.is_some_and(|found| found.eq_ignore_ascii_case(wanted.as_bytes())))
    };
    let typed = sum(job.given, &|found| found.is_some());
    let untold = sum(job.given, &|found| found.is_none()).saturating_sub(typed);
    let numbers = (untold > 0).then(|| nodes.list(job.nodes));
    let types = numbers.and_then(|numbers| nodes.types(&numbers));
    let one = |gres_type: &'l String| {
        let told = of(job.given, gres_type);
        let mut held = Held { sure: told, most: told, ..Held::default() };
        // If accounting counted some GPUs of this type, it counted all of them.
        if untold > 0 && told == 0 {
            match types.as_deref() {
                Some([only]) if only == gres_type => {
                    held = Held { sure: untold, most: untold, by_nodes: true, unseen: 0 }
                }
                Some(types) if !types.contains(&gres_type.as_str()) && !types.contains(&"") => {}
                _ => held.most = untold,
            }
        }
        held.unseen = held.most.saturating_sub(of(job.asked, gres_type));
        (gres_type.as_str(), held)
    };
    limits.gres_types.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::super::limits::tests::tables;
    use super::*;
    use gpushare_slurm_text::sacct::{self, Wanted};

    const NODES: &str = "NodeName=a1 Gres=gpu:a40:4(S:0-1)\nNodeName=a2 Gres=gpu:A40:4\nNodeName=m1 \
                         Gres=gpu:a40:2,gpu:h100:2\nNodeName=h1 Gres=gpu:h100:4\nNodeName=v1 Gres=gpu:v100:4\n\
                         NodeName=u1 Gres=gpu:4\nNodeName=c1 Gres=(null)\n";

    /// The certain, most and unseen numbers for a40, then for h100.
    fn told(asked: &str, given: &str, nodes: &str) -> [(u32, u32, u32); 2] {
        let line = format!("1@u@a@q@p@{asked}@{given}@{nodes}@1@2@X@");
        let mut found = [(0, 0, 0); 2];
        sacct::read(&mut line.as_bytes(), b"@", Wanted::Requests, |job| {
            let limits = Limits::of(&tables().read().into());
            let held = held(&mut Nodes::read(NODES), job, &limits);
            found = [held["a40"], held["h100"]].map(|one| (one.sure, one.most, one.unseen));
        })
        .unwrap();
        found
    }

    #[test]
    fn types_come_from_accounting_then_from_nodes_and_are_never_guessed() {
        let none = (0, 0, 0);
        for (asked, given, nodes, expected) in [
            // Accounting has the type, so the nodes don't matter.
            ("gres/gpu=2", "gres/gpu:a40=2,gres/gpu=2,node=1", "m1", [(2, 2, 2), none]),
            ("gres/gpu:a40=2,gres/gpu=2", "gres/gpu:a40=2,gres/gpu=2,node=1", "m1", [(2, 2, 0), none]),
            ("gres/gpu:a40=2,gres/gpu=2", "gres/gpu:a40=4,gres/gpu=4,node=1", "m1", [(4, 4, 2), none]),
            ("gres/gpu=4", "gres/gpu:a40=2,gres/gpu:h100=2,gres/gpu=4,node=1", "m1", [(2, 2, 2), (2, 2, 2)]),
            // The type wasn't a TRES then, but the nodes show it.
            ("gres/gpu=4", "gres/gpu=4,node=2", "a[1-2]", [(4, 4, 4), none]),
            ("gres/gpu=4", "gres/gpu=4,node=1", "h1", [none, (4, 4, 4)]),
            ("gres/gpu=4", "gres/gpu=4,node=1", "v1", [none, none]),
            // The nodes don't show it.
            ("gres/gpu=2", "gres/gpu=2,node=1", "m1", [(0, 2, 2), (0, 2, 2)]),
            ("gres/gpu=2", "gres/gpu=2,node=2", "a1,h1", [(0, 2, 2), (0, 2, 2)]),
            ("gres/gpu=2", "gres/gpu=2,node=1", "u1", [(0, 2, 2), (0, 2, 2)]),
            ("gres/gpu=2", "gres/gpu=2,node=1", "c1", [(0, 2, 2), (0, 2, 2)]),
            ("gres/gpu=2", "gres/gpu=2,node=1", "gone", [(0, 2, 2), (0, 2, 2)]),
            ("gres/gpu=2", "gres/gpu=2,node=3", "a[1-3]", [(0, 2, 2), (0, 2, 2)]),
            // Some GPUs have a counted type, the others have one that isn't counted.
            ("gres/gpu=4", "gres/gpu:a40=2,gres/gpu=4,node=1", "m1", [(2, 2, 2), (0, 2, 2)]),
        ] {
            assert_eq!(told(asked, given, nodes), expected, "{asked} {given} {nodes}");
        }
    }
}
