//! Limits of associations: who has them, and what can be requested instead.

use super::modes::with_record;
use super::*;

/// Nested associations, the user's own last: its account, its partition, its limits (`a40`: on gres/gpu:a40, `mps:`: on
/// all of gres/mps).
type Tree = &'static [(u32, &'static str, Option<&'static str>, Limits)];

const ROOT: (u32, &str, Option<&str>, Limits) = (1, "root", None, &[]);

/// By the account that a job names; a job that names none gets "free".
const TREES: [(&str, Tree); 14] = [
    ("free", &[ROOT, (2, "free", None, &[]), (3, "free", None, &[])]),
    ("acct", &[ROOT, (4, "acct", None, &[("a40", Some(1))]), (5, "acct", None, &[])]),
    ("mine", &[ROOT, (6, "mine", None, &[]), (7, "mine", None, &[("a40", Some(2)), ("h100", None)])]),
    (
        "child",
        &[
            ROOT,
            (8, "dept", None, &[("a40", Some(2)), ("h100", Some(8))]),
            (9, "child", None, &[("a40", Some(4))]),
            (10, "child", None, &[]),
        ],
    ),
    ("sister", &[ROOT, (8, "dept", None, &[("a40", Some(2)), ("h100", Some(8))]), (11, "sister", None, &[])]),
    (
        "parted",
        &[
            ROOT,
            (12, "parted", None, &[]),
            (13, "parted", None, &[]),
            (14, "parted", Some("q"), &[("a40", Some(1))]),
        ],
    ),
    ("shards", &[ROOT, (15, "shards", None, &[("shard:a40", Some(8))]), (16, "shards", None, &[])]),
    ("ours", &[ROOT, (21, "ours", None, &[("gpushare:a40", Some(8))]), (22, "ours", None, &[])]),
    // One account counts all shares, the one above it only those of one type.
    (
        "counted",
        &[
            ROOT,
            (23, "above", None, &[("mps:a40", Some(8))]),
            (24, "counted", None, &[("mps:", Some(20))]),
            (25, "counted", None, &[]),
        ],
    ),
    ("mps", &[ROOT, (17, "mps", None, &[("mps:a40", Some(8)), ("mps:", Some(20))]), (18, "mps", None, &[])]),
    ("total", &[ROOT, (26, "total", None, &[("gpu:", Some(4))]), (27, "total", None, &[])]),
    ("shares", &[ROOT, (30, "shares", None, &[("mps:", Some(20))]), (31, "shares", None, &[])]),
    ("billed", &[ROOT, (28, "billed", None, &[]), (29, "billed", None, &[])]),
    ("none", &[ROOT, (19, "none", None, &[("a40", Some(0))]), (20, "none", None, &[])]),
];

fn limits(of: Limits) -> Vec<GresLimit<'static>> {
    let limit = |(name, count): &(&'static str, Option<u64>)| {
        let (gres, gres_type) = name.split_once(':').unwrap_or(("gpu", name));
        let gres_type = Some(gres_type.as_bytes()).filter(|gres_type| !gres_type.is_empty());
        GresLimit { gres: gres.as_bytes(), gres_type, count: *count, of_job: *count }
    };
    of.iter().map(limit).collect()
}

/// The user's own associations come first, as Slurm's cache shows them.
pub(super) fn chain(request: &Request) -> Vec<Association<'static>> {
    let account = request.account.unwrap_or(b"free");
    let tree = TREES.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(account));
    let Some((name, tree)) = tree else { return Vec::new() };
    let own = |account: &str| account == *name;
    let is_here = |partition: Option<&str>| partition.is_none_or(|p| Some(p.as_bytes()) == request.partition);
    // Of the user's own associations, use the one for the partition, which is last.
    let leaf = tree.iter().rfind(|(_, _, partition, _)| is_here(*partition));
    let above = tree.iter().take_while(|(.., account, _, _)| !own(account));
    let accounts = above.chain(tree.iter().find(|(_, account, ..)| own(account)));
    let accounts: Vec<_> = accounts.collect();
    let of = |own: bool| {
        move |(id, account, _, of): &(u32, &'static str, Option<&str>, Limits)| Association {
            id: *id,
            account: account.as_bytes(),
            own,
            limits: limits(of),
            billing: *account == "billed",
        }
    };
    leaf.into_iter().map(of(true)).chain(accounts.into_iter().rev().map(of(false))).collect()
}

fn by<'a>(account: &'a str, text: &'a str) -> Request<'a> {
    Request { account: Some(account.as_bytes()), ..node("normal", text) }
}

fn refusal(request: &Request, policy: &Policy) -> Refusal {
    refused(judge(request, policy, &TABLE))
}

pub(super) fn ground(name: &str, own: bool, named: &str) -> Ground {
    Ground::Account {
        name: name.as_bytes().to_vec(),
        own,
        named: (!named.is_empty()).then(|| ("account", named.as_bytes().to_vec())),
    }
}

#[test]
fn under_an_account_with_a_limit_on_a_type_every_gpu_has_one() {
    for (account, text, expected) in [
        ("acct", "gres/gpu:2", Some(Rule::TypeMissing)),
        ("ACCT", "gres/gpu", Some(Rule::TypeMissing)),
        ("acct", "gres/gpu:a40:4", None),
        ("acct", "gres/gpu:A40:1", None),
        ("acct", "gres/gpu:h100:1", None),
        ("acct", "gres/gpu:0", None),
        ("acct", "gres/nic:1", None),
        ("acct", "gres/mps:40", None),
        ("acct", "gres/gpu:a40:1,gres/gpu:1", Some(Rule::TypeMissing)),
        ("acct", "gres/gpu:mAA0zxtUzzzz:2", Some(Rule::TypeUnknown)),
        ("acct", "gres/gpu::2", Some(Rule::Unreadable)),
        ("acct", "gresgpu", Some(Rule::Unreadable)),
        ("mine", "gres/gpu:2", Some(Rule::TypeMissing)),
        ("child", "gres/gpu:2", Some(Rule::TypeMissing)),
        ("sister", "gres/gpu:2", Some(Rule::TypeMissing)),
        ("parted", "gres/gpu:2", None),
        ("shards", "gres/shard:2", Some(Rule::TypeMissing)),
        ("shards", "gres/shard:a40:2", None),
        ("shards", "gres/shard:p100:2", Some(Rule::TypeUnknown)),
        ("shards", "gres/gpu:2", None),
        ("shards", "gres/mps:2", None),
        ("mps", "gres/mps:2", Some(Rule::TypeMissing)),
        ("mps", "gres/mps:a40:2", None),
        ("counted", "gres/mps:2", Some(Rule::TypeMissing)),
        ("counted", "gres/mps:a40:2", None),
        ("mps", "gres/mps:p100:2", Some(Rule::TypeUnknown)),
        ("none", "gres/gpu:2", Some(Rule::TypeMissing)),
        ("free", "gres/gpu:2", None),
        ("free", "gres/gpu:mAA0zxtUzzzz:2", Some(Rule::TypeResembles)),
        ("free", "gresgpu", None),
        ("nobodys", "gres/gpu:2", None),
    ] {
        assert_eq!(rule(&by(account, text), &Policy::default()), expected, "{account} {text}");
    }
    let default_account = Request { account: None, ..by("", "gres/gpu:2") };
    assert_eq!(rule(&default_account, &Policy::default()), None);
    let in_q = Request { partition: Some(b"q"), ..by("parted", "gres/gpu:2") };
    assert_eq!(rule(&in_q, &Policy::default()), Some(Rule::TypeMissing), "the partition's association");
}

#[test]
fn a_type_counts_as_nodes_write_it() {
    let policy = Policy { types: vec!["A40".to_owned()], ..Policy::default() };
    assert_eq!(rule(&by("acct", "gres/gpu:A40:1"), &policy), None);
    assert_eq!(rule(&by("acct", "gres/gpu:a40:1"), &policy), Some(Rule::TypeUnknown));
}

#[test]
fn gpus_that_tasks_want_need_a_type_under_an_account_too() {
    for (text, expected) in [("gres/gpu:a40:1", None), ("gres/gpu:a40:0", Some(Rule::NtasksPerGpuAlone))] {
        let typed = Request { ntasks_per_tres: Some(2), ..by("acct", text) };
        assert_eq!(rule(&typed, &Policy::default()), expected, "{text}");
    }
    let alone = Request { ntasks_per_tres: Some(2), tres_per_node: None, ..by("acct", "") };
    assert_eq!(rule(&alone, &Policy::default()), Some(Rule::NtasksPerGpuAlone));
    let typed = Request { tres_per_job: Some(b"gres/gpu:a40:1"), ..alone };
    assert_eq!(rule(&typed, &Policy::default()), None);
    for account in ["free", "shards"] {
        let request = Request { account: Some(account.as_bytes()), ..alone };
        assert_eq!(rule(&request, &Policy::default()), None, "{account}");
    }
}

#[test]
fn a_refusal_says_whose_limit_it_is_and_offers_what_all_of_them_leave() {
    let a40 = |count| (b"a40".to_vec(), count);
    let h100 = |count| (b"h100".to_vec(), count);
    for (account, whose, offer) in [
        ("acct", ground("acct", false, "acct"), vec![a40(Some(1))]),
        ("mine", ground("mine", true, "mine"), vec![a40(Some(2)), h100(None)]),
        ("child", ground("child", false, "child"), vec![a40(Some(2)), h100(Some(8))]),
        ("sister", ground("dept", false, "sister"), vec![a40(Some(2)), h100(Some(8))]),
    ] {
        let found = refusal(&by(account, "gres/gpu:2"), &Policy::default());
        assert_eq!((found.ground, found.offer), (whose, Offer::OfQos(offer)), "{account}");
    }
}

#[test]
fn a_qos_speaks_first_and_both_are_heard() {
    let governed = Request { qos: Some(b"qos_lafferty"), ..by("acct", "gres/gpu:2") };
    assert_eq!(refusal(&governed, &Policy::default()).ground, Ground::Qos(b"qos_lafferty".to_vec()));
    // The QOS counts the share, and the account limits by type.
    let share = Request { qos: Some(b"qos_counted"), ..by("shards", "gres/shard:2") };
    let allow = Policy { foreign_types: ForeignTypes::Allow, ..Policy::default() };
    assert_eq!(refusal(&share, &allow).ground, ground("shards", false, "shards"));
    let list = Request { qos: Some(b"normal,listed_by_name"), ..by("acct", "gres/gpu:2") };
    assert_eq!(rule(&list, &Policy::default()), Some(Rule::TypeMissing));
    let depends = Request { qos: None, reservation: Some(b"r"), ..by("acct", "gres/gpu:2") };
    assert_eq!(rule(&depends, &Policy::default()), Some(Rule::TypeMissing));
}

#[test]
fn accounts_are_governed_as_the_file_says() {
    let named =
        |names: &str| Policy { accounts: GovernedAccounts::Names(patterns(names)), ..Policy::default() };
    let off = Policy { accounts: GovernedAccounts::Off, ..Policy::default() };
    for (policy, account, text, expected) in [
        (&off, "acct", "gres/gpu:2", None),
        (&named("ac*"), "acct", "gres/gpu:2", Some(Rule::TypeMissing)),
        (&named("ac*"), "sister", "gres/gpu:2", None),
        (&named("DEPT"), "sister", "gres/gpu:2", Some(Rule::TypeMissing)),
        (&named("free"), "free", "gres/gpu:2", Some(Rule::TypeMissing)),
        (&named("free"), "free", "gres/gpu:p100:2", Some(Rule::TypeUnknown)),
        (&named("free"), "free", "gres/mps:2", None),
        (&named("root"), "shards", "gres/gpu:2", Some(Rule::TypeMissing)),
    ] {
        assert_eq!(rule(&by(account, text), policy), expected, "{:?} {account} {text}", policy.accounts);
    }
    let found = refusal(&by("free", "gres/gpu:2"), &named("free"));
    assert_eq!(found.ground, ground("free", false, "free"), "no limit, so the account it is");
    assert_eq!(found.offer, Offer::OfCluster(vec![b"a40".to_vec(), b"h100".to_vec()]));
    let gpu_only = Policy { gres: GovernedGres(vec!["gpu".to_owned()]), ..Policy::default() };
    assert_eq!(rule(&by("shards", "gres/shard:2"), &gpu_only), None);
}

#[test]
fn modes_and_exemptions_hold_under_accounts() {
    let request = by("acct", "gres/gpu:2");
    let exempt = Exempt { accounts: patterns("staff"), ..Exempt::default() };
    assert_eq!(
        rule(&request, &Policy { exempt, ..Policy::default() }),
        None,
        "the table's owner is in staff"
    );
    for (mode, expected) in
        [(Mode::Warn, None), (Mode::Audit, None), (Mode::Default, Some(Rule::TypeMissing))]
    {
        let record = QosRecord { mode: Some(mode), ..QosRecord::default() };
        assert_eq!(rule(&request, &with_record("normal", record.clone())), expected, "{mode:?}");
        let other = Some(Rule::TypeMissing);
        assert_eq!(rule(&request, &with_record("qos_lafferty", record)), other, "another QOS's {mode:?}");
    }
    // A type that is added for the QOS doesn't fix the account's fault with the rest.
    let filling = Policy {
        foreign_types: ForeignTypes::Allow,
        ..with_record("*", QosRecord { mode: Some(Mode::Default), ..QosRecord::default() })
    };
    let both = Request { qos: Some(b"qos_lafferty"), ..by("shards", "gres/gpu:1,gres/shard:1") };
    assert_eq!(rule(&both, &filling), Some(Rule::TypeMissing));
    assert_eq!(rule(&Request { account: Some(b"acct"), ..both }, &filling), None);
}

/// Otherwise the user could change their default account before slurmctld looks it up.
#[test]
fn the_default_account_that_was_judged_is_pinned() {
    let policy = Policy::default();
    let pinned =
        |request: &Request| accepted(judge(request, &policy, &TABLE)).pin_account.map(<[u8]>::to_vec);
    let untyped = Request { account: None, ..by("", "gres/gpu:2") };
    assert_eq!(pinned(&untyped), Some(b"course".to_vec()));
    assert_eq!(pinned(&by("free", "gres/gpu:2")), None, "it is named");
    let typed = Request { tres_per_node: Some(b"gres/gpu:a40:2"), ..untyped };
    assert_eq!(pinned(&typed), None, "right under every account");
    assert_eq!(pinned(&Request { tres_per_node: None, ..untyped }), None);
    let off = Policy { accounts: GovernedAccounts::Off, ..Policy::default() };
    assert_eq!(accepted(judge(&untyped, &off, &TABLE)).pin_account, None, "no account counts");
}

/// Looking up the associations would be unnecessary, except for advice where the QOS has no limit on the type.
#[test]
fn typed_requests_need_no_association() {
    let silent = Policy { limit_advice: LimitAdvice::Off, ..Policy::default() };
    let no_look = Table { associations: false, ..TABLE };
    let tasks = Request { ntasks_per_tres: Some(2), ..by("acct", "gres/gpu:a40:2") };
    for request in [
        by("acct", "gres/gpu:a40:2"),
        by("acct", "gres/nic:1,gres/gpu:h100:1"),
        by("acct", ""),
        Request { qos: None, ..by("acct", "gres/gpu:a40:2") },
        tasks,
    ] {
        accepted(judge(&request, &silent, &no_look));
    }
    let governed = Request { qos: Some(b"qos_lafferty"), ..by("acct", "gres/gpu:a40:2") };
    accepted(judge(&governed, &Policy::default(), &no_look));
}

#[test]
fn a_job_comes_under_an_account_only_with_its_gpus_named_again() {
    let (typed, stays) = ("gres/gpu:a40:2", Some(Rule::OldRequestStays));
    for (change, account, text, expected) in [
        ("account=acct", "free", "gres/gpu:2", stays),
        ("account=acct", "free", typed, Some(Rule::NotRestated)),
        ("account=acct", "free", "", stays),
        ("account=acct node=gres/gpu:a40:1", "free", "gres/gpu:2", stays),
        ("account=acct node=gres/gpu:a40:1", "free", typed, None),
        ("account=ACCT", "acct", typed, None),
        ("account=free", "acct", "gres/gpu:2", None),
        ("account=mine", "acct", typed, Some(Rule::NotRestated)),
        // The account above has the limit, and the job was already under it.
        ("account=sister", "child", typed, None),
        ("account=child", "sister", typed, Some(Rule::NotRestated)),
        ("node=gres/gpu:2", "acct", typed, Some(Rule::TypeMissing)),
        ("node=gresgpu", "acct", typed, Some(Rule::Unreadable)),
        ("node=gres/gpu:h100:2", "acct", typed, None),
        ("node=gres/gpu:2", "free", typed, None),
        ("per-gpu=1", "acct", "", Some(Rule::NtasksPerGpuAlone)),
        ("p=q", "parted", typed, Some(Rule::NotRestated)),
        ("p=q", "parted", "gres/gpu:2", stays),
        ("p=q node=gres/gpu:a40:1", "parted", "gres/gpu:2", stays),
        ("p=q node=gres/gpu:a40:1", "parted", typed, None),
        ("p=q", "acct", typed, None),
        ("qos=listed_by_name", "acct", typed, None),
    ] {
        let found = broken(changed(asked(change), &by(account, text), &Policy::default()));
        assert_eq!(found, expected, "{change} of {account} {text}");
    }
    let warned = with_record("soft", QosRecord { mode: Some(Mode::Warn), ..QosRecord::default() });
    let soft = Request { qos: Some(b"soft"), ..by("acct", "") };
    let found = broken(changed(asked("qos=normal"), &soft, &warned));
    assert_eq!(found, Some(Rule::OldRequestStays), "what was let pass there is not here");
}

#[test]
fn an_updates_correction_names_what_brings_the_job_there() {
    for (change, account, text, expected) in [
        ("account=acct", "free", "gres/gpu:a40:2", Some(("account", "acct"))),
        ("p=q", "parted", "gres/gpu:a40:2", Some(("partition", "q"))),
        ("node=gres/gpu:2", "acct", "gres/gpu:a40:1", None),
    ] {
        let found = refused(changed(asked(change), &by(account, text), &Policy::default())).ground;
        let Ground::Account { named, .. } = found else { panic!("{found:?}") };
        assert_eq!(named, expected.map(|(key, name)| (key, name.as_bytes().to_vec())), "{change}");
    }
}

#[test]
fn gpus_for_the_whole_job_bound_its_nodes_under_an_account_too() {
    for (account, expected) in [("acct", Some(1)), ("child", Some(1)), ("free", None)] {
        let request =
            Request { tres_per_node: None, tres_per_job: Some(b"gres/gpu:a40:1"), ..by(account, "") };
        let most = accepted(judge(&request, &Policy::default(), &TABLE)).most_nodes;
        assert_eq!(most, expected, "{account}");
    }
    let hidden = Request { cpus_per_tres: Some(b"gres/gpu:A40:1"), ..by("acct", "gres/gpu:a40:4") };
    assert_eq!(rule(&hidden, &Policy::default()), Some(Rule::TypeOfNone));
}

/// A GRES whose name begins with another's isn't the other.
#[test]
fn a_share_whose_name_begins_with_gpu_is_none_of_whole_gpus() {
    let gres = GovernedGres(["gpu", "gpushare"].map(str::to_owned).to_vec());
    let share_gres = ShareGres("gpushare".to_owned());
    let policy = Policy { gres, share_gres, foreign_types: ForeignTypes::Allow, ..Policy::default() };
    for (text, expected) in [
        ("gres/gpu:a40:1,gres/gpushare:2", Some(Rule::TypeMissing)),
        ("gres/gpushare:2", Some(Rule::TypeMissing)),
        ("gres/gpushare:mAA0zxtUzzzz:2", Some(Rule::TypeUnknown)),
        ("gres/gpushare:a40:2", None),
    ] {
        let request = Request { account: Some(b"ours"), ..node("qos_both", text) };
        assert_eq!(rule(&request, &policy), expected, "{text}");
    }
    let elsewhere = Request { account: Some(b"free"), ..node("qos_both", "gres/gpushare:mAA0zxtUzzzz:2") };
    assert_eq!(rule(&elsewhere, &policy), Some(Rule::TypeUnknown));
}

#[test]
fn a_limit_on_all_shares_hides_none_on_a_type_of_them() {
    for (qos, text, expected) in [
        ("qos_counted", "gres/mps:40", None),
        ("qos_counted_twice", "gres/mps:40", Some(Rule::TypeMissing)),
        ("qos_counted_twice", "gres/mps:a40:40", None),
        ("qos_counted_twice", "gres/mps:h100:40", None),
        ("qos_counted_twice", "gres/mps:p100:40", Some(Rule::TypeUnknown)),
    ] {
        assert_eq!(rule(&node(qos, text), &Policy::default()), expected, "{qos} {text}");
    }
}

#[test]
fn a_type_of_an_account_is_spelled_as_the_file_shows_it() {
    let policy = Policy { types: vec!["A40".to_owned()], ..Policy::default() };
    let refusal = refused(judge(&asked("qos=normal account=acct node=gres/gpu:1"), &policy, &TABLE));
    assert_eq!(tried(&refusal).as_deref(), Some("--account=acct --gres=gpu:A40:1"));
}
