//! Which GPUs a running job has on each node: from this node's ledger, otherwise from slurmctld.

use std::path::Path;

use gpushare::text::hostlist;
use gpushare_node::ledger::Holding;
use serde::Serialize;

use super::{ask, host};
use crate::status::cluster;
use gpushare_machine::local;
use gpushare_slurm_text::placed;
use gpushare_slurm_text::queue::Row;

/// A job's GPUs on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Place {
    pub node: String,
    /// The GPUs' indices; empty if unknown.
    pub gpus: Vec<u32>,
    /// The units of a share; null for whole GPUs.
    pub units: Option<u64>,
    /// Units that fill the GPU.
    pub capacity: Option<u64>,
    /// The share's memory in MiB, if known.
    pub memory: Option<u32>,
    /// For how many seconds the job was not seen to use its GPUs, if `gpushare metrics` checks that.
    pub idle: Option<u64>,
    /// `ledger` or `slurmctld`.
    pub source: &'static str,
}

/// The places of a running job, and notes about what is unknown here. Empty without GPUs.
pub fn find(job: &Row, conf: Option<&Path>) -> (Vec<Place>, Vec<String>) {
    let mut notes = Vec::new();
    if !job.tres.keys().any(|name| name.starts_with("gres/")) {
        return (Vec::new(), notes);
    }
    let of_slurm = ask("scontrol", &["-a", "-d", "show", "job", &job.id.to_string()]);
    let of_slurm = of_slurm.map(|text| placed::jobs(&text)).unwrap_or_else(|reason| {
        notes.push(format!("can't tell which GPUs Slurm gave it: {reason}"));
        Vec::new()
    });
    let of_cluster = cluster::around(&job.node_list, of_slurm.clone(), conf);
    let of_cluster = of_cluster.unwrap_or_else(|reason| {
        notes.push(reason.to_string());
        cluster::Cluster::default()
    });
    notes.extend(of_cluster.complaints.iter().cloned());
    let mut places = Vec::new();
    for node in hostlist::names::each(&job.node_list) {
        let here = (node == host()).then(|| in_ledger(job.id, &node, conf, &mut notes)).flatten();
        let place = here
            .or_else(|| in_cluster(job.id, &node, &of_cluster))
            .or_else(|| in_slurm(job.id, &node, &of_slurm));
        places.extend(place);
    }
    (places, notes)
}

fn in_ledger(id: u32, node: &str, conf: Option<&Path>, notes: &mut Vec<String>) -> Option<Place> {
    let unread = |reason| notes.push(format!("can't read this node's ledger: {reason}"));
    let status = local::gather(conf).map_err(unread).ok()?;
    let entry = status.jobs.iter().find(|entry| entry.key.id == id)?;
    let mut place = Place {
        node: node.to_owned(),
        gpus: entry.gpus.iter().map(|gpu| gpu.index).collect(),
        idle: entry.gpus.iter().filter_map(|gpu| status.idle(entry, gpu)).min(),
        source: "ledger",
        ..Place::default()
    };
    if let Holding::Share { units, capacity, memory, .. } = entry.holding {
        place = Place { units: Some(units.into()), capacity: Some(capacity.into()), memory, ..place };
    }
    Some(place)
}

fn in_cluster(id: u32, name: &str, cluster: &cluster::Cluster) -> Option<Place> {
    let node = cluster.nodes.iter().find(|node| node.node == name)?;
    let job = node.jobs.iter().find(|job| job.job == id)?;
    let capacity = node.gpus.iter().find(|gpu| job.gpus.contains(&gpu.index)).map(|gpu| gpu.capacity);
    Some(Place {
        node: name.to_owned(),
        gpus: job.gpus.clone(),
        units: job.units,
        capacity: capacity.filter(|_| job.units.is_some()),
        source: "slurmctld",
        ..Place::default()
    })
}

fn in_slurm(id: u32, node: &str, jobs: &[placed::Placed]) -> Option<Place> {
    let job = jobs.iter().find(|job| job.id == id)?;
    let on = |list: &str| hostlist::names::each(list).iter().any(|name| name == node);
    let (_, had) = job.on.iter().find(|(list, _)| on(list))?;
    let gpus = had.iter().filter(|gres| gres.name == "gpu").flat_map(|gres| gres.indexes());
    Some(Place {
        node: node.to_owned(),
        gpus: gpus.copied().collect(),
        source: "slurmctld",
        ..Place::default()
    })
}
