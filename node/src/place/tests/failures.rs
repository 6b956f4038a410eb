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
