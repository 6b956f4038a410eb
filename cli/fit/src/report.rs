//! The report as data: which share would have been enough for how many jobs, whose, and what that frees.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use gpushare_history::hours::of as hours;
use gpushare_node::choose::PlacementRules;
use gpushare_node::config::{Overcommit, Packing};
use gpushare_period::{Period, exact};
use serde::Serialize;

use super::collect::{Collector, Kind, Sum, Who};
use super::replay;
use super::share::{Gpu, Shares};

/// The whole report.
#[derive(Debug, Serialize)]
pub struct Report {
    pub cluster: String,
    pub start: String,
    pub end: String,
    #[serde(skip)]
    pub period: Period,
    /// How many runs of jobs were read, how many of them had GPUs, and for how many hours.
    pub jobs: u64,
    pub jobs_with_gpus: u64,
    pub gpu_hours: f64,
    /// Jobs with one whole GPU and a record of its memory, and those of them for which a share was enough.
    pub checked: Total,
    pub fit: Total,
    /// GPU-hours of empty GPUs if these jobs had shares; and how many GPUs that is on average.
    pub freed_gpu_hours: f64,
    pub freed_gpus: f64,
    pub margin_percent: u32,
    pub share_gres: String,
    /// By GPU type and share.
    pub shares: Vec<OfShare>,
    /// By user, account, QOS, GPU type and share.
    pub requests: Vec<Asked>,
    pub not_checked: Vec<NotChecked>,
    /// What accounting doesn't show, in sentences.
    pub remarks: Vec<String>,
}

/// Jobs, and the hours for which they held their GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Total {
    pub jobs: u64,
    pub gpu_hours: f64,
}

/// Jobs that had a GPU, and what they would have had of it as shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Had {
    #[serde(flatten)]
    pub all: Total,
    /// The hours times the part of the GPU.
    pub share_gpu_hours: f64,
    /// Jobs that never showed more utilization than their part of the GPU.
    pub jobs_low_utilization: u64,
}

/// The jobs for which one share was enough.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OfShare {
    pub gpu_type: String,
    /// 0: it takes the whole GPU.
    pub units: u32,
    pub units_per_gpu: u32,
    pub memory_mib: u64,
    #[serde(flatten)]
    pub had: Had,
}

/// One user's jobs for which one share was enough.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Asked {
    #[serde(flatten)]
    pub who: Who,
    pub gpu_type: String,
    /// `None` if they take the whole GPU.
    pub request: Option<String>,
    #[serde(flatten)]
    pub had: Had,
}

/// Jobs about which accounting says too little.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NotChecked {
    pub why: &'static str,
    #[serde(flatten)]
    pub all: Total,
}

impl Total {
    fn of(sum: &Sum) -> Total {
        Total { jobs: sum.jobs, gpu_hours: hours(sum.seconds) }
    }
}

impl Had {
    fn of(kind: &Kind, sum: &Sum) -> Had {
        let seconds = match kind.units {
            0 => sum.seconds,
            units => sum.seconds.saturating_mul(units.into()) / u64::from(kind.capacity.max(1)),
        };
        Had { all: Total::of(sum), share_gpu_hours: hours(seconds), jobs_low_utilization: sum.light }
    }
}

/// What was read, summed up and replayed.
pub fn of(cluster: String, period: Period, mut collected: Collector, mut remarks: Vec<String>) -> Report {
    let shares = Rc::clone(&collected.shares);
    let smaller = smaller(&collected, &shares);
    if !smaller.is_empty() {
        remarks.push(format!(
            "a request names no GPU type, and some of these have less memory on {}: keep such jobs away from there",
            Vec::from_iter(smaller).join(", ")
        ));
    }
    let held: u64 = collected.judged.values().chain(collected.others.values()).map(|sum| sum.seconds).sum();
    let freed = freed(&mut collected, &shares, held);
    let Collector { judged, others, whos, types, read, with_gpus, .. } = collected;
    let name = |gres_type: u32| types.get_index(gres_type as usize).cloned().unwrap_or_default();
    let total = |wanted: &dyn Fn(&Kind) -> bool| {
        let mut all = Sum::default();
        judged.iter().filter(|(kind, _)| wanted(kind)).for_each(|(_, sum)| all.add(sum));
        Total::of(&all)
    };
    let mut by_share: BTreeMap<(String, Kind), Sum> = BTreeMap::new();
    for (kind, sum) in &judged {
        // The whole GPU comes last.
        let key = (name(kind.gres_type), Kind { who: u32::from(kind.units == 0), gres_type: 0, ..*kind });
        by_share.entry(key).or_default().add(sum);
    }
    let of_share = |((gpu_type, kind), sum): ((String, Kind), Sum)| OfShare {
        gpu_type,
        units: kind.units,
        units_per_gpu: kind.capacity,
        memory_mib: kind.mib,
        had: Had::of(&kind, &sum),
    };
    let asked = |(kind, sum): (&Kind, &Sum)| Asked {
        who: whos.get_index(kind.who as usize).cloned().unwrap_or_default(),
        gpu_type: name(kind.gres_type),
        request: (kind.units > 0).then(|| format!("--gres={}:{}", shares.gres(), kind.units)),
        had: Had::of(kind, sum),
    };
    let mut requests: Vec<Asked> = judged.iter().map(asked).collect();
    requests.sort_by(|a, b| (&a.who, &a.gpu_type, &a.request).cmp(&(&b.who, &b.gpu_type, &b.request)));
    let not_checked = others.iter().map(|(why, sum)| NotChecked { why: why.text(), all: Total::of(sum) });
    Report {
        cluster,
        start: exact(period.start),
        end: exact(period.end),
        period,
        jobs: read,
        jobs_with_gpus: with_gpus,
        gpu_hours: hours(held),
        checked: total(&|_| true),
        fit: total(&|kind| kind.units > 0),
        freed_gpu_hours: hours(freed),
        freed_gpus: hours(freed * 3600 / u64::from(period.seconds().max(1))),
        margin_percent: shares.margin,
        share_gres: shares.gres().to_owned(),
        shares: by_share.into_iter().map(of_share).collect(),
        requests,
        not_checked: not_checked.collect(),
        remarks,
    }
}

/// The cluster's GPU types of which some request's units are less memory than of the GPU that the jobs had.
fn smaller(collected: &Collector, shares: &Shares) -> BTreeSet<String> {
    let mut gpus: Vec<(String, Gpu)> = Vec::new();
    for node in &collected.nodes.all {
        for (name, _) in node.gpus.iter().filter(|(name, _)| !name.is_empty()) {
            let one = (name.clone(), shares.gpu(&node.name, name));
            if !gpus.contains(&one) {
                gpus.push(one);
            }
        }
    }
    let is_less = |gpu: &Gpu| {
        let mut kinds = collected.judged.keys().filter(|kind| kind.units > 0);
        kinds.any(|kind| gpu.memory_of(kind.units).is_some_and(|mib| mib < kind.mib))
    };
    gpus.into_iter().filter(|(_, gpu)| is_less(gpu)).map(|(name, _)| name).collect()
}

/// The seconds for which GPUs are empty if the jobs that fit have shares: with the rules of gpushare.conf, but with
/// `Packing=pack`, since spread takes empty GPUs first. No share goes where it doesn't fit.
fn freed(collected: &mut Collector, shares: &Shares, held: u64) -> u64 {
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    let whos = std::mem::take(&mut collected.whos);
    let number = |user| {
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        *numbers.entry(user).or_insert(next)
    };
    let users: Vec<u32> = whos.iter().map(|who| who.user.as_str()).map(number).collect();
    let rules = |node: &str| {
        let user_mix = shares.config.as_ref().map(|config| config.of_node(node).user_mix).unwrap_or_default();
        PlacementRules { packing: Packing::Pack, user_mix, overcommit: Overcommit::Refuse }
    };
    let busy = replay::busy(collected, rules, &users);
    collected.whos = whos;
    held.saturating_sub(busy)
}
