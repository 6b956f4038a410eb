//! The facts in Prometheus' text format, version 0.0.4: one family of samples after another, each with its meaning.
//! Names and units follow Prometheus' conventions; docs/metrics.md lists them. Decides nothing.

use gpushare::submit::counters::Outcome;
use gpushare_node::gpu::Unfit;
use gpushare_node::ledger::Event;
use gpushare_node::mps::service::On;

use super::{Facts, Node};
use gpushare_machine::local::GpuTotal;
use gpushare_machine::textfile::Text;

/// The name of the time of the last run that could read everything.
pub const LAST_SUCCESS: &str = "gpushare_last_success_timestamp_seconds";

/// The whole text. `success` is the time of the last run that could read everything, if known.
pub fn exposition(facts: &Facts, success: Option<u64>) -> String {
    let mut text = Text::default();
    let version = env!("CARGO_PKG_VERSION");
    let help = "The version of gpushare, as a label; always 1.";
    text.family(("gpushare_build_info", "gauge", help), [(vec![("version", version)], 1)]);
    let help = "Whether everything about this machine could be read.";
    text.gauge("gpushare_up", help, u8::from(facts.is_complete()));
    let help = "Whether this could be read: conf, gpus, ledger, counts, nvml, refusals.";
    let sources = facts.sources.iter().map(|(source, read)| (vec![("source", *source)], u8::from(*read)));
    text.family(("gpushare_source_up", "gauge", help), sources);
    let help = "Whether gpushare.conf is broken; then slurmctld keeps its last good rules, and jobs with GPUs fail on \
                nodes.";
    text.gauge("gpushare_config_error", help, u8::from(facts.config_error));
    if let Some(success) = success {
        let help = "The last time that everything could be read, in seconds since 1970.";
        text.gauge(LAST_SUCCESS, help, success);
    }
    if let Some(node) = &facts.node {
        gpus(&mut text, node);
        jobs(&mut text, node);
        daemons(&mut text, node);
    }
    placements(&mut text, facts);
    messages(&mut text, facts);
    text.0
}

fn gpus(text: &mut Text, node: &Node) {
    let of = |total: &GpuTotal| (total.gpu.index.to_string(), total.gpu.uuid.clone().unwrap_or_default());
    let names: Vec<(String, String)> = node.gpus.iter().map(of).collect();
    let mut each = |name: &str, help: &str, value: &dyn Fn(&GpuTotal) -> Option<u64>| {
        let samples = node.gpus.iter().zip(&names).filter_map(|(total, (index, uuid))| {
            Some((vec![("gpu", index.as_str()), ("uuid", uuid.as_str())], value(total)?))
        });
        text.family((name, "gauge", help), samples);
    };
    each("gpushare_gpu_units_assigned", "Units of this GPU that jobs have as shares.", &|total| {
        Some(total.units)
    });
    each("gpushare_gpu_units_capacity", "Units that fill this GPU.", &|total| total.capacity.map(u64::from));
    each("gpushare_gpu_jobs", "Jobs that have a share of this GPU, or have it whole.", &|total| {
        Some(node.entries.iter().filter(|entry| entry.is_on(&total.gpu)).count() as u64)
    });
    each("gpushare_gpu_users", "Users whose jobs are on this GPU.", &|total| {
        Some(Node::users(node.entries.iter().filter(|entry| entry.is_on(&total.gpu))) as u64)
    });
    each("gpushare_gpu_whole", "Whether a job has this GPU whole.", &|total| Some(total.whole.into()));
    let help = "Whether MIG is enabled on this GPU, which then takes no shares.";
    each("gpushare_gpu_mig_enabled", help, &|total| {
        Some((node.unfit(total) == Some(&Unfit::MigEnabled)).into())
    });
    let help = "Whether an administrator took this GPU out of service; it then takes no shares.";
    each("gpushare_gpu_drained", help, &|total| Some(total.drain.is_some().into()));
    let help = "Whether NVML reports no fault of this GPU; with a fault it takes no shares.";
    each("gpushare_gpu_healthy", help, &|total| {
        node.is_health_known.then(|| total.state.fault.is_none().into())
    });
    let help = "Processes on this GPU that bypass the MPS daemons of its shares, and so run without limits.";
    each("gpushare_gpu_processes_without_mps", help, &|total| {
        total.without_mps(&node.daemons).map(u64::from)
    });
    let help = "Foreign processes: they compute on this GPU but are in none of its jobs.";
    each("gpushare_gpu_foreign_processes", help, &|total| {
        total.foreign.as_ref().map(|found| found.len() as u64)
    });
    let help = "The longest time that a job on this GPU was not seen to use it, up to the last check.";
    each("gpushare_gpu_idle_seconds", help, &|total| node.idle(&total.gpu));
    let missing = node.details.iter().filter(|detail| detail.number.is_none()).count();
    text.gauge("gpushare_gpus", "GPUs that exist on this node.", node.gpus.len());
    text.gauge("gpushare_gpus_missing", "GPUs that are listed for this node but missing.", missing);
    text.family(
        ("gpushare_gpu_info", "gauge", "Names of this GPU, as labels; always 1."),
        node.gpus.iter().zip(&names).zip(paths(node).iter()).map(|((_, (index, uuid)), (device, minor))| {
            let labels = [("gpu", index), ("uuid", uuid), ("device", device), ("minor", minor)];
            (labels.map(|(name, value)| (name, value.as_str())).to_vec(), 1)
        }),
    );
}

fn paths(node: &Node) -> Vec<(String, String)> {
    let of = |total: &GpuTotal| (total.gpu.path.display().to_string(), total.gpu.number.minor.to_string());
    node.gpus.iter().map(of).collect()
}

fn jobs(text: &mut Text, node: &Node) {
    let Node { entries, failures, unreadable, .. } = node;
    text.gauge("gpushare_jobs", "Jobs with a share or a whole GPU on this node.", entries.len());
    text.gauge("gpushare_users", "Users of these jobs.", Node::users(entries.iter()));
    text.gauge("gpushare_failed_jobs", "Jobs that failed on this node and have not left it yet.", failures);
    text.gauge("gpushare_unreadable_entries", "Files in the ledger that can't be read.", unreadable);
}

/// Counted by state and not by user, because users come and go.
fn daemons(text: &mut Text, node: &Node) {
    let mut rows = Vec::new();
    for total in &node.gpus {
        let here = || node.daemons.iter().filter(|seen| seen.daemon.on == On::Gpu(total.gpu.number.minor));
        if here().next().is_none() {
            continue;
        }
        let running = here().filter(|seen| seen.pid.is_some() && seen.stuck.is_none()).count();
        let stuck = here().filter(|seen| seen.stuck.is_some()).count();
        let stopped = here().filter(|seen| seen.pid.is_none()).count();
        let (index, uuid) = (total.gpu.index.to_string(), total.gpu.uuid.clone().unwrap_or_default());
        for (state, count) in [("running", running), ("stuck", stuck), ("stopped", stopped)] {
            rows.push((index.clone(), uuid.clone(), state, count));
        }
    }
    let help = "MPS daemons of this GPU: running; stuck, can't answer; stopped, its process is gone.";
    text.family(
        ("gpushare_mps_daemons", "gauge", help),
        rows.iter().map(|(index, uuid, state, count)| {
            (vec![("gpu", index.as_str()), ("uuid", uuid.as_str()), ("state", *state)], count)
        }),
    );
}

fn placements(text: &mut Text, facts: &Facts) {
    let Some(counts) = &facts.counts else { return };
    let mut counter = |name: &str, help: &str, samples: &[(&'static str, Event)]| {
        let samples = samples.iter().map(|(holding, event)| {
            let labels = if holding.is_empty() { Vec::new() } else { vec![("holding", *holding)] };
            (labels, counts.of(*event))
        });
        text.family((name, "counter", help), samples);
    };
    let help = "Jobs that were given a share or whole GPUs, since the node booted.";
    counter("gpushare_placements_total", help, &[("share", Event::Share), ("whole", Event::Whole)]);
    let help = "Shares placed on a GPU that had too few units free.";
    counter("gpushare_overcommitted_placements_total", help, &[("", Event::Overcommitted)]);
    let help = "Starts of jobs that failed on this node.";
    counter("gpushare_placement_failures_total", help, &[("", Event::Failed)]);
}

fn messages(text: &mut Text, facts: &Facts) {
    let of = |wanted: &'static [Outcome], labelled: bool| {
        facts.outcomes.iter().filter(move |(_, verdict, _)| wanted.contains(verdict)).map(
            move |(number, outcome, count)| {
                let mut labels = vec![("message", *number)];
                labels.extend(labelled.then(|| ("outcome", outcome.word())));
                (labels, count)
            },
        )
    };
    let refused = "Submissions and updates that slurmctld's plugin refused, by message.";
    text.family(("gpushare_refusals_total", "counter", refused), of(&[Outcome::Refused], false));
    let passed = "Submissions and updates that broke a rule and passed: Mode=warn, Mode=audit, or exempt.";
    text.family(
        ("gpushare_passes_total", "counter", passed),
        of(&[Outcome::Warned, Outcome::Audited, Outcome::Exempt], true),
    );
    let changed = "Submissions that were accepted and changed, by message.";
    text.family(("gpushare_changes_total", "counter", changed), of(&[Outcome::Changed], false));
}
