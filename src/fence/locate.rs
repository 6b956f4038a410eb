//! Which cgroup is the step's? From /proc/self/cgroup and /proc/self/mountinfo, never from an assumed path: releases
//! name the directories differently and slurmd may live in a cgroup namespace.

use std::fmt;
use std::path::{Component, Path, PathBuf};

/// The device cgroup of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepCgroup {
    /// cgroup v1: the folder of the step in the `devices` hierarchy.
    V1(PathBuf),
    /// cgroup v2: the path as /proc/self/cgroup has it.
    V2(PathBuf),
}

/// Why the step's cgroup is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocateError {
    /// slurmstepd is in no step's cgroup: Slurm fences no devices here.
    NotInStep,
    /// The hierarchy is not mounted where this process can see it.
    NotMounted,
}

/// Finds the step's cgroup from the texts of /proc/self/cgroup and /proc/self/mountinfo.
pub fn step_cgroup(cgroup: &str, mountinfo: &str) -> Result<StepCgroup, LocateError> {
    let paths = |wanted: &'static str| {
        cgroup.lines().filter_map(move |line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|name| name == wanted).then_some(path)
        })
    };
    if let Some(step) = paths("devices").find_map(step_of) {
        return mounted(&step, mountinfo).map(StepCgroup::V1);
    }
    // The v2 line has no controllers: `0::/path`.
    paths("").find_map(step_of).map(StepCgroup::V2).ok_or(LocateError::NotInStep)
}

/// The path up to the component that names a step.
fn step_of(path: &str) -> Option<PathBuf> {
    let mut step = PathBuf::new();
    for component in Path::new(path).components() {
        step.push(component);
        if let Component::Normal(name) = component
            && name.to_str().is_some_and(|name| name.starts_with("step_"))
        {
            return Some(step);
        }
    }
    None
}

/// Where a path of the `devices` hierarchy is in this process's file system. A mount shows the hierarchy from its root
/// field on, which is not `/` in a container.
fn mounted(path: &Path, mountinfo: &str) -> Result<PathBuf, LocateError> {
    for line in mountinfo.lines() {
        let Some((mount, file_system)) = line.split_once(" - ") else { continue };
        let mut fields = mount.split(' ').skip(3);
        let (Some(root), Some(point)) = (fields.next(), fields.next()) else { continue };
        let mut fields = file_system.split(' ');
        let is_devices = fields.next() == Some("cgroup")
            && fields.nth(1).is_some_and(|options| options.split(',').any(|option| option == "devices"));
        if is_devices && let Ok(below) = path.strip_prefix(unescaped(root)) {
            return Ok(Path::new(&unescaped(point)).join(below));
        }
    }
    Err(LocateError::NotMounted)
}

/// mountinfo writes a blank as `\040`, likewise tab, newline and backslash (proc(5)).
fn unescaped(field: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(field.to_owned(), |text, (from, to)| text.replace(from, to))
}

impl fmt::Display for LocateError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            LocateError::NotInStep => {
                write!(
                    out,
                    "slurmstepd is in no step's device cgroup; cgroup.conf needs ConstrainDevices=yes"
                )
            }
            LocateError::NotMounted => write!(out, "the cgroup hierarchy 'devices' is not mounted here"),
        }
    }
}

impl std::error::Error for LocateError {}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 0:21 / /proc rw - proc proc rw\n\
        33 32 0:29 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer\n\
        34 32 0:30 / /sys/fs/cgroup/my\\040devices rw,relatime shared:3 - cgroup cgroup rw,devices\n";

    #[test]
    fn a_v1_step_is_found_below_its_mount() {
        let text = "9:name=systemd:/\n5:devices:/slurm_n1/uid_2001/job_7/step_0/task_3\n0::/\n";
        let found = step_cgroup(text, MOUNTS);
        let expected = "/sys/fs/cgroup/my devices/slurm_n1/uid_2001/job_7/step_0";
        assert_eq!(found, Ok(StepCgroup::V1(expected.into())));
    }

    #[test]
    fn a_mount_of_a_part_of_the_hierarchy_is_understood() {
        let mounts = "34 32 0:30 /slurm_n1 /cg rw - cgroup cgroup rw,devices\n";
        let found = step_cgroup("5:devices:/slurm_n1/uid_1/job_7/step_batch\n", mounts);
        assert_eq!(found, Ok(StepCgroup::V1("/cg/uid_1/job_7/step_batch".into())));
        assert_eq!(step_cgroup("5:devices:/other/job_7/step_0\n", mounts), Err(LocateError::NotMounted));
    }

    #[test]
    fn a_v2_step_is_told_from_a_v1_step() {
        let text = "5:devices:/\n0::/system.slice/n1_slurmstepd.scope/job_7/step_0/user/task_0\n";
        let expected = "/system.slice/n1_slurmstepd.scope/job_7/step_0";
        assert_eq!(step_cgroup(text, MOUNTS), Ok(StepCgroup::V2(expected.into())));
    }

    #[test]
    fn no_step_is_an_error() {
        for text in ["", "5:devices:/\n0::/\n", "5:devices:/slurm/uid_1/job_7\n", "garbage"] {
            assert_eq!(step_cgroup(text, MOUNTS), Err(LocateError::NotInStep), "{text}");
        }
        assert_eq!(step_cgroup("5:devices:/a/step_0\n", ""), Err(LocateError::NotMounted));
    }

    proptest::proptest! {
        #[test]
        fn any_text_gives_an_answer(cgroup in "\\PC{0,200}", mounts in "\\PC{0,200}") {
            let _ = step_cgroup(&cgroup, &mounts);
        }
    }
}
