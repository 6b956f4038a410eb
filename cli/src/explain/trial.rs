//! What Slurm itself says of a request that gpushare accepts: `sbatch --test-only`, in which slurmctld tests a request
//! and makes no job.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::time::Duration;

use gpushare_slurm_run::{command, run};

/// Options with which this test ends some release's slurmctld, also without a plugin (docs/limits.md).
const NOT_TESTED: [&str; 4] = ["spread-job", "extra", "distribution", "ntasks-per-socket"];
const PATIENCE: Duration = Duration::from_secs(10);

/// Slurm's answers that say little, and what they mean as a rule.
const MEANINGS: [(&str, &str); 6] = [
    ("Requested node configuration is not available", "no node has it, or time for it (--time)"),
    ("Invalid generic resource (gres) specification", "no node has it, or two options name different GPUs"),
    ("Invalid qos specification", "not yours, or not with this --account: `gpushare mine`"),
    ("Invalid account or account/partition combination", "`gpushare mine` lists your accounts"),
    ("Invalid partition name specified", "`sinfo -s` lists the partitions"),
    ("Requested reservation is invalid", "`scontrol show reservation` lists the reservations"),
];

/// Why Slurm refuses a command line of sbatch, of the caller or another user; `None` if it doesn't or can't be asked.
pub fn ask(words: &[Vec<u8>], options: &[&str], has_script: bool, user_id: u32) -> Option<String> {
    if options.iter().any(|name| NOT_TESTED.contains(name)) {
        return None;
    }
    let mut sbatch = command("sbatch");
    sbatch.arg("--test-only").uid(user_id); // of another user only for root
    sbatch.args((!has_script).then_some("--wrap=:"));
    sbatch.args(words.iter().map(|word| OsStr::from_bytes(word)));
    let output = run::run(&mut sbatch, PATIENCE).ok()?;
    if output.status.success() {
        return None;
    }
    reason(&String::from_utf8_lossy(&output.complaints))
}

fn reason(said: &str) -> Option<String> {
    // gpushare's own lines are in the answer already, and Slurm's last line is the reason.
    let mut lines = said.lines().rev().map(|line| line.trim_start_matches("sbatch: error: "));
    let last = lines.next()?;
    let reason = last.strip_prefix("allocation failure: ").unwrap_or(last);
    let more =
        lines.next().filter(|line| line.starts_with("Failed to validate") || line.starts_with("Memory"));
    let said = more.unwrap_or(reason).trim_end_matches('.');
    if said.contains("slurm controller") || said.contains("timed out") {
        return None; // it hasn't answered
    }
    let meaning = MEANINGS.iter().find(|(start, _)| said.starts_with(start));
    Some(meaning.map_or_else(|| said.to_owned(), |(_, words)| format!("{said}: {words}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slurms_reason_is_read() {
        for (said, expected) in [
            ("", None),
            ("something new\n", Some("something new")),
            ("allocation failure: Unable to contact slurm controller (connect failure)\n", None),
            (
                "sbatch: error:   GS114, see x\nallocation failure: Requested reservation is invalid\n",
                Some("Requested reservation is invalid: `scontrol show reservation` lists the reservations"),
            ),
            (
                "sbatch: error: Failed to validate job spec. --gpus-per-task is not allowed.\n\
                 sbatch: error: Invalid generic resource (gres) specification\n",
                Some("Failed to validate job spec. --gpus-per-task is not allowed"),
            ),
        ] {
            assert_eq!(reason(said).as_deref(), expected, "{said}");
        }
    }
}
