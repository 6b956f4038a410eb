//! The rules as tables, with one case per line.

use std::cell::Cell;

use super::*;
use crate::submit::grammar::{Spelling, Token};
use crate::submit::request::Batch;
use crate::text::pattern::Patterns;
use asked::{accepted, asked, broken, changed, refused, tried};

fn patterns(text: &str) -> Patterns {
    Patterns::parse(text).unwrap()
}

/// QOSes with their limits (`a40`: on gres/gpu:a40, `mps:`: on all of gres/mps), and the types that the cluster knows.
struct Table {
    /// Whether a test may look up the QOS and the owner, and associations.
    names: bool,
    associations: bool,
    /// slurm.conf's default for a job that requests no memory.
    memory: DefaultMemory,
}
const TABLE: Table =
    Table { names: true, associations: true, memory: DefaultMemory { of_node: Some(true), of_gpu: None } };
thread_local! {
    /// How often a partition's memory was looked up.
    static ASKED: Cell<usize> = const { Cell::new(0) };
}
type Limits = &'static [(&'static str, Option<u64>)];

const LONG_NAME: &str = "qos_of_a_hundred_and_thirty_a_hundred_and_thirty_a_hundred_and_thirty_a_hundred_and_thirty_a_hundred_and_thirty_a_hundred_and_thir";

const QOSES: [(&str, Limits); 21] = [
    (LONG_NAME, &[("a40", Some(4))]),
    ("qos_shards_only", &[("shard:a40", Some(8))]),
    ("qos_shards_instead", &[("a40", Some(0)), ("shard:a40", Some(8))]),
    ("qos_counted", &[("a40", Some(4)), ("mps:", Some(200))]),
    ("qos_counted_twice", &[("a40", Some(4)), ("mps:", Some(200)), ("mps:a40", Some(40))]),
    ("qos_sum", &[("gpu:", Some(4))]),
    ("qos_all_shards", &[("shard:", Some(8))]),
    ("qos_no_shards", &[("shard:", Some(0)), ("mps:", None)]),
    ("qos_sum_and_shards", &[("gpu:", Some(4)), ("shard:", Some(8))]),
    ("qos_both", &[("a40", Some(4)), ("gpushare:", Some(100))]),
    ("qos_shards", &[("a40", Some(4)), ("shard:a40", Some(8))]),
    ("qos_lafferty", &[("a40", Some(4))]),
    ("qos_two", &[("a40", Some(4)), ("h100", Some(2))]),
    ("qos_two_and_shards", &[("a40", Some(2)), ("h100", Some(4)), ("shard:a40", Some(8))]),
    ("qos_none_of_h100", &[("a40", Some(4)), ("h100", Some(0))]),
    ("qos_of_nothing", &[("h100", Some(0))]),
    ("qos_minutes", &[("a40", None)]),
    ("qos_billed", &[]),
    ("qos_shares_billed", &[("a40", Some(4)), ("mps:", Some(200))]),
    ("normal", &[]),
    ("listed_by_name", &[]),
];

impl Accounting for Table {
    type Qos = usize;
    fn qos_named(&self, name: &[u8]) -> Option<usize> {
        assert!(self.names, "looked up a QOS");
        QOSES.iter().position(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name))
    }
    fn default_qos(&self, request: &Request) -> DefaultQos<usize> {
        assert!(self.names, "looked up the default QOS");
        let named = |name: &[u8]| self.qos_named(name);
        if request.partition_is_the_reservations() {
            let both = [named(b"normal"), named(b"qos_lafferty")];
            return DefaultQos::OneOf(both.into_iter().flatten().collect());
        }
        let name: &[u8] = match request.user_id {
            0 => b"normal",
            99 => b"no such QOS",
            _ => b"qos_lafferty",
        };
        named(name).map_or(DefaultQos::None, DefaultQos::One)
    }
    fn name(&self, qos: usize) -> &[u8] {
        QOSES[qos].0.as_bytes()
    }
    fn typed_limits<'s>(&'s self, qos: usize, gres: &'s [u8]) -> impl Iterator<Item = TypedLimit<'s>> {
        let limits = QOSES[qos].1.iter().filter_map(move |(name, count)| {
            let (name, gres_type) = name.split_once(':').unwrap_or(("gpu", name));
            (name.as_bytes() == gres && !gres_type.is_empty()).then_some((gres_type, *count))
        });
        limits.map(|(gres_type, count)| TypedLimit { gres_type: gres_type.as_bytes(), count, of_job: count })
    }
    fn limit_on_all(&self, qos: usize, gres: &[u8]) -> Option<Option<u64>> {
        let mut limits = QOSES[qos].1.iter();
        let of_all = |name: &str| name.strip_suffix(':').is_some_and(|name| name.as_bytes() == gres);
        limits.find(|(name, _)| of_all(name)).map(|(_, count)| *count)
    }
    fn types<'s>(&'s self, _gres: &'s [u8]) -> impl Iterator<Item = &'s [u8]> {
        [b"h100".as_slice(), b"a40"].into_iter()
    }
    fn has_node(&self, name: &str) -> bool {
        name != "gone"
    }
    fn counts(&self, gres: &[u8]) -> bool {
        [b"gpu".as_slice(), b"shard", b"gpu:h100", b"gpu:a40"].contains(&gres)
    }
    fn owner(&self, request: &Request) -> Option<Owner<'_>> {
        assert!(self.names, "looked up the owner");
        let user: &[u8] = if request.user_id == 0 { b"root" } else { b"alice" };
        Some(Owner { user, account: if request.account.is_some() { b"staff" } else { b"course" } })
    }
    fn associations<'s>(&'s self, request: &Request, look: impl FnMut(Association<'s>)) {
        assert!(self.associations, "looked up the associations");
        accounts::chain(request).into_iter().for_each(look);
    }
    fn most_nodes(&self, request: &Request) -> Option<u32> {
        let name = request.partition?;
        str::from_utf8(name.strip_prefix(b"most")?).ok()?.parse().ok()
    }
    fn passes_max_nodes(&self, qos: usize) -> bool {
        QOSES[qos].0 == "qos_sum"
    }
    fn limits_billing(&self, qos: usize) -> bool {
        QOSES[qos].0.ends_with("billed")
    }
    fn billing_weights(&self, request: &Request, mut look: impl FnMut(&[u8])) {
        for name in request.partition.unwrap_or_default().split(|byte| *byte == b',') {
            match name {
                b"billed" => look(b"CPU=1.0,GRES/gpu:a40=2.0"),
                b"billed_shares" => look(b"GRES/mps:a40=0.1"),
                b"alike" => look(b"CPU=1.0,GRES/gpu=2.0,GRES/gpu:a40=0.0"),
                _ => look(b"CPU=1.0"),
            }
        }
    }
    fn default_partition(&self) -> Option<&[u8]> {
        Some(b"main")
    }
    fn default_memory(&self, partition: &[u8]) -> DefaultMemory {
        ASKED.set(ASKED.get() + 1);
        let own = match partition {
            b"given" => (Some(true), None),
            b"unlimited" => (Some(false), None),
            b"for_gpus" => (None, Some(true)),
            b"for_none" => (None, Some(false)),
            _ => (None, None),
        };
        DefaultMemory { of_node: own.0, of_gpu: own.1 }.over(self.memory)
    }
}

fn rule(request: &Request, policy: &Policy) -> Option<Rule> {
    broken(judge(request, policy, &TABLE))
}

fn node<'a>(qos: &'a str, text: &'a str) -> Request<'a> {
    Request {
        qos: Some(qos.as_bytes()),
        tres_per_node: Some(text.as_bytes()),
        ..Request::new(Spelling::Slash)
    }
}

#[test]
fn under_a_governed_qos_only_its_own_types_pass() {
    for (qos, text, expected) in [
        ("qos_lafferty", "gres/gpu:a40:2", None),
        ("QOS_Lafferty", "gres/gpu:a40:2", None),
        ("QOS_Lafferty", "gres/gpu:2", Some(Rule::TypeMissing)),
        ("qos_lafferty", "gres/gpu", Some(Rule::TypeMissing)),
        ("qos_lafferty", "gres/gpu:2", Some(Rule::TypeMissing)),
        ("qos_lafferty", "gres/gpu:1g", Some(Rule::TypeMissing)),
        ("qos_lafferty", "gres/gpu:a40:1,gres/gpu:1", Some(Rule::TypeMissing)),
        ("qos_lafferty", "gres/nic:1", None),
        ("qos_lafferty", "gres/gpu:0", None),
        ("qos_lafferty", "gres/gpu:A40:1", None),
        ("qos_lafferty", "gres/gpu:H100:1", Some(Rule::TypeForeign)),
        ("qos_lafferty", "gres/gpu:mAA0zxtUzzzz:2", Some(Rule::TypeUnknown)),
        ("qos_lafferty", "gres/gpu:h100:1", Some(Rule::TypeForeign)),
        ("qos_none_of_h100", "gres/gpu:h100:1", Some(Rule::TypeForeign)),
        ("qos_of_nothing", "gres/gpu:1", Some(Rule::TypeMissing)),
        ("qos_of_nothing", "gres/gpu:h100:1", Some(Rule::TypeForeign)),
        ("qos_of_nothing", "gres/gpu:a40:1", Some(Rule::TypeForeign)),
        ("qos_two", "gres/gpu:h100:1,gres/gpu:a40:1", None),
        ("qos_minutes", "gres/gpu:a40:1", None),
        ("qos_minutes", "gres/gpu:1", Some(Rule::TypeMissing)),
        ("qos_lafferty", "gres/gpu::2", Some(Rule::Unreadable)),
        ("qos_lafferty", "gresgpu", Some(Rule::Unreadable)),
        ("qos_lafferty", "gres:gpu:a40:1", Some(Rule::Unreadable)),
        ("normal", "gres/gpu:2", None),
        ("no_such_qos", "gres/gpu:2", None),
    ] {
        assert_eq!(rule(&node(qos, text), &Policy::default()), expected, "{qos} {text}");
    }
}

/// Slurm's database has a40 and h100, however nodes spell them.
#[test]
fn a_type_is_written_as_the_file_writes_it() {
    let policy = Policy { types: vec!["A40".to_owned()], ..Policy::default() };
    for (text, expected) in [
        ("gres/gpu:A40:1", None),
        ("gres/gpu:a40:1", Some(Rule::TypeUnknown)),
        ("gres/gpu:1", Some(Rule::TypeMissing)),
        ("gres/gpu:H100:1", Some(Rule::TypeForeign)),
        ("gres/gpu:mAA0zxtUzzzz:1", Some(Rule::TypeUnknown)),
    ] {
        let request = node("qos_lafferty", text);
        let Err(refusal) = judge(&request, &policy, &TABLE) else {
            assert_eq!(expected, None, "{text}");
            continue;
        };
        assert_eq!(Some(refusal.rule), expected, "{text}");
        assert_eq!(refusal.offer, Offer::OfQos(vec![(b"A40".to_vec(), Some(4))]), "{text}");
    }
    let filled = Policy { mode: Mode::Default, ..policy };
    let request = node("qos_lafferty", "gres/gpu:2");
    let accepted = accepted(judge(&request, &filled, &TABLE));
    let Some(Remark::Changed(Change::Type { given, .. })) = accepted.remarks.first() else {
        panic!("{accepted:?}")
    };
    assert_eq!(given, b"gpu:A40:2");
}

#[test]
fn every_field_is_judged() {
    let text = Some(b"gres/gpu:2".as_slice());
    let empty = Request { qos: Some(b"qos_lafferty"), ..Request::new(Spelling::Slash) };
    for request in [
        Request { tres_per_job: text, ..empty },
        Request { tres_per_node: text, ..empty },
        Request { tres_per_socket: text, ..empty },
        Request { tres_per_task: text, ..empty },
    ] {
        assert_eq!(rule(&request, &Policy::default()), Some(Rule::TypeMissing), "{request:?}");
    }
}

#[test]
fn ntasks_per_gpu_counts_as_untyped_unless_a_type_is_named() {
    let alone =
        Request { qos: Some(b"qos_lafferty"), ntasks_per_tres: Some(2), ..Request::new(Spelling::Slash) };
    assert_eq!(rule(&alone, &Policy::default()), Some(Rule::NtasksPerGpuAlone));
    let typed = Request { tres_per_job: Some(b"gres/gpu:a40:1"), ..alone };
    assert_eq!(rule(&typed, &Policy::default()), None);
    let typed_zero = Request { tres_per_job: Some(b"gres/gpu:a40:0"), ..alone };
    assert_eq!(rule(&typed_zero, &Policy::default()), Some(Rule::NtasksPerGpuAlone));
}

#[test]
fn the_default_qos_is_judged_and_pinned() {
    let mut request = node("", "gres/gpu:2");
    request.qos = None;
    request.user_id = 2001;
    assert_eq!(rule(&request, &Policy::default()), Some(Rule::TypeMissing));
    request.tres_per_node = Some(b"gres/gpu:a40:2");
    let expected = Acceptance { pin_qos: Some(b"qos_lafferty"), ..Acceptance::default() };
    assert_eq!(judge(&request, &Policy::default(), &TABLE), Ok(expected));
    request.tres_per_node = None;
    assert_eq!(judge(&request, &Policy::default(), &TABLE), Ok(Acceptance::default()));
}

#[test]
fn a_list_with_a_governed_qos_is_refused_even_when_typed() {
    for (qos, expected) in [
        ("normal,qos_lafferty", Some(Rule::QosList)),
        ("qos_lafferty,", Some(Rule::QosList)),
        ("normal,listed_by_name", None),
        ("qos_lafferty,--gres=gpu:a40:2", Some(Rule::OptionInsideQos)),
        ("normal,--gres=gpu:2", Some(Rule::OptionInsideQos)),
    ] {
        assert_eq!(rule(&node(qos, "gres/gpu:a40:1"), &Policy::default()), expected, "{qos}");
    }
}

#[test]
fn names_govern_what_they_match_and_nothing_else() {
    let by_name = Policy { governed: Governed::Names(patterns("listed*")), ..Policy::default() };
    assert_eq!(rule(&node("listed_by_name", "gres/gpu:2"), &by_name), Some(Rule::TypeMissing));
    assert_eq!(
        rule(&node("listed_by_name", "gres/gpu:h100:2"), &by_name),
        None,
        "no limits, so none foreign"
    );
    assert_eq!(rule(&node("qos_lafferty", "gres/gpu:2"), &by_name), None);
}

#[test]
fn foreign_types_pass_where_the_site_allows_them() {
    let allow = Policy { foreign_types: ForeignTypes::Allow, ..Policy::default() };
    assert_eq!(rule(&node("qos_lafferty", "gres/gpu:h100:1"), &allow), None);
    assert_eq!(rule(&node("qos_lafferty", "gres/gpu:p100:1"), &allow), Some(Rule::TypeUnknown));
}

#[test]
fn a_share_is_passed_on() {
    let policy = Policy::default();
    let accepted = accepted(judge(&node("normal", "gres/mps:40"), &policy, &TABLE));
    assert_eq!(accepted.share, Some(("mps", 40)));
}

#[test]
fn what_is_longer_than_slurm_accepts_is_refused_without_a_look() {
    let no_look = Table { names: false, ..TABLE };
    let long = "gres/gpu:a40:1,".repeat(100_000);
    let list = "a,".repeat(100_000);
    for request in [node("qos_lafferty", &long), node(&list, "gres/gpu:a40:1"), node(&long, "")] {
        let refusal = refused(judge(&request, &Policy::default(), &no_look));
        assert_eq!((refusal.rule, refusal.asked.len()), (Rule::TooLong, QUOTED));
    }
    assert_eq!(
        rule(&node("qos_lafferty", &"gres/gpu:a40:1,".repeat(68)), &Policy::default()),
        None,
        "1020 bytes pass"
    );
}

#[test]
fn ntasks_per_gpu_is_advised_as_many_gpus_as_slurm_would_invent() {
    let empty = Request { qos: Some(b"qos_lafferty"), ..Request::new(Spelling::Slash) };
    for (tasks, each, expected) in [(Some(4), 1, 4), (Some(5), 2, 3), (None, 2, 1), (Some(0), 1, 1)] {
        let request = Request { num_tasks: tasks, ntasks_per_tres: Some(each), ..empty };
        let refusal = refused(judge(&request, &Policy::default(), &TABLE));
        assert_eq!(refusal.count, expected, "{tasks:?} tasks, {each} each");
    }
}

#[test]
fn without_a_default_qos_the_partition_still_counts() {
    let policy = Policy { partitions: patterns("main"), ..Policy::default() };
    let nobody = Request { user_id: 99, qos: None, ..node("", "gres/gpu:1") };
    assert_eq!(rule(&nobody, &policy), Some(Rule::TypeMissing));
    assert_eq!(rule(&nobody, &Policy::default()), None);
}

#[test]
fn any_name_may_be_too_long() {
    let long = "x".repeat(1025);
    let long = Some(long.as_bytes());
    let none = Request::new(Spelling::Slash);
    for request in [
        Request { qos: long, ..none },
        Request { account: long, ..none },
        Request { partition: long, ..none },
        Request { reservation: long, ..none },
    ] {
        assert_eq!(rule(&request, &Policy::default()), Some(Rule::TooLong));
    }
}

#[test]
fn a_default_qos_that_depends_on_the_reservation_is_judged_in_every_form_and_not_pinned() {
    let request = Request { qos: None, reservation: Some(b"r"), ..node("", "gres/gpu:1") };
    assert_eq!(rule(&request, &Policy::default()), Some(Rule::TypeMissing));
    let typed = Request { tres_per_node: Some(b"gres/gpu:a40:1"), ..request };
    assert_eq!(judge(&typed, &Policy::default(), &TABLE), Ok(Acceptance::default()));
}

mod accounts;
mod advice;
mod asked;
mod billing;
mod corrections;
mod counts;
mod entries;
mod halves;
mod modes;
mod no_gpu;
mod shares;
mod site;
mod tried;
mod unanswered;
mod updates;
mod zeros;

proptest::proptest! {
    #[test]
    fn nothing_accepted_under_a_governed_qos_is_untyped(
        text in "(gres[:/]?|,|gpu|:|=|a40|h100|[0-9]|k| ){0,12}",
    ) {
        let request = node("qos_lafferty", &text);
        if rule(&request, &Policy::default()).is_none() {
            for (_, token) in Parsed::from(request).tokens() {
                let harmless = match token {
                    Token::Gres(gres) => {
                        let policed = GovernedGres::default().has(gres.name);
                        !policed || gres.count == 0 || (gres.name == b"gpu" && gres.gres_type == Some(b"a40"))
                    }
                    Token::Cpus(_) | Token::Other => true,
                    Token::Unrecognised(_) => false,
                };
                proptest::prop_assert!(harmless, "{text}");
            }
        }
    }
}

#[test]
fn types_are_offered_by_name_whatever_the_order_of_the_database() {
    let policy = Policy { partitions: patterns("owned"), ..Policy::default() };
    for text in ["gres/gpu:1", "gres/gpu:h1:1"] {
        let request = Request { partition: Some(b"owned"), ..node("normal", text) };
        let refusal = refused(judge(&request, &policy, &TABLE));
        assert_eq!(refusal.offer, Offer::OfCluster(["a40", "h100"].map(Vec::from).to_vec()));
    }
}
