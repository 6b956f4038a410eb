//! Starts a daemon as its user, with its GPUs, detached from slurmd. If systemd runs, the daemon is a transient unit,
//! which also denies it the other GPUs. Otherwise, or if systemd fails, it starts in its own session.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::config::NodeConfig;
use crate::gpu::Gpu;
use crate::mps::service::{Daemon, Serves};

use super::control::Control;
use super::error::{MpsError, UnitError};
use super::folder::Locked;
use super::process;
use super::record::Process;
use super::startup::{How, SETPRIV, Startup};
use super::unit;
use crate::exec::{AskError, ask, program};

const GETENT: &str = "/usr/bin/getent";
/// `nogroup` or `nobody`: the kernel's overflow group, which no user has on any Linux.
const NOBODYS_GROUP: u32 = 65534;
/// The minimum time for a start without systemd, however long systemd took: usually a few milliseconds are enough.
const LEAST: Duration = Duration::from_millis(50);

/// User and group of a daemon. It lives outside the cgroups of its user's jobs, so the user must not be able to trace
/// it and thus escape from those cgroups. ptrace(2) requires the same user and the same group, so the daemon has a
/// group that no user has. (NVIDIA's own daemon of root's leaves the servers that it starts for users in root's group.)
pub fn ids_of(serves: Serves) -> (u32, u32) {
    match serves {
        Serves::All => (0, 0),
        Serves::User(user_id) => (user_id, NOBODYS_GROUP),
    }
}

/// The only group of a daemon's user, if the node's name services don't know the user, such as with nss_slurm or
/// `use_client_ids`. slurmd has it from the job's credential; it tells a prolog no other groups.
///
/// # Errors
/// The user is unknown and this isn't the prolog of their job, or getent(1) can't be run or does not answer in time.
fn only_group(serves: Serves, config: &NodeConfig) -> Result<Option<u32>, MpsError> {
    let Serves::User(user_id) = serves else { return Ok(None) };
    let mut getent = program(Path::new(GETENT));
    getent.args(["passwd", &user_id.to_string()]);
    let answer = ask(&mut getent, "", config.mps_timeout)?;
    // The line is NAME:x:UID:GID:…
    let known = answer.output.trim().split(':').nth(2) == Some(&user_id.to_string());
    let told = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    let group = || told("SLURM_JOB_GID").filter(|_| told("SLURM_JOB_UID") == Some(user_id));
    if known { Ok(None) } else { group().map(Some).ok_or(MpsError::NoUser(user_id)) }
}

/// Starts a daemon in a directory whose pipes have just been made. NVIDIA's program exits with 0 when the daemon
/// listens.
///
/// A unit that was requested but did not start in time does no harm: of two daemons in one directory only the first
/// stays (control_lock), and a daemon that finds no directory ends.
///
/// # Errors
/// The user is unknown, a GPU has no known UUID, the daemon would be inside a job's step, or no daemon started in
/// time.
pub fn start(
    daemon: Daemon,
    gpus: &[Gpu],
    locked: &Locked,
    control: &Control,
    config: &NodeConfig,
) -> Result<(Process, How), MpsError> {
    let ids = ids_of(daemon.serves);
    let uuids: Option<Vec<&str>> = gpus.iter().map(|gpu| gpu.uuid.as_deref()).collect();
    let uuids = uuids.ok_or(MpsError::NoUuid)?.join(",");
    let only_group = only_group(daemon.serves, config)?;
    let startup = Startup { daemon, gpus, uuids, control, config, ids, only_group };
    let end = Instant::now() + config.mps_timeout;
    let found = || process::holder(&locked.pipe(), ids.0);
    let mut no_unit = None;
    if Path::new(unit::SYSTEMD).is_dir() {
        match unit::start(&startup, config.mps_timeout / 2, found) {
            Ok(started) => return Ok(started),
            Err(why) => no_unit = Some(why),
        }
    }
    if is_in_step(&std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default()) {
        return Err(MpsError::InJob(no_unit));
    }
    let left = end.saturating_duration_since(Instant::now()).max(LEAST);
    let said = match ask(&mut alone(&startup), "", left) {
        Ok(answer) => answer.first_line(),
        // The program run here is setpriv(1), but the one that it starts is what doesn't answer.
        Err(AskError::Deadline(..)) => format!("no answer in {} ms", config.mps_timeout.as_millis()),
        Err(error) => return Err(error.into()),
    };
    match found() {
        Some(found) => {
            let notice =
                no_unit.map(|why| format!("it is not a systemd unit, so it can open every GPU: {why}"));
            Ok((found, How { unit: None, notice, unread: None }))
        }
        None => Err(not_started(&startup, said, no_unit)),
    }
}

/// Whether a process with that /proc/PID/cgroup is in a Slurm step's cgroup, as a prolog is with
/// `PrologFlags=RunInJob`. A daemon there would end with the job, even if other jobs use it, and be inside the job's
/// fence.
fn is_in_step(cgroups: &str) -> bool {
    cgroups.split(['/', '\n']).any(|part| part.starts_with("step_"))
}

fn not_started(startup: &Startup, mut said: String, no_unit: Option<UnitError>) -> MpsError {
    if let Some(why) = no_unit {
        said = format!("{said}; as a systemd unit: {why}");
    }
    let path = startup.config.mps_control.clone();
    match startup.daemon.serves {
        Serves::All => MpsError::NoMultiuser(path, said),
        Serves::User(_) => MpsError::NotStarted(path, said),
    }
}

fn alone(startup: &Startup) -> Command {
    let (path, arguments) = startup.command_line();
    let mut command = match startup.by_setpriv() {
        None => program(path),
        Some(words) => {
            let mut command = program(Path::new(SETPRIV));
            command.args(words).arg("--").arg(path);
            command
        }
    };
    command.args(arguments).envs(startup.variables());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steps_cgroup_is_known_in_every_release() {
        for (cgroups, inside) in [
            ("0::/system.slice/node_slurmstepd.scope/job_1/step_extern/slurm\n", true),
            ("0::/system.slice/slurmstepd.scope/s6Y5M7XQRE5T00/step_extern/slurm\n", true),
            ("9:devices:/slurm_node/uid_2001/job_1/step_extern\n1:name=systemd:/\n", true),
            ("0::/system.slice/node_slurmstepd.scope/slurmd\n", false),
            ("9:devices:/\n0::/system.slice/slurmd.service\n", false),
            ("", false),
        ] {
            assert_eq!(is_in_step(cgroups), inside, "{cgroups}");
        }
    }
}
