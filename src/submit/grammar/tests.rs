//! Strings and what is read in them.

use super::*;
use Spelling::{Colon, Slash};

fn one(text: &str, spelling: Spelling) -> Token<'_> {
    let mut all = tokens(text.as_bytes(), spelling).map(|(_, token)| token);
    let first = all.next().unwrap_or(Token::Other);
    assert!(all.next().is_none(), "{text} is one token");
    first
}

fn unread(text: &str, spelling: Spelling) -> Token<'_> {
    Token::Unrecognised(Unread { text: text.as_bytes(), spelling })
}

#[test]
fn plain_forms_are_read_as_slurm_reads_them() {
    let table: [(&str, Option<&str>, u64); 18] = [
        ("gpu", None, 1),
        ("gpu:2", None, 2),
        ("gpu:a40", Some("a40"), 1),
        ("gpu:a40:2", Some("a40"), 2),
        ("gpu:_a40:2", Some("_a40"), 2),
        ("gpu:a40:0", Some("a40"), 0),
        ("gpu:0", None, 0),
        ("gpu:1g", None, 1 << 30),
        ("gpu:1g:1", Some("1g"), 1),
        ("gpu:3090:2", Some("3090"), 2),
        ("gpu:1g.5gb", Some("1g.5gb"), 1),
        ("gpu:1g.5gb:2", Some("1g.5gb"), 2),
        ("gpu:2k", None, 2048),
        ("gpu:2K", None, 2048),
        ("gpu:2kb", None, 2000),
        ("gpu:2kib", None, 2048),
        ("gpu:2MiB", None, 2 << 20),
        ("gpu:007", None, 7),
    ];
    for (text, gres_type, count) in table {
        for (spelling, prefix) in [(Colon, "gres:"), (Slash, "gres/")] {
            let sent = format!("{prefix}{text}");
            let expected = Gres { name: b"gpu", gres_type: gres_type.map(str::as_bytes), count };
            assert_eq!(one(&sent, spelling), Token::Gres(expected), "{sent}");
        }
    }
}

#[test]
fn equals_sign_separates_the_count_from_23_11_only() {
    for (text, gres_type) in [("gres/gpu=2", None), ("gres/gpu:a40=2", Some(b"a40".as_slice()))] {
        assert_eq!(one(text, Slash), Token::Gres(Gres { name: b"gpu", gres_type, count: 2 }), "{text}");
    }
    for text in ["gres:gpu=2", "gres:gpu:a40=2"] {
        assert_eq!(one(text, Colon), unread(text, Colon), "{text}");
    }
}

#[test]
fn what_can_be_read_in_two_ways_is_not_recognised() {
    for tail in [
        "gpu:",
        "gpu::2",
        "gpu:a40:",
        "gpu:a40:k",
        "gpu:k",
        "gpu:GiB",
        "gpu:16777216t",
        "gpu:20000000p",
        "2",
        "2:1",
        "gpu:+2",
        "gpu:-1",
        "gpu:-2",
        "gpu: 2",
        "gpu:2 ",
        "gpu(S:0-1):2",
        "gpu:a40:2(S:0)",
        "gpu:18446744073709551615",
        "gpu:18446744073709551616",
        ":2",
        "/gpu:2",
        "gpu:a40:2 gres/gpu:1",
        "gpu=",
        "gpu=a40:2",
        "gpu=a40=2",
        "gpu:=2",
        "gpu/a40:2",
        "gpu:a40\n:1",
    ] {
        for (spelling, prefix) in [(Colon, "gres:"), (Slash, "gres/")] {
            let sent = format!("{prefix}{tail}");
            assert_eq!(one(&sent, spelling), unread(&sent, spelling), "{sent}");
        }
    }
}

#[test]
fn a_type_has_what_slurm_takes_and_its_end_where_slurm_sees_it() {
    for (text, colon, slash) in [
        ("gpu:nv/a40:2", Some("nv/a40"), Some("nv/a40")),
        ("gpu:(a40)", Some("(a40)"), Some("(a40)")),
        ("gpu:-1:2", Some("-1"), Some("-1")),
        ("gpu:größe@x:2", Some("größe@x"), Some("größe@x")),
        ("gpu:a40:b:2", None, Some("a40:b")),
        ("gpu:a40:b=2", None, Some("a40:b")),
        ("gpu:a40:2:3", None, Some("a40:2")),
        ("gpu:::2", None, Some(":")),
        ("gpu:a=b:2", None, None),
        ("gpu:a=b=2", None, None),
        ("gpu:a\x7fb:2", None, None),
    ] {
        for (spelling, prefix, expected) in [(Colon, "gres:", colon), (Slash, "gres/", slash)] {
            let sent = format!("{prefix}{text}");
            let found = match one(&sent, spelling) {
                Token::Gres(gres) => gres.gres_type.map(|found| String::from_utf8_lossy(found).into_owned()),
                _ => None,
            };
            assert_eq!(found.as_deref(), expected, "{sent}");
        }
    }
}

#[test]
fn a_name_begins_as_a_word_does() {
    for name in ["_gpu", "3gpu", "gpu.x-y+z"] {
        let sent = format!("gres/{name}:2");
        let expected = Gres { name: name.as_bytes(), gres_type: None, count: 2 };
        assert_eq!(one(&sent, Slash), Token::Gres(expected), "{sent}");
    }
    for name in [".gpu", "-gpu", "+gpu"] {
        let sent = format!("gres/{name}:2");
        assert_eq!(one(&sent, Slash), unread(&sent, Slash), "{sent}");
    }
}

#[test]
fn what_is_not_recognised_is_shown_as_its_user_wrote_it() {
    for (sent, spelling, shown) in [
        ("gres/gpu::2", Slash, "gpu::2"),
        ("gres:gpu::2", Colon, "gpu::2"),
        ("gres:gpu:2", Slash, "gres:gpu:2"),
        ("gresgpu", Slash, "gresgpu"),
    ] {
        let Token::Unrecognised(part) = one(sent, spelling) else { panic!("{sent} is recognised") };
        assert_eq!(part.shown(), shown.as_bytes(), "{sent}");
    }
}

#[test]
fn a_prefix_anywhere_else_is_not_recognised() {
    for text in [
        "gresgpu",
        "gresgpu:2",
        "xgres/gpu:2",
        " gres/gpu:2",
        "gres",
        "GRES/gpu:2",
        "gpu:2",
        "gpu:a40:2",
        "license/gres/gpu:2",
        "license/gres:1",
        "cpu:4gres/gpu:2",
    ] {
        assert_eq!(one(text, Slash), unread(text, Slash), "{text}");
    }
    assert_eq!(one("gres:gpu:2", Slash), unread("gres:gpu:2", Slash), "old spelling, new Slurm");
    assert_eq!(one("gres/gpu:2", Colon), unread("gres/gpu:2", Colon), "new spelling, old Slurm");
}

#[test]
fn other_tres_ask_for_no_gpu() {
    for text in ["mem=4g", "license/matlab:1", "license/matlab@host:1", "bb/cray=1", "none", "billing=3"] {
        assert_eq!(one(text, Slash), Token::Other, "{text}");
    }
    // A name that isn't a word may have another meaning to Slurm.
    for text in ["license/a b:1", "license/:1", "license/matlab@:1", "bb/-x=1"] {
        assert_eq!(one(text, Slash), unread(text, Slash), "{text}");
    }
    for (text, cpus) in [("cpu=2", 2), ("cpu:2", 2), ("cpu", 1), ("cpu=2k", 2048)] {
        assert_eq!(one(text, Slash), Token::Cpus(cpus), "{text}");
    }
}

#[test]
fn empty_tokens_are_dropped() {
    assert_eq!(tokens(b",,gres/gpu:2,", Slash).count(), 1);
    assert_eq!(tokens(b"", Slash).count(), 0);
    assert_eq!(tokens(b"gres/", Slash).count(), 0);
    assert_eq!(tokens(b"gres:,gres:gpu:2", Colon).count(), 1);
}

proptest::proptest! {
    #[test]
    fn any_bytes_give_an_answer(text in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        for spelling in [Colon, Slash] {
            let _ = tokens(&text, spelling).count();
        }
    }

    #[test]
    fn what_is_recognised_is_typed_exactly_when_it_says_so(
        gres_type in "[a-z][a-z0-9]{0,6}", count in 0_u64..1000,
    ) {
        let sent = format!("gres/gpu:{gres_type}:{count}");
        let expected = Gres { name: b"gpu", gres_type: Some(gres_type.as_bytes()), count };
        proptest::prop_assert_eq!(one(&sent, Slash), Token::Gres(expected));
    }
}
