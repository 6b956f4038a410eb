//! A daemon as a transient unit, by systemd-run(1). It is outside of slurmd's cgroup and any job's, so it ends with
//! neither. It can open only its own GPU, whatever its clients make it do.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::mps::service::Serves;

use super::error::UnitError;
use super::record::Process;
use super::startup::{How, Startup};
use crate::exec::{AskError, ask, program};

const SYSTEMD_RUN: &str = "/usr/bin/systemd-run";
const NVIDIA_MODPROBE: &str = "/usr/bin/nvidia-modprobe";
/// Only there where systemd is process 1 (sd_booted(3)).
const SYSTEMD: &str = "/run/systemd/system";
/// What programs that compute can't do without beside the GPU.
const NEEDED: [&str; 2] = ["/dev/nvidiactl", "/dev/nvidia-uvm"];
/// And what some open.
const MORE: [&str; 2] = ["/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"];
/// Properties of every unit; all are older than systemd-run's --collect (systemd 236).
const PROPERTIES: [&str; 4] = [
    // Servers of a daemon that died may be at work for jobs; gpushare-epilog ends them.
    "KillMode=process",
    // Processes that don't heed SIGTERM.
    "TimeoutStopSec=1s",
    // As in Slurm's unit of slurmd, whose limits a daemon would have without a unit.
    "LimitNOFILE=131072",
    "LimitMEMLOCK=infinity",
];

/// Whether units can be had.
pub fn is_possible() -> bool {
    Path::new(SYSTEMD).is_dir()
}

/// Starts the daemon; `found` tells whether it is there.
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
    // A unit stays as long as anything lives in its cgroup: servers of a dead daemon keep their unit's name.
    let other = format!("{name}-{}", std::process::id());
    let mut why = UnitError::NotThere(SYSTEMD_RUN);
    for name in [name, other] {
        let left = end.saturating_duration_since(Instant::now());
        let answered = ask(&mut command(startup, &name, missing.is_none(), left), "", left);
        // Also where systemd-run says otherwise, or nothing: it may have been slow only.
        if let Some(process) = found() {
            let notice = missing.map(|path| {
                format!("unit {name} can open every GPU: {path} is not there; load its kernel module at boot")
            });
            return Ok((process, How { unit: Some(name), notice, unread: None }));
        }
        why = match answered {
            Ok(answer) if answer.status.success() => UnitError::NotThere(SYSTEMD_RUN),
            Ok(answer) => UnitError::Said(answer.first_line()),
            Err(AskError::Deadline(path, _)) => return Err(AskError::Deadline(path, patience).into()),
            Err(error) => return Err(error.into()),
        };
        // "Unit … already exists.", "Unit … was already loaded or has a fragment file."
        if !matches!(&why, UnitError::Said(line) if line.contains(" already ")) {
            break;
        }
    }
    Err(why)
}

/// A device that the daemon's servers will need and that systemd can't let them open, for it is not there yet. Made by
/// NVIDIA's own program where that is installed, as CUDA itself would.
fn missing(patience: Duration) -> Option<&'static str> {
    let find = || NEEDED.into_iter().find(|path| !Path::new(path).exists());
    find()?;
    if Path::new(NVIDIA_MODPROBE).exists() {
        // Whether it worked is seen by what is there.
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
    // Not --quiet: that would also keep back why it failed.
    command.args(["--collect", "--service-type=forking"]);
    command.arg(format!("--unit={name}"));
    command.arg(format!("--description=gpushare: MPS daemon of {} for {whose}", startup.gpu.path.display()));
    if startup.daemon.serves != Serves::All {
        command.args([format!("--uid={}", startup.ids.0), format!("--gid={}", startup.ids.1)]);
    }
    command.args(PROPERTIES.map(|property| format!("--property={property}")));
    // systemd gives up before we do, so that it is over then. Its timers may be late by a quarter of a second; 0 is
    // never.
    command.arg(format!("--property=TimeoutStartSec={}ms", (patience.as_millis() / 2).max(1)));
    if close {
        command.arg("--property=DevicePolicy=closed");
        let own = startup.gpu.path.display().to_string();
        for device in std::iter::once(own.as_str()).chain(NEEDED).chain(MORE) {
            // systemd logs a warning for each that isn't there.
            if Path::new(device).exists() {
                command.arg(format!("--property=DeviceAllow={device} rw"));
            }
        }
    }
    for (name, value) in startup.variables() {
        command.arg(format!("--setenv={name}={value}"));
    }
    let (path, arguments) = startup.command_line();
    command.arg("--").arg(path).args(arguments);
    command
}
