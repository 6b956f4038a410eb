//! The output of three releases, shortened.
use gpushare::submit::grammar::Spelling;

use super::*;

const TRES_22_05: &[u8] =
    b"cpu||1\nmem||2\nfs|disk|6\ngres|gpu|1001\ngres|gpu:a40|1002\ngres|gpu:3090|1003\n";
const TRES_24_11: &[u8] =
    b"cpu||1\nfs|disk|6\ngres|gpu:a40|1003\ngres|gpu|1001\ngres|gpu:3090|1002\ngres|gpumem|1004\ngres|gpuutil|1005\n";
/// 24.11 and 26.05; 22.05 lists the parts of a limit in another order.
const QOSES: &[u8] = b"normal||||||||||
qos_lafferty|gres/gpu:a40=4|||||||||
many|cpu=4,gres/gpu:a40=8,mem=10G|gres/gpu:3090=1|gres/gpu:a40=2|gres/gpu=4|gres/gpu:3090=3|gres/gpu:a40=100|gres/gpu:3090=77|gres/gpu:a40=55|gres/gpu=1|gres/gpu=2
minutes||||||gres/gpu:a40=100||||
closed|gres/gpu:a40=0|||||||||
";
const ASSOCIATIONS: &[u8] = b"acct|alice||normal,qos_lafferty,qos_numbers|normal
acct2|alice|p|qos_lafferty|qos_lafferty||gres/gpu=8|gres/gpu:a40=1||||gres/gpu:3090=100
acct2|alice|r|qos_lafferty|qos_lafferty|||||||
acct3|alice||many|normal
acct4|alice||normal,many|
acct|bob||normal|normal
";
const ACCOUNTS: &[u8] = b"root|||normal||||||||
acct|||normal||root||||||
dept|||normal||root|gres/gpu:a40=2,cpu=9|gres/gpu:a40=1|||gres/gpu:3090=60|gres/gpu:a40=100
acct2|||normal||dept|gres/gpu:a40=3|gres/gpu:a40=1||||gres/gpu:a40=100
";
const PARTITIONS: &[u8] = b"PartitionName=q AllowGroups=ALL Default=NO QoS=N/A State=UP
PartitionName=p AllowGroups=ALL Default=YES QoS=N/A State=UP
";

fn facts() -> Facts {
    let [tres, qoses, accounts, users, partitions] =
        [TRES_24_11, QOSES, ACCOUNTS, ASSOCIATIONS, PARTITIONS].map(<[u8]>::to_vec);
    Tables { tres, qoses, accounts, users, partitions }.read()
}

fn database() -> Database {
    Database {
        default_account: limits::default_account("alice|acct\n", "alice").into_bytes(),
        ..Database::of("alice", Rc::new(facts()))
    }
}

/// `a40=2 3090=-`: limits of a QOS on GPUs; `-` if only minutes are limited.
fn shown(qos: &str) -> String {
    let database = &database();
    let qos = database.qos_named(qos.as_bytes()).unwrap();
    let limits = database.typed_limits(qos, b"gpu").map(|limit| {
        let count = limit.count.map_or("-".to_owned(), |count| count.to_string());
        format!("{}={count}", limit.gres_type.escape_ascii())
    });
    limits.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_limit_on_what_slurmctld_does_not_count_is_none() {
    let mut facts = facts();
    facts.keep_counted(&["cpu", "gres/gpu", "gres/GPU:3090"]);
    assert!(
        !facts.tres.contains(&b"gres/gpu:a40".to_vec()) && facts.tres.contains(&b"gres/gpu:3090".to_vec())
    );
    let database = &Database::of("alice", Rc::new(facts));
    let types = |qos: &[u8]| {
        let limits = database.typed_limits(database.qos_named(qos).unwrap(), b"gpu");
        limits.map(|limit| limit.gres_type.to_vec()).collect::<Vec<_>>()
    };
    assert_eq!((types(b"qos_lafferty"), types(b"many")), (vec![], vec![b"3090".to_vec()]));
}

#[test]
fn tres_are_in_slurms_order() {
    let names = |text| tres::names(&String::from_utf8_lossy(text)).join(" ");
    assert_eq!(names(TRES_22_05), "cpu mem fs/disk gres/gpu gres/gpu:a40 gres/gpu:3090");
    assert_eq!(names(TRES_24_11), "cpu fs/disk gres/gpu gres/gpu:3090 gres/gpu:a40 gres/gpumem gres/gpuutil");
    let database = &database();
    assert_eq!(database.types(b"gpu").collect::<Vec<_>>(), [b"3090".as_slice(), b"a40"]);
    assert_eq!(database.types(b"mps").count(), 0);
}

#[test]
fn the_lowest_limit_on_a_number_counts() {
    for (qos, expected) in [
        ("normal", ""),
        ("qos_lafferty", "a40=4"),
        ("QOS_Lafferty", "a40=4"),
        ("many", "3090=1 a40=2"),
        ("minutes", "a40=-"),
        ("closed", "a40=0"),
    ] {
        assert_eq!(shown(qos), expected, "{qos}");
    }
    let database = &database();
    let limited = |name: &[u8]| database.limits_all(database.qos_named(name).unwrap(), b"gpu");
    assert!(limited(b"many") && !limited(b"qos_lafferty"));
    assert!(database.qos_named(b"no").is_none() && database.qos_named(b"").is_none());
}

#[test]
fn percentages_are_no_numbers() {
    let mut facts = facts();
    facts.qoses = vec![Qos::read("half|gres/gpu:a40=50,gres/gpu=50||||||||||DenyOnLimit,Relative||")];
    let database = &Database::of("alice", Rc::new(facts));
    let half = database.qos_named(b"half").unwrap();
    let limits: Vec<_> = database.typed_limits(half, b"gpu").collect();
    assert_eq!(limits, [TypedLimit { gres_type: b"a40", count: None, of_job: None }]);
    assert_eq!(database.limit_on_all(half, b"gpu"), Some(None));
}

#[test]
fn the_default_qos_is_slurms() {
    let all = database();
    let database = &all;
    for (account, partition, expected) in [
        (None, None, Some("normal")),
        (Some("ACCT"), None, Some("normal")),
        // The partition's own association comes first, and there is none for all partitions.
        (Some("acct2"), None, Some("qos_lafferty")),
        (Some("acct2"), Some("p,q"), Some("qos_lafferty")),
        (Some("acct2"), Some("q,p"), None),
        // The association names no default, so it is the only QOS that may be used.
        (Some("acct3"), None, Some("many")),
        (Some("acct4"), None, Some("normal")),
        (Some("other"), None, None),
    ] {
        let mut request = Request::new(Spelling::Slash);
        request.account = account.map(str::as_bytes);
        request.partition = partition.map(str::as_bytes);
        let found = match database.default_qos(&request) {
            DefaultQos::One(qos) => Some(qos.name.clone()),
            DefaultQos::None => None,
            DefaultQos::OneOf(_) => panic!("no reservation is named"),
        };
        assert_eq!(found.as_deref(), expected, "{account:?} {partition:?}");
    }
}

#[test]
fn a_drained_partition_passes_its_jobs_on() {
    let partitions =
        b"PartitionName=p Default=YES State=DRAIN Alternate=q\nPartitionName=q State=UP Alternate=NONE\n\
        PartitionName=gone State=INACTIVE Alternate=NONE\n";
    let facts = Facts { partitions: partition::read(&String::from_utf8_lossy(partitions)), ..facts() };
    let database = Database::of("alice", Rc::new(facts));
    for (named, expected) in [
        (None, Some("q")),
        (Some("p,gone"), Some("q")),
        (Some("q,gone"), Some("q")),
        (Some("q"), None),
        (Some("gone"), None),
    ] {
        let request = Request { partition: named.map(str::as_bytes), ..Request::new(Spelling::Slash) };
        let found = database.taking_jobs(&request).map(|list| String::from_utf8(list).unwrap());
        assert_eq!(found.as_deref(), expected, "{named:?}");
    }
    let reserved = Request { reservation: Some(b"r"), ..Request::new(Spelling::Slash) };
    assert_eq!(database.taking_jobs(&reserved), None);
}

#[test]
fn a_reservation_leaves_the_default_qos_open() {
    let mut facts = facts();
    facts.associations.add(Association::read("acct|alice|q|many|many"));
    let database = &Database { default_account: b"acct".to_vec(), ..Database::of("alice", Rc::new(facts)) };
    let mut request = Request::new(Spelling::Slash);
    request.reservation = Some(b"course");
    let DefaultQos::OneOf(found) = database.default_qos(&request) else { panic!("one of two") };
    assert_eq!(found.iter().map(|qos| qos.name.as_str()).collect::<Vec<_>>(), ["normal", "many"]);
    request.partition = Some(b"q");
    assert!(matches!(database.default_qos(&request), DefaultQos::One(qos) if qos.name == "many"));
}

#[test]
fn the_owner_is_the_association() {
    let data = database();
    let database = &data;
    let request = Request::new(Spelling::Slash);
    assert_eq!(database.owner(&request), Some(Owner { user: b"alice", account: b"acct" }));
    assert_eq!(database.default_partition(), Some(b"p".as_slice()));
}

#[test]
fn a_job_is_charged_to_its_users_association_and_to_the_accounts_above_it() {
    let data = database();
    let database = &data;
    let shown = |account: &str, partition: &str| {
        let mut request = Request::new(Spelling::Slash);
        request.account = Some(account.as_bytes());
        request.partition = Some(partition.as_bytes()).filter(|name| !name.is_empty());
        let mut found = Vec::new();
        database.associations(&request, |one| {
            let limits = one.limits.iter().map(|limit| {
                let gres_type = limit
                    .gres_type
                    .map_or(String::new(), |gres_type| format!(":{}", gres_type.escape_ascii()));
                let count = limit.count.map_or("-".to_owned(), |count| count.to_string());
                format!(" {}{gres_type}={count}", limit.gres.escape_ascii())
            });
            let own = if one.own { "alice in " } else { "" };
            found.push(format!("{own}{}{}", one.account.escape_ascii(), limits.collect::<String>()));
        });
        found.join(", ")
    };
    let above = "acct2 gpu:a40=3, dept gpu:3090=- gpu:a40=2, root";
    for (account, partition, expected) in [
        ("acct", "", "alice in acct, acct, root".to_owned()),
        ("ACCT2", "", format!("alice in acct2 gpu=8 gpu:3090=- gpu:a40=1, {above}")),
        ("acct2", "r", format!("alice in acct2, {above}")),
        (
            "acct2",
            "r,p",
            format!("alice in acct2, {above}, alice in acct2 gpu=8 gpu:3090=- gpu:a40=1, {above}"),
        ),
        ("acct2", "q", String::new()),
        ("other", "", String::new()),
    ] {
        assert_eq!(shown(account, partition), expected, "{account} {partition}");
    }
}

#[test]
fn anything_printed_gives_a_database() {
    for text in
        [b"".as_slice(), b"|||\n", b"\xff\n\n", b"a|b", b"gres|gpu|x\n", b"q|gres/gpu:a40=-1,=,gres/gpu=x\n"]
    {
        let [tres, qoses, accounts, users, partitions] = [text; 5].map(<[u8]>::to_vec);
        let facts = Tables { tres, qoses, accounts, users, partitions }.read();
        let data = Database::of("alice", Rc::new(facts));
        let database = &data;
        for qos in &data.facts.qoses {
            assert_eq!(database.typed_limits(qos, b"gpu").count(), 0);
        }
        assert_eq!(database.default_qos(&Request::new(Spelling::Slash)), DefaultQos::None);
    }
}
