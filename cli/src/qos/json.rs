//! A plan as a JSON object. Decides nothing.

use gpushare_qos::change::Sign;
use gpushare_qos::{Leftover, Plan};
use serde_json::{Value, json};

/// The plan, and what slurmctld has missed.
pub fn plan(plan: &Plan, missed: Option<&str>) -> Value {
    let changes = (1..).zip(&plan.changes).flat_map(|(step, change)| {
        let line =
            move |(sign, what): &(Sign, String)| json!({"step": step, "action": sign.word(), "what": what});
        change.lines.iter().map(line)
    });
    let leftover =
        |one: &Leftover| json!({"qos": one.qos, "used": one.used.as_ref().map(ToString::to_string)});
    json!({
        "changes": changes.collect::<Value>(),
        "stays": plan.obstacles.iter().map(ToString::to_string).collect::<Value>(),
        "leftovers": plan.leftovers.iter().map(leftover).collect::<Value>(),
        "slurmctld_missed": missed,
    })
}
