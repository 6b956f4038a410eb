//! The work of gpushare-prolog and gpushare-epilog, and that they end with 0 whatever happens. How they say what they did is
//! in `report`.
#![forbid(unsafe_code)]

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use gpushare::config::{self, Config, Placement};
use gpushare::device::Roots;
use gpushare::job::{NodeJob, id_and_restart};
use gpushare::ledger::{Ledger, RUN_DIR};
use gpushare::load::Measured;
use gpushare::node::{self, Node, Placed};
use gpushare_node::nvml::Nvml;

mod report;

use report::{error, info};

/// Gives a job its GPU; the environment is that of slurmd's prolog.
pub fn prolog(program: &str) {
    run(program, || match place(program) {
        Ok(placed) => report::placed(program, &placed),
        Err(reason) => error(program, &reason),
    });
}

/// Takes a job's GPU back; the environment is that of slurmd's epilog.
pub fn epilog(program: &str) {
    run(program, || {
        let released =
            id_and_restart(variable).map_err(|error| error.to_string()).and_then(|(id, restart)| {
                node::release(&Ledger::at(RUN_DIR), id, restart).map_err(|error| format!("job {id}: {error}"))
            });
        match released {
            Ok(Some(key)) => info(program, &format!("job {}: share taken back", key.id)),
            Ok(None) => {}
            Err(reason) => error(program, &reason),
        }
    });
}

/// Runs all of a program. Any other end than 0 would make slurmd drain the node, also that of a panic.
fn run(program: &str, work: impl FnOnce() + std::panic::UnwindSafe) {
    if std::panic::catch_unwind(work).is_err() {
        error(program, "internal error, see the line before");
    }
}

/// Where slurmd's configuration is: it tells every prolog and epilog.
fn slurm_conf() -> std::path::PathBuf {
    std::env::var_os("SLURM_CONF").unwrap_or_else(|| "/etc/slurm/slurm.conf".into()).into()
}

/// A variable of this process, as text; bytes that are no text can't be a number either, and are told so.
fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

fn place(program: &str) -> Result<Placed, String> {
    let job = NodeJob::read(variable).map_err(|error| match variable("SLURM_JOB_ID") {
        Some(id) => format!("job {}: {error}", id.escape_debug()),
        None => error.to_string(),
    })?;
    let because = |error: &dyn std::error::Error| format!("job {}: {error}", job.key.id);
    let slurm_conf = slurm_conf();
    let config = Config::load(&config::find(&slurm_conf, Path::new(config::FALLBACK)))
        .map_err(|error| because(&error))?
        .unwrap_or_default();
    let ledger = Ledger::at(RUN_DIR);
    // Answers while gres.conf and the devices are read.
    let for_share = job.may_have_share() && config.node.placement != Placement::Off;
    let nvml = for_share.then(|| Nvml::start(&config.node, &ledger));
    // Beside slurm.conf also where slurmd is configless: then it has fetched both.
    let gres_conf = slurm_conf.with_file_name("gres.conf");
    let name = variable("SLURMD_NODENAME");
    let node = Node {
        config: &config.node,
        ledger: &ledger,
        roots: &Roots::system(),
        gres_conf: Some(&gres_conf),
        name: name.as_deref(),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    node::place(node, &job, || measured(program, nvml, &ledger), now).map_err(|error| because(&error))
}

/// What the GPUs are doing, if NVML says so in time.
fn measured(program: &str, nvml: Option<Nvml>, ledger: &Ledger) -> Option<Measured> {
    let (measured, trouble) = nvml?.measured_for_job(ledger);
    if let Some(reason) = trouble {
        info(program, &format!("no load from NVML, shares go by the ledger alone: {reason}"));
    }
    measured
}
