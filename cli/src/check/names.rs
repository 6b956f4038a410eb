//! Names in gpushare.conf that nothing on the cluster has: one that is misspelt in `GovernedQOS` switches the rules
//! off. It says which name may be meant. Pure.

use std::collections::BTreeSet;

use gpushare::config::names::differing;
use gpushare::submit::policy::{Governed, GovernedAccounts};
use gpushare::text::hostlist;
use gpushare::text::pattern::{Case, Patterns};
use gpushare_machine::config::Config;
use gpushare_node::config::Placement;
use gpushare_qos::config::Members;

use super::finding::{Finding, Status};
use crate::slurm::Slurm;

mod types;

/// What a rule loses by such a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// It doesn't apply to what was meant.
    Rule,
    /// Nothing, if the name is one of later: an exemption, a reservation.
    Nothing,
}

/// Names of one kind that the cluster has.
struct Kind<'a> {
    /// Such as `QOS`.
    word: &'static str,
    names: Vec<&'a str>,
    case: Case,
}

/// QOSes, accounts and users.
pub fn of_database(config: &Config, slurm: &Slurm) -> Vec<Finding> {
    let policy = &config.policy;
    // `gpushare qos apply` makes those that are missing of the lines that have an owner or limits.
    let managed = config.qoses.iter().map(|managed| managed.name.as_str());
    let names = slurm.qoses.names.iter().map(String::as_str).chain(managed).collect();
    let qoses = Kind { word: "QOS", names, case: Case::Ignored };
    let mut findings = Vec::new();
    if let Governed::Names(patterns) = &policy.governed {
        findings.extend(qoses.finding("GovernedQOS", patterns, Loss::Rule));
    }
    let records = policy.records.iter();
    findings.extend(records.filter_map(|record| qoses.finding("QOS", &record.names, Loss::Rule)));
    findings.extend(new_qoses(config, slurm));
    let accounts: Vec<&str> = slurm.accounts.names.iter().map(String::as_str).collect();
    // With PrivateData users see only their own; everybody else sees root.
    if !accounts.contains(&"root") {
        let named = [
            ("GovernedAccounts", matches!(policy.accounts, GovernedAccounts::Names(_))),
            ("ExemptAccounts", !policy.exempt.accounts.is_empty()),
            ("ExemptUsers", !policy.exempt.users.is_empty()),
        ];
        findings.extend(hidden(&set(&named), "PrivateData hides accounts and users from you"));
        return findings;
    }
    let users = slurm.accounts.users.iter().map(String::as_str).collect();
    let of = |word, names| Kind { word, names, case: Case::Ignored };
    let (accounts, users) = (of("account", accounts), of("user", users));
    if let GovernedAccounts::Names(patterns) = &policy.accounts {
        findings.extend(accounts.finding("GovernedAccounts", patterns, Loss::Rule));
    }
    findings.extend(accounts.finding("ExemptAccounts", &policy.exempt.accounts, Loss::Nothing));
    findings.extend(users.finding("ExemptUsers", &policy.exempt.users, Loss::Nothing));
    findings.extend(new_members(config, &accounts, &users));
    findings
}

/// QOSes of the file that the database doesn't have, but one much like them that the file doesn't have: `gpushare qos
/// apply` would make a second one.
fn new_qoses(config: &Config, slurm: &Slurm) -> Option<Finding> {
    let is_in_file = |name: &str| config.qoses.iter().any(|managed| managed.name.eq_ignore_ascii_case(name));
    let has = |name: &str| slurm.qoses.names.iter().any(|known| known.eq_ignore_ascii_case(name));
    let others = slurm.qoses.names.iter().map(String::as_str).filter(|name| !is_in_file(name));
    let others: Vec<&str> = others.collect();
    let new = config.qoses.iter().map(|managed| managed.name.as_str()).filter(|name| !has(name));
    made("QOS", new.filter_map(|name| Some(said("QOS", name, Some(meant(name, &others)?)))).collect())
}

/// Accounts and users of `QOS=` lines; `apply` makes an account that is missing.
fn new_members(config: &Config, accounts: &Kind, users: &Kind) -> Option<Finding> {
    let mut all: Vec<(&Kind, &str)> = Vec::new();
    for managed in &config.qoses {
        match &managed.members {
            Members::Unsaid | Members::All => {}
            Members::Accounts(names) => all.extend(names.iter().map(|name| (accounts, name.as_str()))),
            Members::Users(account, names) => {
                all.push((accounts, account.as_str()));
                all.extend(names.iter().map(|name| (users, name.as_str())));
            }
        }
    }
    let new = all.into_iter().filter(|(kind, name)| !kind.has(name));
    let parts: BTreeSet<String> =
        new.filter_map(|(kind, name)| Some(said(kind.word, name, Some(meant(name, &kind.names)?)))).collect();
    made("Account", parts.into_iter().collect())
}

fn made(about: &'static str, parts: Vec<String>) -> Option<Finding> {
    let said = format!("{} If not, gpushare qos apply makes what is missing", parts.join(" "));
    (!parts.is_empty()).then(|| Finding::unknown(about, said))
}

/// What slurmctld knows: partitions, reservations, nodes, types, and units.
pub fn of_slurmctld(config: &Config, slurm: &Slurm) -> Vec<Finding> {
    let policy = &config.policy;
    let names: Vec<&str> = slurm.partitions.iter().map(|partition| partition.name.as_str()).collect();
    let partitions = Kind { word: "partition", names, case: Case::Counts };
    let keys = [
        ("GovernedPartitions", &policy.partitions, Loss::Rule),
        ("ShareOnlyPartitions", &policy.shares.only_partitions, Loss::Rule),
        ("GpuPartitions", &policy.gpu_partitions, Loss::Rule),
        ("ExemptPartitions", &policy.exempt.partitions, Loss::Nothing),
    ];
    let records = policy.partition_records.iter().map(|record| ("PartitionName", &record.names, Loss::Rule));
    let keys = keys.into_iter().chain(records).filter(|(_, patterns, _)| !patterns.is_empty());
    let mut findings: Vec<Finding> = if partitions.names.is_empty() {
        let named: Vec<&str> = keys.map(|(key, ..)| key).collect();
        hidden(&named, "slurmctld shows you no partition").into_iter().collect()
    } else {
        keys.filter_map(|(about, patterns, loss)| partitions.finding(about, patterns, loss)).collect()
    };
    findings.extend(reservations(config, slurm));
    findings.extend(nodes(config, slurm));
    findings.extend(types::findings(config, slurm));
    findings.extend(sizes(config));
    findings
}

/// Those of the keys that are set.
pub fn set(keys: &[(&'static str, bool)]) -> Vec<&'static str> {
    keys.iter().filter_map(|(key, is_set)| is_set.then_some(*key)).collect()
}

/// The keys whose names can't be compared, and why.
fn hidden(keys: &[&str], why: &str) -> Option<Finding> {
    (!keys.is_empty()).then(|| Finding::unknown("names", format!("{} not compared: {why}", keys.join(", "))))
}

/// Reservations come and go, so a missing one may be right.
fn reservations<'s>(config: &'s Config, slurm: &'s Slurm) -> impl Iterator<Item = Finding> + 's {
    let names = slurm.reservations.iter().map(|one| one.name.as_str()).collect();
    let all = Kind { word: "reservation", names, case: Case::Counts };
    let exempt = all.finding("ExemptReservations", &config.policy.exempt.reservations, Loss::Nothing);
    // A part of the name is enough.
    let parts = config.policy.shares.reservations.iter().map(|part| format!("*{part}*"));
    let parts = Patterns::parse(&parts.collect::<Vec<_>>().join(","));
    let of_shares = parts.and_then(|parts| all.finding("ShareReservations", &parts, Loss::Nothing));
    exempt.into_iter().chain(of_shares)
}

/// Whether the rule of types may apply to a QOS with a limit on types.
pub fn may_govern(config: &Config, qos: &str) -> bool {
    match &config.policy.governed {
        Governed::Auto => true,
        Governed::Names(patterns) => patterns.match_name(qos.as_bytes(), Case::Ignored),
    }
}

/// `NodeName=` lines.
fn nodes(config: &Config, slurm: &Slurm) -> Vec<Finding> {
    let known: Vec<&str> = slurm.nodes.iter().map(|node| node.name.as_str()).collect();
    let finding = |list: &str| {
        let names = hostlist::names::all(list)?;
        let missing: Vec<&String> = names.iter().filter(|name| !known.contains(&name.as_str())).collect();
        let first = missing.first()?;
        // slurmctld shows no node in state FUTURE, and n20 isn't n2 misspelled.
        let words = |name: &str| name.replace(|c: char| c.is_ascii_digit(), "");
        let meant = meant(first, &known).filter(|known| words(known) != words(first))?;
        let more = if missing.len() > 1 { format!(" ({} more)", missing.len() - 1) } else { String::new() };
        let (about, said) = ("NodeName", said("node", first, Some(meant)) + &more);
        let fix = format!("gpushare.conf: correct or remove NodeName={list}");
        let is_all = missing.len() == names.len();
        Some(if is_all { Finding::wrong(about, said, fix) } else { Finding::unknown(about, said) })
    };
    config.nodes.iter().filter_map(|record| finding(&record.names)).collect()
}

/// Sizes of shares that no GPU has.
fn sizes(config: &Config) -> Option<Finding> {
    let placed = config.every_node().filter(|node| node.placement != Placement::Off);
    let most = u64::from(placed.filter_map(|node| Some(node.units_per_gpu.as_ref()?.most())).max()?);
    let beyond = config.policy.shares.sizes.iter().filter(|size| **size > most);
    let beyond: Vec<String> = beyond.map(u64::to_string).collect();
    let said = format!("no GPU has {} units; UnitsPerGpu is at most {most}", beyond.join(" or "));
    let fix = format!("gpushare.conf: take {} out of ShareSizes", beyond.join(", "));
    (!beyond.is_empty()).then(|| Finding::wrong("ShareSizes", said, fix))
}

impl Kind<'_> {
    fn has(&self, name: &str) -> bool {
        let is = |known: &&str| match self.case {
            Case::Ignored => known.eq_ignore_ascii_case(name),
            Case::Counts => *known == name,
        };
        self.names.iter().any(is)
    }

    /// The names of a key that nothing has.
    fn finding(&self, about: &'static str, patterns: &Patterns, loss: Loss) -> Option<Finding> {
        // ExemptUsers may have numbers.
        let is_number =
            |name: &&str| about == "ExemptUsers" && name.bytes().all(|byte| byte.is_ascii_digit());
        let unknown = patterns.without_match(&self.names, self.case).into_iter();
        self.without(about, &unknown.filter(|name| !is_number(name)).collect::<Vec<_>>(), loss)
    }

    /// The same, if it is known which names nothing has.
    fn without(&self, about: &'static str, unknown: &[&str], loss: Loss) -> Option<Finding> {
        let near = |name: &str| meant(name, &self.names);
        let parts: Vec<String> = unknown.iter().map(|name| said(self.word, name, near(name))).collect();
        let fix = |name: &&str| match near(name) {
            Some(meant) => format!("{about}: {meant} instead of {name}"),
            None => format!("{about}: without {name}, or create it in Slurm"),
        };
        let fixes: Vec<String> = unknown.iter().map(fix).collect();
        let (said, fix) = (parts.join(" "), format!("gpushare.conf: {}", fixes.join("; ")));
        (!unknown.is_empty()).then(|| match loss {
            Loss::Rule => Finding::wrong(about, said, fix),
            Loss::Nothing => Finding::unknown(about, said),
        })
    }
}

/// The name that may be meant: one that differs in one place, by at most two letters and half of its letters.
fn meant<'n>(name: &str, names: &[&'n str]) -> Option<&'n str> {
    let near = names.iter().map(|known| (differing(name, known), *known));
    let near = near.filter(|(letters, known)| *letters <= 2 && letters * 2 <= name.len().max(known.len()));
    near.min_by_key(|(letters, _)| *letters).map(|(_, known)| known)
}

fn said(word: &str, name: &str, meant: Option<&str>) -> String {
    match meant {
        Some(meant) => format!("no {word} '{name}'; did you mean '{meant}'?"),
        None if name.contains('*') => format!("no {word} matches '{name}'."),
        None => format!("no {word} '{name}'."),
    }
}

/// Whether a name is wrong on which the fixes of others depend.
fn is_doubt(finding: &Finding) -> bool {
    let said = &finding.said;
    match &*finding.about {
        _ if !finding.is_wrong() => false,
        "GPU types" => true,
        "QOS" => said.starts_with("no ") || said.contains("no node has a GPU of type"),
        "GovernedQOS" | "GpuWeight" => said.starts_with("no "),
        _ => false,
    }
}

/// Whether `gpushare qos apply` would make what the name means.
fn is_made(finding: &Finding) -> bool {
    let is_new = ["QOS", "Account"].contains(&&*finding.about) && finding.said.starts_with("no ");
    is_new && finding.status == Status::Unknown
}

/// Corrects the names first: with them the other fixes would write something else, or something weaker.
pub fn before_others(findings: &mut [Finding]) {
    let named = |is_one: fn(&Finding) -> bool| {
        let keys = findings.iter().filter(|one| is_one(one)).map(|one| &*one.about);
        keys.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
    };
    let (first, made) = (named(is_doubt), named(is_made));
    let dependent = ["QOS", "AccountingStorageTRES", "TRESBillingWeights", "ForeignTypes"];
    for finding in findings {
        let depends = !first.is_empty() && !is_doubt(finding) && dependent.contains(&&*finding.about);
        let Status::Wrong(fix) = &mut finding.status else { continue };
        if depends {
            *fix = format!("first the names of {first} in gpushare.conf, then gpushare check again").into();
        } else if !made.is_empty() && fix.makes_names() {
            let if_meant = format!("if the names of {made} (lines with ?) are intentional: ");
            *fix = std::mem::take(fix).after(if_meant);
        }
    }
}

#[cfg(test)]
mod tests;
