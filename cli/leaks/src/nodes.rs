//! Which GPU types a job's nodes have, if that shows the type of its GPUs.
//!
//! If a type is in AccountingStorageTRES, accounting records it for every GPU that a job got, even if the job named no
//! type (Slurm from 21.08 on). For other GPUs, the nodes show the type if they all have the same one; otherwise it is
//! unknown.

use std::collections::HashMap;

use gpushare::text::hostlist;

use super::limits::Limits;
use gpushare_slurm_text::Node;
use gpushare_slurm_text::sacct::{Job, count, gpus};

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

/// Types in lowercase; `None` for GPUs without a type.
type Types = Vec<Option<String>>;

/// The types of each node.
#[derive(Debug, Default)]
pub struct Nodes {
    types: HashMap<String, Types>,
    /// Results for lists of nodes: by list and number of nodes.
    known: HashMap<(Vec<u8>, u32), Option<Types>>,
}

impl Nodes {
    /// Reads the output of `scontrol -o show node`, or slurm.conf: lines of `NodeName=LIST … Gres=…`.
    pub fn read(text: &str) -> Nodes {
        let mut types = HashMap::new();
        for node in text.lines().filter_map(Node::read) {
            let gpus = node.gres.into_iter().filter(|(name, _, count)| name == "gpu" && *count > 0);
            let gres_types: Vec<_> = gpus
                .map(|(_, gres_type, _)| gres_type.map(|gres_type| gres_type.to_ascii_lowercase()))
                .collect();
            for name in hostlist::names::all(&node.name).unwrap_or_default() {
                types.insert(name, gres_types.clone());
            }
        }
        Nodes { types, known: HashMap::new() }
    }

    /// All types on the nodes of a list; `None` if a node is unknown.
    fn types(&mut self, list: &[u8], number: u32) -> Option<Types> {
        let key = (list.to_vec(), number);
        if let Some(found) = self.known.get(&key) {
            return found.clone();
        }
        let found = self.look(&String::from_utf8_lossy(list), number);
        self.known.insert(key, found.clone());
        found
    }

    fn look(&self, list: &str, number: u32) -> Option<Types> {
        let names = hostlist::names::all(list)?;
        let of_each: Vec<_> = names.iter().map(|name| self.types.get(name)).collect::<Option<_>>()?;
        // A node with unknown GPUs makes the result unknown.
        if of_each.iter().any(|types| types.is_empty()) {
            return None;
        }
        let mut types: Types = of_each.into_iter().flatten().cloned().collect();
        types.sort();
        types.dedup();
        (u32::try_from(names.len()) == Ok(number) && number > 0).then_some(types)
    }

    /// How many GPUs of each limited type the job had.
    pub fn held(&mut self, job: &Job, limits: &Limits) -> Vec<Held> {
        let of = |list, gres_type: &str| -> u32 {
            gpus(list)
                .filter(|(found, _)| {
                    found.is_some_and(|found| found.eq_ignore_ascii_case(gres_type.as_bytes()))
                })
                .map(|(_, count)| count)
                .sum()
        };
        let all: u32 =
            gpus(job.given).filter(|(gres_type, _)| gres_type.is_none()).map(|(_, count)| count).sum();
        let typed: u32 =
            gpus(job.given).filter(|(gres_type, _)| gres_type.is_some()).map(|(_, count)| count).sum();
        let untold = all.saturating_sub(typed);
        let types = match untold {
            0 => None,
            _ => self.types(job.nodes, count(job.given, b"node").unwrap_or(0)),
        };
        let held = |gres_type: &String| {
            let told = of(job.given, gres_type);
            let (mut held, only) =
                (Held { sure: told, most: told, ..Held::default() }, Some(gres_type.clone()));
            // If accounting counted some GPUs of this type, it counted all of them.
            if untold > 0 && told == 0 {
                match types.as_deref() {
                    Some([one]) if *one == only => {
                        held = Held { sure: untold, most: untold, by_nodes: true, unseen: 0 }
                    }
                    Some(types) if !types.contains(&only) && !types.contains(&None) => {}
                    _ => held.most = untold,
                }
            }
            held.unseen = held.most.saturating_sub(of(job.asked, gres_type));
            held
        };
        limits.gres_types.iter().map(held).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::tests::tables;
    use super::*;

    const NODES: &str = "NodeName=a1 Gres=gpu:a40:4(S:0-1)\nNodeName=a2 Gres=gpu:A40:4\nNodeName=m1 \
                         Gres=gpu:a40:2,gpu:h100:2\nNodeName=h1 Gres=gpu:h100:4\nNodeName=v1 Gres=gpu:v100:4\n\
                         NodeName=u1 Gres=gpu:4\nNodeName=c1 Gres=(null)\n";

    /// The certain, most and unseen numbers for a40, then for h100.
    fn held(asked: &str, given: &str, nodes: &str) -> [(u32, u32, u32); 2] {
        let line = format!("1@u@a@q@p@{asked}@{given}@{nodes}@1@2@X@");
        let mut found = [(0, 0, 0); 2];
        gpushare_slurm_text::sacct::read(&mut line.as_bytes(), b"@", |job| {
            let held = Nodes::read(NODES).held(job, &Limits::of(&tables().read().into()));
            found = [held[0], held[1]].map(|one| (one.sure, one.most, one.unseen));
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
            assert_eq!(held(asked, given, nodes), expected, "{asked} {given} {nodes}");
        }
    }

    #[test]
    fn slurm_conf_is_read_with_what_it_includes() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("slurm.conf", "ClusterName=x # a name\ninclude nodes.conf\nNodeName=b \\\n  Gres=gpu:h100:2\n");
        write("nodes.conf", "NodeName=a[1-2] Gres=gpu:a40:4\n");
        let mut nodes = Nodes::read(
            &gpushare_slurm_run::file::ConfFile::read(&folder.path().join("slurm.conf"))
                .unwrap()
                .lines
                .join("\n"),
        );
        assert_eq!(nodes.types(b"b", 1), Some(vec![Some("h100".to_owned())]));
        assert_eq!(nodes.types(b"a[1-2]", 2), Some(vec![Some("a40".to_owned())]));
    }
}
