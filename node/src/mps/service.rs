//! Which MPS daemon serves a job, where its directories are, and which limits it gets: pure. [`super`] starts and ends
//! the daemons.
//!
//! A share's daemon has one GPU. A job with whole GPUs has a daemon only if it asks for one (`--gpu-mps`) and
//! `MpsWholeGpus` allows that: one for all of its GPUs on this node, without limits. The prolog learns of the option
//! from slurmd (see [`crate::job`]), and writes the daemon's directory into the job's entry. From there on it is
//! started, reached, started again and ended like a share's.
//!
//! ```text
//! MpsDir/j7-2001/       the same for the whole GPUs of job 7, of user 2001; no site's own daemons have such names
//! MpsDir/3.2001/        root's; for GPU minor 3 and user 2001, or 3.all for the daemon of all users
//! MpsDir/3.2001/lock    locked while a process changes something about the daemon
//! MpsDir/3.2001/state   what was started, and with which limits
//! MpsDir/3.2001/pipe/   CUDA_MPS_PIPE_DIRECTORY
//! MpsDir/3.2001/log/    CUDA_MPS_LOG_DIRECTORY
//! ```

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::config::{Mps, NodeConfig, Placement, UserMix};
use crate::ledger::{Entry, Holding};

/// The directory of pipes in a daemon's directory.
pub(super) const PIPE: &str = "pipe";
/// The percentage that limits nothing.
pub const ALL: u32 = 100;

/// The last minor number that a GPU can have. Scripts of users name directories of their own by jobs' numbers.
const LAST_MINOR: u32 = 255;

/// An MPS control daemon of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Daemon {
    /// Its GPUs.
    pub on: On,
    /// Whose jobs the daemon serves.
    pub serves: Serves,
}

/// The GPUs of a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum On {
    /// One that has shares: the N of its /dev/nvidiaN.
    Gpu(u32),
    /// All that the job with this number has whole.
    Job(u32),
}

/// Whose jobs a daemon serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Serves {
    /// Those of one user; the daemon runs as that user.
    User(u32),
    /// Those of all users; the daemon runs as root.
    All,
}

impl Daemon {
    /// The daemon for a job; `None` for a share without `Mps`, and for whole GPUs unless the job was given one.
    pub fn of(entry: &Entry, mps: Mps) -> Option<Daemon> {
        if entry.holding == Holding::Whole {
            return entry.given.daemon.as_ref().map(|_| Daemon::of_whole(entry));
        }
        let on = On::Gpu(entry.share_gpu()?.number.minor);
        match mps {
            Mps::Off => None,
            Mps::PerUser => Some(Daemon { on, serves: Serves::User(entry.user_id) }),
            Mps::Multiuser => Some(Daemon { on, serves: Serves::All }),
        }
    }

    /// The daemon for the whole GPUs of a job.
    pub fn of_whole(entry: &Entry) -> Daemon {
        Daemon { on: On::Job(entry.key.id), serves: Serves::User(entry.user_id) }
    }

    /// Whether it serves this job, even if `Mps` has changed meanwhile.
    pub fn serves(&self, entry: &Entry) -> bool {
        let same_user = match self.serves {
            Serves::User(user_id) => entry.user_id == user_id,
            Serves::All => true,
        };
        same_user
            && match self.on {
                On::Gpu(minor) => entry.share_gpu().is_some_and(|gpu| gpu.number.minor == minor),
                On::Job(id) => entry.key.id == id && entry.holding == Holding::Whole,
            }
    }

    /// The daemon's directory.
    pub fn folder(&self, mps_dir: &Path) -> PathBuf {
        mps_dir.join(self.to_string())
    }

    /// `CUDA_MPS_PIPE_DIRECTORY`. Even with the longest `MpsDir` it stays below the 87 characters that a daemon
    /// accepts.
    pub fn pipe(&self, mps_dir: &Path) -> PathBuf {
        self.folder(mps_dir).join(PIPE)
    }

    /// `CUDA_MPS_LOG_DIRECTORY`
    pub fn log(&self, mps_dir: &Path) -> PathBuf {
        self.folder(mps_dir).join("log")
    }
}

impl fmt::Display for Daemon {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match (self.on, self.serves) {
            (On::Gpu(minor), Serves::User(user_id)) => write!(out, "{minor}.{user_id}"),
            (On::Job(id), Serves::User(user_id)) => write!(out, "j{id}-{user_id}"),
            (On::Gpu(number) | On::Job(number), Serves::All) => write!(out, "{number}.all"),
        }
    }
}

impl FromStr for Daemon {
    type Err = ();

    /// Parses a directory's name. Refuses `+3.7` and `03.7`, which gpushare never writes.
    fn from_str(name: &str) -> Result<Self, ()> {
        let job = name.strip_prefix('j').and_then(|rest| rest.split_once('-'));
        let (number, user) = job.or_else(|| name.split_once('.')).ok_or(())?;
        let serves = match user {
            "all" => Serves::All,
            user => Serves::User(user.parse().map_err(|_| ())?),
        };
        let number: u32 = number.parse().map_err(|_| ())?;
        let on = if job.is_some() { On::Job(number) } else { On::Gpu(number) };
        let daemon = Daemon { on, serves };
        let is_ours = daemon.to_string() == name && (job.is_some() || number <= LAST_MINOR);
        if is_ours { Ok(daemon) } else { Err(()) }
    }
}

/// How much of its GPU a program of a share may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// GPU memory in MiB; `None` if it isn't limited.
    pub memory: Option<u32>,
    /// Threads, in whole percent of the GPU's, 1 to 100.
    pub percent: u32,
}

impl Limits {
    /// The limits of a job; whole GPUs have none, like a share of which nothing is limited.
    pub fn of(entry: &Entry, config: &NodeConfig) -> Option<Limits> {
        match entry.holding {
            Holding::Share { units, capacity, memory, .. } => {
                Some(Limits { memory, percent: threads((units, capacity), config) })
            }
            Holding::Whole => Some(Limits { memory: None, percent: ALL }),
            Holding::Nothing => None,
        }
    }

    /// The limits of a daemon that serves both jobs. A job's own variables lower its programs' limits to the job's own;
    /// these limits apply if a program ignores the variables.
    #[must_use]
    pub fn with(self, other: Limits) -> Limits {
        let memory = match (self.memory, other.memory) {
            (Some(one), Some(other)) => Some(one.max(other)),
            _ => None,
        };
        Limits { memory, percent: self.percent.max(other.percent) }
    }
}

/// The share in whole percent, 1 to 100, of the GPU that the job really has. Slurm's own value relates to the GPU that
/// it allocated, which may represent the whole node.
pub fn percent(units: u32, capacity: u32) -> u32 {
    let percent = (u64::from(units) * 100).checked_div(u64::from(capacity)).unwrap_or(100).clamp(1, 100);
    u32::try_from(percent).unwrap_or(100)
}

/// The threads that programs of a share may use, in whole percent. Servers of several users take turns, and each has
/// the whole GPU in its turn: a limit would leave the rest of it idle (measured: docs/dev/gpu.md).
pub fn threads((units, capacity): (u32, u32), config: &NodeConfig) -> u32 {
    // Where Slurm picks the GPU, `UserMix` plays no part.
    let has_one_user = config.user_mix == UserMix::Deny && config.placement != Placement::Follow;
    if config.mps == Mps::PerUser && !has_one_user { ALL } else { percent(units, capacity) }
}

/// The memory of a share in MiB: from `MemPerUnit`, or else the share's part of the GPU's memory.
pub fn memory((units, capacity): (u32, u32), config: &NodeConfig, all: Option<u32>) -> Option<u32> {
    let of_units = config.mem_per_unit.map(|mib| units.saturating_mul(mib));
    let part = |all: u32| {
        let part = u64::from(all) * u64::from(units) / u64::from(capacity.max(1));
        u32::try_from(part).unwrap_or(u32::MAX).min(all)
    };
    // A limit of 0 would mean no limit.
    of_units.or_else(|| all.map(part)).map(|memory| memory.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_name_stands_for_its_daemon_alone() {
        for (name, daemon) in [
            ("3.2001", Some(Daemon { on: On::Gpu(3), serves: Serves::User(2001) })),
            ("0.all", Some(Daemon { on: On::Gpu(0), serves: Serves::All })),
            ("j7-2001", Some(Daemon { on: On::Job(7), serves: Serves::User(2001) })),
            ("j7-all", None),
            ("7-2001", None),
            ("255.2001", Some(Daemon { on: On::Gpu(255), serves: Serves::User(2001) })),
            ("256.2001", None),
            ("j-7-2001", None),
            ("j7.2001", None),
            ("03.2001", None),
            ("+3.2001", None),
            ("3", None),
            ("3.", None),
            ("3.ALL", None),
            ("lock", None),
        ] {
            assert_eq!(name.parse::<Daemon>().ok(), daemon, "{name}");
        }
    }

    #[test]
    fn the_longest_folder_still_leaves_room_for_a_pipe() {
        // MAX_JOB_ID in slurm.h.
        const MOST_JOBS: u32 = 0x03ff_ffff;
        let dir = format!("/{}", "d".repeat(59));
        for on in [On::Gpu(255), On::Job(MOST_JOBS)] {
            let longest = Daemon { on, serves: Serves::User(u32::MAX) };
            assert!(longest.pipe(Path::new(&dir)).as_os_str().len() <= 87);
        }
    }

    #[test]
    fn memory_goes_by_units() {
        let config = NodeConfig::default();
        let fixed = NodeConfig { mem_per_unit: Some(500), ..config.clone() };
        for (units, config, all, expected) in [
            (80, &config, Some(46_068), Some(46_068)),
            (40, &config, Some(46_068), Some(23_034)),
            (160, &config, Some(46_068), Some(46_068)),
            (1, &config, Some(40), Some(1)),
            (40, &config, None, None),
            (40, &fixed, None, Some(20_000)),
            (40, &fixed, Some(46_068), Some(20_000)),
        ] {
            assert_eq!(memory((units, 80), config, all), expected, "{units} of {all:?}");
        }
    }

    #[test]
    fn threads_are_limited_only_where_one_server_serves_all_of_a_gpu() {
        for (mps, user_mix, placement, expected) in [
            (Mps::Multiuser, UserMix::Allow, Placement::Own, 25),
            (Mps::Off, UserMix::Allow, Placement::Own, 25),
            (Mps::PerUser, UserMix::Deny, Placement::Own, 25),
            (Mps::PerUser, UserMix::Deny, Placement::Override, 25),
            (Mps::PerUser, UserMix::Deny, Placement::Follow, 100),
            (Mps::PerUser, UserMix::Avoid, Placement::Own, 100),
            (Mps::PerUser, UserMix::Allow, Placement::Own, 100),
        ] {
            let config = NodeConfig { mps, user_mix, placement, ..NodeConfig::default() };
            assert_eq!(threads((20, 80), &config), expected, "{mps:?} {user_mix:?} {placement:?}");
        }
    }

    #[test]
    fn a_daemon_allows_what_the_largest_of_its_jobs_may() {
        let small = Limits { memory: Some(100), percent: 10 };
        let large = Limits { memory: Some(300), percent: 5 };
        assert_eq!(small.with(large), Limits { memory: Some(300), percent: 10 });
        assert_eq!(small.with(Limits { memory: None, percent: 1 }).memory, None);
    }
}
