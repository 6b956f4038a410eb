use std::collections::BTreeMap;

use gpushare_node::gpu::{DeviceNumber, Drain, Gpu, Unfit};
use gpushare_node::job::JobKey;
use gpushare_node::ledger::{Event, Holding};
use gpushare_node::mps::service::{Daemon, On, Serves};
use gpushare_node::nvml::answer::GpuState;

use super::*;

fn gpu(index: u32) -> Gpu {
    // Slurm's order differs from the driver's.
    let number = DeviceNumber { major: 195, minor: 7 - index };
    Gpu {
        index,
        path: format!("/dev/nvidia{}", 7 - index).into(),
        number,
        uuid: Some(format!("GPU-{index}")),
    }
}

fn entry(id: u32, user_id: u32, units: Option<u32>, index: u32) -> Entry {
    let share = |units| Holding::Share { units, capacity: 80, allocated_gpu: None, memory: None };
    let holding = units.map_or(Holding::Whole, share);
    let without = Entry::without_gpus(JobKey { id, restart: 0 }, user_id);
    Entry { holding, gpus: vec![gpu(index)], since: 1, ..without }
}

fn detail(index: u32, unfit: Option<Unfit>) -> Detail {
    let missing = matches!(unfit, Some(Unfit::Missing(_)));
    let Gpu { path, number, uuid, .. } = gpu(index);
    let number = (!missing).then_some(number);
    Detail { index, path, number, uuid, pci: None, model: None, gres_type: None, unfit }
}

fn drain() -> Drain {
    let (uuid, place) = ("GPU-1".to_owned(), "nvidia6".to_owned());
    Drain { uuid, place, since: 1, user: "root".to_owned(), reason: "hot".to_owned() }
}

fn node() -> Node {
    let entries = vec![
        entry(1, 7, Some(40), 0),
        entry(2, 7, Some(20), 0),
        entry(3, 8, Some(20), 0),
        entry(4, 7, None, 1),
    ];
    let details = vec![
        detail(0, None),
        detail(1, Some(Unfit::Drained(Box::new(drain())))),
        detail(2, Some(Unfit::MigEnabled)),
        detail(3, Some(Unfit::Missing(ErrorKind::NotFound))),
    ];
    let mut gpus = local::totals(&details, &[80; 4], &entries, &Measured::default());
    gpus[1].state = GpuState { fault: Some("it is lost".to_owned()), ..GpuState::default() };
    let seen = |minor, user, pid, stuck| Seen {
        daemon: Daemon { on: On::Gpu(minor), serves: Serves::User(user) },
        pid,
        stuck,
    };
    let used = |id, minor, used| Used { key: JobKey { id, restart: 0 }, minor, used, looked: 5000 };
    gpus[0].foreign = Some(Vec::new());
    Node {
        // Two jobs here, one that is over, and one that has another GPU.
        used: vec![used(1, 7, 4000), used(2, 7, 3000), used(9, 7, 1), used(4, 7, 1)],
        gpus,
        entries,
        details,
        is_health_known: true,
        failures: 2,
        unreadable: 1,
        daemons: vec![
            seen(7, 7, Some(4711), None),
            seen(7, 8, None, None),
            seen(6, 7, Some(4712), Some('T')),
            seen(6, 9, Some(4713), None),
        ],
    }
}

fn facts() -> Facts {
    let outcomes =
        counters::all().into_iter().zip(1..).map(|((number, outcome), count)| (number, outcome, count));
    Facts {
        config_error: false,
        sources: vec![("conf", true), ("ledger", true)],
        node: Some(node()),
        counts: Some(Counts::default()),
        outcomes: outcomes.collect(),
    }
}

/// `{name and labels: value}`. Checks that every line is a sample or a comment, and that no sample occurs twice.
fn samples(text: &str) -> BTreeMap<String, u64> {
    assert!(text.ends_with('\n') && !text.contains("\n\n"));
    let mut samples = BTreeMap::new();
    let mut family = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            family = rest.split(' ').next().unwrap().to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            assert_eq!(rest.split(' ').next(), Some(family.as_str()));
        } else {
            let (sample, value) = line.rsplit_once(' ').unwrap();
            assert_eq!(sample.split('{').next(), Some(family.as_str()), "{line}");
            assert!(samples.insert(sample.to_owned(), value.parse().unwrap()).is_none(), "{line}");
        }
    }
    samples
}

#[test]
fn a_node_is_counted_by_gpu() {
    let samples = samples(&text::exposition(&facts(), Some(1_700_000_000)));
    let of = |name: &str, index: u32| {
        samples.get(&format!("gpushare_gpu_{name}{{gpu=\"{index}\",uuid=\"GPU-{index}\"}}"))
    };
    for (name, expected) in [
        ("units_assigned", [80, 0, 0]),
        ("units_capacity", [80, 80, 80]),
        ("jobs", [3, 1, 0]),
        ("users", [2, 1, 0]),
        ("whole", [0, 1, 0]),
        ("healthy", [1, 0, 1]),
        ("mig_enabled", [0, 0, 1]),
        ("drained", [0, 1, 0]),
    ] {
        assert_eq!([0, 1, 2].map(|index| of(name, index).copied()), expected.map(Some), "{name}");
    }
    for (name, value) in [("foreign_processes", 0), ("idle_seconds", 2000)] {
        let expected = [Some(value), None, None];
        assert_eq!([0, 1, 2].map(|index| of(name, index).copied()), expected, "{name}");
    }
    for (sample, expected) in [
        ("gpushare_gpus", 3),
        ("gpushare_gpus_missing", 1),
        ("gpushare_jobs", 4),
        ("gpushare_users", 2),
        ("gpushare_failed_jobs", 2),
        ("gpushare_unreadable_entries", 1),
        ("gpushare_up", 1),
        ("gpushare_last_success_timestamp_seconds", 1_700_000_000),
        ("gpushare_gpu_info{gpu=\"1\",uuid=\"GPU-1\",device=\"/dev/nvidia6\",minor=\"6\"}", 1),
        ("gpushare_mps_daemons{gpu=\"0\",uuid=\"GPU-0\",state=\"running\"}", 1),
        ("gpushare_mps_daemons{gpu=\"0\",uuid=\"GPU-0\",state=\"stopped\"}", 1),
        ("gpushare_mps_daemons{gpu=\"1\",uuid=\"GPU-1\",state=\"running\"}", 1),
        ("gpushare_mps_daemons{gpu=\"1\",uuid=\"GPU-1\",state=\"stuck\"}", 1),
        ("gpushare_placements_total{holding=\"share\"}", 0),
        ("gpushare_refusals_total{message=\"GS101\"}", 1),
        ("gpushare_passes_total{message=\"GS101\",outcome=\"audited\"}", 3),
        ("gpushare_refusals_total{message=\"GS102\"}", 5),
        ("gpushare_changes_total{message=\"GS155\"}", 121),
    ] {
        assert_eq!(samples.get(sample), Some(&expected), "{sample}");
    }
    assert!(!samples.keys().any(|name| name.contains("gpu=\"2\"") && name.contains("mps")));
}

#[test]
fn nothing_is_said_of_what_is_not_known() {
    let mut facts = facts();
    facts.sources.push(("nvml", false));
    facts.node.as_mut().unwrap().is_health_known = false;
    let found = samples(&text::exposition(&facts, None));
    assert_eq!(
        (found.get("gpushare_up"), found.get("gpushare_source_up{source=\"nvml\"}")),
        (Some(&0), Some(&0))
    );
    assert!(!found.keys().any(|name| name.contains("healthy") || name.contains("last_success")));
    let found = samples(&text::exposition(&Facts::default(), Some(1)));
    let names: Vec<&str> = found.keys().map(|name| name.split('{').next().unwrap()).collect();
    assert_eq!(
        names,
        [
            "gpushare_build_info",
            "gpushare_config_error",
            "gpushare_last_success_timestamp_seconds",
            "gpushare_up"
        ]
    );
}

#[test]
fn labels_are_escaped() {
    let mut facts = facts();
    facts.node.as_mut().unwrap().gpus[0].gpu.uuid = Some("a\"b\\c\nd".to_owned());
    assert!(text::exposition(&facts, None).contains("uuid=\"a\\\"b\\\\c\\nd\""));
}

#[test]
fn the_last_success_is_found_in_the_text() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("gpushare.prom");
    textfile::write(&out, &text::exposition(&facts(), Some(1_700_000_000))).unwrap();
    assert_eq!(textfile::last_success(&out, text::LAST_SUCCESS), Some(1_700_000_000));
}

fn run_with(text: &str, dir: &Path) -> Facts {
    std::fs::write(dir.join("gpushare.conf"), text).unwrap();
    gather(Some(&dir.join("gpushare.conf")), &Ledger::at(dir.join("run")))
}

#[test]
fn a_machine_without_shares_and_refusals_has_nothing_to_say_and_that_is_no_fault() {
    let dir = tempfile::tempdir().unwrap();
    for text in [
        "# nothing\n",
        "Placement=own\nUnitsPerGpu=80\nNvml=off\nGpuFile=/dev/no-such-gpu\n",
        "RefusalCounts=/no/such/folder/gpushare.counts\n",
    ] {
        let facts = run_with(text, dir.path());
        assert_eq!(facts.sources, [("conf", true)], "{text}");
        assert!(facts.node.is_none() && facts.outcomes.is_empty(), "{text}");
    }
}

#[test]
fn what_cannot_be_read_is_said() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(run_with("Placement=sideways\n", dir.path()).sources, [("conf", false)]);
    let counts = dir.path().join("counts");
    let conf = format!("RefusalCounts={}\n", counts.display());
    assert_eq!(
        run_with(&conf, dir.path()).sources,
        [("conf", true), ("refusals", false)],
        "slurmctld writes none"
    );
    counter_file::CounterFile::open(&counts, &counters::names()).unwrap().add("GS103 warned").unwrap();
    let facts = run_with(&conf, dir.path());
    assert!(facts.is_complete() && facts.outcomes.contains(&("GS103", Outcome::Warned, 1)));
    std::fs::write(&counts, "garbage").unwrap();
    let facts = run_with(&conf, dir.path());
    assert!(!facts.is_complete() && facts.outcomes.is_empty(), "no zeros for what isn't known");
}

#[test]
fn a_node_that_lost_its_gpus_says_what_the_ledger_has() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::at(dir.path().join("run"));
    let locked = ledger.lock(std::time::Duration::from_secs(1)).unwrap();
    locked.record(&entry(1, 7, Some(40), 0)).unwrap();
    locked.count_placement(&entry(1, 7, Some(40), 0), true);
    let conf = "Placement=own\nUnitsPerGpu=80\nNvml=off\nGpuFile=/dev/no-such-gpu\n";
    let facts = run_with(conf, dir.path());
    assert_eq!(facts.sources, [("conf", true), ("gpus", false), ("counts", true), ("ledger", true)]);
    assert_eq!(facts.node.as_ref().unwrap().entries.len(), 1);
    let counts = facts.counts.unwrap();
    assert_eq!([Event::Share, Event::Overcommitted, Event::Whole].map(|event| counts.of(event)), [1, 1, 0]);
    std::fs::write(dir.path().join("run/counts"), "garbage").unwrap();
    assert!(run_with(conf, dir.path()).sources.contains(&("counts", false)));
    std::fs::remove_dir_all(dir.path().join("run/jobs")).unwrap();
    std::fs::write(dir.path().join("run/jobs"), "x").unwrap();
    let facts = run_with(conf, dir.path());
    assert!(facts.sources.contains(&("ledger", false)) && facts.node.is_none());
}
