//! Names in gpushare.conf that nothing has: one that is misspelt in `GovernedQOS` switches the rules off. Reservations
//! come and go, so their names aren't checked. Pure.

use crate::config::Config;
use gpushare::submit::policy::{Governed, GovernedAccounts};
use gpushare::text::pattern::{Case, Patterns};

use super::finding::{Finding, listed};
use crate::slurm::Slurm;

/// What a rule loses by such a name.
enum Loss {
    /// It doesn't apply to what was meant.
    Rule,
    /// Only an exemption. The name may be one of later.
    Exemption,
}

/// QOSes, accounts and users.
pub fn of_database(config: &Config, slurm: &Slurm) -> Vec<Finding> {
    let policy = &config.policy;
    let accounts: Vec<&str> = slurm.accounts.names.iter().map(String::as_str).collect();
    let users: Vec<&str> = slurm.accounts.users.iter().map(String::as_str).collect();
    // `gpushare qos apply` makes those that are missing of the lines that have an owner or limits.
    let managed = config.qoses.iter().map(|managed| managed.name.as_str());
    let qoses: Vec<&str> = slurm.qoses.names.iter().map(String::as_str).chain(managed).collect();
    let mut findings = Vec::new();
    if let Governed::Names(patterns) = &policy.governed {
        findings.extend(finding("GovernedQOS", "QOS", patterns, &qoses, Case::Ignored, Loss::Rule));
    }
    let records = policy.records.iter().map(|record| &record.names);
    findings
        .extend(records.filter_map(|names| finding("QOS", "QOS", names, &qoses, Case::Ignored, Loss::Rule)));
    // With PrivateData users see only their own; everybody else sees root.
    if !accounts.contains(&"root") {
        return findings;
    }
    if let GovernedAccounts::Names(patterns) = &policy.accounts {
        findings.extend(finding(
            "GovernedAccounts",
            "account",
            patterns,
            &accounts,
            Case::Ignored,
            Loss::Rule,
        ));
    }
    let exempt = &policy.exempt;
    let (accounts, users) = (
        finding("ExemptAccounts", "account", &exempt.accounts, &accounts, Case::Ignored, Loss::Exemption),
        finding("ExemptUsers", "user", &exempt.users, &users, Case::Ignored, Loss::Exemption),
    );
    findings.into_iter().chain(accounts).chain(users).collect()
}

/// Partitions.
pub fn of_partitions(config: &Config, slurm: &Slurm) -> Vec<Finding> {
    let policy = &config.policy;
    let names: Vec<&str> = slurm.partitions.iter().map(|partition| partition.name.as_str()).collect();
    // With PrivateData users see none.
    if names.is_empty() {
        return Vec::new();
    }
    let keys = [
        ("GovernedPartitions", &policy.partitions, Loss::Rule),
        ("ShareOnlyPartitions", &policy.shares.only_partitions, Loss::Rule),
        ("GpuPartitions", &policy.gpu_partitions, Loss::Rule),
        ("ExemptPartitions", &policy.exempt.partitions, Loss::Exemption),
    ];
    let records = policy.partition_records.iter().map(|record| ("PartitionName", &record.names, Loss::Rule));
    let of_key = |(about, patterns, loss)| finding(about, "partition", patterns, &names, Case::Counts, loss);
    keys.into_iter().chain(records).filter_map(of_key).collect()
}

fn finding(
    about: &'static str,
    kind: &str,
    patterns: &Patterns,
    names: &[&str],
    case: Case,
    loss: Loss,
) -> Option<Finding> {
    // ExemptUsers may have numbers.
    let is_number = |name: &&&str| about == "ExemptUsers" && name.bytes().all(|byte| byte.is_ascii_digit());
    let unknown = patterns.without_match(names, case);
    let unknown: Vec<String> =
        unknown.iter().filter(|name| !is_number(name)).map(|name| format!("'{name}'")).collect();
    let said = format!("no {kind} matches {}", listed(&unknown));
    (!unknown.is_empty()).then(|| match loss {
        Loss::Rule => Finding::wrong(about, said, "gpushare.conf: correct or remove it"),
        Loss::Exemption => Finding::unknown(about, said),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::Status;
    use crate::slurm::{Accounts, Partition, Qoses};

    #[test]
    fn every_name_that_nothing_has_is_named() {
        let config = Config::parse(
            "GovernedQOS=qos_a,qos_new,qos_laferty,x*\nGovernedAccounts=lab,nolab\nExemptUsers=alice,bop,2001\n\
             ExemptAccounts=*\nGovernedPartitions=p,P\nExemptPartitions=debug\nQOS=qos_b Mode=audit\n\
             QOS=\"two words\" Mode=audit\nQOS=qos_new GPUs=a40:1\nQOS=qos_new Mode=warn\n\
             PartitionName=q MaxCPUsPerGpu=4\n",
        )
        .unwrap();
        let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let slurm = Slurm {
            qoses: Qoses { names: vec!["QOS_A".into(), "two words".into()], ..Qoses::default() },
            accounts: Accounts { names: of(&["root", "lab"]), users: of(&["alice"]), ..Accounts::default() },
            partitions: vec![Partition { name: "p".into(), ..Partition::default() }],
            ..Slurm::default()
        };
        let said = |findings: Vec<Finding>| {
            let line = |finding: &Finding| {
                let sign = if finding.status == Status::Unknown { "?" } else { "WRONG" };
                format!("{sign} {}: {}", finding.about, finding.said)
            };
            findings.iter().map(line).collect::<Vec<_>>()
        };
        assert_eq!(
            said(of_database(&config, &slurm)),
            [
                "WRONG GovernedQOS: no QOS matches 'qos_laferty', 'x*'",
                "WRONG QOS: no QOS matches 'qos_b'",
                "WRONG GovernedAccounts: no account matches 'nolab'",
                "? ExemptUsers: no user matches 'bop'",
            ]
        );
        // Somebody who sees no accounts but their own, and no partition.
        let accounts = Accounts { names: of(&["own"]), users: of(&["own"]), ..Accounts::default() };
        let seen = Slurm { accounts, qoses: slurm.qoses.clone(), ..Slurm::default() };
        assert_eq!(said(of_database(&config, &seen)), said(of_database(&config, &slurm))[..2]);
        assert!(of_partitions(&config, &seen).is_empty());
        assert_eq!(
            said(of_partitions(&config, &slurm)),
            [
                "WRONG GovernedPartitions: no partition matches 'P'",
                "? ExemptPartitions: no partition matches 'debug'",
                "WRONG PartitionName: no partition matches 'q'",
            ]
        );
    }
}
