//! The status as tables, as lines of fields, and as JSON. Decides nothing.

use std::fmt::Write;

use gpushare::device::Gpu;
use gpushare::ledger::{Entry, Holding};

use crate::json::quoted;

use super::{GpuTotal, Status};

/// What is left of a UUID in a table: `GPU-` and its first part.
const SHORT_UUID: usize = 12;

/// For people.
pub fn tables(status: &Status) -> String {
    let mut rows =
        vec![["GPU", "DEVICE", "UUID", "UNITS", "FREE", "OF", "SHARES"].map(str::to_owned).to_vec()];
    for total in &status.gpus {
        let GpuTotal { gpu, units, shares, .. } = total;
        let uuid = gpu.uuid.as_deref().map_or("-", |uuid| uuid.get(..SHORT_UUID).unwrap_or(uuid));
        let units = if total.whole { "whole".to_owned() } else { units.to_string() };
        rows.push(vec![
            gpu.index.to_string(),
            gpu.path.display().to_string(),
            uuid.to_owned(),
            units,
            known(total.free()),
            known(total.capacity),
            shares.to_string(),
        ]);
    }
    let mut text = if status.gpus.is_empty() { String::new() } else { aligned(&rows) + "\n" };
    if status.jobs.is_empty() {
        text += if status.own_only { "no jobs of yours on this node\n" } else { "no shares on this node\n" };
    } else {
        let mut rows = vec![["JOB", "USER", "GPU", "UNITS", "TIME"].map(str::to_owned).to_vec()];
        for (entry, gpu) in by_gpu(status) {
            let units = share(entry).map_or("whole".to_owned(), |(units, _)| units.to_string());
            rows.push(vec![
                entry.key.id.to_string(),
                user(status, entry),
                gpu.index.to_string(),
                units,
                elapsed(status.now.saturating_sub(entry.since)),
            ]);
        }
        text += &aligned(&rows);
    }
    for (id, reason) in &status.failures {
        let _ = writeln!(text, "job {id} failed here: {reason}");
    }
    for garbage in &status.garbage {
        let what = if garbage.is_entry() { "an entry that can't be read" } else { "not an entry" };
        let _ = writeln!(text, "{what}: '{}': {}", garbage.name.escape_debug(), garbage.damage);
    }
    text
}

/// A line a job and GPU.
pub fn parsable_jobs(status: &Status) -> String {
    let mut text = "JOB|RESTART|USER|UID|GPU|DEVICE|UUID|HOLDING|UNITS|CAPACITY|SINCE\n".to_owned();
    for (entry, gpu) in by_gpu(status) {
        let (holding, units, capacity) = match share(entry) {
            Some((units, capacity)) => ("share", units.to_string(), capacity.to_string()),
            None => ("whole", String::new(), String::new()),
        };
        let _ = writeln!(
            text,
            "{}|{}|{}|{}|{}|{}|{}|{holding}|{units}|{capacity}|{}",
            entry.key.id,
            entry.key.restart,
            user(status, entry),
            entry.user_id,
            gpu.index,
            gpu.path.display(),
            gpu.uuid.as_deref().unwrap_or_default(),
            entry.since
        );
    }
    text
}

/// A line a GPU.
pub fn parsable_gpus(status: &Status) -> String {
    let mut text = "GPU|DEVICE|UUID|UNITS|FREE|CAPACITY|SHARES|WHOLE\n".to_owned();
    let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    for total in &status.gpus {
        let GpuTotal { gpu, capacity, units, shares, whole } = total;
        let _ = writeln!(
            text,
            "{}|{}|{}|{units}|{}|{}|{shares}|{}",
            gpu.index,
            gpu.path.display(),
            gpu.uuid.as_deref().unwrap_or_default(),
            number(total.free()),
            number(capacity.map(u64::from)),
            if *whole { "yes" } else { "no" }
        );
    }
    text
}

/// One object: `gpus`, `jobs`, `failures`, `garbage`.
pub fn json(status: &Status) -> String {
    let gpus = status.gpus.iter().map(|total| {
        let GpuTotal { capacity, units, shares, whole, gpu } = total;
        format!(
            "{{{}, \"capacity\": {}, \"units\": {units}, \"free\": {}, \"shares\": {shares}, \"whole\": {whole}}}",
            gpu_fields(gpu),
            or_null(*capacity),
            or_null(total.free())
        )
    });
    let jobs = status.jobs.iter().map(|entry| {
        let gpus: Vec<String> = entry.gpus.iter().map(|gpu| format!("{{{}}}", gpu_fields(gpu))).collect();
        let (units, capacity) = share(entry).unzip();
        format!(
            "{{\"job\": {}, \"restart\": {}, \"user_id\": {}, \"user\": {}, \"holding\": \"{}\", \"units\": {}, \
             \"capacity\": {}, \"since\": {}, \"gpus\": [{}]}}",
            entry.key.id,
            entry.key.restart,
            entry.user_id,
            status.users.get(&entry.user_id).map_or("null".to_owned(), |name| quoted(name)),
            if units.is_some() { "share" } else { "whole" },
            or_null(units),
            or_null(capacity),
            entry.since,
            gpus.join(", ")
        )
    });
    let failures = status
        .failures
        .iter()
        .map(|(id, reason)| format!("{{\"job\": {id}, \"reason\": {}}}", quoted(reason)));
    let garbage = status.garbage.iter().map(|garbage| {
        format!(
            "{{\"name\": {}, \"reason\": {}}}",
            quoted(&garbage.name),
            quoted(&garbage.damage.to_string())
        )
    });
    format!(
        "{{\n\"gpus\": {},\n\"jobs\": {},\n\"failures\": {},\n\"garbage\": {},\n\"own_jobs_only\": {}\n}}\n",
        list(gpus),
        list(jobs),
        list(failures),
        list(garbage),
        status.own_only
    )
}

fn gpu_fields(gpu: &Gpu) -> String {
    format!(
        "\"index\": {}, \"device\": {}, \"uuid\": {}",
        gpu.index,
        quoted(&gpu.path.to_string_lossy()),
        gpu.uuid.as_deref().map_or("null".to_owned(), quoted)
    )
}

fn list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.map(|item| format!("\n  {item}")).collect();
    format!("[{}]", items.join(","))
}

fn or_null(number: Option<impl std::fmt::Display>) -> String {
    number.map_or("null".to_owned(), |number| number.to_string())
}

fn by_gpu(status: &Status) -> impl Iterator<Item = (&Entry, &Gpu)> {
    status.jobs.iter().flat_map(|entry| entry.gpus.iter().map(move |gpu| (entry, gpu)))
}

fn share(entry: &Entry) -> Option<(u32, u32)> {
    match entry.holding {
        Holding::Share { units, capacity, .. } => Some((units, capacity)),
        Holding::Whole => None,
    }
}

fn user(status: &Status, entry: &Entry) -> String {
    status.users.get(&entry.user_id).cloned().unwrap_or_else(|| entry.user_id.to_string())
}

fn known(number: Option<impl std::fmt::Display>) -> String {
    number.map_or("-".to_owned(), |number| number.to_string())
}

/// `[DAYS-]HOURS:MINUTES:SECONDS`, as squeue(1) shows a job's time.
fn elapsed(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (hours, minutes, seconds) = (rest / 3600, rest / 60 % 60, rest % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes}:{seconds:02}"),
        (0, _) => format!("{hours}:{minutes:02}:{seconds:02}"),
        _ => format!("{days}-{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

/// Columns as wide as their widest word.
fn aligned(rows: &[Vec<String>]) -> String {
    let mut widths = vec![0; rows.iter().map(Vec::len).max().unwrap_or(0)];
    for row in rows {
        for (width, word) in widths.iter_mut().zip(row) {
            *width = word.chars().count().max(*width);
        }
    }
    let line = |row: &Vec<String>| {
        let words = row.iter().zip(&widths).map(|(word, width)| format!("{word:>width$}"));
        words.collect::<Vec<_>>().join("  ") + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpushare::device::DeviceNumber;
    use gpushare::job::JobKey;
    use gpushare::ledger::{Damage, Garbage};

    fn gpu(index: u32) -> Gpu {
        let uuid = Some("GPU-01234567-89ab".to_owned()).filter(|_| index == 0);
        Gpu {
            index,
            path: format!("/dev/nvidia{index}").into(),
            number: DeviceNumber { major: 195, minor: index },
            uuid,
        }
    }

    fn entry(id: u32, holding: Holding, gpus: &[u32]) -> Entry {
        let gpus = gpus.iter().map(|index| gpu(*index)).collect();
        Entry { key: JobKey { id, restart: 1 }, user_id: 2001, holding, gpus, since: 1000 }
    }

    fn status() -> Status {
        let share = |units| Holding::Share { units, capacity: 80, charged: Some(0), memory: None };
        let jobs =
            vec![entry(7, share(50), &[0]), entry(8, share(40), &[0]), entry(9, Holding::Whole, &[1, 2])];
        Status {
            gpus: super::super::totals((0..4).map(gpu).collect(), Some(80), &jobs),
            jobs,
            users: [(2001, "al\"ice".to_owned())].into(),
            failures: vec![(11, "no \\room".to_owned())],
            garbage: vec![
                Garbage { name: "x\ny".to_owned(), damage: Damage::Truncated },
                Garbage { name: "12".to_owned(), damage: Damage::OtherVersion(3) },
            ],
            own_only: false,
            now: 1000 + 2 * 86_400 + 3 * 3600 + 4 * 60 + 5,
        }
    }

    #[test]
    fn people_get_gpus_then_jobs_then_what_is_wrong() {
        let expected = "\
GPU        DEVICE          UUID  UNITS  FREE  OF  SHARES
  0  /dev/nvidia0  GPU-01234567     90     0  80       2
  1  /dev/nvidia1             -  whole     0  80       0
  2  /dev/nvidia2             -  whole     0  80       0
  3  /dev/nvidia3             -      0    80  80       0

JOB    USER  GPU  UNITS        TIME
  7  al\"ice    0     50  2-03:04:05
  8  al\"ice    0     40  2-03:04:05
  9  al\"ice    1  whole  2-03:04:05
  9  al\"ice    2  whole  2-03:04:05
job 11 failed here: no \\room
not an entry: 'x\\ny': its last line is not 'end'
an entry that can't be read: '12': it is of another version of gpushare, format 3
";
        assert_eq!(tables(&status()), expected);
        let empty = Status {
            gpus: vec![],
            jobs: vec![],
            failures: vec![],
            garbage: vec![],
            own_only: true,
            ..status()
        };
        assert_eq!(tables(&empty), "no jobs of yours on this node\n");
    }

    #[test]
    fn programs_get_a_header_and_as_many_fields_on_every_line() {
        let text = parsable_jobs(&status());
        assert!(text.contains("\n9|1|al\"ice|2001|2|/dev/nvidia2||whole|||1000\n"), "{text}");
        for text in [text, parsable_gpus(&status())] {
            let fields: Vec<usize> = text.lines().map(|line| line.split('|').count()).collect();
            assert!(fields.len() == 5 && fields.iter().all(|count| *count == fields[0]), "{text}");
        }
    }

    #[test]
    fn what_a_name_holds_cannot_break_the_json() {
        let text = json(&status());
        for expected in ["\"user\": \"al\\\"ice\"", "\"no \\\\room\"", "\"x\\u000ay\"", "\"uuid\": null"] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        let empty = Status { gpus: vec![], jobs: vec![], failures: vec![], garbage: vec![], ..status() };
        assert!(json(&empty).starts_with("{\n\"gpus\": [],\n\"jobs\": [],"));
    }

    #[test]
    fn times_are_shown_as_squeue_shows_them() {
        for (seconds, expected) in [(5, "0:05"), (65, "1:05"), (3605, "1:00:05"), (86_400, "1-00:00:00")] {
            assert_eq!(elapsed(seconds), expected);
        }
    }
}
