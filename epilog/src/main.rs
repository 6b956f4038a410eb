//! gpushare-epilog: slurmd runs it as root, as `Epilog=`, when a job has left this node. It releases the job's share.
//!
//! slurmd runs it for every job, with or without a share, perhaps twice, perhaps without an earlier prolog. If there is
//! nothing to do, that is success. It always exits with 0: any other status makes slurmd drain the node, and a leftover
//! entry costs less than a node.
#![forbid(unsafe_code)]

fn main() {
    gpushare_logger::start("gpushare-epilog");
    gpushare_prolog::epilog();
}
