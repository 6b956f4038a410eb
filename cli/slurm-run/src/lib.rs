//! Runs Slurm's own commands, in one environment and with limits on time and output, and reads slurm.conf. What the
//! commands print, `gpushare_slurm_text` reads. Changes nothing, and checks nothing.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use file::{ConfFile, last};
use gpushare::config::last_good;
use gpushare::text::hostlist::names;

pub mod control;
pub mod file;
mod reach;
pub mod run;
mod snapshot;

pub use reach::Reach;
pub use run::ProgramError;
pub use snapshot::Snapshot;

/// How long one of Slurm's commands may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The directory into which a configless slurmd, or sackd on a login node, puts slurmctld's files.
pub const SENT: &str = "/run/slurm/conf";

/// The path of slurm.conf: the one that Slurm's own commands read.
pub fn conf() -> PathBuf {
    let named = std::env::var_os("SLURM_CONF").map(PathBuf::from);
    let sent = || Some(Path::new(SENT).join("slurm.conf")).filter(|path| path.exists());
    let own = PathBuf::from("/etc/slurm/slurm.conf");
    named.unwrap_or_else(|| if own.exists() { own } else { sent().unwrap_or(own) })
}

/// This machine's name in Slurm; in a job, the name that slurmd uses. Otherwise it is the machine's own, or that of the
/// node which has it as `NodeHostname`.
pub fn host() -> String {
    if let Some(name) = std::env::var("SLURMD_NODENAME").ok().filter(|name| !name.is_empty()) {
        return name;
    }
    let machine = last_good::host_name();
    ConfFile::read(&conf()).ok().and_then(|conf| node_of(&conf, &machine)).unwrap_or(machine)
}

/// The only node on a machine, as slurm.conf has it.
fn node_of(conf: &ConfFile, machine: &str) -> Option<String> {
    let mut found = Vec::new();
    for fields in conf.fields() {
        let of = |key: &str| names::each(last(&fields, key).unwrap_or_default());
        let (nodes, hosts) = (of("NodeName"), of("NodeHostname"));
        // One machine may have all nodes of the line.
        let hosts = hosts.iter().cycle().take(if hosts.len() == 1 { nodes.len() } else { hosts.len() });
        let is_here = |host: &str| host.split('.').next() == Some(machine);
        found.extend(nodes.into_iter().zip(hosts).filter(|(_, host)| is_here(host)).map(|(node, _)| node));
    }
    if let [one] = found.as_slice() { Some(one.clone()) } else { None }
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
            || ["SQUEUE_", "SACCT_", "SCONTROL_", "SREPORT_"].iter().any(|start| text.starts_with(start))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_the_name_of_its_only_node() {
        let line = |text: &str| text.to_owned();
        let lines = [
            line("NodeName=gpu[01-03] NodeHostname=h[1-2],h3.site.example NodeAddr=x"),
            line("NodeName=a,b NodeHostname=both Port=[1-2]"),
            line("NodeName=plain"),
            line("nodename=UP nodehostname=up"),
        ];
        let conf = ConfFile { lines: lines.into(), ..ConfFile::default() };
        for (machine, node) in [
            ("h1", Some("gpu01")),
            ("h3", Some("gpu03")),
            ("both", None),
            ("plain", None),
            ("up", Some("UP")),
        ] {
            assert_eq!(node_of(&conf, machine).as_deref(), node, "{machine}");
        }
    }
}
