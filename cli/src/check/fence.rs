//! Tries the fence. It makes its own cgroups, like a step's, and removes them again. In them a process requests every
//! GPU, first like a job without GPUs, then like a job with one. This uses the code that fences a step, and the
//! kernel's answer counts.
//!
//! The process is this program, called with [`PROBE`] as its first word. It calls access(2), for which the kernel makes
//! the same check as for open(2), without waking a driver ([`access`]). It neither reads nor changes Slurm's cgroups.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use gpushare_node::config::{NodeConfig, Placement};
use gpushare_node::exec::{self, AskError};
use gpushare_node::fence::bpf::Bpf;
use gpushare_node::fence::locate::{Hierarchy, mount_point};
use gpushare_node::fence::{Access, Fault, Fence, access, v1, v2};
use gpushare_node::gpu::foreign::Foreign;
use gpushare_node::gpu::{Gpu, Inventory, Roots};

use super::finding::Finding;
use crate::requirements::{hierarchy, mounts};
use gpushare_terminal::FileError;

const ABOUT: &str = "fence";
/// The first word of a command line for [`probe`]. The help doesn't mention it, since users never need it.
pub const PROBE: &str = "--fence-probe";
/// The beginning of the directory's name; the process's number follows.
const NAME: &str = "gpushare-check-";
/// The leftovers of a check that was killed are older than this.
const LEFT: Duration = Duration::from_secs(60);
/// Longer than a process needs to request all GPUs of a node.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often to try to remove a cgroup: it stays busy for a moment after its process has ended.
const ATTEMPTS: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(1);

/// Whether a fence works on this machine. `plugin` is `CgroupPlugin` of cgroup.conf.
pub fn finding(config: &NodeConfig, gpus: &Inventory, plugin: &str, is_root: bool) -> Finding {
    if !is_root {
        return Finding::unknown(ABOUT, "only root can try it");
    }
    let mountinfo = mounts();
    let hierarchy = hierarchy(plugin, &mountinfo);
    let Some(mount) = mount_point(hierarchy, &mountinfo) else {
        let said = format!("it can't be tried: cgroup {} is not mounted here", word(hierarchy));
        return Finding::unknown(ABOUT, said);
    };
    sweep(&mount);
    let place = match Place::new(&mount, hierarchy) {
        Ok(place) => place,
        Err(error) => {
            let said = format!("it can't be tried: no cgroup can be made in {}: {error}", mount.display());
            return Finding::unknown(ABOUT, said);
        }
    };
    let all = gpus.gpus();
    let own = all.get(..all.len().min(1)).unwrap_or_default();
    let tried = place.opened(config, &[]).and_then(|none| Ok((none, place.opened(config, own)?)));
    match tried {
        Ok((0, one)) if one == own.len() => {
            let of = all.len();
            let said = format!(
                "a test process with a share could open {one} of {of} GPUs, and one without a share none (cgroup {})",
                word(hierarchy)
            );
            Finding::ok(ABOUT, said)
        }
        Ok((none, one)) => wrong(format!("{none} GPUs can be opened without a share, and {one} with one")),
        Err(error) => wrong(error.to_string()),
    }
}

gpushare::errors! {
    /// Why the fence doesn't work, or can't be tried.
    #[derive(Debug)]
    pub enum FenceError {
        Probe(said: String) => "the test process failed: {said}";
        TooLittle => "the test process printed too little";
        Fault(fault: Fault) => "in the test process: {fault}";
    } from { File(FileError), Unified(v2::V2Error), Devices(v1::RuleError), Ask(AskError) }
}

fn wrong(said: String) -> Finding {
    let fix = "let root use bpf(2) with device programs (cgroup v2), or write to devices.deny (v1): check kernel \
               lockdown, security modules and whether slurmd is in a container; until then jobs with a share fail";
    Finding::wrong(ABOUT, said, fix)
}

fn word(hierarchy: Hierarchy) -> &'static str {
    if hierarchy == Hierarchy::Unified { "v2" } else { "v1" }
}

/// Removes the leftovers of killed checks. A cgroup in use can't be removed.
fn sweep(mount: &Path) {
    for entry in mount.read_dir().into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(NAME);
        let age = || entry.metadata().ok()?.modified().ok()?.elapsed().ok();
        if is_ours && age().is_some_and(|age| age > LEFT) {
            remove(&entry.path());
        }
    }
}

/// Removes a cgroup and those in it.
fn remove(folder: &Path) {
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    for _ in 0..ATTEMPTS {
        match fs::remove_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => std::thread::sleep(PAUSE),
            _ => return,
        }
    }
}

/// A directory like a job's. Removed when dropped.
struct Place {
    job: PathBuf,
    hierarchy: Hierarchy,
}

impl Place {
    fn new(mount: &Path, hierarchy: Hierarchy) -> io::Result<Place> {
        let job = mount.join(format!("{NAME}{}", std::process::id()));
        fs::create_dir(&job)?;
        Ok(Place { job, hierarchy })
    }

    /// How many GPUs a job with these can open. The error means that a GPU is open but shouldn't be, or the reverse.
    fn opened(&self, config: &NodeConfig, own: &[Gpu]) -> Result<usize, FenceError> {
        let foreign = Foreign::to(own, &config.gpu_files, config.fence_drm, &Roots::system());
        let foreign = foreign.map_err(FileError::of(Path::new("/dev")))?;
        let closed = foreign.gpus.into_iter().chain(foreign.attached).collect();
        let fence = Fence { widens: config.placement == Placement::Override, ..Fence::around(own, closed) };
        let step = self.job.join(format!("step_{}", own.len()));
        fs::create_dir(&step).map_err(FileError::of(&step))?;
        match self.hierarchy {
            Hierarchy::Unified => v2::put_up(&Bpf, &step, &fence)?,
            _ => v1::put_up(&step, &fence)?,
        }
        let devices: Vec<&Path> =
            fence.open.iter().chain(&fence.closed).map(|device| device.path.as_path()).collect();
        let answers = ask(&step, &devices)?;
        let answer = |path: &Path| {
            let at = devices.iter().position(|device| *device == path);
            at.and_then(|at| answers.get(at)).copied().unwrap_or(Access::Unclear(0))
        };
        match fence.fault(answer) {
            Some(fault) => Err(FenceError::Fault(fault)),
            None => Ok(answers.iter().filter(|answer| **answer == Access::Open).count()),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        remove(&self.job);
    }
}

/// The answers of a process in the cgroup.
fn ask(step: &Path, devices: &[&Path]) -> Result<Vec<Access>, FenceError> {
    let mut command = exec::program(&exec::own());
    command.arg(PROBE).arg(step).args(devices);
    let answer = exec::ask(&mut command, "", PATIENCE)?;
    if !answer.status.success() {
        return Err(FenceError::Probe(answer.first_line()));
    }
    let answers: Option<Vec<Access>> = answer.output.lines().map(read).collect();
    answers.filter(|answers| answers.len() == devices.len()).ok_or(FenceError::TooLittle)
}

/// Runs in the process that tries: joins the cgroup, and returns one line for each device.
///
/// # Errors
/// The cgroup can't be joined.
pub fn probe(mut words: impl Iterator<Item = OsString>) -> Result<String, FileError> {
    let step = PathBuf::from(words.next().unwrap_or_default());
    let procs = step.join("cgroup.procs");
    fs::write(&procs, "0").map_err(FileError::of(&procs))?;
    Ok(words.map(|device| written(access::of(Path::new(&device))) + "\n").collect())
}

fn written(access: Access) -> String {
    match access {
        Access::Open => "open".to_owned(),
        Access::Closed => "closed".to_owned(),
        Access::Unclear(errno) => errno.to_string(),
    }
}

fn read(line: &str) -> Option<Access> {
    match line {
        "open" => Some(Access::Open),
        "closed" => Some(Access::Closed),
        errno => errno.parse().ok().map(Access::Unclear),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        for access in [Access::Open, Access::Closed, Access::Unclear(6)] {
            assert_eq!(read(&written(access)), Some(access));
        }
        assert_eq!(read("no"), None);
    }

    #[test]
    fn only_root_can_try_it_and_only_where_there_are_cgroups() {
        let gpus = Inventory { details: Vec::new() };
        let found = finding(&NodeConfig::default(), &gpus, "", false);
        assert_eq!(found, Finding::unknown(ABOUT, "only root can try it"));
        assert!(Place::new(Path::new("/nonexistent"), Hierarchy::Unified).is_err());
    }

    #[test]
    fn the_folder_goes_with_all_that_is_in_it() {
        let mount = tempfile::tempdir().unwrap();
        let place = Place::new(mount.path(), Hierarchy::Unified).unwrap();
        fs::create_dir(place.job.join("step_0")).unwrap();
        drop(place);
        assert_eq!(mount.path().read_dir().unwrap().count(), 0);
    }
}
