//! `gpushare check --nodes`: what each node says of itself ([`super::Arguments`]' `--node-report`), asked by ssh or
//! another program, or read from collected reports; without either, what slurmctld's records of the nodes show.
//! [`super::fleet`] combines them.
//!
//! It never submits a job: a job of root's could preempt a user's, wait for ever, or start a machine. For the same
//! reason it asks no node that Slurm has powered down.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use gpushare::text::hostlist;
use gpushare_machine::config::Config;

use super::fleet::{self, Fleet, Node, Report, Said};
use super::machine::Machine;
use super::{CheckError, daemon, node};
use crate::slurm::{self, ProgramError, Reach, run};
use crate::status::collected::{self, Ignored};
use gpushare_machine::local::now;

/// How many nodes are asked at once.
const AT_ONCE: usize = 16;
/// The time limit for one node.
const PATIENCE: Duration = Duration::from_secs(60);
/// The command that runs there.
const REPORT: [&str; 3] = ["gpushare", "check", "--node-report"];
/// More than the reports of 10,000 nodes.
const LONGEST: u64 = 256 << 20;

/// Where the reports come from.
pub enum Way<'a> {
    /// From nobody: slurmctld's records of the nodes.
    Records,
    /// This program or command line, followed by a node's name and [`REPORT`].
    Via(&'a str),
    /// DIR/NODE.json, or a file with a report on each line; `-` is standard input.
    Collected(&'a Path),
}

/// Collects the reports. `list` is a hostlist, or empty for every node that has GPUs or shares.
///
/// # Errors
/// slurmctld doesn't say which nodes exist, the list is invalid, or the collected reports can't be read.
pub fn gather(list: &str, way: &Way, config: &Config) -> Result<Fleet, CheckError> {
    let known = known();
    let names = if list.is_empty() {
        let nodes = known.as_ref().map_err(|error| CheckError::WhichNodes(error.to_string()))?;
        let share = &config.node.share_gres;
        let is_ours = |node: &&slurm::Node| node.has("gpu") || node.has(share);
        let ours: Vec<String> = nodes.iter().filter(is_ours).map(|node| node.name.clone()).collect();
        if ours.is_empty() {
            return Err(CheckError::WhichNodes("slurmctld knows none with GPUs or shares".to_owned()));
        }
        ours
    } else {
        hostlist::names::all(list).ok_or_else(|| CheckError::NoList(list.to_owned()))?
    };
    let all = if let Way::Records = way {
        known.map_err(|error| CheckError::WhichNodes(error.to_string()))?
    } else {
        known.unwrap_or_default()
    };
    let node = |name: &String| all.iter().find(|node| node.name == *name);
    let report = |name: &String, ask: &dyn Fn(&String) -> Result<Report, NodeError>| {
        let off = node(name).and_then(without_power);
        off.map_or_else(|| Ok(Said::Report(Box::new(ask(name)?))), Ok)
    };
    match way {
        Way::Records => {
            let of = |name| node(name).map(|node| record(node, &all, config)).ok_or(NodeError::NoRecord);
            Ok(Fleet::of(said(&names, names.iter().map(of)), Some(fleet::UNSEEN)))
        }
        Way::Collected(path) => {
            let found = Found::read(path)?;
            let of = |name| report(name, &|name| found.of_node(name));
            Ok(Fleet::of(said(&names, names.iter().map(of)), None))
        }
        Way::Via(command) => {
            let ask = |name: &String| match answer(&via(command, name), PATIENCE)? {
                report if report.machine.node == *name => Ok(report),
                report => Err(NodeError::Other(report.machine.node)),
            };
            let mut answers: Vec<Node> = Vec::new();
            for names in names.chunks(AT_ONCE) {
                let found: Vec<_> = thread::scope(|scope| {
                    let threads: Vec<_> =
                        names.iter().map(|name| scope.spawn(|| report(name, &ask))).collect();
                    threads.into_iter().map(|one| one.join().unwrap_or(Err(NodeError::Thread))).collect()
                });
                answers.extend(said(names, found.into_iter()));
            }
            Ok(Fleet::of(answers, None))
        }
    }
}

fn said(names: &[String], all: impl Iterator<Item = Result<Said, NodeError>>) -> Vec<Node> {
    let of = |(name, said): (&String, Result<Said, NodeError>)| Node {
        node: name.clone(),
        said: said.unwrap_or_else(|error| Said::Error(error.to_string())),
    };
    names.iter().zip(all).map(of).collect()
}

/// The nodes that slurmctld knows, if it answers.
fn known() -> Result<Vec<slurm::Node>, ProgramError> {
    Reach::of_slurmctld()?;
    let text = slurm::ask("scontrol", &["-a", "-o", "show", "node"])?;
    Ok(text.lines().filter_map(slurm::Node::read).collect())
}

/// What is said of a node that Slurm has switched off or is about to switch: `IDLE+CLOUD+POWERED_DOWN`. It is no fault,
/// also if the node is down or drained, and it stays as it is. `None` for any other.
fn without_power(node: &slurm::Node) -> Option<Said> {
    let is_switched = |word: &str| {
        ["POWER_DOWN", "POWERED_DOWN", "POWERING_DOWN", "POWER_UP", "POWERING_UP"].contains(&word)
    };
    let reason = node.reason.as_deref().map_or_else(String::new, |reason| format!(": {reason}"));
    let said = || Said::Nothing(format!("it is {}{reason}", node.state));
    node.state.split('+').any(is_switched).then(said)
}

/// What slurmctld's record of a node shows.
fn record(one: &slurm::Node, all: &[slurm::Node], config: &Config) -> Said {
    if let Some(said) = without_power(one) {
        return said;
    }
    let here = config.of_node(&one.name);
    let elsewhere = all.iter().any(|node| node.has(&config.node.share_gres));
    let mut findings = vec![daemon::state(one)];
    findings.extend(node::gres(here, one, elsewhere, None));
    let version = Some(one.version.clone()).filter(|version| !version.is_empty());
    let versions: BTreeMap<String, String> =
        version.map(|version| ("Slurm".to_owned(), version)).into_iter().collect();
    let machine = Machine { node: one.name.clone(), time: now(), versions, ..Machine::default() };
    Said::Report(Box::new(Report { machine, findings }))
}

/// Programs that put the node's name before each line get an option that prevents it, and those that start others a
/// time after which they end these. ssh gets options that suppress what would precede the reason for a failure: a
/// site's banner, or a message about a new host key. They stand last, because the first of two counts.
fn via(command: &str, node: &str) -> Vec<String> {
    let program = command.split_whitespace().next().unwrap_or_default();
    let more = match (command, Path::new(program).file_name().and_then(|name| name.to_str())) {
        ("pdsh", _) => "-N -t 5 -u 50 -w",
        ("clush", _) => "-N -t 5 -u 50 --options=-oLogLevel=ERROR -w",
        (_, Some("ssh")) => "-o LogLevel=ERROR -o BatchMode=yes -o ConnectTimeout=5",
        _ => "",
    };
    let words = command.split_whitespace().chain(more.split_whitespace()).chain([node]);
    words.chain(REPORT).map(str::to_owned).collect()
}

/// In a session of its own nothing can ask the terminal for a password, and the whole group ends at the deadline.
const SESSION: &str = "setsid";
/// Options that pdsh adds to those that it passes to ssh; and ssh may open no window to ask.
const FOR_SSH: [(&str, &str); 2] =
    [("PDSH_SSH_ARGS_APPEND", "-oLogLevel=ERROR -oBatchMode=yes"), ("SSH_ASKPASS_REQUIRE", "never")];

gpushare::errors! {
    /// Why a node has no report.
    #[derive(Debug)]
    pub enum NodeError {
        NoFile(folder: PathBuf, node: String) => "there is no {}/{node}.json", folder.display();
        NoLine(file: PathBuf) => "{} has no report of it", file.display();
        Other(node: String) => "the report is of '{node}'";
        NoRecord => "slurmctld knows no such node";
        NoCommand => "no command";
        Silent(program: String) => "{program} printed nothing";
        Complaint(line: String) => "{line}";
        NoReport(line: String, error: serde_json::Error) => "{line} ({error})";
        Thread => "the thread that asks failed";
    } from { Ignored(Ignored), Program(ProgramError) }
}

/// The report that the command prints.
fn answer(words: &[String], patience: Duration) -> Result<Report, NodeError> {
    let program = words.first().ok_or(NodeError::NoCommand)?;
    let mut command = slurm::command(SESSION);
    command.envs(FOR_SSH.into_iter().filter(|(variable, _)| std::env::var_os(variable).is_none()));
    let answer = run::run(command.args(words), patience).map_err(|error| match error {
        ProgramError::Deadline(_, patience) => ProgramError::Deadline(program.clone(), patience),
        error => error,
    })?;
    serde_json::from_slice(&answer.output).map_err(|error| {
        let is_silent = answer.output.trim_ascii().is_empty();
        let text = [answer.complaints, answer.output].concat();
        let text = String::from_utf8_lossy(&text);
        match text.lines().map(str::trim).find(|line| !line.is_empty()) {
            None => NodeError::Silent(program.clone()),
            Some(line) if is_silent => NodeError::Complaint(line.to_owned()),
            Some(line) => NodeError::NoReport(line.to_owned(), error),
        }
    })
}

/// Collected reports.
enum Found<'a> {
    /// A directory with NODE.json.
    Folder(&'a Path),
    /// A file's reports, and its lines `NODE: text` that are none.
    File { path: &'a Path, reports: BTreeMap<String, Report>, complaints: BTreeMap<String, String> },
}

impl<'a> Found<'a> {
    fn read(path: &'a Path) -> Result<Found<'a>, CheckError> {
        let mut text = Vec::new();
        if path == Path::new("-") {
            io::stdin().take(LONGEST).read_to_end(&mut text).map_err(CheckError::Stdin)?;
        } else if path.is_dir() {
            return Ok(Found::Folder(path));
        } else {
            let failed = |error| CheckError::Collected(path.to_owned(), error);
            File::open(path).map_err(failed)?.take(LONGEST).read_to_end(&mut text).map_err(failed)?;
        }
        Ok(Found::of(path, &String::from_utf8_lossy(&text)))
    }

    /// pdsh and clush put `NODE: ` before each line, also before those of a node that has no report.
    fn of(path: &'a Path, text: &str) -> Found<'a> {
        let (mut reports, mut complaints) = (BTreeMap::new(), BTreeMap::new());
        for line in text.lines() {
            let report = line.find('{').and_then(|at| serde_json::from_str::<Report>(line.get(at..)?).ok());
            if let Some(report) = report {
                reports.insert(report.machine.node.clone(), report);
            } else if let Some((node, text)) = line.split_once(": ") {
                complaints.entry(node.to_owned()).or_insert_with(|| text.trim().to_owned());
            }
        }
        Found::File { path, reports, complaints }
    }

    fn of_node(&self, node: &str) -> Result<Report, NodeError> {
        match self {
            Found::Folder(folder) => collected::of(folder, node, now())?
                .ok_or_else(|| NodeError::NoFile(folder.to_path_buf(), node.to_owned())),
            Found::File { path, reports, complaints } => match (reports.get(node), complaints.get(node)) {
                (Some(report), _) => {
                    let Machine { node: of, time, .. } = &report.machine;
                    collected::current((of, *time), path, node, now())?;
                    Ok(report.clone())
                }
                (None, Some(line)) => Err(NodeError::Complaint(line.clone())),
                (None, None) => Err(NodeError::NoLine(path.to_path_buf())),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::Finding;

    #[test]
    fn a_node_is_asked_by_what_the_site_has() {
        let words = |way: &str| via(way, "n1").join(" ");
        assert_eq!(
            words("ssh"),
            "ssh -o LogLevel=ERROR -o BatchMode=yes -o ConnectTimeout=5 n1 gpushare check --node-report"
        );
        assert_eq!(words("pdsh"), "pdsh -N -t 5 -u 50 -w n1 gpushare check --node-report");
        assert_eq!(
            words("clush"),
            "clush -N -t 5 -u 50 --options=-oLogLevel=ERROR -w n1 gpushare check --node-report"
        );
        assert_eq!(
            words("/opt/ssh -p 2222"),
            "/opt/ssh -p 2222 -o LogLevel=ERROR -o BatchMode=yes -o ConnectTimeout=5 n1 gpushare check --node-report"
        );
        assert_eq!(words("sudo -u x ssh"), "sudo -u x ssh n1 gpushare check --node-report");
    }

    #[test]
    fn what_a_program_started_ends_with_it_and_it_has_no_terminal() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("child");
        let script = format!("sleep 300 & echo $! $(ps -o tty= -p $$) >{}; wait", file.display());
        let words = ["sh", "-c", &script].map(str::to_owned);
        let error = answer(&words, Duration::from_secs(5)).unwrap_err().to_string();
        assert!(error.ends_with("'sh' did not answer in 5 s"), "{error}");
        let said = std::fs::read_to_string(file).unwrap();
        let (child, terminal) = said.trim().split_once(' ').unwrap();
        assert_eq!(terminal, "?");
        let stat = Path::new("/proc").join(child).join("stat");
        let is_gone = || std::fs::read_to_string(&stat).map_or(true, |text| text.contains(") Z "));
        for _ in 0..500 {
            if is_gone() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("process {child} still runs");
    }

    const SAID: &str = "{\"node\":\"n1\",\"time\":1,\"versions\":{},\"files\":{},\"findings\":[]}";

    #[test]
    fn what_is_no_report_is_said_in_one_line() {
        let said = |script: &str| {
            answer(&["sh", "-c", script].map(str::to_owned), PATIENCE).map(|report| report.machine.node)
        };
        assert_eq!(said(&format!("echo '{SAID}'; exit 1")).unwrap(), "n1");
        let error = said("echo; echo 'ssh: no route' >&2; exit 1").unwrap_err().to_string();
        assert_eq!(error, "ssh: no route");
        let error = said("echo '{not JSON'; exit 1").unwrap_err().to_string();
        assert!(error.starts_with("{not JSON (key must be"), "{error}");
        assert_eq!(said("exit 0").unwrap_err().to_string(), "sh printed nothing");
    }

    #[test]
    fn collected_lines_are_those_of_pdsh_and_clush_too() {
        let now = now();
        let report = |node: &str, time| SAID.replace("n1", node).replace(":1,", &format!(":{time},"));
        let text = format!(
            "n1: {}\n{}\nn3: sh: gpushare: not found\nn4: {}\n\ngarbage\n",
            report("n1", now),
            report("n2", now),
            report("n4", now - 1000)
        );
        let found = Found::of(Path::new("FILE"), &text);
        let said = |node| found.of_node(node).map_or_else(|error| error.to_string(), |one| one.machine.node);
        assert_eq!(
            ["n1", "n2", "n3", "n4", "n5"].map(said),
            [
                "n1",
                "n2",
                "sh: gpushare: not found",
                "FILE is ignored: it is 1000 s old; the limit is 900 s",
                "FILE has no report of it"
            ]
        );
    }

    #[test]
    fn slurmctlds_record_of_a_node_is_judged_without_asking_anybody() {
        let config = Config::parse("Placement=follow\nUnitsPerGpu=100").unwrap();
        let read = |text: &str| slurm::Node::read(&format!("NodeName=n1 {text}")).unwrap();
        for (text, expected) in [
            ("Gres=gpu:a40:4,mps:400 State=IDLE Version=24.11.5", vec!["ok", "ok"]),
            ("Gres=gpu:a40:4,mps:400 State=DOWN+NOT_RESPONDING", vec!["wrong", "ok"]),
            ("Gres=mps:400 State=IDLE", vec!["ok", "wrong"]),
            ("Gres=gpu:4,mps:400 State=IDLE+CLOUD+POWERED_DOWN", vec![]),
            ("Gres=gpu:4,mps:400 State=MIXED+CLOUD+POWERING_UP", vec![]),
            ("Gres=gpu:4,mps:400 State=IDLE+CLOUD+POWER_DOWN", vec![]),
            ("Gres=mps:400 State=DOWN+CLOUD+DRAIN+POWERED_DOWN Reason=ResumeTimeout reached", vec![]),
        ] {
            let node = read(text);
            let found = match record(&node, std::slice::from_ref(&node), &config) {
                Said::Report(report) => {
                    let word = |one: &Finding| if one.is_wrong() { "wrong" } else { "ok" };
                    report.findings.iter().map(word).collect()
                }
                Said::Nothing(_) | Said::Error(_) => Vec::new(),
            };
            assert_eq!(found, expected, "{text}");
        }
    }
}
