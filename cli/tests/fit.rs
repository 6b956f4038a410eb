//! `gpushare fit` with Slurm's commands replaced by tests/data/fit/bin, which answer from tests/data/fit/month.
//! docs/leaks.md has what is printed.
#![allow(clippy::unwrap_used, reason = "a test")]

mod made;

use std::path::Path;
use std::process::Command;

fn top() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Standard output and error, and the exit status.
fn fit(options: &[&str], variables: &[(&str, &str)]) -> (String, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("id", "#!/bin/bash\necho u\n"),
        ("gpushare.conf", "# the defaults\n"),
        ("broken.conf", "Nonsense=1\n"),
    ] {
        let path = folder.path().join(name);
        made::program(&path, text);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpushare"));
    command.args(["fit", "--start", "2026-10-01", "--end", "2026-11-01"]).args(options);
    if !options.contains(&"--conf") {
        command.args(["--conf", "gpushare.conf"]);
    }
    let data = top().join("tests/data/fit");
    let path = format!("{}:{}:/usr/bin:/bin", folder.path().display(), data.join("bin").display());
    command.current_dir(folder.path()).env("PATH", path).env("TZ", "UTC");
    command.env("MONTH", data.join("month")).envs(variables.iter().copied());
    let output = command.output().unwrap();
    (
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap(),
        output.status.code(),
    )
}

#[test]
fn the_page_shows_what_is_printed() {
    let page = std::fs::read_to_string(top().join("docs/leaks.md")).unwrap();
    let (text, code) = fit(&[], &[]);
    let (_, rest) = page.split_once("$ gpushare fit --start 2026-10-01 --end 2026-11-01\n").unwrap();
    let (mut left, shown) = (text.as_str(), rest.split("```").next().unwrap());
    // The page leaves out what `…` stands for.
    for part in shown.split("…\n") {
        let (_, after) = left.split_once(part).unwrap_or_else(|| panic!("not printed:\n{part}\n{text}"));
        left = after;
    }
    assert_eq!(code, Some(0));
}

#[test]
fn a_job_is_found_with_its_steps_in_each_form() {
    let (json, code) = fit(&["--json"], &[]);
    assert_eq!(code, Some(0), "{json}");
    for part in [
        "\"cluster\": \"grace\"",
        "\"jobs\": 159,",
        "\"request\": \"--gres=mps:25\"",
        "\"margin_percent\": 10,",
    ] {
        assert!(json.contains(part), "{part}: {json}");
    }
    let (csv, code) = fit(&["--csv"], &[]);
    assert_eq!(code, Some(0), "{csv}");
    assert!(csv.starts_with("user,account,qos,gpu_type,request,jobs,gpu_hours,share_gpu_hours,"), "{csv}");
    assert!(csv.contains("bob,lafferty,qos_lafferty,a40,\"'--gres=mps:25\",30,600,150,0\n"), "{csv}");
    // Twice the memory halves the shares.
    let (larger, _) = fit(&["--csv", "--gpu-memory", "a40:90G"], &[]);
    assert!(larger.contains("bob,lafferty,qos_lafferty,a40,\"'--gres=mps:12\",30,600,72,0\n"), "{larger}");
}

#[test]
fn what_slurm_does_not_say_is_an_error_and_no_answer() {
    for (options, variables, part) in [
        (
            &[][..],
            &[("PRIVATE", "jobs")][..],
            "slurmdbd.conf has PrivateData=jobs, so 'u' sees only some of it",
        ),
        (&[], &[("BROKEN", "yes")], "failed (exit status: 1): sacct: error: slurmdbd is away"),
        (&[], &[("MONTH", "/dev/null")], "accounting has no job that had GPUs from 2026-10-01 00:00"),
        (&["--gpu-memory", "a40"], &[], "--gpu-memory 'a40' is no list of sizes"),
        (&["--conf", "broken.conf"], &[], "broken.conf: line 1: unknown key 'Nonsense'"),
    ] {
        let (text, status) = fit(options, variables);
        assert!(status == Some(2) && text.contains(part) && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn slurmctld_is_not_needed() {
    let conf = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&conf, "ClusterName=grace\nNodeName=gpu[1-4] Gres=gpu:a40:4\n").unwrap();
    let alone = [("ALONE", "yes"), ("SLURM_CONF", conf.path().to_str().unwrap())];
    let (text, code) = fit(&[], &alone);
    assert!(
        text.starts_with("grace, ") && text.contains("\nnote: partitions and nodes are those of "),
        "{text}"
    );
    let hours = |text: &str| text.lines().nth(4).unwrap().to_owned();
    assert_eq!((hours(&text), code), (hours(&fit(&[], &[]).0), Some(0)));
}
