//! What to start for a daemon, and how it was started.

use std::path::Path;

use crate::config::NodeConfig;
use crate::gpu::Gpu;
use crate::mps::service::{Daemon, Serves};

use super::control::Control;
use super::process;

pub(super) const SETPRIV: &str = "/usr/bin/setpriv";

/// How a daemon was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct How {
    /// Its transient unit. Without one, the daemon has its own session in the cgroup of the process that started it.
    pub unit: Option<String>,
    /// A problem that an administrator should know about.
    pub notice: Option<String>,
    /// How the daemon shows a limit that gpushare can't read: then it is unknown whether it accepted the limit.
    pub unread: Option<String>,
}

/// What to start.
#[derive(Debug)]
pub struct Startup<'a> {
    /// Which daemon.
    pub daemon: Daemon,
    /// Its GPUs.
    pub gpus: &'a [Gpu],
    pub(super) uuids: String,
    pub(super) control: &'a Control,
    pub(super) config: &'a NodeConfig,
    /// The daemon's user and group.
    pub ids: (u32, u32),
    /// The group that its user is in, if name services don't know the user.
    pub(super) only_group: Option<u32>,
}

impl Startup<'_> {
    /// Its environment: the variables that its callers have too, its GPUs, and the mark by which it is found while it
    /// starts.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, String)> {
        let pipe = self.control.pipe().display().to_string();
        let own = [("CUDA_VISIBLE_DEVICES", self.uuids.clone()), (process::MARK, pipe)];
        self.control.variables().into_iter().chain(own)
    }

    /// The arguments with which setpriv(1) becomes the daemon's user; `None` for root.
    pub fn by_setpriv(&self) -> Option<[String; 3]> {
        let groups = match self.only_group {
            // Includes all of the user's groups: a site may have given GPUs to one of them.
            None => "--init-groups".to_owned(),
            Some(group) => format!("--groups={group}"),
        };
        let words = [format!("--reuid={}", self.ids.0), format!("--regid={}", self.ids.1), groups];
        (self.daemon.serves != Serves::All).then_some(words)
    }

    /// NVIDIA's program and its arguments.
    pub fn command_line(&self) -> (&Path, &'static [&'static str]) {
        let arguments: &[&str] = match self.daemon.serves {
            Serves::User(_) => &["-d"],
            // 555 and newer know this option; 535 and 550 treat it as a call to a daemon that isn't running, and exit
            // with 1.
            Serves::All => &["-d", "-multiuser-server"],
        };
        (&self.config.mps_control, arguments)
    }
}
