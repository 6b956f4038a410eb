//! The current gpushare.conf: read when slurmctld starts and again when it takes control, then checked at most once a
//! second, replaced as a whole, with the last good one kept.
//!
//! Each controller loads the plugin when it starts, also as a standby, and Slurm calls no hook when a standby takes
//! control. So the first request after that finds out ([`Live::policy`]): it reads the file again and, if that is
//! broken or missing, the copy in `StateSaveLocation`, which has what the cluster's last controller used. Only then is
//! the copy written: a standby changes nothing.
//!
//! Submissions pay at most one stat(2) a second and never wait for each other: one checks the file, the others continue
//! with the current rules. An edit takes effect once the file has been unchanged for a second, so that a half-written
//! file never becomes the policy. A broken or missing file is one error in the log.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use gpushare::config::last_good::{self, LastGood, NoCopy, NoRules, Origin, Source};
use gpushare::config::rules::Rules;
use gpushare::config::{self, LoadError};
use gpushare::submit::policy::Policy;
use parking_lot::{Mutex, RwLock};

/// The time between two checks of the file, and for which an edited file must be unchanged.
const PAUSE: Duration = Duration::from_secs(1);

/// No time at which a controller takes control.
const NEVER: i64 = i64::MIN;

/// The current policy and the file that it came from.
pub struct Live {
    /// `None` until the first [`start`](Live::start); until then submissions are refused.
    policy: RwLock<Option<Arc<Policy>>>,
    /// Since when this slurmctld was in control when the rules were last chosen.
    control: AtomicI64,
    file: Mutex<Option<File>>,
}

#[derive(Default)]
struct File {
    slurm_conf: PathBuf,
    /// Where to keep the last good text.
    state: Option<PathBuf>,
    /// The state of the file that was last read, or found broken.
    judged: Option<Stamp>,
    /// A change that is still too recent to be read.
    young: Option<Stamp>,
    /// When the file was last looked at.
    looked: Option<Instant>,
    /// The last error in the log.
    complaint: String,
    /// The file of `RefusalCounts`, which slurmctld opens when it starts or takes control.
    counts: Option<PathBuf>,
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
        Live { policy: RwLock::new(None), control: AtomicI64::new(NEVER), file: Mutex::new(None) }
    }

    /// Reads the file that belongs to a slurm.conf; `state` is `StateSaveLocation`. Changes nothing there, because this
    /// slurmctld may be a standby, or only test its configuration. Returns the file of `RefusalCounts`.
    ///
    /// # Errors
    /// The file is broken and there is no last good text: nothing would show which jobs the rules miss.
    pub fn start(&self, slurm_conf: &Path, state: Option<PathBuf>) -> Result<Option<PathBuf>, NoRules> {
        let stamp = Stamp::of(slurm_conf);
        let mut file = File { slurm_conf: slurm_conf.to_owned(), state, ..File::default() };
        let (rules, origin, _) = file.choose(&stamp.path)?;
        let path = stamp.path.display();
        match origin {
            Origin::File(_) => log::info!("job_submit/gpushare: {path} read"),
            Origin::LastGood(..) => {}
            Origin::Defaults(_) => {
                log::info!("job_submit/gpushare: {path} does not exist, the defaults apply");
            }
        }
        file.judged = Some(stamp);
        file.counts.clone_from(&rules.refusal_counts);
        let mut place = self.file.lock();
        self.adopt(rules.policy);
        *place = Some(file);
        self.control.store(NEVER, Ordering::Release);
        Ok(rules.refusal_counts)
    }

    /// The current policy. `since` is when this slurmctld took control; if that is news, the rules are chosen again
    /// first, and `counted` gets the file of `RefusalCounts`.
    pub fn policy(&self, since: i64, counted: impl FnOnce(Option<&Path>)) -> Option<Arc<Policy>> {
        if self.control.load(Ordering::Acquire) != since {
            self.take_control(since, counted);
        }
        self.look();
        self.policy.read().clone()
    }

    /// Chooses the rules anew. Other requests wait for that: before, the rules may be those of another time.
    fn take_control(&self, since: i64, counted: impl FnOnce(Option<&Path>)) {
        let mut file = self.file.lock();
        let Some(file) = file.as_mut() else { return };
        if self.control.load(Ordering::Relaxed) == since {
            return;
        }
        let stamp = Stamp::of(&file.slurm_conf);
        let path = stamp.path.display();
        let mut is_final = true;
        let chosen = file.choose(&stamp.path).map(|(rules, origin, before)| {
            self.adopt(rules.policy);
            file.counts = rules.refusal_counts;
            (origin, before)
        });
        match chosen {
            Ok((Origin::File(text), before)) => {
                if file.judged.as_ref() != Some(&stamp) {
                    log::info!("job_submit/gpushare: {path} read again");
                }
                log::info!("job_submit/gpushare: in control, by the rules of {path}");
                if let Some(LastGood { source, .. }) = before.filter(|copy| copy.is_of_another(&text)) {
                    file.complain(format!(
                        "{path} differs from {source}, whose rules were in force before: make gpushare.conf the \
                         same on all controllers"
                    ));
                }
                // An edit that may be half-written is read again soon, and kept then.
                let is_whole = stamp.is_old() || file.judged.as_ref() == Some(&stamp);
                is_final = is_whole && Stamp::of(&file.slurm_conf) == stamp;
                if is_final {
                    keep(file.state.as_deref(), &stamp.path, &text);
                }
            }
            Ok((Origin::LastGood(copy, _), _)) => {
                log::info!("job_submit/gpushare: in control, by the last good rules, of {}", copy.source);
            }
            Ok((Origin::Defaults(_), _)) => {
                log::info!("job_submit/gpushare: in control, by the defaults: {path} does not exist");
            }
            Err(no_rules) => {
                file.complain(format!("{no_rules}; in control, by the rules of this slurmctld's start"));
            }
        }
        counted(file.counts.as_deref());
        file.judged = is_final.then_some(stamp);
        file.young = None;
        self.control.store(since, Ordering::Release);
    }

    fn adopt(&self, policy: Policy) {
        *self.policy.write() = Some(Arc::new(policy));
    }

    /// Reads an edited file, at most once in a [`PAUSE`]. Meanwhile others go on with the rules that there are.
    fn look(&self) {
        let Some(mut file) = self.file.try_lock() else { return };
        let Some(file) = file.as_mut() else { return };
        let now = Instant::now();
        if file.looked.is_some_and(|looked| now.duration_since(looked) < PAUSE) {
            return;
        }
        file.looked = Some(now);
        let stamp = Stamp::of(&file.slurm_conf);
        if file.judged.as_ref() == Some(&stamp) {
            file.young = None;
            return;
        }
        if !stamp.is_old() && file.young.as_ref() != Some(&stamp) {
            file.young = Some(stamp);
            return;
        }
        let found = config::load(&stamp.path, Rules::parse);
        if Stamp::of(&file.slurm_conf) != stamp {
            return; // it changed while it was read
        }
        let path = stamp.path.display();
        match found {
            Ok(Some((rules, text))) => {
                self.adopt(rules.policy);
                log::info!("job_submit/gpushare: {path} read again");
                file.complaint.clear();
                keep(file.state.as_deref(), &stamp.path, &text);
            }
            Ok(None) => file.complain(format!("{path} is gone; its last rules stay in force")),
            Err(error) => file.complain(format!("{error}; the last good rules stay in force")),
        }
        file.judged = Some(stamp);
        file.young = None;
    }
}

impl File {
    /// The rules to use, and the copy before. Logs why they aren't the file's.
    fn choose(&mut self, path: &Path) -> Result<(Rules, Origin, Option<LastGood>), NoRules> {
        let copy = self.state.as_deref().map_or(Err(NoCopy::None), last_good::read);
        let before = copy.as_ref().ok().cloned();
        let (rules, origin) = last_good::choose(config::load(path, Rules::parse), copy)?;
        match &origin {
            Origin::File(_) | Origin::Defaults(NoCopy::None) => self.complaint.clear(),
            Origin::Defaults(no_copy) => self.complain(format!("the defaults apply, because {no_copy}")),
            Origin::LastGood(LastGood { path: copy, source, .. }, why) => {
                let missing = || {
                    let path = path.display();
                    format!("{path} does not exist (for the defaults, make one that has only a comment)")
                };
                let why = why.as_ref().map_or_else(missing, LoadError::to_string);
                let copy = copy.display();
                self.complain(format!("{why}; the last good rules stay in force, from {copy}, of {source}"));
            }
        }
        Ok((rules, origin, before))
    }

    /// Logs an error, unless it was the last one.
    fn complain(&mut self, text: String) {
        if self.complaint != text {
            log::error!("job_submit/gpushare: {text}");
            self.complaint = text;
        }
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
fn keep(state: Option<&Path>, path: &Path, text: &str) {
    let Some(folder) = state else { return };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    if let Err(error) = last_good::keep(folder, &Source::here(path), text, now) {
        let copy = last_good::path(folder);
        log::error!(
            "job_submit/gpushare: {}: {error}; no copy of {} is kept: slurmctld would not start if that file were \
             broken",
            copy.display(),
            path.display()
        );
    }
}
