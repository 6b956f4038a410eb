//! The work of gpushare-prolog and gpushare-epilog, how they report, and that they end with 0 whatever happens.
//!
//! A report is one line an event, to syslog (facility daemon) and to stderr, where slurmd picks it up or a person who runs
//! them by hand reads it. syslog that doesn't listen is not waited for: with the usual blocking client a stopped
//! journald would stop every job that has a share.
#![forbid(unsafe_code)]

use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use gpushare::config::{self, Config};
use gpushare::device::Roots;
use gpushare::job::{NodeJob, id_and_restart};
use gpushare::ledger::{Entry, Holding, Ledger, RUN_DIR};
use gpushare::node::{self, Node, Placed, Remark};

/// syslog's numbers (syslog(3)): facility daemon, and the two severities used.
const DAEMON: u8 = 3 << 3;
const ERROR: u8 = 3;
const INFO: u8 = 6;

/// Gives a job its GPU; the environment is that of slurmd's prolog.
pub fn prolog(program: &str) {
    run(program, || match place() {
        Ok(placed) => tell(program, placed),
        Err(reason) => error(program, &reason),
    });
}

/// Takes a job's GPU back; the environment is that of slurmd's epilog.
pub fn epilog(program: &str) {
    run(program, || {
        let released =
            id_and_restart(variable).map_err(|error| error.to_string()).and_then(|(id, restart)| {
                node::release(&Ledger::at(RUN_DIR), id, restart).map_err(|error| format!("job {id}: {error}"))
            });
        match released {
            Ok(Some(key)) => info(program, &format!("job {}: share taken back", key.id)),
            Ok(None) => {}
            Err(reason) => error(program, &reason),
        }
    });
}

/// Runs all of a program. Any other end than 0 would make slurmd drain the node, also that of a panic.
fn run(program: &str, work: impl FnOnce() + std::panic::UnwindSafe) {
    if std::panic::catch_unwind(work).is_err() {
        error(program, "internal error, see the line before");
    }
}

/// An administrator must act.
fn error(program: &str, line: &str) {
    report(ERROR, program, line);
}

/// What was done.
fn info(program: &str, line: &str) {
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
fn slurm_conf() -> std::path::PathBuf {
    std::env::var_os("SLURM_CONF").unwrap_or_else(|| "/etc/slurm/slurm.conf".into()).into()
}

/// A variable of this process, as text; bytes that are no text can't be a number either, and are told so.
fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

fn place() -> Result<Placed, String> {
    let job = NodeJob::read(variable).map_err(|error| match variable("SLURM_JOB_ID") {
        Some(id) => format!("job {}: {error}", id.escape_debug()),
        None => error.to_string(),
    })?;
    let because = |error: &dyn std::error::Error| format!("job {}: {error}", job.key.id);
    let slurm_conf = slurm_conf();
    let config = Config::load(&config::find(&slurm_conf, Path::new(config::FALLBACK)))
        .map_err(|error| because(&error))?
        .unwrap_or_default();
    let ledger = Ledger::at(RUN_DIR);
    // Beside slurm.conf also where slurmd is configless: then it has fetched both.
    let gres_conf = slurm_conf.with_file_name("gres.conf");
    let name = variable("SLURMD_NODENAME");
    let node = Node {
        config: &config.node,
        ledger: &ledger,
        roots: &Roots::system(),
        gres_conf: Some(&gres_conf),
        name: name.as_deref(),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    node::place(node, &job, now).map_err(|error| because(&error))
}

fn tell(program: &str, placed: Placed) {
    let Placed::Now(entry, remarks) = placed else { return };
    let id = entry.key.id;
    let gpus: Vec<String> =
        entry.gpus.iter().map(|gpu| format!("{} ({})", gpu.index, gpu.path.display())).collect();
    let gpus = gpus.join(", ");
    match entry.holding {
        Holding::Share { units, capacity, .. } => {
            info(program, &format!("job {id}: {units} of {capacity} units on GPU {gpus}"));
        }
        Holding::Whole => info(program, &format!("job {id}: whole GPU {gpus}")),
    }
    for remark in remarks {
        error(program, &line(&entry, &remark));
    }
}

fn line(entry: &Entry, remark: &Remark) -> String {
    let (id, units) = (entry.key.id, entry.units());
    match remark {
        Remark::Overcommitted => {
            format!("job {id}: its GPU is overcommitted, none had {units} units free")
        }
        Remark::Contradicted(noted) => format!(
            "job {id}: asked for {noted} units, taken as {units}; Slurm counts otherwise: UnitsPerGpu must be what \
             fills one GPU"
        ),
        Remark::Garbage(file) => {
            format!("set aside '{}' of the ledger: {}", file.name.escape_debug(), file.damage)
        }
        Remark::Dropped(key) => {
            format!("job {}: is over and no epilog has come yet, its share is taken back", key.id)
        }
        Remark::Collision(keys) => {
            format!("job {id}: Slurm gave it a GPU that other jobs have shares of: {}", node::listed(keys))
        }
        Remark::LeftOut { index, path, why } => {
            format!("GPU {index} ({}) takes no share: {why}", path.display())
        }
        Remark::HeldWhole(key) => {
            format!("job {id}: Slurm put its share on the GPU that job {} has whole", key.id)
        }
        Remark::SeveralCharged => format!(
            "job {id}: Slurm charges shares to several GPUs (Flags=all_sharing?); Placement=follow would fit"
        ),
    }
}
