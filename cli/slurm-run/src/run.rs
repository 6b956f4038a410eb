//! Runs Slurm's own commands and reads their output: without a shell or input, and with limits on output and time.

use std::io;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use gpushare_node::exec::{AskError, Asked, pieces};
use gpushare_slurm_text::Question;

/// More than the associations and QOSes of any site, or 10,000 nodes.
const LONGEST: usize = 64 << 20;
/// How much of a command a message has.
const LONGEST_NAMED: usize = 60;
/// Longer than a busy slurmctld or slurmdbd needs.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Why a daemon that is stopped, or whose machine is, can't be reached.
const AWAY: [&str; 4] = ["Connection refused", "timed out", "No route to host", "Network is unreachable"];

/// How a program ended, and its output.
pub struct Output {
    /// Its exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub output: Vec<u8>,
    /// Standard error.
    pub complaints: Vec<u8>,
}

gpushare::errors! {
    /// Why a program gave no answer.
    #[derive(Debug)]
    pub enum ProgramError {
        Start(program: String, error: io::Error) => "can't run '{program}': {error}";
        Talk(program: String, error: io::Error) => "'{program}': {error}";
        Deadline(program: String, patience: Duration) =>
            "'{program}' did not answer in {} s", patience.as_secs_f32();
        TooMuch(program: String) => "'{program}' printed more than {LONGEST} bytes";
        Failed { command: String, status: ExitStatus, said: String } =>
            "'{command}' failed ({status}): {}", said.escape_debug();
        /// No thread could be started to wait for it, or it has failed before.
        Unasked(program: &'static str) => "{program} can't be asked";
    }
}

/// The program's output.
///
/// # Errors
/// The program can't be run, doesn't end in time, or fails.
pub fn ask(program: &str, arguments: &[&str]) -> Result<Vec<u8>, ProgramError> {
    within(PATIENCE, program, arguments)
}

/// The output as text.
///
/// # Errors
/// The same as for [`ask`].
pub fn text(program: &str, arguments: &[&str]) -> Result<String, ProgramError> {
    ask(program, arguments).map(|output| String::from_utf8_lossy(&output).into_owned())
}

/// The answer to a question with more arguments.
///
/// # Errors
/// The same as for [`ask`].
pub fn question((program, arguments): Question, more: &[&str]) -> Result<String, ProgramError> {
    text(program, &[arguments, more].concat())
}

/// The output of a program that must end in this time.
///
/// # Errors
/// The same as for [`ask`].
pub fn within(patience: Duration, program: &str, arguments: &[&str]) -> Result<Vec<u8>, ProgramError> {
    succeeded(program, arguments, run(super::command(program).args(arguments), patience)?)
}

/// The output of a program that succeeded.
///
/// # Errors
/// The program has failed.
pub fn succeeded(program: &str, arguments: &[&str], answer: Output) -> Result<Vec<u8>, ProgramError> {
    let Output { status, output, complaints } = answer;
    if !status.success() {
        let text =
            String::from_utf8_lossy(if complaints.trim_ascii().is_empty() { &output } else { &complaints });
        // Without munged, that hint comes before the reason.
        let is_reason = |line: &&str| !line.is_empty() && !line.contains("If munged is up");
        let reason = text.lines().map(str::trim).find(is_reason).unwrap_or("no reason given");
        let command = named(program, arguments);
        let said = without_accounting(&text).unwrap_or(reason).to_owned();
        return Err(ProgramError::Failed { command, status, said });
    }
    Ok(output)
}

/// What Slurm's commands mean that say why accounting doesn't answer.
pub fn without_accounting(text: &str) -> Option<&'static str> {
    let has = |words: &str| text.contains(words);
    // Without munged, or between incompatible releases, that connection fails too.
    let is_its = |line: &&str| line.contains("persistent connection") || line.contains("PersistInit");
    if text.lines().filter(is_its).any(|line| AWAY.iter().any(|words| line.contains(words))) {
        Some("slurmdbd does not answer; is it running?")
    } else if has("not running a supported accounting_storage plugin") {
        Some("slurm.conf has no accounting: AccountingStorageType")
    } else {
        None
    }
}

/// The command as a message names it, without a format that fills lines.
fn named(program: &str, arguments: &[&str]) -> String {
    let mut command = program.to_owned();
    for argument in arguments {
        if command.len() + argument.len() > LONGEST_NAMED {
            return command + " …";
        }
        command = format!("{command} {argument}");
    }
    command
}

/// Passes on the output of one of Slurm's commands, line by line, if it grows with a cluster's jobs and so shouldn't be
/// in memory at once. The command may continue as long as it prints something.
///
/// # Errors
/// The same as for [`ask`].
pub fn lines(program: &str, arguments: &[&str], line: impl FnMut(&str)) -> Result<(), ProgramError> {
    lines_with(&[], program, arguments, line)
}

/// The same with some variables.
///
/// # Errors
/// The same as for [`ask`].
pub fn lines_with(
    variables: &[(&str, &str)],
    program: &str,
    arguments: &[&str],
    mut line: impl FnMut(&str),
) -> Result<(), ProgramError> {
    let mut rest: Vec<u8> = Vec::new();
    let mut take = |some: &[u8]| {
        let mut parts = some.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            rest.extend_from_slice(part);
            if parts.peek().is_some() {
                line(&String::from_utf8_lossy(&rest));
                rest.clear();
            }
        }
    };
    let said = Asked::start(super::command(program).args(arguments).envs(variables.iter().copied()), "")
        .and_then(|asked| pieces::of(asked.at_most(LONGEST), PATIENCE, &mut take));
    let (status, complaints) = said.map_err(|error| no_answer(program, error, PATIENCE))?;
    if !rest.is_empty() {
        line(&String::from_utf8_lossy(&rest));
    }
    succeeded(program, arguments, Output { status, output: Vec::new(), complaints }).map(|_| ())
}

/// Runs any program to its end.
///
/// # Errors
/// The program can't be run, or doesn't end in time.
pub fn run(command: &mut Command, patience: Duration) -> Result<Output, ProgramError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let said = Asked::start(command, "").and_then(|asked| asked.at_most(LONGEST).bytes(patience));
    let (status, output, complaints) = said.map_err(|error| no_answer(&program, error, patience))?;
    Ok(Output { status, output, complaints })
}

fn no_answer(program: &str, error: AskError, patience: Duration) -> ProgramError {
    let program = program.to_owned();
    match error {
        AskError::Start(_, error) => ProgramError::Start(program, error),
        AskError::Talk(_, error) => ProgramError::Talk(program, error),
        AskError::Deadline(..) => ProgramError::Deadline(program, patience),
        AskError::TooMuch(..) => ProgramError::TooMuch(program),
    }
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
        let reason = ask("no-such-program-of-slurm", &[]).unwrap_err().to_string();
        // If PATH has a directory that others may not enter, the error is a missing permission.
        assert!(
            reason.starts_with("can't run 'no-such-program-of-slurm': ") && reason.lines().count() == 1,
            "{reason}"
        );
        let reason =
            ask("sh", &["-c", "echo out; echo '  why' >&2; echo more >&2; exit 3"]).unwrap_err().to_string();
        assert!(reason.ends_with("failed (exit status: 3): why"), "{reason}");
        let away = "echo 'sacctmgr: error: _open_persist_conn: failed to open persistent connection to host:x' >&2; \
                    echo 'sacctmgr: error: Sending PersistInit msg: Connection refused' >&2; exit 1";
        let reason = ask("sh", &["-c", away]).unwrap_err().to_string();
        assert!(
            reason.ends_with("failed (exit status: 1): slurmdbd does not answer; is it running?"),
            "{reason}"
        );
        let munge = "for line in 'If munged is up, restart with --num-threads=10' 'Munge encode failed'; do \
                     echo \"scontrol: error: $line\" >&2; done; exit 1";
        let reason = ask("sh", &["-c", munge]).unwrap_err().to_string();
        assert!(reason.ends_with("scontrol: error: Munge encode failed"), "{reason}");
        for text in [
            "error: Munge encode failed: Failed to connect to \"/run/munge/munge.socket.2\": Connection refused\n\
             error: failed to open persistent connection to host:x:6819: Protocol authentication error",
            "error: Something happened with the receiving/processing of the persistent connection init message to \
             x:6819: Incompatible versions of client and server code",
        ] {
            assert_eq!(without_accounting(text), None, "{text}");
        }
    }

    #[test]
    fn a_long_command_is_named_short() {
        let long = "x".repeat(80);
        assert_eq!(named("squeue", &["-h", "-o", &long, "-a"]), "squeue -h -o …");
        assert_eq!(named("squeue", &["-h"]), "squeue -h");
    }

    #[test]
    fn nobody_is_waited_for_without_end() {
        for script in ["exec sleep 300", "exec >&- 2>&-; exec sleep 300"] {
            let mut command = Command::new("sh");
            let error = run(command.args(["-c", script]), Duration::from_millis(50)).err().unwrap();
            assert_eq!(error.to_string(), "'sh' did not answer in 0.05 s", "{script}");
        }
    }

    #[test]
    fn much_is_said_on_both_streams() {
        let script = "head -c 300000 /dev/zero >&2; head -c 300000 /dev/zero";
        assert_eq!(ask("sh", &["-c", script]).unwrap().len(), 300_000);
    }

    #[test]
    fn lines_come_whole_however_many_there_are() {
        let (mut count, mut length, mut last) = (0_u32, 0, String::new());
        let script = "yes 'a line of many' | head -n 5000000; printf 'the last'";
        lines("sh", &["-c", script], |line| {
            count += 1;
            length += line.len() + 1;
            if line != "a line of many" {
                last = line.to_owned();
            }
        })
        .unwrap();
        assert_eq!((count, last.as_str()), (5_000_001, "the last"));
        assert!(length > LONGEST);
        let error = lines("sh", &["-c", "echo out; echo why >&2; exit 3"], |_| ()).unwrap_err().to_string();
        assert!(error.ends_with("failed (exit status: 3): why"), "{error}");
    }
}
