//! `gpushare check`: whether this machine and its Slurm are as gpushare needs them, a line each, with what mends it.
//!
//! Read → compare → print; changes nothing. What concerns submission is checked wherever slurmctld can be asked, what
//! concerns a node on that node. Run it on the controller and on a compute node of each kind.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use gpushare::config::{self, Config, Placement};
use gpushare::ledger::{Ledger, RUN_DIR};

use crate::explain::program;

mod cluster;
mod finding;
mod node;
mod plugins;
mod settings;

use cluster::{Accounting, SlurmNode};
use finding::{Finding, Verdict};
use settings::Settings;

/// How long one of Slurm's commands may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The command line of `gpushare check`.
#[derive(Args)]
#[command(after_help = "Exit status: 0 nothing is wrong, 1 something is, 2 Slurm can't be asked.")]
pub struct Arguments {
    /// All of it as one JSON object
    #[arg(long)]
    json: bool,
    /// The rules [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]
    #[arg(long, value_name = "PATH")]
    conf: Option<PathBuf>,
}

/// What is said, and whether something is wrong.
pub struct Answer {
    /// For standard output.
    pub text: String,
    /// Something is.
    pub wrong: bool,
}

/// An error is one line: why nothing could be checked.
pub fn run(arguments: &Arguments) -> Result<Answer, String> {
    let slurm_conf: PathBuf =
        std::env::var_os("SLURM_CONF").unwrap_or_else(|| "/etc/slurm/slurm.conf".into()).into();
    let text = ask("scontrol", &["show", "config"])?;
    let settings = Settings::parse(&text);
    let (mut findings, config) = rules(arguments.conf.as_deref(), &slurm_conf);
    let nodes = slurm_nodes()?;
    let host = host();
    let here = nodes.iter().find(|node| node.name == host);
    findings.extend(cluster::submission(&settings, &config, &accounting(&config)?));
    findings.push(cluster::counted(&settings, &config, &nodes));
    let controller = settings.list("SlurmctldHost").iter().any(|name| name.split('(').next() == Some(&host));
    findings.extend(plugins::job_submit(&settings, controller));
    if config.node.placement != Placement::Off {
        let (found, hooks) = plugins::spank(&settings, &slurm_conf);
        findings.extend(cluster::nodes(&settings, &config, hooks));
        match here {
            Some(here) => {
                findings.extend(found);
                findings.extend(this_node(&config, here, &slurm_conf));
            }
            None => findings
                .push(Finding::unknown("node", format!("{host} is no node of Slurm's; run this on one too"))),
        }
    }
    let wrong = findings.iter().any(|finding| matches!(finding.verdict, Verdict::Wrong(_)));
    let text = if arguments.json { finding::json(&findings) } else { finding::lines(&findings) };
    Ok(Answer { text, wrong })
}

/// gpushare.conf; where it is wrong, the rest is checked against the defaults.
fn rules(conf: Option<&Path>, slurm_conf: &Path) -> (Vec<Finding>, Config) {
    let about = "gpushare.conf";
    let path = conf.map_or_else(|| config::find(slurm_conf, Path::new(config::FALLBACK)), Path::to_owned);
    match Config::load(&path) {
        Ok(Some(config)) => (vec![Finding::ok(about, path.display().to_string())], config),
        Ok(None) => {
            let said = format!("{}: there is no such file; the defaults hold", path.display());
            (vec![Finding::ok(about, said)], Config::default())
        }
        Err(error) => {
            let fix = "mend the line; slurmctld goes by the last good file, and jobs with a share fail";
            (vec![Finding::wrong(about, error.to_string(), fix)], Config::default())
        }
    }
}

fn this_node(config: &Config, here: &SlurmNode, slurm_conf: &Path) -> Vec<Finding> {
    let config = &config.node;
    let (found, gpus) = node::gpus(config, &slurm_conf.with_file_name("gres.conf"), &here.name);
    let mut findings = vec![found];
    findings.extend(node::gres(config, here, gpus.map(|gpus| gpus.count())));
    findings.extend(node::ledger(&Ledger::at(RUN_DIR), Path::new(RUN_DIR)));
    findings.extend(node::nvml(config));
    findings.extend(node::mps_dir(config));
    findings.extend(node::mps(config, crate::status::user_id() == 0));
    findings
}

fn slurm_nodes() -> Result<Vec<SlurmNode>, String> {
    let text = ask("scontrol", &["-o", "show", "node"])?;
    Ok(text.lines().filter_map(cluster::slurm_node).collect())
}

/// What one of Slurm's commands prints. A health check must come to an end: without slurmctld or a slurm.conf some of them
/// try for minutes.
fn ask(name: &str, arguments: &[&str]) -> Result<String, String> {
    let answer = program::run(Command::new(name).args(arguments), PATIENCE)?;
    program::succeeded(name, arguments, answer).map(|output| String::from_utf8_lossy(&output).into_owned())
}

/// The QOSes.
fn accounting(config: &Config) -> Result<Accounting, String> {
    let fields = "format=name,priority,preempt,GrpTRES,MaxTRES,MaxTRESPU,MaxTRESPA";
    let text = ask("sacctmgr", &["-nP", "show", "qos", fields])?;
    let mut found = Accounting::default();
    let mut priorities: Vec<&str> = Vec::new();
    for line in text.lines() {
        let mut columns = line.split('|');
        let (Some(name), Some(priority), Some(preempts)) = (columns.next(), columns.next(), columns.next())
        else {
            continue;
        };
        let is_typed = |limit: &str| {
            let gres = limit.strip_prefix("gres/").and_then(|rest| rest.split_once(':'));
            gres.is_some_and(|(gres, _)| config.policy.gres.0.iter().any(|name| name == gres))
        };
        if columns.flat_map(|column| column.split(',')).any(is_typed) {
            found.governed.push(name.to_owned());
        }
        if !preempts.is_empty() {
            found.preempting.push(name.to_owned());
        }
        priorities.push(priority);
    }
    priorities.dedup();
    found.priorities = priorities.len() > 1;
    Ok(found)
}

/// This machine's name as Slurm would have it.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().split('.').next().unwrap_or_default().to_owned()
}
