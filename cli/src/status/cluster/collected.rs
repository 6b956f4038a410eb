//! The nodes' own reports: DIR/NODE.json, the output of `gpushare status --json`, which the site copies there in any
//! way. A file is as trustworthy as those who can write to DIR.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Longer than the report of a node with a thousand jobs.
const LONGEST: u64 = 4 << 20;
/// A report that is older doesn't count as current.
const OLDEST: u64 = 15 * 60;
/// By how much clocks may differ.
const AHEAD: u64 = 60;

/// A node's report.
#[derive(Debug, Deserialize)]
pub struct Said {
    pub time: u64,
    pub gpus: Vec<Gpu>,
    pub jobs: Vec<Job>,
}

/// One of its GPUs, with the facts that matter elsewhere.
#[derive(Debug, Deserialize)]
pub struct Gpu {
    pub index: u32,
    pub capacity: Option<u64>,
    pub units: u64,
    pub whole: bool,
    pub fault: Option<String>,
}

/// One of its jobs.
#[derive(Debug, Deserialize)]
pub struct Job {
    pub job: u32,
    pub user_id: u32,
    pub user: Option<String>,
    pub units: Option<u64>,
    pub gpus: Vec<Place>,
}

/// A GPU that the job is on.
#[derive(Debug, Deserialize)]
pub struct Place {
    pub index: u32,
}

/// Whose report it is, and of when.
#[derive(Debug, Deserialize)]
struct Head {
    node: String,
    time: u64,
}

gpushare::errors! {
    /// A node's file that is ignored.
    #[derive(Debug)]
    pub enum Ignored {
        Because(path: PathBuf, why: Why) => "{} is ignored: {why}", path.display();
    }
}

gpushare::errors! {
    /// Why it is ignored.
    #[derive(Debug)]
    pub enum Why {
        NoFile => "it is not a file";
        TooLong => "it is longer than {LONGEST} bytes";
        OtherNode(node: String) => "it is for node '{node}'";
        Ahead(seconds: u64) => "its time is {seconds} s in the future; check the clocks";
        Old(age: u64) => "it is {age} s old; the limit is {OLDEST} s";
    } from { Read(io::Error), Json(serde_json::Error) }
}

/// Reads a node's file, if it exists.
///
/// # Errors
/// The file can't be read, belongs to another node, or isn't current.
pub fn of<T: DeserializeOwned>(folder: &Path, node: &str, now: u64) -> Result<Option<T>, Ignored> {
    let path = folder.join(format!("{node}.json"));
    read(&path, node, now).map_err(|why| Ignored::Because(path, why))
}

fn read<T: DeserializeOwned>(path: &Path, node: &str, now: u64) -> Result<Option<T>, Why> {
    // Opening a pipe or a device could block.
    let metadata = match path.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    if !metadata.is_file() {
        return Err(Why::NoFile);
    }
    let mut text = Vec::new();
    File::open(path)?.take(LONGEST + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LONGEST {
        return Err(Why::TooLong);
    }
    let head: Head = serde_json::from_slice(&text)?;
    judge((&head.node, head.time), node, now)?;
    Ok(Some(serde_json::from_slice(&text)?))
}

/// Whether a report, which was read from a file with those of others, is this node's, and its time is current.
///
/// # Errors
/// It isn't.
pub fn current(said: (&str, u64), path: &Path, node: &str, now: u64) -> Result<(), Ignored> {
    judge(said, node, now).map_err(|why| Ignored::Because(path.to_owned(), why))
}

fn judge((of, time): (&str, u64), node: &str, now: u64) -> Result<(), Why> {
    let age = now.saturating_sub(time);
    if of != node {
        Err(Why::OtherNode(of.to_owned()))
    } else if time > now + AHEAD {
        Err(Why::Ahead(time - now))
    } else if age > OLDEST {
        Err(Why::Old(age))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(folder: &Path, node: &str, now: u64) -> Result<Option<Said>, Ignored> {
        super::of(folder, node, now)
    }

    #[test]
    fn a_file_is_taken_if_it_is_whole_of_this_node_and_of_now() {
        let folder = tempfile::tempdir().unwrap();
        let write = |text: &str| std::fs::write(folder.path().join("n1.json"), text).unwrap();
        let text = |node: &str, time: u64| {
            format!("{{\"node\":\"{node}\",\"time\":{time},\"gpus\":[],\"jobs\":[],\"own_jobs_only\":false}}")
        };
        assert!(of(folder.path(), "n1", 5000).unwrap().is_none());
        for (content, expected) in [
            (text("n1", 4000), None),
            (text("n1", 5060), None),
            (text("n1", 4100), None),
            (text("n1", 4099), Some("it is 901 s old; the limit is 900 s")),
            (text("n1", 5061), Some("its time is 61 s in the future; check the clocks")),
            (text("n2\x1b", 5000).replace('\x1b', "\\u001b"), Some("it is for node 'n2\x1b'")),
            (text("n1", 5000).replace("[]", "7"), Some("invalid type: integer `7`, expected a sequence")),
            (text("n1", 5000)[..20].to_owned(), Some("EOF while parsing")),
            (String::new(), Some("EOF while parsing")),
            (" ".repeat(5 << 20), Some("it is longer than")),
        ] {
            // 4000 is 1000 s ago, which is too old; a minute ahead and 900 s ago are accepted.
            write(&content);
            let result = of(folder.path(), "n1", if content.contains("4000") { 4500 } else { 5000 });
            match expected {
                None => assert!(result.unwrap().is_some(), "{content}"),
                Some(why) => {
                    let error = result.unwrap_err().to_string();
                    assert!(error.contains(&format!("n1.json is ignored: {why}")), "{error}");
                }
            }
        }
        std::fs::create_dir(folder.path().join("n3.json")).unwrap();
        assert!(of(folder.path(), "n3", 5000).unwrap_err().to_string().ends_with("it is not a file"));
    }
}
