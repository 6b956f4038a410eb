//! Reads what gpushare-nvml printed ([`Measured`]), for the prolog, `gpushare status` and others.
//!
//! Another process wrote the text, so implausible values are discarded: a GPU that uses more memory than it has counts
//! as unmeasured.

use std::str::FromStr;

use super::answer::{FIRST_LINE, GpuState, LAST_LINE, MOST_PROCESSES, Measured, Mode};
use crate::gpu::Gpu;
use crate::proc::running::{Place, Running};

/// No node has more GPUs.
const MOST: usize = 256;

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
                gpu.mode = Some(Mode::read(value).ok_or(Unreadable::Line)?);
                continue;
            }
            _ => return Err(Unreadable::Line),
        };
        *place = Some(value.parse().map_err(|_| Unreadable::Line)?);
    }
    Ok(gpu.believed())
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
    use crate::nvml::printed::Printed;

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
        assert_eq!(Printed(&measured).to_string().parse(), Ok(measured));
    }

    #[test]
    fn what_is_no_answer_is_not_half_believed() {
        let whole = Printed(&Measured { limits: false, gpus: vec![state("GPU-a")] }).to_string();
        for end in 0..whole.len() {
            assert!(whole[..end].parse::<Measured>().is_err(), "{end}");
        }
        for (text, why) in [
            ("", Unreadable::Foreign),
            ("gpushare-nvml 2\nend\n", Unreadable::Foreign),
            ("gpushare-nvml 1\ngpu=GPU-a used=x\nend\n", Unreadable::Line),
            ("gpushare-nvml 1\ngpu=GPU-a used=-1\nend\n", Unreadable::Line),
            ("gpushare-nvml 1\ngpu= used=1\nend\n", Unreadable::Line),
            ("gpushare-nvml 1\ngpu=GPU-a heat=1\nend\n", Unreadable::Line),
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
    fn more_processes_than_are_asked_for_are_no_answer() {
        let of = |count| {
            let processes = "process=GPU-a 1 1 1 1 1 -\n".repeat(count);
            format!("gpushare-nvml 1\ngpu=GPU-a\n{processes}end\n").parse::<Measured>()
        };
        assert_eq!(of(MOST_PROCESSES).unwrap().gpus[0].running.len(), MOST_PROCESSES);
        assert_eq!(of(MOST_PROCESSES + 1), Err(Unreadable::Line));
    }

    #[test]
    fn figures_that_cannot_be_are_left_out() {
        let read = |state: GpuState| {
            let text = Printed(&Measured { limits: false, gpus: vec![state] }).to_string();
            text.parse::<Measured>().unwrap().gpus.remove(0)
        };
        assert_eq!(read(state("GPU-a")), state("GPU-a"));
        let full = GpuState { used: Some(46_068), utilization: Some(100), ..state("GPU-a") };
        assert_eq!(read(full.clone()), full);
        let more = read(GpuState { used: Some(46_069), ..state("GPU-a") });
        assert_eq!(
            (more.memory, more.used, more.utilization),
            (None, None, Some(37)),
            "nobody knows which of them is wrong"
        );
        assert_eq!(read(GpuState { memory: None, ..state("GPU-a") }).used, Some(1210));
        assert_eq!(read(GpuState { memory: Some(0), used: Some(0), ..state("GPU-a") }).memory, None);
        let busier = read(GpuState { utilization: Some(101), ..state("GPU-a") });
        assert_eq!((busier.utilization, busier.memory), (None, Some(46_068)));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_an_answer_or_none(text in "\\PC{0,300}") {
            let _ = text.parse::<Measured>();
        }
    }
}
