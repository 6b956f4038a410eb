//! Jobs as Slurm's library unpacks them.

use std::mem::MaybeUninit;

use slurm_sys::{job_info, job_info_msg_t};

use super::*;

/// A waiting job with one QOS that wants three nodes, with a change.
fn shown(change: impl Fn(&mut job_info)) -> Option<Existing> {
    let text = |text: &str| text::in_slurm_memory(text).unwrap().as_ptr();
    // SAFETY: a C structure of numbers and pointers, for which all zeros are a valid value.
    let mut job: job_info = unsafe { MaybeUninit::zeroed().assume_init() };
    (job.job_state, job.shared, job.max_nodes) = (slurm_sys::JOB_WAITS, 1, 5);
    (job.qos, job.tres_req_str) = (text("normal"), text("cpu=3,node=3,billing=3"));
    (job.num_nodes, job.num_cpus, job.num_tasks) = (1, 3, 1);
    change(&mut job);
    // SAFETY: the same.
    let mut message: Box<job_info_msg_t> = Box::new(unsafe { MaybeUninit::zeroed().assume_init() });
    (message.record_count, message.job_array) = (1, Box::into_raw(Box::new(job)));
    Existing::shown(Unpacked::at(NonNull::new(Box::into_raw(message)).unwrap()))
}

/// A byte of a packed job that may differ is no longer looked into, so it must say the same with each value.
#[test]
fn jobs_are_alike_only_if_a_third_one_between_them_would_be() {
    let first = shown(|_| {}).unwrap();
    assert!(first.is_like(&shown(|_| {}).unwrap()) && first.is_like(&shown(|job| job.job_id = 7).unwrap()));
    for (what, change) in [
        ("shared", &(|job: &mut job_info| job.shared = 2) as &dyn Fn(&mut job_info)),
        ("an estimate of nodes", &|job| job.num_nodes = 2),
    ] {
        let other = shown(change).unwrap();
        assert_eq!((first.request(), first.others()), (other.request(), other.others()), "{what}");
        assert!(!first.is_like(&other), "{what}");
    }
    let alone = |job: &mut job_info| job.shared = 0;
    assert_ne!(first.request(), shown(alone).unwrap().request());
    assert_ne!(first.others(), shown(|job| job.num_nodes = 4).unwrap().others());
}

#[test]
fn what_is_shown_otherwise_than_it_is_is_not_taken() {
    assert!(shown(|_| {}).is_some());
    assert!(shown(|job| job.job_state = slurm_sys::JOB_WAITS + 1).is_none(), "it runs");
    // SAFETY: the texts of `shown`, with room for that.
    assert!(shown(|job| unsafe { job.qos.write(b','.cast_signed()) }).is_none(), "a list of QOSes");
    // SAFETY: the same.
    assert!(shown(|job| unsafe { job.tres_req_str.write(0) }).is_none(), "no number of nodes");
}
