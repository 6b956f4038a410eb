//! `gpushare status`: GPUs, their assigned units, and who has them, for this node or for the cluster.
//!
//! Gather (`local`, `cluster`) → print (`write`, `json`, `cluster::write`, through `table`).

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::{Args, ColorChoice};

pub(crate) mod cluster;
mod error;
mod json;
mod table;
mod write;

use cluster::Places;
pub(crate) use cluster::{collected, is_usable};
use error::StatusError;
use gpushare_machine::local;
use gpushare_terminal::{columns, complain};

/// The command line of `gpushare status`.
#[derive(Args)]
#[command(
    after_help = "Without NODES, --nodes, --partition and --collected it shows this node, by its own ledger. \
                  Exit status: 0, or 2 if it can't read the ledger, Slurm doesn't answer, or there is no such node or \
                  partition."
)]
pub struct Arguments {
    /// Nodes of the cluster, as hostlists, with their shares as Slurm counts them; for anybody, on any machine
    #[arg(value_name = "NODES")]
    hosts: Vec<String>,
    /// All nodes of the cluster that have shares; with HOSTLIST only these
    #[arg(long, value_name = "HOSTLIST", num_args = 0..=1, default_missing_value = "")]
    nodes: Option<String>,
    /// The nodes of these partitions, and the jobs in them
    #[arg(long, short, value_name = "LIST", value_delimiter = ',')]
    partition: Vec<String>,
    /// Only jobs of these users, by name or UID, and their GPUs and nodes
    #[arg(long, short, value_name = "LIST", value_delimiter = ',')]
    user: Vec<String>,
    /// One line for each job and GPU (of the cluster: job and node); with LIST only these jobs, by job ID
    #[arg(long, short, value_name = "LIST", num_args = 0..=1, default_missing_value = "")]
    jobs: Option<String>,
    /// One line for each GPU
    #[arg(long)]
    gpus: bool,
    /// For what Slurm doesn't know, read DIR/NODE.json, the output of gpushare status --json on the nodes
    #[arg(long, value_name = "DIR")]
    collected: Option<PathBuf>,
    /// All of it as one JSON object
    #[arg(long)]
    json: bool,
    /// Colors: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto)]
    #[arg(hide_default_value = true, hide_possible_values = true)]
    color: ColorChoice,
    /// The node's rules [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]
    #[arg(long, value_name = "PATH")]
    conf: Option<PathBuf>,
}

/// What a line of the table stands for, if not the usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Gpus,
    Jobs,
}

/// The jobs to show; all if this names none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    users: Vec<String>,
    jobs: Vec<u32>,
}

impl Wanted {
    fn is_some(&self) -> bool {
        !(self.users.is_empty() && self.jobs.is_empty())
    }

    fn has(&self, job: u32, user: Option<&str>, user_id: Option<u32>) -> bool {
        let number = user_id.map(|number| number.to_string());
        let is_user = |wanted: &String| Some(wanted.as_str()) == user || Some(wanted) == number.as_ref();
        (self.users.is_empty() || self.users.iter().any(is_user))
            && (self.jobs.is_empty() || self.jobs.contains(&job))
    }
}

/// The text to print.
///
/// # Errors
/// The ledger can't be read, Slurm can't be asked, or there is no such node or partition.
pub fn run(arguments: &Arguments) -> Result<String, StatusError> {
    let colour = colours(arguments.color);
    let conf = arguments.conf.as_deref();
    let (places, wanted) = question(arguments)?;
    let of_jobs = arguments.jobs.as_ref().map(|_| View::Jobs);
    let view = if arguments.gpus { Some(View::Gpus) } else { of_jobs };
    let (text, complaints) = match places {
        Some(places) => {
            let cluster = cluster::gather(&places, &wanted, arguments.collected.as_deref(), conf)?;
            let text = match arguments.json {
                true => gpushare_terminal::json::text(&cluster),
                false => columns::text(&cluster::write::lines(&cluster, view), colour),
            };
            (text, cluster.complaints)
        }
        None => {
            let mut status = local::gather(conf)?;
            if wanted.is_some() {
                status.keep_jobs(|job, user, user_id| wanted.has(job, user, Some(user_id)));
            }
            let text = match arguments.json {
                true => gpushare_terminal::json::text(&json::object(&status)),
                false => columns::text(&write::lines(&status, view), colour),
            };
            (text, status.complaints)
        }
    };
    complaints.iter().for_each(complain);
    Ok(text)
}

/// Which nodes of the cluster, if not this one, and which jobs.
fn question(arguments: &Arguments) -> Result<(Option<Places>, Wanted), StatusError> {
    let mut hosts = arguments.hosts.clone();
    hosts.extend(arguments.nodes.clone().filter(|list| !list.is_empty()));
    let partitions = arguments.partition.clone();
    let is_cluster = arguments.nodes.is_some()
        || arguments.collected.is_some()
        || !(hosts.is_empty() && partitions.is_empty());
    let list = arguments.jobs.as_deref().unwrap_or_default();
    let number = |word: &str| word.trim().parse().map_err(|_| StatusError::NoJob(word.to_owned()));
    let jobs = list.split(',').filter(|word| !word.is_empty()).map(number).collect::<Result<_, _>>()?;
    let wanted = Wanted { users: arguments.user.clone(), jobs };
    Ok((is_cluster.then_some(Places { hosts, partitions }), wanted))
}

/// <https://no-color.org>: it counts if set and not empty. A dumb terminal has no colours.
pub(crate) fn colours(color: ColorChoice) -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    match color {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            let is_able = set("TERM").is_some_and(|term| term != "dumb");
            set("NO_COLOR").is_none() && is_able && std::io::stdout().is_terminal()
        }
    }
}
