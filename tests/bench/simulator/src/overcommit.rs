//! The table of several nodes: how many starts overcommit a GPU, and how many of them needn't, by who picks the GPU, in
//! which order Slurm takes nodes, and how often a job may go back.

use std::fmt::Write;

use gpushare_node::config::Packing;

use crate::cluster::{GPUS, Order, Site, Starts, simulate};
use crate::figures::quantile;
use crate::openb;

/// How often a job may go back.
const RETURNS: [usize; 4] = [0, 1, 3, 7];
const LOADS: [f64; 3] = [0.6, 0.8, 0.9];
/// How many nodes, and the sizes up to which shares are rounded, if they are.
const NODES: [(usize, &[u32]); 4] = [(1, &[]), (2, &[]), (8, &[]), (8, &[250, 500, 1000])];
const ORDERS: [(Order, &str); 4] = [
    (Order::Index, "in order"),
    (Order::FewestCpus, "LLN"),
    (Order::FewestUnits, "fewest units"),
    (Order::MostRoom, "most room"),
];
/// Slurm's with `LL_SHARED_GRES`, which spreads.
const PICKERS: [(&str, Packing, bool); 3] =
    [("spread", Packing::Spread, false), ("pack", Packing::Pack, false), ("follow", Packing::Spread, true)];
/// A column's name, what is in it, and its digits.
type Column = (&'static str, fn(&Starts) -> f64, usize);
const MEASURES: [Column; 4] = [
    ("avoidable", Starts::avoidable, 1),
    ("overcommitted", Starts::overcommitted, 1),
    ("went back", Starts::returned, 0),
    ("total", Starts::total, 3),
];

/// The whole table: medians over the seeds.
///
/// # Errors
/// A run broke a rule.
pub fn table(jobs: usize, seeds: u64) -> Result<String, String> {
    let mut text = format!("{:<21}", "nodes");
    for (name, _, _) in MEASURES {
        let _ = write!(text, "{:>7}{name:<17}", "");
    }
    text.truncate(text.trim_end().len());
    let _ = write!(text, "\nload GPU    node     ");
    for _ in MEASURES {
        for returns in RETURNS {
            let name = if returns == 0 { "allow".to_owned() } else { format!("N={returns}") };
            let _ = write!(text, "{name:>6}");
        }
    }
    for (nodes, sizes) in NODES {
        let _ = write!(text, "\n{nodes}");
        if !sizes.is_empty() {
            let _ = write!(text, ", sizes rounded up to {sizes:?}");
        }
        for load in LOADS {
            for (picker, packing, follow) in PICKERS {
                // With one node there is no order, and under `follow` it hardly matters.
                let orders = ORDERS.iter().take(if nodes == 1 || follow { 1 } else { ORDERS.len() });
                for (order, name) in orders {
                    let site =
                        Site { nodes, units: openb::UNITS, order: *order, packing, follow, returns: 0 };
                    let _ = write!(text, "\n{load:<4} {picker:<6} {name:<12}");
                    text.push_str(&row(site, (load, sizes), jobs, seeds)?);
                    text.truncate(text.trim_end().len());
                }
            }
        }
    }
    Ok(text)
}

fn row(site: Site, (load, sizes): (f64, &[u32]), jobs: usize, seeds: u64) -> Result<String, String> {
    let run = |returns: usize| {
        let run = |seed| {
            let drawn = openb::rounded(openb::draw(jobs, seed, site.nodes * GPUS, load), sizes);
            simulate(&drawn, Site { returns, ..site })
                .map_err(|broken| format!("{site:?}, N={returns}, load {load}, seed {seed}: {broken:?}"))
        };
        (1..=seeds).map(run).collect::<Result<Vec<_>, _>>()
    };
    // With one other node there is one way back, and under `follow` no reason to take it.
    let ways = if site.follow { 0 } else { site.nodes - 1 };
    let different = RETURNS.iter().filter(|returns| **returns <= ways);
    let runs = different.map(|returns| run(*returns)).collect::<Result<Vec<_>, _>>()?;
    let mut text = String::new();
    for (_, measure, digits) in MEASURES {
        for at in 0..RETURNS.len() {
            let cell = runs.get(at).map_or(String::new(), |starts| {
                let values: Vec<f64> = starts.iter().map(measure).collect();
                format!("{:.digits$}", quantile(&values, 0.5))
            });
            let _ = write!(text, "{cell:>6}");
        }
    }
    Ok(text)
}
