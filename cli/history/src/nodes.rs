//! The cluster's nodes and their GPUs, as they are today: they give a job's GPUs their type if accounting doesn't, and
//! `gpushare fit` the GPUs of its replay.
//!
//! If a type is in AccountingStorageTRES, accounting records it for every GPU that a job got, even if the job named no
//! type (Slurm from 21.08 on). For other GPUs, the nodes show the type if they all have the same one; otherwise it is
//! unknown.

use std::collections::HashMap;
use std::rc::Rc;

use gpushare::text::hostlist;
use gpushare_slurm_text::Node;

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OneNode {
    /// Its name.
    pub name: String,
    /// Its GPUs: the type in lowercase, empty without one; and how many.
    pub gpus: Vec<(String, u32)>,
}

/// Nodes by number: those that exist, then those that only accounting knows.
#[derive(Debug, Default)]
pub struct Nodes {
    /// All of them.
    pub all: Vec<OneNode>,
    by_name: HashMap<String, u32>,
    /// The numbers of each list of nodes that jobs had.
    lists: HashMap<Vec<u8>, Rc<[u32]>>,
}

impl Nodes {
    /// Reads lines of `NodeName=LIST … Gres=…`.
    pub fn read(text: &str) -> Nodes {
        let mut nodes = Nodes::default();
        for node in text.lines().filter_map(Node::read) {
            let gpus = node.gres.into_iter().filter(|(name, _, count)| name == "gpu" && *count > 0);
            // No node has more.
            let count = |count: u64| u32::try_from(count.min(1024)).unwrap_or(0);
            let gpus =
                gpus.map(|(_, of, number)| (of.unwrap_or_default().to_ascii_lowercase(), count(number)));
            let gpus: Vec<_> = gpus.collect();
            for at in nodes.list(node.name.as_bytes()).iter() {
                nodes.all.get_mut(*at as usize).into_iter().for_each(|one| one.gpus.clone_from(&gpus));
            }
        }
        nodes
    }

    fn number(&mut self, name: &str) -> u32 {
        if let Some(found) = self.by_name.get(name) {
            return *found;
        }
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.by_name.insert(name.to_owned(), number);
        self.all.push(OneNode { name: name.to_owned(), gpus: Vec::new() });
        number
    }

    /// The numbers of the nodes in a list; one that can't be read counts as one node.
    pub fn list(&mut self, list: &[u8]) -> Rc<[u32]> {
        if let Some(found) = self.lists.get(list) {
            return Rc::clone(found);
        }
        let text = String::from_utf8_lossy(list);
        let names = hostlist::names::all(&text).unwrap_or_else(|| vec![text.to_string()]);
        let found: Rc<[u32]> = names.iter().map(|name| self.number(name)).collect();
        self.lists.insert(list.to_vec(), Rc::clone(&found));
        found
    }

    /// A node.
    pub fn get(&self, number: u32) -> Option<&OneNode> {
        self.all.get(number as usize)
    }

    /// The types of all GPUs of these nodes, empty for those without one; `None` if a node's are unknown.
    pub fn types(&self, numbers: &[u32]) -> Option<Vec<&str>> {
        let of = |number: &u32| self.get(*number).filter(|node| !node.gpus.is_empty());
        let nodes: Vec<&OneNode> = numbers.iter().map(of).collect::<Option<_>>()?;
        let mut types: Vec<&str> =
            nodes.iter().flat_map(|node| &node.gpus).map(|(name, _)| name.as_str()).collect();
        types.sort_unstable();
        types.dedup();
        Some(types)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_tell_a_type_only_if_they_have_one() {
        let mut nodes = Nodes::read(
            "NodeName=n1 Gres=gpu:A40:4(S:0-1),mps:400\nNodeName=n2 Gres=gpu:a40:2\n\
             NodeName=m1 Gres=gpu:a40:2,gpu:t4:1\nNodeName=u1 Gres=gpu:4\nNodeName=c1 Gres=(null)\n",
        );
        for (list, expected) in [
            ("n1", Some("a40")),
            ("n[1-2]", Some("a40")),
            ("m1", None),
            ("n1,m1", None),
            ("u1", None),
            ("c1", None),
            ("n1,gone", None),
            ("None assigned", None),
            ("n[", None),
        ] {
            let numbers = nodes.list(list.as_bytes());
            let only = nodes.types(&numbers).filter(|types| types.len() == 1 && !types[0].is_empty());
            assert_eq!(only.map(|types| types[0]), expected, "{list}");
        }
        assert_eq!(nodes.all[0].gpus, [("a40".to_owned(), 4)]);
        assert_eq!(nodes.list(b"n2").as_ref(), [1]);
        assert_eq!((nodes.list(b"n[").len(), nodes.list(b"").len()), (1, 1));
    }
}
