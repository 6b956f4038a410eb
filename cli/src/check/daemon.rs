//! The running slurmd of this node, by /proc, and what slurmctld says about the node: whether jobs can start here, and
//! whether slurmd has read the current files.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use gpushare_node::proc;
use gpushare_node::proc::image::Image;

use super::finding::{Finding, Status, listed};
use crate::slurm::Node;
use crate::status::is_usable;
use gpushare_slurm_text::version::Version;

const ABOUT: &str = "slurmd";
/// The kernel reports a process's age in hundredths of a second (`USER_HZ`), whatever its own clock does.
const TICKS: u64 = 100;
/// A daemon reads its files within this time after it starts.
pub const SLACK: Duration = Duration::from_secs(1);
/// After this release `scontrol reconfigure` starts a new slurmd. Up to it, the old one reads most of its files again.
const LAST_TO_READ_AGAIN: (u8, u8) = (23, 10);

/// A running slurmd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// Its number.
    pub pid: u32,
    /// How long after the machine's boot it was started.
    since_boot: Duration,
}

/// The node's slurmd, if one runs. Several may run on one machine, each with `-N NODE`.
pub fn running(proc: &Path, node: &str) -> Option<Running> {
    let mut found = slurmds(proc);
    found.retain(|(_, _, words)| name_of(words).is_none_or(|name| name == node));
    // A child of a slurmd isn't the daemon. While slurmd restarts itself there are two.
    let is_child = |stat: &proc::Stat| found.iter().any(|(pid, ..)| *pid == stat.parent);
    let daemons = found.iter().filter(|(_, stat, _)| !is_child(stat));
    daemons.max_by_key(|(_, stat, _)| stat.start).map(|(pid, stat, _)| Running::of(*pid, stat))
}

/// The slurmctld of a PID file.
pub fn slurmctld(pid_file: &str, proc: &Path) -> Option<Running> {
    let pid = std::fs::read_to_string(pid_file).ok()?.trim().parse().ok()?;
    let stat = proc::stat(proc, pid).ok()??;
    stat.name.starts_with(b"slurmctld").then(|| Running::of(pid, &stat))
}

impl Running {
    fn of(pid: u32, stat: &proc::Stat) -> Running {
        Running { pid, since_boot: Duration::from_millis(stat.start.saturating_mul(1000 / TICKS)) }
    }
}

/// Whether slurmds of other nodes run on this machine too. Returns nothing if none does.
pub fn others(proc: &Path, node: &str) -> Option<Finding> {
    let slurmds = slurmds(proc);
    let mut names: Vec<String> = slurmds.iter().filter_map(|(_, _, words)| name_of(words)).collect();
    names.retain(|name| name != node);
    names.sort();
    names.dedup();
    (!names.is_empty()).then(|| {
        let said = format!(
            "this machine also runs the slurmd of {}, and gpushare works with one for each machine: a job with \
             parts on both fails, and both may number the GPUs differently",
            listed(&names)
        );
        Finding::wrong(ABOUT, said, "one slurmd on this machine, or Placement=off for all of its nodes")
    })
}

/// Root's slurmds and their children: numbers, states and command lines.
fn slurmds(proc: &Path) -> Vec<(u32, proc::Stat, Vec<String>)> {
    let mut found = Vec::new();
    for entry in proc.read_dir().into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(Some(stat)) = proc::stat(proc, pid) else { continue };
        if is_slurmd(&stat)
            && let Some(words) = command_line(proc, pid)
        {
            found.push((pid, stat, words));
        }
    }
    found
}

/// Debian calls the program slurmd-wlm; a slurmd that has restarted itself has this name, too.
fn is_slurmd(stat: &proc::Stat) -> bool {
    (stat.name == b"slurmd" || stat.name.starts_with(b"slurmd-")) && stat.state != 'Z'
}

/// `None` if it isn't root's. slurmd is, and a user may call a program so.
fn command_line(proc: &Path, pid: u32) -> Option<Vec<String>> {
    let bytes = Image::CommandLine.of_roots(proc, pid, 4096).ok()??;
    Some(bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

/// The node that a slurmd is told to be by `-N`; without, it is its host's.
fn name_of(words: &[String]) -> Option<String> {
    let after = words.iter().skip_while(|word| *word != "-N").nth(1).map(String::as_str);
    let joined = words.iter().find_map(|word| word.strip_prefix("-N").filter(|name| !name.is_empty()));
    after.or(joined).map(str::to_owned)
}

/// When it was started, by the current clock.
pub fn started(running: Running, proc: &Path) -> Option<SystemTime> {
    let text = std::fs::read_to_string(proc.join("uptime")).ok()?;
    let uptime = Duration::try_from_secs_f64(text.split_whitespace().next()?.parse().ok()?).ok()?;
    SystemTime::now().checked_sub(uptime.saturating_sub(running.since_boot))
}

/// The files with the times of their last status change, which rsync and cp -a don't set back.
pub fn changes(files: &[PathBuf]) -> Vec<(String, SystemTime)> {
    let change = |path: &PathBuf| {
        let seconds = u64::try_from(path.metadata().ok()?.ctime()).ok()?;
        Some((path.display().to_string(), SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)))
    };
    files.iter().filter_map(change).collect()
}

/// Whether slurmd runs, and has read the current files. `started` is `None` if it doesn't run. Returns nothing if all
/// is well. A change of slurm.conf, or of what it includes, is often only for slurmctld (a partition, a priority), so
/// it isn't a fault.
pub fn judge(
    node: &str,
    started: Option<SystemTime>,
    slurm_conf: &[(String, SystemTime)],
    others: &[(String, SystemTime)],
    installed: Option<Version>,
) -> Option<Finding> {
    let Some(started) = started else {
        let said = "it doesn't run on this node: no job starts here, and none is fenced";
        let fix = format!("systemctl start slurmd on {node}; its log says why it ended");
        return Some(Finding::wrong(ABOUT, said, fix));
    };
    let newer = |changes: &[(String, SystemTime)]| -> Vec<String> {
        changes.iter().filter(|(_, at)| *at > started + SLACK).map(|(path, _)| path.clone()).collect()
    };
    let (slurm_conf, others) = (newer(slurm_conf), newer(others));
    let all = [slurm_conf, others.clone()].concat();
    if all.is_empty() {
        return None;
    }
    let said = format!("{} changed after slurmd started", listed(&all));
    let reads_again = installed.is_some_and(|installed| installed.is_from_to((0, 0), LAST_TO_READ_AGAIN));
    let then = if reads_again {
        format!("restart slurmd on {node}, unless you have run 'scontrol reconfigure' since")
    } else if others.is_empty() {
        "unless the change concerns only slurmctld, run 'scontrol reconfigure'".to_owned()
    } else {
        let fix = format!("restart slurmd on {node}: systemctl restart slurmd");
        return Some(Finding::wrong(ABOUT, format!("{said}: it still uses the old version"), fix));
    };
    Some(Finding::unknown(ABOUT, format!("{said}: {then}")))
}

/// The reason of a drain for a change of the node's shares, in the documentation.
const FOR_A_CHANGE: &str = "gpushare";

/// Whether jobs can start on the node, according to slurmctld. An administrator who drained it for a change checks it
/// before they resume it, so that is no fault. A drain for another reason is, and so is slurmctld's own, which has its
/// own reason.
pub fn state(node: &Node) -> Finding {
    let Node { name, state, reason, .. } = node;
    if is_usable(state) {
        return Finding::ok("node", format!("{name} is {state}"));
    }
    let resume = format!("scontrol update nodename={name} state=resume");
    if is_for_a_change(node) {
        let said = format!("{name} is {state} with reason={FOR_A_CHANGE}: if no line is WRONG, {resume}");
        return Finding::unknown("node", said);
    }
    let why = reason.as_deref().map_or_else(String::new, |reason| format!(": {reason}"));
    let is_silent = state.contains("NOT_RESPONDING") || state.contains('*');
    let first = if is_silent { format!("systemctl start munge slurmd on {name}; ") } else { String::new() };
    let fix = format!("{first}if no other line is WRONG, and the reason is gone, {resume}");
    Finding::wrong("node", format!("{name} is {state}, so no job starts on it{why}"), fix)
}

/// A slurmd that restarts acts on its files, so what is wrong in them comes first.
pub fn after_others(findings: &mut [Finding]) {
    let of_files = ["gres.conf", "Placement", "UnitsPerGpu", "ConstrainDevices", "GresTypes"];
    let is_wrong = |finding: &&Finding| finding.is_wrong();
    let mut first: Vec<&str> = findings.iter().filter(is_wrong).map(|finding| &*finding.about).collect();
    first.retain(|about| of_files.contains(about));
    first.dedup();
    let first = first.join(", ");
    for finding in findings.iter_mut().filter(|finding| finding.about == ABOUT && !first.is_empty()) {
        if let Status::Wrong(fix) = &mut finding.status {
            *fix = std::mem::take(fix).after(format!("first what is WRONG about {first}; then "));
        }
    }
}

/// Whether the only thing that keeps jobs from the node is a drain for a change. The reason is followed by who gave it,
/// and when: `gpushare [root@2026-11-24T19:00:00]`.
fn is_for_a_change(node: &Node) -> bool {
    let others: Vec<&str> = node.state.split('+').filter(|word| *word != "DRAIN").collect();
    node.why() == Some(FOR_A_CHANGE) && is_usable(&others.join("+"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A /proc with these processes: number, name, state, parent, start, command line.
    fn proc_with(processes: &[(u32, &str, char, u32, u64, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (pid, name, state, parent, start, words) in processes {
            let folder = dir.path().join(pid.to_string());
            fs::create_dir(&folder).unwrap();
            let zeros = "0 ".repeat(15);
            fs::write(folder.join("stat"), format!("{pid} ({name}) {state} {parent} 1 1 {zeros}{start} 0\n"))
                .unwrap();
            fs::write(folder.join("cmdline"), words.replace(' ', "\0")).unwrap();
            let user = if words.contains("my-own") { 2001 } else { 0 };
            fs::write(folder.join("status"), format!("Uid:\t{user}\t0\t0\t0\nGid:\t0\t0\t0\t0\n")).unwrap();
        }
        dir
    }

    #[test]
    fn the_nodes_own_slurmd_is_found() {
        for (processes, expected) in [
            (vec![], None),
            (vec![(7, "slurmd", 'S', 1, 50, "slurmd -D")], Some(50)),
            (vec![(7, "slurmd-wlm", 'S', 1, 50, "/usr/sbin/slurmd -D -N n1")], Some(50)),
            (vec![(7, "slurmd", 'S', 1, 50, "slurmd -Nn1")], Some(50)),
            (vec![(7, "slurmd", 'S', 1, 50, "slurmd -N n2")], None),
            (vec![(7, "slurmd", 'Z', 1, 50, "")], None),
            (vec![(7, "slurmd", 'S', 1, 50, "my-own")], None),
            (vec![(7, "slurmdbd", 'S', 1, 50, "slurmdbd"), (8, "slurmstepd", 'S', 1, 9, "slurmstepd")], None),
            // A child, and the slurmd that takes over.
            (vec![(7, "slurmd", 'S', 1, 50, "slurmd"), (9, "slurmd", 'S', 7, 90, "slurmd")], Some(50)),
            (vec![(7, "slurmd", 'S', 1, 50, "slurmd"), (9, "slurmd-wlm", 'S', 1, 90, "slurmd")], Some(90)),
        ] {
            let dir = proc_with(&processes);
            let found = running(dir.path(), "n1").map(|running| running.since_boot);
            assert_eq!(found, expected.map(|ticks| Duration::from_millis(ticks * 10)), "{processes:?}");
        }
    }

    #[test]
    fn slurmds_of_other_nodes_on_this_machine_are_wrong() {
        for (processes, expected) in [
            (vec![(7, "slurmd", 'S', 1, 50, "slurmd -D")], None),
            (
                vec![(7, "slurmd", 'S', 1, 50, "slurmd -N n1"), (9, "slurmd", 'S', 7, 50, "slurmd -N n1")],
                None,
            ),
            (
                vec![(7, "slurmd", 'S', 1, 50, "slurmd -N n1"), (8, "slurmd", 'S', 1, 50, "my-own -N n2")],
                None,
            ),
            (
                vec![(7, "slurmd", 'S', 1, 50, "slurmd -N n3"), (8, "slurmd", 'S', 1, 50, "slurmd -Nn2")],
                Some("n2, n3"),
            ),
        ] {
            let dir = proc_with(&processes);
            let found = others(dir.path(), "n1").map(|finding| finding.said);
            let names =
                found.as_deref().and_then(|said| said.split("slurmd of ").nth(1)?.split(", and ").next());
            assert_eq!(names, expected, "{found:?}");
        }
    }

    #[test]
    fn this_process_was_started_before_now_and_a_file_after_it() {
        let own = proc::stat(Path::new("/proc"), std::process::id()).unwrap().unwrap();
        let running = Running::of(std::process::id(), &own);
        let started = started(running, Path::new("/proc")).unwrap();
        assert!(started <= SystemTime::now());
        let file = tempfile::NamedTempFile::new().unwrap();
        let changes = changes(&[file.path().to_owned(), "/nonexistent".into()]);
        assert!(changes.len() == 1 && changes[0].1 + SLACK >= started, "{changes:?} {started:?}");
    }

    #[test]
    fn a_slurmd_that_is_stopped_or_older_than_its_files_is_wrong() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let version = |text| Version::parse(text);
        for (started, slurm_conf, gres_conf, installed, status, said) in [
            (Some(at(100)), at(99), at(101), version("24.11.5"), None, ""),
            (None, at(99), at(99), version("24.11.5"), Some("wrong"), "it doesn't run on this node"),
            (Some(at(100)), at(99), at(102), version("24.11.5"), Some("wrong"), "gres.conf changed after"),
            (Some(at(100)), at(103), at(102), None, Some("wrong"), "slurm.conf, gres.conf changed after"),
            (
                Some(at(100)),
                at(103),
                at(101),
                version("24.11.5"),
                Some("unknown"),
                "slurm.conf changed after",
            ),
            (Some(at(100)), at(99), at(102), version("23.11.1"), Some("wrong"), "gres.conf changed after"),
            (Some(at(100)), at(99), at(102), version("22.05.8"), Some("unknown"), "gres.conf changed after"),
        ] {
            let of = |name: &str, at| [(name.to_owned(), at)];
            let finding =
                judge("n1", started, &of("slurm.conf", slurm_conf), &of("gres.conf", gres_conf), installed);
            let word = finding.as_ref().map(|finding| match finding.status {
                Status::Ok => "ok",
                Status::Wrong(_) => "wrong",
                Status::Unknown => "unknown",
            });
            assert_eq!(word, status, "{finding:?}");
            assert!(finding.is_none_or(|finding| finding.said.starts_with(said)), "{said}");
        }
    }

    #[test]
    fn a_node_that_takes_no_jobs_is_wrong_and_says_why() {
        let node = |text: &str| crate::slurm::Node::read(&format!("NodeName=n1 {text}")).unwrap();
        assert_eq!(state(&node("State=MIXED")).status, Status::Ok);
        let found = state(&node("State=IDLE+DRAIN Reason=GPU 2 is hot [root@2026-11-24T19:00:00]"));
        assert_eq!(
            found.said,
            "n1 is IDLE+DRAIN, so no job starts on it: GPU 2 is hot [root@2026-11-24T19:00:00]"
        );
        for text in ["State=IDLE+DRAIN", "State=MIXED+COMPLETING+DRAIN", "State=ALLOCATED+DRAIN+MAINTENANCE"]
        {
            let found = state(&node(&format!("{text} Reason=gpushare [root@2026-11-24T19:00:00] Comment=x")));
            assert_eq!(found.status, Status::Unknown, "{text}");
            let resume =
                "with reason=gpushare: if no line is WRONG, scontrol update nodename=n1 state=resume";
            assert!(found.said.ends_with(resume), "{}", found.said);
        }
        for text in [
            "State=IDLE+DRAIN Reason=gpushare is broken [root@2026-11-24T19:00:00]",
            "State=IDLE+DRAIN Reason=not gpushare [root@2026-11-24T19:00:00]",
            "State=IDLE+DRAIN+INVALID_REG Reason=gres/mps count reported lower than configured (0 < 400) [slurm@x]",
            "State=IDLE+DRAIN+INVALID_REG Reason=gpushare [root@2026-11-24T19:00:00]",
            "State=IDLE+DRAIN+NOT_RESPONDING Reason=gpushare [root@2026-11-24T19:00:00]",
            "State=UNKNOWN+DRAIN Reason=gpushare [root@2026-11-24T19:00:00]",
            "State=DOWN+DRAIN Reason=gpushare [root@2026-11-24T19:00:00]",
            "State=DOWN Reason=gpushare [root@2026-11-24T19:00:00]",
            "State=IDLE*+DRAIN Reason=gpushare [root@2026-11-24T19:00:00]",
        ] {
            assert!(matches!(state(&node(text)).status, Status::Wrong(_)), "{text}");
        }
        for text in
            ["State=DOWN*", "State=IDLE*", "State=DOWN+NOT_RESPONDING", "State=IDLE+DRAIN+INVALID_REG"]
        {
            assert!(matches!(state(&node(text)).status, Status::Wrong(_)), "{text}");
        }
    }
}
