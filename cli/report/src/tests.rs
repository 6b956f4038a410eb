//! Months whose truth is known: by hand, and at random against a sum second by second.

use std::collections::BTreeMap;

use gpushare_period::Period;
use gpushare_qos::config::value::Value;
use gpushare_qos::state::Qos;
use gpushare_slurm_text::sacct;
use gpushare_slurm_text::{Associations, sreport};
use proptest::prelude::*;

use super::error::ReportError;
use super::groups::{ANY, Database, Group, Of, owned};
use super::report::{Account, Gpus, More, OfType, Report, Reserved, Told};
use super::{page, summed, text};

/// User, account, QOS, `a40:h100:untyped`, eligible, start, end.
type Job = (&'static str, &'static str, &'static str, [u32; 3], u32, u32, u32);

fn database() -> Database {
    let qos = |description: &str, limits: &[(&str, u64)]| {
        let limits: BTreeMap<String, u64> =
            limits.iter().map(|(tres, count)| ((*tres).to_owned(), *count)).collect();
        let settings = [("GrpTRES", Value::Tres(limits))].into();
        Qos { description: description.to_owned(), settings }
    };
    let ours = "gpushare@lab";
    let qoses = [
        ("x", qos(ours, &[("gres/gpu", 4), ("gres/gpu:a40", 4)])),
        ("x_burst", qos("gpushare@lab burst", &[("gres/gpu:a40", 8)])),
        ("y", qos(ours, &[("gres/gpu:a40", 2), ("gres/gpu:h100", 2)])),
        ("site", qos("by hand", &[("gres/gpu", 3), ("cpu", 9)])),
        ("part", qos("", &[("gres/gpu:a40", 9)])),
        ("normal", qos("", &[])),
        ("percent", {
            let mut percent = qos("", &[("gres/gpu:a40", 50)]);
            percent.settings.insert("Flags", Value::Words(["Relative".to_owned()].into()));
            percent
        }),
    ];
    let associations =
        "root|||||||||||\nx|||||root||||||\nlab|||||x||||||\ny|||||root|gres/gpu:h100=1|||||\n";
    Database {
        qoses: qoses.map(|(name, qos)| (name.to_owned(), qos)).into(),
        associations: Associations::read(associations),
        ever: Associations::read(&format!("{associations}old|||||x||||||\n")),
        of_partitions: vec!["part".to_owned(), "x".to_owned()],
    }
}

fn given([a40, h100, untyped]: [u32; 3]) -> String {
    let typed = [("gres/gpu:a40", a40), ("gres/gpu:h100", h100)].into_iter();
    let all = typed.chain([("gres/gpu", a40 + h100 + untyped)]).filter(|(_, count)| *count > 0);
    all.map(|(tres, count)| format!("{tres}={count},")).collect::<String>() + "cpu=1"
}

/// The report on all groups, or on the named ones, and what the groups are. sreport says what the jobs say.
fn report(jobs: &[Job], period: Period, named: &[&str]) -> Report {
    report_beside(jobs, period, named, &[])
}

/// A row of sreport's on accounts.
type Row<'t> = (&'t str, &'t str, &'t str, u64);

/// The same where sreport has more rows. Names with an `@` are accounts.
fn report_beside(jobs: &[Job], period: Period, named: &[&str], more_rows: &[Row]) -> Report {
    let database = database();
    let groups = match named {
        [] => database.groups(),
        names => {
            let (accounts, qoses): (Vec<String>, _) =
                names.iter().map(|name| (*name).to_owned()).partition(|name| name.starts_with('@'));
            let accounts: Vec<String> = accounts.iter().map(|name| name.replace('@', "")).collect();
            database.named(&qoses, &accounts, "lab").unwrap()
        }
    };
    let types = ["a40", "h100"].map(str::to_owned);
    let used = |count| sreport::Used { count, ..sreport::Used::default() };
    let gpus = [("a40", 6), ("h100", 2), (ANY, 8)];
    let gpus = gpus.map(|(gpu_type, count)| Gpus { gpu_type: gpu_type.to_owned(), used: used(count) });
    let mut accounts: BTreeMap<(String, String, String), u64> = BTreeMap::new();
    for (user, account, _, [a40, h100, untyped], _, start, end) in jobs {
        let seconds = u64::from((*end).min(period.end).saturating_sub((*start).max(period.start)));
        let counts = [("a40", *a40), ("h100", *h100), (ANY, a40 + h100 + untyped)];
        for (gpu_type, count) in counts.into_iter().filter(|(_, count)| *count > 0 && seconds > 0) {
            let above: &[&str] = match *account {
                "lab" => &["lab", "x", "root"],
                "old" => &["old", "x", "root"],
                "x" => &["x", "root"],
                "y" => &["y", "root"],
                other => &[other, "root"],
            };
            let rows = above.iter().map(|account| (*account, "")).chain([(*account, *user)]);
            for (account, user) in rows {
                let key = (account.to_owned(), user.to_owned(), gpu_type.to_owned());
                *accounts.entry(key).or_default() += seconds * u64::from(count);
            }
        }
    }
    let accounts =
        accounts.into_iter().map(|((account, user, gpu_type), sum)| (account, user, gpu_type, sum));
    let more_rows = more_rows.iter().map(|(account, user, gpu_type, sum)| {
        ((*account).to_owned(), (*user).to_owned(), (*gpu_type).to_owned(), *sum)
    });
    let account = |(account, user, gpu_type, used): (String, String, String, u64)| Account {
        account,
        user: Some(user).filter(|user| !user.is_empty()),
        gpu_type,
        used,
    };
    let accounts = accounts.chain(more_rows).map(account);
    let night = Reserved { reservation: "night".into(), gpu_type: "a40".into(), idle: 7200 };
    let told = Told { gpus: gpus.to_vec(), accounts: accounts.collect(), reserved: vec![night] };
    let more = More { cluster: "lab".into(), period, is_of_some: !named.is_empty(), ..More::default() };
    summed(&database, &groups, &types, told, more, |day, show| {
        for (user, account, qos, count, eligible, start, end) in jobs {
            if *start >= day.end || *end < day.start {
                continue;
            }
            show(&sacct::Row {
                user: user.as_bytes(),
                account: account.as_bytes(),
                qos: qos.as_bytes(),
                given: given(*count).as_bytes(),
                eligible: Some(*eligible),
                start: Some(*start),
                end: Some(*end),
                ..sacct::Row::default()
            });
        }
        Ok::<u64, ReportError>(0)
    })
    .unwrap()
}

const MONTH: Period = Period { start: 1000, end: 1000 + 200_000 };

fn row<'r>(report: &'r Report, group: &str, gpu_type: &str) -> &'r OfType {
    let group = report.groups.iter().find(|one| one.name == group).unwrap();
    group.types.iter().find(|one| one.gpu_type == gpu_type).unwrap()
}

#[test]
fn a_group_keeps_lends_and_borrows() {
    // A job over the end of the period and two days, one that borrows 1 of y's, one that waited.
    let jobs: &[Job] = &[
        ("alice", "x", "x", [3, 0, 0], 0, 500, 101_000),
        ("bob", "lab", "x_burst", [2, 0, 0], 90_000, 91_000, 101_000),
        ("carol", "y", "y", [1, 1, 0], 200_900, 200_900, 300_000),
    ];
    let all = report(jobs, MONTH, &[]);
    let OfType { owned, used, borrowed, lent, idle, .. } = *row(&all, "x", "a40");
    assert_eq!((owned, used, borrowed, lent), (800_000, 320_000, 10_000, 0));
    assert_eq!(idle, 800_000 - 310_000);
    let of_y = row(&all, "y", "a40");
    assert_eq!((of_y.used, of_y.lent, of_y.idle), (100, 10_000, 400_000 - 10_100));
    assert_eq!(all.differences, []);
    let group = report(jobs, MONTH, &["x"]);
    let [x] = group.groups.as_slice() else { panic!() };
    let users: Vec<_> = x.users.iter().map(|one| (one.user.as_str(), one.used)).collect();
    assert_eq!(users, [("alice", 300_000), ("bob", 20_000)], "its own users only");
    assert_eq!((x.jobs, x.wait_median, x.wait_90_percent), (1, Some(1000), Some(1000)));
    assert_eq!((x.borrowed_from.as_slice()[0].qos.as_str(), x.borrowed_from[0].used), ("y", 10_000));
    assert!(group.gpus.is_empty() && group.accounts.is_empty() && group.others.is_empty());
    assert_eq!((all.reserved.len(), group.reserved.len()), (1, 0));
}

#[test]
fn a_qos_for_bursts_owns_nothing_and_a_limit_on_any_gpu_is_one() {
    let groups = database().groups();
    let names: Vec<_> = groups.iter().map(|group| (group.of, group.name.as_str())).collect();
    assert_eq!(names, [(Of::Qos, "site"), (Of::Qos, "x"), (Of::Qos, "y"), (Of::Account, "y")]);
    let jobs: &[Job] = &[("u", "z", "site", [1, 1, 1], 0, 1000, 2000)];
    let all = report(jobs, MONTH, &[]);
    assert_eq!((row(&all, "site", ANY).owned_gpus, row(&all, "site", ANY).used), (3, 3000));
    // Of a GPU without a type it is only known that it was used.
    let jobs: &[Job] = &[("u", "x", "x", [1, 0, 2], 0, 1000, 2000)];
    let all = report(jobs, MONTH, &[]);
    assert_eq!((row(&all, "x", "a40").used, row(&all, "x", "unknown").used), (1000, 2000));
    assert!(text::lines(&all).contains("note: unknown: GPUs whose type accounting lacks"));
}

#[test]
fn an_account_that_is_a_qos_s_is_one_group() {
    let found = |users: &str, limit: &str| {
        let text =
            format!("root|||||||||||\ny|||||root|{limit}|||||\nsub|||||y||||||\nz|||||root||||||\n{users}");
        let associations = Associations::read(&text);
        let database = Database { ever: associations.clone(), associations, ..database() };
        let account = Some((Of::Account, "y".to_owned()));
        let is_there = database.groups().into_iter().any(|one| Some((one.of, one.name)) == account);
        (is_there, database.twice())
    };
    let one = "sub|alice||normal,Y||||||||\n";
    let once = (false, vec![("y".to_owned(), vec!["y".to_owned()])]);
    let twice = (true, vec![]);
    assert_eq!(found(one, "gres/gpu:a40=1"), once, "the account below is its own");
    assert_eq!(found(one, "gres/gpu=3"), once, "whatever the type");
    assert_eq!(found(one, "gres/gpu:b1=1"), twice, "the QOS has no such type");
    assert_eq!(found(&format!("{one}z|bob||y||||||||\n"), "gres/gpu:a40=1"), twice, "others may use the QOS");
    assert_eq!(found("y|alice||normal||||||||\n", "gres/gpu:a40=1"), twice, "nobody may");
}

#[test]
fn differences_name_no_user_of_others() {
    let jobs: &[Job] = &[("alice", "lab", "x", [1, 0, 0], 0, 1000, 2000)];
    let rows = ["alice", "eve", ""].map(|user| ("lab", user, "a40", 5));
    let rows = [&rows[..], &[("x", "", "a40", 5), ("y", "carol", "h100", 5)]].concat();
    for (named, expected) in [
        (&[][..], &[("lab", None), ("x", None)][..]),
        (&["x"], &[("lab", None), ("lab", Some("alice"))]),
        (&["@x"], &[("lab", None), ("lab", Some("alice")), ("lab", Some("eve")), ("x", None)]),
        (&["@y"], &[("y", Some("carol"))]),
    ] {
        let found = report_beside(jobs, MONTH, named, &rows);
        let names: Vec<_> =
            found.differences.iter().map(|one| (one.account.as_str(), one.user.as_deref())).collect();
        assert_eq!(names, expected, "{named:?}");
        assert!(!text::lines(&found).contains("the same numbers"));
    }
}

#[test]
fn a_job_of_two_named_groups_is_one_job() {
    let jobs: &[Job] =
        &[("alice", "lab", "x", [1, 0, 0], 0, 1000, 2000), ("bob", "y", "y", [1, 0, 0], 0, 1000, 2000)];
    let found = report(jobs, MONTH, &["x", "@x", "@lab"]);
    assert_eq!((found.jobs, found.groups.iter().map(|one| one.jobs).sum::<u64>()), (1, 3));
    assert_eq!(report(jobs, MONTH, &[]).jobs, 2);
}

#[test]
fn jobs_of_a_deleted_account_count_for_the_one_above() {
    let jobs: &[Job] = &[("alice", "old", "normal", [1, 0, 0], 0, 1000, 2000)];
    let of_x = report(jobs, MONTH, &["@x"]);
    assert_eq!((row(&of_x, "x", "a40").used, of_x.differences.as_slice()), (1000, &[][..]));
}

#[test]
fn limits_that_are_no_number_of_gpus() {
    for (limits, expected) in [
        (&[("gres/gpu:a40", 0), ("gres/gpu", 4)][..], &[(ANY, 4)][..]),
        (&[("gres/gpu:a40", 0)], &[]),
        (&[("gres/gpu:a40", 1), ("gres/gpu", 4)], &[("a40", 1)]),
        (&[("gres/gpu", u64::MAX)], &[(ANY, u32::MAX.into())]),
    ] {
        let found = owned(limits.iter().copied());
        let found: Vec<_> = found.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(found, expected, "{limits:?}");
    }
}

#[test]
fn names_cannot_be_html() {
    let jobs: &[Job] = &[("<script>alert(1)</script>", "a\"b'&<i>", "x", [1, 0, 0], 0, 1000, 5000)];
    for named in [&[][..], &["x"]] {
        let page = page::html(&report(jobs, MONTH, named), !named.is_empty()).unwrap();
        assert!(!page.contains("<script") && !page.contains("<i>") && !page.contains("a\"b"), "{page}");
        assert!(
            !page.contains("http://")
                || page.matches("http://").count() == page.matches("http://www.w3.org").count()
        );
    }
    let page = page::html(&report(jobs, MONTH, &["x"]), true).unwrap();
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{page}");
}

#[test]
fn small_sums_are_not_nothing() {
    for (seconds, expected) in [(0, "0"), (4, "0.001"), (3600, "1.000"), (36_000, "10.0"), (371_111, "103.1")]
    {
        assert_eq!(text::hours(seconds), expected);
    }
}

fn some_jobs() -> impl Strategy<Value = Vec<Job>> {
    let user = prop::sample::select(vec!["alice", "bob"]);
    let account = prop::sample::select(vec!["x", "lab", "y", "old", "gone"]);
    let qos = prop::sample::select(vec!["x", "x_burst", "y", "normal", "site"]);
    let job = (user, account, qos, prop::array::uniform3(0_u32..3), 0_u32..3000, 0_u32..3000);
    let job = job.prop_map(|(user, account, qos, count, start, length)| {
        (user, account, qos, count, start, start + 1, start + 1 + length)
    });
    prop::collection::vec(job, 0..12)
}

fn seconds_of(report: &Report, group: &Group) -> Vec<OfType> {
    let found = report.groups.iter().find(|one| one.kind == group.of && one.name == group.name).unwrap();
    let copy = |one: &OfType| OfType { gpu_type: one.gpu_type.clone(), ..*one };
    found.types.iter().map(copy).collect()
}

proptest! {
    #[test]
    fn rows_add_up_to_the_cluster(jobs in some_jobs()) {
        let period = Period { start: 500, end: 2500 };
        let all = report(&jobs, period, &[]);
        prop_assert!(all.differences.is_empty(), "{:?}", all.differences);
        let held = |job: &Job| u64::from(job.6.min(period.end).saturating_sub(job.5.max(period.start)));
        let total = |job: &Job| held(job) * u64::from(job.3.iter().sum::<u32>());
        let cluster: u64 = jobs.iter().map(total).sum();
        let mut sum: u64 = all.others.values().sum();
        for group in database().groups() {
            for one in seconds_of(&all, &group) {
                prop_assert_eq!(one.owned, one.used - one.borrowed + one.lent + one.idle, "{:?}", one);
                sum += if group.of == Of::Qos { one.used } else { 0 };
            }
            // Second by second, of the group's jobs.
            let mine = |job: &&Job| match group.of {
                Of::Qos => job.2 == group.name || group.burst.as_deref() == Some(job.2),
                Of::Account => job.1 == group.name,
            };
            let used: u64 = (period.start..period.end)
                .map(|now| {
                    let runs = jobs.iter().filter(mine).filter(|job| (job.5..job.6).contains(&now));
                    runs.map(|job| u64::from(job.3.iter().sum::<u32>())).sum::<u64>()
                })
                .sum();
            prop_assert_eq!(used, seconds_of(&all, &group).iter().map(|one| one.used).sum::<u64>());
        }
        prop_assert_eq!(sum, cluster);
        // What is lent is borrowed, and a plot shows the same.
        let lent: u64 = all.groups.iter().flat_map(|one| &one.lent_to).map(|loan| loan.used).sum();
        let columns: u64 = all.columns.iter().filter_map(|sums| sums.last()).sum();
        prop_assert_eq!(columns, cluster);
        let of_types: u64 = all.groups.iter().flat_map(|one| &one.types).map(|one| one.lent).sum();
        prop_assert_eq!(lent, of_types);
    }
}
