//! Prints NVML's answer, for gpushare-nvml alone.

use std::fmt;

use super::answer::{FIRST_LINE, LAST_LINE, Measured};
use crate::proc::running::{Place, Running};

/// An answer that is printed.
#[derive(Debug)]
pub struct Printed<'a>(pub &'a Measured);

impl fmt::Display for Printed<'_> {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let Printed(Measured { limits, gpus }) = self;
        writeln!(out, "{FIRST_LINE}")?;
        writeln!(out, "limits={}", if *limits { "yes" } else { "no" })?;
        for gpu in gpus {
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
                write!(out, "process={} {pid} {busy} {user} {session} {start}", gpu.uuid)?;
                match place {
                    Place::Untold => write!(out, " ?")?,
                    Place::Job(id) => write!(out, " {id}")?,
                    Place::Mps => write!(out, " mps")?,
                    Place::Nowhere => write!(out, " -")?,
                }
                match memory {
                    Some(memory) => writeln!(out, " {memory}")?,
                    None => writeln!(out)?,
                }
            }
        }
        writeln!(out, "{LAST_LINE}")
    }
}
