//! A daemon as a transient unit, by systemd-run(1). It is outside of slurmd's cgroup and any job's, so it doesn't end
//! with them. It can open only its own GPUs, whatever its clients make it do.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::mps::service::Serves;

use super::error::UnitError;
use super::record::Process;
use super::startup::{How, SETPRIV, Startup};
use crate::exec::{AskError, ask, program};

const SYSTEMD_RUN: &str = "/usr/bin/systemd-run";
const NVIDIA_MODPROBE: &str = "/usr/bin/nvidia-modprobe";
/// Exists only if systemd is process 1 (sd_booted(3)).
pub(super) const SYSTEMD: &str = "/run/systemd/system";
/// Devices besides the GPU that every computing program needs.
const NEEDED: [&str; 2] = ["/dev/nvidiactl", "/dev/nvidia-uvm"];
/// Devices that some programs open.
const MORE: [&str; 2] = ["/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"];
/// Properties of every unit; all are older than systemd-run's --collect (systemd 236).
const PROPERTIES: [&str; 4] = [
    // Servers of a daemon that died may still work for jobs; gpushare-epilog ends them.
    "KillMode=process",
    // For processes that ignore SIGTERM.
    "TimeoutStopSec=1s",
    // As in Slurm's unit for slurmd, whose limits a daemon without a unit would have.
    "LimitNOFILE=131072",
    "LimitMEMLOCK=infinity",
];

/// Starts the daemon; `found` returns it if it runs. The error is a text that says what went wrong.
///
/// # Errors
/// systemd-run(1) can't be run, does not answer in time, or starts no unit, and the daemon is not there.
pub fn start(
    startup: &Startup,
    patience: Duration,
    found: impl Fn() -> Option<Process>,
) -> Result<(Process, How), UnitError> {
    let end = Instant::now() + patience;
    let missing = missing(patience / 2);
    let name = format!("gpushare-mps-{}", startup.daemon);
    // A unit stays as long as any process is in its cgroup: servers of a dead daemon keep their unit's name.
    let other = format!("{name}-{}", std::process::id());
    let mut why = UnitError::NotThere(SYSTEMD_RUN);
    for name in [name, other] {
        let left = end.saturating_duration_since(Instant::now());
        let answered = ask(&mut command(startup, &name, missing.is_none(), left), "", left);
        // This also counts if systemd-run reports a failure, or nothing: it may only have been slow.
        if let Some(process) = found() {
            let notice = missing.map(|path| {
                format!("unit {name} can open every GPU: {path} is missing; load its kernel module at boot")
            });
            return Ok((process, How { unit: Some(name), notice, unread: None }));
        }
        why = match answered {
            Ok(answer) if answer.status.success() => UnitError::NotThere(SYSTEMD_RUN),
            Ok(answer) => UnitError::Said(answer.first_line()),
            Err(AskError::Deadline(path, _)) => return Err(AskError::Deadline(path, patience).into()),
            Err(error) => return Err(error.into()),
        };
        // Such as "Unit … already exists." and "Unit … was already loaded or has a fragment file."
        if !matches!(&why, UnitError::Said(line) if line.contains(" already ")) {
            break;
        }
    }
    Err(why)
}

/// A device that the daemon's servers will need but that systemd can't allow, because it doesn't exist yet. Tries to
/// make it with NVIDIA's own program, if that is installed, as CUDA itself would.
fn missing(patience: Duration) -> Option<&'static str> {
    let find = || NEEDED.into_iter().find(|path| !Path::new(path).exists());
    find()?;
    if Path::new(NVIDIA_MODPROBE).exists() {
        // Whether it worked shows in which devices exist.
        let _ = ask(program(Path::new(NVIDIA_MODPROBE)).args(["-u", "-c=0"]), "", patience);
    }
    find()
}

fn command(startup: &Startup, name: &str, close: bool, patience: Duration) -> Command {
    let mut command = program(Path::new(SYSTEMD_RUN));
    let whose = match startup.daemon.serves {
        Serves::User(user_id) => format!("user {user_id}"),
        Serves::All => "all users".to_owned(),
    };
    // Not --quiet: that would also hide why it failed.
    command.args(["--collect", "--service-type=forking"]);
    command.arg(format!("--unit={name}"));
    let own: Vec<String> = startup.gpus.iter().map(|gpu| gpu.path.display().to_string()).collect();
    command.arg(format!("--description=gpushare: MPS daemon of {} for {whose}", own.join(" ")));
    // systemd looks users up, even by number, so it can't start a program as one whom it doesn't know.
    let by_setpriv = startup.by_setpriv().filter(|_| startup.only_group.is_some());
    if startup.daemon.serves != Serves::All && by_setpriv.is_none() {
        command.args([format!("--uid={}", startup.ids.0), format!("--gid={}", startup.ids.1)]);
    }
    command.args(PROPERTIES.map(|property| format!("--property={property}")));
    // systemd must give up before we do, so that nothing starts later. Its timers may be late by a quarter of a second;
    // 0 would mean never.
    command.arg(format!("--property=TimeoutStartSec={}ms", (patience.as_millis() / 2).max(1)));
    if close {
        command.arg("--property=DevicePolicy=closed");
        for device in own.iter().map(String::as_str).chain(NEEDED).chain(MORE) {
            // systemd logs a warning for each device that doesn't exist.
            if Path::new(device).exists() {
                command.arg(format!("--property=DeviceAllow={device} rw"));
            }
        }
    }
    for (name, value) in startup.variables() {
        command.arg(format!("--setenv={name}={value}"));
    }
    let (path, arguments) = startup.command_line();
    command.arg("--");
    if let Some(words) = by_setpriv {
        command.arg(SETPRIV).args(words).arg("--");
    }
    command.arg(path).args(arguments);
    command
}
