//! What samples of NVML say of jobs.

use gpushare_node::gpu::{DeviceNumber, Gpu};
use gpushare_node::ledger::{Entry, Holding};
use gpushare_node::nvml::answer::{GpuState, Measured};
use gpushare_node::proc::running::{Place, Running};

use super::super::look::{Sample, of};
use super::*;

pub(super) fn gpu(minor: u32) -> Gpu {
    let number = DeviceNumber { major: 195, minor };
    Gpu {
        index: minor,
        path: format!("/dev/nvidia{minor}").into(),
        number,
        uuid: Some(format!("GPU-{minor}")),
    }
}

pub(super) fn entry(id: u32, restart: u32, since: u64, gpus: &[u32]) -> Entry {
    let without = Entry::without_gpus(JobKey { id, restart }, 2001);
    let (gpus, node) = (gpus.iter().copied().map(gpu).collect(), Some("n1".to_owned()));
    Entry { holding: Holding::Whole, gpus, since, node, ..without }
}

pub(super) fn state(minor: u32, utilization: Option<u32>, running: Vec<Running>) -> GpuState {
    let uuid = format!("GPU-{minor}");
    GpuState { uuid, minor: Some(minor), utilization, running, ..GpuState::default() }
}

pub(super) fn process(pid: u32, place: Place, busy: u32) -> Running {
    Running { pid, start: 1, busy, user: 2001, place, ..Running::default() }
}

fn sample(gpus: Vec<GpuState>, entries: &[Entry]) -> Sample {
    Sample { measured: Measured { limits: false, gpus }, entries: entries.to_vec(), mps: None }
}

fn usage(samples: &[Sample]) -> Vec<Usage> {
    of(samples).iter().map(|look| look.usage).collect()
}

#[test]
fn one_busy_gpu_or_sample_is_use_and_one_that_is_unknown_is_no_idleness() {
    let job = [entry(7, 0, 1000, &[0, 1])];
    let (idle, busy, unknown) = (Some(0), Some(3), None);
    let two = |first, second| sample(vec![state(0, first, vec![]), state(1, second, vec![])], &job);
    for (samples, expected) in [
        (vec![two(idle, idle), two(idle, idle)], Usage::Idle),
        (vec![two(idle, busy), two(idle, idle)], Usage::Busy),
        (vec![two(unknown, busy)], Usage::Busy),
        (vec![two(idle, idle), two(idle, unknown)], Usage::Unknown),
        (vec![sample(vec![state(0, idle, vec![])], &job)], Usage::Unknown),
        (vec![sample(vec![], &[]), two(idle, idle)], Usage::Unknown),
    ] {
        assert_eq!(usage(&samples), [expected]);
    }
    assert!(of(&[]).is_empty());
    assert!(usage(&[sample(vec![], &[Entry::without_gpus(JobKey { id: 7, restart: 0 }, 1)])]).is_empty());
}

#[test]
fn work_that_may_be_any_jobs_is_every_jobs() {
    let jobs = [entry(7, 0, 1000, &[0]), entry(8, 0, 1000, &[0]), entry(9, 0, 1000, &[1])];
    let on = |running| usage(&[sample(vec![state(0, Some(50), running), state(1, Some(0), vec![])], &jobs)]);
    let (busy, idle) = (Usage::Busy, Usage::Idle);
    assert_eq!(on(vec![process(1, Place::Job(7), 50), process(2, Place::Job(8), 0)]), [busy, idle, idle]);
    assert_eq!(on(vec![process(1, Place::Mps, 50)]), [busy, busy, idle]);
    assert_eq!(on(vec![process(1, Place::Nowhere, 50)]), [busy, busy, idle], "its user's, from ssh");
    assert_eq!(on(vec![]), [busy, busy, idle]);
}

#[test]
fn a_process_that_comes_or_goes_is_use() {
    let jobs = [entry(7, 0, 1000, &[0]), entry(8, 0, 1000, &[0])];
    let with = |running| sample(vec![state(0, Some(0), running)], &jobs);
    let (own, others) = (process(1, Place::Job(7), 0), process(2, Place::Job(8), 0));
    assert_eq!(usage(&[with(vec![own]), with(vec![own, others])]), [Usage::Idle, Usage::Busy]);
    assert_eq!(of(&[with(vec![own, others])])[0].processes, [(1, 1)]);
    for other in [process(3, Place::Untold, 0), process(3, Place::Nowhere, 0)] {
        assert_eq!(usage(&[with(vec![]), with(vec![other])]), [Usage::Busy; 2]);
    }
}
