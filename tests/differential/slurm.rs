//! Asks a release's own parser, by way of `reader.c`.

use crate::reading::{Reading, Wanted};
use std::io::{self, Read, Write};
use std::process::{Command, Stdio};
use std::thread;

/// A command that runs the reader of one release.
pub struct Slurm {
    command: Vec<String>,
}

impl Slurm {
    /// The program and its arguments.
    pub fn new(command: Vec<String>) -> Self {
        Slurm { command }
    }

    /// What Slurm makes of each string; none may hold a NUL.
    ///
    /// # Errors
    /// The reader can't be run, fails, or gives no answer for each string.
    pub fn read(&self, strings: &[Vec<u8>]) -> io::Result<Vec<Reading>> {
        let (program, arguments) = self.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut child =
            Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (mut stdin, mut stdout) =
            child.stdin.take().zip(child.stdout.take()).ok_or(io::ErrorKind::Other)?;
        let mut answers = String::new();
        // The reader answers while it is fed.
        let fed = thread::scope(|scope| {
            let feeder = scope.spawn(move || stdin.write_all(lines(strings).as_bytes()));
            stdout.read_to_string(&mut answers)?;
            feeder.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
        });
        let status = child.wait()?;
        if !status.success() {
            return Err(io::Error::other(format!("the reader ended with {status}")));
        }
        fed?;
        let readings: Option<Vec<Reading>> = answers.lines().map(reading).collect();
        readings
            .filter(|readings| readings.len() == strings.len())
            .ok_or_else(|| io::Error::other("the reader's answers don't match what it was asked"))
    }
}

/// Each string as a line of hexadecimal digits.
fn lines(strings: &[Vec<u8>]) -> String {
    let mut lines = String::new();
    for text in strings {
        lines.extend(text.iter().map(|byte| format!("{byte:02x}")));
        lines.push('\n');
    }
    lines
}

fn reading(line: &str) -> Option<Reading> {
    match line {
        "nothing" => Some(Reading::Wants(Vec::new())),
        _ if line.starts_with("error ") => Some(Reading::Error),
        _ => line.split_ascii_whitespace().map(wanted).collect::<Option<_>>().map(Reading::Wants),
    }
}

/// `NAME[:HEX]=COUNT`.
fn wanted(text: &str) -> Option<Wanted> {
    let (name, count) = text.split_once('=')?;
    let (name, gres_type) = match name.split_once(':') {
        Some((name, hex)) => (name, Some(bytes(hex)?)),
        None => (name, None),
    };
    Some(Wanted { name: name.as_bytes().to_vec(), gres_type, count: count.parse().ok()? })
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok()).collect()
}
