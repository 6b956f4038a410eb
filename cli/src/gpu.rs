//! `gpushare gpu`: takes GPUs of this node out of service, and back. Changes only the file that prologs read,
//! [`gpushare_node::gpu::drained`]: no job, and nothing of Slurm's.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use gpushare::config::LoadError;
use gpushare::root_folder::{self, FolderError};
use gpushare::{
    root_file,
    text::print::{counted, printable},
};
use gpushare_machine::local;
use gpushare_node::config::{NodeConfig, Placement};
use gpushare_node::gpu::drained::{self, drained};
use gpushare_node::gpu::{Detail, DeviceError, Drain, Inventory, Roots};
use gpushare_node::ledger::Ledger;
use gpushare_terminal::{Answer, complain};

use crate::check::recount;
use crate::slurm;

/// No longer reason is shown.
const LONGEST: usize = 200;

/// The command line of `gpushare gpu`.
#[derive(Args)]
pub struct Arguments {
    /// The node's rules [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]
    #[arg(long, value_name = "PATH", global = true)]
    conf: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Give these GPUs of this node no more shares, even after a reboot; their jobs continue
    #[command(after_help = EXIT_STATUS)]
    Drain {
        /// As gpushare status shows them: numbers or UUIDs
        #[arg(value_name = "GPU", value_delimiter = ',', required = true)]
        gpus: Vec<String>,
        /// Why, as status and check will show it
        #[arg(long, short, value_name = "TEXT")]
        reason: String,
    },
    /// Put drained GPUs back into service
    #[command(after_help = EXIT_STATUS)]
    Resume {
        /// As gpushare status shows them: numbers or UUIDs
        #[arg(value_name = "GPU", value_delimiter = ',', required = true)]
        gpus: Vec<String>,
    },
}

const EXIT_STATUS: &str = "Requires root. Exit status: 0; 1 if a GPU is already in that state, or 2 if there is no such \
                           GPU or something else is wrong: then nothing is changed.";

gpushare::errors! {
    /// Why nothing was changed.
    #[derive(Debug)]
    pub enum GpuError {
        NotRoot => "only root takes GPUs out of service, and back";
        NoReason => "--reason: say why, for those who see it later";
        Off(node: String) => "gpushare.conf has Placement=off for {node}: gpushare gives no shares of its GPUs";
        Follow =>
            "Placement=follow: Slurm chooses the GPU and would go on to choose this one, and job after job would fail; \
             take it from Slurm instead: docs/placement.md#a-gpu-out-of-service";
        NoGpu { word: String, there: usize } =>
            "'{}' is none of this node's {}; see gpushare status", word.escape_debug(), counted(there, "GPU");
        Io(path: PathBuf, error: io::Error) => "{}: {error}", path.display();
    } from { Load(LoadError), Devices(DeviceError), Folder(FolderError) }
}

/// Runs the command.
///
/// # Errors
/// Nothing was changed.
pub fn run(arguments: &Arguments) -> Result<Answer, GpuError> {
    if gpushare_node::user_id() != Some(0) {
        return Err(GpuError::NotRoot);
    }
    let (_, config) = local::config_there(arguments.conf.as_deref())?;
    let (host, roots) = (slurm::host(), Roots::system());
    let config = config.of_node(&host);
    if config.placement == Placement::Off {
        return Err(GpuError::Off(host));
    }
    let found = local::inventory(config, &host)?;
    // Of two of these commands, the second waits.
    root_folder::make(&roots.state)?;
    let failed = |error| GpuError::Io(roots.state.clone(), error);
    let folder = File::open(&roots.state).map_err(failed)?;
    let lock = root_file::open(&roots.state.join("lock")).map_err(failed)?; // users could lock the directory
    lock.lock().map_err(failed)?;
    let before = drained(&roots)?;
    let (after, said) = match &arguments.command {
        Command::Drain { gpus, reason } => drain(config, &found, before, gpus, reason)?,
        Command::Resume { gpus } => resume(&found, before, gpus)?,
    };
    let Some(after) = after else { return Ok(Answer { text: said, status: 1 }) };
    let path = drained::path(&roots);
    let line = |Drain { uuid, place, since, user, reason }: &Drain| {
        format!("{uuid} {place} {since} {user} {reason}\n")
    };
    let lines: String = after.iter().map(line).collect();
    // Whoever reboots the node next must find it so.
    let written =
        root_file::replace(&roots.state.join("new"), &path, &lines).and_then(|()| folder.sync_all());
    written.map_err(|error| GpuError::Io(path, error))?;
    let count = local::inventory(config, &host).map(|found| count(config, &host, &found));
    Ok(Answer { text: said + &count.unwrap_or_default(), status: 0 })
}

/// The GPUs that are out of service then, and what to print; `None` if one is so already.
type Outcome = Result<(Option<Vec<Drain>>, String), GpuError>;

fn drain(
    config: &NodeConfig,
    found: &Inventory,
    mut all: Vec<Drain>,
    gpus: &[String],
    reason: &str,
) -> Outcome {
    let reason = printable(reason.trim(), LONGEST);
    if reason.is_empty() {
        return Err(GpuError::NoReason);
    }
    if config.placement == Placement::Follow {
        return Err(GpuError::Follow);
    }
    let entries = Ledger::system().list().map(|listing| listing.entries).unwrap_or_default();
    let user = std::env::var("SUDO_USER").ok().map(|user| user.replace(|c: char| !c.is_ascii_graphic(), ""));
    let user = user.filter(|user| !user.is_empty()).unwrap_or_else(|| "root".to_owned());
    let mut text = String::new();
    for detail in gpus.iter().map(|word| named(found, word)) {
        let detail = detail?;
        let Detail { index, uuid, pci, path, .. } = detail;
        if let Some(drain) = all.iter().find(|drain| is_of(drain, detail)) {
            complain(format!("GPU {index} is already {}", local::drained(drain, local::now())));
            return Ok((None, String::new()));
        }
        let name = || path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        all.push(Drain {
            uuid: uuid.clone().unwrap_or_else(|| "-".to_owned()),
            place: pci.clone().unwrap_or_else(name),
            since: local::now(),
            user: user.clone(),
            reason: reason.clone(),
        });
        let jobs = detail.gpu().map_or(0, |gpu| entries.iter().filter(|entry| entry.is_on(&gpu)).count());
        let on =
            if jobs == 0 { String::new() } else { format!("; {} on it may finish", counted(jobs, "job")) };
        text += &format!("GPU {index} takes no more shares{on}\n");
    }
    Ok((Some(all), text))
}

fn resume(found: &Inventory, mut all: Vec<Drain>, gpus: &[String]) -> Outcome {
    let mut text = String::new();
    for detail in gpus.iter().map(|word| named(found, word)) {
        let (detail, before) = (detail?, all.len());
        // Also that of a card that was there before and is nowhere now.
        let is_there = |drain: &Drain| found.details.iter().any(|other| is_of(drain, other));
        all.retain(|drain| {
            !is_of(drain, detail) && (is_there(drain) || Some(&drain.place) != detail.pci.as_ref())
        });
        if all.len() == before {
            complain(format!("GPU {} is not drained", detail.index));
            return Ok((None, String::new()));
        }
        text += &format!("GPU {} takes shares again\n", detail.index);
    }
    Ok((Some(all), text))
}

fn is_of(drain: &Drain, detail: &Detail) -> bool {
    drain.is_of(detail.uuid.as_deref(), detail.pci.as_deref(), &detail.path)
}

fn named<'a>(found: &'a Inventory, word: &str) -> Result<&'a Detail, GpuError> {
    let is_it = |detail: &&Detail| detail.index.to_string() == word || detail.uuid.as_deref() == Some(word);
    let there = found.details.iter().find(is_it);
    there.ok_or_else(|| GpuError::NoGpu { word: word.to_owned(), there: found.count() })
}

/// How Slurm's count can follow. Without an answer of Slurm's the GPUs are drained all the same.
fn count(config: &NodeConfig, host: &str, found: &Inventory) -> String {
    let said = match slurm::ask("scontrol", &["-o", "show", "node", host]) {
        Ok(text) => slurm::Node::read(&text).and_then(|mut node| recount(config, &mut node, found)),
        Err(reason) => Some(format!("can't tell whether Slurm's count must follow: {reason}")),
    };
    said.map_or_else(String::new, |said| format!("{said}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpushare_machine::config::Config;

    fn inventory() -> Inventory {
        let gpu = |index: u32| Detail {
            index,
            path: format!("/dev/nvidia{index}").into(),
            number: None,
            uuid: Some(format!("GPU-{index}")).filter(|_| index != 1),
            pci: Some(format!("0000:0{index}:00.0")).filter(|_| index < 3),
            model: None,
            gres_type: None,
            unfit: None,
        };
        Inventory { details: (0..4).map(gpu).collect() }
    }

    fn own(placement: &str) -> NodeConfig {
        Config::parse(&format!("Placement={placement}\nUnitsPerGpu=80")).unwrap().of_node("n1").clone()
    }

    fn words(list: &[&str]) -> Vec<String> {
        list.iter().map(|word| (*word).to_owned()).collect()
    }

    fn drained(before: Vec<Drain>, gpus: &[&str]) -> (Option<Vec<Drain>>, String) {
        drain(&own("override"), &inventory(), before, &words(gpus), " the fan\nis broken ").unwrap()
    }

    #[test]
    fn all_that_is_known_of_a_gpu_is_kept() {
        let (all, said) = drained(Vec::new(), &["2", "1", "GPU-3"]);
        let all = all.unwrap();
        let names: Vec<(&str, &str)> = all.iter().map(|drain| (&*drain.uuid, &*drain.place)).collect();
        assert_eq!(names, [("GPU-2", "0000:02:00.0"), ("-", "0000:01:00.0"), ("GPU-3", "nvidia3")]);
        assert!(all.iter().all(|drain| drain.reason == "the fan is broken" && !drain.user.is_empty()));
        assert_eq!(said.lines().next(), Some("GPU 2 takes no more shares"));
    }

    #[test]
    fn nothing_changes_if_one_of_them_is_so_already() {
        let (all, _) = drained(Vec::new(), &["2"]);
        let all = all.unwrap();
        assert!(drained(all.clone(), &["0", "2"]).0.is_none());
        assert!(drained(Vec::new(), &["0", "GPU-0"]).0.is_none());
        let resumed = |gpus: &[&str]| resume(&inventory(), all.clone(), &words(gpus)).unwrap().0;
        assert_eq!(resumed(&["2"]), Some(Vec::new()));
        assert_eq!(resumed(&["2", "0"]), None);
        assert_eq!(resumed(&["2", "2"]), None);
    }

    #[test]
    fn a_card_that_was_replaced_is_resumed_with_its_slot() {
        let (all, _) = drained(Vec::new(), &["0", "2"]);
        let mut all = all.unwrap();
        all[1].uuid = "GPU-that-was".to_owned();
        assert_eq!(resume(&inventory(), all.clone(), &words(&["2"])).unwrap().0, Some(vec![all[0].clone()]));
        // A drained card in another slot stays so, whatever was in this one.
        all[1] = Drain { uuid: "GPU-2".to_owned(), place: "0000:00:00.0".to_owned(), ..all[0].clone() };
        assert_eq!(resume(&inventory(), all.clone(), &words(&["0"])).unwrap().0, Some(vec![all[1].clone()]));
    }

    #[test]
    fn bad_input_is_one_line() {
        let tried = |placement: &str, gpu: &str, reason: &str| {
            drain(&own(placement), &inventory(), Vec::new(), &words(&[gpu]), reason).unwrap_err().to_string()
        };
        assert_eq!(tried("override", "4", "x"), "'4' is none of this node's 4 GPUs; see gpushare status");
        assert_eq!(
            tried("override", "a\nb", "x"),
            "'a\\nb' is none of this node's 4 GPUs; see gpushare status"
        );
        assert_eq!(tried("override", "1", " \n"), "--reason: say why, for those who see it later");
        assert!(tried("follow", "1", "x").starts_with("Placement=follow: Slurm chooses the GPU"));
    }
}
