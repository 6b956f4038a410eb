//! What placing a job costs beside 1 to 400 live entries: the prolog reads each of them.
//! `cargo run --release -p gpushare-node --example placing`.
//!
//! More than 400 shares are hardly on a node: a GPU takes 48 MPS clients. Each side has a ledger of its own on
//! /dev/shm, as /run is: eight GPUs, and entries of 30 users. In turns, a job is placed and released on each. Prints
//! the medians; checks nothing.
#![expect(clippy::print_stdout, reason = "its output")]

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use gpushare_node::config::{NodeConfig, Nodes};
use gpushare_node::gpu::Roots;
use gpushare_node::job::{JobKey, NodeJob, Noted};
use gpushare_node::ledger::{Ledger, Witness, extern_step};
use gpushare_node::nvml::answer::Measured;
use gpushare_node::place::{self, Ask, Node, Placed};

const GPUS: &str = "/dev/null,/dev/zero,/dev/full,/dev/random,/dev/urandom,/dev/tty,/dev/ptmx,/dev/fuse";
const SOON: Duration = Duration::from_secs(1);
const ROUNDS: usize = 2000;
const SIDES: [u32; 4] = [1, 8, 32, 400];
const USERS: u32 = 30;

struct Side {
    ledger: Ledger,
    times: Vec<Duration>,
}

fn job(id: u32, user_id: u32) -> NodeJob {
    let noted = Some(Noted { gres: "gpushare".to_owned(), units: 1 });
    NodeJob {
        key: JobKey { id, restart: 0 },
        user_id,
        percent: None,
        noted,
        gpus: Vec::new(),
        gpu_mps: false,
    }
}

/// Asks nothing.
struct Nobody;

impl Ask for Nobody {
    fn wait(&mut self) {}

    fn measured(&mut self) -> Option<Measured> {
        None
    }

    fn over(&mut self, _: &[JobKey]) -> Vec<JobKey> {
        Vec::new()
    }
}

fn place(config: &NodeConfig, ledger: &Ledger, job: &NodeJob, now: u64) -> Result<(), Box<dyn Error>> {
    let roots = Roots::system();
    match place::place(
        Node { config, ledger, roots: &roots, slurm_conf: Path::new("/nonexistent/slurm.conf"), name: None },
        job,
        &mut Nobody,
        now,
    )? {
        Placed::Now(..) => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

fn filled(config: &NodeConfig, folder: &Path, entries: u32, now: u64) -> Result<Side, Box<dyn Error>> {
    let ledger = Ledger::at(folder);
    for id in 1..=entries {
        place(config, &ledger, &job(id, 2000 + id % USERS), now)?;
        let witness = Witness { pid: std::process::id(), start: 1 };
        extern_step::note(&ledger.lock(SOON)?, JobKey { id, restart: 0 }, witness)?;
    }
    Ok(Side { ledger, times: Vec::with_capacity(ROUNDS) })
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(f64::NAN, Duration::as_secs_f64)
}

fn main() -> Result<(), Box<dyn Error>> {
    let text = format!("Placement=own\nShareGRES=gpushare\nUnitsPerGpu=1000\nGpuFile={GPUS}\n");
    let config = Nodes::parse(&text)?.all;
    let dir = tempfile::tempdir_in("/dev/shm")?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    let mut sides = Vec::new();
    for entries in SIDES {
        sides.push(filled(&config, &dir.path().join(entries.to_string()), entries, now)?);
    }
    for _ in 0..ROUNDS {
        for side in &mut sides {
            let start = Instant::now();
            place(&config, &side.ledger, &job(5000, 2001), now)?;
            side.times.push(start.elapsed());
            place::release(&side.ledger, 5000, Some(0))?;
        }
    }
    for (entries, side) in SIDES.iter().zip(&mut sides) {
        println!("place beside {entries} entries: {:.1} us", median(&mut side.times) * 1e6);
    }
    Ok(())
}
