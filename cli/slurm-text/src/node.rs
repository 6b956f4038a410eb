//! Nodes and their GPUs, from `scontrol show node -d`. No user can write anything into it.

use std::collections::HashMap;

use gpushare::text::gres;

use crate::Question;
use crate::record::Gres;

/// Asks for all nodes.
pub const NODES: Question = ("scontrol", &["-a", "-d", "show", "node"]);

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// `Gres=`: name, type in lowercase, count.
    pub gres: Vec<(String, Option<String>, u64)>,
    /// Types of the GPUs in use, by index.
    used: HashMap<u32, String>,
    /// `ThreadsPerCore=`
    pub threads_per_core: u64,
}

impl Default for Node {
    fn default() -> Node {
        Node { gres: Vec::new(), used: HashMap::new(), threads_per_core: 1 }
    }
}

impl Node {
    /// The type of its GPU with this index, in lowercase: as Slurm says of a GPU in use, or if the node has only one.
    /// `None` if that is unknown or the GPU has none.
    pub fn type_of(&self, index: u32) -> Option<&str> {
        self.used.get(&index).map(String::as_str).or_else(|| self.only_type("gpu"))
    }

    /// The type of all of a GRES on it, if they have the same.
    pub fn only_type(&self, name: &str) -> Option<&str> {
        let mut types =
            self.gres.iter().filter(|(known, ..)| known == name).map(|(_, gres_type, _)| gres_type);
        let first = types.next()?.as_deref()?;
        types.all(|other| other.as_deref() == Some(first)).then_some(first)
    }
}

/// Reads all nodes, by name.
pub fn read(text: &str) -> HashMap<String, Node> {
    let mut nodes: HashMap<String, Node> = HashMap::new();
    let mut current: Option<(String, Node)> = None;
    for line in text.lines() {
        if line.starts_with("NodeName=") {
            nodes.extend(current.take());
            current = crate::word(line, "NodeName").map(|name| (name.to_owned(), Node::default()));
        }
        let Some((_, node)) = &mut current else { continue };
        let line = line.trim_start();
        if let Some(list) = line.strip_prefix("Gres=") {
            let lower = |gres_type: Option<String>| gres_type.map(|name| name.to_ascii_lowercase());
            node.gres =
                gres::read(list).into_iter().map(|(name, kind, count)| (name, lower(kind), count)).collect();
        } else if let Some(list) = line.strip_prefix("GresUsed=") {
            for used in Gres::read(list).into_iter().filter(|used| used.name == "gpu") {
                let Some(gres_type) = used.gres_type else { continue };
                node.used.extend(used.indexes.iter().map(|index| (*index, gres_type.clone())));
            }
        } else if let Some(threads) = crate::word(line, "ThreadsPerCore") {
            node.threads_per_core = threads.parse().unwrap_or(1).max(1);
        }
    }
    nodes.extend(current);
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_has_the_type_that_its_node_says() {
        let text = "NodeName=m1 Arch=x86_64 CoresPerSocket=32 \n   Gres=gpu:A40:2(S:0),gpu:h100:2\n   GresDrain=N/A\n\
                    \u{20}  \
                    GresUsed=gpu:A40:1(IDX:2),gpu:h100:1(IDX:0)\n   State=MIXED ThreadsPerCore=2 TmpDisk=100\n\n\
                    NodeName=n1\n   Gres=gpu:a40:4,mps:a40:400\n   GresUsed=gpu:a40:0(IDX:N/A)\n\nNodeName=u\n   \
                    Gres=gpu:4\n";
        let nodes = read(text);
        let types = |name: &str| [0, 1, 2].map(|index| nodes[name].type_of(index));
        // Not in the order of the list: gres.conf's lines may have another.
        assert_eq!(types("m1"), [Some("h100"), None, Some("a40")]);
        assert_eq!(types("n1"), [Some("a40"); 3]);
        assert_eq!(types("u"), [None; 3]);
        assert_eq!((nodes["m1"].threads_per_core, nodes["n1"].threads_per_core), (2, 1));
        assert_eq!(nodes["n1"].only_type("mps"), Some("a40"));
        assert!(read("slurm_load_node error\n").is_empty());
    }
}
