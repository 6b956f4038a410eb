//! gpushare-prolog: slurmd runs it as root, as `Prolog=`, before a job's first step on this node. It gives the job's
//! share a GPU and records that in the ledger.
//!
//! It always exits with 0, and within a bounded time: any other end makes slurmd drain the node. If a job with a share
//! has no entry in the ledger, spank_gpushare.so fails it, with a line to its user; this program writes the reason to
//! syslog, as one line. Where Slurm doesn't tell a step of the share, spank_gpushare.so asks this program.
#![forbid(unsafe_code)]

use std::io::Write;

const NAME: &str = "gpushare-prolog";

fn main() {
    gpushare_logger::start(NAME);
    // slurmd passes no arguments; spank_gpushare.so does.
    match std::env::args_os().nth(1) {
        Some(word) if word == "heal" => gpushare_prolog::heal(),
        Some(word) if word == "missed" => {
            let _ = writeln!(std::io::stdout(), "{}", gpushare_prolog::missed());
        }
        _ => gpushare_prolog::prolog(NAME),
    }
}
