//! Whether Slurm puts steps into a user namespace, where no fence works, or gives jobs their own /dev/shm, where
//! programs can't share memory with their MPS daemon. Reads job_container.conf and namespace.yaml, the settings of
//! Slurm's job_container/tmpfs, namespace/tmpfs and namespace/linux.

use std::fs;
use std::path::Path;

use gpushare::text::hostlist;
use gpushare_node::config::NodeConfig;
use gpushare_node::gpu::gres_conf::lines::{fields, last};

use super::finding::Finding;
use super::fix::{Fix, Then};
use super::plugstack::Plugstack;
use crate::slurm::Settings;

const SHM: &str = "/dev/shm";

/// Whether steps on this node are in a user namespace; `None` if not. In a user namespace, the kernel doesn't allow any
/// process to query a cgroup's device programs or change its devices. Slurm's BPF token allows the change, but not the
/// query.
pub fn user(settings: &Settings, slurm_conf: &Path) -> Option<Finding> {
    let about = "NamespaceType";
    if settings.get(about) != "namespace/linux" {
        return None;
    }
    let path = slurm_conf.with_file_name("namespace.yaml");
    // If it can't be read, `shm` reports that.
    let text = fs::read_to_string(&path).ok()?;
    let shown = path.display();
    match of_users(&text) {
        Private::No => None,
        Private::Yes => {
            let said = "namespace/linux puts steps into a user namespace, where no fence can be put up: all jobs' \
                        tasks fail";
            let then = Then::Restart("restart slurmd. See docs/containers.md".to_owned());
            Some(Finding::wrong(
                about,
                said,
                Fix::file(&path, "clone_ns_flags without CLONE_NEWUSER").then(then),
            ))
        }
        Private::Unclear => {
            let has = format!("if {shown} has CLONE_NEWUSER for this node");
            Some(Finding::unknown(about, format!("namespace/linux: {has}, all jobs' tasks fail")))
        }
    }
}

/// Whether jobs on this node have their own /dev/shm; `None` without MPS, and if jobs use the node's directories.
pub fn shm(config: &NodeConfig, settings: &Settings, slurm_conf: &Path, node: &str) -> Option<Finding> {
    if !config.runs_daemons() {
        return None;
    }
    // It is NamespaceType from 25.11 on.
    let keys = ["NamespaceType", "JobContainerType"].map(|key| (key, settings.get(key)));
    let (about, kind) = keys.into_iter().find(|(_, kind)| !kind.is_empty())?;
    let (file, read): (_, fn(&str, &str) -> Private) = match kind.rsplit('/').next() {
        Some("tmpfs") => ("job_container.conf", of_tmpfs),
        Some("linux") => ("namespace.yaml", |text, _| of_linux(text)),
        _ => return None,
    };
    let path = slurm_conf.with_file_name(file);
    let shown = path.display();
    Some(match fs::read_to_string(&path).map(|text| read(&text, node)) {
        Ok(Private::Yes) => {
            let said = "of their own, so no program reaches its MPS daemon: they fail";
            let fix = format!("Dirs without {SHM}, such as Dirs=/tmp (Slurm 23.02 and newer)");
            let then = "restart slurmd; or Mps=off and MpsWholeGpus=no. See docs/containers.md";
            let fix = Fix::file(&path, fix).then(Then::Restart(then.to_owned()));
            Finding::wrong(about, format!("{kind} gives jobs a {SHM} {said}"), fix)
        }
        Ok(Private::No) => Finding::ok(about, format!("{kind}, and jobs share {SHM} with MPS daemons")),
        Ok(Private::Unclear) => {
            let said = format!("{kind}: unless {shown} leaves {SHM} out for this node, shares fail");
            Finding::unknown(about, said)
        }
        Err(error) => Finding::unknown(about, format!("{kind}: {shown}: {error}")),
    })
}

/// Whether a job has its own /dev/shm, or its own users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Private {
    Yes,
    No,
    Unclear,
}

impl Private {
    /// From `Dirs`; 22.05 doesn't have this key, and always uses these two.
    fn of(dirs: Option<&str>) -> Private {
        let dirs = dirs.unwrap_or("/tmp,/dev/shm");
        if dirs.split(',').any(|dir| dir.trim() == SHM) { Private::Yes } else { Private::No }
    }
}

/// Reads the file as Slurm's read_jcconf.c does: of the lines with `BasePath`, those count that name this node or no
/// node, and later ones override earlier ones. `Dirs` on a line without `BasePath` applies if they have none.
fn of_tmpfs(text: &str, node: &str) -> Private {
    let (mut dirs, mut global, mut base) = (None, None, None);
    for line in plain_lines(text).filter_map(fields) {
        let value = |key: &str| last(&line, key);
        match value("nodename").map(|list| hostlist::contains(list, node)) {
            Some(Some(false)) => continue,
            Some(None) => return Private::Unclear,
            Some(Some(true)) | None => {}
        }
        if let Some(path) = value("basepath") {
            base = Some(path);
            dirs = value("dirs").or(dirs);
        } else {
            global = value("dirs").or(global);
        }
    }
    match base {
        // The plugin does nothing on this node.
        None => Private::No,
        Some(path) if path.to_ascii_lowercase().starts_with("none") => Private::No,
        Some(_) => Private::of(dirs.or(global)),
    }
}

/// The lines of namespace.yaml without comments. This isn't a YAML parser: it knows only simple lines, and `node_confs`
/// may define other values for this node.
fn plain_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(|line| line.split('#').next().unwrap_or_default())
}

/// Whether steps are in a user namespace.
fn of_users(text: &str) -> Private {
    let says = |word: &str| plain_lines(text).any(|line| line.contains(word));
    match (says("CLONE_NEWUSER"), says("node_confs:")) {
        (false, _) => Private::No,
        (true, false) => Private::Yes,
        (true, true) => Private::Unclear,
    }
}

/// Whether a job has its own /dev/shm.
fn of_linux(text: &str) -> Private {
    let lines = || plain_lines(text);
    let has = |key: &str| lines().any(|line| line.trim_start_matches([' ', '-']).starts_with(key));
    let is_named = lines().any(|line| line.contains(SHM));
    match (has("dirs:") || has("dir_confs:"), is_named) {
        _ if has("node_confs:") => Private::Unclear,
        _ if !has("base_path:") => Private::No,
        (false, _) | (true, true) => Private::Yes,
        (true, false) => Private::No,
    }
}

/// gpushare doesn't see a container if another plugin puts tasks into it after gpushare's checks.
pub fn pyxis(config: &NodeConfig, stack: &Plugstack) -> Option<Finding> {
    (config.runs_daemons() && stack.pyxis_after).then(|| {
        Finding::wrong(
            "plugstack.conf",
            "pyxis comes after spank_gpushare.so: a container in which MPS can't be reached runs without limits",
            "move pyxis's line, or the include that has it, before gpushare's",
        )
    })
}

#[cfg(test)]
mod tests {
    use gpushare_node::config::Mps;

    use super::*;

    #[test]
    fn a_job_container_conf_is_read_as_slurm_reads_it() {
        let (yes, no) = (Private::Yes, Private::No);
        for (text, expected) in [
            ("AutoBasePath=true\nBasePath=/var/jc\n", yes),
            ("BasePath=/var/jc Dirs=/tmp\n", no),
            ("BasePath=/var/jc Dirs=/tmp,/dev/shm\n", yes),
            ("BasePath=/var/jc\nDirs=/tmp,/var/tmp # not /dev/shm\n", no),
            ("BasePath=/var/jc dirs=\"/tmp\"\nDirs=/dev/shm\n", no),
            ("BasePath=none\n", no),
            ("NodeName=other BasePath=/var/jc\n", no),
            ("NodeName=n[1-3] BasePath=/var/jc\n", yes),
            ("BasePath=/var/jc\nNodeName=n1 BasePath=/x Dirs=/tmp\n", no),
            ("BasePath=/var/jc Dirs=/tmp\nNodeName=n[4-5] BasePath=none\n", no),
            ("NodeName=n[1 BasePath=/var/jc\n", Private::Unclear),
        ] {
            assert_eq!(of_tmpfs(text, "n1"), expected, "{text}");
        }
    }

    #[test]
    fn a_user_namespace_is_found_where_it_is_said() {
        let base = "defaults:\n  base_path: /var/ns\n";
        for (text, expected) in [
            ("", Private::No),
            ("  clone_ns_flags: [\"CLONE_NEWPID\"]\n", Private::No),
            ("  # clone_ns_flags: [\"CLONE_NEWUSER\"]\n", Private::No),
            ("  clone_ns_flags: [\"CLONE_NEWPID\", \"CLONE_NEWUSER\"]\n", Private::Yes),
            ("  clone_ns_flags:\n    - CLONE_NEWUSER\n", Private::Yes),
            (
                "node_confs:\n  - nodes: [n2]\n    options:\n      clone_ns_flags: [CLONE_NEWUSER]\n",
                Private::Unclear,
            ),
        ] {
            assert_eq!(of_users(&format!("{base}{text}")), expected, "{text}");
        }
    }

    #[test]
    fn what_is_plain_in_a_namespace_yaml_is_known() {
        for (text, expected) in [
            ("defaults:\n  base_path: /var/ns\n", Private::Yes),
            ("defaults:\n  base_path: /var/ns\n  dirs: \"/tmp\"\n", Private::No),
            ("defaults:\n  base_path: /var/ns\n  dirs: /tmp,/dev/shm\n", Private::Yes),
            ("defaults:\n  base_path: /var/ns\n  dir_confs:\n    - path: /tmp # not /dev/shm\n", Private::No),
            ("defaults:\n  base_path: /var/ns\n  dir_confs:\n    - path: /dev/shm\n", Private::Yes),
            ("defaults:\n  auto_base_path: true\n", Private::No),
            ("defaults:\n  base_path: /x\nnode_confs:\n  - nodes: [n1]\n", Private::Unclear),
        ] {
            assert_eq!(of_linux(text), expected, "{text}");
        }
    }

    #[test]
    fn without_mps_it_does_not_matter() {
        let settings = Settings::parse("JobContainerType = job_container/tmpfs\n");
        let of = |mps, settings: &Settings| {
            shm(
                &NodeConfig { mps, ..NodeConfig::default() },
                settings,
                Path::new("/nowhere/slurm.conf"),
                "n1",
            )
        };
        assert_eq!(of(Mps::Off, &settings), None);
        assert_eq!(of(Mps::PerUser, &Settings::default()), None);
        assert!(of(Mps::PerUser, &settings).unwrap().said.contains("/nowhere/job_container.conf"));
    }
}
