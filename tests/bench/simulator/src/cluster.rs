//! Several nodes: slurmctld picks the node by the sum of its free units, and gpushare then the GPU.
//!
//! All nodes have one `Weight`, four GPUs and enough CPUs for any jobs that fit. Slurm takes the first node whose free
//! units suffice in sum, or with `LLN` that with the fewest CPUs in use (24.11: topology/common/eval_nodes.c:1130).
//! Jobs behind one that waits may go first. A job is as busy as its share is large, so an overcommitted GPU slows its
//! jobs down.
//!
//! With `returns` above 0, a job that fits no GPU of its node goes back instead, with that node excluded, if another
//! node that isn't excluded has its units free in sum. It may start again after [`PAUSE`], behind all that came before.
//! It may do so `returns` times; then it stays where it is.

use std::cmp::Reverse;

use gpushare_node::choose::{Candidate, PlacementRules, choose};
use gpushare_node::config::{Overcommit, Packing, UserMix};

use crate::node::Broken;
use crate::trace::Job;

/// GPUs of a node.
pub const GPUS: usize = 4;
/// Seconds until a requeued job may start: Slurm waits for its old credential to expire (`cred_expire`, 120 by default;
/// since 25.11 `requeue_delay`) and one second more (`batch_requeue_fini` in slurmctld/job_mgr.c).
pub const PAUSE: f64 = 121.0;
/// What is left of a job's work when it has ended: time is a floating-point number.
const NOTHING: f64 = 1e-6;

/// Which node a job gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The first on which its units are free in sum.
    Index,
    /// `LLN=YES`: of these, that with the fewest CPUs in use.
    FewestCpus,
    /// What Slurm can't do by itself: of these, that with the fewest units in use.
    FewestUnits,
    /// Neither: of these, that with the most units free on one GPU, as slurmctld would know it from a `Weight` that
    /// prologs and epilogs update. They run after a pass of the scheduler, so the starts of one pass don't count.
    MostRoom,
}

/// A site.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// Its nodes.
    pub nodes: usize,
    /// The units that fill a GPU.
    pub units: u32,
    /// Which node a job gets.
    pub order: Order,
    /// `Packing`
    pub packing: Packing,
    /// `Placement=follow`: slurmctld knows the GPUs, so a job waits until one has room.
    pub follow: bool,
    /// How often a job may go back.
    pub returns: usize,
}

/// What became of the jobs of one trace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Starts {
    jobs: f64,
    /// Starts on a GPU without room.
    overcommitted: f64,
    /// Those while another node's GPU had room.
    avoidable: f64,
    returned: f64,
    stayed: f64,
    work: f64,
}

impl Starts {
    /// Percent of the starts that overcommit a GPU while another has room.
    pub fn avoidable(&self) -> f64 {
        100.0 * self.avoidable / self.jobs
    }

    /// Percent of the starts that overcommit a GPU.
    pub fn overcommitted(&self) -> f64 {
        100.0 * self.overcommitted / self.jobs
    }

    /// How often 100 jobs went back.
    pub fn returned(&self) -> f64 {
        100.0 * self.returned / self.jobs
    }

    /// From arrival to end, all jobs together, as a multiple of their work.
    pub fn total(&self) -> f64 {
        self.stayed / self.work
    }
}

#[derive(Clone, Debug)]
struct Waiting {
    number: usize,
    /// When it may start.
    from: f64,
    excluded: Vec<usize>,
}

struct Running {
    number: usize,
    units: u32,
    cpus: u32,
    left: f64,
}

#[derive(Default)]
struct Gpu {
    running: Vec<Running>,
}

impl Gpu {
    fn assigned(&self) -> u64 {
        self.running.iter().map(|running| u64::from(running.units)).sum()
    }

    /// How much longer everything takes here.
    fn slowdown(&self, site: &Site) -> f64 {
        (self.assigned() as f64 / f64::from(site.units)).max(1.0)
    }
}

type Node = [Gpu; GPUS];

fn units_in_use(node: &Node) -> u64 {
    node.iter().map(Gpu::assigned).sum()
}

/// Where a job would go.
struct Place {
    node: usize,
    gpu: usize,
    overcommitted: bool,
}

struct Cluster<'a> {
    site: Site,
    jobs: &'a [Job],
    nodes: Vec<Node>,
    waiting: Vec<Waiting>,
    /// The most units free on a GPU of each node, before this pass of the scheduler.
    room: Vec<u64>,
    now: f64,
    starts: Starts,
    ended: Vec<u32>,
}

/// Runs jobs, which are in order of arrival, to their end.
///
/// # Errors
/// It broke a rule.
pub fn simulate(jobs: &[Job], site: Site) -> Result<Starts, Broken> {
    let nodes = (0..site.nodes).map(|_| Node::default()).collect();
    let of_all = |(number, job): (usize, &Job)| Waiting { number, from: job.arrival, excluded: Vec::new() };
    let waiting = jobs.iter().enumerate().map(of_all).collect();
    let starts = Starts { jobs: jobs.len() as f64, ..Starts::default() };
    let mut cluster = Cluster {
        site,
        jobs,
        nodes,
        waiting,
        room: Vec::new(),
        now: 0.0,
        starts,
        ended: vec![0; jobs.len()],
    };
    cluster.start_what_may()?;
    while let Some(next) = cluster.next() {
        cluster.advance(next);
        cluster.start_what_may()?;
    }
    match cluster.ended.iter().filter(|times| **times != 1).count() {
        _ if !cluster.waiting.is_empty() => Err(Broken::Stuck),
        0 => Ok(cluster.starts),
        lost => Err(Broken::Lost(lost)),
    }
}

impl Cluster<'_> {
    /// When the next job arrives, may start again, or ends. `waiting` is in that order.
    fn next(&self) -> Option<f64> {
        let at = self.waiting.partition_point(|waiting| waiting.from <= self.now);
        let arrival = self.waiting.get(at).map(|waiting| waiting.from);
        let end = |gpu: &Gpu| {
            let least = gpu.running.iter().map(|running| running.left).reduce(f64::min)?;
            Some(self.now + least * gpu.slowdown(&self.site))
        };
        arrival.into_iter().chain(self.nodes.iter().flatten().filter_map(end)).reduce(f64::min)
    }

    /// Lets time pass, and jobs end.
    fn advance(&mut self, to: f64) {
        let passed = to - self.now;
        self.now = to;
        for gpu in self.nodes.iter_mut().flatten() {
            let slowdown = gpu.slowdown(&self.site);
            gpu.running.iter_mut().for_each(|running| running.left -= passed / slowdown);
            for done in gpu.running.extract_if(.., |running| running.left <= NOTHING) {
                let Some(job) = self.jobs.get(done.number) else { continue };
                self.starts.stayed += to - job.arrival;
                self.starts.work += job.work;
                self.ended.get_mut(done.number).into_iter().for_each(|times| *times += 1);
            }
        }
    }

    /// A pass of the scheduler over the jobs that wait, the oldest first.
    fn start_what_may(&mut self) -> Result<(), Broken> {
        let units = u64::from(self.site.units);
        let free = |gpu: &Gpu| units.saturating_sub(gpu.assigned());
        let most = |node: &Node| node.iter().map(free).max().unwrap_or(0);
        self.room = self.nodes.iter().map(most).collect();
        let may = self.waiting.partition_point(|waiting| waiting.from <= self.now);
        let later = self.waiting.split_off(may);
        let mut back = Vec::new();
        for waiting in std::mem::take(&mut self.waiting) {
            let Some(job) = self.jobs.get(waiting.number).copied() else { continue };
            match self.place(&job, &waiting.excluded) {
                None => self.waiting.push(waiting),
                Some(place) if place.overcommitted && self.returns(&job, &waiting, place.node) => {
                    self.starts.returned += 1.0;
                    let excluded = [waiting.excluded, vec![place.node]].concat();
                    back.push(Waiting { from: self.now + PAUSE, excluded, ..waiting });
                }
                Some(place) => self.start(waiting.number, &job, &place)?,
            }
        }
        self.waiting.extend(later);
        for waiting in back {
            let at = self.waiting.partition_point(|other| other.from <= waiting.from);
            self.waiting.insert(at, waiting);
        }
        Ok(())
    }

    /// Nodes on which slurmctld would start the job.
    fn fitting(&self, job: &Job, excluded: &[usize]) -> impl Iterator<Item = (usize, &Node)> {
        let (units, asked, follow) = (u64::from(self.site.units), u64::from(job.units), self.site.follow);
        let has_room = move |node: &Node| match follow {
            false => units_in_use(node) + asked <= units * GPUS as u64,
            true => node.iter().any(|gpu| gpu.assigned() + asked <= units),
        };
        let nodes = self.nodes.iter().enumerate();
        nodes.filter(move |(at, node)| !excluded.contains(at) && has_room(node))
    }

    fn place(&self, job: &Job, excluded: &[usize]) -> Option<Place> {
        let mut fitting = self.fitting(job, excluded);
        let cpus = |node: &Node| -> u64 {
            node.iter().flat_map(|gpu| &gpu.running).map(|running| u64::from(running.cpus)).sum()
        };
        let (at, node) = match self.site.order {
            Order::Index => fitting.next(),
            Order::FewestCpus => fitting.min_by_key(|(_, node)| cpus(node)),
            Order::FewestUnits => fitting.min_by_key(|(_, node)| units_in_use(node)),
            Order::MostRoom => fitting.min_by_key(|(at, _)| Reverse(self.room.get(*at))),
        }?;
        let candidates: Vec<Candidate> = (0..).zip(node).map(|(at, gpu)| self.candidate(at, gpu)).collect();
        let overcommit = if self.site.follow { Overcommit::Refuse } else { Overcommit::Allow };
        let rules = PlacementRules { packing: self.site.packing, user_mix: UserMix::Allow, overcommit };
        let choice = choose(&candidates, job.units, rules).ok()?;
        let gpu = usize::try_from(choice.index).ok()?;
        Some(Place { node: at, gpu, overcommitted: choice.overcommitted })
    }

    fn candidate(&self, index: u32, gpu: &Gpu) -> Candidate {
        Candidate {
            index,
            capacity: self.site.units,
            assigned: gpu.assigned(),
            users: 0,
            foreign: false,
            held: false,
            healthy: true,
            memory: None,
            load: None,
        }
    }

    fn returns(&self, job: &Job, waiting: &Waiting, node: usize) -> bool {
        let excluded = [waiting.excluded.as_slice(), &[node]].concat();
        waiting.excluded.len() < self.site.returns && self.fitting(job, &excluded).next().is_some()
    }

    fn start(&mut self, number: usize, job: &Job, place: &Place) -> Result<(), Broken> {
        let fits = |gpu: &Gpu| gpu.assigned() + u64::from(job.units) <= u64::from(self.site.units);
        let elsewhere = self.nodes.iter().flatten().any(fits);
        let Some(node) = self.nodes.get_mut(place.node) else { return Err(Broken::Lost(number)) };
        if place.overcommitted && node.iter().any(fits) {
            return Err(Broken::OthersHadRoom);
        }
        if node.get(place.gpu).is_none_or(|gpu| fits(gpu) == place.overcommitted) {
            return Err(Broken::OverCapacity);
        }
        let running = Running { number, units: job.units, cpus: job.cpus, left: job.work };
        if let Some(gpu) = node.get_mut(place.gpu) {
            gpu.running.push(running);
        }
        if units_in_use(node) > u64::from(self.site.units) * GPUS as u64 {
            return Err(Broken::MoreThanTheNode);
        }
        self.starts.overcommitted += f64::from(u8::from(place.overcommitted));
        self.starts.avoidable += f64::from(u8::from(place.overcommitted && elsewhere));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openb;

    fn site(nodes: usize, order: Order, returns: usize) -> Site {
        Site { nodes, units: 80, order, packing: Packing::Spread, follow: false, returns }
    }

    /// Jobs that come a second apart and take an hour.
    fn jobs(asked: &[(u32, u32)]) -> Vec<Job> {
        let job = |(number, (units, cpus)): (u32, &(u32, u32))| Job {
            arrival: f64::from(number),
            units: *units,
            cpus: *cpus,
            user: 1,
            work: 3600.0,
            utilization: 1.0,
            memory: 0,
        };
        (0..).zip(asked).map(job).collect()
    }

    #[test]
    fn small_traces_give_what_is_worked_out_by_hand() {
        let seven = [65, 65, 65, 65, 38, 38, 38].map(|units| (units, 1));
        // The first node gets a job with many CPUs and few units, so LLN fills the other one.
        let cpus = [(5, 40), (65, 1), (65, 1), (65, 1), (65, 1), (38, 1)];
        for (asked, nodes, order, returns, avoidable, overcommitted, returned) in [
            (&seven[..], 2, Order::Index, 0, 1, 1, 0),
            (&seven, 2, Order::Index, 1, 0, 0, 3),
            (&seven, 2, Order::FewestCpus, 0, 0, 0, 0),
            (&cpus, 2, Order::FewestCpus, 0, 1, 1, 0),
            (&cpus, 2, Order::FewestCpus, 1, 0, 0, 1),
            (&cpus, 2, Order::FewestUnits, 0, 0, 0, 0),
            (&seven, 2, Order::MostRoom, 0, 0, 0, 0),
            // Nowhere to go back to.
            (&seven[..5], 1, Order::Index, 7, 0, 1, 0),
        ] {
            let found = simulate(&jobs(asked), site(nodes, order, returns)).unwrap();
            let counts = (found.avoidable, found.overcommitted, found.returned);
            let expected = (f64::from(avoidable), f64::from(overcommitted), f64::from(returned));
            assert_eq!(counts, expected, "{asked:?} {order:?} {returns}");
        }
    }

    #[test]
    fn what_starts_in_one_pass_doesnt_see_the_others_there() {
        let mut jobs = jobs(&[65, 65, 65, 65, 38].map(|units| (units, 1)));
        jobs.iter_mut().for_each(|job| job.arrival = 0.0);
        let found = simulate(&jobs, site(2, Order::MostRoom, 0)).unwrap();
        assert_eq!(found.avoidable, 1.0);
    }

    #[test]
    fn under_follow_a_job_waits_until_a_gpu_has_room() {
        let jobs = jobs(&[65, 65, 65, 65, 38].map(|units| (units, 1)));
        for (nodes, waited) in [(1, 3596.0), (2, 0.0)] {
            let found = simulate(&jobs, Site { follow: true, ..site(nodes, Order::Index, 0) }).unwrap();
            assert_eq!(found.overcommitted, 0.0);
            assert!((found.stayed - found.work - waited).abs() < 1e-6, "{nodes}: {found:?}");
        }
    }

    #[test]
    fn a_job_that_goes_back_may_start_again_two_minutes_later() {
        let jobs = jobs(&[65, 65, 65, 65, 38].map(|units| (units, 1)));
        let found = simulate(&jobs, site(2, Order::Index, 1)).unwrap();
        assert!((found.total() - (1.0 + PAUSE / 18_000.0)).abs() < 1e-6, "{}", found.total());
    }

    #[test]
    fn a_job_that_went_everywhere_stays_where_it_is() {
        // Three nodes with rests that suffice in sum only: it goes back from two, and the third keeps it.
        let twelve = [(65, 1); 12];
        let jobs = jobs(&[&twelve[..], &[(38, 1)]].concat());
        for (returns, returned) in [(0, 0.0), (1, 1.0), (2, 2.0), (7, 2.0)] {
            let found = simulate(&jobs, site(3, Order::Index, returns)).unwrap();
            assert_eq!((found.overcommitted, found.avoidable, found.returned), (1.0, 0.0, returned));
        }
    }

    #[test]
    fn a_seed_gives_the_same_figures() {
        let run = || {
            let site = Site { units: openb::UNITS, ..site(2, Order::FewestCpus, 3) };
            simulate(&openb::draw(300, 5, 2 * GPUS, 0.9), site).unwrap()
        };
        assert_eq!(run(), run());
    }
}
