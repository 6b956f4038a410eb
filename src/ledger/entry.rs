//! One entry of the ledger as text: a version, one `key=value` a line, and an end by which a truncated file is known.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use crate::device::{DeviceNumber, Gpu};
use crate::job::JobKey;

const FIRST_LINE: &str = "gpushare-ledger 1";
const LAST_LINE: &str = "end";

/// A share that a job has on a GPU of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whose share.
    pub key: JobKey,
    /// The job's user.
    pub user_id: u32,
    /// Units of the share.
    pub units: u32,
    /// Units that fill the GPU.
    pub capacity: u32,
    /// The GPU.
    pub gpu: Gpu,
    /// When it was given, in seconds since 1970.
    pub since: u64,
}

/// Why a file is no entry.
#[derive(Debug, PartialEq, Eq)]
pub enum Damage {
    /// It went away while it was looked at: no entry, and no damage either.
    Gone,
    /// A folder, link, pipe or device.
    NoFile,
    /// It can't be read.
    Unreadable(io::ErrorKind),
    /// Written by another version of gpushare, or not by gpushare.
    Version,
    /// No last line.
    Truncated,
    /// A line that is missing or not what it should be.
    Line(&'static str),
    /// A line that no entry has.
    Surplus,
    /// It names another job than its file does.
    Misnamed,
}

impl Damage {
    pub(super) fn from_io(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Damage::Gone,
            kind => Damage::Unreadable(kind),
        }
    }
}

/// The job that a file's name stands for.
pub(super) fn key_of(name: &str) -> Option<JobKey> {
    let (id, restart) = name.split_once('.')?;
    let key = JobKey { id: id.parse().ok()?, restart: restart.parse().ok()? };
    // `+7.0` and `07.0` parse too, and are not how we write.
    (key.to_string() == name).then_some(key)
}

impl fmt::Display for Entry {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        writeln!(out, "{FIRST_LINE}")?;
        writeln!(out, "job={}", self.key.id)?;
        writeln!(out, "restart={}", self.key.restart)?;
        writeln!(out, "user={}", self.user_id)?;
        writeln!(out, "units={}", self.units)?;
        writeln!(out, "capacity={}", self.capacity)?;
        writeln!(out, "gpu={}", self.gpu.index)?;
        writeln!(out, "device={}", self.gpu.number)?;
        writeln!(out, "uuid={}", self.gpu.uuid.as_deref().unwrap_or_default())?;
        writeln!(out, "since={}", self.since)?;
        writeln!(out, "path={}", self.gpu.path.display())?;
        writeln!(out, "{LAST_LINE}")
    }
}

impl FromStr for Entry {
    type Err = Damage;

    fn from_str(text: &str) -> Result<Self, Damage> {
        let mut lines = text.lines();
        if lines.next() != Some(FIRST_LINE) {
            return Err(Damage::Version);
        }
        if !text.ends_with(&format!("\n{LAST_LINE}\n")) {
            return Err(Damage::Truncated);
        }
        let mut value = |key: &'static str| {
            lines
                .next()
                .and_then(|line| line.strip_prefix(key))
                .and_then(|rest| rest.strip_prefix('='))
                .ok_or(Damage::Line(key))
        };
        let key =
            JobKey { id: number(value("job")?, "job")?, restart: number(value("restart")?, "restart")? };
        let user_id = number(value("user")?, "user")?;
        let units = number(value("units")?, "units")?;
        let capacity = number(value("capacity")?, "capacity")?;
        let index = number(value("gpu")?, "gpu")?;
        let (major, minor) = value("device")?.split_once(':').ok_or(Damage::Line("device"))?;
        let number_of_device =
            DeviceNumber { major: number(major, "device")?, minor: number(minor, "device")? };
        let uuid = Some(value("uuid")?).filter(|uuid| !uuid.is_empty()).map(str::to_owned);
        let since = number(value("since")?, "since")?;
        let path = PathBuf::from(value("path")?);
        if !path.is_absolute() {
            return Err(Damage::Line("path"));
        }
        if lines.next() != Some(LAST_LINE) || lines.next().is_some() {
            return Err(Damage::Surplus);
        }
        let gpu = Gpu { index, path, number: number_of_device, uuid };
        Ok(Entry { key, user_id, units, capacity, gpu, since })
    }
}

fn number<T: FromStr>(text: &str, line: &'static str) -> Result<T, Damage> {
    text.parse().map_err(|_| Damage::Line(line))
}

impl fmt::Display for Damage {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Damage::Gone => write!(out, "it is gone"),
            Damage::NoFile => write!(out, "it is not a regular file"),
            Damage::Unreadable(kind) => write!(out, "{kind}"),
            Damage::Version => write!(out, "its first line is not '{FIRST_LINE}'"),
            Damage::Truncated => write!(out, "its last line is not '{LAST_LINE}'"),
            Damage::Line(key) => write!(out, "its line '{key}=' is missing or wrong"),
            Damage::Surplus => write!(out, "it has lines that no entry has"),
            Damage::Misnamed => write!(out, "it names another job than its file does"),
        }
    }
}
