//! Requirements as lines to copy: the reason, slurmctld's current value if it differs, and the line.

use crate::requirements::{Bill, File, Met, Must, Requirement};
use crate::slurm::Slurm;

/// The lines of one file.
pub fn of(requirements: &[Requirement], file: File, slurm: &Slurm) -> String {
    requirements
        .iter()
        .filter(|requirement| requirement.file == file)
        .map(|requirement| line(requirement, slurm))
        .collect()
}

fn line(requirement: &Requirement, slurm: &Slurm) -> String {
    let Requirement { key, why, .. } = requirement;
    let settings = &slurm.settings;
    let why =
        if matches!(requirement.must, Must::Choice(_)) { why.clone() } else { format!("Without it, {why}") };
    // A cluster that doesn't exist yet has no current value.
    let now = match requirement.met(settings) {
        Met::No(said) if !slurm.nodes.is_empty() => format!(" Now: {said}."),
        _ => String::new(),
    };
    match requirement.line(settings) {
        Some(line) => format!("\n# {why}.{now}\n{line}\n"),
        None => match requirement.met(settings) {
            Met::Perhaps(said) => format!("\n# {why}. {key}: {said}.\n"),
            Met::Yes | Met::No(_) => String::new(),
        },
    }
}

/// The billing lines of partitions. A partition's line belongs to the site, so only a line for all partitions can be
/// printed as it is.
pub fn bills(bills: &[Bill]) -> String {
    let mut text = String::new();
    for Bill { partition, met, line, unknown } in bills {
        if text.is_empty() {
            text += "\n# What a second on a GPU counts, by its type, also for a job that names no type. A resource \
                     that is not in\n# the list counts nothing; you may add CPU=1.0 or Mem=0.25G. Restart slurmctld \
                     after a change: with a new type\n# in the list, scontrol reconfigure ends the slurmctld of \
                     22.05.\n";
        }
        if *unknown {
            text += "# Shares count nothing unless a partition that has them also has GRES/NAME=, the weight of a \
                     GPU divided by\n# UnitsPerGpu.\n";
        }
        text += &match (partition.as_str(), met) {
            ("DEFAULT", _) => {
                format!("# It applies to the partitions that follow.\nPartitionName=DEFAULT {line}\n")
            }
            (name, _) if *unknown => format!("# PartitionName={name}, with what its shares weigh: {line}\n"),
            (name, true) => format!("# PartitionName={name} has it: {line}\n"),
            (name, false) => format!("# Add to PartitionName={name}: {line}\n"),
        };
    }
    text
}

/// What spreads shares over nodes.
pub fn spread(partitions: &[&str]) -> String {
    let lines = partitions.iter().map(|name| format!("# Add to PartitionName={name}: LLN=YES\n"));
    let lines: String = lines.collect();
    if lines.is_empty() {
        return lines;
    }
    format!(
        "\n# Without it, Slurm fills one node with shares before it uses the next, and the last ones find no GPU with \
         enough\n# units while other nodes are empty. It also spreads the partition's other jobs.\n{lines}"
    )
}
