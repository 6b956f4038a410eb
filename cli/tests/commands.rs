//! What all commands have in common: help, version, exit statuses, and where errors go.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::process::{Command, Output};

const COMMANDS: [&[&str]; 21] = [
    &["audit"],
    &["check"],
    &["conf", "slurm"],
    &["conf", "gres"],
    &["conf", "cgroup"],
    &["conf", "plugstack"],
    &["explain"],
    &["fit"],
    &["gpu", "drain"],
    &["gpu", "resume"],
    &["guard"],
    &["idle"],
    &["leaks"],
    &["metrics"],
    &["mine"],
    &["qos", "plan"],
    &["qos", "apply"],
    &["qos", "show"],
    &["qos", "docs"],
    &["report"],
    &["status"],
];

/// Runs the program without Slurm, and without a gpushare.conf unless `more` names one.
fn run(words: &[&str], more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gpushare"))
        .args(words)
        .args(more)
        .env_clear()
        .env("PATH", "/no/such")
        .env("SLURM_CONF", "/no/such/slurm.conf")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Checks that an error has the usual form, without a panic and without a partial answer.
fn is_error(words: &[&str], output: &Output) {
    let (said, complaint) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{words:?}: {said}{complaint}");
    assert!(said.is_empty() && complaint.starts_with("gpushare: "), "{words:?}: {said}{complaint}");
}

fn broken(folder: &Path) -> String {
    let path = folder.join("gpushare.conf");
    std::fs::write(&path, "Placement=sideways\n").unwrap();
    path.display().to_string()
}

#[test]
fn the_commands_are_all_that_there_are() {
    let below = |words: &[&str]| -> Vec<String> {
        let help = text(&run(words, &["--help"]).stdout);
        let listed = help.split("Commands:\n").nth(1).unwrap_or_default();
        let lines = listed.lines().take_while(|line| !line.is_empty());
        let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
    };
    let mut found = Vec::new();
    for name in below(&[]).iter().filter(|name| *name != "help") {
        let inner: Vec<String> = below(&[name]).into_iter().filter(|name| name != "help").collect();
        found.extend(inner.iter().map(|below| format!("{name} {below}")));
        found.extend(inner.is_empty().then(|| name.clone()));
    }
    assert_eq!(found, COMMANDS.map(|words| words.join(" ")));
}

#[test]
fn all_have_help_and_version() {
    for words in COMMANDS {
        for option in ["-h", "--help", "-V", "--version"] {
            let output = run(words, &[option]);
            assert!(output.status.success() && output.stderr.is_empty(), "{words:?} {option}");
            let expected =
                if option.to_lowercase().contains('v') { env!("CARGO_PKG_VERSION") } else { "Usage: " };
            assert!(text(&output.stdout).contains(expected), "{words:?} {option}");
        }
    }
}

#[test]
fn an_option_that_there_is_not_is_an_error() {
    for words in COMMANDS {
        let output = run(words, &["--bogus"]);
        is_error(words, &output);
        assert!(
            text(&output.stderr).starts_with("gpushare: unexpected argument '--bogus' found\n"),
            "{words:?}"
        );
    }
    assert_eq!(run(&[], &[]).status.code(), Some(2));
    assert_eq!(run(&["qos"], &[]).status.code(), Some(2));
}

#[test]
fn a_broken_gpushare_conf_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let conf = broken(folder.path());
    for words in COMMANDS.into_iter().filter(|words| {
        !["audit", "check", "explain", "gpu", "leaks", "metrics", "report", "status"].contains(&words[0])
    }) {
        let output = run(words, &["--conf", &conf]);
        is_error(words, &output);
        assert!(text(&output.stderr).contains("Placement"), "{words:?}");
    }
}

#[test]
fn a_table_without_qoses_has_its_head() {
    let folder = tempfile::tempdir().unwrap();
    let conf = folder.path().join("gpushare.conf").display().to_string();
    std::fs::write(&conf, "QOS=q GPUs=a40:4\n").unwrap();
    let output = run(&["qos", "docs"], &["--conf", &conf]);
    assert_eq!(
        (output.status.code(), text(&output.stdout)),
        (Some(0), "QOS name  Group limit  Example\n".into())
    );
}

/// The command reports what it can't get from Slurm; what needs no Slurm works.
#[test]
fn without_slurm_what_needs_it_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let conf = folder.path().join("gpushare.conf").display().to_string();
    std::fs::write(&conf, "QOS=q Account=a GPUs=a40:4\n").unwrap();
    let of_slurm: [&[&str]; 5] = [
        &["qos", "plan"],
        &["qos", "apply"],
        &["qos", "show"],
        &["status", "--nodes"],
        &["status", "n[1-3]"],
    ];
    for words in of_slurm {
        let output = run(words, &["--conf", &conf]);
        is_error(words, &output);
        assert!(text(&output.stderr).contains("can't run 's"), "{words:?}: {}", text(&output.stderr));
    }
    let output = run(&["qos", "docs"], &["--conf", &conf]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text(&output.stdout).ends_with("q         4 a40        --qos=q --gres=gpu:a40:2\n"),
        "{}",
        text(&output.stdout)
    );
}

#[test]
fn a_wrong_job_is_an_error() {
    let output = run(&["status", "--jobs=x"], &[]);
    // There is no gpushare.conf here, and that is reported too.
    assert_eq!(output.status.code(), Some(2));
    let expected = "--jobs: 'x' is not a job's number; write nodes before --jobs";
    assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty());
}

#[test]
fn completions_are_printed_for_each_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let said = text(&run(&["completions", shell], &[]).stdout);
        assert!(said.contains("detailed-exitcode") && said.contains("collected"), "{shell}");
    }
}
