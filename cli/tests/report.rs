//! `gpushare report` with Slurm's commands replaced by tests/data/report/bin, which answer from
//! tests/data/report/month. docs/leaks.md has what is printed.
#![allow(clippy::unwrap_used, reason = "a test")]

mod made;

use std::path::Path;
use std::process::Command;

fn top() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Standard output and error, the exit status, and the file `page`.
fn report(options: &[&str], variables: &[(&str, &str)]) -> (String, Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    made::program(&folder.path().join("id"), "#!/bin/bash\necho u\n");
    let log = "[2026-10-02T00:00:00.107] job_submit/gpushare: /etc/slurm/gpushare.conf read\n\
               [2026-10-03T07:00:00.000] job_submit/gpushare: refused GS101 uid=2001 qos='qos_chem' asked='gpu:2' \
               user='dan' account='chem' partition='gpu' request='--gres=gpu:2' name='later'\n";
    std::fs::write(folder.path().join("log"), log).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpushare"));
    command.arg("report").args(options);
    let data = top().join("tests/data/report");
    let path = format!("{}:{}:/usr/bin:/bin", folder.path().display(), data.join("bin").display());
    command.current_dir(folder.path()).env("PATH", path).env("TZ", "UTC");
    command.env("MONTH", data.join("month")).envs(variables.iter().copied());
    let output = command.output().unwrap();
    let page = std::fs::read_to_string(folder.path().join("page")).unwrap_or_default();
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (text, output.status.code(), page)
}

#[test]
fn the_page_shows_what_is_printed() {
    let page = std::fs::read_to_string(top().join("docs/leaks.md")).unwrap();
    let (text, code, _) = report(&["--month", "2026-10"], &[]);
    let (_, rest) = page.split_once("$ gpushare report --month 2026-10\n").unwrap();
    let (mut left, shown) = (text.as_str(), rest.split("```").next().unwrap());
    // The page leaves out what `…` stands for.
    for part in shown.split("…\n") {
        let (_, after) = left.split_once(part).unwrap_or_else(|| panic!("not printed:\n{part}\n{text}"));
        left = after;
    }
    assert_eq!(code, Some(0));
}

#[test]
fn all_forms_have_the_same_numbers() {
    let month = ["--month", "2026-10"];
    let (csv, code, _) = report(&[&month[..], &["--csv"]].concat(), &[]);
    assert_eq!(code, Some(0), "{csv}");
    let row = "qos,qos_chem,a40,4,10713600,4217492,0,1606874,4889234,65,131,478,\n";
    assert!(csv.contains(row), "{csv}");
    let of_log = [&month[..], &["--csv", "--log", "log"]].concat();
    let (csv, ..) = report(&of_log, &[]);
    assert!(csv.contains(&row.replace(",478,\n", ",478,1\n")), "{csv}");
    let (json, ..) = report(&[&month[..], &["--json"]].concat(), &[]);
    for part in ["\"cluster\": \"grace\"", "\"used\": 4217492,", "\"lent\": 1606874,", "\"differences\": []"]
    {
        assert!(json.contains(part), "{part}: {json}");
    }
}

#[test]
fn a_page_stands_alone() {
    for options in
        [&["--month=2026-10", "--html=page"][..], &["--month=2026-10", "--html=page", "--qos=qos_bio"]]
    {
        let (_, code, page) = report(options, &[]);
        assert_eq!(code, Some(0));
        assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg"));
        // Users are in the report on their group alone.
        assert_eq!(page.contains("frank"), options.len() > 2);
        let links = page.replace("http://www.w3.org/2000/svg", "");
        assert!(
            !["<script", "<link", "<img", "src=", "http:", "https:", "url("]
                .iter()
                .any(|part| links.contains(part)),
            "{page}"
        );
    }
}

#[test]
fn what_sreport_has_more_is_said() {
    let (text, code, _) = report(&["--month=2026-10", "--qos=qos_bio"], &[("MORE", "5")]);
    assert_eq!(code, Some(0));
    let part =
        "note: account bio, user frank: sreport has 6738811 GPU-seconds (h100), jobs in accounting 6738806\n";
    assert!(text.contains(part) && !text.contains("the same numbers"), "{text}");
    let (text, ..) = report(&["--month=2026-10"], &[("MORE", "5")]);
    assert!(text.contains("note: account bio: sreport has 6738811 ") && !text.contains("frank"), "{text}");
    let (text, ..) = report(&["--month=2026-10"], &[("RESERVED", "7200")]);
    assert!(
        text.contains("note: reservation night: sreport counts its 2.000 idle GPU-hours (a40) as used\n"),
        "{text}"
    );
    let (text, ..) = report(&["--month=2026-10", "--qos=qos_chem"], &[("MORE", "5")]);
    assert!(text.contains("the same numbers"), "{text}");
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
        (&["--month", "10-2026"], &[], "'10-2026' is not a month; write 2026-10"),
        (&["--start", "2026-10-01T00:30"], &[], "'2026-10-01T00:30' is not a full hour"),
        (&["--start", "2026-10-05", "--end", "2026-10-04"], &[], "is not before --end"),
        (&["--qos", "qos_none"], &[], "--qos 'qos_none': the database has no such QOS"),
        (&["--account", "none"], &[], "--account 'none': cluster grace has no such account"),
        (&["--log", "none"], &[], "--log: none: No such file"),
    ] {
        let (text, status, _) = report(options, variables);
        assert!(status == Some(2) && text.contains(part) && text.lines().count() == 1, "{text}");
    }
}
