//! The text about a request that passes: why, and what its user would see.

use gpushare::submit::message;
use gpushare::submit::policy::{Acceptance, Accounting, Because, Change, DefaultQos, Policy, Remark, Rule};
use gpushare::submit::request::{Parsed, Request};
use gpushare::text::shown::shown;

use gpushare_judge::accounting::Database;
use gpushare_terminal::{Answer, clean, notes};

/// One line with the reason, then the text that sbatch would show, then further notes. `refused` is why Slurm won't
/// accept the request, which the status then says, too.
pub fn accepted(
    case: (&Request, &Policy, &Database, &Acceptance),
    refused: Option<String>,
    remarks: &[String],
) -> Answer {
    let (request, policy, database, acceptance) = case;
    let (mut text, status) = match refused {
        None => (format!("accepted: {}\n", reason(request, policy, database, acceptance)), 0),
        Some(reason) => (format!("Slurm says no: {}\n", clean(&reason)), 1),
    };
    for said in acceptance.remarks.iter().filter_map(message::remark) {
        text.push_str(&said);
        text.push('\n');
    }
    Answer { text: text + &notes(remarks), status }
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

/// Why gpushare accepts it.
fn reason(request: &Request, policy: &Policy, database: &Database, acceptance: &Acceptance) -> String {
    if let Some((rule, why)) = acceptance.remarks.iter().find_map(let_pass) {
        return format!("it is against the rules ({rule}), but {why} lets it pass");
    }
    if request.exclusive {
        return "the job gets whole nodes, and limits count all GPUs of these nodes".to_owned();
    }
    if !Parsed::from(*request).may_use_gpus() {
        return "the job requests no GPUs".to_owned();
    }
    let typed =
        acceptance.remarks.iter().any(|remark| matches!(remark, Remark::Changed(Change::Type { .. })));
    let how = if typed { "would add the GPU type" } else { "allows these GPUs" };
    let accounting = &database;
    let Some(name) = qos(request, database) else {
        return match accounting.default_qos(request) {
            DefaultQos::OneOf(_) if request.qos.is_none() => {
                format!("each QOS that the job can get in this reservation {how}")
            }
            _ => "gpushare limits none of the QOSes that the job can have".to_owned(),
        };
    };
    let governed = accounting.qos_named(name).is_some_and(|qos| policy.governs(accounting, qos));
    let name = shown(name);
    if governed {
        format!("QOS '{name}' {how}")
    } else {
        format!("gpushare doesn't limit the GPUs of QOS '{name}'")
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
