//! Programs that tests make.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Another process writes it: a program that another test starts meanwhile would have our open file too, and Linux starts
/// none that somebody has open for writing.
pub fn program(path: &Path, text: &str) {
    let mut install = Command::new("install");
    install.args(["-m", "755", "/dev/stdin"]).arg(path).stdin(Stdio::piped());
    let mut child = install.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}
