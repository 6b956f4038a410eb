//! GPUs held against the limit, over time: an SVG with a picture for each exceeded limit, the worst first.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::report::{Exceeded, OfLimit, Report};
use super::sweep::COLUMNS;
use gpushare_period::{Period, day};

/// Further ones are not drawn.
const MOST: usize = 16;
const WIDTH: u32 = 1000;
const HEIGHT: u32 = 190;
/// The hours between two times of the axis: the first of these that makes it at most eight.
const HOURS: [i64; 9] = [1, 2, 6, 12, 24, 48, 120, 240, 720];
const HELD: RGBColor = RGBColor(120, 160, 200);
const ABOVE: RGBColor = RGBColor(200, 40, 40);
const POSSIBLE: RGBColor = RGBColor(225, 170, 80);

/// plotters' error.
pub type PlotError = DrawingAreaErrorKind<std::io::Error>;

/// The text of the file, and how many limits it omits.
///
/// # Errors
/// Drawing failed, for example because the machine has no font.
pub fn svg(report: &Report) -> Result<(String, usize), PlotError> {
    let all = report.limits.iter().flat_map(|limit| limit.over.iter().map(move |over| (limit, over)));
    let all: Vec<_> = all.filter(|(_, over)| !over.columns.is_empty()).collect();
    let shown: Vec<_> = all.iter().take(MOST).copied().collect();
    let rows = shown.len().max(1);
    let height = HEIGHT * u32::try_from(rows).unwrap_or(1) + 30;
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        draw(&root, &shown, report)?;
        root.present()?;
    }
    // For screen readers.
    let named = " role=\"img\">\n<title>GPUs held under each exceeded limit, over time</title>";
    let text = text.replacen('>', named, 1);
    Ok((text, all.len() - shown.len()))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw(root: &Area, shown: &[(&OfLimit, &Exceeded)], report: &Report) -> Result<(), PlotError> {
    root.fill(&WHITE)?;
    let (start, end) = (gpushare_period::text(report.period.start), gpushare_period::text(report.period.end));
    let title = match shown {
        [] => "no limit on a GPU type was exceeded".to_owned(),
        _ => "GPUs held: within the limit (blue), above it (red), possibly held (orange)".to_owned(),
    };
    let title = format!("{}, {start} to {end}: {title}", report.cluster);
    let style = ("sans-serif", 17).into_font().color(&BLACK);
    root.draw(&Text::new(title, (12, 8), style))?;
    let (_, rest) = root.split_vertically(30);
    let rows = rest.split_evenly((shown.len().max(1), 1));
    shown.iter().zip(&rows).try_for_each(|((limit, over), area)| one(area, limit, over, report.period))
}

fn times(end: i64) -> Vec<i64> {
    let steps = HOURS.map(|hours| hours * 3600).into_iter();
    let step = steps.clone().find(|step| end / step < 8).or(steps.last()).unwrap_or(end);
    (0..end).step_by(usize::try_from(step).unwrap_or(1)).collect()
}

fn one(area: &Area, limit: &OfLimit, over: &Exceeded, period: Period) -> Result<(), PlotError> {
    let columns = &over.columns;
    let top = columns.iter().map(|(_, most)| *most).chain([limit.limit]).max().unwrap_or(1) + 1;
    let of = over.of.as_ref().map(|name| format!(" of '{name}'")).unwrap_or_default();
    let name = format!("{}{of}: {:.1} GPU-hours above", limit.name(), over.certain.gpu_hours_above);
    let end = i64::from(period.seconds().max(1));
    let mut chart = ChartBuilder::on(area)
        .caption(name, ("sans-serif", 16))
        .margin(8)
        .margin_right(36)
        .x_label_area_size(28)
        .y_label_area_size(40)
        .build_cartesian_2d((0..end).with_key_points(times(end)), 0..i64::from(top))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .y_labels(5)
        .x_labels(10)
        .x_label_formatter(&|at| day(period.start.saturating_add(u32::try_from(*at).unwrap_or(0))))
        .x_label_style(("sans-serif", 14))
        .y_label_style(("sans-serif", 14).with_anchor::<RGBColor>(Pos::new(HPos::Right, VPos::Center)))
        .draw()?;
    let at = |place: usize| i64::try_from(place).unwrap_or(0) * end / i64::try_from(COLUMNS).unwrap_or(1);
    let most = i64::from(limit.limit);
    // Adjacent columns of the same height become one box.
    let mut place = 0;
    for run in columns.chunk_by(|a, b| a == b) {
        let (from, to) = (at(place), at(place + run.len()));
        place += run.len();
        let (sure, could) = run.first().map_or((0, 0), |(sure, most)| (i64::from(*sure), i64::from(*most)));
        let boxes = [(0, sure.min(most), HELD), (most.min(sure), sure, ABOVE), (sure, could, POSSIBLE)];
        let boxes = boxes.into_iter().filter(|(low, high, _)| low < high);
        let rectangle = |(low, high, colour): (i64, i64, RGBColor)| {
            Rectangle::new([(from, low), (to, high)], colour.filled())
        };
        chart.draw_series(boxes.map(rectangle))?;
    }
    chart.draw_series(LineSeries::new([(0, most), (end, most)], BLACK.stroke_width(2)))?;
    Ok(())
}
