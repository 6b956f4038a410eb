//! Runs Slurm's own commands and reads what they print: no shell, no input, no more output than a table can have.

use std::io::Read;
use std::process::{Child, Command, Stdio};

/// More than the associations and QOSes of any site.
const LONGEST: u64 = 64 << 20;

/// What the program prints; an error says in one line which program failed and how.
pub fn ask(program: &str, arguments: &[&str]) -> Result<Vec<u8>, String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("can't run '{program}': {error}"))?;
    let (output, complaints) = drain(&mut child);
    let too_long = output.len() as u64 > LONGEST;
    if too_long {
        // It would wait for a reader for ever.
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| format!("'{program}' can't be waited for: {error}"))?;
    if too_long {
        return Err(format!("'{program}' printed more than {LONGEST} bytes"));
    }
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

/// Both streams to their ends, side by side: a program that fills one while the other is read would never end.
fn drain(child: &mut Child) -> (Vec<u8>, Vec<u8>) {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        let complaints = scope.spawn(move || stderr.map(|stream| read(stream, 1 << 16)).unwrap_or_default());
        let output = stdout.map(|stream| read(stream, LONGEST + 1)).unwrap_or_default();
        (output, complaints.join().unwrap_or_default())
    })
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
    fn much_is_said_on_both_streams() {
        let script = "head -c 300000 /dev/zero >&2; head -c 300000 /dev/zero";
        assert_eq!(ask("sh", &["-c", script]).unwrap().len(), 300_000);
    }
}
