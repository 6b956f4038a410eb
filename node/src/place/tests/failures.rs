//! What fails a job, and what doesn't.

use super::*;

#[test]
fn no_share_is_placed_beside_an_entry_that_cannot_be_read() {
    let node = Place::new("");
    node.index(&job(1, 40));
    let other = node.dir.path().join("gpushare/jobs/9");
    std::fs::write(&other, "gpushare-ledger 6\n").unwrap();
    for id in [2, 3] {
        let hit = node.place(&job(id, 40));
        assert!(
            matches!(hit, Err(PlaceError::Unread(ref found)) if found[0].starts_with("'9': ")),
            "{hit:?}"
        );
        assert!(node.failure(id).unwrap().contains("another version"));
    }
    assert!(matches!(node.place(&job(1, 40)), Ok(Placed::Before(_))));
    release(&node.ledger, 9, None).unwrap();
    assert_eq!(node.index(&job(2, 40)), 1);
    assert_eq!(node.failure(2), None);
}

#[test]
fn a_whole_gpu_that_cannot_be_noted_fails_its_job_where_a_share_could_go_on_it() {
    for (lines, fails) in
        [("Placement=follow", false), ("Placement=follow\nFenceDrm=yes", true), ("Placement=override", true)]
    {
        let node = Place::new(lines);
        let hit = node.place(&whole(1, &[7]));
        assert!(matches!(hit, Err(PlaceError::NoSuchGpu(7))), "{lines}: {hit:?}");
        assert_eq!(node.failure(1).is_some(), fails, "{lines}");
    }
}

#[test]
fn whole_gpus_of_other_makers_are_left_to_slurm() {
    for lines in ["Placement=follow\nFenceDrm=yes\nGpuFile=auto", "Placement=override\nGpuFile=auto"] {
        let node = Place::new(lines);
        std::fs::create_dir(node.dir.path().join("dev")).unwrap();
        std::fs::write(node.dir.path().join("gres.conf"), "AutoDetect=rsmi\nName=gpu Type=mi300\n").unwrap();
        let hit = node.place(&whole(1, &[1]));
        assert!(matches!(hit, Err(PlaceError::Devices(DeviceError::None))), "{hit:?}");
        assert_eq!(node.failure(1), None, "{lines}");
        assert!(node.place(&job(2, 40)).is_err());
        assert!(node.failure(2).is_some(), "{lines}");
    }
}

#[test]
fn a_failure_is_forgotten_with_its_job() {
    // With any `Overcommit`: no GPU has room for more than a GPU.
    let node = Place::new("");
    assert!(matches!(node.place(&job(1, 81)), Err(PlaceError::TooLarge { units: 81, capacity: 80 })));
    assert!(node.failure(1).unwrap().contains("81 units"));
    assert_eq!(release(&node.ledger, 1, Some(0)).unwrap(), None);
    assert_eq!(node.failure(1), None);
}

#[test]
fn who_finds_no_room_marks_no_job_that_another_prolog_has_placed() {
    let place = Place::new("");
    let _ = place.place(&job(1, 40)).unwrap();
    let error = PlaceError::Mismatch(crate::allocation::Mismatch::SeveralGpus);
    for id in [1, 2] {
        error.mark(&place.config, &place.ledger, &job(id, 40)).unwrap();
    }
    assert_eq!(place.ledger.list().unwrap().failures, [(2, error.to_string())]);
}

#[test]
fn a_mark_of_the_extern_step_above_outlives_the_prolog() {
    let mut place = Place::new("");
    let proc = place.dir.path().join("proc");
    let process = |pid: u32, name: &str, parent: u32, title: &str| {
        let dir = proc.join(pid.to_string());
        std::fs::create_dir_all(&dir).unwrap();
        let stat = format!("{pid} ({name}) S {parent}{} 9 1\n", " 0".repeat(17));
        std::fs::write(dir.join("stat"), stat).unwrap();
        std::fs::write(dir.join("cmdline"), title).unwrap();
        std::fs::write(dir.join("status"), "Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n").unwrap();
    };
    process(std::process::id(), "gpushare-prolog", 50, "gpushare-prolog");
    process(50, "slurmstepd", 1, "slurmstepd: [1.extern]");
    place.proc = Some(proc.clone());
    let [own, earlier] = [50, 40].map(|pid| Some(Witness { pid, start: 9 }));
    let mark = |witness| {
        let locked = place.ledger.lock(LOCK_WAIT).unwrap();
        crate::ledger::extern_step::fail(&locked, witness, (1, 2001), "no fence").unwrap();
    };
    for start in [job(1, 40), whole(1, &[0]), whole(1, &[])] {
        mark(own);
        assert!(matches!(place.place(&start), Ok(Placed::Before(_))));
        assert_eq!(place.failure(1).as_deref(), Some("no fence"));
        release(&place.ledger, 1, Some(0)).unwrap();
    }
    mark(earlier);
    assert_eq!(place.index(&job(1, 40)), 0);
    assert_eq!(place.failure(1), None, "of an earlier start");
    // An old job with the same number, whose entry was left.
    place.witness(1, 40, 9);
    place.ledger.lock(LOCK_WAIT).unwrap().fail(job(1, 40).key, 2001, "old").unwrap();
    assert!(matches!(place.place(&job(1, 40)), Ok(Placed::Now(..))));
    assert_eq!(place.failure(1), None);
}

#[test]
fn a_job_with_parts_on_two_nodes_of_one_machine_fails_on_both() {
    let mut place = Place::new("");
    assert_eq!(place.index(&job(1, 40)), 0);
    place.name = "n2";
    let hit = place.place(&job(1, 40));
    assert!(matches!(hit, Err(PlaceError::OtherNode(ref other)) if other == "n1"), "{hit:?}");
    assert!(place.failure(1).unwrap().contains("one slurmd per machine"));
    assert!(place.ledger.find(1).unwrap().unwrap().has_gpus(), "until its epilog");
    let requeued = NodeJob { key: JobKey { id: 1, restart: 1 }, ..job(1, 40) };
    assert!(
        matches!(place.place(&requeued), Ok(Placed::Now(..))),
        "an earlier start may have been elsewhere"
    );
}

#[test]
fn a_share_of_several_gpus_fails() {
    let node = Place::new("");
    let hit = node.place(&NodeJob { gpus: vec![0, 1], ..job(1, 40) });
    assert!(matches!(hit, Err(PlaceError::Mismatch(_))), "{hit:?}");
    assert!(node.failure(1).unwrap().contains("MULTIPLE_SHARING_GRES_PJ"));
}

#[test]
fn a_share_that_is_larger_than_the_gpu_that_slurm_chose_fails() {
    let mut node = Place::new("");
    let lines = "Placement=follow\nShareGRES=shard\nUnitsPerGpu=80,40\nGpuFile=/dev/zero,/dev/null\n";
    node.config = Nodes::parse(lines).unwrap().all;
    let noted = Some(Noted { gres: "shard".to_owned(), units: 60 });
    let of = |id, gpu| NodeJob { percent: None, noted: noted.clone(), gpus: vec![gpu], ..job(id, 60) };
    assert_eq!(node.index(&of(1, 0)), 0);
    let hit = node.place(&of(2, 1));
    assert!(matches!(hit, Err(PlaceError::TooLarge { units: 60, capacity: 40 })), "{hit:?}");
}

#[test]
fn a_share_that_only_other_users_leave_no_room_is_told_so() {
    let node = Place::new("UserMix=deny\nOvercommit=refuse");
    let of = |id| NodeJob { user_id: 2000 + id, ..job(id, 40) };
    for id in 1..=4 {
        node.index(&of(id));
    }
    let hit = node.place(&of(5));
    assert!(matches!(hit, Err(PlaceError::Nowhere { why: NothingFits::OtherUsers, .. })), "{hit:?}");
    assert!(
        node.failure(5).unwrap().contains("has other users' shares, and gpushare.conf says UserMix=deny")
    );
}

#[test]
fn shares_that_slurm_charges_to_several_gpus_are_noticed() {
    let node = Place::new("");
    let is_charged = |notice: &Notice| matches!(notice, Notice::SeveralCharged);
    assert!(!node.notices(&job(1, 40)).iter().any(is_charged));
    assert!(!node.notices(&job(2, 40)).iter().any(is_charged));
    assert!(node.notices(&NodeJob { gpus: vec![1], ..job(3, 40) }).iter().any(is_charged));
}
