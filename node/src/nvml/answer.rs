//! What NVML says about a node's GPUs, as the text that gpushare-nvml prints and the prolog and `gpushare status` read.
//!
//! ```text
//! gpushare-nvml 1
//! limits=no
//! gpu=GPU-9a40c0de minor=0 memory=46068 used=1210 utilization=37 processes=2 outside=0 mode=default
//! fault=GPU-9a40c0de 2 pages wait to be retired
//! process=GPU-9a40c0de 4711 37 2001 4700 123456 7 812
//! end
//! ```
//!
//! Memory is in MiB, utilization in percent; values that a driver doesn't report are omitted. A process has these
//! words: GPU, number, utilization, user, session, start, place, memory. Another process wrote the text, so implausible
//! values are discarded: a GPU that uses more memory than it has counts as unmeasured.

use std::fmt;
use std::str::FromStr;

use crate::choose::Load;
use crate::gpu::Gpu;
use crate::proc::step::{Place, Running};

/// How gpushare-nvml's error begins if it finds no library.
pub const NO_LIBRARY: &str = "library not found";
/// How it begins if there is a library but no driver.
pub const NO_DRIVER: &str = "driver not loaded";

const FIRST_LINE: &str = "gpushare-nvml 1";
const LAST_LINE: &str = "end";
/// No node has more GPUs.
const MOST: usize = 256;
/// No more processes of one GPU are printed or read.
pub const MOST_PROCESSES: usize = 256;

/// What NVML reports about all GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// The driver can limit GPU memory for a cgroup (r615).
    pub limits: bool,
    /// In NVML's order, which is that of PCI addresses.
    pub gpus: Vec<GpuState>,
}

/// What NVML reports about a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuState {
    /// `GPU-…`
    pub uuid: String,
    /// The N of /dev/nvidiaN.
    pub minor: Option<u32>,
    /// All the memory that programs can have, in MiB.
    pub memory: Option<u32>,
    /// Memory in use, in MiB.
    pub used: Option<u32>,
    /// Utilization in percent.
    pub utilization: Option<u32>,
    /// The processes that compute on it, including MPS clients.
    pub processes: Option<u32>,
    /// Those of them that are neither MPS clients nor MPS servers.
    pub outside: Option<u32>,
    /// The compute mode.
    pub mode: Option<Mode>,
    /// Why the GPU should take no share: an error from which it can't recover by itself.
    pub fault: Option<String>,
    /// The processes, if requested.
    pub running: Vec<Running>,
}

gpushare::names! {
    /// A GPU's compute mode, `nvmlComputeMode_t`.
    pub enum Mode: word {
        /// Any number of processes.
        Default = "default",
        /// One process, such as an MPS server.
        ExclusiveProcess = "exclusive-process",
        /// No processes.
        Prohibited = "prohibited",
    }
}

impl Measured {
    /// What NVML reports about this GPU.
    pub fn of(&self, gpu: &Gpu) -> Option<&GpuState> {
        let same = |state: &&GpuState| match &gpu.uuid {
            Some(uuid) => state.uuid == *uuid,
            None => state.minor == Some(gpu.number.minor),
        };
        self.gpus.iter().find(same)
    }
}

impl GpuState {
    /// The load for the choice: both values or nothing.
    pub fn load(&self) -> Option<Load> {
        Some(Load { memory: self.used?.into(), utilization: self.utilization? })
    }

    /// Removes implausible values.
    fn believed(self) -> GpuState {
        let fits = self.used <= self.memory || self.memory.is_none();
        GpuState {
            memory: self.memory.filter(|memory| fits && *memory > 0),
            used: self.used.filter(|_| fits),
            utilization: self.utilization.filter(|percent| *percent <= 100),
            ..self
        }
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        writeln!(out, "{FIRST_LINE}")?;
        writeln!(out, "limits={}", if self.limits { "yes" } else { "no" })?;
        for gpu in &self.gpus {
            write!(out, "gpu={}", gpu.uuid)?;
            let numbers = [
                ("minor", gpu.minor),
                ("memory", gpu.memory),
                ("used", gpu.used),
                ("utilization", gpu.utilization),
                ("processes", gpu.processes),
                ("outside", gpu.outside),
            ];
            for (name, number) in numbers {
                if let Some(number) = number {
                    write!(out, " {name}={number}")?;
                }
            }
            if let Some(mode) = gpu.mode {
                write!(out, " mode={}", mode.word())?;
            }
            writeln!(out)?;
            if let Some(fault) = &gpu.fault {
                writeln!(out, "fault={} {}", gpu.uuid, fault.replace(char::is_control, " "))?;
            }
            for Running { pid, start, busy, memory, user, session, place } in &gpu.running {
                write!(out, "process={} {pid} {busy} {user} {session} {start} {place}", gpu.uuid)?;
                match memory {
                    Some(memory) => writeln!(out, " {memory}")?,
                    None => writeln!(out)?,
                }
            }
        }
        writeln!(out, "{LAST_LINE}")
    }
}

impl FromStr for Measured {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        let mut lines = text.lines();
        if lines.next() != Some(FIRST_LINE) {
            return Err(Unreadable::Foreign);
        }
        if !text.ends_with(&format!("\n{LAST_LINE}\n")) {
            return Err(Unreadable::Truncated);
        }
        let mut measured = Measured::default();
        for line in lines {
            match line.split_once('=') {
                Some(("limits", value)) => measured.limits = value == "yes",
                Some(("gpu", rest)) if measured.gpus.len() < MOST => measured.gpus.push(gpu(rest)?),
                Some(("fault", rest)) => {
                    let (uuid, fault) = rest.split_once(' ').ok_or(Unreadable::Line)?;
                    let of = measured.gpus.iter_mut().find(|gpu| gpu.uuid == uuid);
                    of.ok_or(Unreadable::Line)?.fault = Some(fault.to_owned());
                }
                Some(("process", rest)) => {
                    let (uuid, rest) = rest.split_once(' ').ok_or(Unreadable::Line)?;
                    let of = measured.gpus.iter_mut().find(|gpu| gpu.uuid == uuid);
                    let running = &mut of.ok_or(Unreadable::Line)?.running;
                    if running.len() == MOST_PROCESSES {
                        return Err(Unreadable::Line);
                    }
                    running.push(process(rest).ok_or(Unreadable::Line)?);
                }
                None if line == LAST_LINE => {}
                _ => return Err(Unreadable::Line),
            }
        }
        Ok(measured)
    }
}

fn process(text: &str) -> Option<Running> {
    let mut words = text.split(' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let mut small = || u32::try_from(number()?).ok();
    let (pid, busy, user, session) = (small()?, small()?, small()?, small()?);
    let start = number()?;
    let place = match words.next()? {
        "?" => Place::Untold,
        "mps" => Place::Mps,
        "-" => Place::Nowhere,
        id => Place::Job(id.parse().ok()?),
    };
    let memory = match words.next() {
        Some(word) => Some(word.parse().ok()?),
        None => None,
    };
    let running = Running { pid, start, busy, memory, user, session, place };
    (busy <= 100 && words.next().is_none()).then_some(running)
}

fn gpu(text: &str) -> Result<GpuState, Unreadable> {
    let mut words = text.split(' ');
    let uuid = words.next().filter(|uuid| !uuid.is_empty()).ok_or(Unreadable::Line)?.to_owned();
    let mut gpu = GpuState { uuid, ..GpuState::default() };
    for word in words {
        let (name, value) = word.split_once('=').ok_or(Unreadable::Line)?;
        let place = match name {
            "minor" => &mut gpu.minor,
            "memory" => &mut gpu.memory,
            "used" => &mut gpu.used,
            "utilization" => &mut gpu.utilization,
            "processes" => &mut gpu.processes,
            "outside" => &mut gpu.outside,
            "mode" => {
                gpu.mode = Some(value.parse()?);
                continue;
            }
            _ => return Err(Unreadable::Line),
        };
        *place = Some(value.parse().map_err(|_| Unreadable::Line)?);
    }
    Ok(gpu.believed())
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Place::Untold => out.write_str("?"),
            Place::Job(id) => write!(out, "{id}"),
            Place::Mps => out.write_str("mps"),
            Place::Nowhere => out.write_str("-"),
        }
    }
}

impl FromStr for Mode {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        Mode::ALL.into_iter().find(|mode| mode.word() == text).ok_or(Unreadable::Line)
    }
}

gpushare::errors! {
    /// Why a text isn't an answer of gpushare-nvml.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Unreadable {
        Foreign => "its first line is not '{FIRST_LINE}'";
        Truncated => "its last line is not '{LAST_LINE}'";
        Line => "it has a line that can't be read";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(uuid: &str) -> GpuState {
        GpuState {
            uuid: uuid.to_owned(),
            minor: Some(3),
            memory: Some(46_068),
            used: Some(1210),
            utilization: Some(37),
            processes: Some(2),
            outside: Some(1),
            mode: Some(Mode::ExclusiveProcess),
            fault: None,
            running: [Place::Job(7), Place::Nowhere, Place::Mps, Place::Untold]
                .map(|place| Running {
                    pid: 4711,
                    start: 1 << 40,
                    busy: 100,
                    memory: Some(812).filter(|_| place != Place::Mps),
                    user: 2001,
                    session: 4700,
                    place,
                })
                .to_vec(),
        }
    }

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let unknown = GpuState {
            uuid: "GPU-b".to_owned(),
            fault: Some("it is lost".to_owned()),
            ..GpuState::default()
        };
        let measured = Measured { limits: true, gpus: vec![state("GPU-a"), unknown] };
        assert_eq!(measured.to_string().parse(), Ok(measured));
    }

    #[test]
    fn what_is_no_answer_is_not_half_believed() {
        let whole = Measured { limits: false, gpus: vec![state("GPU-a")] }.to_string();
        for end in 0..whole.len() {
            assert!(whole[..end].parse::<Measured>().is_err(), "{end}");
        }
        for (text, why) in [
            ("", Unreadable::Foreign),
            ("gpushare-nvml 2\nend\n", Unreadable::Foreign),
            ("gpushare-nvml 1\ngpu=GPU-a used=x\nend\n", Unreadable::Line),
            ("gpushare-nvml 1\ngpu=GPU-a used=-1\nend\n", Unreadable::Line),
            ("gpushare-nvml 1\ngpu= used=1\nend\n", Unreadable::Line),
            ("gpushare-nvml 1\nfault=GPU-a lost\nend\n", Unreadable::Line),
            ("gpushare-nvml 1\nprocess=GPU-a 1 1 1 1 1 -\nend\n", Unreadable::Line),
            ("gpushare-nvml 1\ngpu=GPU-a\nprocess=GPU-a 1 1 1 1 1 - x\nend\n", Unreadable::Line),
            ("gpushare-nvml 1\ngpu=GPU-a\nprocess=GPU-a 1 1 1 1 1 - 1 1\nend\n", Unreadable::Line),
            ("gpushare-nvml 1\ngpu=GPU-a\nprocess=GPU-a 1 1 1 1 1\nend\n", Unreadable::Line),
            ("gpushare-nvml 1\ngpu=GPU-a\nprocess=GPU-a 1 101 1 1 1 -\nend\n", Unreadable::Line),
            ("gpushare-nvml 1\ngpu=GPU-a\nprocess=GPU-a -1 1 1 1 1 -\nend\n", Unreadable::Line),
            ("gpushare-nvml 1\nend\nmore\nend\n", Unreadable::Line),
        ] {
            assert_eq!(text.parse::<Measured>(), Err(why), "{text}");
        }
    }

    #[test]
    fn figures_that_cannot_be_are_left_out() {
        let read = |state: GpuState| {
            let text = Measured { limits: false, gpus: vec![state] }.to_string();
            text.parse::<Measured>().unwrap().gpus.remove(0)
        };
        assert_eq!(read(state("GPU-a")).load(), Some(Load { memory: 1210, utilization: 37 }));
        let full = GpuState { used: Some(46_068), utilization: Some(100), ..state("GPU-a") };
        assert_eq!(read(full.clone()), full);
        let more = read(GpuState { used: Some(46_069), ..state("GPU-a") });
        assert_eq!(
            (more.memory, more.used, more.load()),
            (None, None, None),
            "nobody knows which of them is wrong"
        );
        assert_eq!(read(GpuState { memory: None, ..state("GPU-a") }).used, Some(1210));
        assert_eq!(read(GpuState { memory: Some(0), used: Some(0), ..state("GPU-a") }).memory, None);
        let busier = read(GpuState { utilization: Some(101), ..state("GPU-a") });
        assert_eq!((busier.utilization, busier.load(), busier.memory), (None, None, Some(46_068)));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_an_answer_or_none(text in "\\PC{0,300}") {
            let _ = text.parse::<Measured>();
        }
    }
}
