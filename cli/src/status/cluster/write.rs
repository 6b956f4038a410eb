//! The cluster as tables. Decides nothing.

use std::collections::BTreeSet;
use std::fmt::Write;

use gpushare::text::print::counted;

use super::super::View;
use super::super::table::{self, Cell, Column};
use super::super::write::free;
use super::{Cluster, Gpu, Job, Node};
use gpushare_terminal::columns::{Line, Look, Side};

/// How many users or jobs a table names in one cell.
const NAMED: usize = 4;

/// A GPU or, if a node's GPUs are unknown, the node.
struct GpuRow<'a> {
    node: &'a Node,
    gpu: Option<&'a Gpu>,
    jobs: Vec<Job>,
}

/// A job on one of its nodes.
struct JobRow<'a> {
    node: &'a Node,
    job: &'a Job,
}

/// One line for each node, GPU, or job and node.
pub fn lines(cluster: &Cluster, view: Option<View>) -> Vec<Line> {
    let mut lines = Vec::new();
    if !cluster.nodes.is_empty() {
        lines = match view {
            None => by_node(cluster),
            Some(View::Gpus) => by_gpu(cluster),
            Some(View::Jobs) => by_job(cluster),
        };
        lines.push(Line::default());
        lines.push(Line::new(&sums(cluster), Look::Bold));
    }
    for node in &cluster.nodes {
        for gpu in &node.gpus {
            if let Some(fault) = &gpu.fault {
                let text = format!("{} GPU {} takes no shares, NVML says: {fault}", node.node, gpu.index);
                lines.push(Line::new(&text, Look::Wrong));
            }
        }
    }
    let last = match (cluster.nodes.is_empty(), cluster.without_shares) {
        (true, _) if cluster.filtered => Some("no such jobs".to_owned()),
        (true, count) => Some(format!("none of {} has shares", counted(count, "node"))),
        (false, 0) => None,
        (false, count) => Some(format!("{} without shares left out", counted(count, "node"))),
    };
    lines.extend(last.map(|text| Line::new(&text, Look::Plain)));
    lines
}

fn by_node(cluster: &Cluster) -> Vec<Line> {
    use Side::{Left, Right};
    let columns = [
        Column::new("NODE", Left, |node: &&Node| Cell::new(&*node.node)),
        Column::new("STATE", Left, |node| state(node)),
        Column::new("GPUS", Right, |node| Cell::known(node.gpu_count)),
        Column::new("WHOLE", Right, |node| Cell::new(node.whole)),
        Column::new("UNITS", Right, |node| Cell::new(node.units)),
        Column::new("FREE", Right, |node| room(node, node.free)),
        Column::new("OF", Right, |node| Cell::new(node.capacity)),
        Column::new("JOBS", Right, |node| Cell::new(node.jobs.len())),
        Column::new("AGE?", Right, |node| age(node)),
        Column::new("USERS", Left, |node| Cell::new(some(&users(&node.jobs)))),
        Column::new("REASON?", Left, |node| {
            Cell::new(node.reason.as_deref().unwrap_or_default()).look(Look::Wrong)
        }),
    ];
    table::lines(&columns, &cluster.nodes.iter().collect::<Vec<_>>())
}

fn by_gpu(cluster: &Cluster) -> Vec<Line> {
    use Side::{Left, Right};
    let columns = [
        Column::new("NODE", Left, |row: &GpuRow| Cell::new(&*row.node.node)),
        Column::new("STATE", Left, |row| state(row.node)),
        Column::new("GPU", Right, |row| match row.gpu {
            Some(Gpu { index, fault: None, .. }) => Cell::new(*index),
            Some(Gpu { index, .. }) => Cell::new(*index).look(Look::Wrong),
            None => Cell::new("?"),
        }),
        Column::new("UNITS", Right, |row| {
            let is_whole = row.gpu.is_some_and(|gpu| gpu.whole);
            Cell::new(row.gpu.map_or(row.node.units, |gpu| gpu.units)).or_as(is_whole.then_some("whole"))
        }),
        Column::new("FREE", Right, |row| room(row.node, row.gpu.map_or(row.node.free, |gpu| gpu.free))),
        Column::new("OF", Right, |row| Cell::new(row.gpu.map_or(row.node.capacity, |gpu| gpu.capacity))),
        Column::new("AGE?", Right, |row| age(row.node)),
        Column::new("USERS", Left, |row| Cell::new(some(&users(&row.jobs)))),
        Column::new("JOBS", Left, |row| Cell::new(some(&row.jobs.iter().map(number).collect::<Vec<_>>()))),
    ];
    let row = |node, gpu| GpuRow { node, gpu, jobs: jobs_on(node, gpu) };
    let rows = cluster.nodes.iter().flat_map(|node| {
        let unknown = node.gpus.is_empty().then(|| row(node, None));
        node.gpus.iter().map(move |gpu| row(node, Some(gpu))).chain(unknown)
    });
    let rows = rows.filter(|row| !cluster.filtered || !row.jobs.is_empty());
    table::lines(&columns, &rows.collect::<Vec<_>>())
}

fn by_job(cluster: &Cluster) -> Vec<Line> {
    use Side::{Left, Right};
    let columns = [
        Column::new("JOB", Right, |row: &JobRow| Cell::new(number(row.job))),
        Column::new("NAME", Left, |row| Cell::known(row.job.name.as_deref())),
        Column::new("USER", Left, |row| Cell::new(row.job.user.as_deref().unwrap_or("?"))),
        Column::new("PARTITION", Left, |row| Cell::known(row.job.partition.as_deref())),
        Column::new("NODE", Left, |row| Cell::new(&*row.node.node)),
        Column::new("GPUS", Left, |row| {
            let gpus: Vec<String> = row.job.gpus.iter().map(u32::to_string).collect();
            Cell::new(some(&gpus)).or_as(gpus.is_empty().then_some("?"))
        }),
        Column::new("UNITS", Right, |row| {
            Cell::known(row.job.units).or_as(row.job.units.is_none().then_some("whole"))
        }),
    ];
    let of_node = |node| move |job| JobRow { node, job };
    let rows = cluster.nodes.iter().flat_map(|node: &Node| node.jobs.iter().map(of_node(node)));
    table::lines(&columns, &rows.collect::<Vec<_>>())
}

fn jobs_on(node: &Node, gpu: Option<&Gpu>) -> Vec<Job> {
    let is_here = |job: &&Job| gpu.is_none_or(|gpu| job.gpus.contains(&gpu.index));
    node.jobs.iter().filter(is_here).cloned().collect()
}

fn state(node: &Node) -> Cell {
    Cell::new(&*node.state).look(if node.usable { Look::Plain } else { Look::Wrong })
}

/// Nothing is free if no job can start.
fn room(node: &Node, units: u64) -> Cell {
    if node.usable { free(Some(units)) } else { Cell::default() }
}

fn age(node: &Node) -> Cell {
    Cell::known(node.age.map(|seconds| format!("{seconds}s")))
}

fn number(job: &Job) -> String {
    if job.job == 0 { "?".to_owned() } else { job.job.to_string() }
}

fn users(jobs: &[Job]) -> Vec<String> {
    let users: BTreeSet<&str> = jobs.iter().map(|job| job.user.as_deref().unwrap_or("?")).collect();
    users.into_iter().map(str::to_owned).collect()
}

/// The first names, and how many more there are.
fn some(names: &[String]) -> String {
    let mut text: String = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(",");
    if names.len() > NAMED {
        let _ = write!(text, ",+{}", names.len() - NAMED);
    }
    text
}

/// The last line. Units that are neither in use nor free belong to whole GPUs, or can't be given now.
fn sums(cluster: &Cluster) -> String {
    let nodes = &cluster.nodes;
    let sum = |of: fn(&Node) -> u64| nodes.iter().map(of).sum::<u64>();
    let out = nodes.iter().filter(|node| !node.usable).count();
    // A job may have shares on several nodes.
    let all: Vec<Job> = nodes.iter().flat_map(|node| node.jobs.clone()).collect();
    let jobs: BTreeSet<u32> = all.iter().map(|job| job.job).collect();
    let (capacity, units, free, whole) =
        (sum(|node| node.capacity), sum(|node| node.units), sum(|node| node.free), sum(in_whole));
    let rest = capacity.saturating_sub(units + free + whole);
    let parts = [(whole, "in whole GPUs"), (rest, "out of service")];
    let parts = parts.into_iter().filter(|(units, _)| *units > 0);
    format!(
        "{}{}: {}, {} whole; {units} of {capacity} units in use, {free} free{}; {} of {}",
        counted(nodes.len(), "node"),
        if out == 0 { String::new() } else { format!(" ({out} out of service)") },
        counted(sum(|node| node.gpu_count.unwrap_or(0)), "GPU"),
        sum(|node| node.whole),
        parts.map(|(units, what)| format!(", {units} {what}")).collect::<String>(),
        counted(jobs.len(), "job"),
        counted(users(&all).len(), "user"),
    )
}

/// Units of GPUs that jobs have whole.
fn in_whole(node: &Node) -> u64 {
    if node.gpus.is_empty() && node.usable {
        return node.capacity.saturating_sub(node.units + node.free);
    }
    node.gpus.iter().filter(|gpu| gpu.whole).map(|gpu| gpu.capacity.saturating_sub(gpu.units)).sum()
}
