//! Why there is nothing to show.

use gpushare_node::ledger::LedgerError;

use gpushare_slurm_run::ProgramError;
use gpushare_terminal::{clean, listed};

gpushare::errors! {
    /// An error in the command line, or what can't be read.
    #[derive(Debug)]
    pub enum StatusError {
        NoJob(word: String) =>
            "--jobs: '{}' is not a job's number; write nodes before --jobs", clean(word);
        NoNodes(hosts: Vec<String>) => "'{}' names no node", hosts.join(",");
        UnknownNodes(names: Vec<String>) => "the cluster has no {}; see sinfo -N", nodes(names);
        NoPartition { partition: String, there: Vec<String> } =>
            "no node is in a partition '{partition}'; partitions with nodes: {}", there.join(", ");
    } from {
        Program(ProgramError), Ledger(LedgerError)
    }
}

fn nodes(names: &[String]) -> String {
    format!("{} {}", if names.len() == 1 { "node" } else { "nodes" }, listed(names))
}
