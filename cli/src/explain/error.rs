//! Why there is no explanation.

use gpushare::config::LoadError;
use gpushare::submit::message::pages::PAGES;

use super::HETEROGENEOUS;
use super::job::JobId;
use super::script::ScriptError;
use gpushare_judge::options::OptionError;
use gpushare_slurm_run::ProgramError;
use gpushare_slurm_text::version::ReleaseError;
use gpushare_terminal::FileError;

gpushare::errors! {
    /// What is wrong with the command line, or what can't be read.
    #[derive(Debug)]
    pub enum ExplainError {
        NotOneJob => "--json is for one job, or for your waiting ones";
        /// The words after a number.
        Arguments(error: clap::Error) =>
            "{}", error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ");
        NoMessage(number: String) => "there is no message '{}'; the messages are {}",
            number.escape_debug(), PAGES.iter().map(|page| page.number).collect::<Vec<_>>().join(", ");
        NoJob(id: JobId) =>
            "Slurm shows no job {id}: it was never submitted, its record is gone, or it is another user's and hidden \
             (PrivateData)";
        Heterogeneous => "{HETEROGENEOUS}";
        WrapAndScript => "sbatch takes either --wrap or a script";
        Script(name: String, why: ScriptError) => "{name}: {why}";
        NoCluster => "'scontrol show config' has no ClusterName";
        OtherCluster(cluster: String) => "--clusters names another cluster than this one, '{cluster}'";
        NoAccount(user: String) => "Slurm shows you no account of user '{}'", user.escape_debug();
        NoUser(said: String) => "'id -u' says '{}'", said.escape_debug();
    } from {
        Program(ProgramError), File(FileError), Load(LoadError), Release(ReleaseError),
        Option(OptionError)
    }
}
