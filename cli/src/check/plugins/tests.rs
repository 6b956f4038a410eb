use super::*;
use crate::check::finding::Status;

fn version(text: &str) -> Version {
    Version::parse(text).unwrap()
}

/// Returns "ok", "?", or what is wrong and its fix.
fn told(finding: &Finding) -> String {
    match &finding.status {
        Status::Ok => "ok".to_owned(),
        Status::Unknown => "?".to_owned(),
        Status::Wrong(fix) => format!("{} / {fix}", finding.said),
    }
}

#[test]
fn a_plugin_that_changed_after_slurmctld_started_is_not_the_one_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let (proc, path) = (dir.path(), |name: &str| dir.path().join(name));
    fs::create_dir(path("7")).unwrap();
    fs::write(path("slurmctld.pid"), "7\n").unwrap();
    fs::write(path(JOB_SUBMIT), "").unwrap();
    fs::write(path("uptime"), "1000.00 1.00\n").unwrap();
    let pid_file = path("slurmctld.pid").display().to_string();
    let settings = format!("SlurmctldPidFile = {pid_file}\nPluginDir = {}\n", proc.display());
    // Started 900 seconds ago, and in ten seconds.
    for (name, start, expected) in
        [("slurmctld-wlm", 10_000, true), ("slurmctld", 101_000, false), ("bash", 10_000, false)]
    {
        let zeros = " 0".repeat(17);
        fs::write(path("7/stat"), format!("7 ({name}) S 1{zeros} {start} 0 0\n")).unwrap();
        let found = in_memory(&Settings::parse(&settings), proc);
        assert_eq!(found.is_some_and(|finding| told(&finding) == "?"), expected, "{name} {start}");
    }
}

#[test]
fn a_plugin_of_slurmctld_fits_to_the_micro_release_and_a_spank_plugin_to_the_release() {
    use Match::{Micro, Release};
    for (built, wanted, how, expected) in [
        ("24.11.5", "24.11.5", Micro, "ok"),
        (
            "24.11.5",
            "24.11.6",
            Micro,
            "p is built for Slurm 24.11.5, but it is 24.11.6: bad / install the build for Slurm 24.11.6 together with \
             it",
        ),
        ("24.11.5", "24.11", Micro, "?"),
        (
            "24.11.5",
            "26.05",
            Micro,
            "p is built for Slurm 24.11.5, but it is 26.05: bad / install the build for Slurm 26.05 together with it",
        ),
        ("24.11.5", "24.11.6", Release, "ok"),
        ("24.11.5", "24.11", Release, "ok"),
        (
            "24.11.5",
            "26.05.5",
            Release,
            "p is built for Slurm 24.11.5, but it is 26.05.5: bad / install the build for Slurm 26.05 together with it",
        ),
    ] {
        let loader = Loader { who: "it is", version: version(wanted), how, otherwise: "bad" };
        let finding = status("p", "p", Ok(version(built)), &loader);
        assert_eq!(told(&finding), expected, "{built} {wanted}");
    }
}

#[test]
fn a_daemon_that_is_not_what_is_installed_is_named() {
    let judged =
        |running, installed| daemon("slurmd", "slurmctld", running, installed).map(|found| told(&found));
    assert_eq!(judged("24.11.5", Some(version("24.11.5"))).as_deref(), Some("ok"));
    let other = "24.11.5 runs, but 24.11.6 is installed: its next start upgrades it / restart slurmd, after \
                 slurmctld and with plugins built for it";
    assert_eq!(judged("24.11.5", Some(version("24.11.6"))).as_deref(), Some(other));
    assert_eq!(judged("24.11.5", None).as_deref(), Some("?"));
    // There is nothing to compare with.
    assert_eq!(judged("", Some(version("24.11.5"))), None);
}

fn stack(line: Option<&str>) -> Plugstack {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("plugstack.conf"), line.unwrap_or_default()).unwrap();
    Plugstack::read("", &dir.path().join("slurm.conf"))
}

#[test]
fn a_compute_node_requires_the_fence_and_a_login_node_need_not() {
    let settings = Settings::parse("PluginDir = /nowhere\nSLURM_VERSION = 24.11.5\n");
    let node = crate::slurm::Node::read("NodeName=n1 Version=24.11.5").unwrap();
    let wrong = |findings: Vec<Finding>| -> Vec<bool> {
        findings.iter().map(|finding| matches!(finding.status, Status::Wrong(_))).collect()
    };
    // The first finding is about the line, the second about the file, which doesn't exist.
    for (line, on_a_node, on_a_login_node) in [
        (Some("required spank_gpushare.so"), vec![false, true], vec![false, true]),
        (Some("optional spank_gpushare.so"), vec![true, true], vec![false, true]),
        (None, vec![true], vec![]),
    ] {
        let installed = Some(version("24.11.5"));
        assert_eq!(wrong(on_node(&stack(line), &settings, &node, installed)), on_a_node, "{line:?}");
        assert_eq!(wrong(on_login(&stack(line), &settings, installed)), on_a_login_node, "{line:?}");
    }
}

#[test]
fn a_file_that_all_machines_get_needs_the_plugin_on_all() {
    let mut found = stack(None);
    for (path, fix) in [
        (
            "/etc/slurm/plugstack.conf",
            "install the package gpushare-slurmd, then on compute nodes, /etc/slurm/plugstack.conf: required \
             spank_gpushare.so",
        ),
        (
            "/run/slurm/conf/plugstack.conf",
            "with gpushare-slurmd on all nodes and gpushare-client on all other machines, the controller's \
             plugstack.conf: required spank_gpushare.so; then scontrol reconfigure",
        ),
    ] {
        found.path = path.into();
        let finding = fence_line(&found, &Settings::parse("PluginDir = /nowhere\n"));
        assert_eq!(finding.fix().as_deref(), Some(fix));
    }
}

#[test]
fn what_becomes_of_jobs_is_said() {
    let settings = Settings::parse("PluginDir = /nowhere\nSLURM_VERSION = 24.11.5\n");
    let node = crate::slurm::Node::read("NodeName=n1 Version=24.11.5").unwrap();
    for (line, on_a_node, on_a_login_node) in [
        ("required spank_gpushare.so", "no job starts here", "no job can be submitted here"),
        (
            "optional spank_gpushare.so",
            "jobs run WITHOUT A FENCE",
            "srun and sbatch print an error, but work",
        ),
    ] {
        let last = |findings: Vec<Finding>| findings.last().unwrap().said.clone();
        let said = last(on_node(&stack(Some(line)), &settings, &node, None));
        assert!(said.ends_with(on_a_node), "{said}");
        let said = last(on_login(&stack(Some(line)), &settings, Some(version("24.11.5"))));
        assert!(said.ends_with(on_a_login_node), "{said}");
    }
}

#[test]
fn a_plugin_that_is_named_must_fit_though_nothing_is_shared() {
    let settings = Settings::parse("PluginDir = /nowhere\nSLURM_VERSION = 24.11.5\n");
    let said = |line| -> Vec<String> {
        let found = named(&stack(line), &settings, Some(version("24.11.5")), true);
        found.into_iter().map(|finding| finding.said).collect()
    };
    assert_eq!(said(None), [""; 0]);
    let of_required = said(Some("required spank_gpushare.so"));
    assert!(
        matches!(of_required.as_slice(), [only] if only.ends_with("no job starts here")),
        "{of_required:?}"
    );
}

#[test]
fn a_controller_without_the_plugin_that_it_names_will_not_start() {
    let settings =
        |plugins| Settings::parse(&format!("PluginDir = /nowhere\nJobSubmitPlugins = {plugins}\n"));
    assert!(job_submit(&settings("lua,gpushare"), None).is_some());
    assert_eq!(job_submit(&settings("lua"), None), None);
}

#[test]
fn plugins_are_found_without_asking_slurm() {
    let dir = tempfile::tempdir().unwrap();
    let prefixes = [dir.path().join("opt"), dir.path().join("usr")];
    assert_eq!(plugin_dir("/a:/b", &prefixes), "/a:/b");
    assert_eq!(plugin_dir("", &prefixes), "/usr/lib64/slurm");
    let folder = dir.path().join("usr/lib/x86_64-linux-gnu/slurm-wlm");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("auth_munge.so"), "").unwrap();
    assert_eq!(plugin_dir("", &prefixes), folder.display().to_string());
    let other = dir.path().join("opt/lib64/slurm");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("auth_slurm.so"), "").unwrap();
    assert_eq!(plugin_dir("", &prefixes), other.display().to_string());

    let dirs = format!("{}:{}", other.display(), folder.display());
    assert_eq!(in_dirs(&dirs, "x.so"), other.join("x.so"), "where it would have to be");
    fs::write(folder.join("x.so"), "").unwrap();
    assert_eq!(in_dirs(&dirs, "x.so"), folder.join("x.so"));
    assert_eq!(in_dirs(&dirs, "/opt/x.so"), Path::new("/opt/x.so"));
}

#[test]
fn without_a_plugin_there_is_nothing_to_say_of_another_slurm() {
    let dir = tempfile::tempdir().unwrap();
    let conf = dir.path().join("slurm.conf");
    fs::write(&conf, format!("PluginDir={}\n", dir.path().display())).unwrap();
    let error = for_another(version("26.05.5"), &conf).unwrap_err().to_string();
    assert!(error.starts_with("none of gpushare's plugins is in "), "{error}");
    fs::write(dir.path().join("spank_gpushare.so"), "no plugin").unwrap();
    assert_eq!(for_another(version("26.05.5"), &conf).unwrap().len(), 1);
}
