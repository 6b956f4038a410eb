//! Whether placing a job costs the same beside 1 live entry and beside 1,000:
//! `cargo run --release -p gpushare-node --example placing`.
//!
//! Each side has a ledger of its own on /dev/shm, as /run is: eight GPUs, and entries of 30 users or of as many as
//! there are entries. In turns, a job is placed and released on each. Judges by the medians' ratio: exit status 1 above
//! 1.5.
#![expect(clippy::print_stdout, reason = "its output")]

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use gpushare_node::config::{NodeConfig, Nodes};
use gpushare_node::gpu::Roots;
use gpushare_node::job::{JobKey, NodeJob, Noted};
use gpushare_node::ledger::Ledger;
use gpushare_node::place::{self, Node, Placed};

const GPUS: &str = "/dev/null,/dev/zero,/dev/full,/dev/random,/dev/urandom,/dev/tty,/dev/ptmx,/dev/fuse";
const ROUNDS: usize = 2000;
const LIMIT: f64 = 1.5;

struct Side {
    ledger: Ledger,
    times: Vec<Duration>,
}

fn job(id: u32, user_id: u32) -> NodeJob {
    let noted = Some(Noted { gres: "gpushare".to_owned(), units: 1 });
    NodeJob { key: JobKey { id, restart: 0 }, user_id, percent: None, noted, gpus: Vec::new() }
}

fn place(config: &NodeConfig, ledger: &Ledger, job: &NodeJob, now: u64) -> Result<(), Box<dyn Error>> {
    let roots = Roots::system();
    match place::place(
        Node { config, ledger, roots: &roots, gres_conf: None, name: None },
        job,
        &mut (),
        now,
    )? {
        Placed::Now(..) => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

fn filled(
    config: &NodeConfig,
    folder: &Path,
    entries: u32,
    users: u32,
    now: u64,
) -> Result<Side, Box<dyn Error>> {
    let ledger = Ledger::at(folder);
    for id in 1..=entries {
        place(config, &ledger, &job(id, 2000 + id % users), now)?;
        ledger.witness(JobKey { id, restart: 0 }, std::process::id(), 1)?;
    }
    Ok(Side { ledger, times: Vec::with_capacity(ROUNDS) })
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(f64::NAN, Duration::as_secs_f64)
}

fn measure(config: &NodeConfig, users: u32) -> Result<f64, Box<dyn Error>> {
    let dir = tempfile::tempdir_in("/dev/shm")?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    let mut sides = Vec::new();
    for entries in [1, 1000] {
        sides.push(filled(config, &dir.path().join(entries.to_string()), entries, users, now)?);
    }
    for _ in 0..ROUNDS {
        for side in &mut sides {
            let start = Instant::now();
            place(config, &side.ledger, &job(5000, 2001), now)?;
            side.times.push(start.elapsed());
            place::release(&side.ledger, 5000, Some(0))?;
        }
    }
    let medians: Vec<f64> = sides.iter_mut().map(|side| median(&mut side.times)).collect();
    let [one, thousand] = medians.as_slice() else { return Err("two sides".into()) };
    println!("place beside 1,000 entries of {users} users / beside 1: {:.2}", thousand / one);
    if std::env::args().any(|argument| argument == "--times") {
        println!("  medians: {:.1} us, {:.1} us", thousand * 1e6, one * 1e6);
    }
    Ok(thousand / one)
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let text = format!("Placement=own\nShareGRES=gpushare\nUnitsPerGpu=1000\nGpuFile={GPUS}\n");
    let config = Nodes::parse(&text)?.all;
    let mut flat = true;
    for users in [30, 1000] {
        flat &= measure(&config, users)? <= LIMIT;
    }
    Ok(ExitCode::from(u8::from(!flat)))
}
