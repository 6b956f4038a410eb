//! What Slurm itself says of a request that gpushare accepts: `sbatch --test-only`, in which slurmctld tests a request
//! and makes no job. It says no to a job that it couldn't start with the nodes and reservations of now, too.

use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use gpushare_slurm_run::{command, run};

use super::job::Beyond;

/// Options with which this test ends some release's slurmctld, also without a plugin (docs/limits.md).
const NOT_TESTED: [&str; 4] = ["spread-job", "extra", "distribution", "ntasks-per-socket"];
const PATIENCE: Duration = Duration::from_secs(10);

/// Slurm's answers that say little, and what they mean as a rule.
const MEANINGS: [(&str, &str); 7] = [
    ("Requested node configuration is not available", "no node that is up has it, or time for it (--time)"),
    ("Invalid time specified", "its reservation isn't active now"),
    ("Invalid generic resource (gres) specification", "no node has it, or two options name different GPUs"),
    ("Invalid qos specification", "not yours, or not with this --account: `gpushare mine`"),
    ("Invalid account or account/partition combination", "`gpushare mine` lists your accounts"),
    ("Invalid partition name specified", "`sinfo -s` lists the partitions"),
    ("Requested reservation is invalid", "`scontrol show reservation` lists the reservations"),
];

/// Why Slurm says no to sbatch's command line, or that it doesn't answer; `None` if it says yes or must not be asked.
pub fn ask(words: &[Vec<u8>], options: &[&str], has_script: bool) -> Option<Beyond> {
    // `options` has no such variable.
    let set = ["SBATCH_SPREAD_JOB", "SBATCH_DISTRIBUTION"].iter().any(|name| env::var_os(name).is_some());
    if set || options.iter().any(|name| NOT_TESTED.contains(name)) {
        return None;
    }
    let mut sbatch = command("sbatch");
    sbatch.arg("--test-only").args((!has_script).then_some("--wrap=:"));
    sbatch.args(words.iter().map(|word| OsStr::from_bytes(word)));
    match run::run(&mut sbatch, PATIENCE) {
        Err(error) => Some(unknown(&error.to_string())),
        Ok(output) if output.status.success() => None,
        Ok(output) => reason(&String::from_utf8_lossy(&output.complaints)),
    }
}

fn unknown(why: &str) -> Beyond {
    Beyond::Waits(format!("can't tell what Slurm itself says: {why}"))
}

/// Other complaints of sbatch, such as one about the script, are no answer of Slurm's.
fn reason(said: &str) -> Option<Beyond> {
    let mut lines = said.lines().map(|line| line.trim_start_matches("sbatch: error: ").trim_end_matches('.'));
    // A plugin's own text says more than the error behind it.
    let more = lines.clone().find(|line| {
        ["gpushare: ", "Failed to validate", "Memory spec"].iter().any(|start| line.starts_with(start))
    });
    let answer = lines.find_map(|line| line.strip_prefix("allocation failure: ")).or(more)?;
    let passing = ["slurm controller", "timed out", "temporarily unavailable"];
    if passing.iter().any(|word| answer.contains(word)) {
        return Some(unknown(answer));
    }
    let meaning = MEANINGS.iter().find(|(start, _)| answer.starts_with(start));
    let meant = meaning.map_or_else(|| answer.to_owned(), |(_, words)| format!("{answer}: {words}"));
    Some(Beyond::Refused(more.map_or(meant, str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slurms_reason_is_read() {
        for (said, expected) in [
            ("", None),
            ("sbatch: error: Unable to open file job.sh\n", None),
            ("sbatch: error: Batch script is empty!\n", None),
            ("allocation failure: Something new\n", Some("Something new")),
            (
                "allocation failure: Unable to contact slurm controller (connect failure)\n",
                Some(
                    "can't tell what Slurm itself says: Unable to contact slurm controller (connect failure)",
                ),
            ),
            (
                "allocation failure: Requested reservation is invalid\n",
                Some("Requested reservation is invalid: `scontrol show reservation` lists the reservations"),
            ),
            (
                "sbatch: error: gpushare: QOS 'q' requires a GPU type; 'gpu:2' has no type\n\
                 allocation failure: Invalid generic resource (gres) specification\n",
                Some("gpushare: QOS 'q' requires a GPU type; 'gpu:2' has no type"),
            ),
            (
                "sbatch: error: Failed to validate job spec. --gpus-per-task is not allowed.\n\
                 sbatch: error: Invalid generic resource (gres) specification\n",
                Some("Failed to validate job spec. --gpus-per-task is not allowed"),
            ),
            (
                "sbatch: error: Memory specification can not be satisfied\n\
                 allocation failure: Requested node configuration is not available\n",
                Some("Memory specification can not be satisfied"),
            ),
        ] {
            let (why, refuses) = match reason(said) {
                Some(Beyond::Refused(why)) => (Some(why), true),
                Some(Beyond::Waits(why)) => (Some(why), false),
                None => (None, false),
            };
            assert_eq!(why.as_deref(), expected, "{said}");
            assert_eq!(refuses, why.is_some_and(|why| !why.starts_with("can't tell")), "{said}");
        }
    }
}
