//! Where groups lend GPUs: the QOS for borrowed ones, for a job whose own QOS has no room, and who has whose GPUs.

use gpushare_qos::config::ManagedQos;
use gpushare_qos::config::lending::is_on;
use gpushare_qos::config::value::{Value, text};
use gpushare_qos::lending::{Loan, loans as all_loans};
use gpushare_qos::{check, usage};
use gpushare_slurm_run::{ProgramError, Snapshot, ask};
use gpushare_slurm_text::assoc_mgr::QOSES;
use gpushare_slurm_text::queue::Row;

use super::limits::{self, Limit, Verdict};
use super::records;

/// What to write, if a limit of the job's QOS stops it and none would under the other, and if GPUs are free.
pub fn offer(
    row: &Row,
    stopping: &[Limit],
    rows: &[Row],
    qoses: &[ManagedQos],
    snapshot: &Snapshot,
) -> Option<String> {
    let its = format!("QOS '{}'", row.qos);
    stopping
        .iter()
        .find(|limit| limit.verdict != Verdict::Fits && limit.holder.eq_ignore_ascii_case(&its))?;
    let is_its = |owner: &str| owner.eq_ignore_ascii_case(&row.qos);
    let burst = qoses.iter().find(|managed| managed.burst_of.as_deref().is_some_and(is_its))?;
    let other = Row { qos: burst.name.clone(), ..row.clone() };
    let (mut known, _) = records::read(&other, snapshot).ok()?;
    if known.qoses.is_empty() {
        return None; // the database doesn't have it yet
    }
    known.nodes = snapshot.nodes().ok().map(|nodes| records::of_nodes(&other, nodes));
    let limits = limits::concerning(&other, &known, rows);
    limits.iter().all(|limit| limit.verdict == Verdict::Fits).then(|| in_words(burst))
}

/// Who has whose GPUs now.
///
/// # Errors
/// slurmctld can't be asked.
pub fn loans(qoses: &[ManagedQos], snapshot: &Snapshot) -> Result<Vec<Loan>, ProgramError> {
    if !is_on(qoses) {
        return Ok(Vec::new());
    }
    let usages = usage::read(&ask(QOSES.0, QOSES.1)?);
    Ok(all_loans(qoses, &usages, &check::gpus(snapshot.nodes().unwrap_or_default())))
}

fn in_words(burst: &ManagedQos) -> String {
    let setting = |name: &str| burst.settings.get(name).map(text);
    let time = setting("MaxWallDurationPerJob").map(|time| format!(" --time={time}")).unwrap_or_default();
    let grace = match burst.settings.get("GraceTime") {
        Some(value @ Value::Time(_)) => format!("{} later", text(value)),
        _ => "at once".to_owned(),
    };
    format!(
        "{name} has room: --qos={name}{time} (on GPUs that groups don't use; when one needs them, the job gets \
         SIGTERM; {grace} a batch job is requeued, others end)",
        name = burst.name
    )
}

#[cfg(test)]
mod tests {
    use gpushare_machine::config::Config;

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
            assert_eq!(in_words(&Config::parse(text).unwrap().qoses[1]), expected);
        }
    }
}
