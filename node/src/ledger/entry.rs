//! A job's file as text: a version, one `key=value` per line, and a last line that reveals a truncated file.
//!
//! ```text
//! gpushare-ledger 5
//! job=7
//! restart=0
//! state=placed                                          or failed; then a line reason=…
//! user=2001
//! holding=share                                         or whole; or nothing: it has none, or can't have its GPUs
//! units=40                                              four lines of a share alone
//! capacity=80
//! allocated_gpu=0
//! memory=23034
//! since=1700000000
//! node=n1                                               the node whose prolog placed it, if slurmd said so
//! gpu=2 195:2 GPU-9a40c0de-0000-4000-8000-0000000000a0 /dev/nvidia2
//! pci=0000:c1:00.0                                      what is known of a share, from here to `env`
//! mps=/run/gpushare/mps/2.2001
//! limit=driver
//! env=CUDA_VISIBLE_DEVICES=0
//! witness=4711 123456
//! end
//! ```

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use crate::gpu::{DeviceNumber, Gpu};
use crate::job::JobKey;
/// A process that lives as long as a job's start.
pub use crate::proc::Process as Witness;

pub(super) const FIRST_LINE: &str = "gpushare-ledger 5";
const LAST_LINE: &str = "end";

/// A reason is cut after this many characters.
const LONGEST_REASON: usize = 300;

/// All that is true of a job on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which job, and which start.
    pub key: JobKey,
    /// The job's user.
    pub user_id: u32,
    /// Why its steps fail, in one printable line.
    pub failure: Option<String>,
    /// As a share or as whole GPUs.
    pub holding: Holding,
    /// The GPUs: exactly one for a share, at least one of a job that has whole ones.
    pub gpus: Vec<Gpu>,
    /// When the job got them, in seconds since 1970.
    pub since: u64,
    /// Slurm's name for the node that gave them.
    pub node: Option<String>,
    /// What the job's steps need besides.
    pub given: Given,
    /// The process that lives as long as the job, once there is one.
    pub witness: Option<Witness>,
}

/// What the prolog finds out for the steps of a job with a share, so that they needn't.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// The PCI address of the GPU, if the driver reports it.
    pub pci: Option<String>,
    /// The directory of its MPS daemon.
    pub daemon: Option<PathBuf>,
    /// The driver can limit the GPU memory of a cgroup.
    pub driver_limits: bool,
    /// What its programs are told, in order.
    pub variables: Vec<(String, String)>,
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
    /// It can't have its GPUs, or asked for none.
    Nothing,
}

impl Entry {
    /// The entry of a job that can't have its GPUs, or has none.
    pub fn without_gpus(key: JobKey, user_id: u32) -> Entry {
        let (holding, gpus, given) = (Holding::Nothing, Vec::new(), Given::default());
        Entry { key, user_id, failure: None, holding, gpus, since: 0, node: None, given, witness: None }
    }

    /// What an empty file means: there was no room for the job's entry ([`Locked::record`](super::Locked::record)).
    pub(super) fn unwritten(id: u32) -> Entry {
        let failure = Some("no room for its record in /run/gpushare on this node".to_owned());
        Entry { failure, ..Entry::without_gpus(JobKey { id, restart: 0 }, 0) }
    }

    /// Whether it may be of the start whose extern step `witness` is: it was noted by that one, or by none yet. With
    /// another's it is of an earlier start, or of an old job with the same number.
    pub fn may_be_of(&self, witness: Option<Witness>) -> bool {
        self.witness.is_none() || self.witness == witness
    }

    /// Whether it holds GPUs, which no other job should get.
    pub fn has_gpus(&self) -> bool {
        self.holding != Holding::Nothing
    }

    /// Units of a share in terms of today's capacity, in case `UnitsPerGpu` was changed since they were given. Rounded
    /// up, so that nothing is given twice.
    pub fn units_of(&self, now: u32) -> u64 {
        let Holding::Share { units, capacity: was, .. } = self.holding else { return 0 };
        if was == now || was == 0 {
            return units.into();
        }
        (u64::from(units) * u64::from(now)).div_ceil(was.into())
    }

    /// Units of a share; 0 for whole GPUs.
    pub fn units(&self) -> u32 {
        if let Holding::Share { units, .. } = self.holding { units } else { 0 }
    }

    /// The GPU of a share.
    pub fn share_gpu(&self) -> Option<&Gpu> {
        self.gpus.first().filter(|_| matches!(self.holding, Holding::Share { .. }))
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

/// The job that a file's name stands for.
pub(super) fn job_of(name: &str) -> Option<u32> {
    let id: u32 = name.parse().ok()?;
    // `+7` and `07` parse too, but gpushare never writes them.
    (id.to_string() == name).then_some(id)
}

impl fmt::Display for Entry {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        writeln!(out, "{FIRST_LINE}\njob={}\nrestart={}", self.key.id, self.key.restart)?;
        match &self.failure {
            None => writeln!(out, "state=placed")?,
            Some(reason) => writeln!(out, "state=failed\nreason={reason}")?,
        }
        writeln!(out, "user={}", self.user_id)?;
        match self.holding {
            Holding::Share { units, capacity, allocated_gpu, memory } => {
                let or_not =
                    |number: Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
                writeln!(out, "holding=share\nunits={units}\ncapacity={capacity}")?;
                writeln!(out, "allocated_gpu={}\nmemory={}", or_not(allocated_gpu), or_not(memory))?;
            }
            Holding::Whole => writeln!(out, "holding=whole")?,
            Holding::Nothing => writeln!(out, "holding=nothing")?,
        }
        writeln!(out, "since={}", self.since)?;
        self.node.iter().try_for_each(|node| writeln!(out, "node={node}"))?;
        for Gpu { index, path, number, uuid } in &self.gpus {
            let uuid = uuid.as_deref().unwrap_or("-");
            writeln!(out, "gpu={index} {number} {uuid} {}", path.display())?;
        }
        let Given { pci, daemon, driver_limits, variables } = &self.given;
        pci.iter().try_for_each(|pci| writeln!(out, "pci={pci}"))?;
        daemon.iter().try_for_each(|folder| writeln!(out, "mps={}", folder.display()))?;
        if *driver_limits {
            writeln!(out, "limit=driver")?;
        }
        variables.iter().try_for_each(|(name, value)| writeln!(out, "env={name}={value}"))?;
        self.witness.iter().try_for_each(|witness| writeln!(out, "witness={witness}"))?;
        writeln!(out, "{LAST_LINE}")
    }
}

/// The lines of an entry, in their order.
struct Lines<'a>(std::iter::Peekable<std::str::Lines<'a>>);

impl<'a> Lines<'a> {
    /// The value of the next line, if that is this key's.
    fn next_if(&mut self, key: &str) -> Option<&'a str> {
        let value = |line: &'a str| line.strip_prefix(key)?.strip_prefix('=');
        let value = value(self.0.peek()?)?;
        self.0.next();
        Some(value)
    }

    fn value(&mut self, key: &'static str) -> Result<&'a str, Damage> {
        self.next_if(key).ok_or(Damage::Line(key))
    }

    fn number<T: FromStr>(&mut self, key: &'static str) -> Result<T, Damage> {
        number(self.value(key)?, key)
    }
}

impl FromStr for Entry {
    type Err = Damage;

    fn from_str(text: &str) -> Result<Self, Damage> {
        let mut lines = Lines(text.lines().peekable());
        let first = lines.0.next().unwrap_or_default();
        if first != FIRST_LINE {
            return Err(other_version(first).map_or(Damage::Foreign, Damage::OtherVersion));
        }
        if !text.ends_with(&format!("\n{LAST_LINE}\n")) {
            return Err(Damage::Truncated);
        }
        let key = JobKey { id: lines.number("job")?, restart: lines.number("restart")? };
        let failure = match lines.value("state")? {
            "placed" => None,
            "failed" => Some(one_line(lines.value("reason")?)),
            _ => return Err(Damage::Line("state")),
        };
        let user_id = lines.number("user")?;
        let holding = match lines.value("holding")? {
            "share" => Holding::Share {
                units: lines.number("units")?,
                capacity: lines.number("capacity")?,
                allocated_gpu: number_if_any(lines.value("allocated_gpu")?, "allocated_gpu")?,
                memory: number_if_any(lines.value("memory")?, "memory")?,
            },
            "whole" => Holding::Whole,
            "nothing" => Holding::Nothing,
            _ => return Err(Damage::Line("holding")),
        };
        let since = lines.number("since")?;
        let node = lines.next_if("node").map(str::to_owned);
        let mut gpus = Vec::new();
        while let Some(text) = lines.next_if("gpu") {
            gpus.push(gpu(text)?);
        }
        let given = given(&mut lines)?;
        let witness = lines.next_if("witness").map(|text| number(text, "witness")).transpose()?;
        if lines.0.next() != Some(LAST_LINE) || lines.0.next().is_some() {
            return Err(Damage::Surplus);
        }
        let fits = match holding {
            Holding::Share { .. } => gpus.len() == 1,
            Holding::Whole => !gpus.is_empty(),
            Holding::Nothing => gpus.is_empty(),
        };
        let entry = Entry { key, user_id, failure, holding, gpus, since, node, given, witness };
        if fits { Ok(entry) } else { Err(Damage::Line("gpu")) }
    }
}

fn given(lines: &mut Lines) -> Result<Given, Damage> {
    let pci = lines.next_if("pci").map(str::to_owned);
    let daemon = lines.next_if("mps").map(PathBuf::from);
    let driver_limits = lines.next_if("limit").is_some();
    let mut variables = Vec::new();
    while let Some(line) = lines.next_if("env") {
        let (name, value) = line.split_once('=').ok_or(Damage::Line("env"))?;
        variables.push((name.to_owned(), value.to_owned()));
    }
    Ok(Given { pci, daemon, driver_limits, variables })
}

/// Shortens the text and removes characters that could move a terminal's cursor or forge a line of a log.
pub(crate) fn one_line(text: &str) -> String {
    gpushare::text::print::printable(text.trim(), LONGEST_REASON).trim().to_owned()
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
