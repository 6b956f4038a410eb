//! Finds the step's cgroup from /proc/self/cgroup and /proc/self/mountinfo, or from a directory in which the kernel
//! lists this process. It never assumes a path: releases name the directories differently, and slurmd may be in a
//! cgroup namespace.

use std::path::{Component, Path, PathBuf};

use crate::proc::cgroup::{paths, step_of, up_to};

/// The device cgroup of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepCgroup {
    /// cgroup v1: the directory of the step in the `devices` hierarchy.
    V1(PathBuf),
    /// cgroup v2: the directory of the step.
    V2(PathBuf),
}

gpushare::errors! {
    /// Why the step's cgroup can't be found.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum LocateError {
        NotInStep => "slurmstepd is in no step's device cgroup; it needs task/cgroup and ConstrainDevices=yes";
        NotMounted(hierarchy: Hierarchy) =>
            "{} is not mounted where slurmstepd can find its step", match hierarchy {
            Hierarchy::Unified => "cgroup2".to_owned(),
            v1 => format!("the cgroup hierarchy '{}'", v1.controller()),
        };
    }
}

impl StepCgroup {
    /// Whether this, which was found before Slurm had made all of the step's cgroups, stands in for what a later search
    /// doesn't find. `why` is `None` if that could read nothing. On v1 it is a guess by name, which says nothing where
    /// Slurm fences no devices: the directory may be a leftover.
    pub fn stands_in(&self, why: Option<&LocateError>) -> bool {
        matches!(self, StepCgroup::V2(_)) || why.is_none()
    }
}

/// Which hierarchy a cgroup is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hierarchy {
    /// The `devices` controller of cgroup v1.
    Devices,
    /// The `freezer` controller of cgroup v1, by which Slurm finds the processes of a job.
    Freezer,
    /// cgroup v2.
    Unified,
}

/// Finds the step's cgroup from the texts of /proc/self/cgroup and /proc/self/mountinfo.
///
/// # Errors
/// The process is in no step, or the hierarchy is not mounted here.
pub fn step_cgroup(cgroup: &str, mountinfo: &str) -> Result<StepCgroup, LocateError> {
    let (hierarchy, _, step) = in_hierarchy(cgroup)?;
    mounted(hierarchy, &step, mountinfo).map(|step| hierarchy.step(step))
}

/// The same without the mounts, which the kernel takes long to list: tries the place where all systems mount the
/// hierarchy. The result counts if `is_own` confirms that the process is in the directory.
pub fn usual_step_cgroup(cgroup: &str, is_own: impl Fn(&Path) -> bool) -> Option<StepCgroup> {
    let (hierarchy, own, step) = in_hierarchy(cgroup).ok()?;
    let mount = Path::new(match hierarchy {
        Hierarchy::Devices | Hierarchy::Freezer => "/sys/fs/cgroup/devices",
        Hierarchy::Unified => "/sys/fs/cgroup",
    });
    let place =
        |path: &Path| path.strip_prefix("/").ok().filter(|below| is_plain(below)).map(|it| mount.join(it));
    place(own).filter(|own| is_own(own)).and_then(|_| place(&step)).map(|step| hierarchy.step(step))
}

/// On cgroup v1: the job's directory by which Slurm finds its processes, and the one by which it fences devices. This
/// process must already be in the first.
pub fn v1_job(cgroup: &str, mountinfo: &str) -> Option<(PathBuf, PathBuf)> {
    let job = paths(cgroup, Hierarchy::Freezer.controller()).find_map(|path| up_to(path, "job_"))?;
    let folder = |hierarchy| mounted(hierarchy, &job, mountinfo).ok();
    Some((folder(Hierarchy::Freezer)?, folder(Hierarchy::Devices)?))
}

/// The hierarchy that fences the step, and the paths of this process and of the step in it.
fn in_hierarchy(cgroup: &str) -> Result<(Hierarchy, &Path, PathBuf), LocateError> {
    for hierarchy in [Hierarchy::Devices, Hierarchy::Unified] {
        let mut paths = paths(cgroup, hierarchy.controller());
        if let Some((own, step)) = paths.find_map(|path| Some((Path::new(path), step_of(path)?))) {
            return Ok((hierarchy, own, step));
        }
    }
    Err(LocateError::NotInStep)
}

/// Where a path of the hierarchy is in this process's file system. A mount shows the hierarchy from the mount's root
/// field on, which is not `/` in a container.
///
/// # Errors
/// No mount of the hierarchy shows that path here.
pub(super) fn mounted(hierarchy: Hierarchy, path: &Path, mountinfo: &str) -> Result<PathBuf, LocateError> {
    for line in mountinfo.lines() {
        let Some((mount, file_system)) = line.split_once(" - ") else { continue };
        let mut fields = mount.split(' ').skip(3);
        let (Some(root), Some(point)) = (fields.next(), fields.next()) else { continue };
        if hierarchy.is_mounted_by(file_system)
            && let Ok(below) = path.strip_prefix(unescaped(root))
            && is_plain(below)
        {
            return Ok(Path::new(&unescaped(point)).join(below));
        }
    }
    Err(LocateError::NotMounted(hierarchy))
}

/// The directory at which a hierarchy is mounted, whatever part of the hierarchy that shows. No cgroup of Slurm's is
/// above a cgroup made there.
pub fn mount_point(hierarchy: Hierarchy, mountinfo: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        let point = mount.split(' ').nth(4)?;
        hierarchy.is_mounted_by(file_system).then(|| PathBuf::from(unescaped(point)))
    })
}

/// A cgroup namespace writes `/..` for anything above its own root.
fn is_plain(below: &Path) -> bool {
    below.components().all(|component| matches!(component, Component::Normal(_)))
}

impl Hierarchy {
    /// The controller's name in /proc/self/cgroup; the line of v2 has none: `0::/path`.
    pub(super) fn controller(self) -> &'static str {
        match self {
            Hierarchy::Devices => "devices",
            Hierarchy::Freezer => "freezer",
            Hierarchy::Unified => "",
        }
    }

    fn step(self, folder: PathBuf) -> StepCgroup {
        match self {
            Hierarchy::Devices | Hierarchy::Freezer => StepCgroup::V1(folder),
            Hierarchy::Unified => StepCgroup::V2(folder),
        }
    }

    /// Whether the last fields of a line of mountinfo (type, source and options of the file system) are this
    /// hierarchy's.
    fn is_mounted_by(self, file_system: &str) -> bool {
        let mut fields = file_system.split(' ');
        let (kind, options) = (fields.next(), fields.nth(1).unwrap_or_default());
        match self {
            Hierarchy::Unified => kind == Some("cgroup2"),
            Hierarchy::Devices | Hierarchy::Freezer => {
                kind == Some("cgroup") && options.split(',').any(|one| one == self.controller())
            }
        }
    }
}

/// mountinfo writes a blank as `\040`, and similarly tab, newline and backslash (proc(5)).
fn unescaped(field: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(field.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_mounted(hierarchy: Hierarchy) -> LocateError {
        LocateError::NotMounted(hierarchy)
    }

    const MOUNTS: &str = "22 1 0:21 / /proc rw - proc proc rw\n\
        33 32 0:29 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer\n\
        34 32 0:30 / /sys/fs/cgroup/my\\040devices rw,relatime shared:3 - cgroup cgroup rw,devices\n\
        42 32 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn a_v1_step_is_found_below_its_mount() {
        let text = "9:name=systemd:/\n5:devices:/slurm_n1/uid_2001/job_7/step_0/task_3\n0::/\n";
        let found = step_cgroup(text, MOUNTS);
        let expected = "/sys/fs/cgroup/my devices/slurm_n1/uid_2001/job_7/step_0";
        assert_eq!(found, Ok(StepCgroup::V1(expected.into())));
    }

    #[test]
    fn a_jobs_folders_are_known_before_its_step_is_there() {
        let found = |cgroup| v1_job(cgroup, MOUNTS);
        let expected =
            ["/sys/fs/cgroup/freezer/slurm/uid_1/job_7", "/sys/fs/cgroup/my devices/slurm/uid_1/job_7"];
        let expected = Some((expected[0].into(), expected[1].into()));
        assert_eq!(found("6:freezer:/slurm/uid_1/job_7/step_0\n5:devices:/\n"), expected);
        assert_eq!(found("6:freezer:/slurm/uid_1/job_7\n"), expected);
        assert_eq!(found("6:freezer:/\n5:devices:/\n0::/slurm/job_7/step_0\n"), None);
    }

    #[test]
    fn a_mount_of_a_part_of_the_hierarchy_is_understood() {
        let mounts = "34 32 0:30 /slurm_n1 /cg rw - cgroup cgroup rw,devices\n";
        let found = step_cgroup("5:devices:/slurm_n1/uid_1/job_7/step_batch\n", mounts);
        assert_eq!(found, Ok(StepCgroup::V1("/cg/uid_1/job_7/step_batch".into())));
        assert_eq!(
            step_cgroup("5:devices:/other/job_7/step_0\n", mounts),
            Err(not_mounted(Hierarchy::Devices))
        );
    }

    #[test]
    fn a_hierarchy_has_a_folder_whatever_part_of_it_that_shows() {
        for (hierarchy, expected) in [
            (Hierarchy::Devices, "/sys/fs/cgroup/my devices"),
            (Hierarchy::Unified, "/sys/fs/cgroup/unified"),
        ] {
            assert_eq!(mount_point(hierarchy, MOUNTS), Some(expected.into()));
            assert_eq!(mount_point(hierarchy, ""), None);
        }
        let part = "78 71 0:38 /box /cg rw - cgroup2 cgroup2 rw\n";
        assert_eq!(mount_point(Hierarchy::Unified, part), Some("/cg".into()));
    }

    #[test]
    fn a_v2_step_is_told_from_a_v1_step() {
        let text = "5:devices:/\n0::/system.slice/n1_slurmstepd.scope/job_7/step_0/user/task_0\n";
        let expected = "/sys/fs/cgroup/unified/system.slice/n1_slurmstepd.scope/job_7/step_0";
        assert_eq!(step_cgroup(text, MOUNTS), Ok(StepCgroup::V2(expected.into())));
    }

    #[test]
    fn a_v2_step_is_found_from_within_a_container() {
        let found = |root: &str, path: &str| {
            step_cgroup(&format!("0::{path}\n"), &format!("42 32 0:38 {root} /cg rw - cgroup2 none rw\n"))
        };
        let cases = [
            ("/", "/job/step_0", Some("/cg/job/step_0")),
            ("/pod", "/pod/job/step_0", Some("/cg/job/step_0")),
            // /proc/self/cgroup of a process that is outside the root of its own cgroup namespace.
            ("/..", "/../job/step_0", Some("/cg/job/step_0")),
            ("/", "/../job/step_0", None),
            ("/..", "/job/step_0", None),
            ("/pod", "/job/step_0", None),
        ];
        for (root, path, expected) in cases {
            let expected = expected.map(|path| StepCgroup::V2(path.into()));
            assert_eq!(found(root, path), expected.ok_or(not_mounted(Hierarchy::Unified)), "{root} {path}");
        }
    }

    #[test]
    fn the_usual_place_is_taken_only_if_the_process_is_there() {
        let v1 = "5:devices:/s/job_7/step_0/task_3\n0::/\n";
        let v2 = "5:devices:/\n0::/s/job_7/step_0/slurm\n";
        for (text, own, expected) in [
            (
                v1,
                "/sys/fs/cgroup/devices/s/job_7/step_0/task_3",
                Some("/sys/fs/cgroup/devices/s/job_7/step_0"),
            ),
            (v1, "/sys/fs/cgroup/devices/s/job_7/step_0", None),
            (v2, "/sys/fs/cgroup/s/job_7/step_0/slurm", Some("/sys/fs/cgroup/s/job_7/step_0")),
            (v2, "/sys/fs/cgroup/devices/s/job_7/step_0/slurm", None),
            ("0::/../s/job_7/step_0\n", "/sys/fs/cgroup/../s/job_7/step_0", None),
            ("0::/s/job_7\n", "/sys/fs/cgroup/s/job_7", None),
        ] {
            let found = usual_step_cgroup(text, |folder| folder == Path::new(own));
            let hierarchy = if text == v1 { Hierarchy::Devices } else { Hierarchy::Unified };
            assert_eq!(found, expected.map(|path| hierarchy.step(path.into())), "{text} {own}");
        }
    }

    #[test]
    fn no_step_is_an_error() {
        for text in ["", "5:devices:/\n0::/\n", "5:devices:/slurm/uid_1/job_7\n", "garbage"] {
            assert_eq!(step_cgroup(text, MOUNTS), Err(LocateError::NotInStep), "{text}");
        }
        assert_eq!(step_cgroup("5:devices:/a/step_0\n", ""), Err(not_mounted(Hierarchy::Devices)));
        assert_eq!(step_cgroup("0::/a/step_0\n", ""), Err(not_mounted(Hierarchy::Unified)));
    }

    proptest::proptest! {
        #[test]
        fn any_text_gives_an_answer(cgroup in "\\PC{0,200}", mounts in "\\PC{0,200}") {
            let _ = step_cgroup(&cgroup, &mounts);
            let _ = usual_step_cgroup(&cgroup, |_| true);
        }
    }

    #[test]
    fn a_guess_stands_in_only_where_nothing_can_be_read() {
        let (v1, v2) = (StepCgroup::V1("/a/job_7/step_0".into()), StepCgroup::V2("/b/job_7/step_0".into()));
        for why in [None, Some(&LocateError::NotInStep), Some(&not_mounted(Hierarchy::Devices))] {
            assert_eq!((v1.stands_in(why), v2.stands_in(why)), (why.is_none(), true), "{why:?}");
        }
    }
}
