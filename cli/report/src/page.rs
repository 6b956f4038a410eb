//! The report as one HTML file without scripts, fonts or pictures from elsewhere: for a phone, a wide screen and paper,
//! light and dark. Every text that comes from Slurm is escaped.

use gpushare_period::Period;
use gpushare_plot::{Band, Chart, PlotError, Rgb};
use gpushare_terminal::{Table, clean};

use super::groups::ANY;
use super::report::{OfType, OneGroup, Report};
use super::{sum, text};

/// How many steps of a plot's axis are one GPU.
const STEPS: u64 = 1000;
/// Kept, borrowed and lent; also in the style's classes.
const OF_GROUP: [Rgb; 3] = [(58, 122, 189), (217, 130, 43), (137, 189, 102)];
/// GPU types.
const OF_TYPE: [Rgb; 6] =
    [(58, 122, 189), (217, 130, 43), (137, 189, 102), (173, 106, 196), (196, 84, 94), (110, 150, 150)];
const REST: Rgb = (150, 150, 150);

const IDLE: &str = "<span><i class=\"idle\"></i>idle</span>";
/// Further groups have no plot in the report on all.
const PLOTS: usize = 16;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--faint:#5c6670;--line:#d5dae0;--idle:#e4e8ec}\
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ed;--paper:#14171a;--faint:#9aa5b1;--line:#343a41;--idle:#2d3339}}\
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:1200px;margin:0 auto;\
padding:1rem}\
h1{font-size:1.6rem;line-height:1.25;margin:.5rem 0;overflow-wrap:anywhere}\
h2{font-size:1.15rem;margin:2rem 0 .5rem;overflow-wrap:anywhere}\
p,li{max-width:75ch}.faint,li{color:var(--faint)}li{overflow-wrap:anywhere}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem}\
th,td{padding:.25rem .7rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}\
th{color:var(--faint);font-weight:600;font-size:.8rem}.word{text-align:left}th:first-child,td:first-child{padding-left:0}\
.bar{display:flex;height:1rem;min-width:12rem;background:var(--idle);border-radius:3px;overflow:hidden}\
.bars{display:grid;grid-template-columns:minmax(0,max-content) minmax(8rem,1fr);gap:.4rem 1rem;align-items:center;margin-bottom:1rem}\
.bars span{overflow-wrap:anywhere;font-size:.9rem}\
.key span{display:inline-block;margin-right:1.2rem}.key i{display:inline-block;width:.8rem;height:.8rem;\
border-radius:2px;margin-right:.4rem;vertical-align:-1px}.idle{background:var(--idle)}\
.key .line{height:.15rem;vertical-align:.25rem;background:var(--ink)}\
.plot svg{display:block;width:100%;min-width:620px;height:auto}.plot svg text{fill:var(--ink);font-family:inherit}\
.plot svg polyline,.plot svg line{stroke:var(--ink)}\
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}\
@media print{:root{--ink:#000;--paper:#fff;--faint:#444;--line:#bbb;--idle:#e4e8ec;font-size:11px}body{max-width:none;font-size:11px}\
.wide{overflow:visible}.plot svg{min-width:0}section{break-inside:avoid}th,td{padding:.15rem .35rem}}";

/// The page.
///
/// # Errors
/// A plot can't be drawn.
pub fn html(report: &Report, is_of_some: bool) -> Result<String, PlotError> {
    let title = match report.groups.as_slice() {
        groups if is_of_some => {
            let names: Vec<String> = groups.iter().map(text::title_of).collect();
            format!("GPUs of {} on {}", names.join(", "), report.cluster)
        }
        _ => format!("GPUs of cluster {}", report.cluster),
    };
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{0}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{0}</h1>\n<p class=\"faint\">{1}. Time is in GPU-hours.</p>\n<p>{2}</p>\n",
        escaped(&title),
        escaped(&text::title(report)),
        escaped(&summary(report)),
    );
    if !is_of_some {
        out += &section("The cluster", &table(&text::gpus(report)));
        out += &section("GPUs in use", &cluster_plot(report)?);
    }
    if !report.groups.is_empty() {
        out += &section("Owned and used", &(key(IDLE) + &bars(report) + &table(&text::groups(report))));
    }
    out += &section("Users", &table(&text::users(report)));
    out += &section("Lent", &table(&text::loans(report)));
    let plotted = report.groups.iter().filter(|group| is_plotted(group));
    for group in plotted.take(if is_of_some { usize::MAX } else { PLOTS }) {
        out += &section(&text::title_of(group), &group_plot(group, report.period)?);
    }
    out += &section("Accounts, as sreport has them", &table(&text::accounts(report)));
    let remarks: String =
        text::said(report).iter().map(|one| format!("<li>{}</li>\n", escaped(one))).collect();
    out += &section("Notes", &format!("<ul>\n{remarks}</ul>\n"));
    Ok(out + "</body>\n</html>\n")
}

/// The report in a sentence.
fn summary(report: &Report) -> String {
    if let Some(all) = report.gpus.iter().find(|one| one.gpu_type == ANY) {
        let (allocated, reported) = (all.used.allocated, all.used.reported);
        let percent = percent(allocated, reported, 1);
        let [allocated, reported] = [allocated, reported].map(text::hours);
        return format!(
            "{allocated} of {reported} GPU-hours, {percent}, were allocated. {} jobs started.",
            report.jobs
        );
    }
    let of = |group: &OneGroup| {
        let sum = |of: fn(&OfType) -> u64| text::hours(group.types.iter().map(of).sum());
        let (used, owned) = (sum(|one| one.used), sum(|one| one.owned));
        format!("{} used {used} GPU-hours and owns {owned}.", text::title_of(group))
    };
    report.groups.iter().map(of).collect::<Vec<_>>().join(" ")
}

fn percent(part: u64, of: u64, digits: usize) -> String {
    format!("{:.digits$}%", part as f64 * 100.0 / of.max(1) as f64)
}

/// Text without characters that HTML gives a meaning.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            _ => out.push(c),
        }
    }
    out
}

fn section(title: &str, content: &str) -> String {
    match content {
        "" => String::new(),
        _ => format!("<section>\n<h2>{}</h2>\n{content}</section>\n", escaped(title)),
    }
}

fn table(table: &Table) -> String {
    if table.rows.is_empty() {
        return String::new();
    }
    let class = |at: usize| if at < table.numbers.start { " class=\"word\"" } else { "" };
    let cells = |name: &str, row: &[String]| -> String {
        let cell = |(at, word): (usize, &String)| format!("<{name}{}>{}</{name}>", class(at), escaped(word));
        (0..).zip(row).map(cell).collect()
    };
    // Capitals are for terminals.
    let head: Vec<String> = table.head.iter().map(|word| sentence(word)).collect();
    let rows: String = table.rows.iter().map(|row| format!("<tr>{}</tr>\n", cells("td", row))).collect();
    format!("<div class=\"wide\"><table>\n<tr>{}</tr>\n{rows}</table></div>\n", cells("th", &head))
}

fn sentence(word: &str) -> String {
    if ["GPU", "QOS"].contains(&word) {
        return word.to_owned();
    }
    let mut rest = word.chars();
    rest.next().into_iter().chain(rest.flat_map(char::to_lowercase)).collect()
}

fn color((red, green, blue): Rgb) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn key(last: &str) -> String {
    let [kept, borrowed, lent] = OF_GROUP.map(color);
    let one = |color: &str, word: &str| format!("<span><i style=\"background:{color}\"></i>{word}</span>");
    format!(
        "<p class=\"key\">{}{}{}{last}</p>\n",
        one(&kept, "used of its own"),
        one(&lent, "lent"),
        one(&borrowed, "borrowed"),
    )
}

/// What each group did with its GPUs, and behind that what it borrowed; the widest bar is the whole width.
fn bars(report: &Report) -> String {
    let sums = |group: &OneGroup| {
        let of = |sum: fn(&OfType) -> u64| group.types.iter().map(sum).sum::<u64>();
        [of(|one| one.used - one.borrowed), of(|one| one.lent), of(|one| one.idle), of(|one| one.borrowed)]
    };
    let widest = report.groups.iter().map(|group| sums(group).iter().sum::<u64>()).max().unwrap_or(0);
    if widest == 0 {
        return String::new();
    }
    let [kept, borrowed, lent] = OF_GROUP.map(color);
    let row = |group: &OneGroup| {
        let all = sums(group);
        let whole: u64 = all.iter().sum();
        let parts = all.into_iter().zip([kept.as_str(), lent.as_str(), "transparent", borrowed.as_str()]);
        let parts: String = parts
            .filter(|(sum, _)| *sum > 0)
            .map(|(sum, color)| {
                format!("<b style=\"width:{};background:{color}\"></b>", percent(sum, whole, 3))
            })
            .collect();
        format!(
            "<span>{}</span><div class=\"bar\" style=\"width:{};min-width:0\">{parts}</div>\n",
            escaped(&text::title_of(group)),
            percent(whole, widest, 3)
        )
    };
    format!("<div class=\"bars\">\n{}</div>\n", report.groups.iter().map(row).collect::<String>())
}

fn is_plotted(group: &OneGroup) -> bool {
    group.types.iter().any(|one| one.used + one.lent > 0)
}

/// How many GPUs a column has on average, in steps.
fn average(period: Period, at: usize, gpu_seconds: u64) -> i64 {
    let seconds = sum::begin(period, at + 1).saturating_sub(sum::begin(period, at));
    i64::try_from(gpu_seconds * STEPS / u64::from(seconds.max(1))).unwrap_or(0)
}

fn stacked(period: Period, at: usize, sums: impl Iterator<Item = (u64, Rgb)>) -> Vec<Band> {
    let mut low = 0;
    let band = |(sum, color)| {
        let high = low + average(period, at, sum);
        (std::mem::replace(&mut low, high), high, color)
    };
    sums.map(band).collect()
}

fn plot(columns: Vec<Vec<Band>>, limit: u64, period: Period) -> Result<String, PlotError> {
    let limit = i64::try_from(limit * STEPS).unwrap_or(0);
    let top = columns.iter().flatten().map(|(_, high, _)| *high).chain([limit]).max().unwrap_or(0);
    let chart = Chart {
        caption: String::new(),
        per_gpu: i64::try_from(STEPS).unwrap_or(1),
        top: top + top / 12 + 1,
        limit: Some(limit).filter(|limit| *limit > 0),
        columns,
    };
    let svg = gpushare_plot::svg(None, &[chart], period)?;
    Ok(format!("<div class=\"wide plot\">{svg}</div>\n"))
}

fn cluster_plot(report: &Report) -> Result<String, PlotError> {
    let colors = || OF_TYPE.into_iter().chain(std::iter::repeat(REST));
    let types = report.types.len().saturating_sub(1);
    let columns = (0..).zip(&report.columns).map(|(at, sums)| {
        let typed = sums.iter().take(types).copied();
        let untyped = sums.last().copied().unwrap_or(0).saturating_sub(typed.clone().sum());
        stacked(report.period, at, typed.zip(colors()).chain([(untyped, REST)]))
    });
    let all = report.gpus.iter().find(|one| one.gpu_type == ANY).map_or(0, |one| one.used.count);
    let keys = report.types.iter().take(types).zip(colors()).map(|(name, of)| {
        format!("<span><i style=\"background:{}\"></i>{}</span>", color(of), escaped(name))
    });
    let keys = format!("<p class=\"key\">{}{}</p>\n", keys.collect::<String>(), line("all GPUs", all));
    Ok(keys + &plot(columns.collect(), all, report.period)?)
}

fn group_plot(group: &OneGroup, period: Period) -> Result<String, PlotError> {
    let [kept, borrowed, lent] = OF_GROUP;
    let columns = (0..).zip(&group.columns).map(|(at, [own, more, others])| {
        // What it owns first, so that the line is between that and what it borrowed, if nothing is idle.
        stacked(period, at, [(*own, kept), (*others, lent), (*more, borrowed)].into_iter())
    });
    let owned: u64 = group.types.iter().map(|one| one.owned_gpus).sum();
    Ok(key(&line("owned", owned)) + &plot(columns.collect(), owned, period)?)
}

/// What the line in a plot is.
fn line(word: &str, number: u64) -> String {
    format!("<span><i class=\"line\"></i>{word}: {number}</span>")
}
