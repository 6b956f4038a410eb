//! Starts a daemon: as its user, with one GPU, detached from slurmd. Where systemd runs, as a transient unit, which also
//! closes the other GPUs to it; else by itself, in a session of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use gpushare::config::NodeConfig;
use gpushare::device::Gpu;
use gpushare::mps::{Daemon, Serves};

use super::control::Control;
use super::error::MpsError;
use super::folder::Locked;
use super::process;
use super::state::Process;
use crate::program::{Answer, AskError, ask, program};

const SETPRIV: &str = "/usr/bin/setpriv";
const SYSTEMD_RUN: &str = "/usr/bin/systemd-run";
const GETENT: &str = "/usr/bin/getent";
/// Only there where systemd is process 1 (sd_booted(3)).
const SYSTEMD: &str = "/run/systemd/system";
/// What programs that compute open beside the GPU.
const COMMON: [&str; 4] =
    ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"];

/// How a daemon was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// As a transient unit.
    Unit,
    /// By itself.
    Alone,
}

/// The group of a daemon's user; root's for a daemon of all users.
pub fn group_of(serves: Serves, config: &NodeConfig) -> Result<u32, MpsError> {
    let user_id = match serves {
        Serves::All => return Ok(0),
        Serves::User(user_id) => user_id,
    };
    let mut getent = program(Path::new(GETENT));
    getent.args(["passwd", &user_id.to_string()]);
    let answer = ask(&mut getent, "", config.mps_timeout)?;
    // NAME:x:UID:GID:…
    let fields: Vec<&str> = answer.output.trim().split(':').collect();
    let known = fields.get(2).is_some_and(|field| *field == user_id.to_string());
    let group = fields.get(3).and_then(|field| field.parse().ok());
    group.filter(|_| known).ok_or(MpsError::NoUser(user_id))
}

/// Starts a daemon in a folder whose pipes have just been made. NVIDIA's program ends with 0 when the daemon listens.
pub fn start(
    daemon: Daemon,
    gpu: &Gpu,
    locked: &Locked,
    control: &Control,
    config: &NodeConfig,
    (user_id, group_id): (u32, u32),
) -> Result<(Process, How), MpsError> {
    let uuid = gpu.uuid.as_deref().ok_or(MpsError::NoUuid)?;
    let ids = (user_id, group_id);
    let mut failed = None;
    if Path::new(SYSTEMD).is_dir() && Path::new(SYSTEMD_RUN).exists() {
        let mut command = unit(daemon, gpu, uuid, control, config, ids);
        match ask(&mut command, "", config.mps_timeout) {
            Ok(answer) => match process::holder(&locked.pipe(), user_id) {
                Some(found) => return Ok((found, How::Unit)),
                None => failed = Some(answer),
            },
            // Without an answer nobody knows whether it is about to start one.
            Err(error) => return Err(unanswered(config, error)),
        }
    }
    let mut command = alone(daemon, uuid, control, config, ids);
    let answer = ask(&mut command, "", config.mps_timeout).map_err(|error| unanswered(config, error))?;
    match process::holder(&locked.pipe(), user_id) {
        Some(found) => Ok((found, How::Alone)),
        None => Err(not_started(daemon, config, &answer, failed.as_ref())),
    }
}

/// The program that was run is setpriv(1) or systemd-run(1); what doesn't answer is the one behind it.
fn unanswered(config: &NodeConfig, error: AskError) -> MpsError {
    match error {
        AskError::Deadline(_, patience) => {
            let said = format!("no answer in {} ms", patience.as_millis());
            MpsError::NotStarted(config.mps_control.clone(), said)
        }
        error => error.into(),
    }
}

fn not_started(daemon: Daemon, config: &NodeConfig, answer: &Answer, unit: Option<&Answer>) -> MpsError {
    let mut said = answer.first_line();
    if let Some(unit) = unit {
        said = format!("{said}; as a unit: {}", unit.first_line());
    }
    match daemon.serves {
        Serves::All => MpsError::NoMultiuser(config.mps_control.clone(), said),
        Serves::User(_) => MpsError::NotStarted(config.mps_control.clone(), said),
    }
}

/// The daemon's own command line.
fn daemon_arguments(daemon: Daemon, config: &NodeConfig) -> (PathBuf, &'static [&'static str]) {
    let arguments: &[&str] = match daemon.serves {
        Serves::User(_) => &["-d"],
        // In 555 and newer; 535 and 550 take it for a question to a daemon that isn't there, and end with 1.
        Serves::All => &["-d", "-multiuser-server"],
    };
    (config.mps_control.clone(), arguments)
}

fn alone(daemon: Daemon, uuid: &str, control: &Control, config: &NodeConfig, ids: (u32, u32)) -> Command {
    let (path, arguments) = daemon_arguments(daemon, config);
    let mut command = match daemon.serves {
        Serves::All => program(&path),
        Serves::User(_) => {
            let mut command = program(Path::new(SETPRIV));
            // All of the user's groups: a site may have given GPUs to one of them.
            command.arg(format!("--reuid={}", ids.0)).arg(format!("--regid={}", ids.1));
            command.arg("--init-groups").arg("--").arg(&path);
            command
        }
    };
    command.args(arguments).env("CUDA_VISIBLE_DEVICES", uuid);
    control.environment(&mut command);
    command
}

fn unit(
    daemon: Daemon,
    gpu: &Gpu,
    uuid: &str,
    control: &Control,
    config: &NodeConfig,
    ids: (u32, u32),
) -> Command {
    let (path, arguments) = daemon_arguments(daemon, config);
    let mut command = program(Path::new(SYSTEMD_RUN));
    command.args([
        "--quiet",
        "--collect",
        "--service-type=forking",
        &format!("--unit=gpushare-mps-{daemon}"),
    ]);
    if let Serves::User(user_id) = daemon.serves {
        command.args([format!("--uid={user_id}"), format!("--gid={}", ids.1)]);
    }
    command.arg("--property=DevicePolicy=closed");
    let own = gpu.path.display().to_string();
    for device in std::iter::once(own.as_str()).chain(COMMON) {
        command.arg(format!("--property=DeviceAllow={device} rw"));
    }
    for (name, value) in control.variables().into_iter().chain([("CUDA_VISIBLE_DEVICES", uuid.to_owned())]) {
        command.arg(format!("--setenv={name}={value}"));
    }
    command.arg("--").arg(&path).args(arguments);
    command
}
