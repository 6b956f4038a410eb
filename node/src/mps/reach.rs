//! Whether a job's programs can reach their daemon from where they run. If CUDA finds no daemon in its pipe directory,
//! it silently continues without MPS, and so without limits. Client and server also share memory by name in /dev/shm:
//! if the job has its own (`JobContainerType=job_container/tmpfs`, a container), that is not the server's.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::proc::image::path_in;
use crate::unix;

use super::record::{DaemonRecord, Process};
use super::service::PIPE;

const SHM: &str = "/dev/shm";

/// What a share's programs must find where they run.
#[derive(Clone, Debug)]
pub struct Reach {
    /// The daemon's pipe directory, which has its socket.
    pipe: PathBuf,
    /// The device that the directory is on, if known.
    device: Option<(u32, u32)>,
    /// The device and inode number of the daemon's /dev/shm, if known.
    shm: Option<(u64, u64)>,
    /// The job may run without the socket, and so without limits.
    may_run_without: bool,
}

gpushare::errors! {
    /// Why programs would not reach the daemon.
    #[derive(Debug)]
    pub enum Unreachable {
        Socket(pipe: PathBuf, why: SocketError) =>
            "its MPS daemon can't be reached from here, so CUDA would run without limits: {}: {why}; see \
             docs/containers.md", pipe.display();
        Ended(pipe: PathBuf) =>
            "its MPS daemon has ended: one of your programs told it to quit or removed {}; your next job here starts \
             it again", pipe.display();
        Shm =>
            "{SHM} is not the node's here, but programs share it with their MPS daemon: remove it from Dirs \
             (job_container.conf, namespace.yaml), or bind the node's into the container; see docs/containers.md";
    }
}

gpushare::errors! {
    /// Why the daemon's socket can't be used.
    #[derive(Debug)]
    pub enum SocketError {
        NoSocket => "control is not a socket";
        Mounted => "another file system is mounted there";
        Look(error: io::Error) => "{error}";
    }
}

/// What programs of a daemon in this directory must find. Needs root.
pub fn reach(folder: &Path, may_run_without: bool) -> Reach {
    Reach {
        pipe: folder.join(PIPE),
        device: unix::folder(folder).and_then(|folder| unix::device(&folder)).ok(),
        shm: DaemonRecord::of(folder).shm,
        may_run_without,
    }
}

/// A daemon's /dev/shm; only root can read it. `None` for a process that only poses as the daemon: it lacks the group
/// that gpushare gives daemons, and may see a file system of its user's there.
pub fn shm_of(daemon: Process, ids: (u32, u32)) -> Option<(u64, u64)> {
    identity(&path_in(Path::new("/proc"), daemon.pid, ids, Path::new(SHM))?).ok()
}

impl Reach {
    /// Why programs of this process would not reach the daemon. Call it as the job's user, where the programs will run.
    #[must_use]
    pub fn fault(&self) -> Option<Unreachable> {
        if let Err(why) = self.socket() {
            let pipe = self.pipe.clone();
            let why =
                if self.has_ended() { Unreachable::Ended(pipe) } else { Unreachable::Socket(pipe, why) };
            return (!self.may_run_without).then_some(why);
        }
        let (Some(daemons), ours) = (self.shm, identity(Path::new(SHM)).ok()) else { return None };
        (ours != Some(daemons)).then_some(Unreachable::Shm)
    }

    /// Whether the daemon's directory has no socket any more: the daemon has ended, or its user has removed it.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let is_missing =
            |why| matches!(why, SocketError::Look(error) if error.kind() == io::ErrorKind::NotFound);
        self.socket().is_err_and(is_missing) && self.sees_folder()
    }

    /// Whether the daemon's directory is there, which only root can change: then it is not a container that hides it.
    fn sees_folder(&self) -> bool {
        let above = self.pipe.parent().map(unix::folder);
        above.is_some_and(|above| above.and_then(|above| unix::device(&above)).ok() == self.device)
    }

    /// Never queries a file system that a user may have mounted there: a FUSE that doesn't answer would block the task
    /// forever, and Slurm would then drain the node.
    fn socket(&self) -> Result<(), SocketError> {
        let look = || {
            let pipe = unix::folder(&self.pipe)?;
            if Some(unix::device(&pipe)?) != self.device {
                return Err(io::ErrorKind::CrossesDevices.into());
            }
            unix::look_at(&pipe, c"control")?.metadata()
        };
        match look() {
            Ok(found) if found.file_type().is_socket() => Ok(()),
            Ok(_) => Err(SocketError::NoSocket),
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => Err(SocketError::Mounted),
            Err(error) => Err(SocketError::Look(error)),
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    path.metadata().map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let control = dir.path().join("control");
        let pipe = dir.path().to_owned();
        let device = unix::folder(&pipe).and_then(|folder| unix::device(&folder)).ok();
        let reach = Reach { pipe, device, shm: None, may_run_without: false };
        let fault = |reach: &Reach| reach.fault().map(|fault| fault.to_string());
        assert!(fault(&reach).unwrap().contains("has ended"), "{:?}", reach.fault());
        let hidden = Reach { pipe: dir.path().join("no/pipe"), ..reach.clone() };
        assert!(fault(&hidden).unwrap().contains("No such file"), "{:?}", hidden.fault());
        let lenient = Reach { may_run_without: true, ..reach.clone() };
        assert_eq!(fault(&lenient), None);
        fs::write(&control, "").unwrap();
        assert!(fault(&reach).unwrap().contains("not a socket"));
        fs::remove_file(&control).unwrap();
        let _socket = UnixListener::bind(&control).unwrap();
        assert_eq!(fault(&reach), None);
        let elsewhere = Reach { device: None, ..reach.clone() };
        assert!(fault(&elsewhere).unwrap().contains("another file system"), "{:?}", elsewhere.fault());
        let here = identity(Path::new(SHM)).unwrap();
        assert_eq!(fault(&Reach { shm: Some(here), ..reach.clone() }), None);
        for reach in [reach, lenient] {
            let other = Reach { shm: Some((here.0 + 1, here.1)), ..reach };
            assert!(fault(&other).unwrap().contains("/dev/shm is not the node's"));
        }
    }
}
