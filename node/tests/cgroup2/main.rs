//! Tests the fence on cgroup v2 against the running kernel: with cgroups and programs as Slurm makes them, a fence
//! around them, and processes that try to open device nodes in every place of the step. Needs root and a cgroup2
//! hierarchy, so it runs only with `GPUSHARE_TEST_KERNEL=1`, and otherwise reports why it doesn't. It removes
//! everything that it makes.
//!
//! Arguments: `harden` also tests programs that the kernel blinds, and raises net.core.bpf_jit_harden and
//! kernel.kptr_restrict for a moment; `time` prints how long a fence takes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test program"
)]

mod cases;
mod place;
#[path = "../../src/fence/filter/slurm.rs"]
#[allow(dead_code, reason = "its other half is for the unit tests beside it")]
mod slurm;

// For the module above, which the tests of its own crate use too.
use gpushare_node::fence::filter::{program, unblind};

use place::Place;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("ask") => return println!("{}", place::answers(&arguments[1..])),
        Some("attach") => return println!("{}", place::refusal(&arguments[1])),
        _ => {}
    }
    if std::env::var_os("GPUSHARE_TEST_KERNEL").is_none() {
        return println!("cgroup2: not run: GPUSHARE_TEST_KERNEL is not set");
    }
    let place = match Place::new() {
        Ok(place) => place,
        Err(reason) => return println!("NOT TESTED: cgroup2: {reason}"),
    };
    for (name, case) in cases::ALL {
        case(&place);
        println!("cgroup2: {name}: ok");
    }
    if arguments.iter().any(|argument| argument == "harden") {
        cases::blinded_programs(&place);
        println!("cgroup2: blinded programs: ok");
    } else {
        // It changes settings of the whole machine.
        println!("NOT TESTED: cgroup2: programs that the kernel blinds (make test-long)");
    }
    if arguments.iter().any(|argument| argument == "time") {
        cases::time(&place);
    }
}
