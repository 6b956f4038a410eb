//! The plot: a row a trace, a panel a measure, a sign a policy; SVG that follows the reader's light or dark mode.

use std::fmt::Write;

use crate::Outcome;
use crate::figures::{Measure, quantile};
use crate::policy::Policy;
use crate::report::values;

/// What is measured, its title, and a second line.
const PANELS: [(Measure, &str, &str); 3] = [
    (Measure::Imbalance, "imbalance", "% of a GPU"),
    (Measure::Total, "time lost", "by waiting and slowdown, %"),
    (Measure::MemoryOver, "beyond the memory", "starts per 1000"),
];
const LEFT: f64 = 180.0;
const PANEL: f64 = 225.0;
/// What of a panel's width is its scale; the rest is for the number at its end.
const SCALE: f64 = 165.0;
const TOP: f64 = 100.0;
/// Where the panels' titles are.
const TITLES: f64 = 70.0;
/// A row of the legend has four policies.
const LEGEND: (usize, f64, f64) = (4, 212.0, 22.0);
const ROW: f64 = 26.0;

const STYLE: &str = "<style>
text { font: 12px sans-serif; fill: #333 }
.small { font-size: 11px; fill: #666 }
.line { stroke: #ccc; stroke-width: 1 }
.ours { stroke: #0b62c4; fill: #0b62c4 }
.slurm { stroke: #c2570c; fill: #c2570c }
.other { stroke: #777; fill: #777 }
.hollow { fill: none; stroke-width: 1.6 }
@media (prefers-color-scheme: dark) {
text { fill: #ddd } .small { fill: #999 } .line { stroke: #444 }
.ours { stroke: #6db3ff; fill: #6db3ff } .slurm { stroke: #ff9d5c; fill: #ff9d5c } .other { stroke: #999; fill: #999 }
.hollow { fill: none } }
</style>";

/// The picture as a text. What no site can have is left out.
pub fn svg(outcomes: &[Outcome]) -> String {
    let height = TOP + ROW * outcomes.len() as f64 + 10.0;
    let width = LEFT + PANEL * PANELS.len() as f64;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
         <title>Policies compared on {} traces: further left is better</title>\n{STYLE}\n",
        outcomes.len()
    );
    legend(&mut text);
    for (column, (measure, title, more)) in PANELS.iter().enumerate() {
        let left = LEFT + PANEL * column as f64;
        let _ = writeln!(text, "<text x=\"{left}\" y=\"{TITLES}\">{title}</text>");
        let _ = writeln!(text, "<text class=\"small\" x=\"{left}\" y=\"{}\">{more}</text>", TITLES + 16.0);
        for (row, outcome) in outcomes.iter().enumerate() {
            let y = TOP + ROW * (row as f64 + 0.5);
            strip(&mut text, outcome, *measure, (left, y));
        }
    }
    for (row, outcome) in outcomes.iter().enumerate() {
        let y = TOP + ROW * (row as f64 + 0.5) + 4.0;
        let _ = writeln!(text, "<text x=\"4\" y=\"{y}\">{}</text>", outcome.kind.name());
    }
    text + "</svg>\n"
}

fn shown() -> impl Iterator<Item = Policy> {
    Policy::ALL.into_iter().filter(|policy| *policy != Policy::SpreadWaiting)
}

fn legend(text: &mut String) {
    let (columns, wide, high) = LEGEND;
    for (at, policy) in shown().enumerate() {
        let (x, y) = (10.0 + wide * (at % columns) as f64, 14.0 + high * (at / columns) as f64);
        sign(text, policy, x, y);
        let _ = writeln!(text, "<text x=\"{}\" y=\"{}\">{}</text>", x + 10.0, y + 4.0, policy.name());
    }
    let _ =
        writeln!(text, "<text class=\"small\" x=\"4\" y=\"{TITLES}\">left: none, right: the worst</text>");
}

/// One trace and measure: from nothing to the worst policy's median, whose number is at the end.
fn strip(text: &mut String, outcome: &Outcome, measure: Measure, (left, y): (f64, f64)) {
    let value = |policy: Policy| {
        let (_, runs) = outcome.runs.iter().find(|(of, _)| *of == policy)?;
        let median = quantile(&values(runs, measure), 0.5);
        Some(if measure == Measure::Total { 100.0 * (median - 1.0) } else { median })
    };
    let worst = shown().filter_map(value).fold(0.0, f64::max);
    let right = left + SCALE;
    let _ = writeln!(text, "<path class=\"line\" d=\"M{left} {y}H{right}\"/>");
    // The first ones last, so that gpushare lies on top.
    let policies: Vec<Policy> = shown().collect();
    for policy in policies.into_iter().rev() {
        let part = value(policy).map_or(0.0, |value| if worst > 0.0 { value / worst } else { 0.0 });
        sign(text, policy, left + SCALE * part, y);
    }
    let _ =
        writeln!(text, "<text class=\"small\" x=\"{}\" y=\"{}\">{worst:.1}</text>", right + 12.0, y + 3.5);
}

fn sign(text: &mut String, policy: Policy, x: f64, y: f64) {
    let (class, shape) = match policy {
        Policy::Spread => ("ours", format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\"")),
        Policy::SpreadUnmeasured => ("ours hollow", format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\"")),
        Policy::Pack | Policy::SpreadWaiting => {
            ("ours hollow", format!("<path d=\"M{x:.1} {:.1}l5 9h-10z\"", y - 5.0))
        }
        Policy::LeastLoaded => ("slurm", square(x, y)),
        Policy::FirstFit => ("slurm hollow", square(x, y)),
        Policy::FewestJobs => ("other hollow", format!("<path d=\"M{x:.1} {:.1}l5 5l-5 5l-5-5z\"", y - 5.0)),
        Policy::RoundRobin => {
            ("other hollow", format!("<path d=\"M{:.1} {:.1}l8 8m0-8l-8 8\"", x - 4.0, y - 4.0))
        }
        Policy::Random => ("other hollow", format!("<path d=\"M{:.1} {y:.1}h10m-5-5v10\"", x - 5.0)),
    };
    let _ = writeln!(text, "{shape} class=\"{class}\"/>");
}

fn square(x: f64, y: f64) -> String {
    format!("<rect x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\"", x - 4.0, y - 4.0)
}
