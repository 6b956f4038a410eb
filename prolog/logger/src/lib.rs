//! Where gpushare-prolog and gpushare-epilog log: one line per event, to syslog (facility daemon) and to stderr, for
//! slurmd or for a person who runs them by hand. `error!` is what an administrator must act on, `info!` what was done.
//!
//! They don't wait for a syslog that doesn't read: otherwise a stopped journald would stop every job that has a share.
//! Only the programs' main functions call [`start`]; the plugins log through Slurm.
#![forbid(unsafe_code)]

use std::fmt::Display;
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;

use log::{Level, LevelFilter, Log, Metadata, Record};
use parking_lot::Mutex;
use syslog::{Error, Facility, LogFormat, Logger, LoggerBackend, Severity};

/// Where syslog listens.
const SOCKET: &str = "/dev/log";

struct Both {
    program: &'static str,
    /// There is none in a small container.
    syslog: Option<Mutex<Logger<LoggerBackend, Untimed>>>,
}

/// RFC 3164 without a time, which whoever reads the socket knows. The crate's own formatter reads the time zone first.
struct Untimed {
    program: &'static str,
}

/// Sends the messages of `log`'s macros to syslog and stderr, with this program's name.
pub fn start(program: &'static str) {
    let socket = connected(SOCKET);
    let syslog =
        socket.map(|socket| Mutex::new(Logger::new(LoggerBackend::Unix(socket), Untimed { program })));
    let _ = log::set_logger(Box::leak(Box::new(Both { program, syslog: syslog.ok() })));
    log::set_max_level(LevelFilter::Info);
}

fn connected(path: &str) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect(path)?;
    Ok(socket)
}

impl Log for Both {
    fn enabled(&self, _: &Metadata) -> bool {
        true
    }

    /// Both may be missing; stderr if it is closed. There is no third place to report that.
    fn log(&self, record: &Record) {
        let (program, line) = (self.program, record.args());
        let _ = io::stderr().write_all(format!("{program}: {line}\n").as_bytes());
        if let Some(syslog) = &self.syslog {
            let mut syslog = syslog.lock();
            let _ = if record.level() == Level::Error { syslog.err(line) } else { syslog.info(line) };
        }
    }

    fn flush(&self) {}
}

impl<T: Display> LogFormat<T> for Untimed {
    fn format<W: Write>(&self, out: &mut W, severity: Severity, line: T) -> syslog::Result<()> {
        let priority = Facility::LOG_DAEMON as u8 | severity as u8;
        // In one piece: each write is a message.
        let message = format!("<{priority}>{}[{}]: {line}", self.program, std::process::id());
        out.write_all(message.as_bytes()).map_err(Error::Write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_facility_the_severity_and_the_program() {
        let mut out = Vec::new();
        Untimed { program: "gpushare-prolog" }.err(&mut out, "job 7: no GPU").unwrap();
        Untimed { program: "gpushare-prolog" }.info(&mut out, "job 8").unwrap();
        let pid = std::process::id();
        let expected = format!("<27>gpushare-prolog[{pid}]: job 7: no GPU<30>gpushare-prolog[{pid}]: job 8");
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn nobody_waits_for_a_syslog_that_does_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let _deaf = UnixDatagram::bind(&path).unwrap();
        let mut backend = LoggerBackend::Unix(connected(path.to_str().unwrap()).unwrap());
        let (full, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || full.send((0..100_000).any(|_| backend.write(b"line").is_err())));
        assert_eq!(told.recv_timeout(std::time::Duration::from_secs(20)), Ok(true));
    }
}
