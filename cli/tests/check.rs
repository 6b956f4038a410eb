//! `gpushare check` with a daemon that doesn't answer: the daemon gets only one query, and everything else is still
//! printed. scontrol, sacctmgr and squeue are scripts here, which record their queries.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod made;

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// How a daemon handles a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Answer,
    Refuse,
    /// It accepts the connection and never answers.
    Hang,
}

fn script(folder: &Path, name: &str, does: Does, answers: &str) {
    let end = match does {
        Does::Answer => answers,
        Does::Refuse => "echo 'Slurmctld(primary) at n1 is DOWN'; exit 1",
        Does::Hang => "exec sleep 300",
    };
    let path = folder.join(name);
    let text = format!("#!/bin/sh\necho {name} \"$@\" >>{}/asked\n{end}\n", folder.display());
    made::program(&path, &text);
}

/// The queries to each daemon, the findings, and the exit status.
fn check(slurmctld: Does, slurmdbd: Does, words: &[&str]) -> (Vec<String>, Vec<String>, String, Option<i32>) {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let scontrol =
        "case \"$*\" in *config*) echo 'ClusterName = x'; echo 'JobSubmitPlugins = gpushare';; esac";
    script(folder, "scontrol", slurmctld, scontrol);
    script(folder, "squeue", slurmctld, "");
    script(folder, "sacctmgr", slurmdbd, "");
    fs::write(folder.join("slurm.conf"), "ClusterName=x\nNodeName=n1\n").unwrap();
    fs::write(folder.join("gpushare.conf"), "Placement=follow\nUnitsPerGpu=100\nMode=audit\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpushare"));
    command.arg("check").args(words).env_clear();
    command.env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
    command.env("SLURM_CONF", folder.join("slurm.conf")).env("SLURMD_NODENAME", "n1");
    let output = command.output().unwrap();
    let asked = fs::read_to_string(folder.join("asked")).unwrap_or_default();
    let of = |names: &[&str]| {
        let begins = |line: &&str| names.iter().any(|name| line.starts_with(name));
        asked.lines().filter(begins).map(str::to_owned).collect::<Vec<_>>()
    };
    let text = String::from_utf8(output.stdout).unwrap();
    (of(&["scontrol", "squeue"]), of(&["sacctmgr"]), text, output.status.code())
}

fn about(text: &str, status: &str) -> Vec<String> {
    let told: Value = serde_json::from_str(text).unwrap();
    let found = told["findings"].as_array().unwrap().iter().filter(|finding| finding["status"] == status);
    found.map(|finding| finding["about"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_daemon_that_does_not_answer_is_asked_once_and_everything_else_is_printed() {
    const PING: &str = "scontrol ping";
    const CLUSTER: &str = "sacctmgr -nP show cluster format=cluster";
    for dead in [Does::Refuse, Does::Hang] {
        let (slurmctld, slurmdbd, text, status) = check(dead, Does::Answer, &["--json"]);
        assert_eq!((slurmctld, status), (vec![PING.to_owned()], Some(2)), "{dead:?}");
        assert!(slurmdbd.len() > 1, "{slurmdbd:?}");
        let wrong = about(&text, "wrong");
        assert!(wrong.contains(&"slurmctld".to_owned()), "{dead:?}: {wrong:?}");
        let all = ["ok", "wrong", "unknown"].map(|status| about(&text, status)).concat();
        for needs_none in [
            "gpushare.conf",
            "Mode",
            "GovernedQOS",
            "slurmd",
            "ConstrainDevices",
            "plugstack.conf",
            "GpuFile",
            "ledger",
        ] {
            assert!(all.iter().any(|about| about == needs_none), "{needs_none}: {all:?}");
        }

        let (slurmctld, slurmdbd, text, status) = check(Does::Answer, dead, &["--json"]);
        assert_eq!((slurmdbd, status), (vec![CLUSTER.to_owned()], Some(2)), "{dead:?}");
        assert!(slurmctld.len() > 3, "{slurmctld:?}");
        let found = about(&text, "ok");
        assert!(found.contains(&"JobSubmitPlugins".to_owned()), "{found:?}");
        assert!(about(&text, "wrong").contains(&"slurmdbd".to_owned()));
    }
    let (slurmctld, slurmdbd, text, status) = check(Does::Refuse, Does::Refuse, &[]);
    assert_eq!(
        (slurmctld.as_slice(), slurmdbd.as_slice()),
        ([PING.to_owned()].as_slice(), [CLUSTER.to_owned()].as_slice())
    );
    assert_eq!(status, Some(2));
    let daemons = text
        .lines()
        .filter(|line| line.starts_with("WRONG  slurmctld") || line.starts_with("WRONG  slurmdbd"));
    assert_eq!(daemons.count(), 2, "{text}");
}

#[test]
fn a_file_that_was_named_and_is_not_there_is_an_error() {
    let (slurmctld, _, text, status) =
        check(Does::Answer, Does::Answer, &["--conf", "/nonexistent/gpushare.conf"]);
    assert_eq!((text.as_str(), status, slurmctld.len()), ("", Some(2), 0));
}
