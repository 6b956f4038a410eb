//! Runs other programs and reads their answers: without a shell, with only the given environment, a deadline, and a
//! limit on the length of an answer.

pub mod pieces;

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use gpushare::text::print::printable;

use crate::unix::{self, To};

/// Longer than any answer of a few lines.
const LONGEST: usize = 256 << 10;
/// A pipe always takes this much at once, however little pipe memory its user has left (pipe(7)).
const LONGEST_INPUT: usize = 4096;
/// How often to check a program that has closed its output.
const PAUSE: Duration = Duration::from_micros(200);
/// How long to wait for a killed program; after that, one that hangs in the kernel is left alone.
const LAST_PATIENCE: Duration = Duration::from_millis(100);

/// A program that was started and has not answered yet. Dropping it kills the program.
#[derive(Debug)]
pub struct Asked {
    path: PathBuf,
    child: Child,
    output: Option<ChildStdout>,
    complaints: Option<ChildStderr>,
    longest: usize,
    ended: bool,
}

/// A program's answer.
#[derive(Debug)]
#[must_use]
pub struct Output {
    /// How the program ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub output: String,
    /// Its standard error.
    pub complaints: String,
}

gpushare::errors! {
    /// Why there is no answer.
    #[derive(Debug)]
    pub enum AskError {
        Start(path: PathBuf, error: io::Error) => "{} can't be run: {error}", path.display();
        Talk(path: PathBuf, error: io::Error) => "{}: {error}", path.display();
        Deadline(path: PathBuf, patience: Duration) =>
            "{} did not answer in {} ms", path.display(), patience.as_millis();
        TooMuch(path: PathBuf, longest: usize) => "{} printed more than {longest} bytes", path.display();
    }
}

/// The path of the running program; if that is unknown, the path where packages install the prolog.
pub fn own() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| "/usr/sbin/gpushare-prolog".into())
}

/// The path of a program that only gpushare calls: in the `sbin` next to the `bin` of `own`, where `make install` puts
/// it; otherwise where packages put it.
pub fn installed(own: &Path, name: &str) -> PathBuf {
    let beside = own.parent().map(|folder| folder.with_file_name("sbin").join(name));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| Path::new("/usr/sbin").join(name))
}

/// A program to ask, with an empty environment and in its own process group.
pub fn program(path: &Path) -> Command {
    let mut command = Command::new(path);
    command.env_clear().current_dir("/").process_group(0);
    command
}

/// Asks a program and waits for the answer.
///
/// # Errors
/// The program can't be run, or gave no answer in time.
pub fn ask(command: &mut Command, input: &str, patience: Duration) -> Result<Output, AskError> {
    Asked::start(command, input)?.answer(patience)
}

impl Asked {
    /// Starts the program. `input` is a few lines: writing more than fits into a pipe would block without a deadline.
    ///
    /// # Errors
    /// The program can't be run, or `input` is too long.
    pub fn start(command: &mut Command, input: &str) -> Result<Asked, AskError> {
        let path = PathBuf::from(command.get_program());
        if input.len() > LONGEST_INPUT {
            return Err(AskError::Talk(path, io::ErrorKind::ArgumentListTooLong.into()));
        }
        let started = |error| AskError::Start(path.clone(), error);
        let stdin = stdin(input).map_err(|error| AskError::Talk(path.clone(), error))?;
        let piped = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().map_err(started)?;
        let (output, complaints) = (child.stdout.take(), child.stderr.take());
        Ok(Asked { path, child, output, complaints, longest: LONGEST, ended: false })
    }

    /// Accepts an answer of up to `bytes` bytes, for programs that print more than a few lines.
    #[must_use]
    pub fn at_most(mut self, bytes: usize) -> Asked {
        self.longest = bytes;
        self
    }

    /// Waits for the answer, as text.
    ///
    /// # Errors
    /// The program gave no answer in time, or a too long one; it is then killed.
    pub fn answer(self, patience: Duration) -> Result<Output, AskError> {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let (status, output, complaints) = self.bytes(patience)?;
        Ok(Output { status, output: text(output), complaints: text(complaints) })
    }

    /// Waits for the answer: how the program ended, its standard output and its standard error.
    ///
    /// # Errors
    /// As [`Asked::answer`].
    pub fn bytes(mut self, patience: Duration) -> Result<(ExitStatus, Vec<u8>, Vec<u8>), AskError> {
        let (mut buffer, mut output) = ([0; 4096], Vec::new());
        let longest = self.longest;
        let (status, complaints) = self.read(patience, false, &mut buffer, &mut |some| {
            output.extend_from_slice(some);
            output.len() <= longest
        })?;
        Ok((status, output, complaints))
    }

    /// `take` returns whether more output is allowed. With `renew`, the time starts again with every piece.
    fn read(
        &mut self,
        patience: Duration,
        renew: bool,
        buffer: &mut [u8],
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(ExitStatus, Vec<u8>), AskError> {
        let mut end = Instant::now() + patience;
        let mut complaints = Vec::new();
        while self.output.is_some() || self.complaints.is_some() {
            let left = self.left(end, patience)?;
            let files = [self.output.as_ref().map(AsFd::as_fd), self.complaints.as_ref().map(AsFd::as_fd)];
            let ready = unix::wait_readable(files, left).map_err(|error| self.talk(error))?;
            let mut is_short = true;
            if ready[0] {
                let some = read_some(&mut self.output, buffer).map_err(|error| self.talk(error))?;
                is_short = take(some);
            }
            if ready[1] {
                let some = read_some(&mut self.complaints, buffer).map_err(|error| self.talk(error))?;
                complaints.extend_from_slice(some);
            }
            if !is_short || complaints.len() > self.longest {
                return Err(AskError::TooMuch(self.path.clone(), self.longest));
            }
            if renew && ready.contains(&true) {
                end = Instant::now() + patience;
            }
        }
        let status = loop {
            if let Some(status) = self.child.try_wait().map_err(|error| self.talk(error))? {
                break status;
            }
            self.left(end, patience)?;
            std::thread::sleep(PAUSE);
        };
        self.ended = true;
        Ok((status, complaints))
    }

    fn left(&self, end: Instant, patience: Duration) -> Result<Duration, AskError> {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(AskError::Deadline(self.path.clone(), patience)) } else { Ok(left) }
    }

    fn talk(&self, error: io::Error) -> AskError {
        AskError::Talk(self.path.clone(), error)
    }
}

/// A program's input, written in full before the program starts. Writing to a program that its user has killed
/// meanwhile would raise SIGPIPE, which would end slurmstepd when this runs in a SPANK plugin.
fn stdin(input: &str) -> io::Result<Stdio> {
    if input.is_empty() {
        return Ok(Stdio::null());
    }
    let (reader, mut writer) = io::pipe()?;
    writer.write_all(input.as_bytes())?;
    Ok(reader.into())
}

/// Reads what is available; at its end the stream is closed.
fn read_some<'b, S: Read>(stream: &mut Option<S>, buffer: &'b mut [u8]) -> io::Result<&'b [u8]> {
    let Some(open) = stream else { return Ok(&[]) };
    let count = open.read(buffer)?;
    if count == 0 {
        *stream = None;
    }
    Ok(buffer.get(..count).unwrap_or_default())
}

impl Drop for Asked {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // The program leads its group until it is waited for, so no other group can have the number. Prolog and epilog
        // are root, so they can also kill a program that has become another user.
        let _ = unix::kill(To::Group(self.child.id()));
        let _ = self.child.kill();
        let end = Instant::now() + LAST_PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(PAUSE);
        }
    }
}

impl Output {
    /// The first line that isn't blank, for a report.
    pub fn first_line(&self) -> String {
        let lines = self.complaints.lines().chain(self.output.lines()).map(str::trim);
        printable({ lines }.find(|line| !line.is_empty()).unwrap_or("it printed nothing"), 200)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> Command {
        let mut command = program(Path::new("/bin/sh"));
        command.args(["-c", script]);
        command
    }

    #[test]
    fn an_answer_has_all_that_was_said_and_how_it_ended() {
        let answer =
            ask(&mut shell("read a; echo \"got $a\"; echo why >&2; exit 3"), "it\n", PATIENCE).unwrap();
        assert_eq!((answer.output.as_str(), answer.complaints.as_str()), ("got it\n", "why\n"));
        assert_eq!(answer.status.code(), Some(3));
        assert_eq!(answer.first_line(), "why");
    }

    #[test]
    fn a_program_that_hangs_is_killed_with_its_children() {
        let script = "sleep 300 & echo $!; wait";
        let mut asked = Asked::start(&mut shell(script), "").unwrap();
        let mut line = [0; 16];
        let count = asked.output.as_mut().unwrap().read(&mut line).unwrap();
        let child = String::from_utf8_lossy(&line[..count]).trim().to_owned();
        let error = asked.answer(Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.to_string(), "/bin/sh did not answer in 50 ms");
        let alive = || {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        let end = Instant::now() + PATIENCE;
        while alive() && Instant::now() < end {
            std::thread::sleep(PAUSE);
        }
        assert!(!alive(), "{child}");
    }

    #[test]
    fn one_that_closes_its_output_and_stays_is_killed_too() {
        let error = ask(&mut shell("exec >&- 2>&-; sleep 300"), "", Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error, AskError::Deadline(..)), "{error}");
    }

    #[test]
    fn one_that_talks_without_end_is_stopped() {
        let error = ask(&mut shell("yes"), "", PATIENCE).unwrap_err();
        assert!(matches!(error, AskError::TooMuch(..)), "{error}");
    }

    #[test]
    fn more_than_a_pipe_takes_is_not_said() {
        let long = "line\n".repeat(LONGEST_INPUT);
        assert!(matches!(ask(&mut shell("sleep 300"), &long, PATIENCE), Err(AskError::Talk(..))));
    }

    #[test]
    fn one_that_does_not_read_and_one_that_is_not_there() {
        assert!(ask(&mut shell("exit 0"), "never read\n", PATIENCE).unwrap().status.success());
        let error = ask(&mut program(Path::new("/no/such/program")), "", PATIENCE).unwrap_err();
        assert!(error.to_string().starts_with("/no/such/program can't be run: "), "{error}");
    }

    #[test]
    fn nothing_of_our_environment_goes_with_it() {
        let answer =
            ask(&mut shell("echo \"${HOME-none} ${CARGO_PKG_NAME-none} $PWD\""), "", PATIENCE).unwrap();
        assert_eq!(answer.output, "none none /\n");
    }
}
