//! Asks slurmctld through squeue whether jobs are still on this node, and what a job asked for. Only the prolog of a
//! job that finds no room asks the first, since the epilog of a job in its way may never have run; and only a step of a
//! job that the ledger doesn't know asks the second.
//!
//! slurmctld has just started that prolog, so it should answer; if it doesn't, the jobs count as alive.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use gpushare::text::hostlist;

use crate::job::JobKey;

use crate::exec::{AskError, Asked, Output, ask, program};
use crate::proc::image::program_of;

/// The time for all queries of one prolog; Slurm waits for a prolog at least as long (`BatchStartTimeout`).
const PATIENCE: Duration = Duration::from_secs(5);
/// One query per job, each some milliseconds.
const MOST_JOBS: usize = 64;
const NAME: &str = "squeue";
/// Where squeue is if it isn't next to the program that runs the prolog.
const FOLDERS: [&str; 3] = ["/usr/bin", "/usr/local/bin", "/opt/slurm/bin"];
/// What is asked of a job: its state and nodes, or all TRES that it asked for.
const STATE: &str = "--format=%A %T %N";
const TRES: &str =
    "--Format=jobid:12,tres-per-job:250,tres-per-node:250,tres-per-socket:250,tres-per-task:250";
/// An array or het job may have a thousand lines for each MiB.
const LONGEST: usize = 64 << 20;
/// squeue's answer for a job that slurmctld has forgotten (ESLURM_INVALID_JOB_ID).
const UNKNOWN: &str = "Invalid job id specified";
/// States of a job that has ended, as squeue's `%T` writes them (Slurm's `job_state_string()`).
const ENDED: &str =
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REVOKED TIMEOUT";
/// States of a job that has its nodes; in the last its epilog may still run. All other jobs wait or have ended: a held
/// one may be in the state `REQUEUE_HOLD`, `SPECIAL_EXIT` or `RESV_DEL_HOLD`.
const HOLDING: &str = "RUNNING SUSPENDED STOPPED CONFIGURING SIGNALING STAGE_OUT RESIZING EXPEDITING POWER_UP_NODE \
                       COMPLETING";

gpushare::errors! {
    /// Why slurmctld's answer is unknown.
    #[derive(Debug)]
    pub enum Unanswered {
        NotInstalled => "there is no {NAME} on this node";
        Ask(error: AskError) => "{error}";
        Said(line: String) => "{NAME} says: {line}";
    }
}

/// Which of `jobs` slurmctld no longer has on node `node`, and why that is unknown for the others. `caller` is the
/// process that started the prolog, in `proc`.
pub fn over(
    jobs: &[JobKey],
    node: Option<&str>,
    slurm_conf: &Path,
    (proc, caller): (&Path, u32),
) -> (Vec<JobKey>, Option<Unanswered>) {
    let mut found = Vec::new();
    // slurmd didn't start this process, or it would have set the node's name.
    let Some(node) = node else { return (found, None) };
    let Some(path) = path(proc, caller) else {
        return (found, Some(Unanswered::NotInstalled));
    };
    let end = Instant::now() + PATIENCE;
    for job in jobs.iter().take(MOST_JOBS) {
        let left = end.saturating_duration_since(Instant::now());
        let answer = ask(&mut question(&path, job.id, slurm_conf, STATE), "", left).map_err(Unanswered::Ask);
        match answer.and_then(|answer| is_over(&answer, job.id, node)) {
            Ok(true) => found.push(*job),
            Ok(false) => {}
            Err(why) => return (found, Some(why)),
        }
    }
    (found, None)
}

/// The words of all TRES that a job asked for: `gres` and `gpushare` of `gres:gpushare:40` or `gres/gpushare=40`. The
/// answer also has lines of the other tasks of an array, or components of a het job, of that number.
///
/// # Errors
/// slurmctld's answer is unknown.
pub fn asked(
    job_id: u32,
    slurm_conf: &Path,
    (proc, caller): (&Path, u32),
) -> Result<Vec<String>, Unanswered> {
    let path = path(proc, caller).ok_or(Unanswered::NotInstalled)?;
    let asked = Asked::start(&mut question(&path, job_id, slurm_conf, TRES), "");
    let answer = asked.and_then(|asked| asked.at_most(LONGEST).answer(PATIENCE)).map_err(Unanswered::Ask)?;
    let id = job_id.to_string();
    let is_its = |line: &&str| line.split_whitespace().next() == Some(&id);
    match answer.output.lines().find(is_its).filter(|_| answer.status.success()) {
        Some(line) => Ok(line.split([' ', ',', ':', '/', '=']).map(str::to_owned).collect()),
        None => Err(Unanswered::Said(answer.first_line())),
    }
}

/// squeue of the same installation as the process that started the prolog, or where it usually is: a prolog may have no
/// `PATH`.
pub fn path(proc: &Path, parent: u32) -> Option<PathBuf> {
    let parent = program_of(proc, parent);
    let folder = parent.as_deref().and_then(Path::parent);
    let beside = folder.into_iter().flat_map(|folder| [folder.to_owned(), folder.with_file_name("bin")]);
    let mut folders = beside.chain(FOLDERS.map(PathBuf::from));
    folders.find_map(|folder| Some(folder.join(NAME)).filter(|path| path.is_file()))
}

/// Asks about one job, whose number goes to slurmctld. For several jobs squeue would request all jobs of the cluster,
/// and with `--nodelist` all nodes.
fn question(path: &Path, job_id: u32, slurm_conf: &Path, columns: &str) -> Command {
    let mut command = program(path);
    command.env("SLURM_CONF", slurm_conf);
    command.args(["--noheader", "--all", "--local", "--states=all", columns]);
    command.arg(format!("--jobs={job_id}"));
    command
}

/// The answer has a line for each job, and for each task of an array of that number.
fn is_over(answer: &Output, job_id: u32, node: &str) -> Result<bool, Unanswered> {
    if !answer.status.success() {
        let line = answer.first_line();
        return if line.contains(UNKNOWN) { Ok(true) } else { Err(Unanswered::Said(line)) };
    }
    let id = job_id.to_string();
    let line = answer.output.lines().find_map(|line| line.trim().strip_prefix(&id)?.strip_prefix(' '));
    let Some((state, nodes)) = line.map(|rest| rest.split_once(' ').unwrap_or((rest, ""))) else {
        return Ok(true);
    };
    let is_elsewhere = !nodes.is_empty() && hostlist::contains(nodes, node) == Some(false);
    // A state that no release has yet counts as alive, if the job has nodes.
    let is_in = |states: &str| states.split(' ').any(|known| known == state);
    let waits = !is_in(HOLDING) && nodes.is_empty();
    Ok(waits || is_in(ENDED) || is_elsewhere)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    fn said(status: i32, output: &str, complaints: &str) -> Option<bool> {
        let status = ExitStatus::from_raw(status << 8);
        is_over(&Output { status, output: output.to_owned(), complaints: complaints.to_owned() }, 7, "n2")
            .ok()
    }

    #[test]
    fn a_job_is_over_when_slurmctld_says_so_and_not_when_it_says_nothing() {
        assert_eq!(said(0, "7 RUNNING n[1-3]\n", ""), Some(false));
        assert_eq!(said(0, "7 RUNNING n[1,3]\n", ""), Some(true), "it is elsewhere");
        assert_eq!(said(0, "7 RUNNING n[1\n", ""), Some(false), "unclear");
        assert_eq!(said(0, "7 COMPLETING\n", ""), Some(false));
        assert_eq!(said(0, "7 CANCELLED\n", ""), Some(true));
        assert_eq!(said(0, "7 PENDING \n", ""), Some(true));
        for held in ["SPECIAL_EXIT", "REQUEUE_HOLD", "REQUEUED", "RESV_DEL_HOLD"] {
            assert_eq!(said(0, &format!("7 {held} \n"), ""), Some(true), "{held}");
        }
        assert_eq!(said(0, "7 NEW_STATE n2\n", ""), Some(false));
        assert_eq!(said(0, "", ""), Some(true));
        assert_eq!(said(0, "8 RUNNING\n", ""), Some(true), "another task of an array of that number");
        assert_eq!(said(1, "", "slurm_load_jobs error: Invalid job id specified\n"), Some(true));
        assert_eq!(
            said(1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"),
            None
        );
    }

    #[test]
    fn what_a_job_asked_for_is_read_in_each_releases_words() {
        let dir = tempfile::tempdir().unwrap();
        let (bin, proc) = (dir.path().join("bin"), dir.path().join("proc/9"));
        for folder in [&bin, &proc] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(proc.join("status"), "Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n").unwrap();
        std::os::unix::fs::symlink(bin.join("slurmd"), proc.join("exe")).unwrap();
        let says = |script: &str| {
            let path = bin.join(NAME);
            // By another process: what other tests start meanwhile would have our open file, and then it can't be run.
            let made = r#"printf '#!/bin/sh\n%s\n' "$1" >"$0" && chmod 755 "$0""#;
            let mut shell = std::process::Command::new("sh");
            assert!(shell.args(["-c", made]).arg(&path).arg(script).status().unwrap().success());
            asked(7, Path::new("/slurm.conf"), (&dir.path().join("proc"), 9))
        };
        for (text, has) in [
            ("N/A       gres:gpushare:40  N/A  N/A", true),
            ("N/A       gres/gpushare:a40:40  N/A  N/A", true),
            ("N/A       gres/nic:1,gres/gpushare:40  N/A  N/A", true),
            ("N/A  N/A  N/A  cpu=2,gres/gpushare=40", true),
            ("N/A  gres/gpushare2:1  N/A  N/A", false),
            ("N/A  N/A  N/A  N/A", false),
        ] {
            let of_others =
                "echo '6  N/A  gres:gpushare:40  N/A  N/A'; echo '77  N/A  gres:gpushare:40  N/A  N/A'";
            let words = says(&format!("{of_others}; echo '7           {text}'; {of_others}")).unwrap();
            assert_eq!(words.iter().any(|word| word == "gpushare"), has, "{text}");
        }
        let lost = says("echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1");
        assert!(lost.unwrap_err().to_string().contains("Unable to contact"));
        assert!(says("exit 0").is_err(), "no line is no answer");
    }

    #[test]
    fn squeue_is_that_of_the_slurmd_that_runs() {
        let dir = tempfile::tempdir().unwrap();
        let (bin, sbin, proc) = (dir.path().join("bin"), dir.path().join("sbin"), dir.path().join("proc/9"));
        for folder in [&bin, &sbin, &proc] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(bin.join(NAME), "").unwrap();
        std::fs::write(proc.join("status"), "Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n").unwrap();
        std::os::unix::fs::symlink(sbin.join("slurmd"), proc.join("exe")).unwrap();
        assert_eq!(path(&dir.path().join("proc"), 9), Some(bin.join(NAME)));
    }
}
