//! The text of /proc/PID/cgroup (cgroups(7)): a process's directories, and those of its job and step.

use std::path::{Component, Path, PathBuf};

/// The directory of the job that a process runs in, from the text of /proc/PID/cgroup. Ignores user.slice, where users
/// can make directories of any name.
pub fn job_folder(cgroup: &str) -> Option<PathBuf> {
    // The hierarchies of v1 in which Slurm has a job's directory; that of v2 has no controllers in its line.
    let mut all = ["devices", "freezer", ""].into_iter().flat_map(|controller| paths(cgroup, controller));
    let step = all.find_map(|path| step_of(path).filter(|step| !step.starts_with("/user.slice")))?;
    step.parent().map(Path::to_owned)
}

/// The same on cgroup v2, where that is mounted.
pub fn job_folder_v2(cgroup: &str) -> Option<PathBuf> {
    let step = paths(cgroup, "").find_map(step_of)?;
    Some(Path::new("/sys/fs/cgroup").join(step.parent()?.strip_prefix("/").ok()?))
}

/// The process's directories in the hierarchies with that controller, from the text of /proc/self/cgroup.
pub(crate) fn paths<'a>(cgroup: &'a str, controller: &str) -> impl Iterator<Item = &'a str> {
    cgroup.lines().filter_map(move |line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == controller).then_some(path)
    })
}

/// The path up to the component that names a step.
pub(crate) fn step_of(path: &str) -> Option<PathBuf> {
    up_to(path, "step_")
}

/// The path up to the first component that begins with `prefix`.
pub(crate) fn up_to(path: &str, prefix: &str) -> Option<PathBuf> {
    let mut found = PathBuf::new();
    for component in Path::new(path).components() {
        found.push(component);
        if let Component::Normal(name) = component
            && name.to_str().is_some_and(|name| name.starts_with(prefix))
        {
            return Some(found);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_of_any_process_is_known_by_its_folder() {
        for (text, expected) in [
            ("5:devices:/slurm/uid_1/job_7/step_0/task_0\n0::/\n", Some("/slurm/uid_1/job_7")),
            ("6:freezer:/slurm/uid_1/job_7/step_extern\n5:devices:/\n", Some("/slurm/uid_1/job_7")),
            (
                "0::/system.slice/slurmstepd.scope/sA1B/step_0/user/task_0\n",
                Some("/system.slice/slurmstepd.scope/sA1B"),
            ),
            ("1:name=systemd:/job_7/step_0\n0::/user.slice/user-1.slice/user@1.service/job_7/step_0\n", None),
            ("0::/system.slice/ssh.service\n", None),
        ] {
            assert_eq!(job_folder(text), expected.map(PathBuf::from), "{text}");
        }
    }

    #[test]
    fn on_v2_a_jobs_folder_is_found_in_the_file_system() {
        for (text, expected) in [
            (
                "0::/system.slice/a.scope/job_7/step_extern/slurm\n",
                Some("/sys/fs/cgroup/system.slice/a.scope/job_7"),
            ),
            ("5:devices:/slurm/uid_1/job_7/step_extern\n0::/\n", None),
            ("0::/system.slice/slurmd.service\n", None),
        ] {
            assert_eq!(job_folder_v2(text), expected.map(PathBuf::from), "{text}");
        }
    }
}
