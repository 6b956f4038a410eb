//! The fence on cgroup v2: which eBPF programs go where, in which order.
//!
//! A step's directory S covers everything of the step: its tasks, and what slurmstepd runs for the user beside them
//! (`srun --task-epilog`), for which Slurm's own fence uses the job's rules. The kernel's rules (kernel/bpf/cgroup.c,
//! and linux/bpf.h at `BPF_F_ALLOW_OVERRIDE`): a process is subject to the programs of the nearest cgroup that has any,
//! and to those that were attached with MULTI to the cgroups above it; all must allow. Slurm attaches with OVERRIDE to
//! the job and to `S/user`, and without a flag to the tasks. So:
//!
//! - our program goes to S with MULTI, and stays in force whatever is attached below;
//! - it hides the job's Slurm program from S, so it carries that program along;
//! - a fence that only narrows is attached beside that program, which it neither reads nor changes;
//! - a fence that widens goes in front of a copy of that program. If the step has programs of its own, those also
//!   forbid the GPU to open, and are replaced in the same way, each by a copy of itself.
//!
//! Loading a program takes most of the time. So if the extern step's program is identical, as when the step has all its
//! job's GPUs, this attaches that one again.
//!
//! Nothing has to be undone: the programs disappear with their directories. A failure halfway leaves the step with less
//! than its fence allows, or with Slurm's rules; the caller then lets none of its tasks run.

pub mod early;
mod error;
#[cfg(test)]
mod fake;
mod kernel;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use super::Fence;
use super::filter::program::{ALLOW_ALL, Instruction, in_front_of};
use super::filter::rules::DeviceRules;
use super::filter::unblind::unblind;
pub use error::{V2Error, Whose};
pub use kernel::{Attached, Flags, Kernel, Refused};

/// How often to look up again a program that was replaced between two calls; each time, another step was starting.
const ATTEMPTS: u32 = 100;
/// Directory of the extern step, which exists for the whole life of a job (`PrologFlags=Contain`).
const EXTERN: &str = "step_extern";

/// Sets the fence up around a step, before its tasks run and after Slurm has written the rules of the last of them.
/// `step` is the step's directory in the mounted cgroup2 file system.
///
/// # Errors
/// The operation that failed, and its directory.
pub fn put_up(kernel: &impl Kernel, step: &Path, fence: &Fence) -> Result<(), V2Error> {
    let found = query(kernel, step)?;
    if !found.programs.is_empty() && found.flags != Flags::Multi {
        return Err(V2Error::Taken(step.to_owned()));
    }
    put_up_at(kernel, &Step { folder: step, has: found.programs, stale: None }, fence)
}

/// The same, if the programs attached to the step are known.
fn put_up_at<K: Kernel>(kernel: &K, step: &Step<K>, fence: &Fence) -> Result<(), V2Error> {
    let rules = DeviceRules::of(fence);
    let hidden = hidden(kernel, step.folder)?;
    if fence.widens {
        return widen(kernel, step, &rules, hidden);
    }
    narrow(kernel, step, &rules, hidden.filter(|hidden| !step.has.contains(&hidden.id)))
}

fn query(kernel: &impl Kernel, step: &Path) -> Result<Attached, V2Error> {
    kernel.attached(step).map_err(|error| V2Error::Query(step.to_owned(), error))
}

struct Step<'a, K: Kernel> {
    folder: &'a Path,
    /// Programs that an earlier fence has left there: the kernel refuses to attach the same program twice.
    has: Vec<u32>,
    /// The one of them that a widening fence replaces.
    stale: Option<&'a K::Program>,
}

/// Attaches Slurm's program and ours side by side; Slurm's first, so that a failure between them leaves its rules in
/// force.
fn narrow<K: Kernel>(
    kernel: &K,
    step: &Step<K>,
    rules: &DeviceRules,
    hidden: Option<Found<K>>,
) -> Result<(), V2Error> {
    let ours = ready(kernel, step, rules, &ALLOW_ALL)?;
    if let Some(found) = hidden {
        attach(kernel, step.folder, (Whose::Slurms, &found.program), Flags::Multi)?;
    }
    attach(kernel, step.folder, (Whose::Ours, &ours), Flags::Multi)
}

/// Puts ours in front of Slurm's program, at the step and wherever the step has a program below.
fn widen<K: Kernel>(
    kernel: &K,
    step: &Step<K>,
    rules: &DeviceRules,
    hidden: Option<Found<K>>,
) -> Result<(), V2Error> {
    let behind = match hidden {
        Some(found) => text(kernel, &found)?,
        None => ALLOW_ALL.to_vec(),
    };
    let ours = ready(kernel, step, rules, &behind)?;
    match step.stale {
        Some(stale) => put(kernel.replace(step.folder, &ours, stale), step.folder, Whose::Ours)?,
        None => attach(kernel, step.folder, (Whose::Ours, &ours), Flags::Multi)?,
    }
    // The step's tasks have programs with the same text, and usually so does the job.
    let mut loaded = vec![(behind, ours)];
    let user = step.folder.join("user");
    // Slurm attaches programs to tasks only if it attaches one to the directory above them (task_cgroup_devices.c).
    if !widen_below(kernel, &user, rules, &mut loaded)? {
        return Ok(());
    }
    for task in tasks(&user)? {
        widen_below(kernel, &task, rules, &mut loaded)?;
    }
    Ok(())
}

/// Replaces the program of a directory below the step by a copy with ours in front; uses one from `loaded` if it
/// matches. Returns `false` if the directory has no program.
fn widen_below<K: Kernel>(
    kernel: &K,
    folder: &Path,
    rules: &DeviceRules,
    loaded: &mut Vec<(Vec<Instruction>, K::Program)>,
) -> Result<bool, V2Error> {
    let Some(found) = only_program(kernel, folder, None)? else { return Ok(false) };
    if found.flags == Flags::Multi {
        return Err(V2Error::Shared(folder.to_owned()));
    }
    let behind = text(kernel, &found)?;
    if let Some((_, ours)) = loaded.iter().find(|(text, _)| *text == behind) {
        attach(kernel, folder, (Whose::Ours, ours), found.flags)?;
        return Ok(true);
    }
    let ours = load(kernel, folder, &program(rules, &behind)?)?;
    attach(kernel, folder, (Whose::Ours, &ours), found.flags)?;
    loaded.push((behind, ours));
    Ok(true)
}

/// Our program in front of `behind`: the extern step's if it is identical, or newly loaded.
fn ready<K: Kernel>(
    kernel: &K,
    step: &Step<K>,
    rules: &DeviceRules,
    behind: &[Instruction],
) -> Result<K::Program, V2Error> {
    let program = program(rules, behind)?;
    match of_extern_step(kernel, step, &program) {
        Some(ours) => Ok(ours),
        None => load(kernel, step.folder, &program),
    }
}

/// The extern step's program with this text. If this fails, the caller loads a new one.
fn of_extern_step<K: Kernel>(kernel: &K, step: &Step<K>, text: &[Instruction]) -> Option<K::Program> {
    let is_same = |program: &K::Program| {
        let shown = kernel.instructions(program).ok().flatten();
        shown.is_some_and(|shown| unblind(&shown).is_ok_and(|shown| shown == text))
    };
    let folder = step.folder.with_file_name(EXTERN);
    if folder == step.folder {
        return None;
    }
    let mut programs = kernel.attached(&folder).ok()?.programs;
    // Ours was loaded last, so it usually has the highest number.
    programs.sort_unstable();
    programs
        .into_iter()
        .rev()
        .filter(|id| !step.has.contains(id))
        .find_map(|id| kernel.program(id).ok().filter(is_same))
}

/// The only program at its cgroup.
struct Found<K: Kernel> {
    folder: PathBuf,
    id: u32,
    program: K::Program,
    flags: Flags,
}

/// Slurm's program that is in force at the step until something is attached there: the program of the nearest directory
/// above that has any. `None` if that program stays in force anyway.
fn hidden<K: Kernel>(kernel: &K, step: &Path) -> Result<Option<Found<K>>, V2Error> {
    for folder in step.ancestors().skip(1) {
        let found = match kernel.attached(folder) {
            // There are no cgroups above the mount.
            Err(error) if error.raw_os_error() == Some(libc::EBADF) => return Ok(None),
            Err(error) => return Err(V2Error::Query(folder.to_owned(), error)),
            Ok(found) => found,
        };
        match found.flags {
            _ if found.programs.is_empty() => {}
            Flags::Multi => return Ok(None),
            Flags::None => return Err(V2Error::Exclusive(folder.to_owned())),
            Flags::Override => {
                if let Some(found) = only_program(kernel, folder, Some(found))? {
                    return Ok(Some(found));
                }
            }
        }
    }
    Ok(None)
}

/// The program at `folder`, if there is one; `found` is what is known to be there. Slurm replaces a job's program
/// whenever a step of the job starts, so the program found may be gone when it is opened.
fn only_program<K: Kernel>(
    kernel: &K,
    folder: &Path,
    mut found: Option<Attached>,
) -> Result<Option<Found<K>>, V2Error> {
    let mut attempt = 1;
    loop {
        let found = match found.take().map_or_else(|| kernel.attached(folder), Ok) {
            Err(error) if gone(&error) => return Ok(None),
            found => found.map_err(|error| V2Error::Query(folder.to_owned(), error))?,
        };
        let id = match found.programs.as_slice() {
            [] => return Ok(None),
            [id] => *id,
            several => return Err(V2Error::Several(folder.to_owned(), several.len())),
        };
        match kernel.program(id) {
            Ok(program) => {
                return Ok(Some(Found { folder: folder.to_owned(), id, program, flags: found.flags }));
            }
            Err(error) if gone(&error) && attempt < ATTEMPTS => attempt += 1,
            Err(error) => return Err(V2Error::Open(folder.to_owned(), id, error)),
        }
    }
}

/// A program's instructions, in a form that can be loaded again.
fn text<K: Kernel>(kernel: &K, found: &Found<K>) -> Result<Vec<Instruction>, V2Error> {
    let folder = || found.folder.clone();
    let shown = kernel.instructions(&found.program).map_err(|error| V2Error::Read(folder(), error))?;
    unblind(&shown.ok_or_else(|| V2Error::Unreadable(folder()))?)
        .map_err(|strange| V2Error::Strange(folder(), strange))
}

fn program(rules: &DeviceRules, behind: &[Instruction]) -> Result<Vec<Instruction>, V2Error> {
    in_front_of(rules, behind).map_err(V2Error::DeviceRules)
}

fn load<K: Kernel>(kernel: &K, folder: &Path, program: &[Instruction]) -> Result<K::Program, V2Error> {
    kernel.load(program).map_err(|refused| V2Error::Load(folder.to_owned(), refused))
}

fn attach<K: Kernel>(
    kernel: &K,
    folder: &Path,
    (whose, program): (Whose, &K::Program),
    flags: Flags,
) -> Result<(), V2Error> {
    put(kernel.attach(folder, program, flags), folder, whose)
}

fn put(answer: io::Result<()>, folder: &Path, whose: Whose) -> Result<(), V2Error> {
    answer.map_err(|error| V2Error::Attach(folder.to_owned(), whose, error))
}

/// The directories of a step's tasks, below the step's user directory.
fn tasks(user: &Path) -> Result<Vec<PathBuf>, V2Error> {
    let entries = match user.read_dir() {
        Err(error) if gone(&error) => return Ok(Vec::new()),
        entries => entries.map_err(|error| V2Error::List(user.to_owned(), error))?,
    };
    let mut folders = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| V2Error::List(user.to_owned(), error))?.path();
        if path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("task_")) {
            folders.push(path);
        }
    }
    Ok(folders)
}

fn gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV))
}
