//! What gpushare.conf needs in slurm.conf and cgroup.conf, setting by setting. `gpushare check` checks slurmctld's
//! values with it, and `gpushare conf` prints the lines, so the lines of one fix what the other calls wrong. Pure,
//! except for the links that `Prolog=` and `Epilog=` may name, the path of this program, and this machine's mounts.

use std::fs;
use std::path::{Path, PathBuf};

use gpushare_node::exec;
use gpushare_node::fence::locate::{Hierarchy, mount_point};

use crate::slurm::Settings;

mod list;
mod partitions;

pub use gpushare_slurm_text::settings::is_plugin;

pub use list::{fence, is_of_fence, limits_memory, requirements, types};
pub use partitions::{Bill, billing, filled_in_order};

/// A setting, and how it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The file that has it.
    pub file: File,
    /// Its name.
    pub key: &'static str,
    /// What its value must be.
    pub must: Must,
    /// What happens without it; for a [`Must::Choice`], what it means. Without a period.
    pub why: String,
}

/// slurm.conf, or a file next to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    Slurm,
    Cgroup,
}

impl File {
    /// The file's name.
    pub fn name(self) -> &'static str {
        match self {
            File::Slurm => "slurm.conf",
            File::Cgroup => "cgroup.conf",
        }
    }
}

/// What a value must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Must {
    /// A list with these words; it may have others.
    Words(Vec<String>),
    /// A list whose last word is this.
    Last(&'static str),
    /// This value; for a list, these words in any order.
    Be(&'static str),
    /// Anything except `OFF`; this value, if nothing else is wanted.
    NotOff(&'static str),
    /// `SelectTypeParameters`: such as `CR_Core_Memory` if memory is counted, and `LL_SHARED_GRES` if shares are to be
    /// spread.
    Select { memory: bool, spread: bool },
    /// A number above 0; this one, if nothing else is wanted.
    Positive(u64),
    /// The path of this gpushare program, or of one of the site's programs that calls it.
    Run(&'static str),
    /// The administrator's choice; this value, if slurmctld has none.
    Choice(String),
}

/// Whether a need is met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Met {
    /// The value meets it.
    Yes,
    /// The value doesn't; what is wrong with it.
    No(String),
    /// It depends on one of the site's programs.
    Perhaps(String),
}

/// Slurm chooses the GPU with the most units free for a share; since 23.11.
const SPREAD: &str = "LL_SHARED_GRES";

/// Words that mean an empty list, and what slurmctld counts by itself.
const OF_ITSELF: &str = "(none) none cpu mem energy node billing fs/disk vmem pages gres/gpumem gres/gpuutil";

impl Requirement {
    /// A requirement of slurm.conf.
    fn slurm(key: &'static str, must: Must, why: impl Into<String>) -> Requirement {
        Requirement { file: File::Slurm, key, must, why: why.into() }
    }

    /// Whether slurmctld's value meets it.
    pub fn met(&self, settings: &Settings) -> Met {
        let now = settings.get(self.key);
        let is = |met: bool| if met { Met::Yes } else { Met::No(format!("'{now}'")) };
        match &self.must {
            Must::Words(_) => match self.missing(settings).as_slice() {
                [] => Met::Yes,
                missing => Met::No(format!("'{now}' lacks {}", missing.join(" and "))),
            },
            Must::Last(word) => {
                let list = settings.list(self.key);
                match list.iter().position(|found| is_plugin(found, word)) {
                    Some(at) if at + 1 == list.len() => Met::Yes,
                    Some(_) => Met::No(format!("'{now}' has other plugins after {word}")),
                    None => Met::No(format!("'{now}' lacks {word}")),
                }
            }
            Must::Be(value) => is(settings.list(self.key).len() == value.split(',').count()
                && value.split(',').all(|word| settings.has(self.key, word))),
            Must::NotOff(_) => is(!now.is_empty() && !settings.has(self.key, "OFF")),
            Must::Select { memory: true, .. } if !now.to_ascii_uppercase().contains("_MEMORY") => is(false),
            Must::Select { spread: true, .. } if !settings.has(self.key, SPREAD) => Met::Perhaps(format!(
                "'{now}' lacks {SPREAD}: with Placement=follow, Slurm fills one GPU with shares before the next"
            )),
            Must::Select { .. } => Met::Yes,
            Must::Positive(_) => is(settings.number(self.key) > 0),
            Must::Run(program) => {
                let named = settings.all(self.key);
                if named.iter().any(|path| runs(path, program)) {
                    Met::Yes
                } else if named.is_empty() {
                    Met::No("none is set".to_owned())
                } else {
                    Met::Perhaps(format!("'{}' must call {}", named.join(", "), installed(program)))
                }
            }
            Must::Choice(_) => Met::Yes,
        }
    }

    /// The line that meets it, including slurmctld's other values. `None` if only the site's program can meet it.
    pub fn line(&self, settings: &Settings) -> Option<String> {
        let key = self.key;
        let now = settings.get(key);
        let value = match &self.must {
            Must::Words(_) => {
                let list = settings.list(key).into_iter();
                let is_of_itself = |word: &str| OF_ITSELF.split(' ').any(|own| own == word);
                let list = list.filter(|word| !is_of_itself(word) && !self.excludes(word));
                let words: Vec<String> = list.map(str::to_owned).chain(self.missing(settings)).collect();
                words.join(",")
            }
            Must::Last(word) => {
                let others = settings.list(key).into_iter().filter(|other| !is_plugin(other, word));
                others.chain([*word]).collect::<Vec<_>>().join(",")
            }
            Must::Be(value) => (*value).to_owned(),
            Must::NotOff(good) if self.met(settings) != Met::Yes => (*good).to_owned(),
            Must::Positive(good) if self.met(settings) != Met::Yes => good.to_string(),
            Must::Select { memory, spread } => {
                // Without a value, Slurm counts cores and memory.
                let counted = if *memory || now.is_empty() { with_memory(now) } else { now.to_owned() };
                let more = *spread && !settings.has(key, SPREAD);
                if more { format!("{counted},{SPREAD}") } else { counted }
            }
            Must::NotOff(_) | Must::Positive(_) => now.to_owned(),
            Must::Run(program) => match self.met(settings) {
                Met::Perhaps(_) => return None,
                Met::No(_) => installed(program),
                // Slurm expects one line for each program, and treats a comma as part of a path.
                Met::Yes => settings.all(key).join(&format!("\n{key}=")),
            },
            Must::Choice(_) if !matches!(now, "" | "0") => now.to_owned(),
            Must::Choice(good) => good.clone(),
        };
        Some(format!("{key}={value}"))
    }

    /// What to restart before the line takes effect.
    pub fn restart(&self) -> &'static str {
        match (self.file, self.key) {
            (File::Cgroup, _) => "restart slurmd on each node that has it",
            // A node that reports fewer GRES than slurmctld has read is drained, so nodes come first.
            (_, "GresTypes" | "TaskPlugin" | "ProctrackType" | "PrologFlags") => {
                "restart every slurmd, then slurmctld"
            }
            // Without the program, each job drains its node.
            (_, "Prolog" | "Epilog") => {
                "with gpushare-slurmd installed on every node, restart every slurmd, then slurmctld"
            }
            // Since then slurmctld reconfigures itself by a new process.
            (_, "AccountingStorageTRES") => {
                "restart slurmctld; from Slurm 23.11 on 'scontrol reconfigure' is enough"
            }
            (_, "SelectType") => "when Slurm has no job, since it may lose them, restart all of its daemons",
            _ => "restart slurmctld",
        }
    }

    /// slurmctld refuses to start with both NoHold and Contain.
    fn excludes(&self, word: &str) -> bool {
        let contains = matches!(&self.must, Must::Words(words) if words.iter().any(|word| word == "Contain"));
        contains && word.eq_ignore_ascii_case("NoHold")
    }

    fn missing(&self, settings: &Settings) -> Vec<String> {
        let Must::Words(words) = &self.must else { return Vec::new() };
        let all = self.key == "AccountingStorageEnforce" && settings.has(self.key, "all");
        words.iter().filter(|word| !all && !settings.has(self.key, word)).cloned().collect()
    }
}

/// The files that an include line, or `Prolog=`, names. Supports `*` only in the last part of the path, where sites
/// write it.
pub fn matching(from: &Path, pattern: &str) -> Vec<PathBuf> {
    let path = from.with_file_name(pattern);
    let Some((before, after)) = path.file_name().and_then(|name| name.to_str()?.split_once('*')) else {
        return vec![path];
    };
    let names = path.parent().map(fs::read_dir).into_iter().flatten().flatten().flatten();
    // As in a shell, `*` begins no hidden file's name.
    let fits = |name: &str| {
        !(before.is_empty() && name.starts_with('.'))
            && name.len() >= before.len() + after.len()
            && name.starts_with(before)
            && name.ends_with(after)
    };
    let mut files: Vec<PathBuf> = names
        .map(|file| file.path())
        .filter(|file| file.file_name().and_then(|name| name.to_str()).is_some_and(fits))
        .collect();
    files.sort();
    files
}

/// Whether slurmd runs a program of that name for `Prolog=PATH`: directly, through a link, or as one of `FOLDER/*`.
fn runs(path: &str, program: &str) -> bool {
    let is_it = |path: &Path| path.file_name().is_some_and(|name| name == program);
    let files = matching(Path::new("/"), path);
    files.iter().any(|file| is_it(file) || fs::canonicalize(file).is_ok_and(|file| is_it(&file)))
}

/// The version of cgroups that Slurm uses: cgroup.conf's value, or otherwise what is mounted at the usual place
/// (`autodetect`).
pub fn hierarchy(plugin: &str, mountinfo: &str) -> Hierarchy {
    let usual =
        mount_point(Hierarchy::Unified, mountinfo).is_some_and(|point| point == Path::new("/sys/fs/cgroup"));
    match plugin {
        "cgroup/v1" => Hierarchy::Devices,
        "cgroup/v2" => Hierarchy::Unified,
        _ if usual => Hierarchy::Unified,
        _ => Hierarchy::Devices,
    }
}

/// What is mounted on this machine.
pub fn mounts() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()
}

fn installed(name: &str) -> String {
    exec::installed(&exec::own(), name).display().to_string()
}

/// Adds memory to a value such as `CR_Core,CR_ONE_TASK_PER_CORE`.
fn with_memory(now: &str) -> String {
    let units = ["CR_Core", "CR_CPU", "CR_Socket", "CR_Board"];
    let mut found = now.to_ascii_uppercase().contains("_MEMORY");
    let words = now.split(',').filter(|word| !word.is_empty()).map(|word| {
        let unit = units.iter().find(|unit| unit.eq_ignore_ascii_case(word)).filter(|_| !found);
        found |= unit.is_some();
        unit.map_or_else(|| word.to_owned(), |unit| format!("{unit}_Memory"))
    });
    let words: Vec<String> = words.collect();
    let first = (!found).then(|| "CR_Core_Memory".to_owned());
    first.into_iter().chain(words).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
