//! `gpushare metrics`: this machine's metrics for Prometheus, through node_exporter's textfile collector.
//!
//! Read → sum → write. The node's side has what `gpushare status` reads, as counts: labels name no jobs or users. The
//! controller's side has the counts of slurmctld's plugin. A machine may be one of them, both or neither. If something
//! can't be read, the command reports and omits it, sets `gpushare_up` to 0, and still writes the rest, so no old
//! figure passes for a new one. It leaves the GPUs' memory and utilization to NVIDIA's own exporters.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;
use gpushare::counter_file;
use gpushare::submit::counters::{self, Outcome};
use gpushare_node::config::Placement;
use gpushare_node::foreign::Jobs;
use gpushare_node::gpu::{Detail, Gpu, Unfit};
use gpushare_node::ledger::figures::{self, Counts, Used};
use gpushare_node::ledger::{Entry, Ledger, Listing};
use gpushare_node::mps::inspect::Seen;
use gpushare_node::nvml::Nvml;
use gpushare_node::nvml::answer::Measured;

use gpushare_machine::local::{self, GpuTotal};
use gpushare_machine::textfile::{self, TextfileError};
use gpushare_slurm_run as slurm;
use gpushare_terminal::{Answer, FileError, complain};

mod idle;
mod text;

/// The command line of `gpushare metrics`.
#[derive(Args)]
#[command(
    after_help = "Exit status: 0, or 1 if something can't be read or written; it still prints everything else, \
                        with gpushare_up 0."
)]
pub struct Arguments {
    /// Write to this file, all at once, instead of standard output; its name must end in .prom
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The rules [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]
    #[arg(long, value_name = "PATH")]
    conf: Option<PathBuf>,
}

/// The facts to print.
#[derive(Default)]
struct Facts {
    /// gpushare.conf is broken.
    config_error: bool,
    /// The sources, and whether each could be read.
    sources: Vec<(&'static str, bool)>,
    node: Option<Node>,
    /// The ledger's counts.
    counts: Option<Counts>,
    /// The plugin's counts.
    outcomes: Vec<(&'static str, Outcome, u64)>,
}

/// The facts of a machine with GPUs.
struct Node {
    gpus: Vec<GpuTotal>,
    entries: Vec<Entry>,
    /// The GPUs that Slurm counts, with what is wrong with them.
    details: Vec<Detail>,
    /// Whether faults would be known: not if NVML should answer but didn't.
    is_health_known: bool,
    /// Jobs that can't run here.
    failures: usize,
    /// Entries that can't be read.
    unreadable: usize,
    daemons: Vec<Seen>,
    /// When jobs used their GPUs.
    used: Vec<Used>,
}

impl Facts {
    /// Returns what was read, or reports why it wasn't.
    fn take<T>(&mut self, source: &'static str, read: Result<T, impl std::fmt::Display>) -> Option<T> {
        self.sources.push((source, read.is_ok()));
        read.map_err(|error| complain(format!("{source}: {error}"))).ok()
    }

    fn is_complete(&self) -> bool {
        self.sources.iter().all(|(_, read)| *read)
    }
}

/// The text to print, unless a file is named.
///
/// # Errors
/// The file's name is wrong, or it can't be written.
pub fn run(arguments: &Arguments) -> Result<Answer, TextfileError> {
    if let Some(out) = &arguments.out {
        textfile::check_name(out)?;
    }
    let facts = gather(arguments.conf.as_deref(), &Ledger::system());
    let complete = facts.is_complete();
    let before = || textfile::last_success(arguments.out.as_deref()?, text::LAST_SUCCESS);
    let success = if complete { Some(local::now()) } else { before() };
    let text = text::exposition(&facts, success);
    let status = u8::from(!complete);
    match &arguments.out {
        None => Ok(Answer { text, status }),
        Some(out) => {
            textfile::write(out, &text)?;
            Ok(Answer { text: String::new(), status })
        }
    }
}

fn gather(conf: Option<&Path>, ledger: &Ledger) -> Facts {
    let mut facts = Facts::default();
    let read = facts.take("conf", local::config(conf)).map(Option::unwrap_or_default);
    facts.config_error = read.is_none();
    let Some(config) = read else { return facts };
    if let Some(path) = &config.refusal_counts {
        let names = counters::names();
        match counter_file::read(path, &names) {
            // slurmctld's folder in /run exists while slurmctld runs; without it, another machine is the controller.
            Err(error) if error.kind() == ErrorKind::NotFound && !path.parent().is_some_and(Path::exists) => {
            }
            read => {
                let counts = facts.take("refusals", read.map_err(FileError::of(path))).unwrap_or_default();
                let every = counters::all().into_iter().zip(counts);
                facts.outcomes = every.map(|((number, outcome), count)| (number, outcome, count)).collect();
            }
        }
    }
    // All machines have the same gpushare.conf; one that never had a share and has no GPU isn't a node.
    let was_used = ledger.is_there();
    if config.of_node(&slurm::host()).placement == Placement::Off && !was_used {
        return facts;
    }
    let mut complaints = Vec::new();
    let node = local::node(conf, ledger, &mut complaints);
    complaints.iter().for_each(complain);
    if node.is_ok() || was_used {
        let node = facts.take("gpus", node).unwrap_or_default();
        read_node(&mut facts, node, ledger);
    }
    facts
}

fn read_node(facts: &mut Facts, node: local::Node, ledger: &Ledger) {
    let local::Node { details, units, nvml, daemons, sessions } = node;
    facts.counts = facts.take("counts", figures::counts(ledger));
    let (measured, is_health_known) = match nvml.map(Nvml::measured) {
        Some(Err(trouble)) if trouble.is_absence() => (Measured::default(), true),
        None => (Measured::default(), true),
        Some(read) => {
            let measured = facts.take("nvml", read);
            let known = measured.is_some();
            (measured.unwrap_or_default(), known)
        }
    };
    // Read after NVML, so that every job that NVML has seen has an entry.
    let listed = facts.take("ledger", local::list_of_one_moment(ledger));
    let Some(Listing { entries, failures, garbage, .. }) = listed else { return };
    let mut gpus = local::totals(&details, &units, &entries, &measured);
    let jobs = Jobs { entries: &entries, mps: sessions.as_deref() };
    local::find_foreign(&mut gpus, &jobs);
    let used = idle::look(ledger, &jobs, |gpu| measured.of(gpu));
    facts.node = Some(Node {
        gpus,
        entries,
        details,
        is_health_known,
        failures: failures.len(),
        unreadable: garbage.len(),
        daemons,
        used,
    });
}

impl Node {
    /// The longest time that a job on a GPU was not seen to use it.
    fn idle(&self, gpu: &Gpu) -> Option<u64> {
        let here = |used: &&Used| {
            let is_it = |entry: &Entry| entry.key == used.key && entry.is_on(gpu);
            used.minor == gpu.number.minor && self.entries.iter().any(is_it)
        };
        self.used.iter().filter(here).map(Used::idle).max()
    }

    fn users<'a>(entries: impl Iterator<Item = &'a Entry>) -> usize {
        entries.map(|entry| entry.user_id).collect::<BTreeSet<u32>>().len()
    }

    fn unfit(&self, total: &GpuTotal) -> Option<&Unfit> {
        self.details.iter().find(|detail| detail.index == total.gpu.index)?.unfit.as_ref()
    }
}

#[cfg(test)]
mod tests;
