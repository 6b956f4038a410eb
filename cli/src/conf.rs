//! `gpushare conf`: the lines of Slurm's configuration that gpushare.conf needs, each with its reason. Only prints.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use gpushare::config::LoadError;
use gpushare_node::gpu::DeviceError;

use crate::check;
use crate::requirements::{self, File};
use crate::slurm::{self, ProgramError, Slurm};
use gpushare_machine::local;

mod gres;
mod lines;

/// The command line of `gpushare conf`.
#[derive(Args)]
pub struct Arguments {
    /// The rules [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]
    #[arg(long, value_name = "PATH", global = true)]
    conf: Option<PathBuf>,
    /// For a cluster that doesn't exist yet: don't query Slurm
    #[arg(long, global = true)]
    new: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lines of slurm.conf: what Slurm counts, limits, preempts and weighs, and what runs on nodes
    Slurm,
    /// Lines of gres.conf for this node, and its Gres= for slurm.conf
    Gres {
        /// The node's name [default: this machine's]
        #[arg(long, value_name = "NAME")]
        node: Option<String>,
    },
    /// Lines of cgroup.conf
    Cgroup,
    /// Lines of plugstack.conf
    Plugstack {
        /// For a machine that only submits jobs
        #[arg(long)]
        login: bool,
    },
}

gpushare::errors! {
    /// Why the lines can't be printed.
    #[derive(Debug)]
    pub enum ConfError {
        Slurm(error: ProgramError) => "{error} (for a cluster that doesn't exist yet: --new)";
        Node(error: DeviceError) => "{error}; run this on the node";
        Units(gpus: usize) => "UnitsPerGpu in gpushare.conf is not for the {gpus} GPUs of this node";
    } from { Load(LoadError) }
}

/// The lines.
///
/// # Errors
/// There is no gpushare.conf, Slurm doesn't answer, or the node's GPUs can't be determined.
pub fn run(arguments: &Arguments) -> Result<String, ConfError> {
    let slurm_conf = slurm::conf();
    let (path, config) = local::config_there(arguments.conf.as_deref())?;
    let running = || Slurm::ask(&config).map_err(ConfError::Slurm);
    let ask = || if arguments.new { Ok(Slurm::default()) } else { running() };
    let shown = path.display();
    match &arguments.command {
        Command::Slurm => {
            let slurm = ask()?;
            let hooks = !arguments.new
                && check::plugstack::has_hooks(slurm.settings.get("PlugStackConfig"), &slurm_conf);
            let requirements = requirements::requirements(&config, &slurm, hooks);
            let bills = requirements::billing(&config, &slurm);
            Ok(head(&shown, "slurm.conf")
                + &lines::of(&requirements, File::Slurm, &slurm)
                + &lines::bills(&bills)
                + &lines::spread(&requirements::filled_in_order(&config, &slurm)))
        }
        Command::Cgroup => {
            let slurm = ask()?;
            let requirements = requirements::requirements(&config, &slurm, false);
            let text = lines::of(&requirements, File::Cgroup, &slurm);
            Ok(head(&shown, "cgroup.conf") + if text.is_empty() { NOTHING } else { &text })
        }
        Command::Gres { node } => {
            let name = node.clone().unwrap_or_else(slurm::host);
            gres::of(&config, &name, &ask()?).map(|text| head(&shown, "gres.conf") + &text)
        }
        Command::Plugstack { login } => {
            Ok(head(&shown, "plugstack.conf") + plugstack(config.places_anywhere(), *login))
        }
    }
}

fn head(path: &impl std::fmt::Display, file: &str) -> String {
    format!("# Of {file}, for {path}\n")
}

const NOTHING: &str = "# Nothing is needed.\n";

fn plugstack(placed: bool, login: bool) -> &'static str {
    match (placed, login) {
        (false, _) => NOTHING,
        (_, true) => "\n# A machine without jobs works as well without it.\noptional spank_gpushare.so\n",
        (_, false) => {
            "\n# Without it, jobs have no fence. If it can't be loaded, jobs fail instead of running without \
             one.\nrequired spank_gpushare.so\n"
        }
    }
}
