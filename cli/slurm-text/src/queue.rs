//! Jobs as squeue(1) shows them to their users: what they request, why they wait, where they run. Only fields that
//! contain no user's text.

use std::collections::BTreeMap;

use crate::{Question, State};

/// Numbers by TRES as squeue spells them; memory in MiB.
pub type Tres = BTreeMap<String, u64>;

/// Asks for every job that slurmctld remembers and shows the caller.
pub const QUEUE: Question = (
    "squeue",
    &[
        "-a",
        "-h",
        "-t",
        "all",
        "-O",
        "JobID:|,ArrayJobID:|,ArrayTaskID:|,HetJobID:|,HetJobOffset:|,UserID:|,UserName:|,Account:|,Partition:|,QOS:|,\
         State:|,Reason:|,NumNodes:|,StartTime:|,EndTime:|,NodeList:|,tres-alloc:|,tres-per-node:|,tres-per-job:|,\
         tres-per-task:|,tres-per-socket:|,TimeLimit:|,TimeLeft:|,PriorityLong:|",
    ],
);

/// A job, or the waiting tasks of an array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Its own number.
    pub id: u32,
    /// The number of its array, or else its own.
    pub array: u32,
    /// `3`, or for waiting tasks `4-9%2`.
    pub tasks: String,
    /// The heterogeneous job, and the number of this component.
    pub het: Option<(u32, u32)>,
    /// The user's number.
    pub user_id: u32,
    /// The user's name.
    pub user: String,
    /// The account that is charged.
    pub account: String,
    /// A waiting job may have several, separated by commas.
    pub partition: String,
    /// Its QOS.
    pub qos: String,
    /// The word for its state.
    pub state: String,
    /// Why it waits.
    pub reason: String,
    /// How many nodes it has or requests, at least.
    pub nodes: u64,
    /// When it started, or when Slurm expects to start it.
    pub start: String,
    /// When it ended.
    pub end: String,
    /// Its nodes, as a hostlist.
    pub node_list: String,
    /// What it has or, while it waits, requests.
    pub tres: Tres,
    /// What it requests of each node.
    pub per_node: String,
    /// What it requests in all.
    pub per_job: String,
    /// It requests something per task or socket.
    pub per_other: bool,
    /// Its time limit in minutes; `None` if it has none. Of a waiting job that names none, its partition's `MaxTime`.
    pub time_limit: Option<u64>,
    /// How many seconds of it are left.
    pub time_left: Option<u64>,
    /// Its priority; 0 if it is held.
    pub priority: u64,
}

impl Row {
    /// The name that squeue prints.
    pub fn name(&self) -> String {
        match self.het {
            Some((id, component)) => format!("{id}+{component}"),
            None if self.tasks.is_empty() => self.id.to_string(),
            None if self.tasks.bytes().all(|byte| byte.is_ascii_digit()) => {
                format!("{}_{}", self.array, self.tasks)
            }
            None => format!("{}_[{}]", self.array, self.tasks),
        }
    }

    /// Whether limits count it as running.
    pub fn counts(&self) -> bool {
        self.is() == State::Runs
    }

    fn is(&self) -> State {
        State::read(&self.state)
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.is() == State::Over
    }

    /// Whether it has its nodes.
    pub fn has_nodes(&self) -> bool {
        matches!(self.is(), State::Runs | State::Completing)
    }

    /// Whether it waits in a partition of another that waits, and Slurm tries it first.
    pub fn goes_before(&self, other: &Row) -> bool {
        let can_start = !["Dependency", "BeginTime"].contains(&self.reason.as_str());
        let waits = self.is() == State::Waits && can_start && self.id != other.id;
        waits
            // Of two with one priority, the older one.
            && (self.priority, other.id) > (other.priority, self.id)
            && self.partition.split(',').any(|name| other.partition.split(',').any(|its| its == name))
    }

    /// Whether both are components of one heterogeneous job, which start together.
    pub fn starts_with(&self, other: &Row) -> bool {
        self.id != other.id && self.het.is_some() && self.het.map(|(id, _)| id) == other.het.map(|(id, _)| id)
    }

    /// When Slurm expects to start the job.
    pub fn expected_start(&self) -> Option<String> {
        Some(self.start.clone()).filter(|start| start.starts_with(|c: char| c.is_ascii_digit()))
    }

    /// The partition that it runs in, or the first of those in which it may start.
    pub fn first_partition(&self) -> &str {
        self.partition.split(',').next().unwrap_or_default()
    }
}

/// How many columns of [`QUEUE`] come before an account's name, and after it. Coordinators name accounts.
const AROUND: [usize; 2] = [7, 16];

/// The columns of a line of [`QUEUE`].
fn split(line: &str) -> impl Iterator<Item = &str> {
    let [before, after] = AROUND;
    let mut columns: Vec<&str> = line.splitn(before + 1, '|').collect();
    let rest = columns.pop().unwrap_or_default();
    let rest = rest.trim_end().strip_suffix('|').unwrap_or(rest);
    let mut last: Vec<&str> = rest.rsplitn(after + 1, '|').collect();
    last.reverse();
    columns.into_iter().chain(last).map(str::trim)
}

/// Reads a line; `None` if it isn't one of a job.
pub fn row(line: &str) -> Option<Row> {
    let mut columns = split(line);
    let mut next = || columns.next();
    let said = |text: &str| Some(text.to_owned()).filter(|text| !["N/A", "(null)"].contains(&text.as_str()));
    let seconds = gpushare::text::time::seconds;
    // In the order of the columns.
    Some(Row {
        id: next()?.parse().ok()?,
        array: next()?.parse().ok()?,
        tasks: said(next()?).unwrap_or_default(),
        het: next()?.parse().ok().zip(next()?.parse().ok()),
        user_id: next()?.parse().ok()?,
        user: next()?.to_owned(),
        account: next()?.to_owned(),
        partition: next()?.to_owned(),
        qos: next()?.to_owned(),
        state: next()?.to_owned(),
        reason: next()?.to_owned(),
        // In a range of nodes, the first number is the minimum.
        nodes: next()?.split('-').next().and_then(|nodes| nodes.parse().ok()).unwrap_or(1),
        start: next()?.to_owned(),
        end: next()?.to_owned(),
        node_list: next()?.to_owned(),
        tres: crate::Tres::read(next()?).iter().map(|(name, count)| (name.to_owned(), count)).collect(),
        per_node: said(next()?).unwrap_or_default(),
        per_job: said(next()?).unwrap_or_default(),
        per_other: [next()?, next()?].into_iter().any(|text| said(text).is_some_and(|text| !text.is_empty())),
        time_limit: next().and_then(seconds).map(|seconds| seconds / 60),
        time_left: next().and_then(seconds),
        priority: next().and_then(|priority| priority.parse().ok()).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job that requests or has something.
    fn job(id: u32, user: &str, state: &str, tres: &str) -> Row {
        let number = if user == "alice" { 2001 } else { 2002 };
        let text = format!(
            "{id}|{id}|N/A|N/A|N/A|{number}|{user}|acct|p|q|{state}|None|1|N/A|N/A||{tres}|gres/gpu:a40:2|N/A|N/A|N/A|"
        );
        row(&text).unwrap()
    }

    #[test]
    fn a_job_that_is_held_in_whatever_way_waits() {
        for (state, over, nodes) in [
            ("PENDING", false, false),
            ("REQUEUE_HOLD", false, false),
            ("SPECIAL_EXIT", false, false),
            ("RESV_DEL_HOLD", false, false),
            ("RUNNING", false, true),
            ("COMPLETING", false, true),
            ("COMPLETED", true, false),
            ("CANCELLED by 2001", true, false),
        ] {
            let job = job(7, "alice", state, "cpu=1");
            assert_eq!((job.is_over(), job.has_nodes()), (over, nodes), "{state}");
        }
    }

    #[test]
    fn lines_of_squeue_are_read() {
        let text = "5|5|1-5%2|N/A|N/A|2001|alice|below|p,q|normal|PENDING|QOSGrpGRES|1-2|2027-11-24T19:44:58|N/A||\
                    cpu=1,mem=1.50G,node=1,gres/gpu=2,gres/gpu:a40=2|gres/gpu:a40:2|N/A|N/A|N/A|1-00:30:00|1:40|4294901757|\n\
                    9|9|N/A|8|1|2002|bob|acct|p|q|RUNNING|None|1|2026-11-24T19:44:58|N/A|n1|cpu=1||N/A|cpu:2|N/A|UNLIMITED|NOT_SET|0|\nslurm\n";
        let rows: Vec<Row> = text.lines().filter_map(row).collect();
        let [array, component] = rows.as_slice() else { panic!("{rows:?}") };
        assert_eq!((array.name().as_str(), array.first_partition(), array.nodes), ("5_[1-5%2]", "p", 1));
        assert_eq!(array.expected_start().as_deref(), Some("2027-11-24T19:44:58"));
        assert_eq!((array.tres["mem"], array.tres["gres/gpu:a40"]), (1536, 2));
        assert_eq!((component.name().as_str(), component.het), ("8+1", Some((8, 1))));
        assert_eq!((array.time_limit, array.time_left, component.time_limit), (Some(1470), Some(100), None));
        assert_eq!((array.priority, component.priority), (4_294_901_757, 0));
        assert!(array.goes_before(&Row { id: 6, ..array.clone() }) && !array.goes_before(array));
        assert!(component.counts() && component.per_other && !array.per_other && !array.counts());
        let named = row(&text.lines().next().unwrap().replace("below", "a|b|c")).unwrap();
        assert_eq!(
            named,
            Row { account: "a|b|c".to_owned(), ..array.clone() },
            "a coordinator chose the name"
        );
    }
}
