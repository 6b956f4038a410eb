//! What is kept from one look to the next: a small file for each idle job in /run/gpushare/idle, replaced all at once.
//!
//! ```text
//! gpushare-idle 1
//! job=42 0                                the job, and which of its starts
//! since=1700000000
//! start=1700000000
//! boot=6f6c2a4e-…
//! looked=86400
//! idle=3660
//! rule=IdleWarn=01:00:00,01:45:00 IdleLimit=02:00:00 IdleAction=cancel
//! told=3600
//! processes=4711:123456
//! end
//! ```
//!
//! A file of another form is ignored, and the job's idle time begins anew.

use std::fmt::Write;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use gpushare::root_file;
use gpushare::root_folder::{self, FolderError};

use crate::decide::{History, Now};

const FIRST_LINE: &str = "gpushare-idle 1";
const LAST_LINE: &str = "end";
/// Longer than any of these files.
const LONGEST: u64 = 1 << 18;

gpushare::errors! {
    /// Why nothing can be kept.
    #[derive(Debug)]
    pub enum StateError {
        Lock(path: PathBuf, error: io::Error) => "{}: {error}", path.display();
        Taken => "another `gpushare idle` runs on this node";
        Read(path: PathBuf, error: io::Error) => "{}: {error}", path.display();
        Time(error: io::Error) => "the time since boot is unknown: {error}";
    } from {
        Folder(FolderError)
    }
}

/// The directory.
pub struct State {
    folder: PathBuf,
}

impl State {
    /// The one in the directory of gpushare's own files.
    pub fn at(run: &Path) -> State {
        State { folder: run.join("idle") }
    }

    /// Makes the directory, and keeps other runs away until the file is dropped.
    ///
    /// # Errors
    /// Another one runs, or the directory can't be used.
    pub fn lock(&self) -> Result<File, StateError> {
        root_folder::make(&self.folder)?;
        let path = self.folder.join("lock");
        let file = root_file::open(&path).map_err(|error| StateError::Lock(path.clone(), error))?;
        file.try_lock().map_err(|error| match error {
            fs::TryLockError::WouldBlock => StateError::Taken,
            fs::TryLockError::Error(error) => StateError::Lock(path, error),
        })?;
        Ok(file)
    }

    /// What is known of every job, and the names of files that can't be used.
    ///
    /// # Errors
    /// The directory can't be read.
    pub fn read(&self) -> Result<(Vec<History>, Vec<String>), StateError> {
        let (mut known, mut garbage) = (Vec::new(), Vec::new());
        let names = match self.folder.read_dir() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((known, garbage)),
            read => read.map_err(|error| StateError::Read(self.folder.clone(), error))?,
        };
        for name in names.flatten().map(|name| name.file_name().to_string_lossy().into_owned()) {
            let Ok(id) = name.parse::<u32>() else { continue };
            let bytes = root_file::read(&self.folder.join(&name), LONGEST).ok().flatten();
            let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            match text.as_deref().and_then(parse).filter(|history| history.job.0 == id) {
                Some(history) => known.push(history),
                None => garbage.push(name),
            }
        }
        Ok((known, garbage))
    }

    /// Replaces a job's file.
    ///
    /// # Errors
    /// It can't be written.
    pub fn write(&self, history: &History) -> io::Result<()> {
        let path = self.path(history.job.0);
        if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            fs::remove_dir_all(&path)?;
        }
        root_file::replace(&self.folder.join("new"), &path, &text(history))
    }

    /// Removes a job's file.
    ///
    /// # Errors
    /// It can't be removed.
    pub fn remove(&self, id: u32) -> io::Result<()> {
        root_file::remove(&self.path(id)).map(|_| ())
    }

    fn path(&self, id: u32) -> PathBuf {
        self.folder.join(id.to_string())
    }
}

/// The time of this look, from what is below /proc.
///
/// # Errors
/// /proc doesn't say it.
pub fn now(proc: &Path) -> Result<Now, StateError> {
    let read = |name: &str| fs::read_to_string(proc.join(name)).map_err(StateError::Time);
    let (boot, uptime) = (read("sys/kernel/random/boot_id")?, read("uptime")?);
    let seconds = uptime.split('.').next().and_then(|seconds| seconds.parse().ok());
    let odd = || StateError::Time(io::ErrorKind::InvalidData.into());
    Ok(Now { boot: boot.trim().to_owned(), seconds: seconds.ok_or_else(odd)? })
}

fn text(history: &History) -> String {
    let History { job: (id, restart), since, start, looked, idle, rule, told, processes } = history;
    let told: Vec<String> = told.iter().map(u64::to_string).collect();
    let processes: Vec<String> = processes.iter().map(|(pid, start)| format!("{pid}:{start}")).collect();
    let mut out = String::new();
    let _ = write!(
        out,
        "{FIRST_LINE}\njob={id} {restart}\nsince={since}\nstart={start}\nboot={}\nlooked={}\nidle={idle}\n\
         rule={rule}\ntold={}\nprocesses={}\n{LAST_LINE}\n",
        looked.boot,
        looked.seconds,
        told.join(","),
        processes.join(",")
    );
    out
}

fn parse(text: &str) -> Option<History> {
    let mut lines = text.strip_suffix('\n')?.lines();
    if lines.next() != Some(FIRST_LINE) {
        return None;
    }
    let mut value = |key: &str| lines.next()?.strip_prefix(key)?.strip_prefix('=');
    let (id, restart) = value("job")?.split_once(' ')?;
    let job = (id.parse().ok()?, restart.parse().ok()?);
    let (since, start) = (value("since")?.parse().ok()?, value("start")?.parse().ok()?);
    let (boot, seconds) = (value("boot")?.to_owned(), value("looked")?.parse().ok()?);
    let (idle, rule) = (value("idle")?.parse().ok()?, value("rule")?.to_owned());
    let told = list(value("told")?, number)?;
    let processes = list(value("processes")?, |part| {
        let (pid, start) = part.split_once(':')?;
        Some((number(pid)?, number(start)?))
    })?;
    let is_whole = lines.next() == Some(LAST_LINE) && lines.next().is_none();
    let looked = Now { boot, seconds };
    is_whole.then_some(History { job, since, start, looked, idle, rule, told, processes })
}

fn list<T>(text: &str, one: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    text.split(',').filter(|part| !part.is_empty()).map(one).collect()
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}
