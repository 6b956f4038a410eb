//! 10,000 random histories of a node: jobs that use their GPUs or not, alone, through MPS or by foreign processes, NVML
//! and slurmctld that don't answer or refuse, lines that nobody gets, runs that are late or missing, reboots, requeues,
//! jobs that run elsewhere, suspensions, times that go back, torn files, a full disk and edited rules. A second,
//! simpler account of what was seen says which job may end.

use std::cell::RefCell;
use std::collections::BTreeMap;

use gpushare_node::nvml::answer::Measured;
use gpushare_node::proc::running::Place;

use super::super::look::{Sample, of};
use super::looks::{entry, process, state};
use super::*;

const HISTORIES: u64 = 10_000;
const MINUTES: u64 = 70;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()].clone()
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}

/// A job as it really is.
#[derive(Clone)]
struct Real {
    id: u32,
    restart: u32,
    since: u64,
    gpus: Vec<u32>,
    told: Running,
    is_busy: bool,
    pid: u32,
    suspended: bool,
    /// Its epilog never ran, and it runs on another node, or for another time.
    elsewhere: bool,
    is_there: bool,
    /// What was seen of it since its start, in its real order: when, and its process; `None` where it was busy, didn't
    /// run, or the node booted.
    seen: Vec<(u64, Option<u32>)>,
    /// The lines that it got under the current rules.
    warned: Vec<u64>,
    /// Whether the last line told of its end.
    end_told: bool,
}

/// The rules as this test understands them.
#[derive(Clone, Copy)]
struct Wanted {
    warn: [u64; 2],
    limit: u64,
    action: IdleAction,
    grace: u64,
}

impl Wanted {
    fn random(random: &mut Random) -> Wanted {
        let first = 60 * (1 + random.below(15));
        let second = first + 60 * (1 + random.below(10));
        let limit = second + 60 * (1 + random.below(10));
        let action = [IdleAction::Warn, IdleAction::Requeue, IdleAction::Cancel, IdleAction::Cancel];
        Wanted { warn: [first, second], limit, action: random.of(&action), grace: 60 * random.below(10) }
    }

    fn text(&self) -> String {
        let time = gpushare::text::time::text;
        let [first, second] = self.warn.map(time);
        let (limit, grace) = (time(self.limit), time(self.grace));
        let action = gpushare::word::Word::word(self.action);
        format!(
            "IdleWarn={first},{second}\nIdleLimit={limit}\nIdleAction={action}\nIdleGrace={grace}\n\
             IdleExemptUsers=exempt\nQOS=free IdleLimit=off\n"
        )
    }

    fn grace_of(&self, told: &Running) -> u64 {
        if told.is_batch { 0 } else { self.grace }
    }
}

fn new_job(random: &mut Random, id: u32, now: u64) -> Real {
    let name = match random.below(8) {
        0 => format!("{id}+1"),
        1 => format!("99_{id}"),
        _ => id.to_string(),
    };
    let job = Job {
        id,
        name,
        user: random.of(&["alice", "alice", "bob", "exempt"]).to_owned(),
        qos: random.of(&["normal", "normal", "normal", "free"]).to_owned(),
        nodes: if random.one_in(6) { 2 } else { 1 },
        start: now + random.below(100),
        ..Job::default()
    };
    let gpus = random.of(&[vec![0], vec![1], vec![0, 1]]);
    let is_batch = !random.one_in(4);
    Real {
        id,
        restart: 0,
        // The clock of the day steps as it likes.
        since: 500_000 + random.below(now),
        gpus,
        told: Running { job, restarts: 0, nodes: "n[1,3]".to_owned(), is_batch },
        is_busy: random.one_in(4),
        pid: 1000 + id,
        suspended: false,
        elsewhere: false,
        is_there: true,
        seen: Vec::new(),
        warned: Vec::new(),
        end_told: false,
    }
}

/// What a look meets besides the jobs.
#[derive(Clone, Copy)]
struct Around {
    /// Jobs work through one MPS server.
    mps: bool,
    /// The GPUs of which NVML says nothing.
    blind: [bool; 2],
    /// The GPU on which a user's process from outside of the jobs works.
    foreign: Option<u32>,
}

/// What NVML says: of a GPU with MPS only that its server works.
fn sample(jobs: &[Real], Around { mps, blind, foreign }: Around) -> Sample {
    let there = || jobs.iter().filter(|job| job.is_there);
    let gpus = [0, 1].map(|minor| {
        let here = || there().filter(|job| job.gpus.contains(&minor));
        let busy = here().any(|job| job.is_busy);
        let of_job =
            |job: &Real| process(job.pid, Place::Job(job.id), if job.is_busy && !mps { 40 } else { 0 });
        let mut running: Vec<_> = here().map(of_job).collect();
        if mps {
            running.push(process(1, Place::Mps, if busy { 40 } else { 0 }));
        }
        if foreign == Some(minor) {
            running.push(process(2, Place::Nowhere, 40));
        }
        if blind[minor as usize] {
            return state(minor, None, Vec::new());
        }
        state(minor, Some(if busy { 40 } else { 0 }), running)
    });
    let entries = there().map(|job| entry(job.id, job.restart, job.since, &job.gpus)).collect();
    Sample { measured: Measured { limits: false, gpus: gpus.to_vec() }, entries, mps: None }
}

/// Whether a look must take a job for busy: with MPS, anybody's work may be its own, and so may a foreign process's.
fn may_work(jobs: &[Real], job: &Real, around: Around) -> bool {
    let is_seen = |gpu: &u32| !around.blind[*gpu as usize];
    let works_on = |other: &Real, gpu: &u32| other.is_there && other.is_busy && other.gpus.contains(gpu);
    job.gpus.iter().filter(|gpu| is_seen(gpu)).any(|gpu| {
        job.is_busy
            || around.foreign == Some(*gpu)
            || around.mps && jobs.iter().any(|other| works_on(other, gpu))
    })
}

/// Since when every look has seen the job idle, each soon enough after the one before.
fn idle_since(job: &Real) -> u64 {
    let mut all = job.seen.iter().rev();
    let Some((mut since, Some(pid))) = all.next().copied() else { panic!("a busy job ends: {}", job.id) };
    for (at, seen) in all {
        if *seen != Some(pid) || since - at > FAR {
            break;
        }
        since = *at;
    }
    since
}

#[derive(Default)]
struct Counts {
    ended: u64,
    warned: u64,
    over_but_spared: u64,
    refused: u64,
}

/// A job ends only if everything that was promised to its user was kept.
fn may_end(job: &Real, wanted: &Wanted, action: IdleAction, now: u64, why: &str) {
    let told = &job.told;
    assert_ne!(action, IdleAction::Warn, "{why}");
    assert_eq!(wanted.action, action, "{why}");
    assert!(told.job.user != "exempt" && told.job.qos != "free", "{why}: exempt");
    assert!(told.job.nodes == 1 && !told.job.name.contains('+'), "{why}: has GPUs elsewhere");
    assert!(job.is_there && !job.suspended && !job.elsewhere, "{why}: doesn't run here");
    let (since, grace) = (idle_since(job), wanted.grace_of(told));
    assert!(now - since >= wanted.limit + grace, "{why}: {} s idle of {}", now - since, wanted.limit + grace);
    let warned: Vec<u64> = job.warned.iter().copied().filter(|at| *at >= since).collect();
    // After a torn file or a time that goes back there are more.
    let [.., first, second] = warned.as_slice() else {
        panic!("{why}: told at {warned:?}, idle since {since}")
    };
    assert!(first - since >= wanted.warn[0] + grace && second > first && now > *second, "{why}");
    assert!(second - first >= wanted.warn[1] - wanted.warn[0], "{why}");
    assert!(now - second >= wanted.limit - wanted.warn[1], "{why}: told {second}, ended {now}");
}

fn history(seed: u64, counts: &mut Counts) {
    let mut random = Random(seed);
    let mut wanted = Wanted::random(&mut random);
    let mut rules = Rules::parse(&wanted.text()).unwrap();
    let (mut now, mut boot, mut booted, mut back) = (1_000_000_u64, 0_u64, 0_u64, 0_u64);
    let mut jobs: Vec<Real> = (1..=random.of(&[1, 2, 3])).map(|id| new_job(&mut random, id, now)).collect();
    let mut next_id = 10;
    let mut known: Vec<History> = Vec::new();
    // Some histories are calm, so that jobs reach their limits.
    let trouble = random.of(&[400, 60, 15]);
    let (mut nvml, mut slurm) = (0_u64, 0_u64);
    let mps = random.one_in(3);
    let last = now + MINUTES * 60;
    while now < last {
        now += 55 + random.below(12) + if random.one_in(trouble) { random.below(600) } else { 0 };
        for job in &mut jobs {
            job.is_busy = if job.is_busy { !random.one_in(8) } else { random.one_in(trouble * 2) };
            job.suspended = if job.suspended { !random.one_in(3) } else { random.one_in(trouble * 3) };
            if !job.elsewhere && random.one_in(trouble * 6) {
                job.elsewhere = true;
                if random.one_in(2) {
                    job.told.restarts += 1;
                } else {
                    job.told.nodes = "n[2,11]".to_owned();
                }
            }
            if random.one_in(trouble * 3) {
                job.pid += 100;
            }
            if random.one_in(trouble * 4) || !job.is_there {
                // It was requeued, or another job comes.
                let restart = job.restart + 1;
                *job = if job.is_there || random.one_in(2) {
                    let mut again = new_job(&mut random, job.id, now);
                    (again.restart, again.told.restarts) = (restart, restart);
                    again
                } else {
                    next_id += 1;
                    new_job(&mut random, next_id, now)
                };
            }
        }
        if random.one_in(trouble * 4) {
            (boot, booted, back) = (boot + 1, now, 0);
            jobs.iter_mut().for_each(|job| job.seen.push((now, None)));
            if random.one_in(2) {
                known.clear();
            }
        }
        if random.one_in(trouble * 6) {
            wanted = Wanted::random(&mut random);
            rules = Rules::parse(&wanted.text()).unwrap();
            jobs.iter_mut().for_each(|job| job.warned.clear());
        }
        if random.one_in(trouble * 4) && known.pop().is_some() && random.one_in(2) {
            known.clear();
        }
        nvml = if random.one_in(trouble) { 1 + random.below(6) } else { nvml.saturating_sub(1) };
        slurm = if random.one_in(trouble) { 1 + random.below(6) } else { slurm.saturating_sub(1) };
        let blind = if nvml > 0 { [true; 2] } else { [0; 2].map(|_| random.one_in(trouble)) };
        let around = Around { mps, blind, foreign: random.of(&[0, 1]).into() };
        let around = Around { foreign: around.foreign.filter(|_| random.one_in(trouble)), ..around };
        let looks = of(&[sample(&jobs, around)]);
        // As a clock that is set back by an hour or more.
        back += if random.one_in(trouble * 5) { 3600 + random.below(300) } else { 0 };
        let time = Now { boot: boot.to_string(), seconds: now - booted + 9_000_000 - back };
        let works = |job: &Real| may_work(&jobs, job, around);
        let is_shown = |job: &Real| job.gpus.iter().all(|gpu| !blind[*gpu as usize]);
        let reaches = |job: &Real| slurm == 0 && is_shown(job) && !works(job);
        let seen: BTreeMap<u32, Option<u32>> = jobs
            .iter()
            .filter(|job| job.is_there && (reaches(job) || works(job)))
            .map(|job| (job.id, Some(job.pid).filter(|_| reaches(job) && !job.suspended && !job.elsewhere)))
            .collect();
        for job in &mut jobs {
            job.seen.extend(seen.get(&job.id).map(|seen| (now, *seen)));
        }
        let deaf = random.one_in(trouble / 3 + 1);
        let (refused, is_full) = (random.one_in(trouble / 8 + 2), random.one_in(trouble));
        let disk: RefCell<BTreeMap<u32, History>> =
            RefCell::new(known.drain(..).map(|one| (one.job.0, one)).collect());
        let there = RefCell::new((&mut jobs, &mut *counts));
        let mut job = |id: u32| {
            if slurm > 0 {
                return Err(ProgramError::Unasked("squeue"));
            }
            let found = there
                .borrow()
                .0
                .iter()
                .find(|job| job.id == id && !job.suspended)
                .map(|job| job.told.clone());
            Ok(found.map_or(Said::RunsNot, |told| Said::Runs(Box::new(told))))
        };
        let mut ask = |program: &str, arguments: &[&str]| {
            if arguments.first() == Some(&"show") {
                return Ok(String::new());
            }
            let (jobs, counts) = &mut *there.borrow_mut();
            let handle =
                arguments.iter().find(|word| word.bytes().next().is_some_and(|byte| byte.is_ascii_digit()));
            let job =
                jobs.iter_mut().find(|job| handle.is_some_and(|handle| *handle == job.told.job.handle()));
            let job = job.unwrap_or_else(|| panic!("{arguments:?} of seed {seed}"));
            if arguments.first() == Some(&"notify") {
                let is_end = arguments.last().is_some_and(|line| line.contains(" and is "));
                let kept = disk.borrow().get(&job.id).map(|kept| kept.looked.clone());
                assert_eq!(kept.as_ref(), Some(&time), "seed {seed}: told, and nothing is kept");
                if deaf {
                    return Err("nobody listens".to_owned());
                }
                assert!(!(is_end && job.end_told), "seed {seed}: told twice of its end");
                job.end_told = is_end;
                if !is_end {
                    counts.warned += 1;
                    job.warned.push(now);
                }
                return Ok(String::new());
            }
            let action = if program == "scancel" { IdleAction::Cancel } else { IdleAction::Requeue };
            may_end(job, &wanted, action, now, &format!("seed {seed}, job {}", job.id));
            if refused {
                counts.refused += 1;
                return Err("it refuses".to_owned());
            }
            counts.ended += 1;
            job.is_there = false;
            Ok(String::new())
        };
        let mut write = |history: &History| {
            if is_full {
                return Err("no space left".to_owned());
            }
            disk.borrow_mut().insert(history.job.0, history.clone());
            Ok(())
        };
        let read: Vec<History> = disk.borrow().values().cloned().collect();
        let mut run = Run {
            node: "n1".to_owned(),
            is_dry: false,
            job: &mut job,
            ask: &mut ask,
            write: &mut write,
            failures: Vec::new(),
            all: Vec::new(),
        };
        let kept = run.each(&read, &looks, &rules, &time);
        let all = std::mem::take(&mut run.all);
        counts.over_but_spared += all.iter().filter(|one| one.step == Step::Over).count() as u64;
        let is_kept = |one: &History| kept.iter().any(|kept| kept.job.0 == one.job.0);
        known = disk.take().into_values().filter(is_kept).collect();
    }
}

#[test]
fn in_ten_thousand_histories_no_job_ends_too_early() {
    let mut counts = Counts::default();
    for seed in 0..HISTORIES {
        history(seed, &mut counts);
    }
    let Counts { ended, warned, over_but_spared, refused } = counts;
    println!("{ended} ended, {refused} refused, {warned} warnings, {over_but_spared} over and spared");
    let is_enough = ended > 2_000 && refused > 100 && warned > 10_000 && over_but_spared > 1_000;
    assert!(is_enough, "the histories show nothing");
}
