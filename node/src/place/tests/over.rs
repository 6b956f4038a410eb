//! What jobs that are over leave behind, and when it is removed.

use super::*;

/// A /proc in which only init lives.
fn empty_machine(node: &mut Place) {
    let proc = node.dir.path().join("proc");
    std::fs::create_dir_all(proc.join("1")).unwrap();
    std::fs::write(proc.join("1/stat"), format!("1 (init) S{} 5 1\n", " 0".repeat(18))).unwrap();
    std::fs::write(proc.join("1/cmdline"), "init").unwrap();
    node.proc = Some(proc);
}

#[test]
fn jobs_that_are_over_are_dropped_when_they_are_in_the_way() {
    let mut node = Place::new("Overcommit=refuse");
    empty_machine(&mut node);
    for id in 1..=4 {
        node.index(&job(id, 80));
    }
    node.witness(3, 77, 7);
    node.now += 1;
    node.ledger.lock(LOCK_WAIT).unwrap().reconcile(Path::new("/nonexistent"), node.now, GRACE).unwrap_err();
    assert!(matches!(node.notices(&job(5, 80))[..], [Notice::Completing(JobKey { id: 3, .. })]));
    assert!(
        node.place(&job(6, 80)).is_err(),
        "who has no witness stays, unless slurmctld says that it is over"
    );
    node.over = vec![2];
    node.witness(2, 1, 5);
    assert!(matches!(node.notices(&job(6, 80))[..], [Notice::Dropped(JobKey { id: 2, .. })]));
    node.over.clear();
    node.witness(1, 77, 7);
    let hit = node.place(&whole(7, &[0]));
    assert!(matches!(hit, Ok(Placed::Now(..))), "{hit:?}");
}

#[test]
fn jobs_that_are_over_are_dropped_once_a_minute() {
    let mut node = Place::new("");
    empty_machine(&mut node);
    node.index(&job(1, 40));
    node.witness(1, 77, 7);
    node.now += 59;
    assert!(node.notices(&job(2, 40)).is_empty());
    node.now += 1;
    assert!(matches!(node.notices(&job(3, 40))[..], [Notice::Dropped(JobKey { id: 1, .. })]));
}

#[test]
fn whom_slurmctld_is_asked_about() {
    let mut node = Place::new("Overcommit=refuse");
    empty_machine(&mut node);
    for id in 1..=4 {
        node.index(&job(id, 60));
        node.witness(id, 1, 5);
    }
    node.over = vec![2];
    assert!(node.place(&job(5, 80)).is_err(), "240 and 80 of 320 units are no more than there are");
    let fifth = node.index(&job(5, 20));
    assert!(
        matches!(node.notices(&job(6, 80))[..], [Notice::Dropped(JobKey { id: 2, .. })]),
        "but 260 and 80 are"
    );
    assert_eq!(fifth, 0);
}
