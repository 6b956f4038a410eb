//! How many tasks and nodes sbatch requests: what its options say, and how sbatch changes these before it sends the
//! job.
//!
//! As in Slurm's src/sbatch/opt.c ("massage the numbers"), slurm_opt.c (`slurm_opt_create_job_desc`), and in what
//! sbatch shares with slurmctld to check a request for GRES (src/interfaces/gres.c: `gres_job_state_validate`,
//! `_test_gres_cnt`).

use gpushare::submit::request::{Field, Parsed, Request};

use gpushare::text::hostlist;
use gpushare_slurm_text::version::Release;

/// The values of the options.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// `--ntasks`
    pub tasks: Option<u32>,
    /// `--nodes`: minimum and maximum.
    pub nodes: Option<(u32, u32)>,
    /// `--nodelist`: how many nodes it names.
    pub named: Option<u32>,
    /// `--ntasks-per-node`
    pub tasks_per_node: Option<u32>,
    /// `--sockets-per-node`, `--cores-per-socket`, `--threads-per-core`, also from `--extra-node-info`.
    pub shape: [Option<u32>; 3],
    /// `--extra-node-info`
    pub has_shape: bool,
    /// `--cpus-per-task`
    pub cpus_per_task: Option<u32>,
}

/// The values that slurmctld gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// `num_tasks`
    pub tasks: Option<u32>,
    /// `min_nodes`
    pub min_nodes: Option<u32>,
    /// `max_nodes`
    pub max_nodes: Option<u32>,
    /// `ntasks_per_node`
    pub tasks_per_node: Option<u16>,
    /// `cpus_per_task`
    pub cpus_per_task: Option<u16>,
    /// `sockets_per_node`
    pub sockets: Option<u16>,
}

impl Said {
    /// What sbatch sends for a request; `request` has its other values.
    pub fn counts(&self, release: Release, request: &Request) -> Counts {
        let mut counts = self.before_gres(release);
        let asks = |field: Field| request.string(field).is_some();
        let each = u32::from(request.ntasks_per_tres());
        if let (true, None, Some(fewest)) = (asks(Field::Task) || each > 0, counts.tasks, counts.min_nodes)
            && counts.max_nodes == Some(fewest)
        {
            counts.tasks = match (each, self.tasks_per_node) {
                (0, Some(tasks)) => Some(fewest.saturating_mul(tasks)),
                (0, None) if self.cpus_per_task.is_some() => None,
                (0, None) => Some(fewest),
                _ => Some(fewest.saturating_mul(each)),
            };
        }
        let entries = entries(request);
        let gpus = entries.iter().filter(|entry| entry.is_gpu).map(|entry| entry.total(request, &counts));
        if each > 0 && entries.iter().any(|entry| entry.is_gpu) {
            counts.tasks = u32::try_from(gpus.sum::<u64>()).ok().and_then(|gpus| gpus.checked_mul(each));
        }
        let invented = counts.tasks.and_then(|tasks| tasks.checked_div(each)).map(u64::from);
        let invented = invented.filter(|_| !entries.iter().any(|entry| entry.is_gpu));
        entries.iter().for_each(|entry| entry.fit(&mut counts));
        bound(&mut counts, invented);
        counts
    }

    /// The values from the options alone.
    fn before_gres(&self, release: Release) -> Counts {
        let named = self.named.map(|named| (named, 0));
        let (mut fewest, mut most) = self.nodes.or(named).unwrap_or((1, 0));
        let has_nodes = self.nodes.or(named).is_some();
        let old = release < Release(23, 2);
        if old {
            fewest = fewest.max(self.named.unwrap_or(0));
        }
        let mut tasks = self.tasks;
        if let (None, Some(each)) = (tasks, self.tasks_per_node)
            && old
            && (fewest == most || most == 0)
        {
            tasks = Some(fewest.saturating_mul(each));
        }
        if (has_nodes || self.has_shape)
            && (fewest == most || most == 0)
            && self.tasks_per_node.is_none()
            && tasks.is_none()
        {
            let shape = self.shape.iter().flatten();
            let each = shape.copied().reduce(u32::saturating_mul);
            tasks = each.map(|each| each.saturating_mul(fewest.max(1)));
        } else if let (true, Some(tasks)) = (has_nodes, tasks) {
            most = most.min(tasks);
            if tasks < fewest {
                (fewest, most) = (tasks, tasks);
            }
        }
        let of_tasks = match (tasks, self.tasks_per_node) {
            (Some(tasks), Some(each)) if release >= Release(23, 11) && each > 0 => Some(tasks.div_ceil(each)),
            _ => None,
        };
        Counts {
            tasks,
            min_nodes: if has_nodes { Some(fewest) } else { of_tasks },
            max_nodes: Some(most).filter(|most| has_nodes && *most > 0),
            tasks_per_node: self.tasks_per_node.and_then(|tasks| tasks.try_into().ok()),
            cpus_per_task: self.cpus_per_task.and_then(|cpus| cpus.try_into().ok()),
            sockets: self.shape[0].and_then(|sockets| sockets.try_into().ok()),
        }
    }
}

/// One GRES of one type, and how much of it is requested.
struct Entry<'a> {
    name: (&'a [u8], Option<&'a [u8]>),
    is_gpu: bool,
    job: u64,
    node: u64,
    socket: u64,
    task: u64,
}

fn entries<'a>(request: &Request<'a>) -> Vec<Entry<'a>> {
    let mut entries: Vec<Entry> = Vec::new();
    for (field, gres) in Parsed::from(*request).gres() {
        let name = (gres.name, gres.gres_type);
        let at = entries.iter().position(|entry| entry.name == name).unwrap_or_else(|| {
            entries.push(Entry { name, is_gpu: gres.name == b"gpu", job: 0, node: 0, socket: 0, task: 0 });
            entries.len() - 1
        });
        let Some(entry) = entries.get_mut(at) else { continue };
        *match field {
            Field::Job => &mut entry.job,
            Field::Node => &mut entry.node,
            Field::Socket => &mut entry.socket,
            Field::Task => &mut entry.task,
            Field::CpusPerGpu | Field::MemPerGpu => continue,
        } = gres.count;
    }
    entries
}

impl Entry<'_> {
    fn total(&self, request: &Request, counts: &Counts) -> u64 {
        let request = Request {
            min_nodes: counts.min_nodes,
            num_tasks: counts.tasks,
            sockets_per_node: counts.sockets,
            ..*request
        };
        let fields = [
            (Field::Job, self.job),
            (Field::Node, self.node),
            (Field::Socket, self.socket),
            (Field::Task, self.task),
        ];
        fields.into_iter().map(|(field, count)| count.saturating_mul(request.times(field))).max().unwrap_or(0)
    }

    /// Sets open numbers to what several counts of one GRES imply.
    fn fit(&self, counts: &mut Counts) {
        let mut job = self.job;
        let parts = |whole: u64, part: u64| {
            whole.checked_div(part).filter(|parts| parts * part == whole && *parts > 0)
        };
        if let Some(nodes) = parts(job, self.node).and_then(|nodes| u32::try_from(nodes).ok()) {
            (counts.min_nodes, counts.max_nodes) = (Some(nodes), Some(nodes));
        }
        if let Some(tasks) = parts(job, self.task) {
            counts.tasks = counts.tasks.or_else(|| u32::try_from(tasks).ok());
        }
        if let Some(tasks) = parts(self.node, self.task) {
            counts.tasks_per_node = counts.tasks_per_node.or_else(|| u16::try_from(tasks).ok());
        }
        if job == 0 && self.task > 0 {
            job = self.task.saturating_mul(counts.tasks.map_or(0, u64::from));
        }
        bound(counts, Some(job).filter(|job| *job > 0));
    }
}

/// Allows no more nodes than there are GRES for the whole job.
fn bound(counts: &mut Counts, job: Option<u64>) {
    let most = job.and_then(|job| u32::try_from(job).ok());
    if let (Some(most), Some(nodes)) = (most, counts.max_nodes) {
        counts.max_nodes = Some(nodes.min(most));
    }
}

/// Parses `2`, `1-4`, `1k`, and lists of sizes such as `2,4-8:2`: the minimum and the maximum.
pub fn nodes(text: &[u8]) -> Option<(u32, u32)> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let list = text.contains([',', ':']);
    let mut ranges = text.split(',').map(|part| {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last, step) = (number(first)?, number(last)?, number(step)?);
        // The last size that the steps reach.
        let over = if list { last.checked_sub(first)?.checked_rem(step)? } else { 0 };
        Some((first, last - over))
    });
    let first = ranges.next()??;
    let all = ranges.try_fold(first, |(fewest, most), range| {
        let (first, last) = range?;
        Some((fewest.min(first), most.max(last)))
    })?;
    (all.1 == 0 || all.1 >= all.0).then_some(all)
}

fn number(text: &str) -> Option<u32> {
    let (digits, factor) = match text.trim().strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1024),
        None => match text.trim().strip_suffix(['m', 'M']) {
            Some(digits) => (digits, 1024 * 1024),
            None => (text.trim(), 1),
        },
    };
    digits.parse::<u32>().ok()?.checked_mul(factor)
}

/// How many names a list of nodes such as `n[1-3],n07` has; `None` for a file, or if it can't be read.
pub fn named(text: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(text).ok().filter(|text| !text.contains(['/', '{']))?;
    let mut names = hostlist::names::each(text);
    names.sort_unstable();
    names.dedup();
    u32::try_from(names.len()).ok().filter(|count| *count > 0)
}

/// Parses `--mem-per-gpu` into MiB: `512`, `10G`.
pub fn mebibytes(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    let unit = text.get(digits.len()..)?.to_ascii_uppercase();
    match unit.strip_suffix('B').filter(|unit| !unit.is_empty()).unwrap_or(&unit) {
        "" | "M" => Some(number),
        "K" => Some(number.div_ceil(1024)),
        "G" => number.checked_mul(1024),
        "T" => number.checked_mul(1024 * 1024),
        _ => None,
    }
}

/// Parses `2:8:1`: sockets, cores and threads. Anything that isn't a number stays open.
pub fn shape(text: &[u8]) -> [Option<u32>; 3] {
    let mut parts = text.split(|byte| *byte == b':');
    let mut next = || std::str::from_utf8(parts.next()?).ok()?.parse().ok();
    [next(), next(), next()]
}
