//! One entry of the ledger as text: a version, one `key=value` per line, and a last line that reveals a truncated file.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use crate::gpu::{DeviceNumber, Gpu};
use crate::job::JobKey;

const FIRST_LINE: &str = "gpushare-ledger 4";
const LAST_LINE: &str = "end";

/// What a job has of this node's GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which job, and which start.
    pub key: JobKey,
    /// The job's user.
    pub user_id: u32,
    /// As a share or as whole GPUs.
    pub holding: Holding,
    /// The GPUs: exactly one for a share, otherwise at least one.
    pub gpus: Vec<Gpu>,
    /// When the job got them, in seconds since 1970.
    pub since: u64,
}

/// How a job has its GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holding {
    /// A share of one GPU.
    Share {
        /// Units of the share.
        units: u32,
        /// Units that fill the GPU.
        capacity: u32,
        /// Slurm's index of the GPU that it allocated, if the job may have another one.
        allocated_gpu: Option<u32>,
        /// The share's GPU memory in MiB, if it is known.
        memory: Option<u32>,
    },
    /// Whole GPUs, chosen by Slurm.
    Whole,
}

impl Entry {
    /// Units of a share; 0 for whole GPUs.
    pub fn units(&self) -> u32 {
        match self.holding {
            Holding::Share { units, .. } => units,
            Holding::Whole => 0,
        }
    }

    /// The GPU of a share.
    pub fn share_gpu(&self) -> Option<&Gpu> {
        match self.holding {
            Holding::Share { .. } => self.gpus.first(),
            Holding::Whole => None,
        }
    }

    /// Whether the job has this GPU or a share of it. Compares device numbers, which don't change if the order of GPUs
    /// does.
    pub fn is_on(&self, gpu: &Gpu) -> bool {
        self.gpus.iter().any(|own| own.number == gpu.number)
    }
}

gpushare::errors! {
    /// Why a file isn't an entry.
    #[derive(Debug, PartialEq, Eq)]
    pub enum Damage {
        /// The file disappeared while it was read: it is neither an entry nor damaged.
        Gone => "it is gone";
        NoFile => "it is not a regular file";
        /// The kernel doesn't let us read it, perhaps only now: it still counts as an entry.
        Unreadable(kind: io::ErrorKind) => "{kind}";
        /// It is an entry of a job that may be running, but in a format that we can't read.
        OtherVersion(version: u32) => "another version of gpushare wrote it, in format {version}";
        Foreign => "its first line is not '{FIRST_LINE}'";
        Truncated => "its last line is not '{LAST_LINE}'";
        Line(key: &'static str) => "its line '{key}=' is missing or wrong";
        Surplus => "it has lines that don't belong in an entry";
        Misnamed => "its job is not the one in its file's name";
    }
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
pub(super) fn job_of(name: &str) -> Option<u32> {
    let id: u32 = name.parse().ok()?;
    // `+7` and `07` parse too, but gpushare never writes them.
    (id.to_string() == name).then_some(id)
}

impl fmt::Display for Entry {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        writeln!(out, "{FIRST_LINE}")?;
        writeln!(out, "job={}", self.key.id)?;
        writeln!(out, "restart={}", self.key.restart)?;
        writeln!(out, "user={}", self.user_id)?;
        match self.holding {
            Holding::Share { units, capacity, allocated_gpu, memory } => {
                writeln!(out, "holding=share")?;
                writeln!(out, "units={units}")?;
                writeln!(out, "capacity={capacity}")?;
                writeln!(
                    out,
                    "allocated_gpu={}",
                    allocated_gpu.map(|index| index.to_string()).unwrap_or_default()
                )?;
                writeln!(out, "memory={}", memory.map(|memory| memory.to_string()).unwrap_or_default())?;
            }
            Holding::Whole => writeln!(out, "holding=whole")?,
        }
        writeln!(out, "since={}", self.since)?;
        for Gpu { index, path, number, uuid } in &self.gpus {
            let uuid = uuid.as_deref().unwrap_or("-");
            writeln!(out, "gpu={index} {number} {uuid} {}", path.display())?;
        }
        writeln!(out, "{LAST_LINE}")
    }
}

impl FromStr for Entry {
    type Err = Damage;

    fn from_str(text: &str) -> Result<Self, Damage> {
        let mut lines = text.lines();
        match lines.next() {
            Some(FIRST_LINE) => {}
            Some(line) => return Err(other_version(line).map_or(Damage::Foreign, Damage::OtherVersion)),
            None => return Err(Damage::Foreign),
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
        let holding = match value("holding")? {
            "share" => Holding::Share {
                units: number(value("units")?, "units")?,
                capacity: number(value("capacity")?, "capacity")?,
                allocated_gpu: number_if_any(value("allocated_gpu")?, "allocated_gpu")?,
                memory: number_if_any(value("memory")?, "memory")?,
            },
            "whole" => Holding::Whole,
            _ => return Err(Damage::Line("holding")),
        };
        let since = number(value("since")?, "since")?;
        let mut gpus = vec![gpu(value("gpu")?)?];
        let mut last = lines.next();
        while let Some(text) = last.and_then(|line| line.strip_prefix("gpu=")) {
            gpus.push(gpu(text)?);
            last = lines.next();
        }
        if last != Some(LAST_LINE) || lines.next().is_some() {
            return Err(Damage::Surplus);
        }
        if matches!(holding, Holding::Share { .. }) && gpus.len() != 1 {
            return Err(Damage::Line("gpu"));
        }
        Ok(Entry { key, user_id, holding, gpus, since })
    }
}

/// The N of `gpushare-ledger N`, if it isn't our version.
fn other_version(line: &str) -> Option<u32> {
    let (name, _) = FIRST_LINE.rsplit_once(' ')?;
    line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok()
}

/// Parses `INDEX MAJOR:MINOR UUID PATH`; `-` means that there is no UUID.
fn gpu(text: &str) -> Result<Gpu, Damage> {
    const WRONG: Damage = Damage::Line("gpu");
    let mut words = text.splitn(4, ' ');
    let mut word = || words.next().filter(|word| !word.is_empty()).ok_or(WRONG);
    let index = number(word()?, "gpu")?;
    let (major, minor) = word()?.split_once(':').ok_or(WRONG)?;
    let device = DeviceNumber { major: number(major, "gpu")?, minor: number(minor, "gpu")? };
    let uuid = Some(word()?).filter(|uuid| *uuid != "-").map(str::to_owned);
    let path = PathBuf::from(word()?);
    if !path.is_absolute() {
        return Err(WRONG);
    }
    Ok(Gpu { index, path, number: device, uuid })
}

fn number<T: FromStr>(text: &str, line: &'static str) -> Result<T, Damage> {
    text.parse().map_err(|_| Damage::Line(line))
}

fn number_if_any<T: FromStr>(text: &str, line: &'static str) -> Result<Option<T>, Damage> {
    if text.is_empty() { Ok(None) } else { number(text, line).map(Some) }
}
