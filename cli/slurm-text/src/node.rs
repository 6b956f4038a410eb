//! Nodes and their GPUs, from `scontrol show node`, with or without `-d` and `-o`. No user can write anything into it.

use gpushare::text::gres::{self, NodeGres};

use crate::{Gres, Question, Tres, value, words};

/// Asks for all nodes.
pub const NODES: Question = ("scontrol", &["-a", "-d", "show", "node"]);
/// The command that prints all nodes, also those that don't exist yet, a line each and without `used`.
pub const ALL_NODES: Question = ("scontrol", &["-a", "-o", "--future", "show", "node"]);

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// `Gres=`, such as `(gpu, Some(a40), 4)`.
    pub gres: Vec<NodeGres>,
    /// `GresUsed=`: what jobs have; only with `-d`.
    pub used: Vec<Gres>,
    /// `CfgTRES=`: of types without capitals, those that `Gres=` in slurm.conf names.
    pub configured: Tres,
    /// `AllocTRES=`
    pub allocated: Tres,
    /// Its partitions.
    pub partitions: Vec<String>,
    /// Its slurmd's version, such as 24.11.5; empty until the slurmd has contacted slurmctld.
    pub version: String,
    /// Such as `IDLE+DRAIN`.
    pub state: String,
    /// Why it is out of service, who did that and when: `GPU 2 is hot [root@2026-11-24T19:00:00]`.
    pub reason: Option<String>,
    /// `ThreadsPerCore=`; 0 if it isn't said.
    pub threads_per_core: u64,
}

impl Node {
    /// Reads what Slurm prints about one node.
    pub fn read(text: &str) -> Option<Node> {
        let said = |key| value(text, key).unwrap_or_default();
        Some(Node {
            name: value(text, "NodeName")?.to_owned(),
            gres: gres::read(said("Gres")),
            used: Gres::read(said("GresUsed")),
            configured: Tres::read(said("CfgTRES")),
            allocated: Tres::read(said("AllocTRES")),
            partitions: words(said("Partitions")),
            version: said("Version").to_owned(),
            // A node that registered itself (slurmd -Z) is used like any other.
            state: said("State").replace("+DYNAMIC_NORM", "").replace("+DYNAMIC_FUTURE", ""),
            reason: reason(text),
            threads_per_core: said("ThreadsPerCore").parse().unwrap_or(0),
        })
    }

    /// The reason alone.
    pub fn why(&self) -> Option<&str> {
        let reason = self.reason.as_deref()?;
        let parts = reason.rsplit_once(" [").filter(|(_, by)| by.ends_with(']'));
        Some(parts.map_or(reason, |(why, _)| why))
    }

    /// How many of a GRES slurmctld counts there, of all types.
    pub fn count(&self, gres: &str) -> u64 {
        self.gres.iter().filter(|(name, ..)| name == gres).map(|(.., count)| count).sum()
    }

    /// Whether it has any.
    pub fn has(&self, gres: &str) -> bool {
        self.count(gres) > 0
    }

    /// Whether it spells a type of GPUs so: Slurm gives them only to requests with the same letters.
    pub fn spells(&self, gres_type: &str) -> bool {
        self.gres.iter().any(|(name, known, _)| name == "gpu" && known.as_deref() == Some(gres_type))
    }

    /// The type of its GPU with this index, in lowercase: as Slurm says of a GPU in use, or if the node has only one.
    /// `None` if that is unknown or the GPU has none.
    pub fn type_of(&self, index: u32) -> Option<String> {
        let mut gpus = self.used.iter().filter(|used| used.name == "gpu" && used.gres_type.is_some());
        let used = gpus.find(|used| used.indexes().contains(&index));
        let said = used.and_then(|used| Some(used.gres_type.as_ref()?.to_ascii_lowercase()));
        said.or_else(|| self.only_type("gpu"))
    }

    /// Whether it has GPUs without a type, as slurmctld knows it.
    pub fn has_untyped_gpus(&self) -> bool {
        self.gres.iter().any(|(name, gres_type, _)| name == "gpu" && gres_type.is_none())
    }

    /// The type of all of a GRES on it, in lowercase, if they have the same.
    pub fn only_type(&self, name: &str) -> Option<String> {
        let mut types =
            self.gres.iter().filter(|(known, ..)| known == name).map(|(_, gres_type, _)| gres_type);
        let first = types.next()?.as_deref()?;
        let is_it = |other: &str| other.eq_ignore_ascii_case(first);
        types.all(|other| other.as_deref().is_some_and(is_it)).then(|| first.to_ascii_lowercase())
    }
}

/// Reads all nodes.
pub fn read(text: &str) -> Vec<Node> {
    let mut texts: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.starts_with("NodeName=") {
            texts.push(String::new());
        }
        if let Some(text) = texts.last_mut() {
            text.push_str(line);
            text.push('\n');
        }
    }
    texts.iter().filter_map(|text| Node::read(text)).collect()
}

/// The reason may have several words; in the one-line form, the text after it begins with one of these.
fn reason(text: &str) -> Option<String> {
    let (_, text) = text.split_once(" Reason=")?;
    let keys =
        "Comment Extra InstanceId InstanceType Parameters ReservationName ResvName TLSCertTokenSet Topology";
    let of_key = |key: &str| text.find(&format!(" {key}="));
    let end = keys.split(' ').filter_map(of_key).chain(text.find('\n')).min().unwrap_or(text.len());
    text.get(..end).map(|text| text.trim().to_owned())
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
        let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["m1", "n1", "u"]);
        let types = |at: usize| [0, 1, 2].map(|index| nodes[at].type_of(index));
        let of = |name: &str| Some(name.to_owned());
        // Not in the order of the list: gres.conf's lines may have another.
        assert_eq!(types(0), [of("h100"), None, of("a40")]);
        assert_eq!(types(1), [of("a40"), of("a40"), of("a40")]);
        assert_eq!(types(2), [None, None, None]);
        assert_eq!((nodes[0].threads_per_core, nodes[1].threads_per_core), (2, 0));
        assert_eq!(nodes[1].only_type("mps"), of("a40"));
        assert!(read("slurm_load_node error\n").is_empty());
    }

    #[test]
    fn a_node_is_read_with_its_gres_and_partitions() {
        let read =
            |text: &str| Node::read(&format!("NodeName=n1 Gres={text} NodeAddr=x Partitions=p,q")).unwrap();
        assert_eq!(read("(null)").gres, []);
        assert_eq!(read("gpu:a40:4(S:0,1),mps:1K").gres.len(), 2);
        assert_eq!((read("x").partitions, read("x").version), (words("p,q"), String::new()));
        assert_eq!(read("x Version=24.11.5").version, "24.11.5");
        assert_eq!((read("x State=IDLE+DRAIN").state.as_str(), read("x").reason), ("IDLE+DRAIN", None));
        let reason = "GPU [2] is hot [root@2026-11-24T19:00:00]";
        for after in [
            "",
            " ",
            "\n   Comment=a",
            " Comment=a b",
            " Extra=x ResvName=r",
            " ReservationName=m Topology=default:s1",
        ] {
            let read = Node::read(&format!("NodeName=n1 Reason={reason}{after}")).unwrap();
            assert_eq!(read.reason.as_deref(), Some(reason), "{after}");
        }
    }
}
