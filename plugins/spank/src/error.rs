//! Why a step is not fenced as it should be, or fails: in words for the log and the job's user.

use std::io;
use std::sync::Arc;

use gpushare::config::LoadError;
use gpushare_node::fence::Fault;
use gpushare_node::fence::locate::LocateError;
use gpushare_node::fence::owner::OwnerError;
use gpushare_node::fence::v1::RuleError;
use gpushare_node::fence::v2::V2Error;
use gpushare_node::ledger::LedgerError;
use gpushare_node::mps::Unreachable;

gpushare::errors! {
    /// Why the step's cgroup is not known.
    #[derive(Clone, Debug)]
    pub enum FindError {
        Read(path: &'static str, error: Arc<io::Error>) => "{path}: {error}";
    } from { Locate(LocateError) }
}

impl FindError {
    /// What the texts say, if they could be read.
    pub fn located(&self) -> Option<&LocateError> {
        match self {
            FindError::Read(..) => None,
            FindError::Locate(error) => Some(error),
        }
    }
}

gpushare::errors! {
    /// Why something is not closed or opened.
    #[derive(Debug)]
    pub enum CgroupError {
    } from { Find(FindError), Owner(OwnerError), V1(RuleError), V2(V2Error) }
}

gpushare::errors! {
    /// Why a step can't be fenced.
    #[derive(Debug)]
    pub enum StepError {
        NoJob => "the step has no job ID";
        Devices(error: io::Error) => "/dev: {error}";
        Page(error: io::Error) => "shared memory: {error}";
    } from { Cgroup(CgroupError) }
}

gpushare::errors! {
    /// Why the node's rules are not known.
    #[derive(Debug)]
    pub enum RulesError {
        Argument(argument: Vec<u8>) =>
            "plugstack.conf: '{}' is not allowed, only conf=/PATH is", argument.escape_ascii();
        NoPath => "slurmstepd doesn't know the path of slurm.conf; plugstack.conf needs conf=/PATH";
    } from { Load(LoadError) }
}

gpushare::errors! {
    /// Why a fenced step's tasks fail.
    #[derive(Debug)]
    pub enum Refused {
        /// The job's mark in the ledger, or why it has no entry.
        Marked(reason: String) => "{reason}";
        NoShare => "gpushare-prolog gave it no GPU on this node";
        NoEntry => "gpushare-prolog recorded none of its GPUs on this node";
    } from { Ledger(LedgerError), Rules(RulesError) }
}

gpushare::errors! {
    /// Why a task fails.
    #[derive(Debug)]
    pub enum TaskError {
        NoHook => "an earlier hook failed; see the node's slurmd log";
        NoFence => "the fence was not put up; see the node's slurmd log";
        /// What an earlier hook or the prolog found out.
        Told(reason: String) => "{reason}";
        NoOwnMps =>
            "--gpu-mps: the job was given no MPS daemon here; the option is for a whole job, not for a step, and needs \
             gpushare's shares and MpsWholeGpus=yes on the node";
        Status(error: io::Error) => "/proc/self/status: {error}";
    } from { Fault(Fault), Unreachable(Unreachable) }
}
