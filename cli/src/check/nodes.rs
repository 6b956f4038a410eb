//! `gpushare check --nodes`: runs the check on every node, by srun or another program, or reads the nodes' collected
//! reports. [`super::fleet`] combines them.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::config::Config;
use gpushare::text::hostlist;

use super::CheckError;
use super::fleet::{Fleet, Node, Report};
use crate::slurm::{self, ProgramError, Reach, run};
use crate::status::collected::{self, Ignored};
use crate::status::local::now;

/// How many nodes are asked at once.
const AT_ONCE: usize = 16;
/// The time limit for one node: srun waits 10 s for resources there, and then its check runs.
const PATIENCE: Duration = Duration::from_secs(60);
/// The command that runs there.
const CHECK: [&str; 3] = ["gpushare", "check", "--json"];

/// How to ask the nodes.
pub enum Way<'a> {
    /// By a job on each.
    Srun,
    /// This program or command line, followed by a node's name and [`CHECK`].
    Via(&'a str),
    /// Read DIR/NODE.json.
    Collected(&'a Path),
}

/// Collects the reports. `list` is a hostlist, or empty for every node that has GPUs or shares.
///
/// # Errors
/// slurmctld doesn't say which nodes exist, or the list is invalid.
pub fn gather(list: &str, way: &Way, config: &Config) -> Result<Fleet, CheckError> {
    let (nodes, names) = if list.is_empty() {
        let nodes = known().map_err(CheckError::WhichNodes)?;
        let share = &config.node.share_gres;
        let is_ours = |node: &&slurm::Node| node.gres.iter().any(|(name, ..)| name == "gpu" || name == share);
        let names = nodes.iter().filter(is_ours).map(|node| node.name.clone()).collect();
        (nodes, names)
    } else {
        let names = hostlist::all(list).ok_or_else(|| CheckError::NoList(list.to_owned()))?;
        (known().unwrap_or_default(), names)
    };
    let ask = |name: &String| {
        let partition = nodes.iter().find(|node| node.name == *name).and_then(|node| node.partitions.first());
        match way {
            Way::Collected(folder) => collected::of(folder, name, now())?
                .ok_or_else(|| NodeError::NoFile(folder.to_path_buf(), name.clone())),
            Way::Srun => answer(&by_srun(name, partition.map(String::as_str))),
            Way::Via(command) => answer(&via(command, name)),
        }
    };
    let mut answers: Vec<Node> = Vec::new();
    for names in names.chunks(AT_ONCE) {
        let said: Vec<Result<Report, NodeError>> = thread::scope(|scope| {
            let threads: Vec<_> = names.iter().map(|name| scope.spawn(|| ask(name))).collect();
            threads.into_iter().map(|one| one.join().unwrap_or(Err(NodeError::Thread))).collect()
        });
        answers.extend(names.iter().zip(said).map(|(name, said)| match said {
            Ok(report) => Node { node: name.clone(), report: Some(report), error: None },
            Err(error) => Node { node: name.clone(), report: None, error: Some(error.to_string()) },
        }));
    }
    Ok(Fleet::of(answers))
}

/// The nodes that slurmctld knows, if it answers.
fn known() -> Result<Vec<slurm::Node>, ProgramError> {
    Reach::ask().slurmctld?;
    let text = slurm::ask("scontrol", &["-a", "-o", "show", "node"])?;
    Ok(text.lines().filter_map(slurm::node).collect())
}

/// The options of a job with one task that waits only a moment for resources, and beside which other jobs may run.
fn by_srun(node: &str, partition: Option<&str>) -> Vec<String> {
    let mut words =
        ["srun", "--immediate=10", "--job-name=gpushare-check", "--chdir=/", "--nodes=1", "--ntasks=1"]
            .map(str::to_owned)
            .to_vec();
    words.extend(partition.map(|partition| format!("--partition={partition}")));
    words.push(format!("--nodelist={node}"));
    words.extend(CHECK.map(str::to_owned));
    words
}

/// Programs that put the node's name before each line get an option that prevents it. ssh gets options that suppress
/// what would precede the reason for a failure: a site's banner, or a message about a new host key.
fn via(command: &str, node: &str) -> Vec<String> {
    let begin = match command {
        "ssh" => "ssh -o LogLevel=ERROR -o BatchMode=yes -o ConnectTimeout=5",
        "pdsh" => "pdsh -N -w",
        "clush" => "clush -N --options=-oLogLevel=ERROR -w",
        command => command,
    };
    let words = begin.split_whitespace().map(str::to_owned).chain([node.to_owned()]);
    words.chain(CHECK.map(str::to_owned)).collect()
}

/// Options that pdsh adds to those that it passes to ssh.
const PDSH_SSH_ARGS: (&str, &str) = ("PDSH_SSH_ARGS_APPEND", "-oLogLevel=ERROR -oBatchMode=yes");

gpushare::errors! {
    /// Why a node has no report.
    #[derive(Debug)]
    pub enum NodeError {
        NoFile(folder: PathBuf, node: String) => "there is no {}/{node}.json", folder.display();
        NoCommand => "no command";
        Silent(program: String) => "{program} printed nothing";
        Complaint(line: String) => "{line}";
        NoReport(line: String, error: serde_json::Error) => "{line} ({error})";
        Thread => "the thread that asks failed";
    } from { Ignored(Ignored), Program(ProgramError) }
}

/// The report that the command prints. Its exit status only says whether something is wrong on the node.
fn answer(words: &[String]) -> Result<Report, NodeError> {
    let (program, arguments) = words.split_first().ok_or(NodeError::NoCommand)?;
    let mut command = slurm::command(program);
    let (variable, args) = PDSH_SSH_ARGS;
    if std::env::var_os(variable).is_none() {
        command.env(variable, args);
    }
    let answer = run::run(command.args(arguments), PATIENCE)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_asked_by_what_the_site_has() {
        let words = |way: &str| via(way, "n1").join(" ");
        assert_eq!(
            words("ssh"),
            "ssh -o LogLevel=ERROR -o BatchMode=yes -o ConnectTimeout=5 n1 gpushare check --json"
        );
        assert_eq!(words("pdsh"), "pdsh -N -w n1 gpushare check --json");
        assert_eq!(words("clush"), "clush -N --options=-oLogLevel=ERROR -w n1 gpushare check --json");
        assert_eq!(words("ssh -p 2222"), "ssh -p 2222 n1 gpushare check --json");
        let srun = by_srun("n1", Some("p")).join(" ");
        assert!(
            srun.ends_with("--partition=p --nodelist=n1 gpushare check --json")
                && srun.contains("--immediate"),
            "{srun}"
        );
        assert!(!srun.contains("overlap"));
    }

    #[test]
    fn what_is_no_report_is_said_in_one_line() {
        let said =
            |script: &str| answer(&["sh", "-c", script].map(str::to_owned)).map(|report| report.machine.node);
        let report = "{\"node\":\"n1\",\"time\":1,\"versions\":{},\"files\":{},\"findings\":[]}";
        assert_eq!(said(&format!("echo '{report}'; exit 1")).unwrap(), "n1");
        let error = said("echo; echo 'srun: error: no place' >&2; exit 1").unwrap_err().to_string();
        assert_eq!(error, "srun: error: no place");
        let error = said("echo '{not JSON'; exit 1").unwrap_err().to_string();
        assert!(error.starts_with("{not JSON (key must be"), "{error}");
        assert_eq!(said("exit 0").unwrap_err().to_string(), "sh printed nothing");
    }
}
