//! The report as text and as JSON.

use std::fmt::Write;

use gpushare::text::time;
use gpushare::word::Word;
use gpushare_terminal::clean;
use serde_json::{Value, json};

use crate::One;
use crate::decide::Step;

/// Without a rule there is nothing to say about a job; a run that changes something lists only what it did.
pub(crate) fn text(all: &[One], is_dry: bool) -> String {
    let mut out = String::new();
    for one in all {
        let (Some(rule), true) = (&one.rule, is_dry || one.step != Step::None) else { continue };
        let job = format!("job {} of {}", clean(&one.told.job.name), clean(&one.told.job.user));
        let done = match (&one.error, one.done, one.step) {
            (Some(error), ..) => format!("not {}: {}", one.what(), clean(error)),
            (None, Some(done), _) => done.to_owned(),
            (None, None, Step::None) => format!("{} of {} warnings", one.warned, rule.warn.len()),
            (None, None, Step::Over) => "over its limit".to_owned(),
            (None, None, _) => format!("would be {}", one.what()),
        };
        let _ = writeln!(out, "{job}: idle for {}, {rule}: {done}", time::text(one.idle));
    }
    out
}

pub(crate) fn object(node: &str, all: &[One], dry_run: bool) -> Value {
    json!({"node": node, "dry_run": dry_run, "jobs": all.iter().map(job).collect::<Value>()})
}

fn job(one: &One) -> Value {
    let (job, rule) = (&one.told.job, one.rule.as_ref());
    json!({
        "id": job.id,
        "job": job.name,
        "user": job.user,
        "qos": job.qos,
        "partition": job.partition,
        "idle": one.idle,
        "warn": rule.map(|rule| rule.warn.as_slice()).unwrap_or_default(),
        "limit": rule.map(|rule| rule.limit),
        "action": rule.map(|rule| rule.action.word()),
        "warned": one.warned,
        "step": match one.step {
            Step::None => "none",
            Step::Warn(_) => "warn",
            Step::Over => "over",
            Step::End(action) => action.word(),
        },
        "done": one.done,
        "error": one.error,
    })
}
