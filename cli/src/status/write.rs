//! This node's status as tables. Decides nothing.

use gpushare_node::foreign;
use gpushare_node::gpu::Gpu;
use gpushare_node::ledger::{Entry, Holding};
use gpushare_node::mps::inspect::Seen;

use super::View;
use super::table::{self, Cell, Column};
use gpushare_machine::local::{GpuTotal, Status, drained};
use gpushare_terminal::columns::{Line, Look, Side};

/// How much of a UUID a table shows: `GPU-` and its first part.
const SHORT_UUID: usize = 12;
const GPUS: [&str; 11] = [
    "GPU",
    "DEVICE",
    "UUID",
    "UNITS",
    "FREE",
    "CAPACITY",
    "SHARES",
    "USED?",
    "MEMORY?",
    "UTILIZATION?",
    "PROCESSES?",
];
const JOBS: [&str; 9] = ["JOB", "USER", "GPU", "UNITS", "TIME", "MEMORY?", "USED?", "UTILIZATION?", "IDLE?"];

/// A job on one of its GPUs.
struct JobRow<'a> {
    status: &'a Status,
    entry: &'a Entry,
    gpu: &'a Gpu,
}

/// The tables, or only one if requested.
pub fn lines(status: &Status, view: Option<View>, parsable: bool) -> Vec<Line> {
    if parsable {
        return if view == Some(View::Gpus) { gpus(status, true) } else { jobs(status, true) };
    }
    let mut lines = Vec::new();
    if view != Some(View::Jobs) {
        lines.extend(gpus(status, false).into_iter().filter(|_| !status.gpus.is_empty()));
    }
    if view.is_none() && !lines.is_empty() {
        lines.push(Line::default());
    }
    if view != Some(View::Gpus) {
        let table = jobs(status, false);
        let is_recorded = |total: &GpuTotal| total.capacity.is_some();
        let none = match status.own_only {
            _ if !(status.gpus.is_empty() || status.gpus.iter().any(is_recorded)) => {
                "no shares on this node; squeue -w NODE shows its jobs"
            }
            true => "no jobs of yours on this node",
            false => "no shares on this node",
        };
        lines.extend(if status.jobs.is_empty() { vec![Line::new(none, Look::Plain)] } else { table });
    }
    lines.extend(notes(status));
    lines
}

/// What is wrong, and the MPS daemons.
fn notes(status: &Status) -> Vec<Line> {
    let mut lines = Vec::new();
    for total in &status.gpus {
        let index = total.gpu.index;
        let mut wrong = |said: String| lines.push(Line::new(&format!("GPU {index}{said}"), Look::Wrong));
        if let Some(drain) = &total.drain {
            wrong(format!(" is {}", drained(drain, status.now)));
        } else if let Some(fault) = &total.state.fault {
            wrong(format!(" takes no shares, NVML says: {fault}"));
        }
        if let Some(most) = total.capacity.filter(|most| total.units > u64::from(*most)) {
            wrong(format!(" is overcommitted: {} units of {most}", total.units));
        }
        if let Some(number @ 1..) = total.without_mps(&status.daemons) {
            let said = "of its processes bypass MPS and run without limits: see docs/containers.md";
            wrong(format!(": {number} {said}"));
        }
        if let Some(found @ [_, ..]) = total.foreign.as_deref() {
            wrong(format!(" has foreign processes, in none of its jobs: {}", foreign::listed(found)));
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

/// Free units; the colour shows whether there are any.
pub fn free(units: Option<u64>) -> Cell {
    Cell::number(units).look(match units {
        None => Look::Plain,
        Some(0) => Look::Full,
        Some(_) => Look::Free,
    })
}

fn number(number: Option<u32>) -> Cell {
    Cell::number(number.map(u64::from))
}

fn percent(number: Option<u32>) -> Cell {
    self::number(number).shown(number.map(|percent| format!("{percent}%")))
}

fn gpus(status: &Status, parsable: bool) -> Vec<Line> {
    use Side::{Left, Right};
    let columns = [
        Column::new("GPU", Right, |gpu: &&GpuTotal| {
            let look = if gpu.fault().is_some() { Look::Wrong } else { Look::Plain };
            number(Some(gpu.gpu.index)).look(look)
        }),
        Column::new("DEVICE", Right, |gpu| Cell::text(&*gpu.gpu.path.to_string_lossy())),
        Column::new("UUID", Right, |gpu| uuid(&gpu.gpu)),
        Column::new("UNITS", Right, |gpu| {
            Cell::number(gpu.units).shown(gpu.whole.then(|| "whole".to_owned()))
        }),
        Column::new("FREE", Right, |gpu| free(gpu.free())),
        Column::new("CAPACITY", Right, |gpu: &&GpuTotal| number(gpu.capacity)).head("OF"),
        Column::new("SHARES", Right, |gpu| Cell::number(gpu.shares as u64)),
        Column::new("WHOLE", Right, |gpu| Cell::yes_or_no(gpu.whole)),
        Column::new("USED", Right, |gpu: &&GpuTotal| number(gpu.state.used)).head("MIB USED"),
        Column::new("MEMORY", Right, |gpu: &&GpuTotal| number(gpu.state.memory)).head("OF"),
        Column::new("UTILIZATION", Right, |gpu: &&GpuTotal| percent(gpu.state.utilization)).head("BUSY"),
        Column::new("PROCESSES", Right, |gpu| number(gpu.state.processes)),
        Column::new("FAULT", Left, |gpu| Cell::text(gpu.fault().as_deref())),
        Column::new("FOREIGN", Right, |gpu| {
            Cell::number(gpu.foreign.as_ref().map(|found| found.len() as u64))
        }),
    ];
    table::lines(&columns, &GPUS, &status.gpus.iter().collect::<Vec<_>>(), parsable)
}

fn jobs(status: &Status, parsable: bool) -> Vec<Line> {
    use Side::{Left, Right};
    let columns = [
        Column::new("JOB", Right, |row: &JobRow| number(Some(row.entry.key.id))),
        Column::new("RESTART", Right, |row| number(Some(row.entry.key.restart))),
        Column::new("USER", Right, |row| Cell::text(&*user(row.status, row.entry))),
        Column::new("UID", Right, |row| number(Some(row.entry.user_id))),
        Column::new("GPU", Right, |row| number(Some(row.gpu.index))),
        Column::new("DEVICE", Right, |row| Cell::text(&*row.gpu.path.to_string_lossy())),
        Column::new("UUID", Right, |row| uuid(row.gpu)),
        Column::new("HOLDING", Left, |row| {
            Cell::text(if row.entry.holding == Holding::Whole { "whole" } else { "share" })
        }),
        Column::new("UNITS", Right, |row| match row.entry.holding {
            Holding::Share { units, .. } => number(Some(units)),
            Holding::Whole | Holding::Nothing => Cell::default().shown("whole".to_owned()),
        }),
        Column::new("CAPACITY", Right, |row: &JobRow| match row.entry.holding {
            Holding::Share { capacity, .. } => number(Some(capacity)),
            Holding::Whole | Holding::Nothing => Cell::default(),
        }),
        Column::new("SINCE", Right, |row| Cell::number(row.entry.since)),
        Column::new("MEMORY", Right, |row: &JobRow| match row.entry.holding {
            Holding::Share { memory, .. } => number(memory),
            Holding::Whole | Holding::Nothing => Cell::default(),
        })
        .head("MIB"),
        Column::new("IDLE", Right, |row| {
            let idle = row.status.idle(row.entry, row.gpu);
            Cell::number(idle).shown(idle.map(elapsed))
        }),
        Column::new("TIME", Right, |row| {
            let time = row.status.now.saturating_sub(row.entry.since);
            Cell::number(time).shown(elapsed(time))
        }),
        Column::new("USED", Right, |row: &JobRow| {
            number(row.status.usage(row.entry, row.gpu).and_then(|usage| usage.memory))
        })
        .head("MIB USED"),
        Column::new("UTILIZATION", Right, |row: &JobRow| {
            percent(row.status.usage(row.entry, row.gpu).and_then(|usage| usage.busy))
        })
        .head("BUSY"),
    ];
    let on_gpus = |entry| move |gpu| JobRow { status, entry, gpu };
    let rows = status.jobs.iter().flat_map(|entry: &Entry| entry.gpus.iter().map(on_gpus(entry)));
    table::lines(&columns, &JOBS, &rows.collect::<Vec<_>>(), parsable)
}

fn uuid(gpu: &Gpu) -> Cell {
    let short = gpu.uuid.as_deref().map(|uuid| uuid.get(..SHORT_UUID).unwrap_or(uuid).to_owned());
    Cell::text(gpu.uuid.as_deref()).shown(short)
}

fn user(status: &Status, entry: &Entry) -> String {
    status.users.get(&entry.user_id).cloned().unwrap_or_else(|| entry.user_id.to_string())
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
