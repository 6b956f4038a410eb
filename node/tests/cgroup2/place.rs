//! The test's own directory of cgroups and directory of device nodes; the answers of a process in one of the cgroups;
//! and the kernel's settings.

use std::fs::{self, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpushare_node::fence::access;
use gpushare_node::fence::bpf::Bpf;
use gpushare_node::fence::filter::program::Instruction;
use gpushare_node::fence::locate::{StepCgroup, step_cgroup};
use gpushare_node::fence::v2::{Flags, Kernel};
use gpushare_node::fence::{Access, Fence, v2};

/// GPUs 0 to 3, one that appeared later, nvidiactl, another class that Slurm fences, a DRM node, and a block device.
pub const NODES: [(&str, u32, u32); 9] = [
    ("c", 195, 0),
    ("c", 195, 1),
    ("c", 195, 2),
    ("c", 195, 3),
    ("c", 195, 9),
    ("c", 195, 255),
    ("c", 120, 0),
    ("c", 226, 128),
    ("b", 195, 2),
];

pub struct Place {
    root: PathBuf,
    nodes: tempfile::TempDir,
}

impl Place {
    /// Finds the hierarchy in mountinfo, as the plugin does.
    ///
    /// # Errors
    /// Why the fence can't be tested here.
    pub fn new() -> Result<Place, String> {
        let mountinfo = fs::read_to_string("/proc/self/mountinfo").map_err(|error| error.to_string())?;
        let name = format!("gpushare-test-{}", std::process::id());
        let Ok(StepCgroup::V2(step)) = step_cgroup(&format!("0::/{name}/step_0\n"), &mountinfo) else {
            return Err("the whole of a cgroup2 hierarchy is mounted nowhere".to_owned());
        };
        let root = step.parent().unwrap().to_owned();
        fs::create_dir(&root).map_err(|error| format!("{}: {error}", root.display()))?;
        // From here on, everything that was made is removed.
        let place = Place { root, nodes: tempfile::tempdir().unwrap() };
        // EPERM, ENOSYS, EINVAL: not root, a sandbox without bpf(2), a kernel without programs for cgroups.
        match Bpf.attached(&place.root) {
            Err(error)
                if [libc::EPERM, libc::ENOSYS, libc::EINVAL].map(Some).contains(&error.raw_os_error()) =>
            {
                return Err(format!("bpf(2): {error}"));
            }
            answer => drop(answer.unwrap()),
        }
        for (kind, major, minor) in NODES {
            let numbers = [major.to_string(), minor.to_string()];
            let made =
                Command::new("mknod").arg(place.node(kind, major, minor)).arg(kind).args(numbers).status();
            if !made.is_ok_and(|status| status.success()) {
                return Err("mknod fails".to_owned());
            }
        }
        let open = "yyyyyyyyy";
        match place.ask(&place.root) {
            answers if answers == open => Ok(place),
            answers => Err(format!("devices can't be opened here without any fence of ours: {answers}")),
        }
    }

    pub fn node(&self, kind: &str, major: u32, minor: u32) -> PathBuf {
        self.nodes.path().join(format!("{kind}{major}-{minor}"))
    }

    /// Makes a directory for a job and returns it.
    pub fn job(&self, name: &str) -> PathBuf {
        let job = self.root.join(name);
        fs::create_dir(&job).unwrap();
        job
    }

    /// Which of [`NODES`] a process in `cgroup` can open: y or n for each.
    pub fn ask(&self, cgroup: &Path) -> String {
        let nodes = NODES.map(|(kind, major, minor)| self.node(kind, major, minor));
        let mut command = Command::new(std::env::current_exe().unwrap());
        let output = command.arg("ask").arg(cgroup).args(nodes).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// The error when a process of the user nobody sets up a fence; `None` if that user can't run this program.
    pub fn ask_nobody(&self, step: &Path) -> Option<String> {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let output = command.arg("attach").arg(step).uid(65534).gid(65534).output().ok()?;
        Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        remove(&self.root);
    }
}

/// Removes a cgroup and those in it. A cgroup may be busy for a moment after its last process has ended.
pub fn remove(cgroup: &Path) {
    for entry in cgroup.read_dir().into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    for _ in 0..1000 {
        if fs::remove_dir(cgroup).is_ok() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    println!("cgroup2: {} is left behind", cgroup.display());
}

/// Runs in the process that tries: joins the cgroup, then returns y or n for each node, and ! if access(2) and open(2)
/// differ.
pub fn answers(arguments: &[String]) -> String {
    fs::write(Path::new(&arguments[0]).join("cgroup.procs"), "0").unwrap();
    let answer = |node: &String| {
        let opened = OpenOptions::new().read(true).write(true).open(node);
        let refused = opened.is_err_and(|error| error.raw_os_error() == Some(libc::EPERM));
        match (access::of(Path::new(node)), refused) {
            (Access::Open, false) => 'y',
            (Access::Closed, true) => 'n',
            _ => '!',
        }
    };
    arguments.iter().skip(1).map(answer).collect()
}

/// Runs in the process of the user nobody.
pub fn refusal(step: &str) -> String {
    let refused = v2::put_up(&Bpf, Path::new(step), &Fence::default());
    refused.err().map_or_else(|| "put up".to_owned(), |error| error.to_string())
}

/// Loads a program and attaches it, as Slurm does.
pub fn attach(cgroup: &Path, program: &[Instruction], flags: Flags) {
    let loaded = Bpf.load(program).unwrap();
    Bpf.attach(cgroup, &loaded, flags).unwrap();
}

/// A setting of the kernel, which is restored when this is dropped.
pub struct Setting {
    file: &'static str,
    before: String,
}

impl Setting {
    pub fn raise(file: &'static str, value: &str) -> Setting {
        let before = fs::read_to_string(file).unwrap();
        fs::write(file, value).unwrap();
        Setting { file, before }
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        fs::write(self.file, &self.before).unwrap();
    }
}
