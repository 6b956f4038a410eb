//! Runs Slurm's own commands and reads what they print: no shell, no input, no more output than a table can have, and an
//! end to waiting.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// More than the associations and QOSes of any site.
const LONGEST: u64 = 64 << 20;
/// Longer than a busy slurmctld or slurmdbd takes.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often a program that has closed its output is looked at.
const PAUSE: Duration = Duration::from_millis(1);

/// How a program ended, and what it said.
pub struct Answer {
    /// Its exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub output: Vec<u8>,
    /// Standard error.
    pub complaints: Vec<u8>,
}

/// What the program prints; an error says in one line which program failed and how.
pub fn ask(program: &str, arguments: &[&str]) -> Result<Vec<u8>, String> {
    let mut command = Command::new(program);
    let Answer { status, output, complaints } = run(command.args(arguments), PATIENCE)?;
    if !status.success() {
        let text =
            String::from_utf8_lossy(if complaints.trim_ascii().is_empty() { &output } else { &complaints });
        let reason = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no reason given");
        return Err(format!(
            "'{program} {}' failed ({status}): {}",
            arguments.join(" "),
            reason.escape_debug()
        ));
    }
    Ok(output)
}

/// Runs a program to its end, whatever it is; an error is one line: why there is no answer.
pub fn run(command: &mut Command, patience: Duration) -> Result<Answer, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("can't run '{program}': {error}"))?;
    let answer = talk(&mut child, &program, patience);
    if answer.is_err() {
        // It would go on, or wait for a reader for ever.
        let _ = child.kill();
        let _ = child.wait();
    }
    answer
}

/// Both streams are read side by side: a program that fills one while the other is read would never end.
fn talk(child: &mut Child, program: &str, patience: Duration) -> Result<Answer, String> {
    let end = Instant::now() + patience;
    let late = || format!("'{program}' did not answer in {} s", patience.as_secs_f32());
    let (send, receive) = mpsc::channel();
    let (stdout, stderr, other) = (child.stdout.take(), child.stderr.take(), send.clone());
    std::thread::spawn(move || send.send((true, stdout.map(|stream| read(stream, LONGEST + 1)))));
    std::thread::spawn(move || other.send((false, stderr.map(|stream| read(stream, 1 << 16)))));
    let (mut output, mut complaints) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        match receive.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok((true, text)) => output = text.unwrap_or_default(),
            Ok((false, text)) => complaints = text.unwrap_or_default(),
            Err(RecvTimeoutError::Timeout) => return Err(late()),
            Err(RecvTimeoutError::Disconnected) => {}
        }
        if output.len() as u64 > LONGEST {
            return Err(format!("'{program}' printed more than {LONGEST} bytes"));
        }
    }
    loop {
        let ended = child.try_wait().map_err(|error| format!("'{program}' can't be waited for: {error}"))?;
        if let Some(status) = ended {
            return Ok(Answer { status, output, complaints });
        }
        if Instant::now() >= end {
            return Err(late());
        }
        std::thread::sleep(PAUSE);
    }
}

fn read(stream: impl Read, limit: u64) -> Vec<u8> {
    let mut text = Vec::new();
    let _ = stream.take(limit).read_to_end(&mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_asked_without_a_shell() {
        assert_eq!(ask("echo", &["a;b", "$HOME"]).unwrap(), b"a;b $HOME\n");
    }

    #[test]
    fn a_failure_is_one_line() {
        let reason = ask("no-such-program-of-slurm", &[]).unwrap_err();
        // Where PATH has a folder that nobody may enter, permission is what is missing.
        assert!(
            reason.starts_with("can't run 'no-such-program-of-slurm': ") && reason.lines().count() == 1,
            "{reason}"
        );
        let reason = ask("sh", &["-c", "echo out; echo '  why' >&2; echo more >&2; exit 3"]).unwrap_err();
        assert!(reason.ends_with("failed (exit status: 3): why"), "{reason}");
    }

    #[test]
    fn nobody_is_waited_for_without_end() {
        for script in ["exec sleep 300", "exec >&- 2>&-; exec sleep 300"] {
            let mut command = Command::new("sh");
            let error = run(command.args(["-c", script]), Duration::from_millis(50)).err();
            assert_eq!(error.as_deref(), Some("'sh' did not answer in 0.05 s"), "{script}");
        }
    }

    #[test]
    fn much_is_said_on_both_streams() {
        let script = "head -c 300000 /dev/zero >&2; head -c 300000 /dev/zero";
        assert_eq!(ask("sh", &["-c", script]).unwrap().len(), 300_000);
    }
}
