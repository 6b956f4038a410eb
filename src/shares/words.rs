//! Shares in words: the users' table, and what a share is for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::field::FIELDS;
use super::usage::Usage;
use super::value::{Value, amount, text};
use super::{Cluster, Members, Share, TYPE, foreign};

/// The first line of a table.
pub const TITLES: [&str; 3] = ["QOS name", "Group limit", "Example"];

/// One share as the users' table has it.
#[must_use]
pub fn row(share: &Share) -> [String; 3] {
    let limits = [group_limit(share), user_limit(share)];
    let limit = limits.into_iter().filter(|limit| !limit.is_empty()).collect::<Vec<_>>().join("; ");
    let limit = if limit.is_empty() { nothing(share) } else { limit };
    [share.qos.clone(), limit, example(share)]
}

/// `no h100`, or `no limit`: what is said where there is nothing to have a number of.
fn nothing(share: &Share) -> String {
    let fields =
        ["GrpTRES", "MaxTRESPerUser"].into_iter().filter_map(|name| match share.settings.get(name) {
            Some(Value::Tres(limits)) => Some(limits.keys()),
            _ => None,
        });
    let mut kinds: Vec<&str> = fields.flatten().filter_map(|name| name.strip_prefix(TYPE)).collect();
    kinds.dedup();
    if kinds.is_empty() { "no limit".to_owned() } else { format!("no {}", kinds.join(", ")) }
}

/// `4 a40, 32 CPUs, 975G memory`: what all jobs of the share together can have.
#[must_use]
pub fn group_limit(share: &Share) -> String {
    let mut parts: Vec<String> = share.gpus.iter().map(|(kind, number)| format!("{number} {kind}")).collect();
    let Some(Value::Tres(limits)) = share.settings.get("GrpTRES") else { return parts.join(", ") };
    for (name, number) in given(limits) {
        let said = share.gpus.iter().any(|(kind, _)| *name == format!("gres/gpu:{kind}"));
        let sum = name == "gres/gpu" && !share.gpus.is_empty();
        if !said && !sum {
            parts.push(in_words(name, *number));
        }
    }
    parts.join(", ")
}

/// `100 mps a user`: what the jobs of one of its users together can have.
fn user_limit(share: &Share) -> String {
    let Some(Value::Tres(limits)) = share.settings.get("MaxTRESPerUser") else { return String::new() };
    let parts: Vec<String> = given(limits).map(|(name, number)| in_words(name, *number)).collect();
    if parts.is_empty() { String::new() } else { format!("{} a user", parts.join(", ")) }
}

/// A limit of 0 on a type of GPU keeps that type away: it is no part of what anybody has.
fn given(limits: &BTreeMap<String, u64>) -> impl Iterator<Item = (&String, &u64)> {
    limits.iter().filter(|(name, number)| **number > 0 || !name.starts_with(TYPE))
}

fn in_words(tres: &str, number: u64) -> String {
    let one = number == 1;
    match tres {
        "cpu" => format!("{number} CPU{}", if one { "" } else { "s" }),
        "mem" => format!("{} memory", amount(tres, number)),
        "node" => format!("{number} node{}", if one { "" } else { "s" }),
        "gres/gpu" => format!("{number} GPU{}", if one { "" } else { "s" }),
        other => match other.strip_prefix(TYPE) {
            Some(kind) => format!("{number} {kind}"),
            None => format!("{number} {}", other.strip_prefix("gres/").unwrap_or(other)),
        },
    }
}

/// `2 of 4 a40, 8 of 32 CPUs`: what is in use of the group limit.
#[must_use]
pub fn in_use(share: &Share, usage: &Usage) -> String {
    let Some(Value::Tres(limits)) = share.settings.get("GrpTRES") else { return String::new() };
    let used = |name: &str| {
        let found = usage.tres.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or(0, |(_, used)| *used)
    };
    let typed = limits.keys().any(|name| name.starts_with(TYPE));
    // The untyped number is the sum of the typed ones.
    let shown = given(limits).filter(|(name, _)| !(typed && *name == "gres/gpu"));
    let parts =
        shown.map(|(name, number)| format!("{} of {}", amount(name, used(name)), in_words(name, *number)));
    parts.collect::<Vec<_>>().join(", ")
}

/// Options that work for any member: two GPUs of the first type, or one where there is no second.
#[must_use]
pub fn example(share: &Share) -> String {
    let typed = share.gpus.first().map(|(kind, number)| (kind.as_str(), *number));
    let gres = typed.or_else(|| match share.settings.get("GrpTRES") {
        Some(Value::Tres(limits)) => {
            given(limits).find_map(|(name, number)| Some((name.strip_prefix(TYPE)?, *number)))
        }
        _ => None,
    });
    let gres = gres.map(|(kind, number)| format!(" --gres=gpu:{kind}:{}", number.min(2))).unwrap_or_default();
    format!("--qos={}{gres}", share.qos)
}

/// Whose it is: `account lafferty`, `maria, tom of account saxena`.
#[must_use]
pub fn members(members: &Members) -> String {
    match members {
        Members::Unsaid => "not in this file".to_owned(),
        Members::All => "everybody".to_owned(),
        Members::Accounts(names) if names.len() == 1 => format!("account {}", names.join("")),
        Members::Accounts(names) => format!("accounts {}", names.join(", ")),
        Members::Users(account, users) => format!("{} of account {account}", users.join(", ")),
    }
}

/// `h100, 3090`: types of GPU that its jobs are kept from.
#[must_use]
pub fn kept_away(share: &Share, cluster: &Cluster) -> String {
    let kinds = foreign::kept_away(share, cluster).into_iter().filter_map(|name| name.strip_prefix(TYPE));
    kinds.collect::<Vec<_>>().join(", ")
}

/// All that is set, as `Name=value` words.
#[must_use]
pub fn settings(share: &Share) -> String {
    let set = FIELDS.iter().filter_map(|field| Some((field, share.setting(field)?)));
    set.map(|(field, value)| format!("{}={}", field.name, text(value))).collect::<Vec<_>>().join(" ")
}

/// The users' table as Markdown. A line that says nobody's is not in it.
#[must_use]
pub fn markdown(shares: &[Share]) -> String {
    let cells = |share: &Share| {
        let [name, limit, example] = row(share);
        // A bar would end the cell; names and types have none.
        [name, limit, format!("`{example}`")]
    };
    table(published(shares).map(cells), "| ", " | ", " |", Some('-'))
}

/// The same for a terminal.
#[must_use]
pub fn plain(shares: &[Share]) -> String {
    table(published(shares).map(row), "", "  ", "", None)
}

fn published(shares: &[Share]) -> impl Iterator<Item = &Share> {
    shares.iter().filter(|share| share.members != Members::Unsaid)
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
    use crate::config::Config;

    fn shares(text: &str) -> Vec<Share> {
        Config::parse(text).unwrap().shares
    }

    #[test]
    fn a_share_is_said_as_the_page_says_it() {
        for (line, limit, example) in [
            (
                "Share=qos_lafferty GPUs=a40:4 CPUs=32 Mem=975G",
                "4 a40, 32 CPUs, 975G memory",
                "--qos=qos_lafferty --gres=gpu:a40:2",
            ),
            ("Share=q GPUs=a100:20,h100:1", "20 a100, 1 h100", "--qos=q --gres=gpu:a100:2"),
            ("Share=q GPUs=h100:1", "1 h100", "--qos=q --gres=gpu:h100:1"),
            ("Share=q GrpTRES=gres/gpu:a40=3,node=1", "3 a40, 1 node", "--qos=q --gres=gpu:a40:2"),
            ("Share=q GrpTRES=gres/gpu=3,gres/mps=80,cpu=1", "1 CPU, 3 GPUs, 80 mps", "--qos=q"),
            ("Share=q GrpTRES=gres/gpu:a40=0", "no a40", "--qos=q"),
            ("Share=q GrpTRES=gres/gpu:a40=0,gres/gpu:h100=1", "1 h100", "--qos=q --gres=gpu:h100:1"),
            ("Share=q GPUs=a40:4 MaxTRESPerUser=gres/gpu:h100=0", "4 a40", "--qos=q --gres=gpu:a40:2"),
            ("Share=q GPUs=a40:4 GrpTRES=gres/gpu:h100=0,cpu=0", "4 a40, 0 CPUs", "--qos=q --gres=gpu:a40:2"),
            ("Share=free UsageFactor=0", "no limit", "--qos=free"),
            ("Share=q GPUs=a40:4 MaxTRESPerUser=cpu=8", "4 a40; 8 CPUs a user", "--qos=q --gres=gpu:a40:2"),
            ("Share=course MaxTRESPerUser=gres/mps=100", "100 mps a user", "--qos=course"),
        ] {
            let shares = shares(line);
            let [_, found, command] = row(shares.first().unwrap());
            assert_eq!((found.as_str(), command.as_str()), (limit, example), "{line}");
        }
    }

    #[test]
    fn what_is_in_use_of_it() {
        let shares = shares("Share=q GPUs=a40:4 CPUs=32 Mem=975G GrpTRES=gres/gpu:h100=0");
        let tres = [("gres/gpu:A40", 2), ("gres/gpu", 2), ("cpu", 1), ("mem", 2048)];
        let tres = tres.map(|(name, used)| (name.to_owned(), used)).into();
        let said = in_use(shares.first().unwrap(), &Usage { jobs: 1, tres });
        assert_eq!(said, "1 of 32 CPUs, 2 of 4 a40, 2G of 975G memory");
    }

    #[test]
    fn the_table_is_markdown_or_text() {
        let shares =
            shares("Share=qos_x Account=x GPUs=a40:4\nShare=normal GraceTime=5\nShare=free Account=*");
        assert_eq!(
            markdown(&shares),
            "| QOS name | Group limit | Example                        |\n\
             | -------- | ----------- | ------------------------------ |\n\
             | qos_x    | 4 a40       | `--qos=qos_x --gres=gpu:a40:2` |\n\
             | free     | no limit    | `--qos=free`                   |\n"
        );
        assert_eq!(
            plain(&shares),
            "QOS name  Group limit  Example\n\
             qos_x     4 a40        --qos=qos_x --gres=gpu:a40:2\n\
             free      no limit     --qos=free\n"
        );
    }

    #[test]
    fn members_in_words() {
        for (line, expected) in [
            ("Share=q", "not in this file"),
            ("Share=q Account=*", "everybody"),
            ("Share=q Account=a", "account a"),
            ("Share=q Account=a,b", "accounts a, b"),
            ("Share=q Account=a Users=x,y", "x, y of account a"),
        ] {
            assert_eq!(members(&shares(line).first().unwrap().members), expected);
        }
    }
}
