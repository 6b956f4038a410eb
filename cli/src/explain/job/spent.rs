//! Who used the minutes of a limit: slurmctld counts them for each association, and of a QOS only the
//! sum, so there it asks accounting for the jobs of the last 30 days.

use super::limits::{Limit, User, name, users};
use super::minutes::{Rules, USED};
use super::records::{Holder, Known};
use super::words::{by_whom, decay};
use gpushare_slurm_run::{ProgramError, Snapshot};
use gpushare_slurm_text::queue::Row;
use gpushare_slurm_text::{Partition, assoc_mgr, past};

/// Adds to the limits that are `wanted` who used the minutes.
///
/// # Errors
/// Slurm can't be asked.
pub fn add_users(
    limits: &mut [Limit],
    wanted: impl Fn(&Limit) -> bool,
    known: &Known,
    snapshot: &Snapshot,
) -> Result<(), ProgramError> {
    let mut failed = None;
    for limit in limits.iter_mut().filter(|limit| limit.field == USED && wanted(limit)) {
        let mut all = known.qoses.iter().chain(&known.associations);
        let Some(record) = all.find(|record| name(&record.holder) == limit.holder) else { continue };
        let told = match &record.holder {
            Holder::Qos(qos) => of_qos(qos, known.minutes.factor, &limit.tres, snapshot),
            Holder::Account(account) => of_account(account, known, &limit.tres, snapshot),
            _ => continue,
        };
        limit.is_untold = told.is_err();
        limit.users = told.unwrap_or_else(|reason| {
            failed.get_or_insert(reason);
            Vec::new()
        });
        let seen: u64 = limit.users.iter().map(|user| user.used).sum();
        let rounded = limit.users.len() as u64;
        let hidden = limit.used.unwrap_or(0).saturating_sub(seen);
        limit.unseen = if limit.is_of_qos || limit.is_untold || hidden <= rounded { 0 } else { hidden };
    }
    failed.map_or(Ok(()), Err)
}

/// Who used the minutes that a QOS limits, and when they come back: `a40 alice 90; half decays in 7 days`.
pub fn of_qos_in_words(qos: &str, limited: &[&str], snapshot: &Snapshot) -> String {
    let rules = Rules::of(&Row { qos: qos.to_owned(), ..Row::default() }, None, snapshot);
    let mut qoses = snapshot.qoses().unwrap_or_default().iter();
    let keeps = qoses.any(|known| known.keeps_minutes && known.name.eq_ignore_ascii_case(qos));
    let (decay, mut whom) = (decay(&rules.come_back(!keeps)), Vec::new());
    for tres in limited {
        let Ok(users) = of_qos(qos, rules.factor, tres, snapshot) else {
            return format!("can't tell who; {decay}");
        };
        let name = tres.strip_prefix("gres/gpu:").unwrap_or(tres);
        whom.extend((!users.is_empty()).then(|| format!("{name} {}", by_whom(&users, 0, tres))));
    }
    let lately = if whom.is_empty() { "" } else { " in the last 30 days; " };
    whom.join("; ") + lately + &decay
}

/// Of a QOS that partitions have as their own, these.
fn of_qos(qos: &str, factor: u64, tres: &str, snapshot: &Snapshot) -> Result<Vec<User>, ProgramError> {
    let is_its = |one: &&Partition| one.own == Some(qos.to_ascii_lowercase());
    let partitions = snapshot.partitions()?.iter().filter(is_its).map(|one| one.name.as_str());
    match partitions.collect::<Vec<_>>().join(",").as_str() {
        "" => of_jobs(["-q", qos], factor, tres, snapshot),
        names => of_jobs(["-r", names], 1000, tres, snapshot),
    }
}

fn of_jobs(
    which: [&str; 2],
    factor: u64,
    tres: &str,
    snapshot: &Snapshot,
) -> Result<Vec<User>, ProgramError> {
    let said = snapshot.ask_slow(past::SPENT.0, &[past::SPENT.1, &which].concat())?;
    let seconds = said.lines().filter_map(past::spent).map(|(user, seconds, given)| {
        (user, given.of(tres).unwrap_or(0).saturating_mul(seconds).saturating_mul(factor), None)
    });
    Ok(users(seconds, 60_000))
}

fn of_account(name: &str, known: &Known, tres: &str, snapshot: &Snapshot) -> Result<Vec<User>, ProgramError> {
    let below: Vec<&str> = known.below.get(name).into_iter().flatten().map(String::as_str).collect();
    let (program, arguments) = assoc_mgr::ASSOCIATIONS;
    let of = format!("accounts={}", below.join(","));
    let said = snapshot.ask(program, &[arguments, &[&*of]].concat())?;
    let minutes = assoc_mgr::associations(&said).filter(|one| !one.user.is_empty()).map(|one| {
        let used = one.counts(USED).and_then(|all| all.get(tres).copied());
        (one.user, used.map_or(0, |(_, used)| used), None)
    });
    Ok(users(minutes, 1))
}

#[cfg(test)]
mod tests {
    use super::super::limits::{concerning, tests::job};
    use super::super::records::{known, tests::TEXT};
    use super::*;

    #[test]
    fn a_users_own_minutes_are_not_hidden_ones() {
        let text = TEXT.replacen("GrpJobs=N(2)", "GrpTRESMins=gres/gpu:a40=1000(9) GrpJobs=N(2)", 1);
        let asked = job(7, "alice", "PENDING", "gres/gpu:a40=2");
        let known = known(&text, &asked, &["q"]);
        let mut limits = concerning(&asked, &known, &[]);
        limits.retain(|limit| limit.field == USED);
        add_users(&mut limits, |_| true, &known, &Snapshot::default()).unwrap();
        let told: Vec<_> = limits.iter().map(|one| (one.used, one.users.len(), one.unseen)).collect();
        assert_eq!(told, [(Some(9), 0, 0)]);
    }

    #[test]
    fn users_are_told_by_what_they_used() {
        let users = users([("bob", 59, None), ("alice", 61, None), ("alice", 60, None)].into_iter(), 60);
        assert_eq!(users, [User { user: "alice".into(), used: 2, jobs: vec![] }]);
    }
}
