//! The cluster as tables, and as lines of fields. Decides nothing.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::super::columns::{Line, Look, Side, Span, aligned};
use super::super::write::{field, free, known, or_empty};
use super::{Cluster, Gpu, Job, Node};

/// How many users or jobs a table names in one place.
const NAMED: usize = 4;

/// For people: a line a node, or a GPU.
pub fn lines(cluster: &Cluster, gpus: bool) -> Vec<Line> {
    let mut lines = Vec::new();
    if !cluster.nodes.is_empty() {
        lines = if gpus { by_gpu(cluster) } else { by_node(cluster) };
        lines.push(Line::default());
        lines.push(Line::new(&sums(cluster), Look::Bold));
    }
    for node in &cluster.nodes {
        for gpu in &node.gpus {
            if let Some(fault) = &gpu.fault {
                let text = format!("{} GPU {} takes no share, NVML says: {fault}", node.node, gpu.index);
                lines.push(Line::new(&text, Look::Wrong));
            }
        }
    }
    match (cluster.nodes.is_empty(), cluster.without_shares) {
        (true, count) => {
            lines.push(Line::new(&format!("none of {} has shares", of(count, "node")), Look::Plain));
        }
        (false, 0) => {}
        (false, count) => {
            lines.push(Line::new(&format!("{} without shares left out", of(count, "node")), Look::Plain));
        }
    }
    lines
}

fn by_node(cluster: &Cluster) -> Vec<Line> {
    let is_collected = cluster.nodes.iter().any(|node| node.age.is_some());
    let has_reason = cluster.nodes.iter().any(|node| node.reason.is_some());
    let mut heads = vec!["NODE", "STATE", "GPUS", "WHOLE", "UNITS", "FREE", "OF", "JOBS"];
    heads.extend(is_collected.then_some("AGE"));
    heads.push("USERS");
    heads.extend(has_reason.then_some("REASON"));
    let mut rows: Vec<Vec<Span>> = vec![heads.into_iter().map(Span::from).collect()];
    for node in &cluster.nodes {
        let mut row = vec![
            Span::from(&node.node),
            state(node),
            known(node.gpu_count).into(),
            node.whole.into(),
            node.units.into(),
            free(node.usable.then_some(node.free)),
            node.capacity.into(),
            node.jobs.len().into(),
        ];
        row.extend(is_collected.then(|| age(node)));
        row.push(some(&users(&node.jobs)).into());
        row.extend(has_reason.then(|| Span::new(node.reason.as_deref().unwrap_or_default(), Look::Wrong)));
        rows.push(row);
    }
    aligned(rows, &sides(8 + usize::from(is_collected)))
}

/// Two columns of words, then numbers, then words.
fn sides(numbers: usize) -> Vec<Side> {
    let mut sides = vec![Side::Left, Side::Left];
    sides.resize(numbers, Side::Right);
    sides.extend([Side::Left, Side::Left]);
    sides
}

fn by_gpu(cluster: &Cluster) -> Vec<Line> {
    let is_collected = cluster.nodes.iter().any(|node| node.age.is_some());
    let mut heads = vec!["NODE", "STATE", "GPU", "UNITS", "FREE", "OF"];
    heads.extend(is_collected.then_some("AGE"));
    heads.extend(["USERS", "JOBS"]);
    let mut rows: Vec<Vec<Span>> = vec![heads.into_iter().map(Span::from).collect()];
    for (node, gpu) in places(cluster) {
        let jobs = jobs_on(node, gpu);
        let (index, units, room, capacity, whole) = match gpu {
            Some(gpu) => (gpu.index.to_string(), gpu.units, gpu.free, gpu.capacity, gpu.whole),
            None => ("?".to_owned(), node.units, node.free, node.capacity, false),
        };
        let wrong = gpu.is_some_and(|gpu| gpu.fault.is_some());
        let mut row = vec![
            Span::from(&node.node),
            state(node),
            Span::new(&index, if wrong { Look::Wrong } else { Look::Plain }),
            if whole { "whole".into() } else { units.into() },
            free(node.usable.then_some(room)),
            capacity.into(),
        ];
        row.extend(is_collected.then(|| age(node)));
        row.push(some(&users(&jobs)).into());
        row.push(some(&jobs.iter().map(number).collect::<Vec<_>>()).into());
        rows.push(row);
    }
    aligned(rows, &sides(6 + usize::from(is_collected)))
}

/// Every GPU of every node; a node whose GPUs nobody knows is there once.
fn places(cluster: &Cluster) -> impl Iterator<Item = (&Node, Option<&Gpu>)> {
    cluster.nodes.iter().flat_map(|node| {
        let unknown = node.gpus.is_empty().then_some((node, None));
        node.gpus.iter().map(move |gpu| (node, Some(gpu))).chain(unknown)
    })
}

fn jobs_on(node: &Node, gpu: Option<&Gpu>) -> Vec<Job> {
    let is_here = |job: &&Job| gpu.is_none_or(|gpu| job.gpus.contains(&gpu.index));
    node.jobs.iter().filter(is_here).cloned().collect()
}

fn state(node: &Node) -> Span {
    Span::new(&node.state, if node.usable { Look::Plain } else { Look::Wrong })
}

fn age(node: &Node) -> Span {
    known(node.age.map(|seconds| format!("{seconds}s"))).into()
}

fn number(job: &Job) -> String {
    if job.job == 0 { "?".to_owned() } else { job.job.to_string() }
}

fn users(jobs: &[Job]) -> Vec<String> {
    let users: BTreeSet<&str> = jobs.iter().map(|job| job.user.as_deref().unwrap_or("?")).collect();
    users.into_iter().map(str::to_owned).collect()
}

/// The first of them, and how many there are more.
fn some(names: &[String]) -> String {
    let mut text: String = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(",");
    if names.len() > NAMED {
        let _ = write!(text, ",+{}", names.len() - NAMED);
    }
    text
}

fn of(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The last line.
fn sums(cluster: &Cluster) -> String {
    let nodes = &cluster.nodes;
    let sum = |of: fn(&Node) -> u64| nodes.iter().map(of).sum::<u64>();
    let out = nodes.iter().filter(|node| !node.usable).count();
    // A job may have shares on several nodes.
    let all: Vec<Job> = nodes.iter().flat_map(|node| node.jobs.clone()).collect();
    let jobs: BTreeSet<u32> = all.iter().map(|job| job.job).collect();
    format!(
        "{}{}: {} GPUs, {} whole; {} of {} units in use, {} free; {} of {}",
        of(nodes.len(), "node"),
        if out == 0 { String::new() } else { format!(" ({out} out of service)") },
        sum(|node| node.gpu_count.unwrap_or(0)),
        sum(|node| node.whole),
        sum(|node| node.units),
        sum(|node| node.capacity),
        sum(|node| node.free),
        of(jobs.len(), "job"),
        of(users(&all).len(), "user"),
    )
}

/// A line a node.
pub fn parsable_nodes(cluster: &Cluster) -> String {
    let mut text = "NODE|STATE|USABLE|GPUS|WHOLE|UNITS|FREE|CAPACITY|JOBS|USERS|AGE|REASON\n".to_owned();
    for node in &cluster.nodes {
        let _ = writeln!(
            text,
            "{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}",
            field(&node.node),
            field(&node.state),
            if node.usable { "yes" } else { "no" },
            or_empty(node.gpu_count),
            node.whole,
            node.units,
            node.free,
            node.capacity,
            node.jobs.len(),
            field(&users(&node.jobs).join(",")),
            or_empty(node.age),
            field(node.reason.as_deref().unwrap_or_default())
        );
    }
    text
}

/// A line a GPU.
pub fn parsable_gpus(cluster: &Cluster) -> String {
    let mut text = "NODE|STATE|USABLE|GPU|UNITS|FREE|CAPACITY|WHOLE|JOBS|USERS|AGE|FAULT\n".to_owned();
    for (node, gpu) in places(cluster) {
        let jobs = jobs_on(node, gpu);
        let (units, room, capacity) =
            gpu.map_or((node.units, node.free, node.capacity), |gpu| (gpu.units, gpu.free, gpu.capacity));
        let numbers: Vec<String> = jobs.iter().map(number).collect();
        let _ = writeln!(
            text,
            "{}|{}|{}|{}|{units}|{}|{capacity}|{}|{}|{}|{}|{}",
            field(&node.node),
            field(&node.state),
            if node.usable { "yes" } else { "no" },
            or_empty(gpu.map(|gpu| gpu.index)),
            room,
            gpu.map_or("", |gpu| if gpu.whole { "yes" } else { "no" }),
            numbers.join(","),
            field(&users(&jobs).join(",")),
            or_empty(node.age),
            field(gpu.and_then(|gpu| gpu.fault.as_deref()).unwrap_or_default())
        );
    }
    text
}
