//! Combines the reports of a cluster's nodes: each node's faults, and where nodes differ. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpushare::text::print::counted;
use serde::{Deserialize, Serialize};

use super::finding::{self, Finding, Form};
use super::machine::{ABSENT, Machine};

/// What `gpushare check --json` prints on a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    #[serde(flatten)]
    pub machine: Machine,
    pub findings: Vec<Finding>,
}

/// A node, and what is known of it.
#[derive(Clone, Debug, Serialize)]
pub struct Node {
    pub node: String,
    #[serde(flatten)]
    pub said: Said,
}

/// What is known of a node.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    Report(Box<Report>),
    /// Why it gave none, although it should have.
    Error(String),
    /// Why nothing was expected of it.
    Nothing(String),
}

impl Node {
    fn report(&self) -> Option<&Report> {
        if let Said::Report(report) = &self.said { Some(report) } else { None }
    }
}

/// What slurmctld's records of the nodes don't show.
pub const UNSEEN: &str = "only slurmctld's records of the nodes were read; --via ssh (or pdsh, clush) also asks the \
                          nodes for their plugins, files, fence, MPS and ledger";

/// All nodes.
#[derive(Debug, Serialize)]
pub struct Fleet {
    pub nodes: Vec<Node>,
    /// What is wrong with gpushare.conf on this machine, by which the nodes are looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub here: Vec<Finding>,
    /// Differences between nodes.
    pub drift: Vec<Finding>,
    /// What was looked at of no node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unseen: Option<&'static str>,
}

impl Fleet {
    /// Compares the nodes.
    pub fn of(nodes: Vec<Node>, unseen: Option<&'static str>) -> Fleet {
        let here = Vec::new();
        let reports: Vec<&Report> = nodes.iter().filter_map(Node::report).collect();
        let drift = drift(&reports);
        Fleet { nodes, here, drift, unseen }
    }

    /// Whether every node has answered that should have, and nothing is wrong.
    pub fn is_right(&self) -> bool {
        let mut lines = self.here.iter().chain(&self.drift);
        self.nodes.iter().all(|node| is_right(&node.said)) && !lines.any(Finding::is_wrong)
    }

    /// The result as lines of text. Quiet, it is what is wrong; else it has each node, and also what can't be told
    /// about differences.
    pub fn text(&self, form: Form) -> String {
        let mut text = form.rows("  ", &self.here, &["WRONG"]);
        for Node { node, said } in &self.nodes {
            let is_shown = !form.quiet || !is_right(said);
            text += &match said {
                _ if !is_shown => String::new(),
                Said::Error(error) => form.line(&format!("{node}: no answer: {error}")),
                Said::Nothing(why) => form.line(&format!("{node}: {why}")),
                Said::Report(report) => {
                    form.line(&format!("{node}: {}", finding::sums(&report.findings)))
                        + &form.rows("  ", &report.findings, &["WRONG"])
                }
            };
        }
        let kinds: &[&str] = if form.quiet { &["WRONG"] } else { &["WRONG", "?"] };
        let drift = form.rows("  ", &self.drift, kinds);
        if !drift.is_empty() {
            text += &form.line("differences:");
            text += &drift;
        }
        if form.quiet {
            return text;
        }
        if let Some(unseen) = self.unseen {
            text += &form.rows("", &[Finding::unknown("nodes", unseen)], &["?"]);
        }
        text + &form.line(&self.sums())
    }

    /// How many nodes there are of each kind, and which.
    fn sums(&self) -> String {
        let named = |what: &str, is: &dyn Fn(&Node) -> bool| {
            let nodes: Vec<String> =
                self.nodes.iter().filter(|node| is(node)).map(|node| node.node.clone()).collect();
            let names =
                if nodes.is_empty() { String::new() } else { format!(" ({})", finding::listed(&nodes)) };
            format!("{} {what}{names}", nodes.len())
        };
        let is_wrong = |node: &Node| node.report().is_some() && !is_right(&node.said);
        let is_off = |node: &Node| matches!(node.said, Said::Nothing(_));
        let mut words = vec![
            named("with faults", &is_wrong),
            named("without an answer", &|node| matches!(node.said, Said::Error(_))),
        ];
        if self.nodes.iter().any(is_off) {
            words.push(named("powered down", &is_off));
        }
        words.push(counted(self.drift.len(), "difference"));
        format!("{}: {}", counted(self.nodes.len(), "node"), words.join(", "))
    }
}

fn is_right(said: &Said) -> bool {
    match said {
        Said::Report(report) => !report.findings.iter().any(Finding::is_wrong),
        Said::Error(_) => false,
        Said::Nothing(_) => true,
    }
}

/// Compares what must be the same on all machines. The value that most nodes have counts as the right one.
fn drift(reports: &[&Report]) -> Vec<Finding> {
    let mut all: BTreeMap<&str, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for Machine { node, versions, files, .. } in reports.iter().map(|report| &report.machine) {
        for (what, value) in versions.iter().chain(files) {
            all.entry(what).or_default().entry(value).or_default().push(node);
        }
    }
    let mut found = Vec::new();
    for (what, groups) in all {
        let is_version = reports.iter().any(|report| report.machine.versions.contains_key(what));
        // If two values are equally frequent, the first node's counts.
        let norm = groups.values().max_by_key(|nodes| (nodes.len(), Reverse(nodes.first())));
        for (value, nodes) in groups.iter().filter(|(_, nodes)| norm != Some(nodes)) {
            found.push(difference(what, value, nodes, norm.map_or(&[], Vec::as_slice), is_version));
        }
    }
    found
}

fn difference(what: &str, value: &str, nodes: &[&str], norm: &[&str], is_version: bool) -> Finding {
    let has = if nodes.len() == 1 { "has" } else { "have" };
    let (these, those) = (finding::listed(nodes), finding::listed(norm));
    let (thing, fix) = match value {
        ABSENT => (format!("no {what}, unlike"), format!("install {what} there, as on {those}")),
        version if is_version => {
            (format!("{what} {version}, unlike"), format!("install the same {what} everywhere"))
        }
        _ => (format!("a different {what} than"), format!("compare {what} of {these} with that of {those}")),
    };
    let said = format!("{these} {has} {thing} {those}");
    // GPUs differ from node to node, and a site's file may list only the node's own.
    match what {
        "gres.conf" => Finding::unknown("gres.conf", said + "; that is right if their GPUs differ"),
        _ => Finding::wrong(what.to_owned(), said, fix),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(node: &str, values: &[(&str, &str)], statuses: &[&str]) -> Node {
        let of = |version: bool| {
            let found = values.iter().filter(|(what, _)| ["gpushare", "Slurm"].contains(what) == version);
            found.map(|(what, value)| ((*what).to_owned(), (*value).to_owned())).collect()
        };
        let machine = Machine { node: node.to_owned(), time: 1, versions: of(true), files: of(false) };
        let line = |status: &&str| match *status {
            "wrong" => Finding::wrong("fence", "is \u{1b}so", "mend it"),
            "ok" => Finding::ok("fence", "is \u{1b}so"),
            _ => Finding::unknown("fence", "is \u{1b}so"),
        };
        let report = Report { machine, findings: statuses.iter().map(line).collect() };
        Node { node: node.to_owned(), said: Said::Report(Box::new(report)) }
    }

    #[test]
    fn nodes_that_differ_from_most_are_named() {
        let same =
            [("gpushare", "1"), ("gpushare.conf", "a"), ("gres.conf", "g"), ("spank_gpushare.so", "s")];
        for (odd, expected) in [
            (vec![], vec![]),
            (vec![("gpushare.conf", "b")], vec![("wrong", "n2 has a different gpushare.conf than n1, n3")]),
            (vec![("gpushare.conf", ABSENT)], vec![("wrong", "n2 has no gpushare.conf, unlike n1, n3")]),
            (vec![("gpushare", "2")], vec![("wrong", "n2 has gpushare 2, unlike n1, n3")]),
            (
                vec![("gres.conf", "h")],
                vec![(
                    "unknown",
                    "n2 has a different gres.conf than n1, n3; that is right if their GPUs differ",
                )],
            ),
            // A controller has a plugin that others lack.
            (vec![("job_submit_gpushare.so", "j")], vec![]),
        ] {
            let mut values: Vec<(&str, &str)> =
                same.iter().filter(|(what, _)| odd.iter().all(|(other, _)| other != what)).copied().collect();
            values.extend(&odd);
            let nodes = vec![report("n1", &same, &[]), report("n2", &values, &[]), report("n3", &same, &[])];
            let fleet = Fleet::of(nodes, None);
            let word = |line: &Finding| if line.is_wrong() { "wrong" } else { "unknown" };
            let found: Vec<(&str, &str)> =
                fleet.drift.iter().map(|line| (word(line), line.said.as_str())).collect();
            assert_eq!(found, expected, "{odd:?}");
            assert_eq!(fleet.is_right(), expected.iter().all(|(status, _)| *status != "wrong"));
        }
        // With one node against one, the first counts as right.
        let nodes = vec![report("n1", &same, &[]), report("n2", &[("gpushare.conf", "0")], &[])];
        let two = Fleet::of(nodes, None);
        assert_eq!(two.drift[0].said, "n2 has a different gpushare.conf than n1");
    }

    #[test]
    fn each_node_has_its_faults_and_silence_is_one() {
        let of = |node: &str, said| Node { node: node.to_owned(), said };
        let silent = of("n3", Said::Error("ssh: \u{1b}no route".to_owned()));
        let off = of("n4", Said::Nothing("it is IDLE+POWERED_DOWN".to_owned()));
        let nodes = [
            report("n1", &[], &["ok", "unknown"]),
            report("n2", &[], &["ok", "wrong"]),
            silent.clone(),
            off.clone(),
        ];
        assert_eq!(
            Fleet::of(nodes.to_vec(), None).text(Form::default()),
            "n1: 1 ok, 0 wrong, 1 to check (?)\nn2: 1 ok, 1 wrong\n  WRONG  fence  is \\u{1b}so\n                \
             fix: mend it\nn3: no answer: ssh: \\u{1b}no route\nn4: it is IDLE+POWERED_DOWN\n4 nodes: 1 with \
             faults (n2), 1 without an answer (n3), 1 powered down (n4), 0 differences\n"
        );
        let text = Fleet::of(vec![report("n1", &[], &["ok"])], Some(UNSEEN)).text(Form::default());
        assert!(text.contains("\n?      nodes  only slurmctld's records"), "{text}");
        let right = |nodes: &[Node]| Fleet::of(nodes.to_vec(), None).is_right();
        assert!(
            right(&[report("n1", &[], &["ok", "unknown"]), off])
                && !right(&[report("n1", &[], &["wrong"])])
                && !right(&[silent])
        );
    }

    #[test]
    fn all_quiet_colors_and_width_are_as_for_one_machine() {
        let of = |node: &str, said| Node { node: node.to_owned(), said };
        let nodes = vec![
            report("n1", &[], &["ok", "wrong", "unknown"]),
            report("n2", &[], &["ok", "unknown"]),
            of("n3", Said::Error("\u{1b}]0;no route to the host".to_owned())),
            of("n4\u{202e}", Said::Nothing("it is POWERED_DOWN".to_owned())),
        ];
        let fleet = Fleet::of(nodes, Some(UNSEEN));
        let form = Form::default();
        let quiet = fleet.text(Form { quiet: true, ..form });
        assert_eq!(
            quiet,
            "n1: 1 ok, 1 wrong, 1 to check (?)\n  WRONG  fence  is \\u{1b}so\n                fix: mend it\nn3: no \
             answer: \\u{1b}]0;no route to the host\n"
        );
        let all = fleet.text(Form { all: true, ..form });
        assert!(all.contains("\n  ?      fence  is \\u{1b}so\n  ok     fence  is"), "{all}");
        assert!(!all.contains(['\u{1b}', '\u{202e}']), "{all:?}");
        let coloured = fleet.text(Form { colour: true, quiet: true, ..form });
        assert!(coloured.contains("\n  \u{1b}[31mWRONG\u{1b}[0m  fence"), "{coloured:?}");
        let narrow = fleet.text(Form { width: Some(40), ..form });
        assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
    }
}
