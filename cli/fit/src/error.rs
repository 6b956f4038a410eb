//! Why there is no report.

use gpushare::config::LoadError;
use gpushare_history::HistoryError;
use gpushare_period::span::PeriodError;
use gpushare_period::{Period, text};

gpushare::errors! {
    /// What can't be read, or isn't in accounting.
    #[derive(Debug)]
    pub enum FitError {
        NoJobs(period: Period) =>
            "accounting has no job that had GPUs from {} to {}: choose --start and --end. AccountingStorageTRES must \
             have had gres/gpu when they ran, and slurmdbd may have purged them", text(period.start), text(period.end);
        NoMemory(jobs: u64) =>
            "accounting has no GPU memory of any of the {jobs} jobs with GPUs. To record it from now on: Slurm 23.02.3 \
             or newer; AccountingStorageTRES=gres/gpu (or gres/gpumem,gres/gpuutil); gres.conf with AutoDetect=nvml; \
             JobAcctGatherType=jobacct_gather/cgroup or linux, without JobAcctGatherParams=DisableGPUAcct";
        GpuMemory(value: String) =>
            "--gpu-memory '{}' is no list of sizes; write TYPE:SIZE with M or G, such as a40:46068M,h100:80G",
            value.escape_debug();
    } from {
        History(HistoryError), Period(PeriodError), Load(LoadError)
    }
}
