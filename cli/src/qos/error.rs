//! Why not everything was done.

use std::io;
use std::path::PathBuf;

use gpushare::config::LoadError;
use gpushare_qos::{Change, ReadError};

use gpushare_slurm_run::ProgramError;
use gpushare_terminal::PrintError;

/// The command that makes slurmctld read all QOSes again.
pub const MENDS: &str = "scontrol reconfigure, up to 23.02 a restart of slurmctld";

gpushare::errors! {
    /// What stopped it.
    #[derive(Debug)]
    pub enum QosError {
        /// The error of one of Slurm's programs.
        Mistakes(path: PathBuf, count: usize) => "{} has {}, see above; nothing was changed",
            path.display(), if *count == 1 { "a mistake".to_owned() } else { format!("{count} mistakes") };
        NoQos(path: PathBuf, name: String) => "{} has no managed QOS '{}'", path.display(), name.escape_debug();
        NobodyToAsk =>
            "nothing was changed: without a terminal gpushare can't ask you; read 'gpushare qos plan', then run \
             'gpushare qos apply --immediate'";
        Answer(error: io::Error) => "standard input: {error}";
        Stopped { change: Change, why: Box<QosError>, done: usize, all: usize } =>
            "stopped at {}: {why}; done: {done} of {all} steps; run this again to do the others", first(change);
        /// QOSes that can't be removed now.
        Stays(count: usize) => "{} not removed, see above; run this again when it can be removed",
            if *count == 1 { "one thing was".to_owned() } else { format!("{count} things were") };
        StillToDo(line: String) =>
            "Slurm accepted every step, but '{line}' is still to do: is somebody else changing the database?";
        Missed(missed: String) => "the database matches the file, but {missed}; to correct that: {MENDS}";
    } from {
        Load(LoadError), Program(ProgramError), Read(ReadError), Print(PrintError)
    }
}

fn first(change: &Change) -> String {
    let what = change.lines.first().map_or("", |(_, line)| line.as_str());
    let more = match change.lines.len() {
        0 | 1 => String::new(),
        lines => format!(" (and {} more)", lines - 1),
    };
    format!("'{what}'{more}")
}
