//! Makes nodes with their shares from Slurm's output and the nodes' reports. Pure.

use gpushare::text::hostlist;
use std::collections::{BTreeMap, HashMap};

use gpushare_node::config::units::of_gpu;
use gpushare_node::config::{NodeConfig, Placement, UnitsPerGpu};
use gpushare_slurm_text::placed::Placed;
use gpushare_slurm_text::queue::Row;
use gpushare_slurm_text::{Gres, Node as NodeText, Which};

use super::{Gpu, Job, Node, OUT, collected};

/// The GRES in which Slurm itself divides GPUs.
const SHARED: [&str; 2] = ["mps", "shard"];
/// More GPUs than a node has, so that a count in the text can't use up the memory.
const MOST_GPUS: u64 = 1024;
/// More than the total number of nodes of a cluster's jobs.
const MOST_PLACES: usize = 1 << 22;

/// A job, and what it has on one node.
type Had<'a> = (&'a Placed, &'a [Gres]);

/// The nodes that have shares, in Slurm's order.
pub fn nodes<'c>(
    texts: Vec<NodeText>,
    jobs: Vec<Placed>,
    users: &BTreeMap<u32, Row>,
    rules: &dyn Fn(&str) -> &'c NodeConfig,
) -> Vec<Node> {
    let mut on: HashMap<&str, Vec<Had>> = texts.iter().map(|text| (text.name.as_str(), Vec::new())).collect();
    // A list may be part of a job's name, and may contain any nodes.
    let mut left = MOST_PLACES;
    for job in &jobs {
        let most = left.min(hostlist::names::MOST);
        let mut here = most;
        for (list, had) in &job.on {
            for name in hostlist::names::of(list, &mut here) {
                if let Some(on) = on.get_mut(name.as_str()) {
                    on.push((job, had));
                }
            }
        }
        left -= most - here;
    }
    let one = |text: &NodeText| {
        node(text, on.get(text.name.as_str()).map_or(&[], Vec::as_slice), users, rules(&text.name))
    };
    texts.iter().filter_map(one).collect()
}

fn node(text: &NodeText, jobs: &[Had], users: &BTreeMap<u32, Row>, rules: &NodeConfig) -> Option<Node> {
    let share = [rules.share_gres.as_str()].into_iter().chain(SHARED).find(|name| text.count(name) > 0)?;
    let (counted, gpus) = (text.count(share), text.count("gpu"));
    // If a GRES has no files, Slurm doesn't know the GPU, whoever chooses it.
    let slurm_picks = matches!(rules.placement, Placement::Off | Placement::Follow);
    let is_known = slurm_picks && gpus > 0 && SHARED.contains(&share);
    let gpu_count = match units_per_gpu(rules) {
        _ if gpus > 0 => Some(gpus),
        Some(UnitsPerGpu::Each(each)) => counted.checked_div(u64::from(*each)),
        Some(UnitsPerGpu::ByIndex(list)) => Some(list.len() as u64),
        Some(UnitsPerGpu::ByType(_)) | None => None,
    };
    let units = units(rules, text, gpu_count);
    let of_job = |(text, had): &Had| job(text, had, (share, counted), is_known, users);
    let jobs: Vec<Job> = jobs.iter().filter_map(of_job).collect();
    let mut node = Node {
        node: text.name.clone(),
        state: text.state.to_ascii_lowercase(),
        usable: is_usable(&text.state),
        reason: text.why().map(str::to_owned),
        gpu_count,
        jobs,
        partitions: text.partitions.clone(),
        ..Node::default()
    };
    if is_known {
        node.gpus = gpu_list(text, &node.jobs, share, gpus.min(MOST_GPUS), counted / gpus);
        sum(&mut node);
        // Units on an unknown GPU: those of hidden jobs on 22.05.
        let elsewhere = counted_units(text, share).saturating_sub(node.units);
        node.units += elsewhere;
        node.free = node.free.saturating_sub(elsewhere);
        return Some(node);
    }
    // By default, Slurm takes all mps shares of a node from one GPU; then its count for the node is useless.
    node.capacity = units.as_ref().map_or(counted, |units| counted.min(units.iter().sum()));
    let of_jobs = node.jobs.iter().filter_map(|job| job.units).sum();
    node.units = counted_units(text, share).max(of_jobs);
    node.whole = node.jobs.iter().filter(|job| job.units.is_none()).map(|job| job.gpus.len() as u64).sum();
    let of_whole = |index: &u32| units.as_ref().and_then(|units| units.get(usize::try_from(*index).ok()?));
    let whole = node.jobs.iter().filter(|job| job.units.is_none()).flat_map(|job| &job.gpus);
    let taken = node.units.saturating_add(whole.filter_map(of_whole).sum());
    node.free = if node.usable { node.capacity.saturating_sub(taken) } else { 0 };
    Some(node)
}

/// Without a placement, shares are Slurm's own.
fn units_per_gpu(rules: &NodeConfig) -> Option<&UnitsPerGpu> {
    rules.units_per_gpu.as_ref().filter(|_| rules.placement != Placement::Off)
}

/// The units that fill each GPU, as far as Slurm shows which GPUs exist.
fn units(rules: &NodeConfig, text: &NodeText, gpu_count: Option<u64>) -> Option<Vec<u64>> {
    let units = units_per_gpu(rules)?;
    let listed = text.gres.iter().filter(|(name, ..)| name == "gpu");
    let types = listed.flat_map(|(_, gres_type, count)| (0..*count).map(|_| gres_type.as_deref()));
    let types = types.chain(std::iter::repeat(None)).take(usize::try_from(gpu_count?.min(MOST_GPUS)).ok()?);
    let of = |(index, gres_type)| of_gpu(units, index, gres_type, None).into();
    Some((0..).zip(types).map(of).collect())
}

/// Whether jobs can start on a node in this state.
pub fn is_usable(state: &str) -> bool {
    // On 22.05 a flag may end in a sign: `DOWN*`, `IDLE~`.
    let flag = |word: &str| {
        let word = word.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
        OUT.iter().any(|out| out.eq_ignore_ascii_case(word))
    };
    !state.ends_with('*') && !state.split('+').any(flag)
}

/// A job with what it has of the node's shares or GPUs, if anything. More than the node has can only come from a job's
/// name.
fn job(
    text: &Placed,
    had: &[Gres],
    (share, most): (&str, u64),
    is_known: bool,
    users: &BTreeMap<u32, Row>,
) -> Option<Job> {
    let owner = users.get(&text.id);
    let job = Job {
        job: text.id,
        name: (text.id != 0).then(|| text.name.clone()),
        user: owner.map(|owner| owner.user.clone()),
        user_id: owner.map(|owner| owner.user_id),
        partition: owner.map(|owner| owner.partition.clone()),
        ..Job::default()
    };
    let on = |gres: &Gres| match &gres.which {
        Which::Index(indexes) => indexes.clone(),
        Which::Units(units) => {
            let given = (0..).zip(units).filter(|(_, (units, _))| units.is_some_and(|units| units > 0));
            given.map(|(index, _)| index).collect()
        }
        Which::Unsaid => Vec::new(),
    };
    if let Some(gres) = had.iter().find(|gres| gres.name == share && (1..=most).contains(&gres.count)) {
        let gpus = if is_known { on(gres) } else { Vec::new() };
        return Some(Job { units: Some(gres.count), gpus, ..job });
    }
    let mut whole = had.iter().filter(|gres| gres.name == "gpu" && gres.count > 0).peekable();
    whole.peek()?;
    Some(Job { gpus: whole.flat_map(on).collect(), ..job })
}

/// The units in use by Slurm's count, if it shows one. For mps and shard, 22.05 only shows which GPUs have some, and
/// AllocTRES has only the TRES that AccountingStorageTRES names.
fn counted_units(text: &NodeText, share: &str) -> u64 {
    let used = text.used.iter().filter(|gres| gres.name == share && !matches!(gres.which, Which::Index(_)));
    let tres = text.allocated.of(&format!("gres/{share}").to_ascii_lowercase());
    used.map(|gres| gres.count).sum::<u64>().max(tres.unwrap_or(0))
}

/// The GPUs of a node, if Slurm chooses them.
fn gpu_list(text: &NodeText, jobs: &[Job], share: &str, count: u64, per_gpu: u64) -> Vec<Gpu> {
    let said = || text.used.iter().filter(|gres| gres.name == share);
    // There is one list for each type of GPU, one after another.
    let counted: Vec<(Option<u64>, u64)> = said()
        .filter_map(|gres| if let Which::Units(units) = &gres.which { Some(units) } else { None })
        .flatten()
        .copied()
        .collect();
    let has = |gres: &Gres, index| matches!(&gres.which, Which::Index(indexes) if indexes.contains(&index));
    let gpu = |index: u32| {
        let here = || jobs.iter().filter(move |job| job.gpus.contains(&index));
        let of_jobs = here().filter_map(|job| Some(job.units? / job.gpus.len().max(1) as u64)).sum();
        let (units, capacity, is_full) = match counted.get(index as usize) {
            Some((units, capacity)) => (units.unwrap_or(0), *capacity, units.is_none()),
            None => (of_jobs, per_gpu, false),
        };
        let is_shared = units > 0 || said().any(|gres| has(gres, index));
        let is_given = text.used.iter().any(|gres| gres.name == "gpu" && has(gres, index));
        let whole = is_full || here().any(|job| job.units.is_none()) || (is_given && !is_shared);
        Gpu { index, units, free: room(units, capacity, whole), capacity, whole, fault: None }
    };
    (0..u32::try_from(count).unwrap_or(0)).map(gpu).collect()
}

fn room(units: u64, capacity: u64, whole: bool) -> u64 {
    if whole { 0 } else { capacity.saturating_sub(units) }
}

/// Sums the node's GPUs. Nothing is free if no job can start.
fn sum(node: &mut Node) {
    for gpu in node.gpus.iter_mut().filter(|_| !node.usable) {
        gpu.free = 0;
    }
    node.whole = node.gpus.iter().filter(|gpu| gpu.whole).count() as u64;
    node.units = node.gpus.iter().map(|gpu| gpu.units).sum();
    node.capacity = node.gpus.iter().map(|gpu| gpu.capacity).sum();
    node.free = node.gpus.iter().map(|gpu| gpu.free).sum();
}

/// Adds a node's own report if Slurm lacks the facts. If Slurm has them, its facts are newer, so this adds only faults.
pub fn overlay(node: &mut Node, said: collected::Said, now: u64, rules: &NodeConfig) {
    let age = now.saturating_sub(said.time);
    if !node.gpus.is_empty() {
        for gpu in said.gpus {
            let known = node.gpus.iter_mut().find(|known| known.index == gpu.index);
            if let (Some(known), Some(fault)) = (known, gpu.fault) {
                known.fault = Some(fault);
            }
        }
        return;
    }
    let gpu = |gpu: collected::Gpu| {
        let collected::Gpu { index, units, whole, capacity, fault } = gpu;
        let listed = units_per_gpu(rules).map(|units| of_gpu(units, index, None, None).into());
        let capacity = capacity.or(listed).unwrap_or(0);
        let room = if fault.is_some() { 0 } else { room(units, capacity, whole) };
        Gpu { index, units, free: room, capacity, whole, fault }
    };
    let known = std::mem::take(&mut node.jobs);
    let job = |job: collected::Job| {
        let of_slurm = known.iter().find(|known| known.job == job.job);
        Job {
            job: job.job,
            name: of_slurm.and_then(|known| known.name.clone()),
            user: Some(job.user.unwrap_or_else(|| job.user_id.to_string())),
            user_id: Some(job.user_id),
            partition: of_slurm.and_then(|known| known.partition.clone()),
            units: job.units,
            gpus: job.gpus.into_iter().map(|place| place.index).collect(),
        }
    };
    node.gpus = said.gpus.into_iter().map(gpu).collect();
    node.gpu_count = Some(node.gpus.len() as u64);
    node.jobs = said.jobs.into_iter().map(job).collect();
    node.age = Some(age);
    sum(node);
}
