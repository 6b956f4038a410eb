//! Why there is no report.

use gpushare_history::HistoryError;
use gpushare_period::hours::HoursError;
use gpushare_plot::PlotError;
use gpushare_qos::ReadError;
use gpushare_slurm_run::ProgramError;
use gpushare_terminal::FileError;

gpushare::errors! {
    /// What can't be read, is incomplete, or can't be drawn.
    #[derive(Debug)]
    pub enum ReportError {
        NoQos(name: String) => "--qos '{}': the database has no such QOS", name.escape_debug();
        NoAccount(name: String, cluster: String) =>
            "--account '{}': cluster {cluster} has no such account", name.escape_debug();
        NoGpus =>
            "accounting has no GPUs: AccountingStorageTRES in slurm.conf needs gres/gpu and each type, such as \
             gres/gpu:a40";
        Line(text: String) => "sreport's output can't be read: '{}'", text.escape_debug();
        Log(why: String) => "--log: {why}";
        Plot(error: PlotError) => "the plot: {error}";
    } from {
        History(HistoryError), Program(ProgramError), Period(HoursError), Read(ReadError), File(FileError)
    }
}
