//! The rules as tables: one line a case.

use super::*;
use crate::grammar::Spelling;

/// QOSes with their limits, and the types the cluster knows; `lafferty` is the default of every user.
struct Table;

type Limits = &'static [(&'static str, Option<u64>)];

const QOSES: [(&str, Limits); 6] = [
    ("qos_lafferty", &[("a40", Some(4))]),
    ("qos_two", &[("a40", Some(4)), ("h100", Some(2))]),
    ("qos_none_of_h100", &[("a40", Some(4)), ("h100", Some(0))]),
    ("qos_minutes", &[("a40", None)]),
    ("normal", &[]),
    ("listed_by_name", &[]),
];

impl Accounting for Table {
    type Qos = usize;
    fn qos_named(&self, name: &[u8]) -> Option<usize> {
        QOSES.iter().position(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name))
    }
    fn default_qos(&self, request: &Request) -> Option<usize> {
        self.qos_named(if request.user_id == 0 { b"normal" } else { b"qos_lafferty" })
    }
    fn name(&self, qos: usize) -> &[u8] {
        QOSES[qos].0.as_bytes()
    }
    fn typed_limits<'s>(&'s self, qos: usize, _gres: &'s [u8]) -> impl Iterator<Item = TypedLimit<'s>> {
        QOSES[qos].1.iter().map(|(kind, count)| TypedLimit { kind: kind.as_bytes(), count: *count })
    }
    fn types<'s>(&'s self, _gres: &'s [u8]) -> impl Iterator<Item = &'s [u8]> {
        [b"a40".as_slice(), b"h100"].into_iter()
    }
}

const AUTO: Policy = Policy { governed: Governed::Auto, foreign_types: ForeignTypes::Deny };

fn rule(request: &Request, policy: &Policy) -> Option<Rule> {
    match judge(request, policy, &Table) {
        Verdict::Accept(_) => None,
        Verdict::Refuse(refusal) => Some(refusal.rule),
    }
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
        ("qos_lafferty", "gres/gpu:A40:1", Some(Rule::TypeUnknown)),
        ("qos_lafferty", "gres/gpu:mAA0zxtUzzzz:2", Some(Rule::TypeUnknown)),
        ("qos_lafferty", "gres/gpu:h100:1", Some(Rule::TypeForeign)),
        ("qos_none_of_h100", "gres/gpu:h100:1", Some(Rule::TypeForeign)),
        ("qos_two", "gres/gpu:h100:1,gres/gpu:a40:1", None),
        ("qos_minutes", "gres/gpu:a40:1", None),
        ("qos_minutes", "gres/gpu:1", Some(Rule::TypeMissing)),
        ("qos_lafferty", "gres/gpu::2", Some(Rule::Unreadable)),
        ("qos_lafferty", "gresgpu", Some(Rule::Unreadable)),
        ("qos_lafferty", "gres:gpu:a40:1", Some(Rule::Unreadable)),
        ("normal", "gres/gpu:2", None),
        ("no_such_qos", "gres/gpu:2", None),
    ] {
        assert_eq!(rule(&node(qos, text), &AUTO), expected, "{qos} {text}");
    }
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
        assert_eq!(rule(&request, &AUTO), Some(Rule::TypeMissing), "{request:?}");
    }
}

#[test]
fn ntasks_per_gpu_counts_as_untyped_unless_a_type_is_named() {
    let alone =
        Request { qos: Some(b"qos_lafferty"), ntasks_per_tres: Some(2), ..Request::new(Spelling::Slash) };
    assert_eq!(rule(&alone, &AUTO), Some(Rule::NtasksPerGpuAlone));
    let typed = Request { tres_per_job: Some(b"gres/gpu:a40:1"), ..alone };
    assert_eq!(rule(&typed, &AUTO), None);
    let typed_zero = Request { tres_per_job: Some(b"gres/gpu:a40:0"), ..alone };
    assert_eq!(rule(&typed_zero, &AUTO), Some(Rule::NtasksPerGpuAlone));
}

#[test]
fn the_default_qos_is_judged_and_pinned() {
    let mut request = node("", "gres/gpu:2");
    request.qos = None;
    request.user_id = 2001;
    assert_eq!(rule(&request, &AUTO), Some(Rule::TypeMissing));
    request.tres_per_node = Some(b"gres/gpu:a40:2");
    let expected = Acceptance { pin_qos: Some(b"qos_lafferty"), share_units: None };
    assert_eq!(judge(&request, &AUTO, &Table), Verdict::Accept(expected));
    request.tres_per_node = None;
    assert_eq!(judge(&request, &AUTO, &Table), Verdict::Accept(Acceptance::default()));
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
        assert_eq!(rule(&node(qos, "gres/gpu:a40:1"), &AUTO), expected, "{qos}");
    }
}

#[test]
fn names_govern_what_they_match_and_nothing_else() {
    let by_name = Policy { governed: Governed::Names(vec!["listed*".to_owned()]), ..Policy::default() };
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
    let request = node("normal", "gres/mps:40");
    let Verdict::Accept(accepted) = judge(&request, &AUTO, &Table) else { panic!("refused") };
    assert_eq!(accepted.share_units, Some(40));
}

#[test]
fn what_is_longer_than_slurm_accepts_is_refused_without_a_look() {
    struct NoLook;
    impl Accounting for NoLook {
        type Qos = ();
        fn qos_named(&self, _: &[u8]) -> Option<()> {
            panic!("looked up a QOS")
        }
        fn default_qos(&self, _: &Request) -> Option<()> {
            panic!("looked up the default QOS")
        }
        fn name(&self, (): ()) -> &[u8] {
            b""
        }
        fn typed_limits<'s>(&'s self, (): (), _: &'s [u8]) -> impl Iterator<Item = TypedLimit<'s>> {
            std::iter::empty()
        }
        fn types<'s>(&'s self, _: &'s [u8]) -> impl Iterator<Item = &'s [u8]> {
            std::iter::empty()
        }
    }
    let long = "gres/gpu:a40:1,".repeat(100_000);
    let list = "a,".repeat(100_000);
    for request in [node("qos_lafferty", &long), node(&list, "gres/gpu:a40:1"), node(&long, "")] {
        let Verdict::Refuse(refusal) = judge(&request, &AUTO, &NoLook) else { panic!("accepted") };
        assert_eq!((refusal.rule, refusal.asked.len()), (Rule::TooLong, QUOTED));
    }
    assert_eq!(rule(&node("qos_lafferty", &"gres/gpu:a40:1,".repeat(68)), &AUTO), None, "1020 bytes pass");
}

#[test]
fn ntasks_per_gpu_is_advised_as_many_gpus_as_slurm_would_invent() {
    let empty = Request { qos: Some(b"qos_lafferty"), ..Request::new(Spelling::Slash) };
    for (tasks, each, expected) in [(Some(4), 1, 4), (Some(5), 2, 3), (None, 2, 1), (Some(0), 1, 1)] {
        let request = Request { num_tasks: tasks, ntasks_per_tres: Some(each), ..empty };
        let Verdict::Refuse(refusal) = judge(&request, &AUTO, &Table) else { panic!("accepted") };
        assert_eq!(refusal.count, expected, "{tasks:?} tasks, {each} each");
    }
}

#[test]
fn patterns_match_as_globs_do() {
    for (pattern, name, expected) in [
        ("qos_*", "qos_lafferty", true),
        ("QOS_*", "qos_lafferty", true),
        ("*", "", true),
        ("", "", true),
        ("", "a", false),
        ("*_gpu", "savio_gpu", true),
        ("*_gpu", "savio_gpu2", false),
        ("a*b*c", "aXbYbZc", true),
        ("a*b*c", "aXbYbZ", false),
    ] {
        assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
    }
}

proptest::proptest! {
    #[test]
    fn nothing_accepted_under_a_governed_qos_is_untyped(
        text in "(gres[:/]?|,|gpu|:|=|a40|h100|[0-9]|k| ){0,12}",
    ) {
        let request = node("qos_lafferty", &text);
        if rule(&request, &AUTO).is_none() {
            for (_, token) in request.tokens() {
                let harmless = match token {
                    Token::Gres(gres) => gres.name != b"gpu" || gres.count == 0 || gres.kind == Some(b"a40"),
                    Token::Other => true,
                    Token::Unrecognised(_) => false,
                };
                proptest::prop_assert!(harmless, "{text}");
            }
        }
    }
}
