//! What `gpushare leaks`, `fit` and `report` need to read months of jobs from accounting: sacct's output as a stream,
//! whether this user sees all jobs, the cluster's nodes, and GPU-hours. Changes and judges nothing.
#![forbid(unsafe_code)]

use gpushare_slurm_run::ProgramError;
use gpushare_slurm_run::file::NoSettings;
use gpushare_slurm_text::sacct::SacctError;
use gpushare_slurm_text::version::ReleaseError;

pub mod hours;
pub mod nodes;
pub mod privacy;
pub mod source;
pub mod stream;

gpushare::errors! {
    /// Why accounting can't be read, or only a part of it.
    #[derive(Debug)]
    pub enum HistoryError {
        NoSacct(error: ProgramError) => "{error}; run it where Slurm's commands are";
        NotAll { user: String, private: &'static str } =>
            "slurmdbd.conf has PrivateData={private}, so '{user}' sees only some of it; run this as root, or as a user \
             with AdminLevel=Operator";
    } from {
        Sacct(SacctError), Program(ProgramError), Release(ReleaseError), Settings(NoSettings)
    }
}
