//! Prints a plan as a diff for people.

use std::fmt::Write as _;
use std::io::Write as _;

use gpushare::text::print::counted;
use gpushare_qos::change::Sign;
use gpushare_qos::{Change, Finding, Plan};

use super::site::Site;

/// The text if the file and the database agree.
pub const NOTHING: &str = "= nothing to do\n";

/// The plan's text.
pub fn plan(plan: &Plan) -> String {
    let mut text: String = plan.changes.iter().map(Change::text).collect();
    text.push_str(&leftovers(plan));
    if plan.changes.is_empty() {
        return text + NOTHING;
    }
    let count = |sign| {
        plan.changes.iter().flat_map(|change| &change.lines).filter(|(other, _)| *other == sign).count()
    };
    let counts = [(Sign::Add, "to add"), (Sign::Change, "to change"), (Sign::Remove, "to remove")];
    let counts = counts.map(|(sign, words)| (count(sign), words)).into_iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, words)| format!("{count} {words}")).collect();
    let _ = writeln!(text, "{}, in {}", counts.join(", "), counted(plan.changes.len(), "step"));
    text
}

/// Who loses something: repeated at the end, since a long plan hides it.
pub fn taken(plan: &Plan) -> String {
    let lines = plan.changes.iter().flat_map(|change| &change.lines);
    let taken: String =
        lines.filter(|(sign, _)| *sign == Sign::Remove).map(|(_, line)| format!("- {line}\n")).collect();
    if taken.is_empty() { taken } else { format!("\nThis removes:\n{taken}\n") }
}

/// A change that has been made, and how many are done.
pub fn progress(change: &Change, done: usize, all: usize) -> String {
    if all == 1 {
        return change.text();
    }
    change.text().lines().map(|line| format!("{done}/{all} {line}\n")).collect()
}

/// What should be removed but stays.
pub fn leftovers(plan: &Plan) -> String {
    let mut text: String = plan.obstacles.iter().map(|obstacle| format!("! {obstacle}\n")).collect();
    for leftover in &plan.leftovers {
        let qos = &leftover.qos;
        let _ = match &leftover.used {
            None => write!(text, "! qos {qos} is no longer in the file; --prune removes it"),
            Some(used) => write!(text, "! qos {qos} is no longer in the file, but {used} and stays"),
        };
        let has_jobs = leftover.used.as_ref().is_none_or(|used| used.jobs > 0);
        let waiting = if leftover.is_burst && has_jobs {
            "; jobs that wait under it never start: scancel them, or scontrol update job=ID qos=QOS"
        } else {
            ""
        };
        let _ = writeln!(text, "{waiting}");
    }
    text
}

/// Prints what is wrong or odd, and the old names, on standard error, so that the plan can be saved.
pub fn remarks(site: &Site, findings: &[Finding]) {
    let path = site.path.display();
    let mut stderr = std::io::stderr().lock();
    for managed in &site.qoses {
        for old in &managed.old_names {
            let _ = writeln!(stderr, "gpushare: {path}: line {}: {old}", managed.line);
        }
    }
    for Finding { line, is_error, text } in findings {
        let warning = if *is_error { "" } else { "warning: " };
        let _ = writeln!(stderr, "gpushare: {path}: line {line}: {warning}{text}");
    }
}

#[cfg(test)]
mod tests {
    use gpushare_qos::Leftover;
    use gpushare_qos::plan::Use;

    use super::*;

    #[test]
    fn jobs_that_wait_under_what_was_lent_are_told() {
        let said = |is_burst, jobs: Option<usize>| {
            let used = jobs.map(|jobs| Use { jobs, preempted_by: Some("x".to_owned()), ..Use::default() });
            leftovers(&Plan {
                leftovers: vec![Leftover { qos: "q".to_owned(), used, is_burst }],
                ..Plan::default()
            })
        };
        let waiting =
            "; jobs that wait under it never start: scancel them, or scontrol update job=ID qos=QOS\n";
        let asked = "! qos q is no longer in the file; --prune removes it";
        assert_eq!(said(true, None), format!("{asked}{waiting}"));
        assert_eq!(said(false, None), format!("{asked}\n"));
        let stays = "! qos q is no longer in the file, but has 2 jobs and is preempted by qos x and stays";
        assert_eq!(said(true, Some(2)), format!("{stays}{waiting}"));
        assert!(said(true, Some(0)).ends_with(" x and stays\n"));
    }
}
