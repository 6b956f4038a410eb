//! Compares the report with made-up months whose truth the generator knows: jobs with a known need, whose shares fill
//! GPUs in a known way.

use std::fmt::Write;

use proptest::prelude::*;

use super::*;
use gpushare_history::HistoryError;
use gpushare_history::hours::of as hours;
use gpushare_slurm_text::sacct;
use gpushare_slurm_text::version::Release;

const DAY: u32 = 86_400;
const PERIOD: Period = Period { start: 1_700_000_000, end: 1_700_000_000 + 30 * DAY };
const MIB: u64 = 1 << 20;
/// By the rule for names, an a40 has 46080 MiB, so 12, 25 and 50 of 100 units have 5529, 11520 and 23040.
const SIZES: [(u32, u64, u32); 3] = [(12, 5529, 8), (25, 11_520, 4), (50, 23_040, 2)];

/// A job as accounting has it.
#[derive(Clone, Debug)]
struct Job {
    user: &'static str,
    given: String,
    nodes: String,
    start: u32,
    end: Option<u32>,
    state: &'static str,
    /// Start, end, and what was used.
    steps: Vec<(u32, Option<u32>, String)>,
}

impl Job {
    /// A job with one a40 on this node that used so many MiB.
    fn new(node: u32, start: u32, end: u32, mib: u64) -> Job {
        Job {
            user: "alice",
            given: "billing=1,cpu=1,gres/gpu:a40=1,gres/gpu=1,node=1".into(),
            nodes: format!("n{node}"),
            start,
            end: Some(end),
            state: "COMPLETED",
            steps: vec![(start, Some(end), used(mib, 20)), (start, Some(end), String::new())],
        }
    }
}

fn used(mib: u64, percent: u32) -> String {
    format!("cpu=5,gres/gpumem={},gres/gpuutil={percent},mem=7", mib * MIB)
}

/// What slurmdbd would answer: jobs and steps that ran on that day, or ended as it began.
fn answer(jobs: &[Job], day: Period) -> String {
    let time = |time: Option<u32>| time.map_or("Unknown".to_owned(), |time| time.to_string());
    let mut out = String::new();
    for (job, id) in jobs.iter().zip(1..) {
        if job.start >= day.end || job.end.is_some_and(|end| end < day.start) {
            continue;
        }
        let Job { user, given, nodes, state, .. } = job;
        let (start, end) = (job.start, time(job.end));
        let _ = writeln!(out, "{id}|{user}|lab|q|{given}|{nodes}||{start}|{end}|{state}|");
        for ((start, end, used), step) in job.steps.iter().zip(["batch", "extern", "0", "1", "2"]) {
            if *start <= day.end && end.is_none_or(|end| end >= day.start) {
                let end = time(*end);
                let _ = writeln!(out, "{id}.{step}||lab|||{nodes}||{start}|{end}|{state}|{used}");
            }
        }
    }
    out.replace('|', "\x1f")
}

/// The report from what slurmdbd would answer on each day.
fn summed_of(
    nodes: &str,
    shares: &Shares,
    mut answer: impl FnMut(Period) -> String,
) -> Result<Report, FitError> {
    let cluster = Cluster {
        release: Release(24, 11),
        name: "lab".to_owned(),
        partitions: String::new(),
        nodes: nodes.to_owned(),
        remarks: Vec::new(),
    };
    summed(cluster, PERIOD, Rc::new(shares.clone()), |day, show| {
        let read = sacct::read(&mut answer(day).as_bytes(), b"\x1f", Wanted::Steps, show);
        Ok(read.map_err(HistoryError::Sacct)?)
    })
}

fn report_by(jobs: &[Job], shares: &Shares) -> Result<Report, FitError> {
    let nodes: String = (0..8).map(|node| format!("NodeName=n{node} Gres=gpu:A40:8\n")).collect();
    summed_of(&nodes, shares, |day| answer(jobs, day))
}

fn report(jobs: &[Job]) -> Report {
    report_by(jobs, &Shares { margin: 10, ..Shares::default() }).unwrap()
}

/// Some jobs that need one size on one node. They begin one after another, and the last that began ends first, so that
/// packed shares fill one GPU after another, and empty them in the same order.
#[derive(Clone, Debug)]
struct Group {
    size: usize,
    /// How many of its share's MiB each job used, in thousandths of what the margin leaves.
    jobs: Vec<u32>,
    /// Between two starts, and between two ends.
    apart: u32,
    length: u32,
    /// Further jobs that need their whole GPU.
    whole: u32,
}

fn group() -> impl Strategy<Value = Group> {
    let jobs = proptest::collection::vec(600..1000_u32, 1..=6);
    (0..SIZES.len(), jobs, 1..2000_u32, 1..200_000_u32, 0..=2_u32)
        .prop_map(|(size, jobs, apart, length, whole)| Group { size, jobs, apart, length, whole })
}

/// The jobs of a month; the seconds that they held GPUs, those of them that fit, and those that shares free.
fn month(groups: &[Group]) -> (Vec<Job>, u64, u64, u64) {
    let (mut jobs, mut held, mut fitting, mut freed) = (Vec::new(), 0_u64, 0_u64, 0_u64);
    for (group, number) in groups.iter().zip(0_u32..) {
        let (_, mib, of_gpu) = SIZES[group.size];
        let (node, begin) = (number % 8, PERIOD.start + number / 8 * 5 * DAY);
        let count = u32::try_from(group.jobs.len()).unwrap();
        let end = begin + 2 * count * group.apart + group.length;
        for (at, thousandths) in (0..).zip(&group.jobs) {
            let (start, end) = (begin + at * group.apart, end - at * group.apart);
            let used = mib * 100 / 110 * u64::from(*thousandths) / 1000;
            jobs.push(Job::new(node, start, end, used));
            held += u64::from(end - start);
            fitting += u64::from(end - start);
            // The first on a GPU keeps it in use; the others are within its time.
            freed += if at % of_gpu == 0 { 0 } else { u64::from(end - start) };
        }
        for _ in 0..group.whole {
            jobs.push(Job::new(node, begin, end, 30_000));
            held += u64::from(end - begin);
        }
    }
    (jobs, held, fitting, freed)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn the_truth_of_a_made_up_month_is_found(groups in proptest::collection::vec(group(), 1..40)) {
        let (jobs, held, fitting, freed) = month(&groups);
        let report = report(&jobs);
        prop_assert_eq!(report.gpu_hours, hours(held));
        prop_assert_eq!(report.fit.gpu_hours, hours(fitting));
        prop_assert_eq!(report.freed_gpu_hours, hours(freed));
        for (size, (units, mib, _)) in SIZES.into_iter().enumerate() {
            let truth: usize = groups.iter().filter(|one| one.size == size).map(|one| one.jobs.len()).sum();
            let found = report.shares.iter().find(|one| one.units == units);
            prop_assert_eq!(found.map_or(0, |one| one.had.all.jobs), truth as u64);
            prop_assert!(found.is_none_or(|one| one.memory_mib == mib && one.units_per_gpu == 100));
        }
    }

    /// Of any jobs: a replay never needs more GPUs than the jobs held, nor fewer than their units fill.
    #[test]
    fn what_is_freed_has_bounds(
        jobs in proptest::collection::vec((0..2_u32, 0..20 * DAY, 1..8 * DAY, 1..40_000_u64), 1..120)
    ) {
        let mut kept: Vec<Job> = Vec::new();
        for (node, start, length, mib) in jobs {
            let job = Job::new(node, PERIOD.start + start, PERIOD.start + start + length, mib);
            // No more than eight at once.
            let beside = kept.iter().filter(|one| {
                one.nodes == job.nodes && one.start < job.end.unwrap() && one.end.unwrap() > job.start
            });
            if beside.count() < 8 {
                kept.push(job);
            }
        }
        let report = report(&kept);
        let (freed, fit) = (report.freed_gpu_hours, report.fit.gpu_hours);
        let shares: f64 = report.shares.iter().filter(|one| one.units > 0).map(|one| one.had.share_gpu_hours).sum();
        prop_assert!((0.0..=fit - shares + 0.01).contains(&freed), "{freed} {fit} {shares}");
        let all: u64 = report.shares.iter().map(|one| one.had.all.jobs).sum();
        prop_assert_eq!(all, kept.len() as u64);
    }
}

/// Hours after the period's start.
fn at(hour: u32) -> u32 {
    PERIOD.start + hour * 3600
}

#[test]
fn what_accounting_cannot_tell_is_not_judged() {
    let job = || Job::new(0, at(10), at(20), 1000);
    let given = |given: &str| Job { given: given.into(), ..job() };
    let steps = |steps: Vec<(u32, Option<u32>, String)>| Job { steps, ..job() };
    for (job, why) in [
        (given("gres/gpu:a40=2,gres/gpu=2"), "several GPUs or nodes"),
        (Job { nodes: "n[0-1]".into(), ..given("gres/gpu:a40=2,gres/gpu=2") }, "several GPUs or nodes"),
        (given("gres/gpu:a40=1,gres/gpu:h100=1,gres/gpu=2"), "several GPUs or nodes"),
        (Job { start: PERIOD.start - 1, ..job() }, "didn't begin and end in the period"),
        (Job { end: None, ..job() }, "didn't begin and end in the period"),
        (Job { state: "FAILED", ..job() }, "failed, out of memory, preempted, or lost a node"),
        (Job { state: "OUT_OF_MEMORY", ..job() }, "failed, out of memory, preempted, or lost a node"),
        (steps(vec![]), "no GPU memory in accounting"),
        (steps(vec![(at(10), Some(at(20)), "gres/gpumem=NONE".into())]), "no GPU memory in accounting"),
        (steps(vec![(at(10), Some(at(20)), used(0, 0))]), "0 GPU memory: idle, or shorter than a sample"),
        (given("gres/gpu:weird=1,gres/gpu=1"), "GPU type or its memory unknown, or it takes no shares"),
        (
            Job { nodes: "gone".into(), ..given("gres/gpu=1") },
            "GPU type or its memory unknown, or it takes no shares",
        ),
    ] {
        let report = report(&[job.clone(), Job::new(1, at(1), at(2), 1000)]);
        assert_eq!(
            report.not_checked.iter().map(|one| (one.why, one.all.jobs)).collect::<Vec<_>>(),
            [(why, 1)],
            "{job:?}"
        );
        assert_eq!((report.checked.jobs, report.jobs_with_gpus), (1, 2), "{job:?}");
        assert_eq!(report.freed_gpu_hours, 0.0);
    }
    let cancelled = Job { state: "CANCELLED by 2001", ..job() };
    let untyped = given("gres/gpu=1,node=1");
    assert_eq!(report(&[cancelled, untyped]).fit.jobs, 2);
}

#[test]
fn steps_of_other_days_and_steps_at_once_count() {
    // Of a job of three days: a large step on the second, which no other day's answer has.
    let long = |mib: u64| Job {
        end: Some(at(60)),
        steps: vec![
            (at(10), Some(at(60)), used(1000, 5)),
            (at(10), Some(at(60)), String::new()),
            (at(30), Some(at(31)), used(mib, 90)),
            (at(40), Some(at(41)), used(10, 1)),
        ],
        ..Job::new(0, at(10), at(60), 0)
    };
    let units = |job: Job| {
        report(&[job]).shares.iter().map(|one| (one.units, one.had.all.gpu_hours)).collect::<Vec<_>>()
    };
    assert_eq!(units(long(100)), [(12, 50.0)]);
    assert_eq!(units(long(9000)), [(25, 50.0)]);
    // 10,000 + 1,000 MiB, and a tenth more.
    assert_eq!(units(long(10_000)), [(50, 50.0)]);
    assert_eq!(units(long(30_000)), [(0, 50.0)]);
    // One run after the other of a requeued job.
    let again = Job { start: at(70), end: Some(at(80)), ..long(100) };
    let found = report(&[long(100), again]);
    assert_eq!((found.jobs, found.jobs_with_gpus), (2, 2));
}

#[test]
fn a_job_that_ends_as_a_day_begins_counts_once() {
    let ends = |hour: u32| report(&[Job::new(0, at(10), at(hour), 1000)]);
    for (hour, hours) in [(24, 14.0), (48, 38.0), (47, 37.0)] {
        let report = ends(hour);
        assert_eq!((report.jobs, report.jobs_with_gpus, report.gpu_hours), (1, 1, hours), "{hour}");
        assert_eq!(report.fit.jobs, 1, "{hour}");
    }
    // It ran when the day before was asked for.
    let mut asked = 0;
    let nodes = "NodeName=n0 Gres=gpu:A40:8\n";
    let shares = Shares { margin: 10, ..Shares::default() };
    let found = summed_of(nodes, &shares, |day| {
        asked += 1;
        let job = Job::new(0, at(10), at(24), 1000);
        answer(&[if asked == 1 { Job { end: None, ..job } } else { job }], day)
    });
    let found = found.unwrap();
    assert_eq!((found.jobs, found.jobs_with_gpus, found.gpu_hours), (1, 1, 14.0));
    // It waited for some days, and each of their answers has it.
    let found = summed_of(nodes, &shares, |day| {
        let after = Period { start: at(50), end: at(70) };
        answer(&[Job::new(0, at(50), at(60), 1000)], if day.start < after.end { after } else { day })
    });
    assert_eq!(found.map(|found| (found.jobs, found.jobs_with_gpus)).unwrap(), (1, 1));
    // It ended as the period began.
    let before =
        report(&[Job::new(0, PERIOD.start - 9, PERIOD.start, 1000), Job::new(0, at(1), at(2), 1000)]);
    assert_eq!((before.jobs, before.jobs_with_gpus), (1, 1));
}

#[test]
fn a_type_with_less_memory_for_the_same_units_is_named() {
    let said = |nodes: &str, conf: &str| {
        let config = (!conf.is_empty()).then(|| gpushare_machine::config::Config::parse(conf).unwrap());
        let shares = Shares { config, margin: 10, ..Shares::default() };
        let report = summed_of(nodes, &shares, |day| answer(&[Job::new(0, at(1), at(2), 5000)], day));
        report
            .unwrap()
            .remarks
            .iter()
            .filter_map(|one| Some(one.split_once(" less memory on ")?.1.to_owned()))
            .collect::<Vec<_>>()
    };
    let mixed =
        "NodeName=n0 Gres=gpu:a40:1\nNodeName=n1 Gres=gpu:t4:1,gpu:h100:1\nNodeName=n2 Gres=gpu:weird:1\n";
    assert_eq!(said(mixed, ""), ["t4: keep such jobs away from there"]);
    assert_eq!(said("NodeName=n[0-9] Gres=gpu:a40:1,gpu:h100:1\n", ""), [""; 0]);
    let by_memory = "Placement=own\nShareGRES=gpushare\nMemPerUnit=960\nUnitsPerGpu=a40:48,t4:16,h100:80\n";
    assert_eq!(said(mixed, by_memory), [""; 0], "a unit is as much everywhere");
}

#[test]
fn nothing_is_no_answer() {
    let shares = Shares { margin: 10, ..Shares::default() };
    let of = |jobs: &[Job]| report_by(jobs, &shares).unwrap_err().to_string();
    assert!(of(&[]).starts_with("accounting has no job that had GPUs from "));
    let cpu = Job { given: "cpu=1,node=1,gres/gpumem=1".into(), ..Job::new(0, at(1), at(2), 1) };
    assert!(of(&[cpu]).starts_with("accounting has no job that had GPUs from "));
    let old = Job { steps: vec![(at(1), Some(at(2)), "cpu=1".into())], ..Job::new(0, at(1), at(2), 1) };
    let said = of(&[old.clone(), old]);
    assert!(said.starts_with("accounting has no GPU memory of any of the 2 jobs with GPUs"), "{said}");
    assert!(said.contains("AccountingStorageTRES=gres/gpu (or gres/gpumem,gres/gpuutil)"), "{said}");
}

#[test]
fn a_wrong_line_is_said_with_its_beginning() {
    let shares = Shares::default();
    let wrong = summed_of("", &shares, |_| "sacct: slurmdbd\x1b[2J is away\n".to_owned());
    let said = wrong.unwrap_err().to_string();
    assert!(said.ends_with("'sacct: slurmdbd\\x1b[2J is away'"), "{said}");
}

#[test]
fn impossible_numbers_do_no_harm() {
    let job = || Job::new(0, at(1), at(2), 1000);
    let huge = |used: &str| vec![(at(1), Some(at(2)), used.to_owned())];
    let report = report(&[
        Job { given: "gres/gpu:a40=4294967295,gres/gpu:t4=4294967295,gres/gpu=4294967295".into(), ..job() },
        Job { steps: huge("gres/gpumem=18446744073709551615,gres/gpuutil=18446744073709551615"), ..job() },
        Job { steps: huge("gres/gpumem=x,gres/gpuutil=-1"), ..job() },
        Job { given: "gres/gpu:9999999999999999gb=1,gres/gpu=1".into(), ..job() },
        Job { nodes: "n[".into(), ..job() },
        Job { nodes: String::new(), ..job() },
        Job { end: Some(at(0)), ..job() },
    ]);
    assert_eq!((report.jobs_with_gpus, report.gpu_hours), (6, 1029.0));
    assert_eq!((report.fit.jobs, report.freed_gpu_hours), (3, 0.0), "{:?}", report.shares);
}

#[test]
fn the_files_rules_are_replayed() {
    let config = |text: &str| Shares {
        config: Some(gpushare_machine::config::Config::parse(text).unwrap()),
        margin: 0,
        memory: vec![("a40".into(), 40_000)],
    };
    // Two users' halves, at the same time.
    let jobs =
        [Job::new(0, at(0), at(10), 20_000), Job { user: "bob", ..Job::new(0, at(0), at(10), 19_000) }];
    let of = |text: &str| {
        let report = report_by(&jobs, &config(text)).unwrap();
        (
            report.freed_gpu_hours,
            report.requests.iter().map(|one| one.request.clone().unwrap()).collect::<Vec<_>>(),
        )
    };
    let base = "Placement=own\nUnitsPerGpu=8\nShareGRES=gpushare\n";
    assert_eq!(of(base), (10.0, vec!["--gres=gpushare:4".to_owned(); 2]));
    assert_eq!(of(&format!("{base}UserMix=deny")).0, 0.0);
    assert_eq!(of(&format!("{base}ShareSizes=3,5")), (0.0, vec!["--gres=gpushare:5".to_owned(); 2]));
    // A GPU of one user takes both.
    let own = jobs.clone().map(|job| Job { user: "bob", ..job });
    assert_eq!(report_by(&own, &config(&format!("{base}UserMix=deny"))).unwrap().freed_gpu_hours, 10.0);
}

#[test]
fn lines_fit_a_terminal() {
    let (jobs, ..) = month(&[
        Group { size: 0, jobs: vec![900; 6], apart: 10, length: 90_000, whole: 1 },
        Group { size: 2, jobs: vec![900; 3], apart: 10, length: 90_000, whole: 0 },
    ]);
    let said = text::lines(&report(&jobs));
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    for part in [
        "10 jobs read, 10 of them with GPUs, for 250.2 GPU-hours\n",
        "a share would have been enough for 9, ",
        "  a40  12 of 100 units   5529     6 ",
        "  a40  whole            46080     1 ",
        "  alice    10    9 ",
        "  lab, q          10    9 ",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
    // --csv doesn't have these sums.
    let mut many = report(&jobs);
    let one = many.shares.first().cloned().unwrap();
    many.shares = vec![one; 20];
    assert_eq!(text::lines(&many).matches("  a40  12 of 100 units ").count(), 20);
}
