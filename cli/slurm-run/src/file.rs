//! One of Slurm's configuration files on this machine, with its includes. A daemon reads it at its next start; a
//! running daemon may have other values.

use std::path::{Path, PathBuf};
use std::{fs, io};

pub use gpushare_node::gpu::gres_conf::lines::last;
use gpushare_node::gpu::gres_conf::lines::{DEPTH, fields, include, included, logical_lines};

use gpushare_slurm_text::Settings;
use gpushare_terminal::FileError;

use super::ProgramError;

gpushare::errors! {
    /// Neither slurmctld nor slurm.conf says what is set.
    #[derive(Debug)]
    pub enum NoSettings {
        Neither(asked: ProgramError, read: FileError) => "{asked}; {read}";
    }
}

/// A file's content.
#[derive(Debug, Default)]
pub struct ConfFile {
    /// The file, and those that it includes.
    pub files: Vec<PathBuf>,
    /// Its lines, with continued ones joined and without comments.
    pub lines: Vec<String>,
    /// The first included file that can't be read.
    pub unread: Option<FileError>,
}

impl ConfFile {
    /// Reads the file. An included file that doesn't exist counts as empty.
    ///
    /// # Errors
    /// The file itself can't be read.
    pub fn read(path: &Path) -> io::Result<ConfFile> {
        let mut found = ConfFile::default();
        found.add(path, path, DEPTH)?;
        Ok(found)
    }

    /// Reads the file, which must be readable with all its includes.
    ///
    /// # Errors
    /// The file, or one that it includes, can't be read.
    pub fn read_whole(path: &Path) -> Result<ConfFile, FileError> {
        let mut found = ConfFile::read(path).map_err(FileError::of(path))?;
        found.unread.take().map_or(Ok(found), Err)
    }

    /// slurm.conf here, where slurmctld doesn't answer.
    ///
    /// # Errors
    /// It can't be read either.
    pub fn instead(path: &Path, asked: ProgramError) -> Result<ConfFile, NoSettings> {
        ConfFile::read_whole(path).map_err(|read| NoSettings::Neither(asked, read))
    }

    fn add(&mut self, top: &Path, path: &Path, depth: usize) -> io::Result<()> {
        let text = fs::read_to_string(path)?;
        self.files.push(path.to_owned());
        for (_, line) in logical_lines(&text) {
            match include(&line) {
                Some(name) if depth > 0 => {
                    let path = included(name, top, path);
                    if let Err(error) = self.add(top, &path, depth - 1).map_err(FileError::of(&path)) {
                        self.unread.get_or_insert(error);
                    }
                }
                Some(_) => {}
                None => self.lines.push(line),
            }
        }
        Ok(())
    }

    /// Its keys and values. If a key occurs twice, Slurm uses the last value unless the key may have several, so the
    /// last comes first here.
    pub fn settings(&self) -> Settings {
        Settings::of(self.lines.iter().rev().filter_map(|line| fields(line)).flatten())
    }

    /// The fields of each line; lines that can't be read have none.
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
        fs::create_dir(path("sub")).unwrap();
        fs::write(path("a.conf"), "Include sub/c.conf\n").unwrap();
        fs::write(path("sub/d.conf"), "").unwrap();
        for (name, file) in [("sub/d.conf", "sub/d.conf"), ("d.conf", "sub/d.conf"), ("b.conf", "b.conf")] {
            fs::write(path("sub/c.conf"), format!("Include {name}\n")).unwrap();
            assert_eq!(ConfFile::read(&path("a.conf")).unwrap().files[2], path(file), "{name}");
        }
    }
}
