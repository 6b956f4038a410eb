//! Jobs that wait forever: they request more than their QOS ever lets one job have. Slurm silently accepts them unless
//! the QOS has the flag DenyOnLimit.

use gpushare_slurm_text::queue::{self, Row};

use super::finding::Finding;
use crate::slurm::{Slurm, run};

/// How many jobs to name.
const NAMED: usize = 5;

/// Asks slurmctld. `None` if no job waits forever.
pub fn finding(slurm: &Slurm) -> Option<Finding> {
    let about = "pending jobs";
    let mut stuck = Stuck::default();
    let (program, arguments) = queue::QUEUE;
    let waiting = [arguments, &["-t", "PENDING"]].concat();
    match run::lines(program, &waiting, |line| queue::row(line).iter().for_each(|row| stuck.take(row, slurm)))
    {
        Ok(()) => stuck.said().map(|said| Finding::unknown(about, said)),
        Err(error) => Some(Finding::unknown(about, error.to_string())),
    }
}

/// Jobs that wait forever: how many, some of them, and the first one's reason.
#[derive(Default)]
struct Stuck {
    count: usize,
    names: Vec<String>,
    first: String,
}

impl Stuck {
    fn take(&mut self, job: &Row, slurm: &Slurm) {
        let Some(why) = why(job, slurm) else { return };
        self.count += 1;
        if self.names.len() < NAMED {
            self.names.push(job.name());
        }
        if self.count == 1 {
            self.first = why;
        }
    }

    fn said(self) -> Option<String> {
        let Stuck { count, names, first } = self;
        let more = if count > NAMED { ", …" } else { "" };
        let (what, them) = if count == 1 { ("job asks", "it") } else { ("jobs ask", "them") };
        (count > 0).then(|| {
            format!(
                "{count} {what} for more than the limits ever allow and will never start: {}{more} ({first}); scancel \
                 {them}, or raise the limit",
                names.join(", ")
            )
        })
    }
}

/// Why a job waits forever.
fn why(job: &Row, slurm: &Slurm) -> Option<String> {
    let Row { qos, reason, partition, tres, .. } = job;
    // A job that only waits for others of its user or account will start.
    let alone = ["PerJob", "PerNode"].iter().any(|word| reason.contains(word));
    let limit = ["QOSMax", "AssocMax"].iter().any(|word| reason.starts_with(word));
    if (limit && alone) || reason.starts_with("QOSMin") {
        return Some(format!("{reason}, QOS {qos}"));
    }
    // A partition's QOS may replace the limit of the job's, by a higher one.
    let has_its_own = |name| slurm.partitions.iter().any(|known| known.name == name && known.own.is_some());
    if !slurm.qoses.over_partition.contains(qos) && partition.split(',').any(has_its_own) {
        return None;
    }
    let most = slurm.qoses.most.get(qos)?;
    tres.iter().find_map(|(tres, count)| {
        let limit = most.get(tres).filter(|limit| count > limit)?;
        Some(format!("{tres}={count}, and QOS {qos} has {limit}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slurm;

    fn judge(text: &str, slurm: &Slurm) -> Option<String> {
        let mut stuck = Stuck::default();
        text.lines().filter_map(queue::row).for_each(|job| stuck.take(&job, slurm));
        stuck.said()
    }

    #[test]
    fn jobs_that_ask_for_more_than_there_ever_is_are_found() {
        let mut slurm = Slurm::default();
        slurm.partitions.extend(slurm::Partition::read("PartitionName=own QoS=x"));
        slurm
            .qoses
            .most
            .insert("q".to_owned(), [("gres/gpu:a40".to_owned(), 4), ("cpu".to_owned(), 64)].into());
        slurm.qoses.most.insert("over".to_owned(), [("cpu".to_owned(), 64)].into());
        slurm.qoses.over_partition.insert("over".to_owned());
        let line = |id: &str, qos: &str, reason: &str, asked: &str| {
            let (qos, partition) = qos.split_once('@').unwrap_or((qos, "p"));
            format!(
                "{id}|N/A|N/A|2001|alice|lab|{partition}|{qos}|PENDING|{reason}|1|N/A|N/A||{asked}|N/A|N/A|N/A|N/A|1:00|1:00|1|\n"
            )
        };
        for (qos, reason, asked, expected) in [
            ("q", "QOSGrpGRES", "cpu=1,mem=4T,gres/gpu:a40=4", None),
            ("q", "QOSGrpGRES", "cpu=1,gres/gpu=5,gres/gpu:A40=5", Some("gres/gpu:a40=5, and QOS q has 4")),
            ("q", "Priority", "cpu=65,node=2", Some("cpu=65, and QOS q has 64")),
            ("q@p,own", "Priority", "cpu=65,node=2", None),
            ("over@own", "Priority", "cpu=65,node=2", Some("cpu=65, and QOS over has 64")),
            ("free", "Resources", "cpu=65,gres/gpu:a40=9", None),
            ("free", "QOSMaxGRESPerJob", "cpu=1", Some("QOSMaxGRESPerJob, QOS free")),
            (
                "free",
                "QOSMaxWallDurationPerJobLimit",
                "cpu=1",
                Some("QOSMaxWallDurationPerJobLimit, QOS free"),
            ),
            ("free", "AssocMaxNodePerJobLimit", "cpu=1", Some("AssocMaxNodePerJobLimit, QOS free")),
            ("free", "QOSMaxGRESPerUser", "cpu=1", None),
            ("free", "QOSMaxJobsPerUserLimit", "cpu=1", None),
        ] {
            let said = judge(&line("7|7|1-9", qos, reason, asked), &slurm);
            let expected = expected.map(|why| {
                format!("1 job asks for more than the limits ever allow and will never start: 7_[1-9] ({why}); scancel \
                         it, or raise the limit")
            });
            assert_eq!(said, expected);
        }
        let many: String = (1..=7).map(|id| line(&format!("{id}|{id}|N/A"), "q", "x", "cpu=99")).collect();
        let said = judge(&many, &slurm).unwrap();
        assert!(
            said.starts_with("7 jobs ask for more") && said.contains("start: 1, 2, 3, 4, 5, … (cpu=99"),
            "{said}"
        );
        assert_eq!(judge("garbage\n\n", &slurm), None);
    }
}
