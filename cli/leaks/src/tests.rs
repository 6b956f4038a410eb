//! Compares the report with a reference that counts every second.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::report::{Asked, Exceeded, OfLimit};
use super::*;
use gpushare_history::{HistoryError, hours};
use gpushare_slurm_text::sacct;
use gpushare_slurm_text::version::Release;

const DAY: u32 = 86_400;
/// A month.
const PERIOD: Period = Period { start: 1_700_000_000, end: 1_700_000_000 + 30 * DAY };

const NODES: &str = "NodeName=a1 Gres=gpu:a40:8\nNodeName=m1 Gres=gpu:a40:4,gpu:h100:4\n";

/// The limits: under `q` 4 a40s for all users and 2 h100s for each; 6 a40s for account `dept`.
fn tables() -> Tables {
    let users = "lab|alice||q,free|q|||||||\nlab|bob||q,free|q|||||||\nother|carol||q|q|||||||\n";
    Tables {
        tres: b"cpu||1\ngres|gpu|1001\ngres|gpu:a40|1002\ngres|gpu:h100|1003\n".to_vec(),
        qoses: b"free||||||||||\nq|gres/gpu:a40=4||gres/gpu:h100=2|||||||\n".to_vec(),
        accounts: b"root|||free||||||||\ndept|||free||root|gres/gpu:a40=6|||||\nlab|||free||dept||||||\n\
                    other|||free||root||||||\n"
            .to_vec(),
        users: users.as_bytes().to_vec(),
        partitions: b"PartitionName=p AllowGroups=ALL Default=YES QoS=N/A State=UP\n".to_vec(),
    }
}

fn report(records: &str) -> Report {
    summed_of(&tables(), records).unwrap()
}

fn summed_of(tables: &Tables, records: &str) -> Result<Report, LeaksError> {
    let cluster = Cluster {
        release: Release(24, 11),
        name: "lab".to_owned(),
        partitions: String::new(),
        nodes: NODES.to_owned(),
        remarks: Vec::new(),
    };
    summed(cluster, tables, PERIOD, Policy::default(), |_, show| {
        let read = sacct::read(&mut records.as_bytes(), b"@", Wanted::Requests, show);
        Ok(read.map_err(HistoryError::Sacct)?)
    })
}

#[test]
fn no_jobs_and_no_gpus_are_no_proof() {
    let start = PERIOD.start + 10;
    let job =
        |line: &str, given: &str| record(ALICE, "q", "node=1", given, "a1", (start, Some(start + 100)), line);
    let said = |records: &str| summed_of(&tables(), records).err().map(|why| why.to_string());
    assert!(said("").unwrap().starts_with("accounting has no job that ran from 2023-"));
    let asked = "sbatch --gres=gpu:2 --wrap true";
    assert!(said(&job(asked, "mem=1G")).unwrap().contains("AccountingStorageTRES didn't have gres/gpu"));
    for records in [
        job("sbatch --wrap true", "mem=1G"),
        job("sbatch --exclusive run --gres=gpu:2", "mem=1G"),
        job(asked, "mem=1G") + &job(asked, "gres/gpu=2"),
        job(asked, "gres/gpu=2") + &job(asked, "mem=1G"),
    ] {
        assert_eq!(said(&records), None, "{records}");
    }
    // Without limits there is nothing to prove.
    let tables = Tables { qoses: b"free||||||||||\n".to_vec(), ..no_limits() };
    for records in [String::new(), job(asked, "mem=1G")] {
        assert!(summed_of(&tables, &records).unwrap().limits.is_empty());
    }
}

fn no_limits() -> Tables {
    Tables { accounts: b"root|||free||||||||\nlab|||free||root||||||\n".to_vec(), ..tables() }
}

fn limit<'r>(report: &'r Report, name: &str) -> &'r OfLimit {
    report.limits.iter().find(|one| one.limit.name() == name).unwrap()
}

const Q: &str = "QOS 'q', GrpTRES=gres/gpu:a40=4";
const EACH: &str = "QOS 'q', MaxTRESPU=gres/gpu:h100=2";
const DEPT: &str = "account 'dept', GrpTRES=gres/gpu:a40=6";

/// A job's record.
fn record(
    who: (&str, &str),
    qos: &str,
    asked: &str,
    given: &str,
    node: &str,
    time: (u32, Option<u32>),
    line: &str,
) -> String {
    let end = time.1.map_or("Unknown".to_owned(), |end| end.to_string());
    format!(
        "1@{}@{}@{qos}@p@cpu=1,{asked}@cpu=1,{given},node=1@{node}@{}@{end}@COMPLETED@{line}\n",
        who.0, who.1, time.0
    )
}

const ALICE: (&str, &str) = ("alice", "lab");

#[test]
fn a_job_past_its_limit_is_told_of_with_the_command_that_works() {
    let hour = |from: u32, to: u32| (PERIOD.start + from * 3600, Some(PERIOD.start + to * 3600));
    let typed = record(
        ALICE,
        "q",
        "gres/gpu:a40=3,gres/gpu=3",
        "gres/gpu:a40=3,gres/gpu=3",
        "a1",
        hour(0, 10),
        "sbatch --gres=gpu:a40:3 a",
    );
    let untyped = record(
        ("bob", "lab"),
        "q",
        "gres/gpu=2",
        "gres/gpu:a40=2,gres/gpu=2",
        "a1",
        hour(4, 6),
        "sbatch --gres=gpu:2 b",
    );
    let in_script = record(
        ("bob", "lab"),
        "q",
        "gres/gpu=1",
        "gres/gpu:a40=1,gres/gpu=1",
        "a1",
        hour(5, 6),
        "sbatch job.sh",
    );
    let report = report(&[typed, untyped, in_script].concat());
    let found = limit(&report, Q);
    let [over] = found.over.as_slice() else { panic!("{found:?}") };
    assert_eq!((over.certain.hours, over.certain.gpu_hours_above, over.certain.most_held), (2.0, 3.0, 6));
    assert_eq!((over.unexplained_gpu_hours, &over.at_most), (0.0, &None));
    let of = |asked: &Asked| {
        (asked.cause.user.clone(), asked.request.clone(), asked.on_command_line, asked.jobs, asked.gpu_hours)
    };
    let bob = "bob".to_owned();
    assert_eq!(
        over.requests.iter().map(of).collect::<Vec<_>>(),
        [(bob.clone(), "--gres=gpu:2".to_owned(), true, 1, 4.0), (bob, "--gpus=1".to_owned(), false, 1, 1.0),]
    );
    for (asked, command) in over.requests.iter().zip(["--qos=q --gres=gpu:a40:2", "--qos=q --gpus=a40:1"]) {
        assert_eq!((asked.number, asked.command.as_deref()), (Some("GS101"), Some(command)), "{asked:?}");
    }
    // The account may have six a40s.
    assert!(
        report.is_over() && !limit(&report, DEPT).exceeded && limit(&report, DEPT).unseen_gpu_hours == 5.0
    );
    let text = text::lines(&report);
    for part in [
        "limits on GPU types: 3, exceeded: 1",
        "  exceeded: once, 2.000 hours, 3.000 GPU-hours above the limit\n",
        "--gpus=1 (not on the command line)",
        "GS101, try: --qos=q --gres=gpu:a40:2\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let svg = plot::svg(&report).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("GrpTRES=gres/gpu:a40=4"));
    let mut odd = report.limits;
    odd.iter_mut().flat_map(|one| &mut one.over).for_each(|over| over.of = Some("a\u{1b}b\u{1}<".to_owned()));
    let report = Report { limits: odd, ..report };
    let svg = plot::svg(&report).unwrap();
    assert!(svg.contains("a\\u{1b}b\\u{1}&lt;") && !svg.contains(['\u{1b}', '\u{1}']), "{svg}");
    assert!(json::text(&report).contains("\"gpu_hours_above\": 3.0"));
    assert_eq!(text::requests_csv(&report).lines().count(), 3);
    assert_eq!(text::times_csv(&report).lines().count(), 2);
}

#[test]
fn what_accounting_cannot_tell_is_no_overuse_but_a_possible_one() {
    let time = (PERIOD.start, None);
    let report = report(&record(ALICE, "q", "gres/gpu=6", "gres/gpu=6", "m1", time, ""));
    let [over] = limit(&report, Q).over.as_slice() else { panic!() };
    assert_eq!((over.certain.times, over.at_most.as_ref().map(|most| most.most_held)), (0, Some(6)));
    assert!(!report.is_over() && over.requests.is_empty());
    let said = report.remarks.join("\n");
    assert!(
        said.contains("jobs without an end in accounting: 1.")
            && said.contains("neither accounting nor their nodes show: 1."),
        "{said}"
    );
    assert!(text::lines(&report).contains("  possibly exceeded, if GPUs of unknown type count: once"));
}

#[test]
fn typed_jobs_over_a_limit_are_not_explained_by_requests() {
    let time = (PERIOD.start - DAY, Some(PERIOD.start + 3600));
    let typed = record(
        ALICE,
        "q",
        "gres/gpu:a40=5,gres/gpu=5",
        "gres/gpu:a40=5,gres/gpu=5",
        "a1",
        time,
        "sbatch --gres=gpu:a40:5 a",
    );
    let report = report(&typed);
    let [over] = limit(&report, Q).over.as_slice() else { panic!() };
    // GPU time before the period doesn't count.
    assert_eq!((over.certain.gpu_hours_above, over.unexplained_gpu_hours), (1.0, 1.0));
    assert!(over.requests.is_empty());
}

/// A job of the month.
#[derive(Clone, Debug)]
struct One {
    who: (&'static str, &'static str),
    qos: &'static str,
    start: u32,
    end: Option<u32>,
    /// Whether the type is in the request, in accounting's answer, or in neither; and the node.
    typed: bool,
    told: bool,
    mixed: bool,
    gres_type: &'static str,
    gpus: u32,
}

impl One {
    fn record(&self) -> String {
        let list = |typed: bool| match typed {
            true => format!("gres/gpu:{}={1},gres/gpu={1}", self.gres_type, self.gpus),
            false => format!("gres/gpu={}", self.gpus),
        };
        let node = if self.mixed { "m1" } else { "a1" };
        record(
            self.who,
            self.qos,
            &list(self.typed),
            &list(self.told),
            node,
            (self.start, self.end),
            "sbatch x",
        )
    }

    /// How many GPUs of a type it held, for certain and at most.
    fn held(&self, gres_type: &str) -> (u32, u32) {
        let there = if self.told { self.gres_type == gres_type } else { !self.mixed && gres_type == "a40" };
        match (there, self.told || !self.mixed) {
            (true, _) => (self.gpus, self.gpus),
            (false, true) => (0, 0),
            (false, false) => (0, self.gpus),
        }
    }
}

fn one() -> impl Strategy<Value = One> {
    let who = prop_oneof![Just(("alice", "lab")), Just(("bob", "lab")), Just(("carol", "other"))];
    let qos = prop_oneof![3 => Just("q"), 1 => Just("free")];
    // On a grid of three hours, so that ends and starts coincide.
    let time = (-8_i64..260, 1_u32..30, proptest::bool::weighted(0.05));
    let gres_type = prop_oneof![Just("a40"), Just("h100")];
    (who, qos, time, proptest::array::uniform3(proptest::bool::weighted(0.6)), gres_type, 1_u32..5).prop_map(
        |(who, qos, (at, length, runs), [typed, told, mixed], gres_type, gpus)| {
            let start = u32::try_from(i64::from(PERIOD.start) + at * 10_800).unwrap();
            let end = Some(start + length * 10_800).filter(|_| !runs);
            One { who, qos, start, end, typed: typed && told, told, mixed, gres_type, gpus }
        },
    )
}

/// GPU-seconds above the limit, the seconds over it, and the maximum; counted at every moment of a change.
fn by_hand(jobs: &[&One], gres_type: &str, limit: u32, most: bool) -> (u64, u64, u32) {
    let end = |one: &One| one.end.unwrap_or(PERIOD.end);
    let edges: BTreeSet<u32> =
        jobs.iter().flat_map(|one| [one.start, end(one)]).chain([PERIOD.start, PERIOD.end]).collect();
    let edges: Vec<u32> =
        edges.into_iter().filter(|time| (PERIOD.start..=PERIOD.end).contains(time)).collect();
    let mut sum = (0, 0, 0);
    for pair in edges.windows(2) {
        let runs = jobs.iter().filter(|one| one.start <= pair[0] && pair[0] < end(one));
        let held: u32 =
            runs.map(|one| if most { one.held(gres_type).1 } else { one.held(gres_type).0 }).sum();
        let above = u64::from(held.saturating_sub(limit));
        let seconds = u64::from(pair[1] - pair[0]);
        if above > 0 {
            sum = (sum.0 + above * seconds, sum.1 + seconds, sum.2.max(held));
        }
    }
    sum
}

fn sums(sums: &report::Sums) -> (f64, f64, u32) {
    (sums.gpu_hours_above, sums.hours, sums.most_held)
}

fn agree(over: Option<&Exceeded>, jobs: &[&One], gres_type: &str, limit: u32) -> Result<(), TestCaseError> {
    let in_hours = |(above, seconds, most): (u64, u64, u32)| (hours::of(above), hours::of(seconds), most);
    let (certain, most) = (by_hand(jobs, gres_type, limit, false), by_hand(jobs, gres_type, limit, true));
    let none = (0.0, 0.0, 0);
    prop_assert_eq!(over.map_or(none, |one| sums(&one.certain)), in_hours(certain));
    let found = over.map_or(none, |one| one.at_most.as_ref().map_or_else(|| sums(&one.certain), sums));
    prop_assert_eq!(found, in_hours(most));
    // No user is blamed for more than they had.
    for asked in over.map(|one| one.requests.as_slice()).unwrap_or_default() {
        let his = jobs.iter().filter(|one| one.who.0 == asked.cause.user && !one.typed);
        let had: u64 = his
            .map(|one| {
                u64::from(one.held(gres_type).0)
                    * u64::from(
                        one.end
                            .unwrap_or(PERIOD.end)
                            .min(PERIOD.end)
                            .saturating_sub(one.start.max(PERIOD.start)),
                    )
            })
            .sum();
        prop_assert!(asked.gpu_hours <= hours::of(had) && asked.number == Some("GS101"), "{asked:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_month_is_summed_as_by_hand(jobs in proptest::collection::vec(one(), 0..80)) {
        let without = record(ALICE, "free", "node=1", "node=1", "a1", (PERIOD.start, None), "");
        let report = report(&jobs.iter().map(One::record).chain([without]).collect::<String>());
        let under = |keep: &dyn Fn(&One) -> bool| jobs.iter().filter(|one| keep(one)).collect::<Vec<_>>();
        agree(limit(&report, Q).over.first(), &under(&|one| one.qos == "q"), "a40", 4)?;
        agree(limit(&report, DEPT).over.first(), &under(&|one| one.who.1 == "lab"), "a40", 6)?;
        let over = limit(&report, EACH).over.iter();
        let by_user: BTreeMap<_, _> = over.map(|over| (over.of.clone().unwrap(), over)).collect();
        for user in ["alice", "bob", "carol"] {
            let jobs = under(&|one| one.qos == "q" && one.who.0 == user);
            agree(by_user.get(user).copied(), &jobs, "h100", 2)?;
        }
    }
}
