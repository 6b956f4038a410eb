//! The status of this node as one object, which `--nodes --collected` reads on other machines (`cluster::collected`).

use gpushare_node::ledger::{Garbage, Holding};
use gpushare_node::mps::inspect::Seen;
use gpushare_node::mps::service::{On, Serves};
use serde::Serialize;

use gpushare_machine::local::{GpuTotal, Status};
use gpushare_terminal::json;

/// The whole object.
///
/// # Errors
/// The same as for [`json::text`].
pub fn text(status: &Status) -> serde_json::Result<String> {
    json::text(&Object {
        node: &status.node,
        time: status.now,
        gpus: status.gpus.iter().map(|total| gpu(total, &status.daemons)).collect(),
        jobs: status.jobs.iter().map(|entry| job(status, entry)).collect(),
        failures: status.failures.iter().map(|(job, reason)| Failure { job: *job, reason }).collect(),
        garbage: status.garbage.iter().map(stray).collect(),
        mps: status.daemons.iter().map(daemon).collect(),
        own_jobs_only: status.own_only,
    })
}

#[derive(Serialize)]
struct Object<'a> {
    node: &'a str,
    /// Seconds since 1970, like every time here.
    time: u64,
    gpus: Vec<Gpu<'a>>,
    jobs: Vec<Job<'a>>,
    failures: Vec<Failure<'a>>,
    garbage: Vec<Stray<'a>>,
    mps: Vec<Daemon>,
    own_jobs_only: bool,
}

#[derive(Serialize)]
struct Device<'a> {
    index: u32,
    device: String,
    uuid: Option<&'a str>,
}

#[derive(Serialize)]
struct Gpu<'a> {
    #[serde(flatten)]
    device: Device<'a>,
    capacity: Option<u32>,
    units: u64,
    free: Option<u64>,
    shares: usize,
    whole: bool,
    used: Option<u32>,
    memory: Option<u32>,
    utilization: Option<u32>,
    processes: Option<u32>,
    without_mps: Option<u32>,
    fault: Option<String>,
    foreign: Option<Vec<Foreign>>,
}

#[derive(Serialize)]
struct Foreign {
    pid: u32,
    user_id: u32,
    job: Option<u32>,
}

/// A job's GPU, with the number of seconds since the job was seen to use it.
#[derive(Serialize)]
struct Place<'a> {
    #[serde(flatten)]
    device: Device<'a>,
    idle: Option<u64>,
    /// How much of it the job's processes use: MiB and percent.
    used: Option<u32>,
    utilization: Option<u32>,
}

#[derive(Serialize)]
struct Job<'a> {
    job: u32,
    restart: u32,
    user_id: u32,
    user: Option<&'a str>,
    holding: &'static str,
    units: Option<u32>,
    capacity: Option<u32>,
    since: u64,
    memory: Option<u32>,
    gpus: Vec<Place<'a>>,
}

#[derive(Serialize)]
struct Failure<'a> {
    job: u32,
    reason: &'a str,
}

#[derive(Serialize)]
struct Stray<'a> {
    name: &'a str,
    reason: String,
}

#[derive(Serialize)]
struct Daemon {
    minor: Option<u32>,
    /// Of a daemon for a job's whole GPUs.
    job: Option<u32>,
    user_id: Option<u32>,
    pid: Option<u32>,
    running: bool,
}

fn device(gpu: &gpushare_node::gpu::Gpu) -> Device<'_> {
    Device { index: gpu.index, device: gpu.path.to_string_lossy().into_owned(), uuid: gpu.uuid.as_deref() }
}

fn gpu<'a>(total: &'a GpuTotal, daemons: &[Seen]) -> Gpu<'a> {
    let state = &total.state;
    Gpu {
        device: device(&total.gpu),
        capacity: total.capacity,
        units: total.units,
        free: total.free(),
        shares: total.shares,
        whole: total.whole,
        used: state.used,
        memory: state.memory,
        utilization: state.utilization,
        processes: state.processes,
        without_mps: total.without_mps(daemons),
        fault: total.fault(),
        foreign: total.foreign.as_ref().map(|found| {
            let shown = |one: &gpushare_node::foreign::Foreign| Foreign {
                pid: one.pid,
                user_id: one.user_id,
                job: one.job,
            };
            found.iter().map(shown).collect()
        }),
    }
}

fn job<'a>(status: &'a Status, entry: &'a gpushare_node::ledger::Entry) -> Job<'a> {
    let (holding, units, capacity, memory) = match entry.holding {
        Holding::Share { units, capacity, memory, .. } => ("share", Some(units), Some(capacity), memory),
        Holding::Whole | Holding::Nothing => ("whole", None, None, None),
    };
    Job {
        job: entry.key.id,
        restart: entry.key.restart,
        user_id: entry.user_id,
        user: status.users.get(&entry.user_id).map(String::as_str),
        holding,
        units,
        capacity,
        since: entry.since,
        memory,
        gpus: entry
            .gpus
            .iter()
            .map(|gpu| {
                let usage = status.usage(entry, gpu);
                Place {
                    device: device(gpu),
                    idle: status.idle(entry, gpu),
                    used: usage.and_then(|usage| usage.memory),
                    utilization: usage.and_then(|usage| usage.busy),
                }
            })
            .collect(),
    }
}

fn stray(garbage: &Garbage) -> Stray<'_> {
    Stray { name: &garbage.name, reason: garbage.damage.to_string() }
}

fn daemon(seen: &Seen) -> Daemon {
    let user_id = match seen.daemon.serves {
        Serves::User(user_id) => Some(user_id),
        Serves::All => None,
    };
    let running = seen.pid.is_some() && seen.stuck.is_none();
    let (minor, job) = match seen.daemon.on {
        On::Gpu(minor) => (Some(minor), None),
        On::Job(id) => (None, Some(id)),
    };
    Daemon { minor, job, user_id, pid: seen.pid, running }
}
