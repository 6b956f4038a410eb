//! What Slurm says about itself: its settings, nodes, partitions and QOSes, as `check` and `conf` compare them with
//! gpushare.conf. Changes nothing, and waits no longer than a health check may.

use gpushare_machine::config::Config;

mod accounts;
pub mod qoses;

pub use accounts::Accounts;
pub use gpushare_slurm_run::{ProgramError, Reach, SENT, ask, command, conf, file, host, run};
pub use gpushare_slurm_text::{Node, Partition, Reservation, Settings};
pub use qoses::Qoses;

/// The GRES of a TRES that names a type: `gpu` of `gres/gpu:a40`.
fn gres_of_type(tres: &str) -> Option<&str> {
    Some(tres.strip_prefix("gres/")?.split_once(':')?.0)
}

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

    /// The nodes of a partition.
    pub fn nodes_of<'s>(&'s self, partition: &'s str) -> impl Iterator<Item = &'s Node> {
        self.nodes.iter().filter(move |node| node.partitions.iter().any(|name| name == partition))
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
        self.nodes = nodes.lines().filter_map(Node::read).collect();
        self.partitions = partitions.lines().filter_map(Partition::read).collect();
        self.reservations = reservations.lines().filter_map(Reservation::read).collect();
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
