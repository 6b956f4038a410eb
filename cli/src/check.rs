//! `gpushare check`: whether this machine and its Slurm are as gpushare needs them, a line each, with what mends it.
//!
//! Read → compare → print; changes nothing. What concerns submission is checked wherever slurmctld can be asked, what
//! concerns a node on that node. Run it on the controller and on a compute node of each kind.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Args;
use gpushare::config::{self, Config, NodeConfig, Placement};
use gpushare_node::ledger::Ledger;

use crate::qos;
use crate::slurm::{self, Slurm};

mod cluster;
mod finding;
mod last_good;
mod namespace;
mod node;
mod outside;
mod plugins;
pub mod plugstack;
mod version;

use finding::{Finding, Status};
use plugstack::Plugstack;
use version::Version;

/// The command line of `gpushare check`.
#[derive(Args)]
#[command(
    after_help = "Exit status: 0 nothing is wrong, 1 something is, 2 Slurm can't be asked (or, with --for, no plugin is found)."
)]
pub struct Arguments {
    /// All of it as one JSON object
    #[arg(long)]
    json: bool,
    /// The rules [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]
    #[arg(long, value_name = "PATH")]
    conf: Option<PathBuf>,
    /// Before an upgrade: only whether the installed plugins would load in that Slurm, which needn't be installed or running
    #[arg(long = "for", value_name = "VERSION")]
    slurm: Option<Version>,
}

/// What is said, and whether something is wrong.
pub struct Answer {
    /// For standard output.
    pub text: String,
    /// Something is.
    pub wrong: bool,
    /// Why Slurm can't be asked; then there is only what needs no daemon.
    pub trouble: Option<String>,
}

/// An error is one line: why nothing could be checked.
pub fn run(arguments: &Arguments) -> Result<Answer, String> {
    let slurm_conf = slurm::conf();
    if let Some(wanted) = arguments.slurm {
        return answer(&plugins::for_another(wanted, &slurm_conf)?, arguments.json);
    }
    let (mut findings, config) = rules(arguments.conf.as_deref(), &slurm_conf);
    let slurm = match Slurm::ask(&config) {
        Ok(slurm) => slurm,
        // A plugin may be why it doesn't run; and after an upgrade its commands don't understand daemons of before.
        Err(trouble) => {
            findings.extend(plugins::for_installed(&slurm_conf));
            return Ok(Answer { trouble: Some(trouble), ..answer(&findings, arguments.json)? });
        }
    };
    let settings = &slurm.settings;
    let host = slurm::host();
    let controllers = cluster::controllers(settings);
    let here = config.of_node(&host);
    let places = here.placement != Placement::Off;
    let stack = Plugstack::read(settings.get("PlugStackConfig"), &slurm_conf);
    findings.extend(cluster::findings(&config, &slurm, config.places_anywhere() && stack.hooks.is_some()));
    findings.extend(qoses(arguments.conf.as_deref(), &config));
    if controllers.contains(&host.as_str()) {
        findings.extend(cluster::other_controllers(&controllers, &host));
        if arguments.conf.is_none() {
            findings.extend(last_good::finding(settings, &slurm_conf));
        }
        let installed = Version::of_program("slurmctld");
        findings.extend(plugins::daemon("slurmctld", "slurmdbd", settings.get("SLURM_VERSION"), installed));
        findings.extend(plugins::job_submit(settings, installed));
    }
    if places {
        match slurm.nodes.iter().find(|node| node.name == host) {
            Some(node) => {
                let installed = Version::of_program("slurmd");
                findings.extend(plugins::daemon("slurmd", "slurmctld", &node.version, installed));
                findings.extend(plugins::on_node(&stack, settings, node, installed));
                let share = &config.node.share_gres;
                let shares = slurm.nodes.iter().any(|node| node.gres.iter().any(|(name, ..)| name == share));
                findings.extend(this_node(here, node, shares, &slurm_conf));
                let namespace = namespace::user(settings, &slurm_conf);
                findings
                    .extend(namespace.or_else(|| namespace::shm(here, settings, &slurm_conf, &node.name)));
                findings.extend(namespace::pyxis(here, &stack));
                for missing in node::programs(settings) {
                    findings.retain(|finding| finding.about != missing.about);
                    findings.push(missing);
                }
            }
            None => {
                findings.extend(plugins::on_login(&stack, settings, Version::of_program("srun")));
                let said = format!("{host} is no node of Slurm's; run this on one too");
                findings.push(Finding::unknown("node", said));
            }
        }
    } else {
        let runs_jobs = slurm.nodes.iter().any(|node| node.name == host);
        let program = if runs_jobs { "slurmd" } else { "srun" };
        findings.extend(plugins::named(&stack, settings, Version::of_program(program), runs_jobs));
    }
    answer(&findings, arguments.json)
}

fn answer(findings: &[Finding], json: bool) -> Result<Answer, String> {
    let wrong = findings.iter().any(|finding| matches!(finding.status, Status::Wrong(_)));
    let text = if json { finding::json(findings)? } else { finding::lines(findings) };
    Ok(Answer { text, wrong, trouble: None })
}

/// gpushare.conf; where it is wrong, the rest is checked against the defaults.
fn rules(conf: Option<&Path>, slurm_conf: &Path) -> (Vec<Finding>, Config) {
    let about = "gpushare.conf";
    let path = conf.map_or_else(|| config::find(slurm_conf, Path::new(config::FALLBACK)), Path::to_owned);
    match Config::load(&path) {
        Ok(Some(config)) => (vec![of_file(about, &path)], config),
        Ok(None) => {
            let said = format!("{}: there is no such file; the defaults hold", path.display());
            (vec![Finding::ok(about, said)], Config::default())
        }
        Err(error) => {
            let fix = "mend it; until then slurmctld keeps its last good rules, and on nodes with this file jobs with GPUs fail";
            (vec![Finding::wrong(about, error.to_string(), fix)], Config::default())
        }
    }
}

/// On nodes root runs what `MpsControl` and `Nvml` name. An owner other than root, such as SlurmUser on the controller, is
/// the site's affair.
fn of_file(about: &'static str, path: &Path) -> Finding {
    let shown = path.display();
    let by_others =
        |found: Metadata| found.mode() & 0o002 != 0 || (found.mode() & 0o020 != 0 && found.gid() != 0);
    if path.metadata().is_ok_and(by_others) {
        let said =
            format!("{shown} can be changed by others than its owner, and names what root runs on nodes");
        return Finding::wrong(about, said, format!("chmod go-w {shown}"));
    }
    Finding::ok(about, shown.to_string())
}

fn this_node(config: &NodeConfig, here: &slurm::Node, shares: bool, slurm_conf: &Path) -> Vec<Finding> {
    let (found, gpus) = node::gpus(config, &slurm_conf.with_file_name("gres.conf"), &here.name);
    let mut findings = vec![found];
    findings.extend(node::gres(config, here, shares, gpus.as_ref()));
    findings.extend(node::ledger(&Ledger::system(), Path::new(gpushare::config::RUN_DIR)));
    findings.extend(node::nvml(config));
    findings.extend(node::mps_dir(config));
    findings.extend(node::mps(config, gpushare_node::user_id() == Some(0)));
    findings
}

/// The database against the QOSes that the file defines. `None` where it defines none.
fn qoses(conf: Option<&Path>, config: &Config) -> Option<Finding> {
    let about = "QOS";
    if config.qoses.is_empty() {
        return None;
    }
    let number = config.qoses.len();
    let lines = format!("{number} line{}", if number == 1 { "" } else { "s" });
    Some(match qos::drift(conf) {
        Err(error) => Finding::unknown(about, error),
        Ok(qos::Drift::Mistake(said)) => Finding::wrong(about, said, "mend the line"),
        Ok(qos::Drift::Pending(said)) => {
            Finding::wrong(about, said, "gpushare qos plan, and if it is as wanted gpushare qos apply")
        }
        Ok(qos::Drift::Missed(said)) => Finding::wrong(about, said, qos::MENDS),
        Ok(qos::Drift::Leftover(said)) => Finding::ok(about, format!("{lines}; {said}")),
        Ok(qos::Drift::None) => Finding::ok(about, format!("{lines}, and Slurm's database is like them")),
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;

    #[test]
    fn a_configuration_that_others_can_change_is_wrong() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let is_root = file.path().metadata().unwrap().uid() == 0;
        for (mode, group, wrong) in
            [(0o644, 0, false), (0o600, 1, false), (0o646, 0, true), (0o664, 1, true), (0o664, 0, false)]
        {
            fs::set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
            if is_root {
                chown(file.path(), None, Some(group)).unwrap();
            } else if group == 0 && mode == 0o664 {
                continue; // Nobody else can give a file to group root.
            }
            let finding = of_file("gpushare.conf", file.path());
            assert_eq!(matches!(finding.status, Status::Wrong(_)), wrong, "{mode:o} {group}");
        }
    }
}
