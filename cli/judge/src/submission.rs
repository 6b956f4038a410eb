//! Turns sbatch's options into the strings that it sends, in the spelling of its release.
//!
//! This follows Slurm's src/common/slurm_opt.c and proc_args.c. It skips options that can't change gpushare's verdict.

use std::collections::HashMap;

use gpushare::submit::grammar::Spelling;
use gpushare::submit::request::{Batch, Memory, Request};

use super::options::{Given, OptionError};
use super::time;
use gpushare_slurm_text::version::Release;

pub mod counts;

use counts::{Counts, Said};

/// A batch job as sbatch sends it, with the parts that matter for the verdict.
#[derive(Debug, Default)]
pub struct Submission {
    /// The options whose value is sent as it is or in the release's spelling, by name.
    texts: HashMap<&'static str, Vec<u8>>,
    tres_per_task: Option<Vec<u8>>,
    tres_per_node: Option<Vec<u8>>,
    ntasks_per_gpu: Option<u16>,
    ntasks_per_tres: Option<u16>,
    said: Said,
    cpus_per_gpu: Option<u32>,
    mem_per_gpu: Option<u64>,
    /// CPUs and memory.
    amounts: Request<'static>,
    cpus_per_tres: Option<Vec<u8>>,
    mem_per_tres: Option<Vec<u8>>,
    counts: Counts,
    exclusive: bool,
    /// `--gres-flags=enforce-binding` or `disable-binding`; the cluster decides if neither is given.
    enforces_binding: Option<bool>,
    requeue: Option<bool>,
    open_mode: bool,
    time_limit: Option<u32>,
    time_min: Option<u32>,
    get_user_env: bool,
    /// `--export` with names, or `NONE`.
    exports_some: bool,
    /// `--wrap`, which means that there is no script.
    pub wrap: bool,
    /// `--ignore-pbs`
    pub ignore_pbs: bool,
}

impl Submission {
    /// Applies the options in order; later ones override earlier ones.
    ///
    /// # Errors
    /// sbatch refuses such a value, or it submits nothing that can be checked.
    pub fn new(options: &[Given], release: Release) -> Result<Submission, OptionError> {
        let mut job = Submission::default();
        for given in options {
            job.take(given, release)?;
        }
        job.join_per_node(release);
        for name in ["gpus", "gpus-per-socket"] {
            let text = spelled(job.texts.remove(name), release);
            job.texts.extend(text.map(|text| (name, text)));
        }
        job.join_per_task(release)?;
        let of_each = |count: u64| [release.spelling().prefix(), format!("gpu:{count}").as_bytes()].concat();
        job.cpus_per_tres = job.cpus_per_gpu.map(|cpus| of_each(cpus.into()));
        job.mem_per_tres = job.mem_per_gpu.map(of_each);
        job.said.named = job.text("nodelist").and_then(counts::named);
        let counts = job.said.counts(release, &job.request(release.spelling(), 0));
        job.counts = counts;
        Ok(job)
    }

    /// The request, as the policy reads it.
    pub fn request(&self, spelling: Spelling, user_id: u32) -> Request<'_> {
        Request {
            user_id,
            qos: self.text("qos"),
            account: self.text("account"),
            partition: self.text("partition"),
            reservation: self.text("reservation"),
            tres_per_job: self.text("gpus"),
            tres_per_node: self.tres_per_node.as_deref(),
            tres_per_socket: self.text("gpus-per-socket"),
            tres_per_task: self.tres_per_task.as_deref(),
            ntasks_per_tres: self.ntasks_per_tres.or(self.ntasks_per_gpu),
            cpus_per_tres: self.cpus_per_tres.as_deref(),
            mem_per_tres: self.mem_per_tres.as_deref(),
            num_tasks: self.counts.tasks,
            min_nodes: self.counts.min_nodes,
            max_nodes: self.counts.max_nodes,
            cpus_per_task: self.counts.cpus_per_task,
            sockets_per_node: self.counts.sockets,
            ntasks_per_node: self.counts.tasks_per_node,
            nodes: self.text("nodelist"),
            excluded_nodes: self.text("exclude"),
            exclusive: self.exclusive,
            enforces_binding: self.enforces_binding == Some(true),
            batch: Some(Batch {
                requeue: self.requeue,
                open_mode: self.open_mode,
                array: self.text("array"),
                time_limit: self.time_limit,
                user_env: self.get_user_env || self.exports_some,
            }),
            spelling,
            ..self.amounts
        }
    }

    /// The value of one of these options.
    pub fn text(&self, name: &str) -> Option<&[u8]> {
        self.texts.get(name).map(Vec::as_slice)
    }

    /// The minutes that the job is content with: `--time-min`, or else `--time`.
    pub fn least_time(&self) -> Option<u32> {
        self.time_min.map(|least| self.time_limit.map_or(least, |time| time.min(least))).or(self.time_limit)
    }

    /// The cluster has `SelectTypeParameters=ENFORCE_BINDING_GRES`.
    pub fn enforce_binding_by_default(&mut self) {
        self.enforces_binding.get_or_insert(true);
    }

    fn take(&mut self, given: &Given, release: Release) -> Result<(), OptionError> {
        let text = || given.value.clone();
        let bad = || OptionError::Value(given.clone());
        match given.name {
            "qos" | "account" | "partition" | "reservation" | "array" | "gres" | "gpus" | "gpus-per-node"
            | "gpus-per-socket" | "gpus-per-task" | "tres-per-task" | "clusters" | "exclude" | "nodelist" => {
                self.texts.remove(given.name);
                self.texts.extend(text().map(|text| (given.name, text)));
            }
            "wrap" => self.wrap = true,
            "ignore-pbs" => self.ignore_pbs = true,
            "ntasks" => self.said.tasks = Some(positive(given)?),
            "nodes" => self.said.nodes = Some(text().as_deref().and_then(counts::nodes).ok_or_else(bad)?),
            "ntasks-per-node" | "tasks-per-node" => self.said.tasks_per_node = Some(positive(given)?),
            "cpus-per-task" => self.said.cpus_per_task = Some(positive(given)?),
            "sockets-per-node" => self.said.shape[0] = Some(positive(given)?),
            "cores-per-socket" => self.said.shape[1] = Some(positive(given)?),
            "threads-per-core" => self.said.shape[2] = Some(positive(given)?),
            "extra-node-info" => {
                self.said.shape = counts::shape(&text().unwrap_or_default());
                self.said.has_shape = true;
            }
            "cpus-per-gpu" => self.cpus_per_gpu = Some(positive(given)?),
            // The last of the three counts.
            "mem" | "mem-per-cpu" | "mem-per-gpu" => {
                let mebibytes = text().as_deref().and_then(counts::mebibytes).ok_or_else(bad)?;
                self.mem_per_gpu = (given.name == "mem-per-gpu").then_some(mebibytes);
                self.amounts.memory = match given.name {
                    "mem" => Some(Memory::PerNode(mebibytes)),
                    "mem-per-cpu" if mebibytes > 0 => Some(Memory::PerCpu(mebibytes)),
                    "mem-per-cpu" => Some(Memory::PerNode(0)),
                    _ => None,
                };
            }
            "mincpus" => self.amounts.cpus_per_node = positive(given)?.try_into().ok(),
            "ntasks-per-socket" => self.amounts.ntasks_per_socket = positive(given)?.try_into().ok(),
            "ntasks-per-gpu" => self.ntasks_per_gpu = Some(positive(given)?.try_into().map_err(|_| bad())?),
            "ntasks-per-tres" => self.ntasks_per_tres = Some(positive(given)?.try_into().map_err(|_| bad())?),
            "requeue" => self.requeue = Some(true),
            "no-requeue" => self.requeue = Some(false),
            "open-mode" => self.open_mode = is_open_mode(given).then_some(true).ok_or_else(bad)?,
            "exclusive" => self.exclusive = is_exclusive(given, release).ok_or_else(bad)?,
            "oversubscribe" => self.exclusive = false,
            "gres-flags" => {
                let list = text().unwrap_or_default();
                let says = |name: &[u8]| {
                    list.split(|byte| *byte == b',').any(|flag| flag.eq_ignore_ascii_case(name))
                };
                self.enforces_binding =
                    says(b"enforce-binding").then_some(true).or(says(b"disable-binding").then_some(false));
            }
            "time" => self.time_limit = Some(text().as_deref().and_then(time::minutes).ok_or_else(bad)?),
            "time-min" => self.time_min = Some(text().as_deref().and_then(time::minutes).ok_or_else(bad)?),
            "get-user-env" => self.get_user_env = true,
            "export" => {
                let names = text().unwrap_or_default();
                let all_or_nil = [&b"ALL"[..], b"NIL"].iter().any(|word| names.eq_ignore_ascii_case(word));
                self.exports_some = !all_or_nil;
            }
            "uid" => return Err(OptionError::OtherUser),
            "help" | "usage" | "version" | "autocomplete" => {
                return Err(OptionError::SubmitsNothing(given.name));
            }
            _ => {}
        }
        Ok(())
    }

    /// Joins `--gpus-per-node` and then `--gres`, in which `none` has no effect.
    fn join_per_node(&mut self, release: Release) {
        let gres = self.texts.remove("gres").filter(|text| !text.eq_ignore_ascii_case(b"none"));
        let parts =
            [spelled(self.texts.remove("gpus-per-node"), release), gres.map(|text| prefixed(&text, release))];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        self.tres_per_node = (!parts.is_empty()).then(|| parts.join(&b','));
    }

    /// Joins `--tres-per-task` and `--gpus-per-task`.
    fn join_per_task(&mut self, release: Release) -> Result<(), OptionError> {
        let gpus = self.texts.remove("gpus-per-task").filter(|text| !text.is_empty());
        let own = self.texts.remove("tres-per-task");
        let has_gres = |text: &Vec<u8>| text.windows(4).any(|window| window.eq_ignore_ascii_case(b"gres"));
        if gpus.is_some() && own.as_ref().is_some_and(has_gres) {
            return Err(OptionError::BothPerTask);
        }
        let parts = if release >= Release(23, 11) {
            let has_cpus = own
                .as_ref()
                .is_some_and(|text| text.windows(3).any(|window| window.eq_ignore_ascii_case(b"cpu")));
            let cpus =
                self.said.cpus_per_task.filter(|_| !has_cpus).map(|cpus| format!("cpu={cpus}").into_bytes());
            [cpus, gpus.and_then(|text| counted(&text, release)), own.map(|text| slashed(&text))]
        } else {
            [None, own, spelled(gpus, release)]
        };
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        self.tres_per_task = (!parts.is_empty()).then(|| parts.join(&b','));
        Ok(())
    }
}

/// The parts of a `--gpus…` option in the release's spelling.
fn spelled(text: Option<Vec<u8>>, release: Release) -> Option<Vec<u8>> {
    let start = [release.spelling().prefix(), b"gpu:"].concat();
    let text = text?;
    let tokens = text.split(|byte| *byte == b',').filter(|token| !token.is_empty());
    let tokens: Vec<_> = tokens.map(|token| [&start, token].concat()).collect();
    (!tokens.is_empty()).then(|| tokens.join(&b','))
}

/// Adds the prefix to each part of `--gres` that doesn't have it yet.
fn prefixed(text: &[u8], release: Release) -> Vec<u8> {
    let prefix = release.spelling().prefix();
    let parts: Vec<_> = text.split(|byte| *byte == b',').map(|part| [prefix, part].concat()).collect();
    replaced(&parts.join(&b','), &prefix.repeat(2), prefix)
}

fn replaced(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(from) {
            out.extend_from_slice(to);
            rest = after;
        } else {
            out.push(*first);
            rest = after;
        }
    }
    out
}

/// `--gpus-per-task` from 23.11 on: `a40:2` becomes `gres/gpu:a40=2`. Up to 24.11 sbatch uses only the first type in a
/// list. In all of these releases, a type without a number requests nothing.
fn counted(text: &[u8], release: Release) -> Option<Vec<u8>> {
    let mut made: Option<Vec<u8>> = None;
    let mut rest = Some(text);
    while let Some(part) = rest.filter(|part| !part.is_empty()) {
        let equals = || part.iter().position(|byte| *byte == b'=' && release >= Release(24, 5));
        let separator = part.iter().position(|byte| *byte == b':').or_else(equals);
        let gres_type = separator.and_then(|at| part.get(..at));
        let number = separator.map_or(Some(part), |at| part.get(at + 1..)).unwrap_or_default();
        let name = match gres_type {
            Some(gres_type) => [b"gres/gpu:", gres_type].concat(),
            None => b"gres/gpu".to_vec(),
        };
        let count = leading_number(number);
        // A type that is already there isn't added again.
        let there = made.as_ref().is_some_and(|made| made.windows(name.len()).any(|window| window == name));
        if count != 0 && !there {
            let token = [&name, format!("={count}").as_bytes()].concat();
            made = Some(made.map_or(token.clone(), |made| [token, made].join(&b',')));
        }
        let comma = part.iter().position(|byte| *byte == b',').filter(|_| gres_type.is_some());
        rest = comma.and_then(|at| part.get(at + 1..)).filter(|_| release >= Release(25, 5));
    }
    made
}

/// Parses as strtol(3) does: text after the digits is ignored, and no digits mean 0.
fn leading_number(text: &[u8]) -> i64 {
    let text = text.trim_ascii_start();
    let (sign, digits) = match text.split_first() {
        Some((b'-', digits)) => (-1, digits),
        Some((b'+', digits)) => (1, digits),
        _ => (1, text),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let value =
        digits.fold(0_i64, |value, digit| value.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    sign * value
}

/// Replaces `gres:` at the start of a part by `gres/`.
fn slashed(text: &[u8]) -> Vec<u8> {
    let part = |part: &[u8]| match part.strip_prefix(b"gres:") {
        Some(rest) => [b"gres/", rest].concat(),
        None => part.to_vec(),
    };
    text.split(|byte| *byte == b',').map(part).collect::<Vec<_>>().join(&b',')
}

fn positive(given: &Given) -> Result<u32, OptionError> {
    let text = given.value.as_deref().and_then(|value| std::str::from_utf8(value).ok());
    let number = text.and_then(|text| text.trim_start().parse::<i32>().ok());
    number
        .and_then(|number| u32::try_from(number).ok())
        .filter(|number| *number > 0)
        .ok_or_else(|| OptionError::Value(given.clone()))
}

fn is_open_mode(given: &Given) -> bool {
    given.value.as_deref().and_then(<[u8]>::first).is_some_and(|letter| b"aAtT".contains(letter))
}

/// Whether the whole node is requested; `None` if sbatch refuses such a value.
fn is_exclusive(given: &Given, release: Release) -> Option<bool> {
    let Some(value) = &given.value else { return Some(true) };
    let known = [
        ("exclusive", true, Release(0, 0)),
        ("user", false, Release(0, 0)),
        ("mcs", false, Release(0, 0)),
        ("oversubscribe", false, Release(0, 0)),
        ("topo", false, Release(23, 2)),
        ("allocation", true, Release(26, 5)),
    ];
    let is = |(word, _, since): &&(&str, bool, Release)| {
        release >= *since && value.eq_ignore_ascii_case(word.as_bytes())
    };
    known.iter().find(is).map(|(_, whole, _)| *whole)
}

#[cfg(test)]
mod tests;
