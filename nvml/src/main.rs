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

mod fault;
mod measure;
mod raw;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::mem::ManuallyDrop;
use std::process::ExitCode;
use std::time::Duration;

use gpushare_node::gpu::Roots;
use gpushare_node::nvml::answer::{Mode, NO_DRIVER, NO_LIBRARY};
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::ComputeMode;
use nvml_wrapper::error::NvmlError;

const USAGE: &str = "usage: gpushare-nvml [--library PATH] [processes | compute-mode UUID default|exclusive-process | \
                     limit UUID CGROUP MIB]";
/// Longer than any caller waits. The caller may have ended, and a hanging driver never answers.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    // A driver that hangs in the kernel blocks the main thread, but not this one.
    let watch = std::thread::Builder::new().spawn(|| {
        std::thread::sleep(PATIENCE);
        say(&format!("NVML did not answer in {} s", PATIENCE.as_secs()));
        std::process::exit(1);
    });
    let said = match watch {
        Ok(_) => std::env::args_os().skip(1).collect::<Vec<_>>().as_slice().try_into().and_then(run),
        Err(error) => Err(format!("no thread can be started: {error}")),
    };
    let printed = said.and_then(|text| {
        std::io::stdout().write_all(text.as_bytes()).map_err(|error| format!("standard output: {error}"))
    });
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            say(&reason);
            ExitCode::FAILURE
        }
    }
}

fn say(reason: &str) {
    let _ = std::io::stderr().write_all(format!("gpushare-nvml: {reason}\n").as_bytes());
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
    type Error = String;

    fn try_from(arguments: &[OsString]) -> Result<Order, String> {
        let (library, words) = match arguments {
            [option, path, rest @ ..] if option == "--library" => (Some(path.clone()), rest),
            all => (None, all),
        };
        let words: Vec<&str> = words.iter().map(|word| word.to_str()).collect::<Option<_>>().ok_or(USAGE)?;
        let what = match words.as_slice() {
            [] => What::Measure { processes: false },
            ["processes"] => What::Measure { processes: true },
            ["compute-mode", uuid, mode] => {
                let mode = mode.parse().ok().filter(|mode| *mode != Mode::Prohibited).ok_or(USAGE)?;
                What::ComputeMode { uuid: (*uuid).to_owned(), mode }
            }
            ["limit", uuid, cgroup, mib] if cgroup.starts_with('/') => What::Limit {
                uuid: (*uuid).to_owned(),
                cgroup: (*cgroup).to_owned(),
                mib: mib.parse().ok().filter(|mib| *mib > 0).ok_or(USAGE)?,
            },
            _ => return Err(USAGE.to_owned()),
        };
        Ok(Order { library, what })
    }
}

fn run(order: Order) -> Result<String, String> {
    let Order { library, what } = order;
    // Never shut down explicitly: the end of this process does that, and the wrapper panics if a library lacks
    // nvmlShutdown.
    let nvml = ManuallyDrop::new(open(library.as_deref()).map_err(|error| in_words(&error))?);
    match what {
        What::Measure { processes } => measure::all(&nvml, &Roots::system(), processes)
            .map(|measured| measured.to_string())
            .map_err(|error| in_words(&error)),
        What::ComputeMode { uuid, mode } => set_compute_mode(&nvml, &uuid, mode),
        What::Limit { uuid, cgroup, mib } => limit(&nvml, &uuid, &cgroup, mib),
    }
}

fn open(library: Option<&OsStr>) -> Result<Nvml, NvmlError> {
    match library {
        Some(path) => Nvml::builder().lib_path(path).init(),
        None => Nvml::init(),
    }
}

fn set_compute_mode(nvml: &Nvml, uuid: &str, mode: Mode) -> Result<String, String> {
    let wanted = match mode {
        Mode::Default => ComputeMode::Default,
        Mode::ExclusiveProcess => ComputeMode::ExclusiveProcess,
        Mode::Prohibited => ComputeMode::Prohibited,
    };
    let set = nvml.device_by_uuid(uuid).and_then(|mut device| device.set_compute_mode(wanted));
    set.map(|()| String::new()).map_err(|error| format!("GPU '{}': {}", plain(uuid), in_words(&error)))
}

fn limit(nvml: &Nvml, uuid: &str, cgroup: &str, mib: u32) -> Result<String, String> {
    let bytes = u64::from(mib) << 20;
    let set = nvml.device_by_uuid(uuid).and_then(|device| raw::limit_memory(nvml, &device, cgroup, bytes));
    set.map(|()| String::new())
        .map_err(|error| format!("GPU '{}', cgroup '{}': {}", plain(uuid), plain(cgroup), in_words(&error)))
}

/// The error as one line. Errors that the readers of this program distinguish begin with our own words.
fn in_words(error: &NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(error) => format!("{NO_LIBRARY}: {}", plain(&error.to_string())),
        NvmlError::DriverNotLoaded => NO_DRIVER.to_owned(),
        error => plain(&error.to_string()),
    }
}

fn plain(text: &str) -> String {
    text.trim().replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(words: &[&str]) -> Result<Order, String> {
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
            assert_eq!(order(words), Ok(expected), "{words:?}");
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
            assert_eq!(order(words), Err(USAGE.to_owned()), "{words:?}");
        }
        use std::os::unix::ffi::OsStringExt;
        let no_text = OsString::from_vec(vec![0xff]);
        assert!(Order::try_from(&[no_text][..]).is_err());
    }
}
