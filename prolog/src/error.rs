//! Why a prolog or epilog could not do its work.

use gpushare::config::LoadError;
use gpushare_node::job::JobError;
use gpushare_node::ledger::LedgerError;
use gpushare_node::mps::MpsError;
use gpushare_node::place::PlaceError;
use gpushare_node::squeue::Unanswered;

gpushare::errors! {
    /// What went wrong with a job.
    #[derive(Debug)]
    pub enum WorkError {
        Foreign { gpu: u32, processes: String } => "GPU {gpu} has foreign processes, in none of its jobs: {processes}";
        NoDaemon(error: MpsError) => "no MPS daemon: {error}";
        Missed => "gpushare-prolog gave it no GPU on this node";
        Unknown(error: Unanswered) => "can't tell whether it has a share: {error}";
        /// The job should fail for that, and its steps can't be told.
        Unmarked(why: Box<WorkError>, error: LedgerError) => "{why}; {error}";
        /// slurmstepd of 24.11 to 25.11 has the job's user as its effective user for a moment in which it may start an
        /// epilog: another thread of it shuts X11 forwarding down (`_shutdown_x11_forward` in slurmstepd/mgr.c).
        NotRoot(user_id: u32) =>
            "this epilog runs as user {user_id}, not as root, so a later job's prolog will release the share; \
             Slurm 24.11 to 25.11 starts some epilogs this way with PrologFlags=RunInJob";
    } from { Environment(JobError), Load(LoadError), Place(PlaceError), Ledger(LedgerError) }
}
