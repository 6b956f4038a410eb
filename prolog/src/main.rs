//! gpushare-prolog, run by slurmd as `Prolog=`, as root, before a job's first step on this node: gives the job's share
//! a GPU and writes that into the ledger.
//!
//! It ends with 0 whatever happens: anything else makes slurmd drain the node. A job with a share and no entry in the
//! ledger is failed by spank_gpushare.so, with a line to its user; the reason is in syslog, from here, as one line.
#![forbid(unsafe_code)]

fn main() {
    gpushare_prolog::prolog("gpushare-prolog");
}
