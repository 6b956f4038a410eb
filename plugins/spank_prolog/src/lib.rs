//! spank_gpushare_prolog.so: gpushare-prolog and gpushare-epilog as SPANK hooks, for sites that can't change `Prolog=`
//! and `Epilog=`. slurmd starts a separate slurmstepd for them, as root, with a prolog's environment, before it runs
//! `Prolog=`. If both exist, the first one places the job, and the second finds it placed.
//!
//! It is a separate plugin because slurmd starts that process for every job as soon as plugstack.conf has a plugin with
//! these hooks. Both hooks always return 0: anything else drains the node. What they did is in slurmd's log.
#![forbid(unsafe_code)]

use gpushare_slurm::export_spank_job;

export_spank_job! {
    name = "gpushare prolog",
    slurm_spank_job_prolog = prolog;
    slurm_spank_job_epilog = epilog;
}

fn prolog() {
    gpushare_prolog::prolog("spank/gpushare-prolog");
}

fn epilog() {
    gpushare_prolog::epilog();
}
