//! GPUs over a period as an SVG: charts one below the other, each with bands and a limit. It knows no jobs and no
//! limits' names; `gpushare leaks` and `report` give it numbers.
#![forbid(unsafe_code)]

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use gpushare_period::{Period, day};

const WIDTH: u32 = 1000;
const HEIGHT: u32 = 190;
const TITLE: u32 = 30;
/// The hours between two times of the axis: the first of these that makes it at most eight.
const HOURS: [i64; 9] = [1, 2, 6, 12, 24, 48, 120, 240, 720];

/// Red, green, blue.
pub type Rgb = (u8, u8, u8);
/// From where to where on the vertical axis.
pub type Band = (i64, i64, Rgb);

/// plotters' error.
pub type PlotError = DrawingAreaErrorKind<std::io::Error>;

/// One picture.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// The text above it, if it has one.
    pub caption: String,
    /// How many steps of the vertical axis are one GPU.
    pub per_gpu: i64,
    /// The height of the axis.
    pub top: i64,
    /// A line for a limit.
    pub limit: Option<i64>,
    /// Equal parts of the period, each with its bands.
    pub columns: Vec<Vec<Band>>,
}

/// The text of the file. One with a title has a white background; one without is a part of a page.
///
/// # Errors
/// Drawing failed, for example because the machine has no font.
pub fn svg(title: Option<&str>, charts: &[Chart], period: Period) -> Result<String, PlotError> {
    let rows = charts.len().max(1);
    let above = title.map_or(0, |_| TITLE);
    let height = HEIGHT * u32::try_from(rows).unwrap_or(1) + above;
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        if let Some(title) = title {
            root.fill(&WHITE)?;
            let style = ("sans-serif", 17).into_font().color(&BLACK);
            root.draw(&Text::new(title, (12, 8), style))?;
        }
        let (_, rest) = root.split_vertically(above);
        let areas = rest.split_evenly((rows, 1));
        charts.iter().zip(&areas).try_for_each(|(chart, area)| one(area, chart, period))?;
        root.present()?;
    }
    Ok(text)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn times(end: i64) -> Vec<i64> {
    let steps = HOURS.map(|hours| hours * 3600).into_iter();
    let step = steps.clone().find(|step| end / step < 8).or(steps.last()).unwrap_or(end);
    (0..end).step_by(usize::try_from(step).unwrap_or(1)).collect()
}

fn one(area: &Area, of: &Chart, period: Period) -> Result<(), PlotError> {
    let end = i64::from(period.seconds().max(1));
    let mut builder = ChartBuilder::on(area);
    if !of.caption.is_empty() {
        builder.caption(&of.caption, ("sans-serif", 16));
    }
    let mut chart = builder
        .margin(8)
        .margin_right(36)
        .x_label_area_size(28)
        .y_label_area_size(40)
        .build_cartesian_2d((0..end).with_key_points(times(end)), 0..of.top.max(1))?;
    let gpus = |at: &i64| match of.per_gpu {
        0 | 1 => at.to_string(),
        // No axis has more digits than fit.
        steps => format!("{}", (at * 100 / steps) as f64 / 100.0),
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .y_labels(5)
        .x_labels(10)
        .x_label_formatter(&|at| day(period.start.saturating_add(u32::try_from(*at).unwrap_or(0))))
        .y_label_formatter(&gpus)
        .x_label_style(("sans-serif", 14))
        .y_label_style(("sans-serif", 14).with_anchor::<RGBColor>(Pos::new(HPos::Right, VPos::Center)))
        .draw()?;
    let all = i64::try_from(of.columns.len().max(1)).unwrap_or(1);
    let at = |place: usize| i64::try_from(place).unwrap_or(0) * end / all;
    // Adjacent columns of the same height become one box.
    let mut place = 0;
    for run in of.columns.chunk_by(|a, b| a == b) {
        let (from, to) = (at(place), at(place + run.len()));
        place += run.len();
        let bands = run.first().into_iter().flatten().filter(|(low, high, _)| low < high);
        let rectangle = |(low, high, (red, green, blue)): &Band| {
            Rectangle::new([(from, *low), (to, *high)], RGBColor(*red, *green, *blue).filled())
        };
        chart.draw_series(bands.map(rectangle))?;
    }
    if let Some(limit) = of.limit {
        chart.draw_series(LineSeries::new([(0, limit), (end, limit)], BLACK.stroke_width(2)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_columns_of_one_height_are_one_box() {
        let band = |high| vec![(0, high, (1, 2, 3))];
        let chart = Chart {
            caption: "a <b>".into(),
            per_gpu: 1,
            top: 9,
            limit: Some(4),
            columns: vec![band(2), band(2), band(3), Vec::new()],
        };
        let period = Period { start: 0, end: 7200 };
        let text = svg(None, std::slice::from_ref(&chart), period).unwrap();
        assert_eq!(text.matches("fill=\"#010203\"").count(), 2, "{text}");
        assert!(text.contains("a &lt;b&gt;") && !text.contains("#FFFFFF"), "{text}");
        assert!(svg(Some("t"), &[chart], period).unwrap().contains("#FFFFFF"));
    }
}
