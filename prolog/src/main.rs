//! gpushare-prolog, run by slurmd as `Prolog=`, as root, before a job's first step on this node: gives the job's share
//! a GPU and writes that into the ledger.
//!
//! It ends with 0 whatever happens: anything else makes slurmd drain the node. A job with a share and no entry in the
//! ledger is failed by spank_gpushare.so, with a line to its user; the reason is in syslog, from here, as one line.
#![forbid(unsafe_code)]

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use gpushare::config::{self, Config};
use gpushare::device::Roots;
use gpushare::job::NodeJob;
use gpushare::ledger::{Entry, Holding, Ledger, RUN_DIR};
use gpushare::node::{self, Node, Placed, Remark};
use gpushare_prolog::{error, info, slurm_conf, variable};

const NAME: &str = "gpushare-prolog";

fn main() {
    gpushare_prolog::run(NAME, || match place() {
        Ok(placed) => report(placed),
        Err(reason) => error(NAME, &reason),
    });
}

fn place() -> Result<Placed, String> {
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
    node::place(node, &job, now).map_err(|error| because(&error))
}

fn report(placed: Placed) {
    let Placed::Now(entry, remarks) = placed else { return };
    let id = entry.key.id;
    let gpus: Vec<String> =
        entry.gpus.iter().map(|gpu| format!("{} ({})", gpu.index, gpu.path.display())).collect();
    let gpus = gpus.join(", ");
    match entry.holding {
        Holding::Share { units, capacity, .. } => {
            info(NAME, &format!("job {id}: {units} of {capacity} units on GPU {gpus}"));
        }
        Holding::Whole => info(NAME, &format!("job {id}: whole GPU {gpus}")),
    }
    for remark in remarks {
        error(NAME, &line(&entry, &remark));
    }
}

fn line(entry: &Entry, remark: &Remark) -> String {
    let (id, units) = (entry.key.id, entry.units());
    match remark {
        Remark::Overcommitted => {
            format!("job {id}: its GPU is overcommitted, none had {units} units free")
        }
        Remark::Contradicted(noted) => format!(
            "job {id}: asked for {noted} units, taken as {units}; Slurm counts otherwise: UnitsPerGpu must be what \
             fills one GPU"
        ),
        Remark::Garbage(file) => {
            format!("set aside '{}' of the ledger: {}", file.name.escape_debug(), file.damage)
        }
        Remark::Dropped(key) => {
            format!("job {}: is over and had no epilog, its share is taken back", key.id)
        }
        Remark::Collision(keys) => {
            format!("job {id}: Slurm gave it a GPU that other jobs have shares of: {}", node::listed(keys))
        }
        Remark::LeftOut { index, path, why } => {
            format!("GPU {index} ({}) takes no share: {why}", path.display())
        }
        Remark::SeveralCharged => format!(
            "job {id}: Slurm charges shares to several GPUs (Flags=all_sharing?); Placement=follow would fit"
        ),
    }
}
