//! `gpushare check`: whether this machine and its Slurm are as gpushare needs them, one line each, with a fix.
//!
//! Read → compare → print; changes nothing. It checks submission wherever slurmctld answers, and a node only on that
//! node. Run it on the controller and on a compute node of each type.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, ColorChoice};
use gpushare::config::{LoadError, last_good::host_name};
use gpushare::text::hostlist;
use gpushare_machine::config::Config;
use gpushare_node::config::Placement;
use gpushare_node::gpu::{Roots, may_be_any};
use gpushare_node::ledger::Ledger;
use gpushare_node::mps::others::others;

use crate::slurm::file::ConfFile;
use crate::slurm::{self, Reach, SENT, Slurm};
use gpushare_terminal::{Answer, json};

mod cluster;
mod daemon;
mod drained;
pub mod fence;
mod finding;
mod fix;
mod fleet;
mod last_good;
mod local;
mod machine;
mod memory;
mod mps;
mod names;
mod namespace;
mod node;
mod nodes;
mod outside;
mod pending;
mod plugins;
pub mod plugstack;
mod programs;
mod qoses;
pub mod rules;
mod version;

pub use drained::recount;
use finding::{Finding, Form, Status};
use gpushare_slurm_text::version::Version;
use plugstack::Plugstack;

const PROC: &str = "/proc";

/// The command line of `gpushare check`.
#[derive(Args)]
#[command(
    after_help = "Exit status: 0 nothing is wrong, 1 something is, 2 slurmctld or slurmdbd doesn't answer, or nothing \
                  can be checked."
)]
pub struct Arguments {
    /// Also list what is right
    #[arg(long)]
    all: bool,
    /// Print only what is wrong, and nothing if nothing is
    #[arg(long, short, conflicts_with_all = ["all", "json"])]
    quiet: bool,
    /// Colors: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(long, value_name = "WHEN", value_enum, hide_possible_values = true, default_value = "auto")]
    #[arg(hide_default_value = true)]
    color: ColorChoice,
    /// All of it as one JSON object
    #[arg(long)]
    json: bool,
    /// The rules [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]
    #[arg(long, value_name = "PATH")]
    conf: Option<PathBuf>,
    /// Before an upgrade: only whether the installed plugins would load in that Slurm, which needn't be installed or
    /// running
    #[arg(long = "for", value_name = "VERSION", value_parser = named)]
    slurm: Option<Version>,
    /// Every node that has GPUs or shares, or these: what is wrong on each, and where they differ. Without --via and
    /// --collected, only from slurmctld's records of the nodes
    #[arg(long, value_name = "HOSTLIST", num_args = 0..=1, default_missing_value = "", conflicts_with = "slurm")]
    nodes: Option<String>,
    /// With --nodes: ask them by ssh, pdsh, clush or another command, which gets a node's name and a command line
    #[arg(long, value_name = "COMMAND", requires = "nodes")]
    via: Option<String>,
    /// With --nodes: read the nodes' reports instead, from DIR/NODE.json, or one a line from a file or - (standard
    /// input)
    #[arg(long, value_name = "PATH", requires = "nodes", conflicts_with = "via")]
    collected: Option<PathBuf>,
    /// What --nodes compares of this machine, on one line
    #[arg(long, conflicts_with_all = ["slurm", "nodes", "json"])]
    node_report: bool,
}

gpushare::errors! {
    /// Why nothing could be checked.
    #[derive(Debug)]
    pub enum CheckError {
        NoPlugin { dirs: String, slurm_conf: PathBuf } =>
            "none of gpushare's plugins is in {dirs} (PluginDir of {})", slurm_conf.display();
        WhichNodes(error: String) => "can't list the nodes: {error}; or name them: --nodes LIST";
        NoList(list: String) => "'{list}' is not a list of nodes, such as n[1-3],gpu1";
        Stdin(error: io::Error) => "standard input: {error}";
        Collected(path: PathBuf, error: io::Error) => "{}: {error}", path.display();
    } from { Load(LoadError) }
}

fn named(version: &str) -> Result<Version, &'static str> {
    Version::parse(version).ok_or("not a version of Slurm, such as 24.11.5")
}

/// Runs the checks.
///
/// # Errors
/// The named gpushare.conf doesn't exist, no plugin is installed, or the nodes are unknown.
pub fn run(arguments: &Arguments, also: rules::Also) -> Result<Answer, CheckError> {
    let slurm_conf = slurm::conf();
    if let Some(wanted) = arguments.slurm {
        return Ok(answer(plugins::for_another(wanted, &slurm_conf)?, arguments, None));
    }
    let conf = arguments.conf.as_deref();
    let (mut findings, config) = rules::read(conf, &slurm_conf, also)?;
    if let Some(list) = &arguments.nodes {
        let way = match (&arguments.via, &arguments.collected) {
            (_, Some(path)) => nodes::Way::Collected(path),
            (Some(command), _) => nodes::Way::Via(command),
            (None, None) => nodes::Way::Records,
        };
        findings.retain(Finding::is_wrong);
        let fleet = fleet::Fleet { here: findings, ..nodes::gather(list, &way, &config)? };
        let text = if arguments.json { json::text(&fleet) } else { fleet.text(form(arguments)) };
        return Ok(Answer { text, status: u8::from(!fleet.is_right()) });
    }
    let scope = if arguments.node_report { Scope::Machine } else { Scope::All };
    let look = Look::take(&config, &slurm_conf, scope);
    findings.extend(look.findings(conf, scope));
    rules::say_once(&mut findings);
    let facts = || machine::here(conf, &slurm_conf, &look.slurm.settings);
    if arguments.node_report {
        return Ok(Answer::from(json::line(&fleet::Report { machine: facts(), findings })));
    }
    let reached = look.reach.slurmctld.is_ok() && look.reach.slurmdbd.is_ok();
    let answer = answer(findings, arguments, arguments.json.then(facts));
    Ok(if reached { answer } else { Answer { status: 2, ..answer } })
}

fn answer(findings: Vec<Finding>, arguments: &Arguments, machine: Option<machine::Machine>) -> Answer {
    let status = u8::from(findings.iter().any(Finding::is_wrong));
    let text = match machine {
        Some(machine) => json::text(&fleet::Report { machine, findings }),
        None if arguments.json => json::text(&serde_json::json!({"findings": findings})),
        None => finding::lines(&findings, form(arguments)),
    };
    Answer { text, status }
}

fn form(&Arguments { all, quiet, color, .. }: &Arguments) -> Form {
    Form::on_stdout(all, quiet, color)
}

/// How much to check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// The cluster, and this machine.
    All,
    /// This machine alone, without what is the same for each and a question to slurmdbd.
    Machine,
}

/// What to check.
struct Look<'a> {
    config: &'a Config,
    slurm_conf: &'a Path,
    /// slurm.conf as this machine has it.
    own_conf: ConfFile,
    /// If slurmctld doesn't answer, the settings come from the files here.
    slurm: Slurm,
    reach: Reach,
    host: String,
}

impl<'a> Look<'a> {
    /// Queries each daemon until it fails to answer once.
    fn take(config: &'a Config, slurm_conf: &'a Path, scope: Scope) -> Look<'a> {
        let own_conf = ConfFile::read(slurm_conf).unwrap_or_default();
        let mut slurm = Slurm::default();
        let mut reach = match scope {
            Scope::All => Reach::ask(),
            Scope::Machine => Reach { slurmctld: Reach::of_slurmctld(), slurmdbd: Ok(()) },
        };
        if reach.slurmctld.is_ok() {
            reach.slurmctld = slurm.ask_slurmctld(config);
        }
        if reach.slurmctld.is_err() {
            slurm.settings = own_conf.settings();
        }
        if !slurm.has_accounting() {
            reach.slurmdbd = Ok(());
        } else if scope == Scope::All && reach.slurmdbd.is_ok() {
            let cluster = slurm.settings.get("ClusterName").to_owned();
            reach.slurmdbd = slurm.ask_slurmdbd(config, &cluster);
        }
        Look { config, slurm_conf, own_conf, slurm, reach, host: slurm::host() }
    }

    fn findings(&self, conf: Option<&Path>, scope: Scope) -> Vec<Finding> {
        let stack = Plugstack::read(self.slurm.settings.get("PlugStackConfig"), self.slurm_conf);
        let mut findings = cluster::daemons(&self.reach);
        if scope == Scope::All {
            findings.extend(self.cluster(conf, &stack));
        }
        findings.extend(self.machine(conf, &stack));
        findings.sort_by_key(|finding| finding.about != local::CGROUP_PLUGIN);
        names::before_others(&mut findings);
        daemon::after_others(&mut findings);
        findings
    }

    /// What is the same wherever one asks.
    fn cluster(&self, conf: Option<&Path>, stack: &Plugstack) -> Vec<Finding> {
        let Look { config, slurm, reach, .. } = self;
        let hooks = config.places_anywhere() && stack.hooks.is_some();
        let on_node = self.runs_jobs() && config.of_node(&self.host).placement != Placement::Off;
        let mut findings = cluster::findings(config, slurm, reach, hooks, on_node);
        if reach.slurmctld.is_ok() {
            findings.extend(pending::finding(slurm));
        }
        findings.extend(self.qoses(conf));
        findings
    }

    /// What this machine has and does.
    fn machine(&self, conf: Option<&Path>, stack: &Plugstack) -> Vec<Finding> {
        let Look { config, slurm, reach, host, .. } = self;
        let settings = &slurm.settings;
        let mut findings = Vec::new();
        // A controller has the machine's name, even if it is also a node with another one.
        let (controllers, machine) = (cluster::controllers(settings), host_name());
        if reach.slurmctld.is_err() {
            // A plugin may be the reason why slurmctld doesn't run. And after an upgrade, the new commands don't
            // understand older daemons.
            findings.extend(plugins::for_installed(self.slurm_conf));
        } else if controllers.contains(&machine.as_str()) {
            findings.extend(cluster::other_controllers(&controllers, &machine));
            if conf.is_none() {
                findings.extend(last_good::finding(settings, self.slurm_conf, controllers.len() < 2));
            }
            let (running, installed) = (settings.get("SLURM_VERSION"), version::of_program("slurmctld"));
            findings.extend(plugins::daemon("slurmctld", "slurmdbd", running, installed));
            let (proc, file) = (Path::new(PROC), plugins::job_submit(settings, installed));
            let is_right = file.as_ref().is_none_or(|finding| finding.status == Status::Ok);
            findings.extend(file);
            findings.extend(if is_right { plugins::in_memory(settings, proc) } else { None });
        }
        findings.extend(match (config.of_node(host).placement, self.runs_jobs()) {
            (Placement::Off, _) | (_, false) if reach.slurmctld.is_err() => Vec::new(),
            (Placement::Off, runs_jobs) => {
                let program = if runs_jobs { "slurmd" } else { plugins::OF_USERS };
                let mut findings = plugins::named(stack, settings, version::of_program(program), runs_jobs);
                if runs_jobs {
                    let here = config.of_node(host);
                    let has_gpus = self.node().is_some_and(|node| node.has("gpu"))
                        || may_be_any(&here.gpu_files, &Roots::system());
                    let lost = rules::lost(conf, self.slurm_conf, settings, stack.hooks.is_some());
                    findings.extend(lost.filter(|_| has_gpus));
                    findings.extend(mps::others(here, &others(Path::new(PROC), &Ledger::system())));
                }
                findings
            }
            (_, true) => self.this_node(stack),
            (_, false) => {
                let said = format!("{host} is not a node of Slurm; run this on one too");
                let mut findings = plugins::on_login(stack, settings, version::of_program(plugins::OF_USERS));
                findings.push(Finding::unknown("node", said));
                findings
            }
        });
        findings
    }

    /// Whether this is a node, according to slurmctld or, if it doesn't answer, to the slurm.conf here.
    fn runs_jobs(&self) -> bool {
        if self.reach.slurmctld.is_ok() {
            return self.node().is_some();
        }
        let mut lines = self.own_conf.fields();
        lines.any(|fields| {
            let first = fields.first().filter(|(key, _)| key.eq_ignore_ascii_case("NodeName"));
            first.is_some_and(|(_, names)| hostlist::contains(names, &self.host) == Some(true))
        })
    }

    /// What slurmctld says about this node.
    fn node(&self) -> Option<&slurm::Node> {
        self.slurm.nodes.iter().find(|node| node.name == self.host)
    }

    fn this_node(&self, stack: &Plugstack) -> Vec<Finding> {
        let Look { config, slurm, host, .. } = self;
        let (here, settings, node) = (config.of_node(host), &slurm.settings, self.node());
        let beside = |name: &str| self.slurm_conf.with_file_name(name);
        let (cgroup_conf, gres_conf) = (beside("cgroup.conf"), beside("gres.conf"));
        let gres = ConfFile::read(&gres_conf).unwrap_or_default();
        let cgroup = ConfFile::read(&cgroup_conf).unwrap_or_default();
        let (is_root, proc) = (gpushare_node::user_id() == Some(0), Path::new(PROC));

        let mut findings: Vec<Finding> = node.map(daemon::state).into_iter().collect();
        findings.extend(self.slurmd(&self.own_conf, &[&gres, &cgroup]));
        findings.extend(local::cgroup(config, slurm, &cgroup_conf, (host, self.reach.slurmctld.is_ok())));
        findings.extend(match node {
            Some(node) => plugins::on_node(stack, settings, node, version::of_program("slurmd")),
            None => vec![plugins::fence_line(stack, settings)],
        });
        let (found, gpus) = node::gpus(here, host, node);
        findings.push(found);
        let mut node = node.cloned();
        let own = local::OwnGres::of((&gres, &self.own_conf), host, &here.share_gres);
        if let Some(gpus) = &gpus {
            findings.extend(drained::drained(here, gpus, node.as_mut()));
            // As gpushare-prolog does, whose parent is slurmd.
            let slurmd = daemon::running(proc, host).map(|slurmd| slurmd.pid);
            findings.extend(programs::squeue(here, proc, slurmd));
            findings.push(fence::finding(here, gpus, cgroup.settings().get("CgroupPlugin"), is_root));
        }
        if let Some(node) = &node {
            let share = &config.node.share_gres;
            let shares = slurm.nodes.iter().any(|node| node.has(share));
            findings.extend(node::gres(here, node, shares, gpus.as_ref()));
            if let (Some(gpus), Some(counted)) = (&gpus, self.node()) {
                findings.extend(local::gres(here, &own, &counted.gres, &gres_conf, gpus.details.len()));
            }
        }
        finding::drop_right(&mut findings, "UnitsPerGpu");
        findings.extend(node::ledger(&Ledger::system(), Path::new(gpushare_node::config::RUN_DIR)));
        findings.extend(node::nvml(here, gpus.as_ref()));
        findings.extend(node::time(settings));
        findings.extend(mps::time(here));
        findings.extend(mps::mps_dir(here));
        findings.extend(mps::mps(here, is_root));
        findings.extend(mps::others(here, &others(Path::new(PROC), &Ledger::system())));
        findings.extend(mps::task_prolog(here, settings));
        let namespace = namespace::user(settings, self.slurm_conf);
        findings.extend(namespace.or_else(|| namespace::shm(here, settings, self.slurm_conf, host)));
        findings.extend(namespace::pyxis(here, stack));
        findings.extend(programs::findings(settings, self.slurm_conf));
        findings
    }

    /// The daemon of this node. plugstack.conf isn't among the files, because each slurmstepd reads it again (Slurm:
    /// `spank_init`).
    fn slurmd(&self, slurm_conf: &ConfFile, others: &[&ConfFile]) -> Vec<Finding> {
        let proc = Path::new(PROC);
        let installed = version::of_program("slurmd");
        let started = daemon::running(proc, &self.host).and_then(|running| daemon::started(running, proc));
        // What slurmctld sends, slurmd writes itself when it reads it.
        let changes = |files: &[&ConfFile]| {
            let files = files.iter().flat_map(|conf| conf.files.clone());
            daemon::changes(&files.filter(|path| !path.starts_with(SENT)).collect::<Vec<PathBuf>>())
        };
        let judged = daemon::judge(&self.host, started, &changes(&[slurm_conf]), &changes(others), installed);
        // What slurmctld remembers about a slurmd that has ended doesn't count.
        let version = self.node().filter(|_| started.is_some()).map(|node| node.version.as_str());
        let version = version.and_then(|version| plugins::daemon("slurmd", "slurmctld", version, installed));
        let shares = self.config.of_node(&self.host).placement != Placement::Off;
        let others = daemon::others(proc, &self.host).filter(|_| shares);
        judged.into_iter().chain(version).chain(others).collect()
    }

    /// Compares the database with the QOSes that the file defines. `None` if it defines none.
    fn qoses(&self, conf: Option<&Path>) -> Option<Finding> {
        let is_there =
            self.reach.slurmctld.is_ok() && self.reach.slurmdbd.is_ok() && self.slurm.has_accounting();
        (!self.config.qoses.is_empty()).then(|| match is_there {
            true => qoses::finding(conf),
            false => qoses::unknown("can't be compared with the database, see the line slurmdbd"),
        })
    }
}
