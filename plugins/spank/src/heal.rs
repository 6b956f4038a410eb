//! What gpushare-prolog does for a step: it starts a share's MPS daemon again, if that has ended, since job scripts of
//! many sites tell it to quit at their end, and the user's other jobs on that GPU have the same one; and it asks Slurm
//! whether a job without an entry has a share ([`missed`]).

use std::time::Duration;

use gpushare_node::config::{NodeConfig, OnMpsFailure};
use gpushare_node::exec::{AskError, Output, ask, installed, own, program};
use gpushare_node::ledger::Entry;
use gpushare_node::mps::{Reach, reach};
use gpushare_slurm::spank::Step;

/// What the job's user reads.
pub const NOTICE: &str = "the MPS daemon of this job had ended: one of your programs told it to quit or removed \
                          CUDA_MPS_PIPE_DIRECTORY. It has been started again for this step; programs that were running \
                          there have lost their GPU";

/// What slurmd gave slurmstepd, and the prolog needs.
const SLURMS: [&str; 2] = ["SLURM_CONF", "SLURMD_NODENAME"];
/// How many times `MpsTimeout` a daemon's start may take: it may have to be started without systemd then.
const TIMES: u32 = 2;
/// An earlier daemon may need two seconds to quit.
const LEAST: Duration = Duration::from_secs(3);
/// How long slurmctld's answer may take, and the ledger's lock.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the job's programs must find to reach their daemon, and whether it was started again. As root.
pub fn daemon(config: &NodeConfig, entry: &Entry, step: Step) -> (Option<Reach>, bool) {
    let Some(folder) = entry.given.daemon.as_deref() else { return (None, false) };
    let found = || reach(folder, config.on_mps_failure == OnMpsFailure::Run);
    let first = found();
    if !first.has_ended() {
        return (Some(first), false);
    }
    let answer = prolog("heal", step, LEAST + TIMES * config.mps_timeout);
    let reach = found();
    // Without an answer the new daemon may have no limits.
    let is_healed = answer.is_ok() && !reach.has_ended();
    if !is_healed {
        let why = answer.map_or_else(|error| error.to_string(), |answer| answer.first_line());
        log::error!("spank/gpushare: job {}: its MPS daemon can't be started again: {why}", entry.key.id);
    }
    (Some(reach), is_healed)
}

/// Why a job without an entry can't run here: it has a share, but its prolog could not record that, or never ran; or
/// that is unknown. As root.
pub fn missed(step: Step) -> Option<String> {
    match prolog("missed", step, PATIENCE) {
        Ok(answer) if answer.output == "no share\n" => None,
        Ok(answer) => Some(answer.first_line()),
        Err(error) => Some(error.to_string()),
    }
}

fn prolog(word: &str, step: Step, patience: Duration) -> Result<Output, AskError> {
    let mut prolog = program(&installed(&own(), "gpushare-prolog"));
    let numbers = [
        ("SLURM_JOB_ID", step.job_id()),
        ("SLURM_JOB_UID", step.user_id()),
        ("SLURM_JOB_GID", step.group_id()),
    ];
    prolog.arg(word).envs(numbers.into_iter().filter_map(|(name, number)| Some((name, number?.to_string()))));
    prolog.envs(SLURMS.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    ask(&mut prolog, "", patience)
}
