//! What to start for a daemon, and how it was started.

use std::path::Path;

use crate::gpu::Gpu;
use crate::mps::service::{Daemon, Serves};
use gpushare::config::NodeConfig;

use super::control::Control;
use super::process;

/// How a daemon was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct How {
    /// Its transient unit. Without one, it is a session of its own in the cgroup of the process that started it.
    pub unit: Option<String>,
    /// What is not as it should be, for an administrator.
    pub notice: Option<String>,
    /// How it shows a limit, if that can't be read: then it is unknown whether it took the limit.
    pub unread: Option<String>,
}

/// What is to be started.
#[derive(Debug)]
pub struct Startup<'a> {
    /// Which daemon.
    pub daemon: Daemon,
    /// Its GPU.
    pub gpu: &'a Gpu,
    pub(super) uuid: &'a str,
    pub(super) control: &'a Control,
    pub(super) config: &'a NodeConfig,
    /// Its user and group.
    pub ids: (u32, u32),
}

impl Startup<'_> {
    /// Its environment, by name: what its callers have too, its GPU, and by what it is found while it starts.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, String)> {
        let pipe = self.control.pipe().display().to_string();
        let own = [("CUDA_VISIBLE_DEVICES", self.uuid.to_owned()), (process::MARK, pipe)];
        self.control.variables().into_iter().chain(own)
    }

    /// NVIDIA's program and its arguments.
    pub fn command_line(&self) -> (&Path, &'static [&'static str]) {
        let arguments: &[&str] = match self.daemon.serves {
            Serves::User(_) => &["-d"],
            // In 555 and newer; 535 and 550 take it for a question to a daemon that isn't there, and end with 1.
            Serves::All => &["-d", "-multiuser-server"],
        };
        (&self.config.mps_control, arguments)
    }
}
