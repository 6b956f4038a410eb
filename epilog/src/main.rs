//! gpushare-epilog, run by slurmd as `Epilog=`, as root, when a job has left this node: takes the job's share back.
//!
//! slurmd runs it for every job, with or without a share, perhaps twice, perhaps with no prolog before it; nothing to
//! do is success. It ends with 0 whatever happens: anything else makes slurmd drain the node, and an entry that stays
//! behind costs less than a node.
#![forbid(unsafe_code)]

fn main() {
    gpushare_prolog::epilog("gpushare-epilog");
}
