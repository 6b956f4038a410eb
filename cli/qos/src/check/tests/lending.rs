//! Tests of groups that lend.

use super::*;

const X: &str = "QOS=x Account=a GPUs=a40:4 Preempt=normal,theirs,gone Burst=2x\nQOS=gone Priority=1";

#[test]
fn groups_that_lend_get_their_gpus_back() {
    assert_eq!(said(X), Vec::<String>::new());
    for (more, expected) in [
        (
            "\nQOS=y Account=a GPUs=a40:3 Preempt=normal,theirs,gone",
            "3 error: with a40:3 the QOSes add up to 7 a40, but the cluster has 6; with Burst, each must be able to \
             get its own back",
        ),
        (
            "\nQOS=y Account=a GPUs=a40:2 Preempt=normal,theirs,gone,x",
            "3 error: with Burst, Preempt can't name 'x', which has GPUs of its own",
        ),
        (
            "\nQOS=y Account=a GPUs=a40:2 Preempt=normal,gone\nQOS=z Account=a GPUs=H100:1 Preempt=normal,gone",
            "3 warning: jobs of QOS 'theirs' may keep its GPUs until they end; name in Preempt what must give way",
        ),
    ] {
        assert_eq!(said(&format!("{X}{more}")), [expected], "{more}");
    }
    let none = "QOS=x Account=a GPUs=a40:4 Burst=1x Preempt=normal,theirs\nQOS=h GrpTRES=gres/gpu:a40=0";
    assert_eq!(said(none), Vec::<String>::new(), "who may have none of them keeps none");
    let more = said("QOS=x Account=a GPUs=a40:4 Burst=1x");
    assert!(more[0].starts_with("1 warning: jobs of QOS 'normal' and 1 more may keep its GPUs"), "{more:?}");
}

#[test]
fn only_what_this_cluster_lent_before_is_known_to_give_way() {
    let mut there = actual();
    let keeps =
        "1 warning: jobs of QOS 'typed' may keep its GPUs until they end; name in Preempt what must give way";
    for (description, expected) in
        [("gpushare@lab burst", &[][..]), ("gpushare@lab", &[keeps]), ("gpushare@north burst", &[keeps])]
    {
        let qos = state::Qos { description: description.to_owned(), ..there.qoses["normal"].clone() };
        there.qoses.insert("typed".to_owned(), qos);
        assert_eq!(said_of(X, &there), expected, "{description}");
    }
}

#[test]
fn a_quota_that_gets_nothing_back_says_so() {
    let locked = |them: &str| {
        format!(
            "with Burst, QOS '{them} can't get GPUs back from borrowers; write the quota as GPUs, or let owners \
             preempt it"
        )
    };
    let typed = "\nQOS=qos_y Account=a GrpTRES=gres/gpu:A40=2";
    for typed in [typed, &typed.replace("A40", "a40")] {
        assert_eq!(said(&format!("{X}{typed}")), [format!("3 error: {}", locked("qos_y'"))], "{typed}");
    }
    for silent in [
        format!("{X}{typed} Preempt=x_burst"),
        X.replace(",gone B", ",gone,qos_y B") + typed,
        format!("{X}{}", typed.replace(" Account=a", "")),
        format!("{X}{}", typed.replace(":A40=2", ":H100=2,gres/gpu:a40=0")),
        format!("{X}\nQOS=qos_y Account=a GrpTRES=gres/gpu:a40=0"),
    ] {
        assert_eq!(said(&silent), Vec::<String>::new(), "{silent}");
    }
    let mut there = actual();
    let one = there.qoses["normal"].clone();
    for name in ["typed", "part_p", "h"] {
        let mut qos = one.clone();
        let gres_type = if name == "h" { "H100" } else { "a40" };
        qos.settings.insert(
            "GrpTRES",
            Value::Tres([(format!("gres/gpu:{gres_type}"), 2), ("gres/gpu:a40x".into(), 0)].into()),
        );
        there.qoses.insert(name.to_owned(), qos);
    }
    let text = format!(
        "{}\nQOS=z Account=a GPUs=a40:1 Preempt=normal,theirs,gone,h",
        X.replace(",gone B", ",gone,h B")
    );
    assert_eq!(said_of(&text, &there), [format!("1 warning: {}", locked("typed'"))]);
}

#[test]
fn a_partition_lends_what_it_gives_back() {
    let mut there = actual();
    let part = there.qoses.get_mut("part_p").unwrap();
    part.settings
        .insert("GrpTRES", Value::Tres([("gres/gpu".into(), 4), ("gres/gpu:h100".into(), 0)].into()));
    let theirs = there.qoses.get_mut("theirs").unwrap();
    theirs.settings.insert("GrpTRES", Value::Tres([("cpu".into(), 4), ("gres/gpu:h100".into(), 0)].into()));
    let both = format!("{X}\nQOS=y Account=a GPUs=a40:2 Preempt=normal,theirs,gone Burst=1x");
    for (partition, expected) in [
        ("AllowQos=x,x_burst,y,Y_burst", vec![]),
        ("AllowQos=normal", vec![]),
        ("DenyQos=x_burst PreemptMode=REQUEUE", vec![]),
        (
            "AllowQos=normal,X,y,y_burst",
            vec!["1 warning: partition 'p' doesn't allow QOS 'x_burst'; slurm.conf: add it to AllowQos"],
        ),
        ("QoS=theirs", vec![]),
        (
            "QoS=part_p",
            vec![
                "1 warning: QOS 'part_p' of partition 'p' limits GPUs: if borrowers have them all, owners wait; \
                 remove that, or give owners Flags=OverPartQOS",
            ],
        ),
    ] {
        let partitions = node_partitions(partition);
        let of = |text: &str| {
            let cluster = Cluster { partitions: partitions.clone(), ..cluster() };
            marked(&check(&Database::parse(text).unwrap().qoses, &there, &cluster, &HashSet::new()))
        };
        assert_eq!(of(&both), expected, "{partition}");
        assert_eq!(of(&both.replace(" Burst=2x", "").replace(" Burst=1x", "")), Vec::<String>::new());
        let over = both.replace("Burst", "Flags=OverPartQOS Burst");
        assert_eq!(of(&over).is_empty(), expected.is_empty() || partition == "QoS=part_p", "{partition}");
    }
}

#[test]
fn what_gives_way_late_or_without_notice_says_so() {
    let mut there = actual();
    let exempt = |there: &mut Actual, name: &str, seconds| {
        let settings = &mut there.qoses.get_mut(name).unwrap().settings;
        settings.insert("PreemptExemptTime", Value::Time(seconds));
    };
    exempt(&mut there, "part_p", 600);
    let of = |text: &str, there: &Actual, config: &str| {
        let cluster =
            Cluster::of(&Settings::parse(&(CONFIG.to_owned() + config)), &node::read(NODES)).unwrap();
        let cluster = Cluster { partitions: node_partitions("QoS=part_p"), ..cluster };
        marked(&check(&Database::parse(text).unwrap().qoses, there, &cluster, &HashSet::new()))
    };
    let late = "1 warning: QOS 'part_p' of partition 'p' has PreemptExemptTime: borrowers there keep GPUs for that \
                time; remove that, or give owners Flags=OverPartQOS";
    let over = X.replace("Burst", "Flags=OverPartQOS Burst");
    assert_eq!(of(X, &there, ""), [late]);
    assert_eq!(of(&over, &there, ""), Vec::<String>::new());
    exempt(&mut there, "part_p", 0);
    assert_eq!(of(X, &there, ""), Vec::<String>::new());

    let first = |qos: &str| {
        format!("1 warning: jobs of QOS '{qos}' keep its GPUs for a time, because of PreemptExemptTime")
    };
    let in_file = X.replace("QOS=gone", "QOS=gone PreemptExemptTime=1:00:00");
    assert_eq!(of(&in_file, &there, ""), [first("gone")]);
    exempt(&mut there, "theirs", 0);
    assert_eq!(of(X, &there, "PreemptExemptTime = 01:00:00\n"), [first("gone"), first("normal")]);
    assert_eq!(of(&in_file.replace("Burst=2x", ""), &there, ""), Vec::<String>::new());
    let suspended = "1 warning: jobs of QOS 'gone' keep its GPUs for a time, because of PreemptMode=suspend";
    assert_eq!(of(&X.replace("QOS=gone", "QOS=gone PreemptMode=suspend"), &there, ""), [suspended]);
    let of_cluster = |qos: &str| {
        let why = "PreemptMode=SUSPEND in slurm.conf";
        format!("1 warning: jobs of QOS '{qos}' keep its GPUs for a time, because of {why}")
    };
    let suspend = "PreemptMode = GANG,SUSPEND\n";
    assert_eq!(of(X, &there, suspend), ["gone", "normal", "theirs"].map(of_cluster));
    let ended = X.replace("QOS=gone", "QOS=gone PreemptMode=requeue");
    assert_eq!(of(&ended, &there, suspend), ["normal", "theirs"].map(of_cluster));

    let never =
        "1 warning: jobs of QOS 'gone' keep its GPUs until they end, because of PreemptMode=within alone";
    assert_eq!(of(&X.replace("QOS=gone", "QOS=gone PreemptMode=within"), &there, ""), [never]);
    let gang = X.replace("QOS=gone", "QOS=gone PreemptMode=gang");
    assert_eq!(of(&gang, &there, ""), [never.replace("within", "gang")]);
    let mut newer = there.clone();
    let modes = Value::Words(["priority".to_owned()].into());
    newer.qoses.get_mut("theirs").unwrap().settings.insert("PreemptMode", modes);
    assert_eq!(of(X, &newer, ""), [never.replace("within", "priority").replace("gone", "theirs")]);

    let sudden = "1 warning: with BurstGraceTime=0, borrowers have only slurm.conf's KillWait to end";
    assert_eq!(of(&X.replace("=2x", "=2x BurstGraceTime=0"), &there, ""), [sudden]);
    let above = "PreemptParameters = youngest_first,min_exempt_priority=7000\n";
    assert!(of(X, &there, above)[0].starts_with("1 warning: borrowers' jobs above min_exempt_priority ("));
}

#[test]
fn what_costs_jobs_their_work_says_so() {
    let of = |text: &str, config: &str, nodes: &str| {
        let settings = Settings::parse(&(CONFIG.to_owned() + config));
        let cluster = Cluster::of(&settings, &node::read(nodes)).unwrap();
        marked(&check(&Database::parse(text).unwrap().qoses, &actual(), &cluster, &HashSet::new()))
    };
    let within = |them: &str| {
        let what = format!("jobs of {them} end each other without notice; remove it, or set GraceTime");
        [format!("1 warning: PreemptMode has WITHIN: {what}")]
    };
    let both = format!("{X}\nQOS=y Account=a GPUs=H100:1 Preempt=normal,theirs,gone");
    let cluster = "PreemptMode = WITHIN,REQUEUE\n";
    assert_eq!(of(&both, cluster, NODES), within("QOS 'x' and 1 more"));
    assert_eq!(of(&both.replace("QOS=y", "QOS=y GraceTime=60"), cluster, NODES), within("QOS 'x'"));
    let own = both.replace("QOS=y", "QOS=y PreemptMode=requeue,within");
    assert_eq!(of(&own, "", NODES), within("QOS 'y'"));
    assert_eq!(of(&both.replace(" Burst=2x", ""), cluster, NODES), Vec::<String>::new());

    let [ranked] = of(X, "PreemptMode = PRIORITY,REQUEUE\n", NODES).try_into().unwrap();
    assert!(
        ranked.starts_with("1 warning: PreemptMode in slurm.conf has PRIORITY: owners get GPUs back only")
    );

    let ended = |line, them: &str| {
        let what = format!("preempted batch jobs of {them} end unless they ask for --requeue");
        let text = format!(
            "slurm.conf has JobRequeue=0, so {what}; set JobRequeue=1, or Requeue=yes for these QOSes"
        );
        [format!("{line} warning: {text}")]
    };
    let ends = "JobRequeue = 0\n";
    assert_eq!(of(X, ends, NODES), ended(1, "QOS 'x_burst'"));
    let gone = X.replace("QOS=gone", "QOS=gone PreemptMode=requeue");
    assert_eq!(of(&gone, ends, NODES), ended(1, "QOS 'x_burst' and 1 more"));
    let rule = format!("{gone}\nQOS=x_burst Requeue=yes");
    assert_eq!(of(&rule, ends, NODES), ended(2, "QOS 'gone'"));
    assert_eq!(of(&format!("{rule}\nQOS=gone Requeue=yes"), ends, NODES), Vec::<String>::new());
    assert_eq!(of(&gone, "JobRequeue = 1\n", NODES), Vec::<String>::new());

    let apart = NODES.replace(",mps:400", "");
    let shard = apart.replace("gpu:3", "gpu:3,shard:9");
    let preempts = X.replace(" Burst=2x", "");
    for (text, version, nodes, is_said) in [
        (X, "24.11.5", NODES, true),
        (&preempts, "24.11.5", &shard, true),
        (X, "24.11.5", &apart, false),
        (X, "25.05.0", NODES, false),
        (X, "25.05", NODES, false),
        ("QOS=gone Priority=1", "24.11.5", NODES, false),
    ] {
        let said = of(text, &format!("SLURM_VERSION = {version}\n"), nodes);
        assert_eq!(said.iter().any(|one| one.contains("before Slurm 25.05, on nodes")), is_said, "{said:?}");
    }
}

#[test]
fn a_quota_of_shares_alone_gets_its_shares_back_or_says_so() {
    let counted =
        |text: &str| said(text).into_iter().filter(|one| !one.contains("is not a TRES")).collect::<Vec<_>>();
    let shares = "\nQOS=s Account=a GrpTRES=gres/mps=100";
    let out = "3 error: with Burst, QOS 's' can't get GPUs back from borrowers; name QOS 'x_burst' in Preempt, with a \
               Priority, or let owners preempt it";
    assert_eq!(counted(&format!("{X}{shares}")), [out]);
    assert_eq!(counted(&format!("{X}{}", shares.replace("mps", "shard:a40"))), [out]);
    let others = shares.replace("mps", "gpushare");
    let borrowed = X.replace("Burst", "GrpTRES=gres/gpushare=80 Burst");
    assert_eq!(
        counted(&format!("{borrowed}{others}")),
        [out],
        "shares that borrowers have, whatever their name"
    );
    let keeps =
        "1 warning: jobs of QOS 's' may keep its GPUs until they end; name in Preempt what must give way";
    let everybody = shares.replace("Account=a", "Account=*");
    for (text, expected) in [
        (format!("{X}{shares} Preempt=x_burst Priority=9"), vec![]),
        (X.replace(",gone B", ",gone,s B") + shares, vec![]),
        (X.replace(" Burst=2x", "") + shares, vec![]),
        (format!("{X}{everybody}"), vec![keeps]),
        (format!("{X}{others}"), vec![keeps]),
        (format!("{X}{}", shares.replace("=100", "=0")), vec![keeps]),
        // A limit on GPUs of any type is no quota.
        (format!("{X}{}", shares.replace("mps", "gpu")), vec![keeps]),
    ] {
        assert_eq!(counted(&text), expected, "{text}");
    }
}

fn node_partitions(text: &str) -> Vec<gpushare_slurm_text::Partition> {
    gpushare_slurm_text::partition::read(&format!("PartitionName=p {text}"))
}

#[test]
fn the_second_qos_has_the_rules_of_the_first() {
    let with = |more: &str| said(&format!("{X}\n{more}"));
    assert_eq!(
        with("GovernedQOS=x,y"),
        ["1 error: QOS 'x' is governed and 'x_burst' isn't: GovernedQOS and Mode must be for both"]
    );
    for silent in ["GovernedQOS=x*", "GovernedQOS=y", "Mode=audit", "QOS=x_burst,y MaxCPUsPerGpu=4"] {
        assert_eq!(with(silent), Vec::<String>::new(), "{silent}");
    }
    let ruled = X.replace("GPUs", "MaxCPUsPerGpu=4 Requeue=yes GPUs");
    assert_eq!(
        said(&ruled),
        [
            "1 warning: rules for QOS 'x' are not for 'x_burst'; add a line QOS=x_burst Requeue=… MaxCPUsPerGpu=…"
        ]
    );
    assert_eq!(said(&format!("{ruled}\nQOS=x_burst Requeue=yes MaxCPUsPerGpu=8")), Vec::<String>::new());
}

#[test]
fn an_owner_goes_before_borrowers() {
    let zero = "Priority=0 Account=a GPUs=H100:1 Preempt=normal,theirs,gone";
    let said = said(&format!("{X}\nQOS=y {zero}\nQOS=low Account=a Priority=0 GrpTRES=gres/gpu:a40=0"));
    assert_eq!(said[0], "3 error: with Burst, Priority can't be 0, which borrowers have");
    assert!(said.len() == 2 && said[1].contains("'low'"), "only owners get a priority: {said:?}");
    assert_eq!(super::said("QOS=y Account=a GPUs=H100:1 Priority=0"), Vec::<String>::new());
}

#[test]
fn a_qos_made_by_hand_is_not_taken_for_loans() {
    let mut there = actual();
    let mut add = |description: &str| {
        let mut qos = there.qoses["normal"].clone();
        qos.description = description.to_owned();
        there.qoses.insert("x_burst".to_owned(), qos);
        said_of(X, &there)
    };
    assert_eq!(add("by hand"), ["1 error: with Burst, QOS 'x_burst' exists already; rename or delete it"]);
    assert!(add("gpushare@north burst")[0].contains("of cluster 'north'"));
    assert_eq!(add("gpushare@lab burst"), Vec::<String>::new());
    assert_eq!(add("gpushare@lab"), Vec::<String>::new());
}

#[test]
fn a_slurm_that_preempts_nothing_lends_nothing() {
    for (from, to) in
        [("preempt/qos", "(null)"), ("preempt/qos", "preempt/partition_prio"), ("REQUEUE", "OFF")]
    {
        let cluster = Cluster::of(&Settings::parse(&CONFIG.replace(from, to)), &node::read(NODES)).unwrap();
        let said =
            |text: &str| check(&Database::parse(text).unwrap().qoses, &actual(), &cluster, &HashSet::new());
        let [one] = said(X).try_into().unwrap();
        assert!(
            one.is_error && one.text.starts_with("Burst needs PreemptType=preempt/qos in slurm.conf and")
        );
        assert!(said(&X.replace(" Burst=2x", "")).is_empty());
    }
}
