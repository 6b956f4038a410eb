//! The daemons of this node as `gpushare status` and `gpushare check` see them: from outside, without any query that a
//! job would have to wait for.

use crate::config::{Mps, NodeConfig};
use crate::gpu::{DeviceNumber, Gpu};
use crate::ledger::Ledger;
use crate::mps::service::{Daemon, Limits, On, Serves};

use super::daemon::LockedDaemon;
use super::error::MpsError;
use super::startup::How;
use super::{folder, process};

/// No GPU has this minor: 255 belongs to /dev/nvidiactl.
pub(super) const TRIED: On = On::Gpu(255);

/// A daemon's directory, and the daemon's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Which daemon.
    pub daemon: Daemon,
    /// Its process, if it exists.
    pub pid: Option<u32>,
    /// Its state if it can't answer: it is stopped or traced.
    pub stuck: Option<char>,
}

/// Every daemon that has a directory, in order, without directories that only say which compute mode to set back. Only
/// root finds the processes of other users' daemons.
pub fn seen(config: &NodeConfig) -> Vec<Seen> {
    let mut daemons = super::daemons(config);
    daemons.retain(|daemon| folder::left_with_mode(&daemon.folder(&config.mps_dir)).is_none());
    daemons.sort_unstable();
    let one = |daemon: Daemon| {
        let user_id = match daemon.serves {
            Serves::User(user_id) => user_id,
            Serves::All => 0,
        };
        let pid = process::holder(&daemon.pipe(&config.mps_dir), user_id).map(|process| process.pid);
        Seen { daemon, pid, stuck: pid.and_then(process::is_stuck) }
    };
    daemons.into_iter().map(one).collect()
}

/// Checks whether NVIDIA's program can start a daemon as `Mps` says: starts one as root, for no GPU of this node, and
/// ends it. Returns how it was started; `None` without `Mps` and
/// `MpsWholeGpus`.
///
/// # Errors
/// The daemon can't be started or ended.
pub fn try_out(config: &NodeConfig) -> Result<Option<How>, MpsError> {
    let serves = match config.mps {
        Mps::Off if !config.runs_daemons() => return Ok(None),
        Mps::Off | Mps::PerUser => Serves::User(0),
        Mps::Multiuser => Serves::All,
    };
    let daemon = Daemon { on: TRIED, serves };
    let locked = folder::lock(&config.mps_dir, daemon, config.mps_timeout, config.mps_timeout)?;
    let mut locked_daemon = LockedDaemon { config, daemon, state: locked.state(), locked };
    let gpu = Gpu {
        index: 0,
        path: "/dev/nvidiactl".into(),
        number: DeviceNumber { major: 195, minor: 255 },
        uuid: Some("GPU-00000000-0000-0000-0000-000000000000".to_owned()),
    };
    let started = locked_daemon.start(&[gpu], Limits { memory: Some(1024), percent: 50 });
    // The daemon has no GPU, so no mode was set and no job uses it.
    locked_daemon.finish(&Ledger::system())?;
    started.map(|(_, how)| Some(how))
}
