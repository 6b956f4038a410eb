//! `gpushare status`: GPUs, what is assigned of them, and to whom; of this node, or of the cluster.
//!
//! Gather (`here`, `cluster`) → print (`write`, `json`, `cluster::write`), once or again and again (`watch`).

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

pub(crate) mod cluster;
pub mod columns;
mod json;
pub(crate) mod local;
mod watch;
mod write;

pub(crate) use cluster::{collected, is_usable};
use columns::Line;

/// The command line of `gpushare status`.
#[derive(Args, Clone)]
#[command(group = clap::ArgGroup::new("several").args(["parsable", "nodes"]).multiple(true))]
#[command(
    after_help = "Exit status: 0, or 1 if the ledger can't be read, or with --nodes if Slurm can't be asked."
)]
pub struct Arguments {
    /// The nodes of the cluster that have shares, or these of them, as Slurm counts; as anybody, on any machine
    #[arg(long, value_name = "HOSTLIST", num_args = 0..=1, default_missing_value = "")]
    nodes: Option<String>,
    /// With --nodes: read DIR/NODE.json, what gpushare status --json has said on the nodes, for what Slurm doesn't know
    #[arg(long, value_name = "DIR", requires = "nodes")]
    collected: Option<PathBuf>,
    /// Look again every so many seconds until q or Ctrl-C, on a terminal [default: 2, with --nodes 10]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "0", conflicts_with_all = ["json", "parsable"])]
    watch: Option<u32>,
    /// One line a job and GPU (with --nodes: a node), fields separated by '|', with a header line; times in seconds since 1970
    #[arg(long, short = 'P', conflicts_with = "json")]
    parsable: bool,
    /// With --parsable or --nodes: one line a GPU instead
    #[arg(long, requires = "several")]
    gpus: bool,
    /// All of it as one JSON object
    #[arg(long)]
    json: bool,
    /// Colours: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Color::Auto, hide_default_value = true, hide_possible_values = true)]
    color: Color,
    /// The node's rules [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]
    #[arg(long, value_name = "PATH")]
    conf: Option<PathBuf>,
}

/// When there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

/// What a look has seen.
struct Look {
    lines: Vec<Line>,
    /// What could not be read.
    complaints: Vec<String>,
}

pub fn run(arguments: &Arguments) -> Result<String, String> {
    let colour = colours(arguments.color);
    if let Some(seconds) = arguments.watch {
        let interval = match (seconds, &arguments.nodes) {
            (0, None) => 2,
            (0, Some(_)) => 10,
            (seconds, _) => seconds,
        };
        let arguments = arguments.clone();
        let look = move || look(&arguments);
        return watch::run(Duration::from_secs(interval.into()), colour, look).map(|()| String::new());
    }
    if let Some(hosts) = &arguments.nodes {
        let cluster = cluster::gather(hosts, arguments.collected.as_deref(), arguments.conf.as_deref())?;
        complain(&cluster.complaints);
        return match (arguments.json, arguments.parsable) {
            (true, _) => crate::json::text(&cluster),
            (_, true) if arguments.gpus => Ok(cluster::write::parsable_gpus(&cluster)),
            (_, true) => Ok(cluster::write::parsable_nodes(&cluster)),
            (..) => Ok(columns::text(&cluster::write::lines(&cluster, arguments.gpus), colour)),
        };
    }
    let status = local::gather(arguments.conf.as_deref())?;
    complain(&status.complaints);
    match (arguments.json, arguments.parsable) {
        (true, _) => json::text(&status),
        (_, true) if arguments.gpus => Ok(write::parsable_gpus(&status)),
        (_, true) => Ok(write::parsable_jobs(&status)),
        (..) => Ok(columns::text(&write::lines(&status), colour)),
    }
}

/// The tables, for `--watch`.
fn look(arguments: &Arguments) -> Result<Look, String> {
    let conf = arguments.conf.as_deref();
    if let Some(hosts) = &arguments.nodes {
        let cluster = cluster::gather(hosts, arguments.collected.as_deref(), conf)?;
        let lines = cluster::write::lines(&cluster, arguments.gpus);
        return Ok(Look { lines, complaints: cluster.complaints });
    }
    let status = local::gather(conf)?;
    Ok(Look { lines: write::lines(&status), complaints: status.complaints })
}

/// <https://no-color.org>: set and not empty. A terminal that is dumb has no colours.
fn colours(color: Color) -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            let is_able = set("TERM").is_some_and(|term| term != "dumb");
            set("NO_COLOR").is_none() && is_able && std::io::stdout().is_terminal()
        }
    }
}

pub(crate) fn complain(lines: &[String]) {
    for line in lines {
        let _ = writeln!(std::io::stderr(), "gpushare: {}", columns::clean(line));
    }
}
