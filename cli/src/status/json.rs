//! The status of this node as one object, which `--nodes --collected` reads on other machines (`cluster::collected`).

use gpushare_node::gpu::Gpu;
use gpushare_node::ledger::{Entry, Holding};
use gpushare_node::mps::inspect::Seen;
use gpushare_node::mps::service::{On, Serves};
use serde_json::{Value, json};

use gpushare_machine::local::{GpuTotal, Status};

/// The whole status.
pub fn object(status: &Status) -> Value {
    let failures = status.failures.iter().map(|(job, reason)| json!({"job": job, "reason": reason}));
    let garbage = status.garbage.iter();
    let garbage = garbage.map(|one| json!({"name": one.name, "reason": one.damage.to_string()}));
    json!({
        "node": status.node,
        "time": status.now,
        "gpus": status.gpus.iter().map(|total| gpu(total, &status.daemons)).collect::<Value>(),
        "jobs": status.jobs.iter().map(|entry| job(status, entry)).collect::<Value>(),
        "failures": failures.collect::<Value>(),
        "garbage": garbage.collect::<Value>(),
        "mps": status.daemons.iter().map(daemon).collect::<Value>(),
        "own_jobs_only": status.own_only,
    })
}

fn gpu(total: &GpuTotal, daemons: &[Seen]) -> Value {
    let state = &total.state;
    let foreign = total.foreign.as_ref().map(|found| {
        let shown = found.iter().map(|one| json!({"pid": one.pid, "user_id": one.user_id, "job": one.job}));
        shown.collect::<Value>()
    });
    json!({
            "index": total.gpu.index,
            "device": total.gpu.path.to_string_lossy(),
            "uuid": total.gpu.uuid,
            "capacity": total.capacity,
            "units": total.units,
            "free": total.free(),
            "shares": total.shares,
            "whole": total.whole,
            "used": state.used,
            "memory": state.memory,
            "utilization": state.utilization,
            "processes": state.processes,
            "without_mps": total.without_mps(daemons),
            "fault": total.fault(),
            "foreign": foreign,
    })
}

fn job(status: &Status, entry: &Entry) -> Value {
    let (holding, units, capacity, memory) = match entry.holding {
        Holding::Share { units, capacity, memory, .. } => ("share", Some(units), Some(capacity), memory),
        Holding::Whole | Holding::Nothing => ("whole", None, None, None),
    };
    let place = |gpu: &Gpu| {
        let usage = status.usage(entry, gpu);
        let (used, utilization) = usage.map_or((None, None), |usage| (usage.memory, usage.busy));
        let idle = status.idle(entry, gpu);
        json!({
            "index": gpu.index, "device": gpu.path.to_string_lossy(), "uuid": gpu.uuid,
            "idle": idle, "used": used, "utilization": utilization,
        })
    };
    json!({
        "job": entry.key.id,
        "restart": entry.key.restart,
        "user_id": entry.user_id,
        "user": status.users.get(&entry.user_id),
        "holding": holding,
        "units": units,
        "capacity": capacity,
        "since": entry.since,
        "memory": memory,
        "gpus": entry.gpus.iter().map(place).collect::<Value>(),
    })
}

fn daemon(seen: &Seen) -> Value {
    let user_id = match seen.daemon.serves {
        Serves::User(user_id) => Some(user_id),
        Serves::All => None,
    };
    let (minor, job) = match seen.daemon.on {
        On::Gpu(minor) => (Some(minor), None),
        On::Job(id) => (None, Some(id)),
    };
    let running = seen.pid.is_some() && seen.stuck.is_none();
    json!({"minor": minor, "job": job, "user_id": user_id, "pid": seen.pid, "running": running})
}
