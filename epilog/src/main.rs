//! gpushare-epilog, run by slurmd as `Epilog=`, as root, when a job has left this node: takes the job's share back.
//!
//! slurmd runs it for every job, with or without a share, perhaps twice, perhaps with no prolog before it; nothing to do
//! is success. It ends with 0 whatever happens: anything else makes slurmd drain the node, and an entry that stays
//! behind costs less than a node.
#![forbid(unsafe_code)]

use gpushare::job::{JobKey, id_and_restart};
use gpushare::ledger::{Ledger, RUN_DIR};
use gpushare::node;
use gpushare_prolog::{error, info, variable};

const NAME: &str = "gpushare-epilog";

fn main() {
    gpushare_prolog::run(NAME, || match release() {
        Ok(Some(key)) => info(NAME, &format!("job {}: share taken back", key.id)),
        Ok(None) => {}
        Err(reason) => error(NAME, &reason),
    });
}

fn release() -> Result<Option<JobKey>, String> {
    let (id, restart) = id_and_restart(variable).map_err(|error| error.to_string())?;
    node::release(&Ledger::at(RUN_DIR), id, restart).map_err(|error| format!("job {id}: {error}"))
}
