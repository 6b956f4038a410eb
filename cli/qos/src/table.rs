//! The users' table of QOSes, and a QOS's limits as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::TYPE;
use super::usage::Usage;
use crate::config::field::FIELDS;
use crate::config::value::{amount, limits, text};
use crate::config::{ManagedQos, Members};
use gpushare::text::print::counted;

/// The head of the table.
pub const TITLES: [&str; 3] = ["QOS name", "Group limit", "Example"];

/// The table's row for one QOS.
fn row(managed: &ManagedQos) -> [String; 3] {
    let limits = [group_limit(managed), user_limit(managed)];
    let limit = limits.into_iter().filter(|limit| !limit.is_empty()).collect::<Vec<_>>().join("; ");
    let limit = if limit.is_empty() { nothing(managed) } else { limit };
    let limit = if managed.burst_of.is_some() {
        format!("{limit}; borrowed{}", for_how_long(managed))
    } else {
        limit
    };
    [managed.name.clone(), limit, example(managed)]
}

/// `, at most 04:00:00`, if a job's time is limited.
fn for_how_long(managed: &ManagedQos) -> String {
    let time = managed.settings.get("MaxWallDurationPerJob");
    time.map(|time| format!(", at most {}", text(time))).unwrap_or_default()
}

/// `no h100`, or `no limit`: the text if no number is set.
fn nothing(managed: &ManagedQos) -> String {
    let fields = ["GrpTRES", "MaxTRESPerUser"].into_iter();
    let limited = fields.flat_map(|name| limits(&managed.settings, name).keys());
    let mut gres_types: Vec<&str> = limited.filter_map(|name| name.strip_prefix(TYPE)).collect();
    gres_types.dedup();
    if gres_types.is_empty() { "no limit".to_owned() } else { format!("no {}", gres_types.join(", ")) }
}

/// `4 a40, 32 CPUs, 975G memory`: the limits on all jobs of the QOS together.
pub fn group_limit(managed: &ManagedQos) -> String {
    let mut parts: Vec<String> =
        managed.gpus.iter().map(|(gres_type, number)| format!("{number} {gres_type}")).collect();
    for (name, number) in given(limits(&managed.settings, "GrpTRES")) {
        let said = managed.gpus.iter().any(|(gres_type, _)| *name == format!("gres/gpu:{gres_type}"));
        let sum = name == "gres/gpu" && !managed.gpus.is_empty();
        if !said && !sum {
            parts.push(in_words(name, *number));
        }
    }
    parts.join(", ")
}

/// `100 mps a user`: the limits on all jobs of one of its users.
fn user_limit(managed: &ManagedQos) -> String {
    let limits = limits(&managed.settings, "MaxTRESPerUser");
    let parts: Vec<String> = given(limits).map(|(name, number)| in_words(name, *number)).collect();
    if parts.is_empty() { String::new() } else { format!("{} a user", parts.join(", ")) }
}

/// A limit of 0 on a GPU type forbids that type, so it isn't listed.
fn given(limits: &BTreeMap<String, u64>) -> impl Iterator<Item = (&String, &u64)> {
    limits.iter().filter(|(name, number)| **number > 0 || !name.starts_with(TYPE))
}

fn in_words(tres: &str, number: u64) -> String {
    match tres {
        "cpu" => counted(number, "CPU"),
        "mem" => format!("{} memory", amount(tres, number)),
        "node" => counted(number, "node"),
        "gres/gpu" => counted(number, "GPU"),
        other => match other.strip_prefix(TYPE) {
            Some(gres_type) => format!("{number} {gres_type}"),
            None => format!("{number} {}", other.strip_prefix("gres/").unwrap_or(other)),
        },
    }
}

/// `2 of 4 a40, 8 of 32 CPUs, 90 of 100 a40 minutes`: how much of the group limits is in use, or used.
pub fn in_use(managed: &ManagedQos, usage: &Usage) -> String {
    let of = |field, tres, unit| parts(limits(&managed.settings, field), tres, unit);
    [of("GrpTRES", &usage.tres, ""), of("GrpTRESMins", &usage.minutes, " minutes")].concat().join(", ")
}

fn parts(limits: &BTreeMap<String, u64>, tres: &BTreeMap<String, u64>, unit: &str) -> Vec<String> {
    let used = |name: &str| {
        let found = tres.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or(0, |(_, used)| *used)
    };
    let typed = limits.keys().any(|name| name.starts_with(TYPE));
    // The untyped number is the sum of the typed ones.
    let shown = given(limits).filter(|(name, _)| !(typed && *name == "gres/gpu"));
    let part = |(name, number): (&String, &u64)| {
        format!("{} of {}{unit}", amount(name, used(name)), in_words(name, *number))
    };
    shown.map(part).collect()
}

/// Options that work for any member: two GPUs of the first type, or one if there is only one.
pub fn example(managed: &ManagedQos) -> String {
    let typed = managed.gpus.first().map(|(gres_type, number)| (gres_type.as_str(), *number));
    let mut limits = given(limits(&managed.settings, "GrpTRES"));
    let gres = typed.or_else(|| limits.find_map(|(name, number)| Some((name.strip_prefix(TYPE)?, *number))));
    let gres = gres
        .map(|(gres_type, number)| format!(" --gres=gpu:{gres_type}:{}", number.min(2)))
        .unwrap_or_default();
    format!("--qos={}{gres}", managed.name)
}

/// The owner: `account lafferty`, or `maria, tom of account saxena`.
pub fn members(members: &Members) -> String {
    match members {
        Members::Unsaid => "not in this file".to_owned(),
        Members::All => "everybody".to_owned(),
        Members::Accounts(names) if names.len() == 1 => format!("account {}", names.join("")),
        Members::Accounts(names) => format!("accounts {}", names.join(", ")),
        Members::Users(account, users) => format!("{} of account {account}", users.join(", ")),
    }
}

/// All settings, as `Name=value` words.
pub fn settings(managed: &ManagedQos) -> String {
    let set = FIELDS.iter().filter_map(|field| Some((field, managed.setting(field)?)));
    set.map(|(field, value)| format!("{}={}", field.name, text(value))).collect::<Vec<_>>().join(" ")
}

/// The users' table as Markdown. Omits QOSes without members.
pub fn markdown(qoses: &[ManagedQos]) -> String {
    let cells = |managed: &ManagedQos| {
        let [name, limit, example] = row(managed);
        // A bar would end the cell, but names and types have none.
        [name, limit, format!("`{example}`")]
    };
    table(published(qoses).map(cells), "| ", " | ", " |", Some('-'))
}

/// The same for a terminal.
pub fn plain(qoses: &[ManagedQos]) -> String {
    table(published(qoses).map(row), "", "  ", "", None)
}

/// The QOSes in the users' table.
fn published(qoses: &[ManagedQos]) -> impl Iterator<Item = &ManagedQos> {
    qoses.iter().filter(|managed| managed.members != Members::Unsaid)
}

fn table(
    rows: impl Iterator<Item = [String; 3]>,
    start: &str,
    between: &str,
    end: &str,
    rule: Option<char>,
) -> String {
    let rows: Vec<[String; 3]> = std::iter::once(TITLES.map(str::to_owned)).chain(rows).collect();
    let mut widths = [0_usize; 3];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    let mut put = |cells: &[String; 3]| {
        let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = format!("{start}{}{end}", padded.collect::<Vec<_>>().join(between));
        let _ = writeln!(out, "{}", line.trim_end());
    };
    for (number, row) in rows.iter().enumerate() {
        put(row);
        if let (0, Some(rule)) = (number, rule) {
            put(&widths.map(|width| rule.to_string().repeat(width)));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Database;

    fn qoses(text: &str) -> Vec<ManagedQos> {
        Database::parse(text).unwrap().qoses
    }

    #[test]
    fn a_share_is_said_as_the_page_says_it() {
        for (line, limit, example) in [
            (
                "QOS=qos_lafferty GPUs=a40:4 CPUs=32 Mem=975G",
                "4 a40, 32 CPUs, 975G memory",
                "--qos=qos_lafferty --gres=gpu:a40:2",
            ),
            ("QOS=q GPUs=a100:20,h100:1", "20 a100, 1 h100", "--qos=q --gres=gpu:a100:2"),
            ("QOS=q GPUs=h100:1", "1 h100", "--qos=q --gres=gpu:h100:1"),
            ("QOS=q GrpTRES=gres/gpu:a40=3,node=1", "3 a40, 1 node", "--qos=q --gres=gpu:a40:2"),
            ("QOS=q GrpTRES=gres/gpu=3,gres/mps=80,cpu=1", "1 CPU, 3 GPUs, 80 mps", "--qos=q"),
            ("QOS=q GrpTRES=gres/gpu:a40=0", "no a40", "--qos=q"),
            ("QOS=q GrpTRES=gres/gpu:a40=0,gres/gpu:h100=1", "1 h100", "--qos=q --gres=gpu:h100:1"),
            ("QOS=q GPUs=a40:4 MaxTRESPerUser=gres/gpu:h100=0", "4 a40", "--qos=q --gres=gpu:a40:2"),
            ("QOS=q GPUs=a40:4 GrpTRES=gres/gpu:h100=0,cpu=0", "4 a40, 0 CPUs", "--qos=q --gres=gpu:a40:2"),
            ("QOS=free UsageFactor=0", "no limit", "--qos=free"),
            ("QOS=q GPUs=a40:4 MaxTRESPerUser=cpu=8", "4 a40; 8 CPUs a user", "--qos=q --gres=gpu:a40:2"),
            ("QOS=course MaxTRESPerUser=gres/mps=100", "100 mps a user", "--qos=course"),
            ("QOS=q Account=x GPUs=a40:4 Burst=2x", "4 a40", "--qos=q --gres=gpu:a40:2"),
        ] {
            let qoses = qoses(line);
            let [_, found, command] = row(qoses.first().unwrap());
            assert_eq!((found.as_str(), command.as_str()), (limit, example), "{line}");
        }
    }

    #[test]
    fn what_is_borrowed_says_so() {
        let qoses = qoses("QOS=q Account=x GPUs=a40:4 Burst=2x BurstTime=4:00:00");
        let expected = ["q_burst", "8 a40; borrowed, at most 04:00:00", "--qos=q_burst --gres=gpu:a40:2"];
        assert_eq!(row(&qoses[1]), expected);
    }

    #[test]
    fn what_is_in_use_of_it() {
        let qoses =
            qoses("QOS=q GPUs=a40:4 CPUs=32 Mem=975G GrpTRES=gres/gpu:h100=0 GrpTRESMins=gres/gpu:a40=100");
        let tres = [("gres/gpu:A40", 2), ("gres/gpu", 2), ("cpu", 1), ("mem", 2048)];
        let tres = tres.map(|(name, used)| (name.to_owned(), used)).into();
        let minutes = [("gres/gpu:a40".to_owned(), 90)].into();
        let said = in_use(qoses.first().unwrap(), &Usage { jobs: 1, tres, minutes });
        assert_eq!(said, "1 of 32 CPUs, 2 of 4 a40, 2G of 975G memory, 90 of 100 a40 minutes");
    }

    #[test]
    fn the_table_is_markdown_or_text() {
        let qoses = qoses("QOS=qos_x Account=x GPUs=a40:4\nQOS=normal GraceTime=5\nQOS=free Account=*");
        assert_eq!(
            markdown(&qoses),
            "| QOS name | Group limit | Example                        |\n\
             | -------- | ----------- | ------------------------------ |\n\
             | qos_x    | 4 a40       | `--qos=qos_x --gres=gpu:a40:2` |\n\
             | free     | no limit    | `--qos=free`                   |\n"
        );
        assert_eq!(
            plain(&qoses),
            "QOS name  Group limit  Example\n\
             qos_x     4 a40        --qos=qos_x --gres=gpu:a40:2\n\
             free      no limit     --qos=free\n"
        );
    }

    #[test]
    fn members_in_words() {
        for (line, expected) in [
            ("QOS=q", "not in this file"),
            ("QOS=q Account=*", "everybody"),
            ("QOS=q Account=a", "account a"),
            ("QOS=q Account=a,b", "accounts a, b"),
            ("QOS=q Account=a Users=x,y", "x, y of account a"),
        ] {
            assert_eq!(members(&qoses(line).first().unwrap().members), expected);
        }
    }
}
