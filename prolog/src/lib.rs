//! What gpushare-prolog and gpushare-epilog have in common: how they report, and that they end with 0 whatever happens.
//!
//! A report is one line an event, to syslog (facility daemon) and to stderr, where slurmd picks it up or a person who runs
//! them by hand reads it. syslog that doesn't listen is not waited for: with the usual blocking client a stopped
//! journald would stop every job that has a share.
#![forbid(unsafe_code)]

use std::io::Write;
use std::os::unix::net::UnixDatagram;

/// syslog's numbers (syslog(3)): facility daemon, and the two severities used.
const DAEMON: u8 = 3 << 3;
const ERROR: u8 = 3;
const INFO: u8 = 6;

/// Runs all of a program. Any other end than 0 would make slurmd drain the node, also that of a panic.
pub fn run(program: &str, work: impl FnOnce() + std::panic::UnwindSafe) {
    if std::panic::catch_unwind(work).is_err() {
        error(program, "internal error, see the line before");
    }
}

/// An administrator must act.
pub fn error(program: &str, line: &str) {
    report(ERROR, program, line);
}

/// What was done.
pub fn info(program: &str, line: &str) {
    report(INFO, program, line);
}

fn report(severity: u8, program: &str, line: &str) {
    // Neither may be there: no syslog in a small container, a closed stderr. There is no third place to say so.
    let _ = std::io::stderr().write_all(format!("{program}: {line}\n").as_bytes());
    let message = format!("<{}>{program}[{}]: {line}", DAEMON | severity, std::process::id());
    let _ = to_syslog(message.as_bytes());
}

fn to_syslog(message: &[u8]) -> std::io::Result<usize> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to(message, "/dev/log")
}

/// Where slurmd's configuration is: it tells every prolog and epilog.
#[must_use]
pub fn slurm_conf() -> std::path::PathBuf {
    std::env::var_os("SLURM_CONF").unwrap_or_else(|| "/etc/slurm/slurm.conf".into()).into()
}

/// A variable of this process, as text; bytes that are no text can't be a number either, and are told so.
#[must_use]
pub fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}
