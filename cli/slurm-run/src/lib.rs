//! Runs Slurm's own commands, in one environment and with limits on time and output, and reads slurm.conf. What the
//! commands print, `gpushare_slurm_text` reads. Changes nothing, and checks nothing.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use gpushare::config::last_good;

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
