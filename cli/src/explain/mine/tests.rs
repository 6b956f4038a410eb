use std::rc::Rc;

use gpushare_judge::accounting::Tables;

use super::*;

#[test]
fn the_options_name_what_is_no_default_and_the_types_as_the_file_spells_them() {
    let one = |default_qos: &str, partition: &str| Association {
        account: "acct".into(),
        partition: partition.into(),
        default_qos: default_qos.into(),
        ..Association::default()
    };
    let options = |one: &Association,
                   default,
                   place: &dyn Fn(&str) -> Option<Place>,
                   limits: &[Limit],
                   nodes: &[Node],
                   config: &Config| {
        let all = options(one, "two", default, place, limits, nodes, config);
        all.iter().map(|words| in_a_shell(words).unwrap()).collect::<Vec<_>>()
    };
    let limit = |tres: &str, limit| Limit { tres: tres.into(), limit, ..Limit::default() };
    let config = Config::parse("QOS=two DefaultType=A40").unwrap();
    let typed = [limit("gres/gpu:a40", 2), limit("gres/gpu:h100", 0), limit("gres/gpu", 2)];
    for (association, default, limits, expected) in [
        (one("two", ""), true, &typed[..], vec!["--gres=gpu:A40:1"]),
        (one("", "q"), false, &typed, vec!["--qos=two --account=acct --partition=q --gres=gpu:A40:1"]),
        (one("normal", ""), true, &[], vec!["--qos=two --gres=gpu:1"]),
        (one("two", ""), true, &[limit("gres/gpu", 0)], vec![]),
    ] {
        let partition = association.partition.clone();
        let place = |_: &str| Some(Place { is_default: partition.is_empty(), partition: partition.clone() });
        assert_eq!(options(&association, default, &place, limits, &[], &config), expected);
    }
    let shares = Config::parse("Placement=follow\nUnitsPerGpu=100").unwrap();
    let place = |gres: &str| Some(Place { partition: "q".into(), is_default: gres == "gpu" });
    let both = options(&one("two", ""), true, &place, &[limit("gres/mps", 200)], &[], &shares);
    assert_eq!(both, ["--gres=gpu:1", "--partition=q --gres=mps:25"]);
    assert!(options(&one("two", ""), true, &|_| None, &[], &[], &shares).is_empty(), "no node has it");
    let node = Node::read("NodeName=n Gres=gpu:A40:4").unwrap();
    let limits = [limit("gres/gpu:a40", 2)];
    let spelled = options(&one("two", ""), true, &place, &limits, &[node], &shares);
    assert_eq!(spelled, ["--partition=q --gres=gpu:A40:1"], "as Slurm finds it");
}

#[test]
fn a_name_says_nothing_to_a_shell() {
    let line = |account: &str| in_a_shell(&[format!("--account={account}"), "--gres=gpu:1".to_owned()]);
    assert_eq!(line("a b").as_deref(), Some("'--account=a b' --gres=gpu:1"));
    assert_eq!(line("$(id)").as_deref(), Some("'--account=$(id)' --gres=gpu:1"));
    assert_eq!(line("phüsik").as_deref(), Some("--account=phüsik --gres=gpu:1"));
    assert_eq!(line("a\nb"), None);
}

#[test]
fn a_qos_is_tried_where_it_is_admitted() {
    let partition = |name: &str, is_default, allowed: &[&str]| Partition {
        name: name.to_owned(),
        is_default,
        allowed: allowed.iter().map(|qos| (*qos).to_owned()).collect(),
        ..Partition::default()
    };
    let all =
        [partition("a", false, &["x"]), partition("p", true, &["normal"]), partition("b", false, &["x"])];
    let found = |qos: &str| {
        place(&Association::default(), qos, &all, |_| true).map(|place| (place.partition, place.is_default))
    };
    assert_eq!(found("normal"), Some(("p".to_owned(), true)));
    assert_eq!(found("x"), Some(("a".to_owned(), false)));
    assert_eq!(found("y"), None);
    let node = |partitions: &str, gres: &str| {
        Node::read(&format!("NodeName=n Gres={gres} Partitions={partitions}")).unwrap()
    };
    let nodes = [node("a", "gpu:a40:4"), node("b", "gpu:h100:4,mps:400")];
    let of = |gres: &str| {
        place(&Association::default(), "x", &all, |partition| has(partition, gres, &nodes))
            .map(|place| place.partition)
    };
    assert_eq!(
        ["gpu", "gpu:a40", "mps", "gpu:t4"].map(of),
        ["a", "a", "b", ""].map(|name| { Some(name.to_owned()).filter(|name| !name.is_empty()) })
    );
}

#[test]
fn a_share_is_told_with_its_sizes_and_places() {
    let of = |text: &str| shares(&Config::parse(text).unwrap());
    assert_eq!(of("# none"), None);
    assert_eq!(
        of("Placement=follow\nUnitsPerGpu=100\nShareSizes=25,50\nShareReservations=course_\n\
            ShareOnlyPartitions=edu")
        .as_deref(),
        Some(
            "--gres=mps:N, N units of one GPU, which has 100; N is one of 25, 50; only in a reservation whose name \
             contains course_; only shares are allowed in partition edu"
        )
    );
}

#[test]
fn a_share_is_told_only_where_a_request_for_one_would_be_accepted() {
    let database = || {
        let tables = Tables {
            tres: b"cpu||1\ngres|gpu|1001\ngres|gpu:a40|1002\ngres|mps|1003\n".to_vec(),
            users: b"acct|alice||q,whole|q|||\n".to_vec(),
            partitions: b"PartitionName=p Default=YES\nPartitionName=edu\n".to_vec(),
            qoses: b"q|gres/gpu:a40=4,gres/mps=200|\nwhole|gres/gpu:a40=4|\n".to_vec(),
            ..Tables::default()
        };
        Database::of("alice", Rc::new(tables.read()))
    };
    let [first, edu] = [("p", true), ("edu", false)]
        .map(|(partition, is_default)| Place { partition: partition.into(), is_default });
    for (more, qos, place, expected) in [
        ("", "q", &first, true),
        ("", "whole", &first, false),
        ("ShareReservations=course_", "q", &first, false),
        ("ShareSizes=30,50", "q", &edu, true),
    ] {
        let config = Config::parse(&format!("Placement=follow\nUnitsPerGpu=100\n{more}")).unwrap();
        let release = Release::parse(b"slurm 24.11.5\n").unwrap();
        let asking = Asking { config: &config, release, database: database(), user_id: 2001 };
        assert_eq!(asking.accepts_a_share("acct", qos, place), expected, "{more} {qos}");
    }
}

#[test]
fn json_says_that_nobody_told_who_used_a_limit() {
    let json = |is_untold| serde_json::to_string(&Limit { is_untold, ..Limit::default() }).unwrap();
    assert!(json(true).contains(r#""untold":true"#) && !json(false).contains("untold"));
}
