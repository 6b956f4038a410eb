//! What isn't a limit of Slurm's: shares, what a QOS limits in no way, and caps.

use super::*;

#[test]
fn shares_count_by_units_and_only_in_their_reservations() {
    let share = Made { qos: "units", alloc: "gres/mps=60", on: &[("n1", "mps:60(60/100)")], ..ONE };
    let second = Made { id: 2, ..share.clone() };
    assert_eq!(found(&[share.clone(), second], ""), both("QOS units GrpTRES gres/mps 120/100"));
    assert_eq!(
        found(std::slice::from_ref(&share), "ShareReservations=course"),
        ["ShareReservations outside_reservation gres/mps 60/0 devices"]
    );
    assert_eq!(found(&[Made { reservation: "course-2", ..share }], "ShareReservations=course"), [""; 0]);
    // Units of a GRES of any name, by type too.
    let own = Made { alloc: "gres/gpushare=4,gres/gpushare:a40=4", on: &[], ..ONE };
    let mut now = snapshot(&[Made { qos: "units", ..own }]);
    now.qoses.extend(qoses("units||gres/gpushare:a40=3||||\n"));
    let over = shown(&judge(&now, &rules("ShareGRES=gpushare\nPlacement=off")).over);
    assert_eq!(over, ["QOS units GrpTRES gres/gpushare:a40 4/3 AllocTRES"]);
    assert!(judge(&now, &rules("")).over.is_empty());
}

#[test]
fn what_a_qos_limits_in_no_way_is_told() {
    let gpu = Made { qos: "units", ..ONE };
    let share = Made { qos: "typed", alloc: "gres/mps=60", on: &[("n1", "mps:60(60/100)")], ..ONE };
    for (made, conf, expected) in [
        (gpu.clone(), "", vec!["QOS units uncounted gres/gpu 1/0 devices"]),
        (share.clone(), "", vec!["QOS typed uncounted gres/mps 60/0 devices"]),
        (gpu.clone(), "ForeignTypes=allow", vec![]),
        (share.clone(), "ForeignTypes=allow", vec![]),
        (share.clone(), "GovernedGRES=gpu", vec![]),
        (gpu.clone(), "GovernedGRES=gpu", vec![]),
        // Slurm gives whole nodes all that they have.
        (Made { partition: "x", ..gpu }, "", vec![]),
        (Made { partition: "x", ..share.clone() }, "", vec![]),
        // A limit on all GPUs governs no shares, and no limit limits nothing.
        (Made { qos: "all", ..share.clone() }, "", vec![]),
        (Made { qos: "normal", ..share.clone() }, "", vec![]),
        (Made { qos: "units", ..share }, "", vec![]),
    ] {
        assert_eq!(found(&[made], conf), expected, "{conf}");
    }
}

#[test]
fn gpus_without_a_type_are_told_where_only_types_are_limited() {
    let whole = Made { qos: "typed", partition: "x", alloc: "gres/gpu=2", asks: "", ..ONE };
    let whole = Made { on: &[("u1", "gpu:2(IDX:0-1)")], ..whole };
    assert_eq!(found(std::slice::from_ref(&whole), ""), ["QOS typed uncounted gres/gpu 2/0 devices"]);
    for qos in ["all", "normal"] {
        assert_eq!(found(&[Made { qos, ..whole.clone() }], ""), [""; 0]);
    }
    assert_eq!(found(&[Made { qos: "all", ..whole }], "GovernedQOS=all"), [""; 0]);
    // Slurm shows no node that was deleted.
    let gone = Made { on: &[("gone", "gpu:a40:1(IDX:0)")], ..ONE };
    assert_eq!(found(&[Made { qos: "typed", ..gone }], ""), [""; 0]);
}

#[test]
fn caps_are_what_the_jobs_gpus_give() {
    const CAPS: &str = "MaxCPUsPerGpu=a40:8,h100:16\nMaxMemPerGpu=a40:16G,h100:32G\nGpuPartitions=g";
    for (alloc, on, partition, expected) in [
        ("cpu=8,mem=16G", ONE.on, "p", vec![]),
        ("cpu=9,mem=16G", ONE.on, "p", vec!["MaxCPUsPerGpu cpus cpu 9/8 devices"]),
        ("cpu=9,mem=16G", ONE.on, "x", vec![]),
        ("cpu=8,mem=16385M", ONE.on, "x", vec!["MaxMemPerGpu memory mem 16385/16384 devices"]),
        // Two threads a core: Slurm gives whole cores.
        ("cpu=32,mem=32G", &[("h1", "gpu:a40:1(IDX:0)")], "p", vec![]),
        ("cpu=33,mem=32G", &[("h1", "gpu:a40:1(IDX:0)")], "p", vec!["MaxCPUsPerGpu cpus cpu 33/32 devices"]),
        (
            "cpu=25,mem=48G",
            &[("m1", "gpu:a40:1(IDX:0),gpu:h100:1(IDX:2)")],
            "p",
            vec!["MaxCPUsPerGpu cpus cpu 25/24 devices"],
        ),
        ("cpu=64,mem=500G", &[("n1", "")], "p", vec![]),
        ("cpu=64,mem=500G", &[("n1", "")], "g", vec!["partition g no_gpu gres/gpu 0/1 devices"]),
    ] {
        assert_eq!(found(&[Made { alloc, on, partition, ..ONE }], CAPS), expected, "{alloc}");
        assert_eq!(found(&[Made { alloc, on, partition, ..ONE }], ""), [""; 0], "{alloc}");
    }
}

#[test]
fn borrowed_gpus_that_a_component_keeps_are_told() {
    let of = |qoses: [&'static str; 2], is_one_job: bool| {
        let [first, second] = qoses;
        let made = [Made { qos: first, ..ONE }, Made { id: 2, qos: second, alloc: "cpu=1", on: &[], ..ONE }];
        let (mut now, mut rules) = (snapshot(&made), rules(""));
        for (at, job) in now.jobs.iter_mut().enumerate().filter(|_| is_one_job) {
            job.name = format!("1+{at}");
        }
        rules.loans = (["all".to_owned()].into(), ["all", "normal"].map(str::to_owned).into());
        shown(&judge(&now, &rules).over)
    };
    assert_eq!(of(["all", "job"], true), ["QOS all kept gres/gpu 1/0 devices"]);
    for (qoses, is_one_job) in [(["all", "normal"], true), (["job", "all"], true), (["all", "job"], false)] {
        assert_eq!(of(qoses, is_one_job), [""; 0], "{qoses:?}");
    }
}

#[test]
fn an_exempt_component_keeps_borrowed_gpus_too() {
    let made =
        [Made { qos: "all", ..ONE }, Made { id: 2, partition: "free", alloc: "cpu=1", on: &[], ..ONE }];
    let mut now = snapshot(&made);
    for (at, job) in now.jobs.iter_mut().enumerate() {
        job.name = format!("1+{at}");
    }
    let mut rules = rules("ExemptPartitions=free");
    rules.loans = (["all".to_owned()].into(), ["all".to_owned()].into());
    assert_eq!(shown(&judge(&now, &rules).over), ["QOS all kept gres/gpu 1/0 devices"]);
    assert_eq!(shown(&judge_without(&now, &rules, &[2].into()).over), [""; 0]);
}
