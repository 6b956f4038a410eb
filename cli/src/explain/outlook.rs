//! What happens after gpushare accepts a request: whether a limit is lower than what it requests, and what other
//! plugins may do.

use std::collections::BTreeMap;

use gpushare::submit::grammar::Token;
use gpushare::submit::policy::{Because, Remark, Rule};
use gpushare::submit::request::{Field, Parsed, Partitions, Request};

use super::job::{self, Beyond, words};
use crate::requirements::is_plugin;
use gpushare_judge::accounting::Database;
use gpushare_qos::config::ManagedQos;
use gpushare_slurm_run::Snapshot;
use gpushare_slurm_text::queue::Row;
use gpushare_slurm_text::{Partition, Settings, text};

/// Limits that are lower than what a request asks for, one line each. `time` is what its `--time` says.
pub fn above(
    (request, time): (&Request, Option<u32>),
    qos: &str,
    database: &Database,
    remarks: &[Remark],
    site: (&Snapshot, &[ManagedQos]),
) -> Vec<Beyond> {
    let is_advice = |remark: &Remark| match remark {
        Remark::Passed(refusal, because) => *because == Because::Warn && refusal.rule == Rule::BeyondLimit,
        _ => false,
    };
    let row = Row {
        user_id: request.user_id,
        user: text(database.user()),
        account: text(database.account(request)),
        partition: text(database.first_partition(request)),
        qos: qos.to_owned(),
        nodes: request.min_nodes.unwrap_or(1).into(),
        tres: asked(request),
        time_limit: request.batch.and_then(|batch| batch.time_limit).map(u64::from),
        ..Row::default()
    };
    job::above(row, time.map(u64::from), (request.exclusive, remarks.iter().any(is_advice)), site)
        .unwrap_or_else(|reason| vec![Beyond::Waits(format!("can't tell whether limits stop it: {reason}"))])
}

/// What the partitions say to the job's QOS and time limit, if none of them takes it. Slurm tests accounts and groups
/// at submission alone, and so says it itself.
pub fn unwelcome(request: &Request, qos: &str, database: &Database, snapshot: &Snapshot) -> Option<Beyond> {
    let names = match request.partitions() {
        Partitions::Named(names) => names.each(),
        _ => vec![database.first_partition(request)],
    };
    let enforced = snapshot.settings().map_or("", |settings| settings.get("EnforcePartLimits"));
    let all = snapshot.partitions().unwrap_or_default();
    let known = |name: &&[u8]| all.iter().find(|partition| partition.name.as_bytes() == *name);
    let named: Vec<_> = names.iter().filter_map(known).collect();
    let may_be_late = snapshot
        .qoses()
        .unwrap_or_default()
        .iter()
        .any(|one| one.over_partition_time && one.name.eq_ignore_ascii_case(qos));
    let time = request.batch.and_then(|batch| batch.time_limit).map(u64::from).filter(|_| !may_be_late);
    let beyond = |partition: &Partition| partition.max_time.zip(time).filter(|(most, time)| time > most);
    let is_closed = |partition: &&&Partition| !partition.admits(qos) || beyond(partition).is_some();
    let mut closed = named.iter().filter(is_closed);
    let first = closed.next().filter(|_| enforced == "ALL" || closed.count() + 1 == named.len())?;
    let (said, until) = match beyond(first).filter(|_| first.admits(qos)) {
        None => (format!("partition '{}' doesn't allow QOS '{qos}'", first.name), "until it does"),
        Some((most, time)) => {
            let time = words::amount("minutes", time);
            let said =
                format!("partition '{}' allows at most {most} minutes, but this asks for {time}", first.name);
            (said, "forever")
        }
    };
    Some(if ["ALL", "ANY"].contains(&enforced) {
        Beyond::Refused(said)
    } else {
        Beyond::Waits(format!("{said}: the job waits {until}"))
    })
}

/// What slurmctld's other plugins mean for the answer.
pub fn plugins(settings: &Settings) -> Option<String> {
    let plugins = settings.list("JobSubmitPlugins");
    let Some(at) = plugins.iter().position(|plugin| is_plugin(plugin, "gpushare")) else {
        let said = "slurmctld doesn't load gpushare (JobSubmitPlugins), so these rules apply to no job";
        return Some(said.to_owned());
    };
    let (before, s) = (plugins.get(..at)?.join(", "), if at == 1 { "" } else { "s" });
    let said =
        format!("slurmctld's plugin{s} {before} may change or refuse the job before gpushare checks it");
    (at > 0).then_some(said)
}

/// The minimum that Slurm will count for a request.
fn asked(request: &Request) -> BTreeMap<String, u64> {
    let mut all: BTreeMap<String, u64> = BTreeMap::new();
    let parsed = Parsed::from(*request);
    for field in Field::ALL.into_iter().filter(|field| field.requests()) {
        // If the same GRES is named twice, the last counts.
        let mut here: BTreeMap<(String, String), u64> = BTreeMap::new();
        for part in parsed.parts_of(field) {
            if let Token::Gres(gres) = part.token {
                let gres_type = gres.gres_type.map(text).unwrap_or_default().to_ascii_lowercase();
                here.insert((text(gres.name), gres_type), gres.count.saturating_mul(request.times(field)));
            }
        }
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for ((name, gres_type), count) in here {
            *sums.entry(format!("gres/{name}")).or_default() += count;
            if !gres_type.is_empty() {
                sums.insert(format!("gres/{name}:{gres_type}"), count);
            }
        }
        for (name, count) in sums {
            let most = all.entry(name).or_default();
            *most = count.max(*most);
        }
    }
    let tasks = u64::from(request.num_tasks.unwrap_or(1).max(1));
    all.insert("cpu".to_owned(), tasks.saturating_mul(u64::from(request.cpus_per_task.unwrap_or(1).max(1))));
    all.insert("node".to_owned(), request.min_nodes.unwrap_or(1).max(1).into());
    all
}

#[cfg(test)]
mod tests {
    use gpushare::submit::grammar::Spelling;

    use super::*;

    #[test]
    fn other_plugins_are_named() {
        let said =
            |list: &str| plugins(&Settings::parse(&format!("JobSubmitPlugins = {list}"))).unwrap_or_default();
        assert_eq!(said("gpushare"), "");
        assert!(said("(null)").starts_with("slurmctld doesn't load gpushare"));
        assert!(said("lua").starts_with("slurmctld doesn't load gpushare"));
        assert!(said("lua,job_submit/gpushare").starts_with("slurmctld's plugin lua may change"));
        assert!(said("a,lua,gpushare,b").starts_with("slurmctld's plugins a, lua may change"));
    }

    #[test]
    fn a_request_is_counted_as_slurm_will_at_least() {
        let request = Request {
            tres_per_node: Some(b"gres/gpu:A40:2,gres/nic:1"),
            tres_per_job: Some(b"gres/gpu:a40:3"),
            min_nodes: Some(2),
            num_tasks: Some(6),
            cpus_per_task: Some(2),
            ..Request::new(Spelling::Slash)
        };
        let asked = asked(&request);
        let shown: Vec<_> = asked.iter().map(|(name, count)| format!("{name}={count}")).collect();
        assert_eq!(shown, ["cpu=12", "gres/gpu=4", "gres/gpu:a40=4", "gres/nic=2", "node=2"]);
    }
}
