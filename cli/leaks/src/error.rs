//! Why there is no report.

use gpushare::config::LoadError;
use gpushare_history::HistoryError;
use gpushare_period::span::PeriodError;
use gpushare_period::{Period, text};
use gpushare_plot::PlotError;
use gpushare_slurm_run::ProgramError;
use gpushare_terminal::FileError;

gpushare::errors! {
    /// What can't be read, is incomplete, or can't be drawn.
    #[derive(Debug)]
    pub enum LeaksError {
        NoJobs(period: Period) =>
            "accounting has no job that ran from {} to {}, so nothing shows whether a limit was exceeded: choose \
             --start and --end. Perhaps slurmdbd has purged these jobs", text(period.start), text(period.end);
        NoGpus =>
            "accounting has jobs that requested GPUs, but no GPU of any job: AccountingStorageTRES didn't have \
             gres/gpu when they ran";
        Plot(error: PlotError) => "the plot: {error}";
    } from {
        History(HistoryError), Program(ProgramError), File(FileError), Period(PeriodError), Load(LoadError)
    }
}
