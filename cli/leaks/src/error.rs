//! Why there is no report.

use gpushare::config::LoadError;
use gpushare_slurm_text::sacct::SacctError;

use gpushare_history::privacy::PrivacyError;
use gpushare_period::{Period, PeriodError, text};
use gpushare_plot::PlotError;
use gpushare_slurm_run::ProgramError;
use gpushare_slurm_run::file::NoSettings;
use gpushare_slurm_text::version::ReleaseError;
use gpushare_terminal::FileError;

gpushare::errors! {
    /// What can't be read, is incomplete, or can't be drawn.
    #[derive(Debug)]
    pub enum LeaksError {
        NoSacct(error: ProgramError) =>
            "{error}; run it where Slurm's commands are";
        NoJobs(period: Period) =>
            "accounting has no job that ran from {} to {}, so nothing shows whether a limit was exceeded: choose \
             --start and --end. Perhaps slurmdbd has purged these jobs", text(period.start), text(period.end);
        NoGpus =>
            "accounting has jobs that requested GPUs, but no GPU of any job: AccountingStorageTRES didn't have \
             gres/gpu when they ran";
        Plot(error: PlotError) => "the plot: {error}";
    } from {
        Sacct(SacctError), File(FileError), Program(ProgramError), Period(PeriodError),
        Release(ReleaseError), Load(LoadError), Privacy(PrivacyError), Settings(NoSettings)
    }
}
