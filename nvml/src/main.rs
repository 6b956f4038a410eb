//! gpushare-nvml: queries NVML about the node's GPUs and prints the answer, or sets what only NVML can set.
//!
//! This is a separate program, so that a hang or crash in the driver's library affects only this process, and no other
//! program has to load the library. It prints everything or nothing. Exit status 0, or 1 with one line on standard
//! error.
//!
//! ```text
//! gpushare-nvml [--library PATH]                          prints gpushare_node::nvml::answer::Measured
//! gpushare-nvml [--library PATH] processes                the same, and the GPUs' processes
//! gpushare-nvml [--library PATH] compute-mode UUID default|exclusive-process
//! gpushare-nvml [--library PATH] limit UUID CGROUP MIB    a cgroup's part of the GPU's memory
//! ```
#![deny(unsafe_code)]

mod error;
mod fault;
mod measure;
mod raw;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::mem::ManuallyDrop;
use std::process::ExitCode;
use std::time::Duration;

use gpushare_node::gpu::{Roots, is_loaded};
use gpushare_node::nvml::answer::Mode;
use gpushare_node::nvml::printed::Printed;
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::ComputeMode;
use nvml_wrapper::error::NvmlError;

use error::RunError;

/// Longer than any caller waits. The caller may have ended, and a hanging driver never answers.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    // A driver that hangs in the kernel blocks the main thread, but not this one.
    let watch = std::thread::Builder::new().spawn(|| {
        std::thread::sleep(PATIENCE);
        say(&RunError::Late(PATIENCE));
        std::process::exit(1);
    });
    let said = match watch {
        Ok(_) => std::env::args_os().skip(1).collect::<Vec<_>>().as_slice().try_into().and_then(run),
        Err(error) => Err(RunError::Thread(error)),
    };
    let printed =
        said.and_then(|text| std::io::stdout().write_all(text.as_bytes()).map_err(RunError::Output));
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&error);
            ExitCode::FAILURE
        }
    }
}

fn say(error: &RunError) {
    let _ = std::io::stderr().write_all(format!("gpushare-nvml: {error}\n").as_bytes());
}

/// What to do, and with which library.
#[derive(Debug, PartialEq, Eq)]
struct Order {
    library: Option<OsString>,
    what: What,
}

#[derive(Debug, PartialEq, Eq)]
enum What {
    Measure { processes: bool },
    ComputeMode { uuid: String, mode: Mode },
    Limit { uuid: String, cgroup: String, mib: u32 },
}

impl TryFrom<&[OsString]> for Order {
    type Error = RunError;

    fn try_from(arguments: &[OsString]) -> Result<Order, RunError> {
        let (library, words) = match arguments {
            [option, path, rest @ ..] if option == "--library" => (Some(path.clone()), rest),
            all => (None, all),
        };
        let words: Option<Vec<&str>> = words.iter().map(|word| word.to_str()).collect();
        let words = words.ok_or(RunError::Usage)?;
        let what = match words.as_slice() {
            [] => What::Measure { processes: false },
            ["processes"] => What::Measure { processes: true },
            ["compute-mode", uuid, mode] => {
                let mode = Mode::read(mode).filter(|mode| *mode != Mode::Prohibited);
                What::ComputeMode { uuid: (*uuid).to_owned(), mode: mode.ok_or(RunError::Usage)? }
            }
            ["limit", uuid, cgroup, mib] if cgroup.starts_with('/') => What::Limit {
                uuid: (*uuid).to_owned(),
                cgroup: (*cgroup).to_owned(),
                mib: mib.parse().ok().filter(|mib| *mib > 0).ok_or(RunError::Usage)?,
            },
            _ => return Err(RunError::Usage),
        };
        Ok(Order { library, what })
    }
}

fn run(order: Order) -> Result<String, RunError> {
    let Order { library, what } = order;
    // Never shut down explicitly: the end of this process does that, and the wrapper panics if a library lacks
    // nvmlShutdown.
    let nvml = ManuallyDrop::new(open(library.as_deref()).map_err(RunError::Nvml)?);
    match what {
        What::Measure { processes } => measure::all(&nvml, &Roots::system(), processes)
            .map(|measured| Printed(&measured).to_string())
            .map_err(RunError::Nvml),
        What::ComputeMode { uuid, mode } => {
            let set = set_compute_mode(&nvml, &uuid, mode);
            set.map(|()| String::new()).map_err(|error| RunError::Gpu { uuid, error })
        }
        What::Limit { uuid, cgroup, mib } => {
            let set = limit(&nvml, &uuid, &cgroup, mib);
            set.map(|()| String::new()).map_err(|error| RunError::Cgroup { uuid, cgroup, error })
        }
    }
}

fn open(library: Option<&OsStr>) -> Result<Nvml, NvmlError> {
    let opened = match library {
        Some(path) => Nvml::builder().lib_path(path).init(),
        None => Nvml::init(),
    };
    opened.map_err(|error| cause(error, is_loaded(&Roots::system())))
}

/// Without a driver NVML says so only if it may open /dev/nvidiactl: the open then fails with ENXIO. A device cgroup
/// denies it (EPERM), even one with systemd's `DeviceAllow=char-nvidia*`, because there are no such devices to allow.
/// NVML then gives an unknown error (seen with 535 and 550). A fault that a driver reports stays as it is.
fn cause(error: NvmlError, is_loaded: bool) -> NvmlError {
    match error {
        NvmlError::Unknown | NvmlError::NoPermission if !is_loaded => NvmlError::DriverNotLoaded,
        error => error,
    }
}

fn set_compute_mode(nvml: &Nvml, uuid: &str, mode: Mode) -> Result<(), NvmlError> {
    let wanted = match mode {
        Mode::Default => ComputeMode::Default,
        Mode::ExclusiveProcess => ComputeMode::ExclusiveProcess,
        Mode::Prohibited => ComputeMode::Prohibited,
    };
    nvml.device_by_uuid(uuid)?.set_compute_mode(wanted)
}

fn limit(nvml: &Nvml, uuid: &str, cgroup: &str, mib: u32) -> Result<(), NvmlError> {
    raw::limit_memory(nvml, &nvml.device_by_uuid(uuid)?, cgroup, u64::from(mib) << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(words: &[&str]) -> Result<Order, RunError> {
        words.iter().map(OsString::from).collect::<Vec<_>>().as_slice().try_into()
    }

    #[test]
    fn what_is_asked_is_told_by_the_words() {
        let library = Some("/lib/x.so".into());
        for (words, expected) in [
            (&[][..], Order { library: None, what: What::Measure { processes: false } }),
            (
                &["--library", "/lib/x.so"],
                Order { library: library.clone(), what: What::Measure { processes: false } },
            ),
            (&["processes"], Order { library: None, what: What::Measure { processes: true } }),
            (
                &["compute-mode", "GPU-a", "exclusive-process"],
                Order {
                    library: None,
                    what: What::ComputeMode { uuid: "GPU-a".into(), mode: Mode::ExclusiveProcess },
                },
            ),
            (
                &["--library", "/lib/x.so", "limit", "GPU-a", "/sys/fs/cgroup/job_7", "2048"],
                Order {
                    library,
                    what: What::Limit {
                        uuid: "GPU-a".into(),
                        cgroup: "/sys/fs/cgroup/job_7".into(),
                        mib: 2048,
                    },
                },
            ),
        ] {
            assert_eq!(order(words).unwrap(), expected, "{words:?}");
        }
    }

    #[test]
    fn an_error_without_a_driver_is_that_there_is_none() {
        for (is_loaded, error, expected) in [
            (false, NvmlError::Unknown, "driver not loaded"),
            (false, NvmlError::NoPermission, "driver not loaded"),
            (false, NvmlError::DriverNotLoaded, "driver not loaded"),
            (false, NvmlError::LibRmVersionMismatch, "RM detects a driver/library version mismatch"),
            (true, NvmlError::Unknown, "an internal driver error occurred"),
            (true, NvmlError::NoPermission, "the current user does not have permission"),
        ] {
            let said = RunError::Nvml(cause(error, is_loaded)).to_string();
            assert!(said.starts_with(expected), "{is_loaded}: {said}");
        }
    }

    #[test]
    fn what_is_not_understood_does_nothing() {
        for words in [
            &["--library"][..],
            &["measure"],
            &["processes", "GPU-a"],
            &["compute-mode", "GPU-a"],
            &["compute-mode", "GPU-a", "prohibited"],
            &["compute-mode", "GPU-a", "default", "GPU-b"],
            &["limit", "GPU-a", "job_7", "2048"],
            &["limit", "GPU-a", "/job_7", "0"],
            &["limit", "GPU-a", "/job_7", "-1"],
        ] {
            assert!(matches!(order(words), Err(RunError::Usage)), "{words:?}");
        }
        use std::os::unix::ffi::OsStringExt;
        let no_text = OsString::from_vec(vec![0xff]);
        assert!(Order::try_from(&[no_text][..]).is_err());
    }
}
