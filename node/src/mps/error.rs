//! Why a job can't have its MPS daemon, in words for an administrator and the job's user.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::job::JobKey;
use crate::job::listed;
use crate::ledger::LedgerError;

use crate::exec::AskError;
use crate::nvml::Trouble;

/// The report about a daemon that shows a limit in an unknown form.
pub const UNREAD: &str = "may not limit memory: its driver shows the limit in an unknown form";

gpushare::errors! {
    /// Why a daemon can't start or serve the job, or can't be ended.
    #[derive(Debug)]
    pub enum MpsError {
        /// A daemon can be confined to a GPU only by UUID.
        NoUuid => "the NVIDIA driver shows no UUID for its GPU, and MPS needs it";
        Unsafe(path: PathBuf) =>
            "{}: users other than root can change it; set MpsDir to another directory", path.display();
        File(path: PathBuf, error: io::Error) => "{}: {error}", path.display();
        Busy(path: PathBuf, time: Duration) =>
            "{}: locked by another process for {} ms", path.display(), time.as_millis();
        NoUser(user_id: u32) => "this node has no user {user_id}";
        /// This process is inside a job's step, so the daemon would be too. Holds the reason why it can't be a unit.
        InJob(why: Option<UnitError>) =>
            "it would end with this job, because the prolog runs inside the job (PrologFlags=RunInJob) and systemd \
             can't start it outside ({}); use PrologFlags=Contain",
            why.as_ref().map_or_else(|| "it is not installed".to_owned(), UnitError::to_string);
        NotStarted(path: PathBuf, said: String) => "{} started no daemon: {said}", path.display();
        NoMultiuser(path: PathBuf, said: String) =>
            "{} has no multi-user server, use Mps=per-user: {said}", path.display();
        Nonsense(said: String) => "the MPS daemon answers '{said}'";
        Limits(said: String) => "the MPS daemon does not accept the share's limits: {said}";
        InUse(jobs: Vec<JobKey>, why: Box<MpsError>) => "{why}; jobs that use the daemon: {}", listed(jobs);
        Faulty(pid: u32) =>
            "MPS server {pid} had a fatal error, in which all its programs lost the GPU";
        NoSocket(pid: u32) => "MPS daemon {pid} no longer has a socket: a program of its user removed it";
        /// The daemon is stopped, or a zombie.
        NotRunning(pid: u32, state: char) => "MPS daemon {pid} is in state {state}, not running";
        Undead(pid: u32) => "processes of MPS daemon {pid} can't be ended";
        /// The daemon itself has ended.
        Mode(why: Trouble) => "its GPU's compute mode can't be reset to default; later epilogs try again: {why}";
    } from { Folder(LedgerError), Ask(AskError) }
}

gpushare::errors! {
    /// Why a daemon isn't a transient unit.
    #[derive(Debug)]
    pub enum UnitError {
        NotThere(program: &'static str) => "{program} started it, but it is not running";
        Said(line: String) => "{line}";
    } from { Ask(AskError) }
}
