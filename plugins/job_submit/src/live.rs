//! The current gpushare.conf: checked at most once a second, replaced as a whole, with the last good one kept.
//!
//! Submissions pay at most one stat(2) a second and never wait for each other: one checks the file, the others continue
//! with the current rules. An edit takes effect once the file has been unchanged for a second, so that a half-written
//! file never becomes the policy. A broken or missing file is one error in the log. Each good text is kept in
//! `StateSaveLocation`; if slurmctld finds a broken file when it starts, it uses that copy.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use gpushare::config::last_good::{self, NoCopy, NoRules, Start};
use gpushare::config::{self, Config};
use gpushare::submit::policy::Policy;
use parking_lot::{Mutex, RwLock};

/// The time between two checks of the file, and for which an edited file must be unchanged.
const PAUSE: Duration = Duration::from_secs(1);

/// The current policy and the file that it came from.
pub struct Live {
    /// `None` until the first [`start`](Live::start); until then submissions are refused.
    policy: RwLock<Option<Arc<Policy>>>,
    /// When to check the file again, in milliseconds of [`now`].
    due: AtomicU64,
    file: Mutex<Option<File>>,
}

struct File {
    slurm_conf: PathBuf,
    /// Where to keep the last good text.
    state: Option<PathBuf>,
    /// The state of the file that was last read, or found broken.
    judged: Option<Stamp>,
    /// A change that is still too recent to be read.
    young: Option<Stamp>,
}

/// Distinguishes one state of the file from another.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Stamp {
    path: PathBuf,
    /// Device, inode, size, seconds and nanoseconds of the last change; `None` if there is no file.
    file: Option<(u64, u64, u64, i64, i64)>,
}

impl Live {
    pub const fn new() -> Live {
        Live { policy: RwLock::new(None), due: AtomicU64::new(0), file: Mutex::new(None) }
    }

    /// Reads the file that belongs to a slurm.conf; `state` is `StateSaveLocation`. Without a file the defaults apply.
    /// If the file is broken, the last good text applies. Returns the file of `RefusalCounts`.
    ///
    /// # Errors
    /// The file is broken and there is no last good text: nothing would show which jobs the rules miss.
    pub fn start(&self, slurm_conf: &Path, state: Option<PathBuf>) -> Result<Option<PathBuf>, NoRules> {
        let stamp = Stamp::of(slurm_conf);
        let path = stamp.path.display();
        let found = Config::load_with_text(&stamp.path);
        let copy = || state.as_deref().map_or(Err(NoCopy::None), last_good::read);
        let config = match last_good::choose(found, copy)? {
            Start::File(config, text) => {
                log::info!("job_submit/gpushare: {path} read");
                keep(state.as_deref(), &stamp.path, &text);
                config
            }
            Start::Defaults => {
                log::info!("job_submit/gpushare: {path} does not exist, the defaults apply");
                Config::default()
            }
            Start::LastGood(config, copy, error) => {
                let copy = copy.path.display();
                log::error!("job_submit/gpushare: {error}; the last good rules stay in force, from {copy}");
                config
            }
        };
        self.adopt(config.policy);
        let mut file = self.file.lock();
        *file = Some(File { slurm_conf: slurm_conf.to_owned(), state, judged: Some(stamp), young: None });
        self.due.store(now().saturating_add(millis(PAUSE)), Ordering::Relaxed);
        Ok(config.refusal_counts)
    }

    /// The current policy.
    pub fn policy(&self) -> Option<Arc<Policy>> {
        let now = now();
        let due = self.due.load(Ordering::Relaxed);
        let next = now.saturating_add(millis(PAUSE));
        if now >= due && self.due.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.look();
        }
        self.policy.read().clone()
    }

    fn adopt(&self, policy: Policy) {
        log::debug!("job_submit/gpushare: {policy:?}");
        *self.policy.write() = Some(Arc::new(policy));
    }

    fn look(&self) {
        let Some(mut file) = self.file.try_lock() else { return };
        let Some(file) = file.as_mut() else { return };
        let stamp = Stamp::of(&file.slurm_conf);
        if file.judged.as_ref() == Some(&stamp) {
            file.young = None;
            return;
        }
        if !stamp.is_old() && file.young.as_ref() != Some(&stamp) {
            file.young = Some(stamp);
            return;
        }
        let found = Config::load_with_text(&stamp.path);
        if Stamp::of(&file.slurm_conf) != stamp {
            return; // it changed while it was read
        }
        let path = stamp.path.display();
        match found {
            Ok(Some((config, text))) => {
                self.adopt(config.policy);
                log::info!("job_submit/gpushare: {path} read again");
                keep(file.state.as_deref(), &stamp.path, &text);
            }
            Ok(None) => {
                log::error!("job_submit/gpushare: {path} is gone; its last rules stay in force")
            }
            Err(error) => {
                log::error!("job_submit/gpushare: {error}; the last good rules stay in force")
            }
        }
        file.judged = Some(stamp);
        file.young = None;
    }
}

impl Stamp {
    fn of(slurm_conf: &Path) -> Stamp {
        let path = config::find(slurm_conf, Path::new(config::FALLBACK));
        let file = match path.metadata() {
            Ok(data) => Some((data.dev(), data.ino(), data.size(), data.ctime(), data.ctime_nsec())),
            // An error other than "not found" doesn't mean that the file is missing.
            Err(error) if error.kind() != io::ErrorKind::NotFound => Some((0, 0, 0, 0, 0)),
            Err(_) => None,
        };
        Stamp { path, file }
    }

    /// Whether the file has been unchanged for long enough, by the machine's own clock: users can't set ctime.
    fn is_old(&self) -> bool {
        let Some((_, _, _, seconds, nanoseconds)) = self.file else { return false };
        let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(seconds), u32::try_from(nanoseconds)) else {
            return false;
        };
        let changed = SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds));
        changed.is_some_and(|changed| changed.elapsed().is_ok_and(|age| age >= PAUSE))
    }
}

/// Keeps a good text for the next start. If that fails, the log gets an error; it matters only at that start.
fn keep(state: Option<&Path>, source: &Path, text: &str) {
    let Some(folder) = state else { return };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    if let Err(error) = last_good::keep(folder, source, text, now) {
        let copy = last_good::path(folder);
        log::error!(
            "job_submit/gpushare: {}: {error}; no copy of {} is kept: slurmctld would not start if that file were \
             broken",
            copy.display(),
            source.display()
        );
    }
}

/// Milliseconds since the first call.
fn now() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    millis(START.elapsed())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
