//! Talks to a daemon through NVIDIA's own program, as the daemon's user: never as root in a directory that a user can
//! write to, and one call at a time, because simultaneous calls fail.
//!
//! Only the text of an answer says whether a call worked, not the exit code (seen with 535, 550 and 555). The sockets
//! are in the user's directory, so any program may answer: every call of a [`Control`] has a deadline, and answers have
//! a maximum length.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::config::NodeConfig;
use crate::mps::service::Limits;
use gpushare::text::print::printable;

use super::error::MpsError;
use super::folder::Locked;
use super::process;
use super::readback::{Readback, memory_in, percentage_in};
use crate::exec::{AskError, ask, program};

/// Where the daemon looks for nvidia-cuda-mps-server, after the directory of its own program.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// A daemon has one server at a time; a server for another user starts after that one has ended.
const MOST_SERVERS: usize = 16;
/// `quit -t 1` takes a second.
const LEAST_QUIT: Duration = Duration::from_secs(2);
/// A GPU has at most 60 clients. This many lines always fit into a pipe.
const MOST_CLIENTS: usize = 100;
/// The first pause before a daemon that did not answer is asked again; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// Access to a daemon until a deadline: `MpsTimeout` after this is made.
#[derive(Clone, Debug)]
pub struct Control {
    program: PathBuf,
    pipe: PathBuf,
    log: PathBuf,
    user_id: u32,
    group_id: u32,
    patience: Duration,
    end: Instant,
}

impl Control {
    /// Access to the daemon of that directory, which runs as that user and group.
    pub fn of(locked: &Locked, config: &NodeConfig, (user_id, group_id): (u32, u32)) -> Control {
        Control {
            program: config.mps_control.clone(),
            pipe: locked.pipe(),
            log: locked.log(),
            user_id,
            group_id,
            patience: config.mps_timeout,
            end: Instant::now() + config.mps_timeout,
        }
    }

    /// `CUDA_MPS_PIPE_DIRECTORY`
    pub fn pipe(&self) -> &Path {
        &self.pipe
    }

    /// The environment of a daemon and of programs that call it.
    pub fn variables(&self) -> [(&'static str, String); 3] {
        let beside = self.program.parent().unwrap_or(Path::new("/usr/bin")).display().to_string();
        [
            ("CUDA_MPS_PIPE_DIRECTORY", self.pipe.display().to_string()),
            ("CUDA_MPS_LOG_DIRECTORY", self.log.display().to_string()),
            ("PATH", format!("{beside}:{PATH}")),
        ]
    }

    /// Sends lines, and returns the lines of the answer.
    fn say(&self, lines: &str) -> Result<Vec<String>, MpsError> {
        self.say_until(lines, self.end)
    }

    fn say_until(&self, lines: &str, end: Instant) -> Result<Vec<String>, MpsError> {
        let left = end.saturating_duration_since(Instant::now());
        let mut command = program(&self.program);
        // std also drops all supplementary groups.
        command.envs(self.variables()).env(process::MARK, &self.pipe).uid(self.user_id).gid(self.group_id);
        // The message is always the same, however much time was left.
        let late = |error| match error {
            AskError::Deadline(path, _) => AskError::Deadline(path, self.patience),
            error => error,
        };
        let answer = ask(&mut command, lines, left).map_err(late)?;
        let said = answer.output.lines().map(str::trim).filter(|line| !line.is_empty());
        Ok(said.map(str::to_owned).collect())
    }

    /// Sends lines until `good` accepts the answer: a simultaneous caller may have disturbed it.
    fn insist<T>(&self, lines: &str, good: impl Fn(&[String]) -> Option<T>) -> Result<T, MpsError> {
        let mut pause = FIRST_PAUSE;
        loop {
            let said = self.say(lines)?;
            if let Some(found) = good(&said) {
                return Ok(found);
            }
            if Instant::now() + pause >= self.end {
                return Err(MpsError::Nonsense(excerpt(&said)));
            }
            std::thread::sleep(pause);
            pause *= 2;
        }
    }

    /// The daemon's servers; this proves that it answers.
    ///
    /// # Errors
    /// NVIDIA's program can't be run, does not answer in time, or gives no usable answer.
    pub fn servers(&self) -> Result<Vec<u32>, MpsError> {
        // The list may be empty, also after a call that was refused; the percentage never is.
        let lines = "get_server_list\nget_default_active_thread_percentage\n";
        self.insist(lines, |said| {
            let (percentage, servers) = said.split_last()?;
            percentage_in(percentage)?;
            let servers = Some(servers).filter(|servers| servers.len() <= MOST_SERVERS)?;
            servers.iter().map(|line| line.parse().ok()).collect()
        })
    }

    /// Sets the limits of future and running servers, and reads those of future servers back. Returns the answer if the
    /// driver shows the limit in an unknown form.
    ///
    /// # Errors
    /// NVIDIA's program can't be run, does not answer in time, or gives no usable answer; or the daemon shows
    /// other limits than these.
    pub fn limit(&self, limits: Limits, servers: &[u32]) -> Result<Option<String>, MpsError> {
        let Limits { memory, percent } = limits;
        // 0 removes a limit. The daemon sees one GPU, so the GPU's number is 0.
        let mib = memory.map_or_else(|| "0".to_owned(), |mib| format!("{mib}M"));
        let mut lines = String::new();
        for server in servers {
            lines += &format!("set_active_thread_percentage {server} {percent}\n");
            lines += &format!("set_device_pinned_mem_limit {server} 0 {mib}\n");
        }
        lines += &format!(
            "set_default_active_thread_percentage {percent}\nset_default_device_pinned_mem_limit 0 {mib}\n"
        );
        self.say(&lines)?;
        let read_back = "get_default_active_thread_percentage\nget_default_device_pinned_mem_limit 0\n";
        let said =
            self.insist(read_back, |said| Some((percentage_in(said.first()?)?, said.get(1..)?.join(" / "))))?;
        let (percentage, shown) = said;
        let percent_taken = percentage.abs_diff(percent.saturating_mul(1000)) < 60;
        let wanted = memory.map_or_else(|| "no memory limit".to_owned(), |mib| format!("{mib}M"));
        let shown_as = excerpt(std::slice::from_ref(&shown));
        match memory_in(&shown, memory) {
            Readback::Same if percent_taken => Ok(None),
            Readback::Unclear if percent_taken => Ok(Some(format!("'{shown_as}' for {wanted}"))),
            _ => Err(MpsError::Limits(format!(
                "{}.{:03} % and '{shown_as}' instead of {percent} % and {wanted}",
                percentage / 1000,
                percentage % 1000
            ))),
        }
    }

    /// Terminates dead clients: a client that was killed while it computed leaves its server in an undefined state.
    /// Returns a server that has had a fatal error; a 535 daemon can't tell.
    ///
    /// # Errors
    /// NVIDIA's program can't be run, or does not answer in time.
    pub fn tidy(&self, servers: &[u32]) -> Result<Option<u32>, MpsError> {
        let is_dead = |pid: &u32| !Path::new("/proc").join(pid.to_string()).exists();
        let mut faulty = None;
        for server in servers {
            let said = self.terminate_clients(*server, is_dead)?;
            faulty = faulty.or(said.iter().any(|line| line == "FAULT").then_some(*server));
        }
        Ok(faulty)
    }

    /// Ends the daemon with its clients and servers. The answer says nothing useful; the caller must check whether the
    /// daemon is gone.
    ///
    /// # Errors
    /// NVIDIA's program can't be run, or does not answer in time.
    pub fn quit(&self, servers: &[u32]) -> Result<(), MpsError> {
        for server in servers {
            self.terminate_clients(*server, |_| true)?;
        }
        // Plain `quit` would wait for the servers indefinitely.
        self.say_until("quit -t 1\n", self.end.max(Instant::now() + LEAST_QUIT))?;
        Ok(())
    }

    /// Returns what the daemon says about the server and its clients.
    fn terminate_clients(&self, server: u32, which: impl Fn(&u32) -> bool) -> Result<Vec<String>, MpsError> {
        let said = self.say(&format!("get_server_status {server}\nget_client_list {server}\n"))?;
        let clients = said.iter().take(MOST_CLIENTS).filter_map(|line| line.parse::<u32>().ok());
        let lines: String =
            clients.filter(which).map(|pid| format!("terminate_client {server} {pid}\n")).collect();
        if !lines.is_empty() {
            self.say(&lines)?;
        }
        Ok(said)
    }
}

fn excerpt(said: &[String]) -> String {
    printable(&said.join(" / "), 100)
}
