//! Runs gpushare-nvml: queries what the GPUs are doing, while the prolog does something else, and sets what only NVML
//! can set.
//!
//! If NVML doesn't answer, no job fails: placement uses the ledger alone. A problem is reported once, not for every
//! job, and remembered in the ledger's directory. Without a library or driver, NVML is queried only once a minute. It
//! is also queried less often if a driver hangs, so that processes that can't be killed don't pile up.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::config::{NodeConfig, Placement};
use crate::gpu::{Roots, known_to_the_driver};
use crate::ledger::Ledger;
use crate::nvml::answer::{Measured, Mode, NO_DRIVER, NO_LIBRARY};

use crate::exec::Asked;
use ask::{LATE, command, late, said, set};

pub mod answer;
mod ask;
pub mod printed;
mod reading;
mod remembered;

pub use ask::{Trouble, limit_memory};
pub use reading::Unreadable;
pub use remembered::Silence;

/// Prologs hold the ledger's lock for milliseconds.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// How long to wait before asking again on a node without a library or driver: only an administrator can change that.
const QUIET: Duration = Duration::from_secs(60);
/// How long to wait before asking a hanging driver again.
const QUIET_AFTER_A_HANG: Duration = Duration::from_secs(10);
/// The minimum time to wait for the answer: an answer that is already there counts, even if earlier work used up the
/// time.
const LEAST: Duration = Duration::from_millis(5);

/// A query to NVML without an answer yet. Dropping it kills gpushare-nvml.
#[derive(Debug)]
#[must_use]
pub struct Nvml {
    asked: Result<(Asked, Instant), Trouble>,
    patience: Duration,
}

impl Nvml {
    /// Starts gpushare-nvml, which then runs in parallel to the caller. If MPS daemons need the UUID of a GPU that
    /// nothing has initialised since boot, or [`Placement::Own`] needs its device node, it may take as long as such a
    /// daemon, because NVML initialises the GPU first. With `processes` it also reports the GPUs' processes.
    pub fn start(config: &NodeConfig, ledger: &Ledger, roots: &Roots, processes: bool) -> Nvml {
        let needs = |minor: u32| {
            let is_there = roots.dev.join(format!("nvidia{minor}")).symlink_metadata().is_ok();
            config.runs_daemons() || (config.placement == Placement::Own && !is_there)
        };
        let wakes = known_to_the_driver(roots).iter().any(|(uuid, minor)| uuid.is_none() && needs(*minor));
        let patience = if wakes { config.nvml_timeout.max(config.mps_timeout) } else { config.nvml_timeout };
        let command = match ledger.silence() {
            Some(last) if last.age.is_some_and(|age| age < quiet_after(&last.reason)) => {
                Err(Trouble::Remembered(last.reason))
            }
            _ => command(config).map(|mut command| {
                command.args(processes.then_some("processes"));
                command
            }),
        };
        Nvml::run(command, patience)
    }

    fn run(command: Result<Command, Trouble>, patience: Duration) -> Nvml {
        let start = Instant::now();
        let asked = command.and_then(|mut command| Asked::start(&mut command, "").map_err(Trouble::Ask));
        Nvml { asked: asked.map(|asked| (asked, start)), patience }
    }

    /// Waits for the answer, until the time that counts from the start has passed.
    ///
    /// # Errors
    /// There is no answer, or it can't be read.
    pub fn measured(self) -> Result<Measured, Trouble> {
        let (asked, start) = self.asked?;
        let left = self.patience.saturating_sub(start.elapsed()).max(LEAST);
        said(asked.answer(left).map_err(|error| late(error, self.patience)))
            .and_then(|text| text.parse().map_err(|why: Unreadable| Trouble::Nonsense(why.to_string())))
    }

    /// The same, and remembers the result for the next prolog. Returns the reason only the first time that there is no
    /// answer.
    pub fn measured_for_job(self, ledger: &Ledger) -> (Option<Measured>, Option<String>) {
        match self.measured() {
            Ok(measured) => {
                let noted = ledger.note_answer(measured.limits, LOCK_WAIT);
                (Some(measured), noted.err().map(|error| error.to_string()))
            }
            Err(Trouble::Off | Trouble::Remembered(_)) => (None, None),
            Err(trouble) => {
                let reason = trouble.to_string();
                // If it can't be remembered, every job reports it, and also that.
                match ledger.note_silence(&reason, LOCK_WAIT) {
                    Ok(is_new) => (None, Some(reason).filter(|_| is_new)),
                    Err(error) => (None, Some(format!("{reason}; {error}"))),
                }
            }
        }
    }
}

/// Sets a GPU's compute mode.
///
/// # Errors
/// NVML can't be asked, or refuses.
pub(crate) fn set_compute_mode(config: &NodeConfig, uuid: &str, mode: Mode) -> Result<(), Trouble> {
    set(config, &["compute-mode", uuid, mode.word()])
}

fn quiet_after(reason: &str) -> Duration {
    if is_absent(reason) {
        QUIET
    } else if reason.starts_with(LATE) {
        QUIET_AFTER_A_HANG
    } else {
        Duration::ZERO
    }
}

impl Trouble {
    /// Whether NVML is off or not installed, which is not an error.
    pub fn is_absence(&self) -> bool {
        match self {
            Trouble::Off => true,
            Trouble::Remembered(reason) | Trouble::Said(reason) => is_absent(reason),
            Trouble::Ask(_) | Trouble::Late(_) | Trouble::Ended(_) | Trouble::Nonsense(_) => false,
        }
    }
}

fn is_absent(reason: &str) -> bool {
    reason.starts_with(NO_LIBRARY) || reason.starts_with(NO_DRIVER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::exec::program;
    use crate::fake::ledger;
    use std::path::Path;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn saying(script: &str) -> Nvml {
        let mut command = program(Path::new("/bin/sh"));
        command.args(["-c", script]);
        Nvml::run(Ok(command), PATIENCE)
    }

    #[test]
    fn an_answer_is_read_and_anything_else_says_why() {
        let measured = saying("printf 'gpushare-nvml 1\\nlimits=yes\\nend\\n'").measured().unwrap();
        assert!(measured.limits && measured.gpus.is_empty());
        for (script, expected) in [
            ("echo 'gpushare-nvml: driver not loaded' >&2; exit 1", "driver not loaded"),
            (
                "echo gpushare-nvml 1",
                "the answer of gpushare-nvml makes no sense: its last line is not 'end'",
            ),
            ("exit 1", "it printed nothing"),
            ("exit 3", "gpushare-nvml ended with exit status: 3"),
            ("kill -ABRT $$", "gpushare-nvml ended with signal: 6 (SIGABRT)"),
        ] {
            let reason = saying(script).measured().unwrap_err().to_string();
            assert_eq!(reason.trim_end_matches(" (core dumped)"), expected, "{script}");
        }
        let mut command = program(Path::new("/bin/sleep"));
        command.arg("300");
        let late = Nvml::run(Ok(command), Duration::from_millis(20)).measured().unwrap_err();
        assert_eq!(late.to_string(), "no answer in 20 ms");
        let missing = Nvml::run(Ok(program(Path::new("/no/such/program"))), PATIENCE).measured();
        assert!(missing.unwrap_err().to_string().starts_with("/no/such/program can't be run: "));
    }

    #[test]
    fn the_same_trouble_is_told_once() {
        let (_dir, ledger) = ledger();
        let without =
            || saying("echo 'gpushare-nvml: driver not loaded' >&2; exit 1").measured_for_job(&ledger);
        assert_eq!(without(), (None, Some("driver not loaded".to_owned())));
        assert_eq!(without(), (None, None));
        let (measured, told) =
            saying("printf 'gpushare-nvml 1\\nlimits=no\\nend\\n'").measured_for_job(&ledger);
        assert_eq!((measured, told), (Some(Measured::default()), None));
        assert_eq!(without(), (None, Some("driver not loaded".to_owned())));
    }

    #[test]
    fn a_node_where_nvml_is_missing_or_hangs_is_not_asked_at_every_job() {
        let (_dir, ledger) = ledger();
        let config = NodeConfig::default();
        let asks = |reason: &str| {
            ledger.note_silence(reason, PATIENCE).unwrap();
            !matches!(
                Nvml::start(&config, &ledger, &Roots::system(), false).asked,
                Err(Trouble::Remembered(_))
            )
        };
        assert!(!asks("library not found: libnvidia-ml.so.1: cannot open shared object file"));
        assert!(!asks("driver not loaded"));
        assert!(!asks(&Trouble::Late(config.nvml_timeout).to_string()));
        assert!(asks("gpushare-nvml ended with signal: 6 (SIGABRT)"));
        let off = NodeConfig { nvml: config::Nvml::Off, ..NodeConfig::default() };
        assert!(matches!(Nvml::start(&off, &ledger, &Roots::system(), false).asked, Err(Trouble::Off)));
    }
}
