//! The fence on cgroup v1: writes lines to `devices.deny` and `devices.allow`.
//!
//! The kernel's rules (admin-guide/cgroup-v1/devices.rst): a cgroup may allow only what its parent allows; children
//! inherit a denial, but not an allowance. At every step start, Slurm again denies the job everything but the allocated
//! GPU. So this opens the GPU at the job and then in every step and task of the job, which also repairs running steps.
//! If another step starts in between, the kernel answers EPERM and this starts over. It closes the other GPUs only at
//! this step, where no later rule of Slurm opens them. It never touches the user's cgroup above the job, which the
//! user's other jobs share.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Fence;
use crate::gpu::{Device, DeviceNumber};

/// How often opening starts over before it fails; each time, another step of the job was starting.
const ATTEMPTS: u32 = 200;
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(1);

/// The rule that could not be written.
#[derive(Debug)]
pub struct RuleError {
    file: PathBuf,
    device: DeviceNumber,
    error: io::Error,
}

/// Sets the fence up around a step whose tasks don't run yet. Call it only after Slurm has written the rules of the
/// step's last task: afterwards Slurm couldn't allow its own GPU in a further task's cgroup.
///
/// # Errors
/// The kernel refuses a rule.
pub fn put_up(step: &Path, fence: &Fence) -> Result<(), RuleError> {
    write_rules(&step.join("devices.deny"), fence.closed.iter().map(|device| device.number))?;
    if let Some(job) = step.parent().filter(|_| fence.widens) {
        fence.open.iter().try_for_each(|device| open(job, device.number))?;
    }
    Ok(())
}

/// The device cgroup of a starting step, which Slurm may not have made yet, nor that of the job or of its user; `None`
/// where Slurm makes no such directories: slurmd makes the one above them when it starts. `tracked` is the job's
/// directory in the hierarchy by which Slurm finds its processes, `job` its directory in the devices hierarchy. The
/// step already has a directory in `tracked`; it is called `name`, followed by `+…` for a component of a het job.
pub fn starting(tracked: &Path, job: &Path, name: &str) -> Option<PathBuf> {
    let is_its =
        |found: &&str| found.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('+'));
    let there = folders(tracked, name);
    let mut names = there.iter().filter_map(|path| path.file_name()?.to_str()).filter(is_its);
    let is_used = job.ancestors().nth(2).is_some_and(Path::is_dir);
    names.next().filter(|_| is_used).map(|name| job.join(name))
}

/// Makes the device cgroup of a starting step before Slurm does, and closes there what `fence` closes. Slurm moves
/// slurmstepd there before other plugins can run programs as the user.
///
/// # Errors
/// The kernel refuses a rule.
pub fn close_early(step: &Path, fence: &Fence) -> Result<(), RuleError> {
    // If this fails, writing the first rule reports why.
    let _ = std::fs::create_dir_all(step);
    put_up(step, &Fence { widens: false, ..fence.clone() })
}

/// Replaces what [`close_early`] set up by the final fence: opens again, in this step alone, what that closed and the
/// final fence doesn't. Slurm may have closed more for this step, and that stays closed.
///
/// # Errors
/// The kernel refuses a rule. If Slurm has closed a device for the whole job, that is an error only for the job's GPU.
pub fn replace(step: &Path, early: &[Device], fence: &Fence) -> Result<(), RuleError> {
    put_up(step, fence)?;
    let allow = step.join("devices.allow");
    for device in to_reopen(early, fence) {
        match write_rule(&allow, device.number) {
            Err(refused)
                if refused.error.raw_os_error() == Some(libc::EPERM) && !fence.open.contains(device) => {}
            result => result?,
        }
    }
    Ok(())
}

/// What of `early` this fence leaves to Slurm. A fence that widens opens the job's GPU itself.
fn to_reopen<'a>(early: &'a [Device], fence: &'a Fence) -> impl Iterator<Item = &'a Device> {
    early.iter().filter(|device| {
        let is_in = |devices: &[Device]| devices.iter().any(|other| other.number == device.number);
        !(is_in(&fence.closed) || fence.widens && is_in(&fence.open))
    })
}

/// Opens the device in a job, and in all of the job's steps and their tasks. Skips any that have ended.
///
/// # Errors
/// The kernel refuses the rule.
pub fn open(job: &Path, device: DeviceNumber) -> Result<(), RuleError> {
    let mut attempt = 1;
    loop {
        match open_once(job, device) {
            Err(refused) if refused.error.raw_os_error() == Some(libc::EPERM) && attempt < ATTEMPTS => {
                attempt += 1;
                std::thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
}

fn open_once(job: &Path, device: DeviceNumber) -> Result<(), RuleError> {
    write_rule_if_there(job, device)?;
    for step in folders(job, "step_") {
        write_rule_if_there(&step, device)?;
        for task in folders(&step, "task_") {
            write_rule_if_there(&task, device)?;
        }
    }
    Ok(())
}

/// The directories in `parent` whose names begin with `prefix`; none if `parent` has just disappeared.
pub(super) fn folders(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = parent.read_dir() else { return Vec::new() };
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(prefix))
        })
        .collect()
}

/// Like [`write_rule`], for a cgroup that may end at any time.
fn write_rule_if_there(cgroup: &Path, device: DeviceNumber) -> Result<(), RuleError> {
    match write_rule(&cgroup.join("devices.allow"), device) {
        Err(gone) if matches!(gone.error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)) => Ok(()),
        result => result,
    }
}

fn write_rule(file: &Path, device: DeviceNumber) -> Result<(), RuleError> {
    write_rules(file, [device])
}

/// Each rule needs its own write(2): the kernel takes no second line.
fn write_rules(file: &Path, devices: impl IntoIterator<Item = DeviceNumber>) -> Result<(), RuleError> {
    let mut open = None;
    for device in devices {
        let written = match &mut open {
            Some(open) => Ok(open),
            None => OpenOptions::new().write(true).open(file).map(|file| open.insert(file)),
        };
        written
            .and_then(|open| open.write_all(format!("c {device} rwm").as_bytes()))
            .map_err(|error| RuleError { file: file.to_owned(), device, error })?;
    }
    Ok(())
}

impl fmt::Display for RuleError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "device {} in {}: {}", self.device, self.file.display(), self.error)
    }
}

impl std::error::Error for RuleError {}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::fake::gpu;
    use crate::gpu::Gpu;

    /// A directory with the two files of a cgroup; ordinary files keep only the last write.
    fn cgroup(path: &Path) {
        std::fs::create_dir(path).unwrap();
        for file in ["devices.allow", "devices.deny"] {
            std::fs::write(path.join(file), "").unwrap();
        }
    }

    fn allowed(path: &Path) -> String {
        std::fs::read_to_string(path.join("devices.allow")).unwrap()
    }

    #[test]
    fn the_gpu_is_opened_in_the_job_and_everywhere_below_and_not_above() {
        let user = tempfile::tempdir().unwrap();
        std::fs::write(user.path().join("devices.allow"), "").unwrap();
        let job = user.path().join("job_7");
        let steps = [job.join("step_0"), job.join("step_batch")];
        cgroup(&job);
        for step in &steps {
            cgroup(step);
            cgroup(&step.join("task_0"));
        }
        std::fs::create_dir(job.join("step_gone")).unwrap();
        let all = [gpu(0), gpu(1), gpu(2)];
        put_up(
            &steps[0],
            &Fence { widens: true, ..Fence::around(&all[1..2], [&all[0], &all[2]].map(Gpu::device).into()) },
        )
        .unwrap();
        for place in [&job, &steps[0], &steps[1], &steps[0].join("task_0"), &steps[1].join("task_0")] {
            assert_eq!(allowed(place), "c 195:1 rwm", "{}", place.display());
        }
        assert_eq!(allowed(user.path()), "");
        let denied = |path: &Path| std::fs::read_to_string(path.join("devices.deny")).unwrap();
        assert_eq!(denied(&steps[0]), "c 195:0 rwmc 195:2 rwm", "two writes, which an ordinary file appends");
        assert_eq!(denied(&steps[1]), "");
        assert_eq!(denied(&job), "");
    }

    #[test]
    fn a_step_is_closed_before_slurm_knows_its_folder() {
        let root = tempfile::tempdir().unwrap();
        let (tracked, job) = (root.path().join("freezer"), root.path().join("slurm/uid_1/job_7"));
        let fence = Fence::around(&[gpu(0)], vec![gpu(1).device()]);
        let close = |name| starting(&tracked, &job, name).map_or(Ok(()), |step| close_early(&step, &fence));
        for there in ["step_1", "step_2+1", "step_batch"] {
            std::fs::create_dir_all(tracked.join(there)).unwrap();
        }
        close("step_1").unwrap();
        assert!(!job.exists(), "Slurm makes no such folders here");
        std::fs::create_dir(root.path().join("slurm")).unwrap();
        for (name, made) in [("step_1", "step_1"), ("step_2", "step_2+1"), ("step_batch", "step_batch")] {
            // A directory that isn't a cgroup doesn't have the file.
            let error = close(name).unwrap_err();
            assert!(error.to_string().contains(&format!("{made}/devices.deny")), "{error}");
            std::fs::write(job.join(made).join("devices.deny"), "").unwrap();
            close(name).unwrap();
            assert_eq!(std::fs::read_to_string(job.join(made).join("devices.deny")).unwrap(), "c 195:1 rwm");
        }
        close("step_3").unwrap();
        assert_eq!(job.read_dir().unwrap().count(), 3, "of another step none is made");
    }

    #[test]
    fn only_what_was_closed_early_is_opened_again() {
        let render = |minor| Device {
            path: format!("/dev/dri/renderD{minor}").into(),
            number: DeviceNumber { major: 226, minor },
        };
        let own = [gpu(0), gpu(1)];
        let closed = vec![gpu(2).device(), gpu(3).device(), render(129)];
        let narrow = Fence::around(&own, closed.clone());
        let wide = Fence { widens: true, ..narrow.clone() };
        let of_own = vec![own[0].device(), own[1].device(), render(128)];
        let all = [of_own.clone(), closed.clone()].concat();
        for (early, fence, expected) in [
            // Slurm gave this step one of its job's two GPUs: the other stays as Slurm left it.
            (&closed, &narrow, &[][..]),
            (&all, &narrow, &of_own),
            (&all, &wide, &of_own[2..]),
        ] {
            assert_eq!(to_reopen(early, fence).cloned().collect::<Vec<_>>(), expected);
            let root = tempfile::tempdir().unwrap();
            let step = root.path().join("step_0");
            cgroup(&step);
            replace(&step, early, &Fence { widens: false, ..fence.clone() }).unwrap();
            assert_eq!(allowed(&step), if early == &all { "c 226:128 rwm" } else { "" }, "the last write");
        }
    }

    #[test]
    fn only_a_step_that_has_ended_and_a_device_that_slurm_closed_are_no_errors() {
        let root = tempfile::tempdir().unwrap();
        let step = root.path().join("step_0");
        cgroup(&step);
        std::fs::remove_file(step.join("devices.allow")).unwrap();
        assert!(open(&step, gpu(0).device().number).is_ok(), "it has ended");
        // Another error than the kernel's refusal.
        std::fs::create_dir(step.join("devices.allow")).unwrap();
        let error = open(&step, gpu(0).device().number).unwrap_err();
        assert!(error.to_string().contains("devices.allow"), "{error}");
        let fence = Fence::around(&[gpu(0)], vec![gpu(1).device()]);
        let closed_early = [gpu(1).device(), gpu(2).device()];
        assert!(replace(&step, &closed_early, &fence).is_err());
    }

    /// Makes a cgroup's `devices.allow` another open file.
    fn lead(path: &Path, to: &impl AsRawFd) {
        let allow = path.join("devices.allow");
        std::fs::remove_file(&allow).unwrap();
        std::os::unix::fs::symlink(format!("/proc/self/fd/{}", to.as_raw_fd()), &allow).unwrap();
    }

    #[test]
    fn opening_starts_over_while_another_step_starts_and_ends_at_last() {
        let root = tempfile::tempdir().unwrap();
        let (job, step) = (root.path().join("job_7"), root.path().join("job_7/step_0"));
        cgroup(&job);
        cgroup(&step);
        let rule: &[u8; 11] = b"c 195:0 rwm";
        // The kernel answers EPERM while the job has no rule for the device.
        let refusing = crate::unix::unwritable();
        lead(&step, &refusing);
        let all = rule.repeat(ATTEMPTS as usize);
        let (said, job_allows) = std::io::pipe().unwrap();
        lead(&job, &job_allows);
        let listening = std::thread::spawn(move || {
            let mut rules = Vec::new();
            // If there are more, the pipe breaks.
            said.take(u64::from(ATTEMPTS) * 11 + 1).read_to_end(&mut rules).map(|_| rules)
        });
        let error = open(&job, gpu(0).number).unwrap_err();
        assert_eq!(error.error.raw_os_error(), Some(libc::EPERM));
        drop(job_allows);
        assert_eq!(listening.join().unwrap().unwrap(), all);
        // A thread that isn't run for long may come too late with the rule.
        let opened = (0..50).any(|_| {
            lead(&step, &refusing);
            let (mut said, job_allows) = std::io::pipe().unwrap();
            lead(&job, &job_allows);
            std::thread::scope(|scope| {
                let opening = scope.spawn(|| {
                    let opened = open(&job, gpu(0).number);
                    drop(job_allows);
                    opened
                });
                said.read_exact(&mut [0; 2 * 11]).expect("it starts over");
                std::fs::write(root.path().join("new"), "").unwrap();
                std::fs::rename(root.path().join("new"), step.join("devices.allow")).unwrap();
                opening.join().unwrap().is_ok()
            })
        });
        assert!(opened);
        assert_eq!(allowed(&step).as_bytes(), rule);
    }

    #[test]
    fn what_slurm_closed_for_the_job_stays_closed_unless_it_is_the_jobs_gpu() {
        let root = tempfile::tempdir().unwrap();
        let step = root.path().join("step_0");
        cgroup(&step);
        let refusing = crate::unix::unwritable();
        lead(&step, &refusing);
        let fence = Fence::around(&[gpu(0)], vec![gpu(1).device()]);
        replace(&step, &[gpu(2).device()], &fence).unwrap();
        let error = replace(&step, &[gpu(0).device()], &fence).unwrap_err();
        assert_eq!((error.device, error.error.raw_os_error()), (gpu(0).number, Some(libc::EPERM)));
    }

    #[test]
    fn a_step_that_is_closed_early_opens_nothing_yet() {
        let root = tempfile::tempdir().unwrap();
        let (job, step) = (root.path().join("job_7"), root.path().join("job_7/step_0"));
        cgroup(&job);
        cgroup(&step);
        let fence = Fence { widens: true, ..Fence::around(&[gpu(0)], vec![gpu(1).device()]) };
        close_early(&step, &fence).unwrap();
        assert_eq!((allowed(&job), allowed(&step)), (String::new(), String::new()));
        assert_eq!(std::fs::read_to_string(step.join("devices.deny")).unwrap(), "c 195:1 rwm");
    }

    #[test]
    fn a_step_that_is_not_there_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let fence = Fence::around(&[gpu(0)], vec![gpu(1).device()]);
        let error = put_up(&dir.path().join("step_0"), &fence).unwrap_err();
        assert!(error.to_string().contains("devices.deny"), "{error}");
    }
}
