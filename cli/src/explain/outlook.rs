//! What happens after gpushare accepts a request: whether Slurm knows the names in it, and whether a limit is lower
//! than what it requests.

use std::collections::BTreeMap;

use gpushare::submit::grammar::Token;
use gpushare::submit::policy::{Because, Remark, Rule};
use gpushare::submit::request::{Field, Parsed, Request};
use gpushare::text::shown::shown;

use super::job::{self, Above, Beyond};
use crate::requirements::is_plugin;
use gpushare_judge::accounting::Database;
use gpushare_slurm_run::{self as slurm, Snapshot};
use gpushare_slurm_text::{Node, Settings};

/// Names that Slurm knows; empty if unknown.
#[derive(Debug, Default)]
pub struct Names {
    /// Names of partitions.
    pub partitions: Vec<String>,
    /// `gpu` and `gpu:a40`, of every node.
    pub gres: Vec<String>,
}

impl Names {
    /// Asks slurmctld, including hidden partitions and nodes that don't exist yet.
    pub fn ask(snapshot: &Snapshot) -> Names {
        let partitions = snapshot.partitions().unwrap_or_default();
        let nodes = slurm::ask("scontrol", &["-a", "-o", "--future", "show", "node"]).unwrap_or_default();
        let all = nodes.lines().filter_map(Node::read).flat_map(|node| node.gres);
        let mut gres: Vec<String> = all
            .flat_map(|(name, gres_type, _)| {
                let typed = gres_type.map(|gres_type| format!("{name}:{gres_type}"));
                [Some(name), typed].into_iter().flatten()
            })
            .collect();
        gres.sort_unstable();
        gres.dedup();
        Names { partitions: partitions.iter().map(|one| one.name.clone()).collect(), gres }
    }

    /// Why Slurm will refuse a request, whatever gpushare decides.
    pub fn refused(&self, request: &Request) -> Option<String> {
        let list = request.partition.unwrap_or_default().split(|byte| *byte == b',');
        let unknown = |name: &&[u8]| !self.partitions.iter().any(|known| known.as_bytes() == *name);
        if let Some(name) = list.filter(|name| !name.is_empty()).find(unknown)
            && !self.partitions.is_empty()
        {
            return Some(format!("there is no partition '{}' that you can see", shown(name)));
        }
        if self.gres.is_empty() {
            return None;
        }
        Parsed::from(*request).tokens().find_map(|(_, token)| {
            let Token::Gres(gres) = token else { return None };
            let name = match gres.gres_type {
                Some(gres_type) => [gres.name, b":", gres_type].concat(),
                None => gres.name.to_vec(),
            };
            let is_known = self.gres.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(&name));
            (gres.count > 0 && !is_known).then(|| format!("no node has gres '{}'", shown(&name)))
        })
    }
}

/// Limits that are lower than what a request asks for, one line each; empty if slurmctld can't be asked.
pub fn above(
    request: &Request,
    qos: &str,
    database: &Database,
    remarks: &[Remark],
    snapshot: &Snapshot,
) -> Vec<Beyond> {
    let is_advice = |remark: &Remark| match remark {
        Remark::Passed(refusal, because) => *because == Because::Warn && refusal.rule == Rule::BeyondLimit,
        _ => false,
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let place = Above {
        user_id: request.user_id,
        user: text(database.user()),
        account: text(database.account(request)),
        partition: text(database.first_partition(request)),
        qos: qos.to_owned(),
        nodes: request.min_nodes.unwrap_or(1).into(),
        tres: asked(request),
        is_warned: remarks.iter().any(is_advice),
    };
    job::above(place, snapshot).unwrap_or_default()
}

/// What slurmctld's other plugins mean for the answer.
pub fn plugins(settings: &Settings) -> Vec<String> {
    let plugins = settings.list("JobSubmitPlugins");
    let before: Vec<&str> =
        plugins.iter().copied().take_while(|plugin| !is_plugin(plugin, "gpushare")).collect();
    if before.len() == plugins.len() {
        return vec![
            "slurmctld doesn't load gpushare (JobSubmitPlugins), so these rules apply to no job".to_owned(),
        ];
    }
    let verb = if before.len() == 1 { "plugin" } else { "plugins" };
    let said = format!(
        "slurmctld's {verb} {} may change or refuse the job before gpushare checks it",
        before.join(", ")
    );
    if before.is_empty() { Vec::new() } else { vec![said] }
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
                let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
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
    fn names_that_slurm_does_not_know_are_found() {
        let names = Names {
            partitions: vec!["p".into(), "q".into()],
            gres: ["gpu", "gpu:a40", "nic"].map(str::to_owned).to_vec(),
        };
        let none = Request::new(Spelling::Slash);
        for (partition, gres, expected) in [
            ("p", "gres/gpu:a40:2,gres/nic", None),
            ("q,p", "gres/gpu:A40:2", None),
            ("", "gres/gpu:2", None),
            ("p,x", "", Some("there is no partition 'x' that you can see")),
            ("p", "gres/shard:1", Some("no node has gres 'shard'")),
            ("p", "gres/gpu:h100:1", Some("no node has gres 'gpu:h100'")),
            ("p", "gres/shard:0", None),
        ] {
            let request = Request {
                partition: Some(partition.as_bytes()),
                tres_per_node: Some(gres.as_bytes()),
                ..none
            };
            assert_eq!(names.refused(&request).as_deref(), expected, "{partition} {gres}");
            assert_eq!(Names::default().refused(&request), None, "nothing is known");
        }
    }

    #[test]
    fn other_plugins_are_named() {
        let said = |list: &str| plugins(&Settings::parse(&format!("JobSubmitPlugins = {list}"))).join("");
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
