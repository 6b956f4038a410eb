//! The text about a request that passes: why, and what its user would see.

use gpushare::submit::message;
use gpushare::submit::policy::{Acceptance, Accounting, Because, Change, DefaultQos, Policy, Remark, Rule};
use gpushare::submit::request::{Parsed, Request};
use gpushare::text::shown::shown;

use gpushare_judge::accounting::Database;
use gpushare_terminal::{Answer, clean};

/// One line with the reason, then the text that sbatch would show, then further notes. `refused` is why Slurm won't
/// accept the request, which the status then says, too.
pub fn accepted(
    case: (&Request, &Policy, &Database, &Acceptance),
    refused: Option<String>,
    notes: &[String],
) -> Answer {
    let (request, policy, database, acceptance) = case;
    let reason = reason(request, policy, database, acceptance).map_err(|error| error.to_string());
    let (mut text, status) = match reason.and_then(|reason| refused.map_or(Ok(reason), Err)) {
        Ok(reason) => (format!("accepted: {reason}\n"), 0),
        Err(reason) => (format!("Slurm will refuse it: {}\n", clean(&reason)), 1),
    };
    for said in acceptance.remarks.iter().filter_map(message::remark) {
        text.push_str(&said);
        text.push('\n');
    }
    Answer { text: text + &self::notes(notes), status }
}

/// Further lines.
pub fn notes(notes: &[String]) -> String {
    notes.iter().map(|note| format!("note: {}\n", clean(note))).collect()
}

/// The QOS that the job will have, if any.
pub fn qos<'d>(request: &Request, database: &'d Database) -> Option<&'d [u8]> {
    let accounting = &database;
    let qos = match request.qos {
        Some(name) => accounting.qos_named(name),
        None => match accounting.default_qos(request) {
            DefaultQos::One(qos) => Some(qos),
            _ => None,
        },
    };
    qos.map(|qos| qos.name.as_bytes())
}

gpushare::errors! {
    /// Why Slurm would probably refuse it.
    #[derive(Debug)]
    enum Refused {
        NoQos(name: String) => "there is no QOS '{name}'";
        NoDefault { user: String, account: String } => "user '{user}' has no default QOS{account}";
    }
}

/// Why gpushare accepts it.
fn reason(
    request: &Request,
    policy: &Policy,
    database: &Database,
    acceptance: &Acceptance,
) -> Result<String, Refused> {
    if let Some((rule, why)) = acceptance.remarks.iter().find_map(let_pass) {
        return Ok(format!("{rule} applies, but {why} lets it pass"));
    }
    if !Parsed::from(*request).may_use_gpus() {
        return Ok("asks for no GPUs".to_owned());
    }
    let typed =
        acceptance.remarks.iter().any(|remark| matches!(remark, Remark::Changed(Change::Type { .. })));
    let how = if typed { "would add the GPU type" } else { "allows what is asked for" };
    let accounting = &database;
    let under = |kind: &str, qos| {
        let name = shown(accounting.name(qos));
        let governed = policy.governs(accounting, qos);
        if governed { format!("{kind} '{name}' {how}") } else { format!("{kind} '{name}' is not governed") }
    };
    match request.qos {
        Some(list) if list.contains(&b',') => Ok(format!("no QOS in '{}' is governed", shown(list))),
        Some(name) => {
            let qos = accounting.qos_named(name).map(|qos| under("QOS", qos));
            qos.ok_or_else(|| Refused::NoQos(shown(name)))
        }
        None => match accounting.default_qos(request) {
            DefaultQos::One(qos) => Ok(under("default QOS", qos)),
            DefaultQos::OneOf(_) => Ok(format!("every default QOS that the reservation can lead to {how}")),
            DefaultQos::None => {
                let account = request.account.map(|name| format!(" in account '{}'", shown(name)));
                let user = shown(database.user());
                Err(Refused::NoDefault { user, account: account.unwrap_or_default() })
            }
        },
    }
}

/// The number of a broken rule, and why the request passes anyway.
fn let_pass(remark: &Remark) -> Option<(&'static str, &'static str)> {
    let Remark::Passed(refusal, because) = remark else { return None };
    let why = match because {
        Because::Warn if refusal.rule == Rule::BeyondLimit => "LimitAdvice=warn",
        Because::Warn => "Mode=warn",
        Because::Audit => "Mode=audit",
        Because::User => "ExemptUsers",
        Because::Account => "ExemptAccounts",
        Because::Partition => "ExemptPartitions",
        Because::Reservation => "ExemptReservations",
    };
    Some((refusal.rule.number(), why))
}
