//! On cgroup v1: what opens the job's GPU again if a step ends before its fence is up, in whatever way. Slurm closes
//! that GPU for the whole job when it starts a step, long before the hook that puts up the fence: otherwise the job's
//! other steps could never open it again.
//!
//! A step that ends by itself does it ([`Mender::mend`]). For one that is killed, the extern step's slurmstepd, which
//! lives as long as the job, has a child ([`Watch`]): each step connects to its socket, and says when its fence is up.
//! If the connection closes without that, the child opens the GPU.

use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::{fs, process, thread, time::Duration};

use super::v1::{self, RuleError};
use crate::config::RUN_DIR;
use crate::gpu::DeviceNumber;
use crate::unix::{self, Side, To};

/// What is to be opened again: the job's directory in the devices hierarchy, and the devices.
#[derive(Clone, Debug)]
pub struct Closed {
    /// The directory.
    pub job: PathBuf,
    /// The devices of the job's GPU.
    pub devices: Vec<DeviceNumber>,
}

impl Closed {
    fn open(&self) -> Result<(), RuleError> {
        self.devices.iter().try_for_each(|device| v1::open(&self.job, *device))
    }
}

/// What a step has until its fence is up.
#[derive(Debug)]
pub struct Mender {
    closed: Closed,
    watched: Option<UnixStream>,
}

impl Mender {
    /// Without the extern step's child, only a step that ends by itself opens the GPU again.
    pub fn start(closed: Closed, socket: &Path) -> Mender {
        Mender { closed, watched: UnixStream::connect(socket).ok() }
    }

    /// The fence is up: nothing is to be done any more.
    pub fn dismiss(self) {
        if let Some(mut watched) = self.watched {
            let _ = watched.write_all(b"\n");
        }
    }

    /// The step ends without its fence: opens the GPU for the job's other steps.
    ///
    /// # Errors
    /// The kernel refuses a rule.
    pub fn mend(self) -> Result<(), RuleError> {
        let result = self.closed.open();
        self.dismiss();
        result
    }
}

/// The child of an extern step's slurmstepd. It ends with its parent.
#[derive(Debug)]
pub struct Watch {
    socket: PathBuf,
    child: u32,
}

/// Where the steps of a job connect.
pub fn socket(job_id: u32) -> PathBuf {
    Path::new(RUN_DIR).join(format!("mender-{job_id}"))
}

impl Watch {
    /// Starts the child.
    ///
    /// # Errors
    /// The socket can't be made, or no child.
    pub fn start(closed: &Closed, socket: PathBuf) -> io::Result<Watch> {
        let _ = fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket)?;
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o600))?;
        let parent = process::id();
        match unix::fork()? {
            Side::Parent(child) => Ok(Watch { socket, child }),
            Side::Child => {
                unix::mender::become_mender(&listener);
                if std::os::unix::process::parent_id() == parent {
                    watch(&listener, closed);
                }
                unix::leave()
            }
        }
    }

    /// Ends the child.
    pub fn end(self) {
        let _ = fs::remove_file(self.socket);
        let _ = unix::kill(To::Process(self.child));
        unix::reap(self.child);
    }
}

/// Watches all at once: a step that hangs must neither hide another's end nor fill the queue of the socket, where
/// slurmstepd would wait.
fn watch(listener: &UnixListener, closed: &Closed) -> ! {
    let mut steps = Vec::<UnixStream>::new();
    loop {
        let _ = listener.set_nonblocking(!steps.is_empty());
        steps.extend(listener.accept().map(|(step, _)| step));
        steps.retain_mut(|step| {
            let said = step.set_nonblocking(true).and_then(|()| step.read(&mut [0]));
            if matches!(said, Ok(0)) {
                let _ = closed.open();
            }
            said.is_err()
        });
        thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::gpu;
    use std::time::Instant;

    /// A job's directory, a socket, and what its step may open.
    fn job() -> (tempfile::TempDir, Closed, PathBuf, impl Fn() -> String) {
        let folder = tempfile::tempdir().unwrap();
        let job = folder.path().join("job_7");
        let step = job.join("step_0");
        fs::create_dir_all(&step).unwrap();
        for cgroup in [&job, &step] {
            fs::write(cgroup.join("devices.allow"), "").unwrap();
        }
        let socket = folder.path().join("socket");
        let closed = Closed { job, devices: vec![gpu(1).number] };
        (folder, closed, socket, move || fs::read_to_string(step.join("devices.allow")).unwrap())
    }

    fn wait_for(what: impl Fn() -> bool) {
        let until = Instant::now() + Duration::from_secs(20);
        while !what() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(what());
    }

    #[test]
    fn the_gpu_is_opened_again_unless_the_fence_is_up() {
        let (_folder, closed, socket, allowed) = job();
        // Nobody watches: the extern step may be gone.
        Mender::start(closed.clone(), &socket).dismiss();
        assert_eq!(allowed(), "");
        Mender::start(closed, &socket).mend().unwrap();
        assert_eq!(allowed(), "c 195:1 rwm");
    }

    #[test]
    fn a_step_says_that_its_fence_is_up() {
        let (folder, closed, socket, _allowed) = job();
        let listener = UnixListener::bind(&socket).unwrap();
        let said = || {
            let mut said = String::new();
            listener.accept().unwrap().0.read_to_string(&mut said).unwrap();
            said
        };
        Mender::start(closed.clone(), &socket).dismiss();
        assert_eq!(said(), "\n");
        Mender::start(closed.clone(), &socket).mend().unwrap();
        assert_eq!(said(), "\n", "it has opened the GPU itself");
        drop(Mender::start(closed, &socket));
        assert_eq!(said(), "", "it has ended before");
        assert_eq!(super::socket(7), Path::new("/run/gpushare/mender-7"));
        drop(folder);
    }

    #[test]
    fn it_is_opened_again_for_a_step_that_is_killed() {
        let (_folder, closed, socket, allowed) = job();
        let watch = Watch::start(&closed, socket.clone()).unwrap();
        assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        // One hangs, whatever the others do.
        let [hung, killed, done] = [(); 3].map(|()| Mender::start(closed.clone(), &socket));
        assert!(killed.watched.is_some());
        let mut of_done = done.watched.as_ref().unwrap().try_clone().unwrap();
        of_done.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        done.dismiss();
        assert_eq!(of_done.read(&mut [0]).unwrap(), 0, "the last that connected is let go: all are known");
        assert_eq!(allowed(), "");
        drop(killed);
        wait_for(|| allowed() == "c 195:1 rwm");
        hung.dismiss();
        watch.end();
        assert!(!socket.exists());
    }
}
