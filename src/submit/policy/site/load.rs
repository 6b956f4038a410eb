//! The GPUs, CPUs and memory of a request, as numbers that depend on how many nodes the job gets.

use super::super::merged::written;
use super::super::{Amount, DefaultMemory, GPU, PerGpu, Policy};
use crate::mend::mended;
use crate::submit::grammar::{self, Gres, Token};
use crate::submit::request::{Description, Field, Memory, Parsed};

/// The request of a job that has GPUs.
pub(super) struct Load<'r> {
    pub(super) request: &'r Parsed<'r>,
    entries: Vec<Entry<'r>>,
}

/// How a request is over a cap.
pub(super) struct Excess<'c> {
    /// CPUs or memory.
    pub(super) amount: Amount,
    /// The cap.
    pub(super) cap: &'c PerGpu,
    /// How much its GPUs allow in total.
    pub(super) allowed: u64,
    /// How much it requests; `None` for everything on its nodes.
    pub(super) wanted: Option<u64>,
    /// With this number of nodes.
    nodes: u64,
}

/// GPUs or shares of one type. If two tokens request them, Slurm may use either, or may not add them up, so the lower
/// counts.
struct Entry<'r> {
    gres: Gres<'r>,
    /// How many units make a GPU.
    units: u64,
    /// For the whole job.
    of_job: Option<u64>,
    /// On each node.
    of_node: Option<u64>,
}

impl Entry<'_> {
    fn count(&self, nodes: u64) -> u64 {
        let on_nodes = self.of_node.map(|count| count.saturating_mul(nodes));
        self.of_job.into_iter().chain(on_nodes).min().unwrap_or(0)
    }

    fn is(&self, gres: &Gres) -> bool {
        let alike = |a: &[u8], b: &[u8]| a.eq_ignore_ascii_case(b);
        let (own, other) = (self.gres.gres_type, gres.gres_type);
        self.gres.name == gres.name
            && own.map_or_else(|| other.is_none(), |own| other.is_some_and(|other| alike(own, other)))
    }
}

impl<'r> Load<'r> {
    /// `None` if the request names neither a GPU nor a share.
    pub(super) fn of(request: &'r Parsed<'r>, policy: &Policy) -> Option<Load<'r>> {
        let mut entries: Vec<Entry<'r>> = Vec::new();
        let on_each = |tasks: Option<u16>| tasks.filter(|_| said(request.num_tasks).is_none()).map(u64::from);
        for (field, token) in request.tokens() {
            let Token::Gres(gres) = token else { continue };
            let (units, count) = match gres.name {
                _ if gres.count == 0 => continue,
                GPU => (1, gres.count),
                // If it is unknown how many units make a GPU, any share counts as one.
                name if policy.is_share(name) => {
                    policy.shares.most.map_or((1, 1), |most| (most.max(1), gres.count))
                }
                _ => continue,
            };
            let per_node = match field {
                Field::Node => Some(1),
                Field::Socket => Some(u64::from(request.sockets_per_node.unwrap_or(1).max(1))),
                Field::Task => on_each(request.ntasks_per_node).filter(|tasks| *tasks > 0),
                Field::Job | Field::CpusPerGpu | Field::MemPerGpu => None,
            };
            let at = entries.iter().position(|entry| entry.is(&gres)).unwrap_or_else(|| {
                entries.push(Entry { gres, units, of_job: None, of_node: None });
                entries.len() - 1
            });
            let Some(entry) = entries.get_mut(at) else { continue };
            let (place, count) = match per_node {
                Some(each) => (&mut entry.of_node, count.saturating_mul(each)),
                None => (&mut entry.of_job, count.saturating_mul(request.times(field))),
            };
            *place = Some(place.map_or(count, |known| known.min(count)));
        }
        (!entries.is_empty()).then_some(Load { request, entries })
    }

    /// The GPUs as a user would write them.
    pub(super) fn written(&self) -> Vec<u8> {
        let tokens = self.entries.iter().map(|entry| grammar::plain(entry.gres));
        tokens.collect::<Vec<_>>().join(&b',')
    }

    /// How the request is over a cap, if it is.
    pub(super) fn excess<'c>(
        &self,
        amount: Amount,
        cap: &'c PerGpu,
        default: impl Fn() -> DefaultMemory,
    ) -> Option<Excess<'c>> {
        self.nodes().into_iter().find_map(|nodes| {
            let allowed = self.allowed(cap, nodes)?;
            let wanted = match amount {
                Amount::Cpus => self.cpus(nodes),
                Amount::Memory => self.memory(nodes, &default),
            };
            let is_over = wanted.is_none_or(|wanted| wanted > allowed);
            is_over.then_some(Excess { amount, cap, allowed, wanted, nodes })
        })
    }

    /// The minimum and the maximum of nodes. No number in between can be worse: the allowed amount grows linearly with
    /// the nodes, and the requested one is the maximum of several such amounts. Each node of a job has a GPU, so there
    /// are at most as many nodes as GPUs.
    fn nodes(&self) -> [u64; 2] {
        let fewest = u64::from(self.request.min_nodes.unwrap_or(1).max(1));
        let of_job = self.entries.iter().map(|entry| entry.of_job.unwrap_or(0));
        let gpus = of_job.fold(0, u64::saturating_add);
        let most = said(self.request.max_nodes).map_or(gpus, |most| gpus.min(most.into()));
        [fewest, most.max(fewest)]
    }

    /// `None` if a type has no cap.
    fn allowed(&self, cap: &PerGpu, nodes: u64) -> Option<u64> {
        self.entries.iter().try_fold(0_u64, |sum, entry| {
            let all = cap.of(entry.gres.gres_type)?.saturating_mul(entry.count(nodes));
            Some(sum.saturating_add(all.div_ceil(entry.units)))
        })
    }

    fn tasks(&self, nodes: u64) -> u64 {
        let request = self.request;
        let number = |number: Option<u16>| u64::from(number.unwrap_or(0));
        let sockets = number(request.sockets_per_node).max(1);
        let of_node = number(request.ntasks_per_node).max(number(request.ntasks_per_socket) * sockets);
        // With both, Slurm gives each node CPUs for its number of tasks, or makes the job's number from it.
        let of_node = match said(request.num_tasks) {
            Some(_) if mended("caps-tasks") => number(request.ntasks_per_node),
            Some(_) => 0,
            None => of_node,
        };
        let said = said(request.num_tasks).map_or(0, u64::from).max(of_node.saturating_mul(nodes));
        said.max(self.gpus(nodes).saturating_mul(request.ntasks_per_tres().into())).max(nodes)
    }

    fn gpus(&self, nodes: u64) -> u64 {
        let gpus = self.entries.iter().filter(|entry| entry.gres.name == GPU);
        gpus.map(|entry| entry.count(nodes)).fold(0, u64::saturating_add)
    }

    /// The CPUs that the job gets at least, taking `--cpus-per-gpu` into account. `None` for all of the nodes' CPUs:
    /// with `--gres-flags=enforce-binding`, Slurm 24.11 to 26.05 gives these unless `--cpus-per-gpu` sets a number.
    fn cpus(&self, nodes: u64) -> Option<u64> {
        let of_gpus = self.of_each_gpu(Field::CpusPerGpu, nodes);
        if self.request.enforces_binding && of_gpus.is_none() && mended("caps-enforce-binding") {
            return None;
        }
        let of_nodes = u64::from(self.request.cpus_per_node.unwrap_or(0)).saturating_mul(nodes);
        let of_job = u64::from(self.request.min_cpus.unwrap_or(0));
        let of_tasks = self.tasks(nodes).saturating_mul(cpus_per_task(self.request));
        Some(of_tasks.max(of_nodes).max(of_job).max(of_gpus.unwrap_or(0)))
    }

    /// `None` for all of the nodes' memory.
    fn memory(&self, nodes: u64, default: impl Fn() -> DefaultMemory) -> Option<u64> {
        let is_given = || default().is_given(self.entries.iter().any(|entry| entry.gres.name == GPU));
        let has_of_gpus = self.says(Field::MemPerGpu);
        let named = match self.request.memory {
            Some(Memory::PerNode(0)) => return None,
            Some(Memory::PerNode(each)) => each.saturating_mul(nodes),
            Some(Memory::PerCpu(each)) => each.saturating_mul(self.cpus(nodes)?),
            None if !has_of_gpus && !is_given() => return None,
            None => 0,
        };
        match has_of_gpus {
            true => self.of_each_gpu(Field::MemPerGpu, nodes).map(|of_gpus| of_gpus.max(named)),
            false => Some(named),
        }
    }

    fn says(&self, field: Field) -> bool {
        self.request.string(field).is_some_and(|text| !text.is_empty())
    }

    /// How much a string such as `gres/gpu:8` amounts to for all GPUs; `None` if it is 0. What can't be read counts as
    /// more than a job should have.
    fn of_each_gpu(&self, field: Field, nodes: u64) -> Option<u64> {
        self.request.string(field).filter(|text| !text.is_empty())?;
        self.request.parts_of(field).try_fold(0_u64, |sum, part| {
            let Token::Gres(each) = part.token else { return Some(u64::MAX) };
            let meant =
                |entry: &&Entry| each.gres_type.is_none() && each.name == entry.gres.name || entry.is(&each);
            let gpus = self.entries.iter().filter(meant).map(|entry| entry.count(nodes));
            let sum = sum.saturating_add(gpus.fold(0, u64::saturating_add).saturating_mul(each.count));
            (each.count > 0).then_some(sum)
        })
    }

    /// Puts the allowed amount into a correction, in the place where the request has too much.
    pub(super) fn fit(&self, excess: &Excess, wanted: &mut Description<Vec<u8>>) -> Option<()> {
        match excess.amount {
            Amount::Cpus => self.fit_cpus(excess, wanted),
            Amount::Memory => self.fit_memory(excess, wanted),
        }
    }

    fn fit_cpus(&self, excess: &Excess, wanted: &mut Description<Vec<u8>>) -> Option<()> {
        let (nodes, allowed) = (excess.nodes, excess.allowed);
        let of_gpus = self.of_each_gpu(Field::CpusPerGpu, nodes);
        if excess.wanted.is_none() || of_gpus.is_some_and(|cpus| cpus > allowed) {
            wanted.cpus_per_tres = Some(self.lowest(excess.cap)?);
            without_cpus(wanted); // Slurm accepts only one of --cpus-per-gpu and -c.
        }
        let tasks = self.tasks(nodes);
        if tasks.saturating_mul(cpus_per_task(self.request)) > allowed {
            let each = u16::try_from((allowed / tasks).max(1)).ok()?;
            if allowed < tasks {
                self.fit_tasks(nodes, allowed, wanted)?;
            }
            // If no number of CPUs per node is set, sbatch sends this one.
            let same = self.request.cpus_per_node.filter(|cpus| Some(*cpus) == self.request.cpus_per_task);
            wanted.cpus_per_node = same.map(|_| each);
            wanted.cpus_per_task = Some(each);
            without_cpus(wanted);
        }
        let of_node = wanted.cpus_per_node.or(self.request.cpus_per_node);
        if of_node.is_some_and(|each| u64::from(each) * nodes > allowed) {
            wanted.cpus_per_node = Some(u16::try_from(allowed / nodes).ok()?);
        }
        if let Some(cpus) = self.request.min_cpus {
            wanted.min_cpus = Some(cpus.min(u32::try_from(allowed).unwrap_or(u32::MAX)));
        }
        Some(())
    }

    /// Reduces the number of tasks: of the job, per node or per GPU. If that isn't enough, the second check refuses it.
    fn fit_tasks(&self, nodes: u64, allowed: u64, wanted: &mut Description<Vec<u8>>) -> Option<()> {
        let request = self.request;
        let number = |count: u64| u16::try_from(count).ok();
        let mut tasks = allowed;
        if request.ntasks_per_tres() > 0 {
            let gpus = self.gpus(nodes);
            wanted.ntasks_per_tres = Some(number(allowed.checked_div(gpus)?)?);
            tasks = gpus.saturating_mul(u64::from(wanted.ntasks_per_tres?));
        }
        if let Some(each) =
            request.ntasks_per_node.filter(|each| u64::from(*each).saturating_mul(nodes) > allowed)
        {
            wanted.ntasks_per_node = Some(number(allowed / nodes)?.min(each));
        }
        if let Some(said) = said(request.num_tasks) {
            wanted.num_tasks = Some(u32::try_from(tasks).ok()?.min(said));
        }
        Some(())
    }

    fn fit_memory(&self, excess: &Excess, wanted: &mut Description<Vec<u8>>) -> Option<()> {
        let (nodes, allowed) = (excess.nodes, excess.allowed);
        let has_gpus = self.entries.iter().all(|entry| entry.gres.name == GPU);
        let fitting = |share: u64| Some(share).filter(|share| *share > 0);
        if self.says(Field::MemPerGpu) {
            wanted.mem_per_tres = Some(self.lowest(excess.cap)?);
        }
        wanted.memory = match self.request.memory {
            Some(Memory::PerCpu(_)) => Some(Memory::PerCpu(fitting(allowed / self.cpus(nodes)?.max(1))?)),
            None if wanted.mem_per_tres.is_some() => None,
            None if has_gpus => {
                wanted.mem_per_tres = Some(self.lowest(excess.cap)?);
                None
            }
            Some(Memory::PerNode(_)) | None => Some(Memory::PerNode(fitting(allowed / nodes)?)),
        };
        Some(())
    }

    /// `gres/gpu:8`: what every GPU of the request may have.
    fn lowest(&self, cap: &PerGpu) -> Option<Vec<u8>> {
        let gpus = self.entries.iter().filter(|entry| entry.gres.name == GPU);
        let count = gpus.filter_map(|entry| cap.of(entry.gres.gres_type)).min()?;
        Some(written(Gres { name: GPU, gres_type: None, count }, self.request.spelling))
    }
}

/// In an existing job, 0 means that the number was not set.
fn said(number: Option<u32>) -> Option<u32> {
    number.filter(|number| *number > 0)
}

/// `--cpus-per-task`, which is also a token from 23.11 on. A token that can't be read counts as more CPUs than a job
/// should have.
fn cpus_per_task(request: &Parsed) -> u64 {
    let of_tokens = request.parts_of(Field::Task).map(|part| match part.token {
        Token::Cpus(cpus) => cpus,
        Token::Unrecognised(_) => u64::MAX,
        Token::Gres(_) | Token::Other => 1,
    });
    of_tokens.max().unwrap_or(1).max(request.cpus_per_task.unwrap_or(1).into()).max(1)
}

/// Removes the token, because a separate option sets the number of CPUs.
fn without_cpus(wanted: &mut Description<Vec<u8>>) {
    let is_cpus = |token: Token| matches!(token, Token::Cpus(_));
    let spelling = wanted.spelling;
    if let Some(text) = &mut wanted.tres_per_task {
        let parts = grammar::tokens(text, spelling).filter(|(_, token)| !is_cpus(*token));
        *text = parts.map(|(part, _)| part).collect::<Vec<_>>().join(&b',');
    }
}
