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
/// A job on one of its GPUs.
struct JobRow<'a> {
    status: &'a Status,
    entry: &'a Entry,
    gpu: &'a Gpu,
}

/// The tables, or only one if requested.
pub fn lines(status: &Status, view: Option<View>) -> Vec<Line> {
    let mut lines = Vec::new();
    if view != Some(View::Jobs) {
        lines.extend(gpus(status).into_iter().filter(|_| !status.gpus.is_empty()));
    }
    if view.is_none() && !lines.is_empty() {
        lines.push(Line::default());
    }
    if view != Some(View::Gpus) {
        let table = jobs(status);
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
    Cell::known(units).look(match units {
        None => Look::Plain,
        Some(0) => Look::Full,
        Some(_) => Look::Free,
    })
}

fn percent(number: Option<u32>) -> Cell {
    Cell::known(number.map(|percent| format!("{percent}%")))
}

fn gpus(status: &Status) -> Vec<Line> {
    use Side::Right;
    let columns = [
        Column::new("GPU", Right, |gpu: &&GpuTotal| {
            let look = if gpu.fault().is_some() { Look::Wrong } else { Look::Plain };
            Cell::new(gpu.gpu.index).look(look)
        }),
        Column::new("DEVICE", Right, |gpu| Cell::new(gpu.gpu.path.to_string_lossy())),
        Column::new("UUID", Right, |gpu| {
            let uuid = gpu.gpu.uuid.as_deref();
            Cell::known(uuid.map(|uuid| uuid.get(..SHORT_UUID).unwrap_or(uuid)))
        }),
        Column::new("UNITS", Right, |gpu| Cell::new(gpu.units).or_as(gpu.whole.then_some("whole"))),
        Column::new("FREE", Right, |gpu| free(gpu.free())),
        Column::new("OF", Right, |gpu| Cell::known(gpu.capacity)),
        Column::new("SHARES", Right, |gpu| Cell::new(gpu.shares)),
        Column::new("MIB USED?", Right, |gpu| Cell::known(gpu.state.used)),
        Column::new("OF?", Right, |gpu| Cell::known(gpu.state.memory)),
        Column::new("BUSY?", Right, |gpu| percent(gpu.state.utilization)),
        Column::new("PROCESSES?", Right, |gpu| Cell::known(gpu.state.processes)),
    ];
    table::lines(&columns, &status.gpus.iter().collect::<Vec<_>>())
}

fn jobs(status: &Status) -> Vec<Line> {
    use Side::Right;
    let columns = [
        Column::new("JOB", Right, |row: &JobRow| Cell::new(row.entry.key.id)),
        Column::new("USER", Right, |row| {
            let user_id = row.entry.user_id;
            Cell::new(user_id).or_as(row.status.users.get(&user_id).map(String::as_str))
        }),
        Column::new("GPU", Right, |row| Cell::new(row.gpu.index)),
        Column::new("UNITS", Right, |row| match row.entry.holding {
            Holding::Share { units, .. } => Cell::new(units),
            Holding::Whole | Holding::Nothing => Cell::new("whole"),
        }),
        Column::new("TIME", Right, |row| Cell::new(elapsed(row.status.now.saturating_sub(row.entry.since)))),
        Column::new("MIB?", Right, |row| match row.entry.holding {
            Holding::Share { memory, .. } => Cell::known(memory),
            Holding::Whole | Holding::Nothing => Cell::default(),
        }),
        Column::new("MIB USED?", Right, |row| {
            Cell::known(row.status.usage(row.entry, row.gpu).and_then(|usage| usage.memory))
        }),
        Column::new("BUSY?", Right, |row| {
            percent(row.status.usage(row.entry, row.gpu).and_then(|usage| usage.busy))
        }),
        Column::new("IDLE?", Right, |row| Cell::known(row.status.idle(row.entry, row.gpu).map(elapsed))),
    ];
    let on_gpus = |entry| move |gpu| JobRow { status, entry, gpu };
    let rows = status.jobs.iter().flat_map(|entry: &Entry| entry.gpus.iter().map(on_gpus(entry)));
    table::lines(&columns, &rows.collect::<Vec<_>>())
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
