//! What the SPANK plugin does with the ledger, without Slurm: `step extern JOB PID` is the extern step, whose
//! slurmstepd is process PID; `step fail JOB USER` is an extern step that can't be fenced; `step task JOB` another
//! step's task. For tests/faults/schedules.py; never installed.
#![expect(clippy::print_stdout, reason = "it is a program")]

use gpushare_node::job::JobKey;
use gpushare_node::ledger::{Ledger, Witness, extern_step};
use std::path::Path;
use std::time::Duration;

/// As in plugins/spank.
const LOCK_WAIT: Duration = Duration::from_secs(5);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [what, job, rest @ ..] = words.as_slice() else { return Err("usage: step WHAT JOB [NUMBER]".into()) };
    let number = || rest.first().map_or(Ok(0), |word| word.parse::<u32>());
    let (job, ledger) = (job.parse()?, Ledger::system());
    match what.as_str() {
        "extern" => {
            let pid = number()?;
            let start = gpushare_node::proc::start_time(Path::new("/proc"), pid)?.ok_or("no such process")?;
            if let Some(entry) = ledger.find(job)? {
                extern_step::note(&ledger.lock(LOCK_WAIT)?, entry.key, Witness { pid, start })?;
            }
        }
        "fail" => {
            let key = JobKey { id: job, restart: 0 };
            ledger.lock(LOCK_WAIT)?.fail(key, number()?, "ssh sessions can't be fenced: as an example")?;
        }
        _ => match ledger.find(job)? {
            None => println!("no entry"),
            Some(entry) => println!("{entry}"),
        },
    }
    Ok(())
}
