//! What is said of a request that passes: why, and what its user would read.

use gpushare::message;
use gpushare::policy::{Acceptance, Accounting, Because, Change, DefaultQos, Policy, Remark};
use gpushare::request::Request;

use super::accounting::Database;

/// A line with the reason, then the text that sbatch would show.
pub fn accepted(request: &Request, policy: &Policy, database: &Database, acceptance: &Acceptance) -> String {
    let mut text = format!("accepted: {}\n", reason(request, policy, database, acceptance));
    for said in acceptance.remarks.iter().filter_map(message::remark) {
        text.push_str(&said);
        text.push('\n');
    }
    text
}

fn reason(request: &Request, policy: &Policy, database: &Database, acceptance: &Acceptance) -> String {
    if let Some((rule, why)) = acceptance.remarks.iter().find_map(let_pass) {
        return format!("{rule} is let pass because of {why}");
    }
    let typed =
        acceptance.remarks.iter().any(|remark| matches!(remark, Remark::Changed(Change::Type { .. })));
    let how = if typed { "would add the GPU type" } else { "allows what is asked for" };
    if !request.may_use_gpus() {
        return "asks for no GPUs".to_owned();
    }
    let of = |kind: &str, name: &[u8], governed: bool| {
        let name = name.escape_ascii();
        if governed { format!("{kind} '{name}' {how}") } else { format!("{kind} '{name}' is not governed") }
    };
    let accounting = &database;
    match request.qos {
        Some(list) if list.contains(&b',') => format!("no QOS in '{}' is governed", list.escape_ascii()),
        Some(name) => match accounting.qos_named(name) {
            Some(qos) => of("QOS", accounting.name(qos), policy.governs(accounting, qos)),
            None => format!("there is no QOS '{}', so Slurm will refuse it", name.escape_ascii()),
        },
        None => match accounting.default_qos(request) {
            DefaultQos::One(qos) => of("default QOS", accounting.name(qos), policy.governs(accounting, qos)),
            DefaultQos::OneOf(_) => format!("every default QOS that the reservation can lead to {how}"),
            DefaultQos::None => {
                format!(
                    "user '{}' has no default QOS here, so Slurm may refuse it",
                    database.user().escape_ascii()
                )
            }
        },
    }
}

/// The number of a rule that is broken, and why that is let pass.
fn let_pass(remark: &Remark) -> Option<(&'static str, &'static str)> {
    let Remark::Passed(refusal, because) = remark else { return None };
    let why = match because {
        Because::Warn => "Mode=warn",
        Because::Audit => "Mode=audit",
        Because::User => "ExemptUsers",
        Because::Account => "ExemptAccounts",
        Because::Partition => "ExemptPartitions",
        Because::Reservation => "ExemptReservations",
    };
    Some((refusal.rule.number(), why))
}
