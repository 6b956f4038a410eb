//! Whether Slurm's database, and slurmctld, have what gpushare.conf's `QOS=` lines say. It reads what `gpushare qos`
//! reads, and compares it by the same plan.

use std::path::Path;

use gpushare::text::print::counted;

use super::finding::Finding;
use super::fix::Fix;
use crate::qos::error::{MENDS, QosError};
use crate::qos::site::{self, Site};
use crate::qos::write;

const ABOUT: &str = "QOS";

/// The same for a site whose database can't be asked.
pub fn unknown(why: impl Into<String>) -> Finding {
    Finding::unknown(ABOUT, why)
}

/// Compares both.
pub fn finding(conf: Option<&Path>) -> Finding {
    compared(conf).unwrap_or_else(|error| unknown(error.to_string()))
}

fn compared(conf: Option<&Path>) -> Result<Finding, QosError> {
    let site = Site::read(conf)?;
    let mut mistakes = site.findings().into_iter().filter(|finding| finding.is_error);
    if let Some(mistake) = mistakes.next() {
        let more = mistakes.count();
        let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
        let said = format!("line {}: {}{more}", mistake.line, mistake.text);
        let first = if said.contains("AccountingStorageTRES") { "as it says; or " } else { "" };
        return Ok(Finding::wrong(ABOUT, said, format!("{first}gpushare.conf: correct the line")));
    }
    let plan = gpushare_qos::plan(&site.qoses, &site.actual, &site.cluster, None);
    if plan.changes.is_empty()
        && let Some(missed) = site::missed()?
    {
        return Ok(Finding::wrong(ABOUT, missed, MENDS));
    }
    let said = write::plan(&plan);
    let first = said.lines().next().unwrap_or_default();
    let pending = match (plan.changes.is_empty(), plan.obstacles.is_empty()) {
        (true, true) => {
            let lines = counted(site.qoses.len(), "line");
            return Ok(Finding::ok(
                ABOUT,
                match plan.leftovers.is_empty() {
                    true => format!("{lines}, and Slurm's database matches"),
                    false => format!("{lines}; {}", first.trim_start_matches("! ")),
                },
            ));
        }
        (true, false) => first.to_owned(),
        (false, _) => format!("{}: {first}", said.lines().last().unwrap_or_default()),
    };
    let fix = Fix::qos_apply().after("gpushare qos plan; if it shows what you want, ");
    Ok(Finding::wrong(ABOUT, pending, fix))
}
