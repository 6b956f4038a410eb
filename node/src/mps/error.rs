//! Why a job can't have its MPS daemon, as an administrator and the job's user read it.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::job::JobKey;
use crate::job::listed;
use crate::ledger::LedgerError;

use crate::exec::AskError;
use crate::nvml::Trouble;

/// What there is to say of a daemon that shows a limit in a form that nobody here knows.
pub const UNREAD: &str = "may not limit memory, for its driver shows the limit in a form that is not known";

/// Why a daemon can't be had, or can't be ended.
#[derive(Debug)]
pub enum MpsError {
    /// The driver doesn't tell the GPU's UUID, and a daemon can be confined to a GPU by nothing else.
    NoUuid,
    /// Its folder can't be used.
    Folder(LedgerError),
    /// Somebody else than root could change what `MpsDir` lies in.
    Unsafe(PathBuf),
    /// A file or folder can't be made, read or removed.
    File(PathBuf, io::Error),
    /// Another process has been at work on the daemon for so long.
    Busy(PathBuf, Duration),
    /// No such user is known to this node.
    NoUser(u32),
    /// A program can't be asked.
    Ask(AskError),
    /// This process is inside of a job's step, and so would the daemon be; why it can't be a unit.
    InJob(Option<String>),
    /// It was started and is not there; what the program said.
    NotStarted(PathBuf, String),
    /// This nvidia-cuda-mps-control serves one user only; what it said.
    NoMultiuser(PathBuf, String),
    /// It is there and answers nonsense.
    Nonsense(String),
    /// It does not take the limits; which it took.
    Limits(String),
    /// It doesn't work, and other jobs use it: which, and what is wrong.
    InUse(Vec<JobKey>, Box<MpsError>),
    /// A server of it has met an error that it can't come out of.
    Faulty(u32),
    /// It is stopped, or a zombie.
    NotRunning(u32, char),
    /// Processes of it can't be ended.
    Undead(u32),
    /// It is ended, and its GPU's compute mode can't be set back.
    Mode(Trouble),
}

impl From<LedgerError> for MpsError {
    fn from(error: LedgerError) -> Self {
        MpsError::Folder(error)
    }
}

impl From<AskError> for MpsError {
    fn from(error: AskError) -> Self {
        MpsError::Ask(error)
    }
}

impl fmt::Display for MpsError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            MpsError::NoUuid => write!(out, "the NVIDIA driver tells no UUID of its GPU, which Mps needs"),
            MpsError::Folder(error) => error.fmt(out),
            MpsError::Unsafe(path) => {
                write!(
                    out,
                    "{}: somebody else than root can change it; MpsDir needs another place",
                    path.display()
                )
            }
            MpsError::File(path, error) => write!(out, "{}: {error}", path.display()),
            MpsError::Busy(path, time) => {
                write!(out, "{}: locked by another process for {} ms", path.display(), time.as_millis())
            }
            MpsError::NoUser(user_id) => write!(out, "this node knows no user {user_id}"),
            MpsError::Ask(error) => error.fmt(out),
            MpsError::InJob(why) => write!(
                out,
                "it would end with this job, because the prolog runs inside the job (PrologFlags=RunInJob) and no \
                 systemd takes it out ({}); PrologFlags=Contain would do",
                why.as_deref().unwrap_or("there is none")
            ),
            MpsError::NotStarted(path, said) => write!(out, "{} started no daemon: {said}", path.display()),
            MpsError::NoMultiuser(path, said) => {
                write!(out, "{} has no multi-user server, Mps=per-user would do: {said}", path.display())
            }
            MpsError::Nonsense(said) => write!(out, "the MPS daemon answers '{said}'"),
            MpsError::Limits(said) => write!(out, "the MPS daemon does not take the share's limits: {said}"),
            MpsError::InUse(jobs, why) => write!(out, "{why}; jobs that use the daemon: {}", listed(jobs)),
            MpsError::Faulty(pid) => {
                write!(
                    out,
                    "MPS server {pid} has met a fatal error and takes no programs until its clients have gone"
                )
            }
            MpsError::NotRunning(pid, state) => {
                write!(out, "MPS daemon {pid} is in state {state}, not running")
            }
            MpsError::Mode(why) => {
                write!(out, "its GPU's compute mode can't be set back to default: {why}")
            }
            MpsError::Undead(pid) => write!(out, "processes of MPS daemon {pid} can't be ended"),
        }
    }
}

impl std::error::Error for MpsError {}
