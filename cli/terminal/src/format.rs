//! How to print a report, as options of a command.

use clap::Args;
use serde::Serialize;

use crate::json;

/// How to print a report; without either for people.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Format {
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV
    #[arg(long)]
    csv: bool,
}

impl Format {
    /// The report as text.
    pub fn text<R: Serialize>(self, report: &R, lines: fn(&R) -> String, csv: fn(&R) -> String) -> String {
        match (self.csv, self.json) {
            (true, _) => csv(report),
            (_, true) => json::text(report),
            _ => lines(report),
        }
    }
}
