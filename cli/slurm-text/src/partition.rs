//! Partitions and reservations, from `scontrol -o show`.

use gpushare::submit::policy::DefaultMemory;
use gpushare::text::time;

use crate::settings::default_memory;
use crate::{Question, value, words};

/// Asks for all partitions.
pub const PARTITIONS: Question = ("scontrol", &["-a", "-o", "show", "partition"]);

/// A partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// Its name.
    pub name: String,
    /// Whether it is where jobs go that name none.
    pub is_default: bool,
    /// The words of `TRESBillingWeights`.
    pub billing: Vec<String>,
    /// All QOSes that it allows, denies, or has as its own.
    pub qoses: Vec<String>,
    /// `AllowQos`; empty if all QOSes are allowed.
    pub allowed: Vec<String>,
    /// `DenyQos`, which counts if there is no `AllowQos`.
    pub denied: Vec<String>,
    /// Its own QOS, in lowercase as in the database.
    pub own: Option<String>,
    /// Its own default for jobs that request no memory.
    pub memory: DefaultMemory,
    /// Whether every job gets whole nodes.
    pub whole_nodes: bool,
    /// `LLN`: whether Slurm chooses the nodes with the fewest CPUs in use.
    pub least_loaded: bool,
    /// `Alternate`, perhaps empty, if it takes no jobs.
    pub passes_to: Option<String>,
    /// `DefaultTime` in minutes, if it has one.
    pub default_time: Option<u64>,
    /// `MaxTime` in minutes; `None` if it is unlimited.
    pub max_time: Option<u64>,
}

impl Partition {
    /// Reads a line.
    pub fn read(line: &str) -> Option<Partition> {
        let name = value(line, "PartitionName")?.to_owned();
        let list = |key| words(value(line, key).unwrap_or_default());
        // The values if there is none.
        let is_one = |name: &String| !["ALL", "N/A"].contains(&name.as_str());
        let named = |key| -> Vec<String> { list(key).into_iter().filter(is_one).collect() };
        let (allowed, denied) = (named("AllowQos"), named("DenyQos"));
        // slurmctld ignores case here, and its database has small letters.
        let takes_none = matches!(value(line, "State"), Some("DRAIN" | "INACTIVE"));
        let alternate = value(line, "Alternate").filter(|name| *name != "NONE").unwrap_or_default();
        let minutes = |key| value(line, key).and_then(time::seconds).map(|seconds| seconds / 60);
        let own = named("QoS").pop().map(|name| name.to_ascii_lowercase());
        Some(Partition {
            name,
            is_default: value(line, "Default") == Some("YES"),
            billing: list("TRESBillingWeights"),
            qoses: allowed.iter().chain(&denied).chain(&own).cloned().collect(),
            allowed,
            denied,
            own,
            memory: default_memory(|key| value(line, key).unwrap_or_default()),
            whole_nodes: value(line, "OverSubscribe") == Some("EXCLUSIVE")
                || is_exclusive(line) == Some(true),
            least_loaded: value(line, "LLN") == Some("YES"),
            passes_to: takes_none.then(|| alternate.to_owned()),
            default_time: minutes("DefaultTime"),
            max_time: minutes("MaxTime"),
        })
    }

    /// Whether jobs of a QOS may run in this partition.
    pub fn admits(&self, qos: &str) -> bool {
        let has = |names: &[String]| names.iter().any(|name| name.eq_ignore_ascii_case(qos));
        if self.allowed.is_empty() { !has(&self.denied) } else { has(&self.allowed) }
    }

    /// Whether `TRESBillingWeights` names a type of a GRES, so that Slurm learns a job's bill only at its start.
    pub fn bills_types(&self) -> bool {
        let is_type =
            |weight: &String| weight.to_ascii_lowercase().starts_with("gres/") && weight.contains(':');
        self.billing.iter().any(is_type)
    }
}

/// Whether a job's record says that it gets whole nodes.
pub fn takes_whole_nodes(job: &str) -> bool {
    is_exclusive(job).unwrap_or_else(|| value(job, "OverSubscribe") == Some("NO"))
}

/// How many minutes the job is content with, from its line of `scontrol -o show job`, if the user said so.
pub fn least_time(job: &str) -> Option<u64> {
    value(job, "TimeMin").and_then(time::seconds).map(|seconds| seconds / 60)
}

/// What 26.05 says in a word of its own.
fn is_exclusive(line: &str) -> Option<bool> {
    value(line, "Exclusive").map(|how| ["NODE", "TOPO"].contains(&how))
}

/// Reads all partitions.
pub fn read(text: &str) -> Vec<Partition> {
    text.lines().filter_map(Partition::read).collect()
}

/// A reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Its name.
    pub name: String,
    /// Its flags.
    pub flags: Vec<String>,
}

impl Reservation {
    /// Reads a line of `scontrol -o show reservation`.
    pub fn read(line: &str) -> Option<Reservation> {
        let name = value(line, "ReservationName")?.to_owned();
        Some(Reservation { name, flags: words(value(line, "Flags").unwrap_or_default()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Partition {
        Partition::read(&format!("PartitionName=p AllowGroups=ALL {text}")).unwrap()
    }

    #[test]
    fn a_job_may_be_content_with_less_time() {
        assert_eq!(least_time("JobId=7 TimeLimit=00:20:00 TimeMin=00:10:00"), Some(10));
        assert_eq!(least_time("JobId=7 TimeLimit=00:20:00 TimeMin=N/A"), None);
    }

    #[test]
    fn a_partition_has_its_qos_and_how_it_bills() {
        let found =
            with("QoS=Big OverSubscribe=EXCLUSIVE Default=YES TRESBillingWeights=CPU=1.0,GRES/gpu:a40=2");
        assert_eq!((found.own.as_deref(), found.whole_nodes, found.is_default), (Some("big"), true, true));
        assert_eq!((found.bills_types(), found.billing), (true, words("CPU=1.0,GRES/gpu:a40=2")));
        let none = with("AllowQos=ALL QoS=N/A OverSubscribe=NO Default=NO TRESBillingWeights=(null)");
        assert_eq!(none, Partition { name: "p".to_owned(), ..Partition::default() });
        assert!(!with("TRESBillingWeights=GRES/gpu=2").bills_types());
        let times = |text| (with(text).default_time, with(text).max_time);
        assert_eq!(times("DefaultTime=01:00:00 MaxTime=7-00:00:00"), (Some(60), Some(10_080)));
        assert_eq!(times("DefaultTime=NONE MaxTime=UNLIMITED"), (None, None));
        for (text, expected) in [
            ("Alternate=q State=UP", None),
            ("Alternate=q State=DOWN", None),
            ("Alternate=q State=DRAIN", Some("q")),
            ("Alternate=NONE State=INACTIVE", Some("")),
        ] {
            assert_eq!(with(text).passes_to.as_deref(), expected, "{text}");
        }
        assert!(read("No partitions\n").is_empty());
        assert!(with("Exclusive=NODE OverSubscribe=NO").whole_nodes && !with("Exclusive=USER").whole_nodes);
        for (job, whole) in [
            ("OverSubscribe=NO", true),
            ("OverSubscribe=OK", false),
            ("OverSubscribe=NO Exclusive=NO", false),
            ("OverSubscribe=NO Exclusive=NODE", true),
        ] {
            assert_eq!(takes_whole_nodes(job), whole, "{job}");
        }
    }

    #[test]
    fn a_partition_is_read_with_the_qoses_that_it_names() {
        for (text, expected) in [
            ("AllowQos=ALL QoS=N/A", vec![]),
            ("AllowQos=course,free QoS=N", vec!["course", "free", "n"]),
            ("DenyQos=course QoS=(null)", vec!["course"]),
        ] {
            assert_eq!(with(text).qoses, expected, "{text}");
        }
    }

    #[test]
    fn a_partition_admits_what_it_allows_or_else_what_it_does_not_deny() {
        for (text, free, course) in [
            ("AllowQos=ALL QoS=n", true, true),
            ("AllowQos=Course,free QoS=n", true, true),
            ("AllowQos=free QoS=N/A", true, false),
            ("DenyQos=course QoS=N/A", true, false),
        ] {
            let partition = with(text);
            assert_eq!((partition.admits("free"), partition.admits("course")), (free, course), "{text}");
        }
    }

    #[test]
    fn a_reservation_is_read_with_its_flags() {
        let line =
            "ReservationName=r StartTime=x Features=(null) Flags=MAINT,NO_HOLD_JOBS_AFTER_END TRES=cpu=64";
        let found = Reservation::read(line).unwrap();
        assert_eq!((found.name.as_str(), found.flags), ("r", words("MAINT,NO_HOLD_JOBS_AFTER_END")));
        assert_eq!(Reservation::read("No reservations in the system"), None);
    }
}
