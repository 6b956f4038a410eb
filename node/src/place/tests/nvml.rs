//! What NVML's answer changes, and what NVML makes.

use super::*;

/// NVML's answer about /dev/zero, /dev/null, /dev/full and /dev/random, whose minors are 5, 3, 7 and 8.
fn measured(states: [(u32, u32, Option<&str>); 4]) -> Option<Measured> {
    let gpus = [5, 3, 7, 8].into_iter().zip(states).map(|(minor, (used, utilization, fault))| GpuState {
        uuid: format!("GPU-{minor}"),
        minor: Some(minor),
        memory: Some(40_000),
        used: Some(used),
        utilization: Some(utilization),
        fault: fault.map(str::to_owned),
        ..GpuState::default()
    });
    Some(Measured { limits: false, gpus: gpus.collect() })
}

#[test]
fn a_share_goes_where_least_is_in_use_and_knows_its_memory() {
    let mut node = Place::new("");
    node.measured = measured([(30_000, 0, None), (20_000, 0, None), (10_000, 0, None), (20_000, 0, None)]);
    let Placed::Now(entry, _) = node.place(&job(1, 20)).unwrap() else { panic!() };
    assert_eq!(entry.gpus[0].index, 2);
    assert!(matches!(entry.holding, Holding::Share { memory: Some(10_000), .. }), "{:?}", entry.holding);
}

#[test]
fn a_faulty_gpu_that_slurm_picks_is_named() {
    let mut node = Place::new("Placement=follow");
    node.measured =
        measured([(0, 0, Some("it is lost")), (9, 9, Some("it too")), (9, 9, None), (9, 9, None)]);
    let picked = NodeJob { percent: Some(50), noted: None, gpus: vec![0], ..job(1, 40) };
    let Placed::Now(_, notices) = node.place(&picked).unwrap() else { panic!() };
    assert!(
        matches!(&notices[..], [Notice::OnFaulty { index: 0, fault }] if fault == "it is lost"),
        "{notices:?}"
    );
}

#[test]
fn a_faulty_gpu_takes_no_share_and_is_named() {
    let mut node = Place::new("Overcommit=refuse");
    node.measured = measured([(0, 0, Some("it is lost")), (9, 9, None), (9, 9, None), (9, 9, None)]);
    let Placed::Now(entry, notices) = node.place(&job(1, 80)).unwrap() else { panic!() };
    assert_eq!(entry.gpus[0].index, 1);
    assert!(
        matches!(&notices[..], [Notice::Faulty { index: 0, fault }] if fault == "it is lost"),
        "{notices:?}"
    );
    let all = node.measured.as_mut().unwrap();
    all.gpus.iter_mut().for_each(|gpu| gpu.fault = Some("it is lost".to_owned()));
    let refused = node.place(&job(2, 80));
    assert!(matches!(refused, Err(PlaceError::Nowhere { why: NothingFits::NoneLeft, .. })), "{refused:?}");
}

#[test]
fn nvml_that_says_nothing_leaves_the_ledger_to_decide() {
    let mut node = Place::new("MemPerUnit=100");
    let Placed::Now(entry, _) = node.place(&job(1, 20)).unwrap() else { panic!() };
    assert!(matches!(entry.holding, Holding::Share { memory: Some(2000), .. }), "{:?}", entry.holding);
    // NVML knows only one GPU; that makes no GPU look idle or busy.
    node.measured = measured([(0, 0, None); 4]);
    node.measured.as_mut().unwrap().gpus.truncate(1);
    assert_eq!(node.index(&job(2, 20)), 1);
}

#[test]
fn a_gpu_that_nothing_has_initialised_since_boot_may_get_its_device_node_from_nvml() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nvidia0");
    let mut node = Place::new(&format!("Placement=own\nShareGRES=gpushare\nGpuFile={}", path.display()));
    let job = NodeJob {
        percent: None,
        noted: Some(Noted { gres: "gpushare".to_owned(), units: 40 }),
        gpus: Vec::new(),
        ..job(1, 40)
    };
    assert!(matches!(node.place(&job), Err(PlaceError::Devices(_))));
    node.makes = Some(path);
    assert_eq!(node.index(&job), 0);
}

#[test]
fn a_gpu_that_nothing_has_initialised_since_boot_has_the_uuid_that_nvml_tells() {
    let mut node = Place::new("");
    let state =
        |uuid: &str, minor| GpuState { uuid: uuid.to_owned(), minor: Some(minor), ..GpuState::default() };
    // /dev/zero and /dev/null.
    node.measured = Some(Measured { limits: false, gpus: vec![state("minor-3", 3), state("GPU-a", 5)] });
    let uuid = |id| {
        node.index(&job(id, 80));
        node.ledger.find(id).unwrap().unwrap().gpus[0].uuid.clone()
    };
    assert_eq!(uuid(1).as_deref(), Some("GPU-a"));
    assert_eq!(uuid(2), None, "what gpushare-nvml calls one that has none is no UUID");
}
