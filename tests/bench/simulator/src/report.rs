//! The table: for each trace and policy the median over seeds, half the distance of its quartiles, and whether gpushare
//! was ahead.

use std::fmt::Write;

use crate::Outcome;
use crate::figures::{Figures, Measure, quantile};
use crate::policy::Policy;

/// How many of the seeds must agree for one to be ahead of the other.
const AGREEING: f64 = 0.75;

/// gpushare beside another policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// gpushare is better.
    Ahead,
    /// gpushare is worse.
    Behind,
    /// Neither, on most seeds.
    Neither,
}

/// The whole table.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut text = format!("{:<27}", "");
    for measure in Measure::ALL {
        let _ = write!(text, "{:>15}", measure.name());
    }
    for outcome in outcomes {
        let _ = write!(text, "\n{}\n", outcome.kind.name());
        let ours = outcome.runs.iter().find(|(policy, _)| *policy == Policy::Spread);
        for (policy, runs) in &outcome.runs {
            let _ = write!(text, "  {:<25}", policy.name());
            for measure in Measure::ALL {
                let mark = ours.map_or(Mark::Neither, |(_, ours)| compare(ours, runs, measure));
                let _ = write!(text, "{}", cell(runs, measure, mark));
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        text.truncate(text.trim_end().len());
    }
    text
}

fn cell(runs: &[Figures], measure: Measure, mark: Mark) -> String {
    let values = values(runs, measure);
    let spread = (quantile(&values, 0.75) - quantile(&values, 0.25)) / 2.0;
    let digits =
        if matches!(measure, Measure::Slowdown | Measure::Slowdown95 | Measure::Total) { 3 } else { 1 };
    let mark = match mark {
        Mark::Ahead => '+',
        Mark::Behind => '-',
        Mark::Neither => ' ',
    };
    format!("{:>8.digits$} \u{b1}{spread:<4.digits$}{mark}", quantile(&values, 0.5), digits = digits)
}

/// One measure of every seed.
pub fn values(runs: &[Figures], measure: Measure) -> Vec<f64> {
    runs.iter().map(|run| run.of(measure)).collect()
}

/// Seed by seed, since a trace differs more from another than policies do.
pub fn compare(ours: &[Figures], others: &[Figures], measure: Measure) -> Mark {
    let pairs = || ours.iter().zip(others).map(|(ours, other)| other.of(measure) - ours.of(measure));
    let most = AGREEING * ours.len() as f64;
    if pairs().filter(|more| *more > 1e-9).count() as f64 >= most {
        Mark::Ahead
    } else if pairs().filter(|more| *more < -1e-9).count() as f64 >= most {
        Mark::Behind
    } else {
        Mark::Neither
    }
}
