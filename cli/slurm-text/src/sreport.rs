//! What sreport prints: the use of TRES that slurmdbd has summed by the hour, in TRES-seconds.

use serde::Serialize;

use crate::columns;

/// The program.
pub const PROGRAM: &str = "sreport";

/// How a TRES of the whole cluster was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Used {
    /// How many there are.
    #[serde(rename = "gpus")]
    pub count: u64,
    /// By jobs, and by reservations.
    pub allocated: u64,
    /// On nodes that were down or drained.
    pub down: u64,
    /// In reservations for maintenance.
    pub planned_down: u64,
    /// Unused.
    pub idle: u64,
    /// Idle while a job waited for them; Slurm counts that for CPUs only.
    pub planned: u64,
    /// All of them.
    pub reported: u64,
}

/// sreport's arguments for [`cluster`]. Times are seconds since 1970.
pub fn of_cluster(tres: &[String], start: u32, end: u32) -> Vec<String> {
    let format = "TresName,TresCount,Allocated,Down,PlannedDown,Idle,Planned,Reported";
    arguments(["cluster", "Utilization"], format, tres, start, end)
}

/// sreport's arguments for [`accounts`].
pub fn of_accounts(tres: &[String], start: u32, end: u32) -> Vec<String> {
    arguments(["cluster", "AccountUtilizationByUser"], "Account,Login,TresName,Used", tres, start, end)
}

/// sreport's arguments for [`reservations`].
pub fn of_reservations(tres: &[String], start: u32, end: u32) -> Vec<String> {
    arguments(["reservation", "Utilization"], "Name,TresName,Idle", tres, start, end)
}

fn arguments(report: [&str; 2], format: &str, tres: &[String], start: u32, end: u32) -> Vec<String> {
    let mut all = ["-nP", "--local", "-t", "Seconds"].map(str::to_owned).to_vec();
    all.push(format!("--tres={}", tres.join(",")));
    all.extend(report.map(str::to_owned));
    all.extend([format!("start=uts{start}"), format!("end=uts{end}"), format!("format={format}")]);
    all
}

/// The uses of a cluster's TRES by their names.
///
/// # Errors
/// The line that can't be read.
pub fn cluster(text: &str) -> Result<Vec<(String, Used)>, &str> {
    let row = |line: &str| {
        let [name, numbers @ ..] = <[&str; 8]>::try_from(columns(line).collect::<Vec<_>>()).ok()?;
        let numbers: Vec<u64> = numbers.iter().map(|text| text.parse().ok()).collect::<Option<_>>()?;
        let [count, allocated, down, planned_down, idle, planned, reported] = numbers.try_into().ok()?;
        Some((name.to_owned(), Used { count, allocated, down, planned_down, idle, planned, reported }))
    };
    lines(text).map(|line| row(line).ok_or(line)).collect()
}

/// An account, a user of it or nobody if it is the sum of the account and those below, a TRES, and for how many
/// seconds. A coordinator may have named an account `a|b`, also with line breaks.
///
/// # Errors
/// The lines that can't be read.
pub fn accounts(text: &str) -> Result<Vec<(&str, &str, &str, u64)>, &str> {
    let row = |line| match str::rsplitn(line, 4, '|').collect::<Vec<&str>>().as_slice() {
        [used, tres, user, account] => used.parse().ok().map(|used| (*account, *user, *tres, used)),
        _ => None,
    };
    let (mut found, mut from, mut at) = (Vec::new(), 0, 0);
    for line in text.split_inclusive('\n') {
        at += line.len();
        let rest = text.get(from..at).unwrap_or_default().trim_matches('\n');
        let row = row(rest);
        from = if row.is_some() || rest.trim().is_empty() { at } else { from };
        found.extend(row);
    }
    let rest = text.get(from..).unwrap_or_default().trim_end();
    if rest.is_empty() { Ok(found) } else { Err(rest) }
}

/// A reservation, a TRES, and for how many seconds no job used it. sreport counts that as used, by the accounts that
/// may use the reservation (Slurm: src/plugins/accounting_storage/mysql/as_mysql_rollup.c).
///
/// # Errors
/// The line that can't be read.
pub fn reservations(text: &str) -> Result<Vec<(&str, &str, u64)>, &str> {
    let row = |line| match str::rsplitn(line, 3, '|').collect::<Vec<&str>>().as_slice() {
        [idle, tres, name] => idle.parse().map(|idle| (*name, *tres, idle)).map_err(|_| line),
        _ => Err(line),
    };
    lines(text).map(row).collect()
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_and_others_are_not_guessed() {
        let all = cluster("gres/gpu:a40|8|93|1|2|62659|3|62758\n\n").unwrap();
        let used = Used {
            count: 8,
            allocated: 93,
            down: 1,
            planned_down: 2,
            idle: 62659,
            planned: 3,
            reported: 62758,
        };
        assert_eq!(all, [("gres/gpu:a40".to_owned(), used)]);
        let percent = "gres/gpu|8|93(1%)|0|0|1|0|94";
        assert_eq!(cluster(percent), Err(percent));
        let rows = "x||gres/gpu|78\na|b|alice|gres/gpu|18\n";
        assert_eq!(accounts(rows), Ok(vec![("x", "", "gres/gpu", 78), ("a|b", "alice", "gres/gpu", 18)]));
        assert_eq!(reservations("a|b|gres/gpu|38\n\n"), Ok(vec![("a|b", "gres/gpu", 38)]));
        assert_eq!(reservations("r|gres/gpu|38(9%)"), Err("r|gres/gpu|38(9%)"));
        let broken = "x||gres/gpu|78\n\ne|g\nf||gres/gpu|5\n";
        assert_eq!(accounts(broken), Ok(vec![("x", "", "gres/gpu", 78), ("e|g\nf", "", "gres/gpu", 5)]));
        assert_eq!(accounts("x||gres/gpu|78\n Problem with query.\n"), Err(" Problem with query."));
    }
}
