//! Runs gpushare-nvml for what it sets, and says why it failed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::config::{self, NodeConfig};
use crate::exec::{AskError, Output, ask, installed, own, program};

const NAME: &str = "gpushare-nvml";
pub(super) const LATE: &str = "no answer in";

gpushare::errors! {
    /// Why NVML has no answer.
    #[derive(Debug)]
    pub enum Trouble {
        Off => "Nvml=off in gpushare.conf";
        /// The reason from a short while ago; NVML isn't asked now.
        Remembered(reason: String) => "{reason}";
        Ask(error: AskError) => "{error}";
        /// gpushare-nvml was then killed.
        Late(patience: Duration) => "{LATE} {} ms", patience.as_millis();
        Said(reason: String) => "{reason}";
        /// It ended by a signal, such as after a crash, or with an unexpected status.
        Ended(status: std::process::ExitStatus) => "{NAME} ended with {status}";
        Nonsense(why: String) => "the answer of {NAME} makes no sense: {why}";
    }
}

/// Limits how much of a GPU's memory the processes in a cgroup, and in those below it, can have; for drivers whose
/// answer had `limits`. `cgroup` is its directory, `memory` is in MiB.
///
/// # Errors
/// NVML can't be asked, or refuses.
pub fn limit_memory(config: &NodeConfig, uuid: &str, cgroup: &Path, memory: u32) -> Result<(), Trouble> {
    set(config, &["limit", uuid, &cgroup.to_string_lossy(), &memory.to_string()])
}

/// Waits as long as for an MPS daemon: a sleeping GPU is woken first.
///
/// # Errors
/// NVML can't be asked, or refuses.
pub(super) fn set(config: &NodeConfig, words: &[&str]) -> Result<(), Trouble> {
    let mut command = command(config)?;
    command.args(words);
    let answer = ask(&mut command, "", config.mps_timeout);
    said(answer.map_err(|error| late(error, config.mps_timeout))).map(|_| ())
}

/// gpushare-nvml, with the library that gpushare.conf names.
///
/// # Errors
/// NVML is off.
pub(super) fn command(config: &NodeConfig) -> Result<Command, Trouble> {
    let mut command = program(&path(&own()));
    match &config.nvml {
        config::Nvml::Off => return Err(Trouble::Off),
        config::Nvml::Auto => {}
        config::Nvml::At(library) => {
            command.arg("--library").arg(library);
        }
    }
    Ok(command)
}

/// Next to the running program, so that a build that isn't installed uses its own; otherwise where it is installed.
fn path(own: &Path) -> PathBuf {
    let beside = own.with_file_name(NAME);
    if beside.is_file() { beside } else { installed(own, NAME) }
}

/// What it printed, if it succeeded.
///
/// # Errors
/// It failed, or ended in another way.
pub(super) fn said(answer: Result<Output, Trouble>) -> Result<String, Trouble> {
    let answer = answer?;
    match answer.status.code() {
        Some(0) => Ok(answer.output),
        Some(1) => {
            let line = answer.first_line();
            let reason = line.strip_prefix(NAME).and_then(|line| line.strip_prefix(": ")).unwrap_or(&line);
            Err(Trouble::Said(reason.to_owned()))
        }
        _ => Err(Trouble::Ended(answer.status)),
    }
}

/// The message is always the same, however much time was left.
pub(super) fn late(error: AskError, patience: Duration) -> Trouble {
    match error {
        AskError::Deadline(..) => Trouble::Late(patience),
        error => Trouble::Ask(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_deadline_is_late() {
        let (path, patience) = (PathBuf::from("/gpushare-nvml"), Duration::from_secs(1));
        let deadline = AskError::Deadline(path.clone(), Duration::ZERO);
        assert!(matches!(late(deadline, patience), Trouble::Late(said) if said == patience));
        assert!(matches!(late(AskError::TooMuch(path, 1), patience), Trouble::Ask(_)));
    }

    #[test]
    fn the_program_is_looked_for_beside_the_one_that_asks() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("bin/gpushare");
        for folder in ["bin", "sbin"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        assert_eq!(path(&own), Path::new("/usr/sbin/gpushare-nvml"));
        for there in ["sbin/gpushare-nvml", "bin/gpushare-nvml"] {
            std::fs::write(dir.path().join(there), "").unwrap();
            assert_eq!(path(&own), dir.path().join(there));
        }
    }
}
