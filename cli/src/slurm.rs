//! What Slurm says of itself: its settings, nodes, partitions and QOSes, each asked of a program of Slurm's and read here.
//! Nothing is changed, and nobody waits longer than a health check may.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use gpushare::config::Config;
use gpushare::text::gres::{self, NodeGres};

mod accounts;
pub mod run;
mod settings;

pub use accounts::Accounts;
pub use settings::Settings;

/// How long one of Slurm's commands may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// All that `check` and `conf` compare gpushare.conf with. The default is a cluster that there isn't yet.
#[derive(Debug, Default)]
pub struct Slurm {
    /// slurm.conf and cgroup.conf.
    pub settings: Settings,
    /// Every node.
    pub nodes: Vec<Node>,
    /// Every partition.
    pub partitions: Vec<Partition>,
    /// What the database says of QOSes.
    pub qoses: Qoses,
    /// Reservations, if gpushare.conf exempts some.
    pub reservations: Vec<Reservation>,
    /// And of associations.
    pub accounts: Accounts,
}

/// A node, as `scontrol show node` tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// `(gpu, Some(a40), 4)`
    pub gres: Vec<NodeGres>,
    /// The partitions that it is in.
    pub partitions: Vec<String>,
    /// What its slurmd is, such as 24.11.5; empty while slurmctld has not heard of it.
    pub version: String,
}

/// A partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// Its name.
    pub name: String,
    /// `TRESBillingWeights`, a word each.
    pub billing: Vec<String>,
    /// QOSes that are allowed or denied in it, or its own.
    pub qoses: Vec<String>,
    /// `AllowQos`; empty where all are.
    pub allowed: Vec<String>,
    /// `DenyQos`, which counts where `AllowQos` says nothing.
    pub denied: Vec<String>,
    /// Its own.
    pub own: Option<String>,
    /// The partition that gets its new jobs while it takes none.
    pub alternate: Option<String>,
}

/// A reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Its name.
    pub name: String,
    /// Its flags.
    pub flags: Vec<String>,
}

/// What is to be known of QOSes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qoses {
    /// Those with a limit on a type of a governed GRES.
    pub governed: Vec<String>,
    /// Those with a limit on a type of GPU.
    pub typed: BTreeMap<String, Typed>,
    /// Those that preempt others.
    pub preempting: Vec<String>,
    /// Whether they differ in priority.
    pub priorities: bool,
}

/// A QOS with limits on types of GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Typed {
    /// The types, in small letters as the database has them.
    pub gres_types: BTreeSet<String>,
    /// `GrpTRES=gres/gpu:a40`: the limits without their numbers.
    pub limits: BTreeSet<String>,
    /// Its limits hold also where a partition's QOS has the same.
    pub over_partition: bool,
}

/// Fields of a QOS that may limit a type of GPU.
const LIMITS: [&str; 10] = [
    "GrpTRES",
    "MaxTRES",
    "MaxTRESPU",
    "MaxTRESPA",
    "MaxTRESPerNode",
    "GrpTRESMins",
    "GrpTRESRunMins",
    "MaxTRESMins",
    "MaxTRESRunMinsPA",
    "MaxTRESRunMinsPU",
];

impl Slurm {
    /// Asks slurmctld and slurmdbd. An error is one line.
    pub fn ask(config: &Config) -> Result<Slurm, String> {
        let settings = Settings::parse(&ask("scontrol", &["show", "config"])?);
        let cluster = settings.get("ClusterName").to_owned();
        Ok(Slurm {
            settings,
            nodes: ask("scontrol", &["-a", "-o", "show", "node"])?.lines().filter_map(node).collect(),
            partitions: ask("scontrol", &["-a", "-o", "show", "partition"])?
                .lines()
                .filter_map(partition)
                .collect(),
            qoses: qoses(config)?,
            reservations: match config.policy.exempt.reservations.is_empty() {
                true => Vec::new(),
                false => ask("scontrol", &["-a", "-o", "show", "reservation"])?
                    .lines()
                    .filter_map(reservation)
                    .collect(),
            },
            accounts: Accounts::ask(config, &cluster)?,
        })
    }
}

impl Partition {
    /// Whether jobs of a QOS may run in it.
    pub fn admits(&self, qos: &str) -> bool {
        let has = |names: &[String]| names.iter().any(|name| name.eq_ignore_ascii_case(qos));
        if self.allowed.is_empty() { !has(&self.denied) } else { has(&self.allowed) }
    }
}

/// Where slurm.conf is.
pub fn conf() -> PathBuf {
    std::env::var_os("SLURM_CONF").unwrap_or_else(|| "/etc/slurm/slurm.conf".into()).into()
}

/// This machine's name as Slurm would have it; in a job, as slurmd has it.
pub fn host() -> String {
    if let Some(name) = std::env::var("SLURMD_NODENAME").ok().filter(|name| !name.is_empty()) {
        return name;
    }
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().split('.').next().unwrap_or_default().to_owned()
}

/// What one of Slurm's commands prints. A health check must come to an end: without slurmctld or a slurm.conf some of them
/// try for minutes.
pub fn ask(name: &str, arguments: &[&str]) -> Result<String, String> {
    let answer = run::run(command(name).args(arguments), PATIENCE)?;
    run::succeeded(name, arguments, answer).map(|output| String::from_utf8_lossy(&output).into_owned())
}

/// Without the caller's variables that make Slurm's programs speak of another cluster, or of some jobs only.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text == "SLURM_CLUSTERS" || text.starts_with("SQUEUE_") {
            command.env_remove(&name);
        }
    }
    command
}

/// The value of `Key=` in a line of words.
fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let found = line.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    found.filter(|value| *value != "(null)")
}

fn words(text: &str) -> Vec<String> {
    text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Reads a line of `scontrol -o show node`.
pub fn node(line: &str) -> Option<Node> {
    Some(Node {
        name: value(line, "NodeName")?.to_owned(),
        gres: gres::read(value(line, "Gres").unwrap_or_default()),
        partitions: words(value(line, "Partitions").unwrap_or_default()),
        version: value(line, "Version").unwrap_or_default().to_owned(),
    })
}

/// Reads a line of `scontrol -o show partition`.
pub fn partition(line: &str) -> Option<Partition> {
    let name = value(line, "PartitionName")?.to_owned();
    let list = |key| words(value(line, key).unwrap_or_default());
    // What stands where there is none.
    let is_one = |name: &String| !["ALL", "N/A"].contains(&name.as_str());
    let named = |key| -> Vec<String> { list(key).into_iter().filter(is_one).collect() };
    let (allowed, denied) = (named("AllowQos"), named("DenyQos"));
    let own = named("QoS").pop();
    let qoses = allowed.iter().chain(&denied).chain(&own).cloned().collect();
    let alternate = named("Alternate").pop();
    Some(Partition { name, billing: list("TRESBillingWeights"), qoses, allowed, denied, own, alternate })
}

/// Reads a line of `scontrol -o show reservation`.
pub fn reservation(line: &str) -> Option<Reservation> {
    let name = value(line, "ReservationName")?.to_owned();
    Some(Reservation { name, flags: words(value(line, "Flags").unwrap_or_default()) })
}

/// `gres/gpu:a40=4` → gpu, a40
fn type_of(limit: &str) -> Option<(&str, &str)> {
    limit.rsplit_once('=')?.0.strip_prefix("gres/")?.split_once(':')
}

fn qoses(config: &Config) -> Result<Qoses, String> {
    let fields = format!("format=name,priority,preempt,flags,{}", LIMITS.join(","));
    let text = ask("sacctmgr", &["-nP", "show", "qos", &fields])?;
    let mut found = Qoses::default();
    let mut priorities: Vec<&str> = Vec::new();
    for line in text.lines() {
        let mut columns = line.split('|');
        let (Some(name), Some(priority), Some(preempts)) = (columns.next(), columns.next(), columns.next())
        else {
            continue;
        };
        let over_partition = columns
            .next()
            .is_some_and(|flags| flags.split(',').any(|flag| flag.eq_ignore_ascii_case("OverPartQOS")));
        // `GrpTRES`, `gpu`, `a40`
        let limits: Vec<(&str, &str, &str)> = LIMITS
            .into_iter()
            .zip(columns)
            .flat_map(|(field, text)| text.split(',').map(move |limit| (field, type_of(limit))))
            .filter_map(|(field, found)| found.map(|(gres, gres_type)| (field, gres, gres_type)))
            .collect();
        let governed = limits.iter().any(|(_, gres, _)| config.policy.gres.0.iter().any(|name| name == gres));
        let of_gpus = || limits.iter().filter(|(_, gres, _)| *gres == "gpu");
        let typed = Typed {
            gres_types: of_gpus().map(|(.., gres_type)| gres_type.to_ascii_lowercase()).collect(),
            limits: of_gpus()
                .map(|(field, _, gres_type)| format!("{field}=gres/gpu:{}", gres_type.to_ascii_lowercase()))
                .collect(),
            over_partition,
        };
        if governed {
            found.governed.push(name.to_owned());
        }
        if !typed.gres_types.is_empty() {
            found.typed.insert(name.to_owned(), typed);
        }
        if !preempts.is_empty() {
            found.preempting.push(name.to_owned());
        }
        priorities.push(priority);
    }
    priorities.dedup();
    found.priorities = priorities.len() > 1;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_read_with_its_gres_and_partitions() {
        let read = |text: &str| node(&format!("NodeName=n1 Gres={text} NodeAddr=x Partitions=p,q")).unwrap();
        assert_eq!(read("(null)").gres, []);
        assert_eq!(read("gpu:a40:4(S:0,1),mps:1K").gres.len(), 2);
        assert_eq!((read("x").partitions, read("x").version), (words("p,q"), String::new()));
        assert_eq!(read("x Version=24.11.5").version, "24.11.5");
    }

    #[test]
    fn a_partition_is_read_with_what_it_bills() {
        let read =
            |text: &str| partition(&format!("PartitionName=p AllowGroups=ALL {text}")).unwrap().billing;
        assert_eq!(read("TRESBillingWeights=CPU=1.0,GRES/gpu:a40=2"), ["CPU=1.0", "GRES/gpu:a40=2"]);
        assert_eq!(read("TRESBillingWeights=(null)"), [""; 0]);
        assert_eq!(read(""), [""; 0]);
    }

    #[test]
    fn a_partition_is_read_with_the_qoses_that_it_names() {
        for (text, expected) in [
            ("AllowQos=ALL QoS=N/A", vec![]),
            ("AllowQos=course,free QoS=n", vec!["course", "free", "n"]),
            ("DenyQos=course QoS=(null)", vec!["course"]),
        ] {
            assert_eq!(partition(&format!("PartitionName=p {text}")).unwrap().qoses, expected, "{text}");
        }
    }

    #[test]
    fn a_partition_admits_what_it_allows_or_else_what_it_does_not_deny() {
        for (text, free, course) in [
            ("AllowQos=ALL QoS=n", true, true),
            ("AllowQos=Course,free QoS=n", true, true),
            ("AllowQos=free QoS=N/A", true, false),
            ("DenyQos=course QoS=N/A", true, false),
        ] {
            let partition = partition(&format!("PartitionName=p {text}")).unwrap();
            assert_eq!((partition.admits("free"), partition.admits("course")), (free, course), "{text}");
        }
    }

    #[test]
    fn a_reservation_is_read_with_its_flags() {
        let line =
            "ReservationName=r StartTime=x Features=(null) Flags=MAINT,NO_HOLD_JOBS_AFTER_END TRES=cpu=64";
        let found = reservation(line).unwrap();
        assert_eq!((found.name.as_str(), found.flags), ("r", words("MAINT,NO_HOLD_JOBS_AFTER_END")));
        assert_eq!(reservation("No reservations in the system"), None);
    }
}
