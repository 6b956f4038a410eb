//! `gpushare check --nodes`: runs the check on every node, by srun or another program, or reads the nodes' collected
//! reports. [`super::fleet`] combines them.

use std::path::Path;
use std::thread;
use std::time::Duration;

use gpushare::config::Config;
use gpushare::text::hostlist;

use super::fleet::{Fleet, Node, Report};
use crate::slurm::{self, Reach, run};
use crate::status::collected;
use crate::status::local::now;

/// So many nodes are asked at once.
const AT_ONCE: usize = 16;
/// How long one node may take: srun waits 10 s for a place on it, and then its check runs.
const PATIENCE: Duration = Duration::from_secs(60);
/// What runs there.
const CHECK: [&str; 3] = ["gpushare", "check", "--json"];

/// How the nodes are asked.
pub enum Way<'a> {
    /// A job on each.
    Srun,
    /// This program or command line, followed by a node's name and [`CHECK`].
    Via(&'a str),
    /// DIR/NODE.json
    Collected(&'a Path),
}

/// Asks them. `list`: a hostlist, or nothing for every node that has GPUs or shares.
///
/// # Errors
/// slurmctld doesn't say which nodes exist, or the list is invalid.
pub fn gather(list: &str, way: &Way, config: &Config) -> Result<Fleet, String> {
    let known = known();
    let names = if list.is_empty() {
        let nodes = known
            .as_ref()
            .map_err(|error| format!("which nodes there are: {error}; or name them: --nodes LIST"))?;
        let share = &config.node.share_gres;
        let is_ours = |node: &&slurm::Node| node.gres.iter().any(|(name, ..)| name == "gpu" || name == share);
        nodes.iter().filter(is_ours).map(|node| node.name.clone()).collect()
    } else {
        hostlist::all(list).ok_or_else(|| format!("'{list}' is no list of nodes, such as n[1-3],gpu1"))?
    };
    let nodes = known.unwrap_or_default();
    let ask = |name: &String| {
        let partition = nodes.iter().find(|node| node.name == *name).and_then(|node| node.partitions.first());
        match way {
            Way::Collected(folder) => match collected::of(folder, name, now()) {
                Ok(Some(report)) => Ok(report),
                Ok(None) => Err(format!("there is no {}/{name}.json", folder.display())),
                Err(error) => Err(error),
            },
            Way::Srun => answer(&by_srun(name, partition.map(String::as_str))),
            Way::Via(command) => answer(&via(command, name)),
        }
    };
    let mut answers: Vec<Node> = Vec::new();
    for names in names.chunks(AT_ONCE) {
        let said: Vec<Result<Report, String>> = thread::scope(|scope| {
            let threads: Vec<_> = names.iter().map(|name| scope.spawn(|| ask(name))).collect();
            threads
                .into_iter()
                .map(|one| one.join().unwrap_or_else(|_| Err("the thread that asks failed".to_owned())))
                .collect()
        });
        answers.extend(names.iter().zip(said).map(|(name, said)| match said {
            Ok(report) => Node { node: name.clone(), report: Some(report), error: None },
            Err(error) => Node { node: name.clone(), report: None, error: Some(error) },
        }));
    }
    Ok(Fleet::of(answers))
}

/// What slurmctld says of nodes, if it answers.
fn known() -> Result<Vec<slurm::Node>, String> {
    Reach::ask().slurmctld?;
    let text = slurm::ask("scontrol", &["-a", "-o", "show", "node"])?;
    Ok(text.lines().filter_map(slurm::node).collect())
}

/// A task of a job of its own, which waits for a place no longer than a moment, and beside which others may run.
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

/// Programs that put the node's name before each line are told not to.
fn via(command: &str, node: &str) -> Vec<String> {
    let begin = match command {
        "ssh" => "ssh -o BatchMode=yes -o ConnectTimeout=5",
        "pdsh" => "pdsh -N -w",
        "clush" => "clush -N -w",
        command => command,
    };
    let words = begin.split_whitespace().map(str::to_owned).chain([node.to_owned()]);
    words.chain(CHECK.map(str::to_owned)).collect()
}

/// What the command prints; how it ends says only whether something is wrong on the node.
fn answer(words: &[String]) -> Result<Report, String> {
    let Some((program, arguments)) = words.split_first() else { return Err("no command".to_owned()) };
    let answer = run::run(slurm::command(program).args(arguments), PATIENCE)?;
    serde_json::from_slice(&answer.output).map_err(|error| {
        let what = if answer.output.trim_ascii().is_empty() { String::new() } else { format!(" ({error})") };
        let text = [answer.complaints, answer.output].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let said = text.lines().map(str::trim).find(|line| !line.is_empty());
        said.map_or_else(|| format!("{program} said nothing"), |line| format!("{line}{what}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_asked_by_what_the_site_has() {
        let words = |way: &str| via(way, "n1").join(" ");
        assert_eq!(words("ssh"), "ssh -o BatchMode=yes -o ConnectTimeout=5 n1 gpushare check --json");
        assert_eq!(words("pdsh"), "pdsh -N -w n1 gpushare check --json");
        assert_eq!(words("clush"), "clush -N -w n1 gpushare check --json");
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
        assert_eq!(said(&format!("echo '{report}'; exit 1")).as_deref(), Ok("n1"));
        let error = said("echo; echo 'srun: error: no place' >&2; exit 1").unwrap_err();
        assert_eq!(error, "srun: error: no place");
        let error = said("echo '{not JSON'; exit 1").unwrap_err();
        assert!(error.starts_with("{not JSON (key must be"), "{error}");
        assert_eq!(said("exit 0").unwrap_err(), "sh said nothing");
    }
}
