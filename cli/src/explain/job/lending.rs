//! Where groups lend GPUs: the QOS for borrowed ones, for a job whose own QOS has no room, and who has whose GPUs.

use gpushare_qos::config::ManagedQos;
use gpushare_qos::config::lending::is_on;
use gpushare_qos::config::value::{Value, text};
use gpushare_qos::lending::{Loan, loans as all_loans};
use gpushare_qos::{check, usage};
use gpushare_slurm_run::{ProgramError, Snapshot};
use gpushare_slurm_text::Partition;
use gpushare_slurm_text::assoc_mgr::QOSES;
use gpushare_slurm_text::limits::{ASSOCIATIONS, Associations};
use gpushare_slurm_text::queue::Row;

use super::Site;
use super::limits::{self, Limit, Verdict};
use super::reason::is_held;
use super::records::{self, Holder, Known};

/// What to write, if a limit of the job's QOS stops it, and it may have the other, where none does and GPUs are free.
pub fn offer(row: &Row, stopping: &[Limit], rows: &[Row], (snapshot, qoses): Site) -> Option<String> {
    let burst = wanted(row, stopping, qoses)?;
    let unknown = |reason| Some(format!("can't tell whether {} has room: {reason}", burst.name));
    of(burst, row, rows, snapshot).unwrap_or_else(unknown)
}

fn of(burst: &ManagedQos, row: &Row, rows: &[Row], slurm: &Snapshot) -> Result<Option<String>, ProgramError> {
    let time = time(burst, row.time_limit);
    let time_limit = time.map_or(row.time_limit, |seconds| Some(seconds / 60));
    let other = Row { qos: burst.name.clone(), time_limit, ..row.clone() };
    let partition = slurm.partitions()?.iter().find(|one| one.name == other.first_partition());
    let (mut known, _) = records::read(&other, slurm)?;
    known.nodes = Some(records::of_nodes(&other, slurm.nodes()?));
    let settings = slurm.settings()?;
    let (cluster, is_requeued) = (settings.get("ClusterName"), settings.get("JobRequeue") != "0");
    let those = ["where", &format!("cluster={cluster}"), &format!("user={}", other.user)];
    let own = Associations::read(&slurm.ask(ASSOCIATIONS.0, &[ASSOCIATIONS.1, &those].concat())?);
    let has_room = partition.is_some_and(|partition| has_room(&other, &known, (partition, &own), rows));
    Ok(has_room.then(|| in_words(burst, time, is_requeued)))
}

/// The QOS that might have room, for a job that a limit of its own stops.
fn wanted<'q>(row: &Row, stopping: &[Limit], qoses: &'q [ManagedQos]) -> Option<&'q ManagedQos> {
    let its = format!("QOS '{}'", row.qos);
    let stops = |limit: &Limit| limit.verdict != Verdict::Fits && limit.holder.eq_ignore_ascii_case(&its);
    let is_its = |owner: &str| owner.eq_ignore_ascii_case(&row.qos);
    let is_stopped = !is_held(&row.reason) && stopping.iter().any(stops);
    qoses.iter().find(|managed| is_stopped && managed.burst_of.as_deref().is_some_and(is_its))
}

/// Whether Slurm would take the job under this QOS, and no limit would stop it.
fn has_room(other: &Row, known: &Known, (partition, own): (&Partition, &Associations), rows: &[Row]) -> bool {
    let is_it = |name: &str| name.eq_ignore_ascii_case(&other.qos);
    let exists = known.qoses.iter().any(|one| matches!(&one.holder, Holder::Qos(name) if is_it(name)));
    let may = own.own(&other.account, &other.user, other.first_partition());
    exists
        && partition.admits(&other.qos)
        && may.is_some_and(|(_, one)| one.qoses.iter().any(|name| is_it(name)))
        && known.nodes.as_ref().is_some_and(|nodes| records::has_all(nodes, other))
        && limits::concerning(other, known, rows).iter().all(|limit| limit.verdict == Verdict::Fits)
}

/// The time limit to write, in seconds: the job's own in minutes, or what the QOS allows.
fn time(burst: &ManagedQos, own: Option<u64>) -> Option<u64> {
    let Some(Value::Time(most)) = burst.settings.get("MaxWallDurationPerJob") else { return None };
    Some(own.map_or(*most, |minutes| minutes.saturating_mul(60).min(*most)))
}

/// Who has whose GPUs now.
///
/// # Errors
/// slurmctld can't be asked.
pub fn loans(qoses: &[ManagedQos], snapshot: &Snapshot) -> Result<Vec<Loan>, ProgramError> {
    if !is_on(qoses) {
        return Ok(Vec::new());
    }
    let usages = usage::read(&snapshot.ask(QOSES.0, QOSES.1)?);
    Ok(all_loans(qoses, &usages, &check::gpus(snapshot.nodes()?)))
}

fn in_words(burst: &ManagedQos, time: Option<u64>, is_requeued: bool) -> String {
    let time = time.map(|time| format!(" --time={}", text(&Value::Time(time)))).unwrap_or_default();
    let grace = match burst.settings.get("GraceTime") {
        Some(value @ Value::Time(_)) => format!("{} later", text(value)),
        _ => "at once".to_owned(),
    };
    let with = if is_requeued || burst.requeues { "" } else { " with --requeue" };
    format!(
        "{name} has room: --qos={name}{time} (on GPUs that groups don't use; when one needs them, the job gets \
         SIGTERM; {grace} a batch job{with} is requeued, others end)",
        name = burst.name
    )
}

#[cfg(test)]
mod tests {
    use gpushare_machine::config::Config;
    use gpushare_slurm_text::Node;

    use super::super::limits::tests::job;
    use super::super::records::known;
    use super::*;

    #[test]
    fn what_to_write_and_what_it_means() {
        for (text, expected) in [
            (
                "QOS=x Account=x GPUs=a40:4 Burst=2x BurstTime=4:00:00",
                "x_burst has room: --qos=x_burst --time=04:00:00 (on GPUs that groups don't use; when one needs them, \
                 the job gets SIGTERM; 00:05:00 later a batch job is requeued, others end)",
            ),
            (
                "QOS=x Account=x GPUs=a40:4 Burst=2x BurstGraceTime=0",
                "x_burst has room: --qos=x_burst (on GPUs that groups don't use; when one needs them, the job gets \
                 SIGTERM; at once a batch job is requeued, others end)",
            ),
        ] {
            let burst = &Config::parse(text).unwrap().qoses[1];
            assert_eq!(in_words(burst, time(burst, None), true), expected);
        }
        for (more, expected) in [("", true), ("\nQOS=x_burst Requeue=yes", false)] {
            let text = format!("QOS=x Account=x GPUs=a40:4 Burst=2x{more}");
            let said = in_words(&Config::parse(&text).unwrap().qoses[1], None, false);
            assert_eq!(
                said.contains(" a batch job with --requeue is requeued, others end)"),
                expected,
                "{said}"
            );
        }
    }

    #[test]
    fn a_job_that_is_shorter_keeps_its_time() {
        let of = |text: &str, own| time(&Config::parse(text).unwrap().qoses[1], own);
        let limited = "QOS=x Account=x GPUs=a40:4 Burst=2x BurstTime=10:00";
        assert_eq!([None, Some(2), Some(60)].map(|own| of(limited, own)), [Some(600), Some(120), Some(600)]);
        assert_eq!(of("QOS=x Account=x GPUs=a40:4 Burst=2x", Some(2)), None);
    }

    #[test]
    fn a_job_that_is_held_or_that_nothing_of_its_own_stops_wants_none() {
        let qoses = Config::parse("QOS=q Account=x GPUs=a40:4 Burst=2x").unwrap().qoses;
        let limit = |holder: &str, verdict| Limit { holder: holder.into(), verdict, ..Limit::default() };
        let waits = Verdict::Waits { for_more: 1 };
        for (reason, qos, holder, verdict, expected) in [
            ("QOSGrpGRES", "q", "QOS 'Q'", waits, Some("q_burst")),
            ("JobHeldUser", "q", "QOS 'q'", waits, None),
            ("QOSGrpGRES", "q", "QOS 'q'", Verdict::Fits, None),
            ("QOSGrpGRES", "q", "account 'acct'", waits, None),
            ("QOSGrpGRES", "normal", "QOS 'normal'", waits, None),
        ] {
            let row = Row {
                reason: reason.into(),
                qos: qos.into(),
                ..job(7, "alice", "PENDING", "gres/gpu:a40=2")
            };
            let found = wanted(&row, &[limit(holder, verdict)], &qoses).map(|burst| burst.name.as_str());
            assert_eq!(found, expected, "{reason} {qos} {holder}");
        }
    }

    #[test]
    fn there_is_room_where_slurm_would_take_the_job() {
        let text = "QOS=q_burst(9) GrpTRES=gres/gpu:a40=12(0) Account Limits=No Accounts User Limits=No Users\n\
                    QOS=part(3) GrpTRES=cpu=90(0) Account Limits=No Accounts User Limits=No Users\n";
        let both = &["part", "q_burst"][..];
        let (here, may) = ("MIXED|AllowQos=q,q_burst", "acct|alice||normal,q_burst|");
        for (tres, qoses, place, own, expected) in [
            ("gres/gpu=2,gres/gpu:a40=2", both, here, may, true),
            ("gres/gpu:a40=7", both, here, may, false),
            ("gres/gpu:a40=9", both, here, may, false),
            ("gres/gpu:a40=2", both, "IDLE+DRAIN|", may, false),
            ("gres/gpu:a40=2", both, "IDLE|AllowQos=q,part", may, false),
            ("gres/gpu:a40=2", both, "IDLE|DenyQos=Q_burst", may, false),
            ("gres/gpu:a40=2", &["part"], here, may, false),
            ("gres/gpu:a40=2", both, here, "acct|alice||normal,q|", false),
            ("gres/gpu:a40=2", both, here, "acct|alice||q_burst|\nacct|alice|p|normal|", false),
            ("gres/gpu:a40=2", both, here, "other|alice||q_burst|", false),
        ] {
            let (state, allowed) = place.split_once('|').unwrap();
            let partition = Partition::read(&format!("PartitionName=p {allowed}")).unwrap();
            let gres = "Gres=gpu:A40:8 AllocTRES=gres/gpu:a40=2";
            let node = Node::read(&format!("NodeName=n State={state} Partitions=p {gres}")).unwrap();
            let other = Row { qos: "q_burst".into(), ..job(7, "alice", "PENDING", tres) };
            let nodes = Some(records::of_nodes(&other, &[node]));
            let known = Known { nodes, ..known(text, &other, qoses) };
            let found = has_room(&other, &known, (&partition, &Associations::read(own)), &[]);
            assert_eq!(found, expected, "{tres} {qoses:?} {place} {own}");
        }
    }
}
