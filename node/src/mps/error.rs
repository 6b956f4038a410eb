//! Why a job can't have its MPS daemon, in words for an administrator and the job's user.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::job::JobKey;
use crate::job::listed;
use crate::ledger::LedgerError;

use crate::exec::AskError;
use crate::nvml::Trouble;

/// What a report says of a daemon that shows a limit in an unknown form.
pub const UNREAD: &str = "may not limit memory, for its driver shows the limit in a form that is not known";

gpushare::errors! {
    /// Why a daemon can't start or serve the job, or can't be ended.
    #[derive(Debug)]
    pub enum MpsError {
        /// By nothing else can a daemon be confined to a GPU.
        NoUuid => "the NVIDIA driver tells no UUID of its GPU, which Mps needs";
        Unsafe(path: PathBuf) =>
            "{}: somebody else than root can change it; MpsDir needs another place", path.display();
        File(path: PathBuf, error: io::Error) => "{}: {error}", path.display();
        Busy(path: PathBuf, time: Duration) =>
            "{}: locked by another process for {} ms", path.display(), time.as_millis();
        NoUser(user_id: u32) => "this node knows no user {user_id}";
        /// This process is inside a job's step, and so would the daemon be; why it can't be a unit.
        InJob(why: Option<UnitError>) =>
            "it would end with this job, because the prolog runs inside the job (PrologFlags=RunInJob) and no \
             systemd takes it out ({}); PrologFlags=Contain would do",
            why.as_ref().map_or_else(|| "there is none".to_owned(), UnitError::to_string);
        NotStarted(path: PathBuf, said: String) => "{} started no daemon: {said}", path.display();
        NoMultiuser(path: PathBuf, said: String) =>
            "{} has no multi-user server, Mps=per-user would do: {said}", path.display();
        Nonsense(said: String) => "the MPS daemon answers '{said}'";
        Limits(said: String) => "the MPS daemon does not take the share's limits: {said}";
        InUse(jobs: Vec<JobKey>, why: Box<MpsError>) => "{why}; jobs that use the daemon: {}", listed(jobs);
        Faulty(pid: u32) =>
            "MPS server {pid} has met a fatal error and takes no programs until its clients have gone";
        /// It is stopped, or a zombie.
        NotRunning(pid: u32, state: char) => "MPS daemon {pid} is in state {state}, not running";
        Undead(pid: u32) => "processes of MPS daemon {pid} can't be ended";
        /// The daemon itself is ended.
        Mode(why: Trouble) => "its GPU's compute mode can't be set back to default: {why}";
    } from { Folder(LedgerError), Ask(AskError) }
}

gpushare::errors! {
    /// Why a daemon is no transient unit.
    #[derive(Debug)]
    pub enum UnitError {
        NotThere(program: &'static str) => "{program} started it, and it is not there";
        Said(line: String) => "{line}";
    } from { Ask(AskError) }
}
