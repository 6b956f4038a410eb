//! What Slurm says about itself: its settings, nodes, partitions and QOSes. Runs Slurm's commands and reads their
//! output. Changes nothing, and waits no longer than a health check may.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::config::Config;
use gpushare::config::last_good;

mod accounts;
pub mod file;
pub mod qoses;
mod reach;
pub mod run;
mod snapshot;

pub use accounts::Accounts;
pub use gpushare_slurm_text::{Node, Partition, Reservation, Settings};
pub use qoses::Qoses;
pub use reach::Reach;
pub use run::ProgramError;
pub use snapshot::Snapshot;

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

impl Slurm {
    /// Asks slurmctld and slurmdbd.
    ///
    /// # Errors
    /// One of the two doesn't answer.
    pub fn ask(config: &Config) -> Result<Slurm, ProgramError> {
        let mut slurm = Slurm::default();
        slurm.ask_slurmctld(config)?;
        if slurm.has_accounting() {
            let cluster = slurm.settings.get("ClusterName").to_owned();
            slurm.ask_slurmdbd(config, &cluster)?;
        }
        Ok(slurm)
    }

    /// Whether the cluster has a database, or is one that doesn't exist yet. Without one it has no QOSes and no
    /// accounts, and slurmctld doesn't start if it shall count GPUs.
    pub fn has_accounting(&self) -> bool {
        match self.settings.get("AccountingStorageType") {
            // slurmctld shows none so since 23.02.
            "" => self.settings.get("SLURM_VERSION").is_empty(),
            kind => !kind.ends_with("/none"),
        }
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

/// Reads a line of `scontrol -o show node`.
pub fn node(line: &str) -> Option<Node> {
    Node::read(line)
}

/// Reads a line of `scontrol -o show partition`.
pub fn partition(line: &str) -> Option<Partition> {
    Partition::read(line)
}

/// Reads a line of `scontrol -o show reservation`.
pub fn reservation(line: &str) -> Option<Reservation> {
    Reservation::read(line)
}
