//! The status as tables, and as lines of fields. Decides nothing.

use std::fmt::Write;

use gpushare_node::foreign;
use gpushare_node::gpu::Gpu;
use gpushare_node::ledger::{Entry, Holding};
use gpushare_node::mps::Seen;
use gpushare_node::nvml::answer::GpuState;

use super::columns::{Line, Look, Span, aligned, clean};
use super::local::{GpuTotal, Status};

/// What is left of a UUID in a table: `GPU-` and its first part.
const SHORT_UUID: usize = 12;

/// For people.
pub fn lines(status: &Status) -> Vec<Line> {
    let mut lines = if status.gpus.is_empty() { Vec::new() } else { aligned(gpu_rows(status), &[]) };
    if !lines.is_empty() {
        lines.push(Line::default());
    }
    match (status.jobs.is_empty(), status.own_only) {
        (false, _) => lines.extend(aligned(job_rows(status), &[])),
        (true, true) => lines.push(Line::new("no jobs of yours on this node", Look::Plain)),
        (true, false) => lines.push(Line::new("no shares on this node", Look::Plain)),
    }
    for total in &status.gpus {
        if let Some(fault) = &total.state.fault {
            let index = total.gpu.index;
            lines.push(Line::new(&format!("GPU {index} takes no share, NVML says: {fault}"), Look::Wrong));
        }
    }
    for total in &status.gpus {
        if let Some(number @ 1..) = total.without_mps(&status.daemons) {
            let index = total.gpu.index;
            let said = format!(
                "GPU {index}: {number} of its processes go round MPS, without limits: see docs/containers.md"
            );
            lines.push(Line::new(&said, Look::Wrong));
        }
    }
    for total in &status.gpus {
        if let Some(found @ [_, ..]) = total.foreign.as_deref() {
            let (index, listed) = (total.gpu.index, foreign::listed(found));
            let said = format!("GPU {index} has processes of no job of it: {listed}");
            lines.push(Line::new(&said, Look::Wrong));
        }
    }
    for Seen { daemon, pid, stuck } in &status.daemons {
        let (said, look) = match (pid, stuck) {
            (None, _) => ("has no process".to_owned(), Look::Plain),
            (Some(pid), None) => (format!("is process {pid}"), Look::Plain),
            (Some(pid), Some(state)) => {
                (format!("is process {pid}, which can't answer (state {state})"), Look::Wrong)
            }
        };
        lines.push(Line::new(&format!("MPS daemon {daemon} {said}"), look));
    }
    for (id, reason) in &status.failures {
        lines.push(Line::new(&format!("job {id} failed here: {reason}"), Look::Wrong));
    }
    for garbage in &status.garbage {
        let what = if garbage.is_entry() { "an entry that can't be read" } else { "not an entry" };
        lines.push(Line::new(&format!("{what}: {garbage}"), Look::Wrong));
    }
    lines
}

fn heads(words: &[&str]) -> Vec<Span> {
    words.iter().map(Span::from).collect()
}

/// Units that are free: whether there are any is in colour too.
pub fn free(units: Option<u64>) -> Span {
    let look = match units {
        None => Look::Plain,
        Some(0) => Look::Full,
        Some(_) => Look::Free,
    };
    Span::new(&known(units), look)
}

fn gpu_rows(status: &Status) -> Vec<Vec<Span>> {
    let is_measured = status.gpus.iter().any(|total| total.state != GpuState::default());
    let mut first = heads(&["GPU", "DEVICE", "UUID", "UNITS", "FREE", "OF", "SHARES"]);
    if is_measured {
        first.extend(heads(&["MIB USED", "OF", "BUSY", "PROCESSES"]));
    }
    let mut rows = vec![first];
    for total in &status.gpus {
        let GpuTotal { gpu, units, shares, state, .. } = total;
        let uuid = gpu.uuid.as_deref().map_or("-", |uuid| uuid.get(..SHORT_UUID).unwrap_or(uuid));
        let look = if state.fault.is_some() { Look::Wrong } else { Look::Plain };
        let mut row = vec![
            Span::new(&gpu.index.to_string(), look),
            gpu.path.display().into(),
            uuid.into(),
            if total.whole { "whole".into() } else { units.into() },
            free(total.free()),
            known(total.capacity).into(),
            shares.into(),
        ];
        if is_measured {
            let busy = known(state.utilization.map(|percent| format!("{percent}%")));
            let measured = [known(state.used), known(state.memory), busy, known(state.processes)];
            row.extend(measured.map(Span::from));
        }
        rows.push(row);
    }
    rows
}

fn job_rows(status: &Status) -> Vec<Vec<Span>> {
    let is_limited = status.jobs.iter().any(|entry| memory(entry).is_some());
    let mut first = heads(&["JOB", "USER", "GPU", "UNITS", "TIME"]);
    first.extend(is_limited.then(|| "MIB".into()));
    let is_watched = by_gpu(status).any(|(entry, gpu)| status.idle(entry, gpu).is_some());
    first.extend(is_watched.then(|| "IDLE".into()));
    let mut rows = vec![first];
    for (entry, gpu) in by_gpu(status) {
        let mut row: Vec<Span> = vec![
            entry.key.id.into(),
            user(status, entry).into(),
            gpu.index.into(),
            share(entry).map_or("whole".into(), |(units, _)| units.into()),
            elapsed(status.now.saturating_sub(entry.since)).into(),
        ];
        row.extend(is_limited.then(|| known(memory(entry)).into()));
        row.extend(is_watched.then(|| known(status.idle(entry, gpu).map(elapsed)).into()));
        rows.push(row);
    }
    rows
}

/// A line a job and GPU.
pub fn parsable_jobs(status: &Status) -> String {
    let mut text =
        "JOB|RESTART|USER|UID|GPU|DEVICE|UUID|HOLDING|UNITS|CAPACITY|SINCE|MEMORY|IDLE\n".to_owned();
    for (entry, gpu) in by_gpu(status) {
        let (holding, units, capacity) = match share(entry) {
            Some((units, capacity)) => ("share", units.to_string(), capacity.to_string()),
            None => ("whole", String::new(), String::new()),
        };
        let _ = writeln!(
            text,
            "{}|{}|{}|{}|{}|{}|{}|{holding}|{units}|{capacity}|{}|{}|{}",
            entry.key.id,
            entry.key.restart,
            user(status, entry),
            entry.user_id,
            gpu.index,
            gpu.path.display(),
            gpu.uuid.as_deref().unwrap_or_default(),
            entry.since,
            or_empty(memory(entry)),
            or_empty(status.idle(entry, gpu))
        );
    }
    text
}

/// A line a GPU.
pub fn parsable_gpus(status: &Status) -> String {
    let mut text =
        "GPU|DEVICE|UUID|UNITS|FREE|CAPACITY|SHARES|WHOLE|USED|MEMORY|UTILIZATION|PROCESSES|FAULT|FOREIGN\n"
            .to_owned();
    for total in &status.gpus {
        let GpuTotal { gpu, capacity, units, shares, whole, state, foreign } = total;
        let _ = writeln!(
            text,
            "{}|{}|{}|{units}|{}|{}|{shares}|{}|{}|{}|{}|{}|{}|{}",
            gpu.index,
            gpu.path.display(),
            gpu.uuid.as_deref().unwrap_or_default(),
            or_empty(total.free()),
            or_empty(*capacity),
            if *whole { "yes" } else { "no" },
            or_empty(state.used),
            or_empty(state.memory),
            or_empty(state.utilization),
            or_empty(state.processes),
            field(state.fault.as_deref().unwrap_or_default()),
            or_empty(foreign.as_ref().map(Vec::len))
        );
    }
    text
}

pub fn or_empty(number: Option<impl std::fmt::Display>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

/// Text as a field of a line of fields.
pub fn field(text: &str) -> String {
    clean(text).replace('|', "/")
}

fn by_gpu(status: &Status) -> impl Iterator<Item = (&Entry, &Gpu)> {
    status.jobs.iter().flat_map(|entry| entry.gpus.iter().map(move |gpu| (entry, gpu)))
}

fn share(entry: &Entry) -> Option<(u32, u32)> {
    match entry.holding {
        Holding::Share { units, capacity, .. } => Some((units, capacity)),
        Holding::Whole => None,
    }
}

/// What its programs may have of the GPU's memory, in MiB.
fn memory(entry: &Entry) -> Option<u32> {
    match entry.holding {
        Holding::Share { memory, .. } => memory,
        Holding::Whole => None,
    }
}

fn user(status: &Status, entry: &Entry) -> String {
    status.users.get(&entry.user_id).cloned().unwrap_or_else(|| entry.user_id.to_string())
}

pub fn known(number: Option<impl std::fmt::Display>) -> String {
    number.map_or("-".to_owned(), |number| number.to_string())
}

/// `[DAYS-]HOURS:MINUTES:SECONDS`, as squeue(1) shows a job's time.
fn elapsed(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (hours, minutes, seconds) = (rest / 3600, rest / 60 % 60, rest % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes}:{seconds:02}"),
        (0, _) => format!("{hours}:{minutes:02}:{seconds:02}"),
        _ => format!("{days}-{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests;
