//! How gpushare-prolog and gpushare-epilog report: one line an event, to syslog (facility daemon) and to stderr, where
//! slurmd picks it up or a person who runs them by hand reads it.
#![forbid(unsafe_code)]

use std::io::Write;

use syslog::{Facility, Formatter3164, Severity};

/// An administrator must act.
pub fn error(program: &str, line: &str) {
    report(Severity::LOG_ERR, program, line);
}

/// What was done.
pub fn info(program: &str, line: &str) {
    report(Severity::LOG_INFO, program, line);
}

fn report(severity: Severity, program: &str, line: &str) {
    // Neither may be there: no syslog in a small container, a closed stderr. There is no third place to say so.
    let _ = std::io::stderr().write_all(format!("{program}: {line}\n").as_bytes());
    let formatter = Formatter3164 {
        facility: Facility::LOG_DAEMON,
        hostname: None,
        process: program.to_owned(),
        pid: std::process::id(),
    };
    if let Ok(mut logger) = syslog::unix(formatter) {
        let _ = match severity {
            Severity::LOG_ERR => logger.err(line),
            _ => logger.info(line),
        };
    }
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
