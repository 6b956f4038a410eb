//! GPUs held against the limit, over time: an SVG with a picture for each exceeded limit, the worst first.

use gpushare_plot::{Chart, PlotError, Rgb};
use gpushare_terminal::clean;

use super::limits::Limit;
use super::report::{Exceeded, Report};

/// Further ones are not drawn.
const MOST: usize = 16;
const KEY: &str = "GPUs held: within the limit (blue), above it (red), possibly held (orange)";
const HELD: Rgb = (120, 160, 200);
const ABOVE: Rgb = (200, 40, 40);
const POSSIBLE: Rgb = (225, 170, 80);

/// The text of the file.
///
/// # Errors
/// Drawing failed, for example because the machine has no font.
pub fn svg(report: &Report) -> Result<String, PlotError> {
    let all = report.limits.iter().flat_map(|limit| limit.over.iter().map(move |over| (&limit.limit, over)));
    let all: Vec<_> = all.filter(|(_, over)| !over.columns.is_empty()).collect();
    let shown: Vec<Chart> = all.iter().take(MOST).map(|(limit, over)| chart(limit, over)).collect();
    let (start, end) = (gpushare_period::text(report.period.start), gpushare_period::text(report.period.end));
    let title = match all.len().saturating_sub(MOST) {
        _ if all.is_empty() => "no limit on a GPU type was exceeded".to_owned(),
        0 => KEY.to_owned(),
        more => format!("{KEY}; without {more} more limits"),
    };
    let title = format!("{}, {start} to {end}: {title}", report.cluster);
    let text = gpushare_plot::svg(Some(&title), &shown, report.period)?;
    // For screen readers.
    let named = " role=\"img\">\n<title>GPUs held under each exceeded limit, over time</title>";
    Ok(text.replacen('>', named, 1))
}

fn chart(limit: &Limit, over: &Exceeded) -> Chart {
    // A coordinator may have named an account with characters that no XML may have.
    let of = over.of.as_ref().map(|name| format!(" of '{}'", clean(name))).unwrap_or_default();
    let top = over.columns.iter().map(|(_, most)| *most).chain([limit.limit]).max().unwrap_or(1) + 1;
    let most = i64::from(limit.limit);
    let bands = |(sure, could): &(u32, u32)| {
        let (sure, could) = (i64::from(*sure), i64::from(*could));
        vec![(0, sure.min(most), HELD), (most.min(sure), sure, ABOVE), (sure, could, POSSIBLE)]
    };
    Chart {
        caption: format!("{}{of}: {:.1} GPU-hours above", limit.name(), over.certain.gpu_hours_above),
        per_gpu: 1,
        top: i64::from(top),
        limit: Some(most),
        columns: over.columns.iter().map(bands).collect(),
    }
}
