//! docs/commands.md has the program's output for tests/data/audit/slurmctld.log, with `…` for lines that it leaves out;
//! and a long log needs little memory.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

fn top() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// A configuration with the default `LimitAdvice`.
const CONF: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples/own/gpushare.conf");

fn audit(options: &[&str]) -> (String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpushare"));
    command.args(["audit", "--conf", CONF]).args(options);
    let output = command
        .current_dir(top().join("tests/data/audit"))
        .env("TZ", "UTC")
        .env("PATH", "")
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).unwrap(), output.status.code())
}

const WEEK: [&str; 5] = ["--start", "2026-11-16", "--end", "2026-11-23", "slurmctld.log"];

#[test]
fn the_page_shows_what_is_printed() {
    let page = std::fs::read_to_string(top().join("docs/commands.md")).unwrap();
    let blocks: Vec<&str> = page.split("```\n").skip(1).step_by(2).collect();
    let (text, status) = audit(&WEEK);
    assert_eq!(status, Some(1), "{text}");
    let (command, shown) = blocks[0].split_once('\n').unwrap();
    assert_eq!(command, format!("$ gpushare audit {}", WEEK.join(" ")));
    let parts: Vec<&str> = shown.split("\n…\n").collect();
    assert!(text.starts_with(parts[0]) && text.ends_with(parts[parts.len() - 1]), "{text}");
    let mut rest = text.as_str();
    for part in parts {
        assert!(rest.contains(part), "{part}\nis not in\n{rest}");
        rest = rest.split_once(part).unwrap().1;
    }
    let log = std::fs::read_to_string(top().join("tests/data/audit/slurmctld.log")).unwrap();
    assert!(blocks[1].lines().all(|line| log.lines().any(|found| found == line)), "{}", blocks[1]);
}

#[test]
fn the_exit_status_says_whether_something_was_let_pass() {
    let of = |start, end| audit(&["slurmctld.log", "--start", start, "--end", end]);
    let (text, status) = of("2026-11-23", "2026-11-24");
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("\nNo request was accepted that Mode=enforce would refuse.\n"), "{text}");
    let (text, status) = of("2026-11-24", "2026-11-25");
    assert_eq!(status, Some(2), "{text}");
    assert_eq!(
        text,
        "gpushare: slurmctld logged nothing from 2026-11-24 00:00 to 2026-11-25 00:00. The log has its lines from \
         2026-11-15 23:00 to 2026-11-23 07:00: choose --start and --end, or name other logs\n"
    );
    assert_eq!(audit(&["none.log"]).1, Some(2));
    let (text, status) = audit(&[]);
    assert_eq!((status, text.lines().count()), (Some(2), 1), "{text}");
}

/// A 30 MB log, read by a program with a limit of 100 MB of address space, most of which it needs anyway.
#[test]
fn a_configuration_that_is_named_must_exist() {
    let output = Command::new(env!("CARGO_BIN_EXE_gpushare"))
        .args(["audit", "--conf", "/no/such.conf", "-"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (said.as_str(), output.status.code()),
        ("gpushare: /no/such.conf: there is no such file\n", Some(2))
    );
}

#[test]
fn a_long_log_needs_little_memory() {
    let program = env!("CARGO_BIN_EXE_gpushare");
    let mut shell = Command::new("/bin/sh");
    shell.args([
        "-c",
        "ulimit -v 100000; exec \"$0\" audit --conf \"$1\" --start 2026-11-16 --end 2026-11-17 -",
    ]);
    let mut child = shell
        .args([program, CONF])
        .env("TZ", "UTC")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = child.stdin.take().unwrap();
    for number in 0..200_000 {
        let line = format!(
            "[2026-11-16T12:00:00.000] job_submit/gpushare: refused GS101 uid={} qos='q' asked='gpu:2' user='u' \
             name='job{number}' request='--gres=gpu:{}'\n",
            number % 700,
            number % 30_011
        );
        log.write_all(line.as_bytes()).unwrap();
    }
    drop(log);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Refused: 200000 requests of 700 users.\n"), "{text:.2000}");
}
