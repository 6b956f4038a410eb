//! Output as the three releases printed it, shortened.
use gpushare::grammar::Spelling;

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
acct2|alice|p|qos_lafferty|qos_lafferty
acct3|alice||many|normal
acct4|alice||normal,many|
acct|bob||normal|normal
";
const PARTITIONS: &[u8] = b"PartitionName=q AllowGroups=ALL Default=NO QoS=N/A State=UP
PartitionName=p AllowGroups=ALL Default=YES QoS=N/A State=UP
";

fn database() -> Database {
    Database {
        user: b"alice".to_vec(),
        tres: tres(TRES_24_11),
        qoses: qoses(QOSES),
        associations: associations(ASSOCIATIONS, "alice"),
        default_account: default_account(b"alice|acct\n", "alice"),
        root_default: root_default(b"root|||normal|\n"),
        default_partition: default_partition(PARTITIONS),
    }
}

/// `a40=2 3090=-`: limits on GPUs of a QOS; `-` where only minutes are limited.
fn shown(qos: &str) -> String {
    let database = &database();
    let qos = database.qos_named(qos.as_bytes()).unwrap();
    let limits = database.typed_limits(qos, b"gpu").map(|limit| {
        let count = limit.count.map_or("-".to_owned(), |count| count.to_string());
        format!("{}={count}", limit.kind.escape_ascii())
    });
    limits.collect::<Vec<_>>().join(" ")
}

#[test]
fn tres_are_in_slurms_order() {
    let names = |text| {
        let list = tres(text);
        list.iter().map(|name| name.escape_ascii().to_string()).collect::<Vec<_>>().join(" ")
    };
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
fn the_default_qos_is_slurms() {
    let all = database();
    let database = &all;
    for (account, partition, expected) in [
        (None, None, Some("normal")),
        (Some("ACCT"), None, Some("normal")),
        // The partition's own association comes first; there is none for all partitions.
        (Some("acct2"), None, Some("qos_lafferty")),
        (Some("acct2"), Some("p,q"), Some("qos_lafferty")),
        (Some("acct2"), Some("q,p"), None),
        // Its default is none of its own: the only one that it may use.
        (Some("acct3"), None, Some("many")),
        (Some("acct4"), None, Some("normal")),
        (Some("other"), None, None),
    ] {
        let mut request = Request::new(Spelling::Slash);
        request.account = account.map(str::as_bytes);
        request.partition = partition.map(str::as_bytes);
        let found = match database.default_qos(&request) {
            DefaultQos::One(qos) => Some(qos.name.escape_ascii().to_string()),
            DefaultQos::None => None,
            DefaultQos::OneOf(_) => panic!("no reservation is named"),
        };
        assert_eq!(found.as_deref(), expected, "{account:?} {partition:?}");
    }
}

#[test]
fn a_reservation_leaves_the_default_qos_open() {
    let mut data = database();
    data.associations.push(Association {
        account: b"acct".to_vec(),
        partition: b"q".to_vec(),
        qoses: vec![b"many".to_vec()],
        default_qos: b"many".to_vec(),
    });
    let database = &data;
    let mut request = Request::new(Spelling::Slash);
    request.reservation = Some(b"course");
    let DefaultQos::OneOf(found) = database.default_qos(&request) else { panic!("one of two") };
    assert_eq!(
        found.iter().map(|qos| qos.name.as_slice()).collect::<Vec<_>>(),
        [b"normal".as_slice(), b"many"]
    );
    request.partition = Some(b"q");
    assert!(matches!(database.default_qos(&request), DefaultQos::One(qos) if qos.name == b"many"));
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
fn anything_printed_gives_a_database() {
    for text in
        [b"".as_slice(), b"|||\n", b"\xff\n\n", b"a|b", b"gres|gpu|x\n", b"q|gres/gpu:a40=-1,=,gres/gpu=x\n"]
    {
        let data = Database {
            tres: tres(text),
            qoses: qoses(text),
            associations: associations(text, "alice"),
            default_account: default_account(text, "alice"),
            root_default: root_default(text),
            default_partition: default_partition(text),
            user: Vec::new(),
        };
        let database = &data;
        for qos in &data.qoses {
            assert_eq!(database.typed_limits(qos, b"gpu").count(), 0);
        }
        assert_eq!(database.default_qos(&Request::new(Spelling::Slash)), DefaultQos::None);
    }
}
