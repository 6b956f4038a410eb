//! Jobs that ask for an MPS daemon on their whole GPUs.

use super::*;

fn asks(job: NodeJob) -> NodeJob {
    NodeJob { gpu_mps: true, ..job }
}

#[test]
fn only_whole_gpus_have_a_daemon_of_the_jobs_own() {
    let node = Place::new("MpsWholeGpus=yes");
    match node.place(&asks(whole(1, &[1, 2]))).unwrap() {
        Placed::Now(Entry { given, .. }, _) => {
            assert_eq!(given.daemon.as_deref(), Some(Path::new("/run/gpushare/mps/j1-2001")));
            let pipe = ("CUDA_MPS_PIPE_DIRECTORY".to_owned(), "/run/gpushare/mps/j1-2001/pipe".to_owned());
            assert!(given.variables.len() == 2 && given.variables.contains(&pipe), "{given:?}");
        }
        other => panic!("{other:?}"),
    }
    let refused = |node: &Place, job: NodeJob| {
        node.place(&asks(job.clone())).unwrap_err();
        let why = node.failure(job.key.id).unwrap();
        assert!(why.contains("--gpu-mps"), "{why}");
        why
    };
    assert!(refused(&node, job(2, 40)).contains("a share"));
    assert!(refused(&node, whole(3, &[])).contains("no GPU"));
    assert!(refused(&Place::new(""), whole(4, &[0])).contains("MpsWholeGpus=no"));
    // Who doesn't ask has none, whatever is allowed.
    let Placed::Now(entry, _) = node.place(&whole(5, &[0])).unwrap() else { panic!("job 5 is new") };
    assert_eq!(entry.given, crate::ledger::Given::default());
}

#[test]
fn a_gpu_with_parts_has_none() {
    let mut node = Place::new("MpsWholeGpus=yes");
    let instance = node.dir.path().join("proc/driver/nvidia/capabilities/gpu5/mig/gi1");
    std::fs::create_dir_all(instance).unwrap();
    node.proc = Some(node.dir.path().join("proc"));
    let found = node.place(&asks(whole(1, &[0])));
    assert!(matches!(found, Err(PlaceError::MpsOnMig)), "{found:?}");
    assert!(node.failure(1).unwrap().contains("MIG"));
}
