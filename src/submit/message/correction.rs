//! Writes a correction as options of sbatch, salloc and srun, or as one `scontrol update`.
//!
//! A correction is complete or absent: it is absent if a command line can't express it, a user can't see all of it, or
//! it is too long to copy.

use std::fmt::Write;

use crate::submit::grammar::{Gres, Spelling, Token};
use crate::submit::policy::{Command, Correction, Refusal, Rule};
use crate::submit::request::{Description, Field, Memory, Parsed, Part};
use crate::text::quantity::size;
use crate::text::shown::shell_word;

/// No longer than a user would copy from a terminal.
const LONGEST_COMMAND: usize = 600;

/// The command that would be accepted, if there is one and it can be written.
pub(super) fn written(refusal: &Refusal) -> Option<String> {
    let correction = refusal.correction.as_deref().filter(|correction| !contradictory(&correction.said))?;
    let words = match &refusal.command {
        _ if refusal.rule == Rule::OldRequestStays => options(correction)?,
        Command::Submit => options(correction)?,
        Command::Update { job, array, .. } => update(correction, &jobs(job, *array)?)?,
    };
    let text = words.join(" ");
    (!text.contains(UNSEEN) && !text.is_empty() && text.len() <= LONGEST_COMMAND).then_some(text)
}

/// Stands for a text that a user can't see as it is.
const UNSEEN: char = '\0';

#[inline(never)]
fn word(text: &[u8]) -> String {
    shell_word(text).unwrap_or_else(|| UNSEEN.to_string())
}

/// Whether a command for this job changes several of slurmctld's job records at once, as it may if it names several
/// tasks of an array. Then Slurm gives the QOS and the GPUs only to the first.
pub(super) fn names_several(job: &[u8], array: bool) -> bool {
    array || job.iter().any(|byte| b"[-,".contains(byte))
}

/// The job, or each of several tasks by itself: scontrol sends a request for each number between commas. Tasks that are
/// one record have the same number; the array's own is the lowest, and must be the last, since it stands for all.
fn jobs(job: &[u8], array: bool) -> Option<String> {
    let Some((job, tasks)) = str::from_utf8(job).ok()?.split_once('_').filter(|_| names_several(job, false))
    else {
        let job = word(job);
        return Some(if array {
            format!("$(squeue -hrt PD -o %A -j {job} | sort -nru | paste -sd,)")
        } else {
            job
        });
    };
    let mut all = String::new();
    for part in tasks.trim_matches(['[', ']']).split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        for task in first.parse::<u32>().ok()?..=last.parse().ok()? {
            let _ = write!(all, "{}{job}_{task}", if all.is_empty() { "" } else { "," });
            if all.len() > LONGEST_COMMAND {
                return None;
            }
        }
    }
    Some(all)
}

fn options(correction: &Correction) -> Option<Vec<String>> {
    let wanted = &correction.said;
    let mut words = Vec::new();
    for (option, name) in wanted.places() {
        words.extend(name.map(|name| format!("--{option}={}", word(name))));
    }
    let request = &Parsed::from(wanted.borrowed());
    let of_counts = |whole, part| ratio(request, whole, part);
    if wanted.max_nodes.map(u64::from) != of_counts(Field::Job, Field::Node)
        || wanted.min_nodes != wanted.max_nodes
    {
        words.extend(nodes(wanted).map(|nodes| format!("-N{nodes}")));
    }
    let each =
        wanted.ntasks_per_node.filter(|each| of_counts(Field::Node, Field::Task) != Some((*each).into()));
    // Users don't request fewer tasks than nodes: such a number comes from sbatch. Not together with tasks per node,
    // from which sbatch computes others.
    let fewer = |tasks: u32| {
        let of_gpus = of_counts(Field::Job, Field::Task) == Some(tasks.into());
        wanted.min_nodes > Some(tasks) && of_gpus && positive(each).is_none()
    };
    let tasks = wanted.num_tasks.filter(|tasks| *tasks > 0 && !fewer(*tasks));
    words.extend(tasks.map(|tasks| format!("-n{tasks}")));
    words.extend(cpus_per_task(request).map(|cpus| format!("-c{cpus}")));
    words.extend(positive(each).map(|tasks| format!("--ntasks-per-node={tasks}")));
    words.extend(positive(wanted.sockets_per_node).map(|sockets| format!("--sockets-per-node={sockets}")));
    for field in Field::ALL {
        let parts: Vec<&Part> = request.parts_of(field).collect();
        if field == Field::CpusPerGpu {
            let tasks = positive(wanted.ntasks_per_tres);
            words.extend(tasks.map(|tasks| format!("--ntasks-per-gpu={tasks}")));
        }
        if !parts.is_empty() {
            words.extend(field_options(field, &parts, wanted.spelling)?);
        }
    }
    let of_node = wanted.cpus_per_node.filter(|cpus| Some(*cpus) != wanted.cpus_per_task);
    words.extend(of_node.map(|cpus| format!("--mincpus={cpus}")));
    words.extend(wanted.memory.map(|amount| match amount {
        Memory::PerNode(each) => format!("--mem={}", size(each)),
        Memory::PerCpu(each) => format!("--mem-per-cpu={}", size(each)),
    }));
    words.extend(correction.options.iter().map(|option| word(option)));
    Some(words)
}

/// The options that a user must type for one of the strings.
fn field_options(field: Field, parts: &[&Part], spelling: Spelling) -> Option<Vec<String>> {
    let bare = |part: &&Part| part.text.strip_prefix(spelling.prefix()).map(word);
    match field {
        Field::Job => Some(vec![format!("--gpus={}", gpus(parts)?)]),
        Field::Socket => Some(vec![format!("--gpus-per-socket={}", gpus(parts)?)]),
        Field::CpusPerGpu => Some(vec![format!("--cpus-per-gpu={}", of_each_gpu(parts)?)]),
        Field::MemPerGpu => Some(vec![format!("--mem-per-gpu={}M", of_each_gpu(parts)?)]),
        Field::Node => {
            let all: Option<Vec<_>> = parts.iter().map(bare).collect();
            Some(vec![format!("--gres={}", all?.join(","))])
        }
        Field::Task => {
            let is_cpus = |part: &&&Part| matches!(part.token, Token::Cpus(_));
            // Two numbers of CPUs aren't one option.
            let one = parts.iter().filter(is_cpus).count() == 1;
            let others: Vec<&Part> = parts.iter().filter(|part| !(one && is_cpus(part))).copied().collect();
            match gpus(&others) {
                _ if others.is_empty() => Some(Vec::new()),
                // Some releases use only the first of several types.
                Some(gpus) if others.len() == 1 || spelling == Spelling::Colon => {
                    Some(vec![format!("--gpus-per-task={gpus}")])
                }
                // 22.05 has no such option.
                _ if spelling == Spelling::Colon => None,
                _ => {
                    let texts: Vec<_> = others.iter().map(|part| part.text).collect();
                    Some(vec![format!("--tres-per-task={}", word(&texts.join(&b',')))])
                }
            }
        }
    }
}

/// `--cpus-per-task`, which is also a token from 23.11 on.
fn cpus_per_task(request: &Parsed) -> Option<u32> {
    let mut tokens = request.parts_of(Field::Task).filter_map(|part| match part.token {
        Token::Cpus(cpus) => u32::try_from(cpus).ok(),
        _ => None,
    });
    let token = tokens.next().filter(|_| tokens.next().is_none());
    // Slurm derives it from --cpus-per-gpu, and accepts only one of the two.
    let said = request.cpus_per_task.filter(|_| request.cpus_per_tres.is_none());
    token.or_else(|| said.map(u32::from)).filter(|cpus| *cpus > 0)
}

/// `a40:2,h100:1`; `None` if a part isn't a GPU.
fn gpus(parts: &[&Part]) -> Option<String> {
    let one = |part: &&Part| match part.token {
        Token::Gres(Gres { name: b"gpu", gres_type: Some(gres_type), count }) => {
            Some(format!("{}:{count}", word(gres_type)))
        }
        Token::Gres(Gres { name: b"gpu", gres_type: None, count }) => Some(count.to_string()),
        _ => None,
    };
    parts.iter().map(one).collect::<Option<Vec<_>>>().map(|all| all.join(","))
}

/// The number in `gres/gpu:4`, to which sbatch converts `--cpus-per-gpu=4`.
fn of_each_gpu(parts: &[&Part]) -> Option<u64> {
    match parts {
        [Part { token: Token::Gres(Gres { name: b"gpu", gres_type: None, count }), .. }] => Some(*count),
        _ => None,
    }
}

/// `2` or `1-4`. A minimum without a maximum comes from other options, which the user already has.
fn nodes(wanted: &Description<Vec<u8>>) -> Option<String> {
    let most = wanted.max_nodes.filter(|most| *most > 0)?;
    let fewest = wanted.min_nodes.unwrap_or(1);
    Some(if fewest == most { most.to_string() } else { format!("{fewest}-{most}") })
}

/// How often one string's count of a GRES goes into another's. From this, sbatch computes a number of nodes, or of
/// tasks on each; if the command named that number, sbatch would treat it as the user's own.
fn ratio(request: &Parsed, whole: Field, part: Field) -> Option<u64> {
    request.gres_of(whole).find_map(|all| {
        let each = request.same_entry(part, &all)?;
        all.count.checked_div(each.count).filter(|times| times * each.count == all.count)
    })
}

/// Whether no number of nodes fits.
fn contradictory(wanted: &Description<Vec<u8>>) -> bool {
    let most = wanted.max_nodes.filter(|most| *most > 0);
    most.is_some_and(|most| wanted.min_nodes.is_some_and(|fewest| fewest > most))
}

fn positive(number: Option<u16>) -> Option<u16> {
    number.filter(|number| *number > 0)
}

fn update(correction: &Correction, job: &str) -> Option<Vec<String>> {
    let wanted = &correction.said;
    let mut words = vec![format!("scontrol update job={job}")];
    // scontrol has no key for this.
    if wanted.ntasks_per_tres.is_some() || !correction.options.is_empty() {
        return None;
    }
    let text = |key: &str, text: Option<&Vec<u8>>| text.map(|text| format!("{key}={}", word(text)));
    words.extend(wanted.places().into_iter().filter_map(|(key, name)| text(key, name)));
    words.extend(match (wanted.min_nodes, nodes(wanted)) {
        (_, Some(nodes)) => Some(format!("NumNodes={nodes}")),
        (fewest, None) => fewest.map(|fewest| format!("NumNodes={fewest}")),
    });
    words.extend(wanted.num_tasks.map(|tasks| format!("NumTasks={tasks}")));
    words.extend(wanted.ntasks_per_node.map(|tasks| format!("TasksPerNode={tasks}")));
    words.extend(wanted.cpus_per_task.map(|cpus| format!("CPUsPerTask={cpus}")));
    words.extend(wanted.sockets_per_node.map(|sockets| format!("ReqSockets={sockets}")));
    words.extend(wanted.min_cpus.map(|cpus| format!("NumCPUs={cpus}")));
    words.extend(wanted.cpus_per_node.map(|cpus| format!("MinCPUsNode={cpus}")));
    words.extend(wanted.memory.map(|amount| match amount {
        Memory::PerNode(each) => format!("MinMemoryNode={each}"),
        Memory::PerCpu(each) => format!("MinMemoryCPU={each}"),
    }));
    words.extend(Field::ALL.into_iter().filter_map(|field| text(field.update_key(), wanted.string(field))));
    Some(words)
}
