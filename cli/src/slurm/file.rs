//! One of Slurm's configuration files on this machine, with its includes. A daemon reads it at its next start, whatever
//! the running daemons have.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use gpushare_node::gpu::gres_conf::lines::{fields, include, logical_lines};

use super::Settings;
use crate::error::FileError;

/// How many files may include one another.
const DEPTH: usize = 4;

/// What was read.
#[derive(Debug, Default)]
pub struct ConfFile {
    /// The file, and those that it includes.
    pub files: Vec<PathBuf>,
    /// Its lines, continued ones put together, without comments.
    pub lines: Vec<String>,
    /// The first included file that can't be read.
    pub unread: Option<FileError>,
}

impl ConfFile {
    /// Reads it. A file that it includes and that isn't there is as an empty one.
    ///
    /// # Errors
    /// It can't be read itself.
    pub fn read(path: &Path) -> io::Result<ConfFile> {
        let mut found = ConfFile::default();
        found.add(path, DEPTH)?;
        Ok(found)
    }

    /// The same, with all that it includes.
    ///
    /// # Errors
    /// It, or a file that it includes, can't be read.
    pub fn read_whole(path: &Path) -> Result<ConfFile, FileError> {
        let mut found = ConfFile::read(path).map_err(FileError::of(path))?;
        found.unread.take().map_or(Ok(found), Err)
    }

    fn add(&mut self, path: &Path, depth: usize) -> io::Result<()> {
        let text = fs::read_to_string(path)?;
        self.files.push(path.to_owned());
        for (_, line) in logical_lines(&text) {
            match include(&line) {
                Some(name) if depth > 0 => {
                    let path = path.with_file_name(name);
                    if let Err(error) = self.add(&path, depth - 1).map_err(FileError::of(&path)) {
                        self.unread.get_or_insert(error);
                    }
                }
                Some(_) => {}
                None => self.lines.push(line),
            }
        }
        Ok(())
    }

    /// Its keys and values. Of a key that is there twice Slurm takes the last, unless it may be there several times; so
    /// that one comes first.
    pub fn settings(&self) -> Settings {
        Settings::of(self.lines.iter().rev().filter_map(|line| fields(line)).flatten())
    }

    /// The fields of each line; of lines that can't be read none.
    pub fn fields(&self) -> impl Iterator<Item = Vec<(&str, &str)>> {
        self.lines.iter().filter_map(|line| fields(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_with_what_it_includes_and_the_last_value_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("a.conf"), "ClusterName=x # y\nPluginDir=/a\nInclude b.conf\ninclude gone.conf\n")
            .unwrap();
        fs::write(path("b.conf"), "plugindir=/b\nNodeName=n[1-3] \\\n Gres=gpu:1\n").unwrap();
        let found = ConfFile::read(&path("a.conf")).unwrap();
        assert_eq!(found.files, [path("a.conf"), path("b.conf")]);
        let error = ConfFile::read_whole(&path("a.conf")).unwrap_err().to_string();
        assert!(error.starts_with(&*path("gone.conf").to_string_lossy()), "{error}");
        assert_eq!(ConfFile::read_whole(&path("b.conf")).unwrap().files, [path("b.conf")]);
        let settings = found.settings();
        assert_eq!((settings.get("ClusterName"), settings.get("PluginDir")), ("x", "/b"));
        assert_eq!(settings.get("Gres"), "gpu:1");
        fs::write(path("b.conf"), "Include b.conf\n").unwrap();
        assert_eq!(ConfFile::read(&path("a.conf")).unwrap().files.len(), 1 + DEPTH);
        assert!(ConfFile::read(&path("gone.conf")).is_err());
    }
}
