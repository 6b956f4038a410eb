//! What Slurm says about itself: its settings, nodes, partitions and QOSes. Runs Slurm's commands and reads their
//! output. Changes nothing, and waits no longer than a health check may.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::config::Config;
use gpushare::config::last_good;
use gpushare::submit::policy::DefaultMemory;
use gpushare::text::gres::{self, NodeGres};

mod accounts;
pub mod file;
pub mod qoses;
mod reach;
pub mod run;
mod settings;

pub use accounts::Accounts;
pub use qoses::Qoses;
pub use reach::Reach;
pub use run::ProgramError;
pub use settings::Settings;

/// How long one of Slurm's commands may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Everything that `check` and `conf` compare gpushare.conf with. The default is a cluster that doesn't exist yet.
#[derive(Debug, Default)]
pub struct Slurm {
    /// The settings of slurm.conf and cgroup.conf.
    pub settings: Settings,
    /// All nodes.
    pub nodes: Vec<Node>,
    /// All partitions.
    pub partitions: Vec<Partition>,
    /// The database's QOSes.
    pub qoses: Qoses,
    /// Reservations, if gpushare.conf names some.
    pub reservations: Vec<Reservation>,
    /// The database's associations.
    pub accounts: Accounts,
}

/// A node, from `scontrol show node`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Such as `(gpu, Some(a40), 4)`.
    pub gres: Vec<NodeGres>,
    /// Its partitions.
    pub partitions: Vec<String>,
    /// Its slurmd's version, such as 24.11.5; empty until the slurmd has contacted slurmctld.
    pub version: String,
    /// Such as `IDLE+DRAIN`.
    pub state: String,
    /// Why it is out of service, who did that and when: `GPU 2 is hot [root@2026-11-24T19:00:00]`.
    pub reason: Option<String>,
}

/// A partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// Its name.
    pub name: String,
    /// The words of `TRESBillingWeights`.
    pub billing: Vec<String>,
    /// All QOSes that it allows, denies, or has as its own.
    pub qoses: Vec<String>,
    /// `AllowQos`; empty if all QOSes are allowed.
    pub allowed: Vec<String>,
    /// `DenyQos`, which counts if there is no `AllowQos`.
    pub denied: Vec<String>,
    /// Its own QOS.
    pub own: Option<String>,
    /// Its own default for jobs that request no memory.
    pub memory: DefaultMemory,
}

/// A reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Its name.
    pub name: String,
    /// Its flags.
    pub flags: Vec<String>,
}

impl Slurm {
    /// Asks slurmctld and slurmdbd.
    ///
    /// # Errors
    /// One of the two doesn't answer.
    pub fn ask(config: &Config) -> Result<Slurm, ProgramError> {
        let mut slurm = Slurm::default();
        slurm.ask_slurmctld(config)?;
        let cluster = slurm.settings.get("ClusterName").to_owned();
        slurm.ask_slurmdbd(config, &cluster)?;
        Ok(slurm)
    }

    /// Asks slurmctld for what it knows.
    ///
    /// # Errors
    /// slurmctld doesn't answer, and isn't asked anything else.
    pub fn ask_slurmctld(&mut self, config: &Config) -> Result<(), ProgramError> {
        let list = |what| ask("scontrol", &["-a", "-o", "show", what]);
        let settings = ask("scontrol", &["show", "config"])?;
        let (nodes, partitions) = (list("node")?, list("partition")?);
        let policy = &config.policy;
        let named = !policy.exempt.reservations.is_empty() || !policy.shares.reservations.is_empty();
        let reservations = if named { list("reservation")? } else { String::new() };
        self.settings = Settings::parse(&settings);
        self.nodes = nodes.lines().filter_map(node).collect();
        self.partitions = partitions.lines().filter_map(partition).collect();
        self.reservations = reservations.lines().filter_map(reservation).collect();
        Ok(())
    }

    /// Asks slurmdbd for what the database has.
    ///
    /// # Errors
    /// slurmdbd doesn't answer, and isn't asked anything else.
    pub fn ask_slurmdbd(&mut self, config: &Config, cluster: &str) -> Result<(), ProgramError> {
        self.qoses = Qoses::ask(config)?;
        self.accounts = Accounts::ask(config, cluster)?;
        Ok(())
    }
}

impl Partition {
    /// Whether jobs of a QOS may run in this partition.
    pub fn admits(&self, qos: &str) -> bool {
        let has = |names: &[String]| names.iter().any(|name| name.eq_ignore_ascii_case(qos));
        if self.allowed.is_empty() { !has(&self.denied) } else { has(&self.allowed) }
    }
}

/// The path of slurm.conf.
pub fn conf() -> PathBuf {
    std::env::var_os("SLURM_CONF").unwrap_or_else(|| "/etc/slurm/slurm.conf".into()).into()
}

/// This machine's name in Slurm; in a job, the name that slurmd uses.
pub fn host() -> String {
    if let Some(name) = std::env::var("SLURMD_NODENAME").ok().filter(|name| !name.is_empty()) {
        return name;
    }
    last_good::host_name()
}

/// The output of one of Slurm's commands. A health check must not hang: without slurmctld or a slurm.conf, some
/// commands keep trying for minutes.
///
/// # Errors
/// The same as for [`run::ask`].
pub fn ask(name: &str, arguments: &[&str]) -> Result<String, ProgramError> {
    run::within(PATIENCE, name, arguments).map(|output| String::from_utf8_lossy(&output).into_owned())
}

/// A command without the caller's variables that make Slurm's programs show another cluster, only some jobs, or another
/// form of time. It shows no other cluster of a federation, and cuts no list of an array's tasks.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["SLURM_CLUSTERS", "SLURM_TIME_FORMAT"].contains(&&*text)
            || ["SQUEUE_", "SACCT_", "SCONTROL_"].iter().any(|start| text.starts_with(start))
        {
            command.env_remove(&name);
        }
    }
    command.envs([
        ("SQUEUE_LOCAL", "1"),
        ("SACCT_LOCAL", "1"),
        ("SCONTROL_LOCAL", "1"),
        ("SLURM_BITSTR_LEN", "0"),
    ]);
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
        state: value(line, "State").unwrap_or_default().to_owned(),
        reason: reason(line),
    })
}

/// The reason may have several words; the text after it begins with one of these.
fn reason(line: &str) -> Option<String> {
    let (_, text) = line.split_once(" Reason=")?;
    let ends = [
        " Comment=",
        " Extra=",
        " InstanceId=",
        " InstanceType=",
        " Parameters=",
        " ReservationName=",
        " ResvName=",
        " TLSCertTokenSet=",
        " Topology=",
    ];
    let end = ends.iter().filter_map(|key| text.find(key)).min().unwrap_or(text.len());
    text.get(..end).map(|text| text.trim().to_owned())
}

/// Reads a line of `scontrol -o show partition`.
pub fn partition(line: &str) -> Option<Partition> {
    let name = value(line, "PartitionName")?.to_owned();
    let list = |key| words(value(line, key).unwrap_or_default());
    // The values if there is none.
    let is_one = |name: &String| !["ALL", "N/A"].contains(&name.as_str());
    let named = |key| -> Vec<String> { list(key).into_iter().filter(is_one).collect() };
    let (allowed, denied) = (named("AllowQos"), named("DenyQos"));
    // slurmctld ignores case here, and its database has small letters.
    let own = named("QoS").pop().map(|name| name.to_ascii_lowercase());
    let qoses = allowed.iter().chain(&denied).chain(&own).cloned().collect();
    let memory = settings::default_memory(|key| value(line, key).unwrap_or_default());
    let billing = list("TRESBillingWeights");
    Some(Partition { name, billing, qoses, allowed, denied, own, memory })
}

/// Reads a line of `scontrol -o show reservation`.
pub fn reservation(line: &str) -> Option<Reservation> {
    let name = value(line, "ReservationName")?.to_owned();
    Some(Reservation { name, flags: words(value(line, "Flags").unwrap_or_default()) })
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
        assert_eq!((read("x State=IDLE+DRAIN").state.as_str(), read("x").reason), ("IDLE+DRAIN", None));
        let reason = "GPU [2] is hot [root@2026-11-24T19:00:00]";
        for after in
            ["", " ", " Comment=a b", " Extra=x ResvName=r", " ReservationName=m Topology=default:s1"]
        {
            let read = node(&format!("NodeName=n1 Reason={reason}{after}")).unwrap();
            assert_eq!(read.reason.as_deref(), Some(reason), "{after}");
        }
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
            ("AllowQos=course,free QoS=N", vec!["course", "free", "n"]),
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
