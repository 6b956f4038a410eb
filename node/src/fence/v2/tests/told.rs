//! What has ended is left out, and what the kernel answers is told.

use super::*;

#[test]
fn a_task_that_has_ended_is_left_out() {
    let root = tempfile::tempdir().unwrap();
    let kernel = cluster(&root, Kind::Srun);
    raise(&kernel, &fence(true, &[2])).unwrap();
    let calls = kernel.calls.take();
    let task = calls.iter().rposition(|call| call.starts_with("attached ")).unwrap();
    for errno in [libc::ENOENT, libc::ENODEV] {
        let kernel = cluster(&root, Kind::Srun);
        kernel.failing.set(Some((task, errno)));
        raise(&kernel, &fence(true, &[2])).unwrap();
    }
}

#[test]
fn the_tasks_of_a_step_that_has_ended_are_none() {
    let root = tempfile::tempdir().unwrap();
    cluster(&root, Kind::Srun);
    let user = root.path().join(USER);
    let mut found = crate::fence::v2::tasks(&user).unwrap();
    found.sort();
    assert_eq!(found, ["task_0", "task_1", "task_special"].map(|name| user.join(name)));
    assert!(crate::fence::v2::tasks(&user.join("task_7")).unwrap().is_empty());
    let file = root.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(matches!(crate::fence::v2::tasks(&file), Err(V2Error::List(..))));
}

#[test]
fn what_the_kernel_answers_is_told_with_where_to_look() {
    let cases = [
        (0, libc::ENOSYS, "CONFIG_CGROUP_BPF"),
        (0, libc::EPERM, "may not use bpf(2)"),
        (0, libc::EINVAL, "before 4.15"),
        (0, libc::EBADF, "not a directory of a mounted cgroup2"),
        (0, libc::ENOENT, "No such file"),
        (4, libc::EACCES, "R11 is invalid"),
        (5, libc::EPERM, "bpftool cgroup tree"),
        (5, libc::EPERM, "Slurm's device program"),
        (6, libc::EPERM, "gpushare's device program"),
    ];
    let root = tempfile::tempdir().unwrap();
    for (at, errno, said) in cases {
        let kernel = cluster(&root, Kind::Batch);
        kernel.failing.set(Some((at, errno)));
        let error = raise(&kernel, &fence(false, &[2])).unwrap_err().to_string();
        assert!(error.contains(said) && !error.contains('\n'), "{errno} at call {at}: {error}");
    }
}
