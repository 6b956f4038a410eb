//! The cluster's nodes and their GPUs, as they are today: they give a job's GPU its type if accounting doesn't, and the
//! replay its GPUs.

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
    pub all: Vec<OneNode>,
    by_name: HashMap<String, u32>,
    /// The numbers of each list of nodes that jobs had.
    lists: HashMap<Vec<u8>, Rc<[u32]>>,
}

impl Nodes {
    /// Reads the output of `scontrol -o show node`.
    pub fn read(text: &str) -> Nodes {
        let mut nodes = Nodes::default();
        for node in text.lines().filter_map(Node::read) {
            let at = nodes.number(&node.name);
            let gpus = node.gres.into_iter().filter(|(name, _, count)| name == "gpu" && *count > 0);
            let gpus = gpus.map(|(_, gres_type, count)| {
                (
                    gres_type.unwrap_or_default().to_ascii_lowercase(),
                    u32::try_from(count.min(1024)).unwrap_or(0),
                )
            });
            if let Some(one) = nodes.all.get_mut(at as usize) {
                one.gpus = gpus.collect();
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

    /// The type of all GPUs of these nodes, if they have one type.
    pub fn only_type(&self, numbers: &[u32]) -> Option<&str> {
        let mut types = numbers.iter().flat_map(|number| match self.get(*number) {
            Some(node) if !node.gpus.is_empty() => node.gpus.iter().map(|(name, _)| name.as_str()).collect(),
            // A node whose GPUs are unknown makes the type unknown.
            _ => vec![""],
        });
        let first = types.next().filter(|first| !first.is_empty())?;
        types.all(|other| other == first).then_some(first)
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
            assert_eq!(nodes.only_type(&numbers), expected, "{list}");
        }
        assert_eq!(nodes.all[0].gpus, [("a40".to_owned(), 4)]);
        assert_eq!(nodes.list(b"n2").as_ref(), [1]);
        assert_eq!((nodes.list(b"n[").len(), nodes.list(b"").len()), (1, 1));
    }
}
