//! plugstack.conf: which of our SPANK plugins it names, and how.

use std::fs;
use std::path::{Path, PathBuf};

use crate::requirements::matching;

/// How deeply files that plugstack.conf includes may be nested.
const DEPTH: usize = 4;

/// A line of plugstack.conf that names a plugin.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// If the plugin can't be loaded, srun and slurmstepd end with an error.
    pub required: bool,
    /// The plugin as written: a name in PluginDir, or a path.
    pub plugin: String,
}

/// What the file says about gpushare's plugins.
#[derive(Debug)]
pub struct Plugstack {
    /// The file.
    pub path: PathBuf,
    /// The line of spank_gpushare.so.
    pub fence: Option<Line>,
    /// The line of spank_gpushare_prolog.so.
    pub hooks: Option<Line>,
    /// spank_pyxis.so comes after spank_gpushare.so.
    pub pyxis_after: bool,
}

impl Plugstack {
    /// Reads the file and those that it includes; a missing file counts as empty. `named` is slurm.conf's
    /// PlugStackConfig, or empty.
    pub fn read(named: &str, slurm_conf: &Path) -> Plugstack {
        let path = match named {
            "" => slurm_conf.with_file_name("plugstack.conf"),
            named => PathBuf::from(named),
        };
        let mut found = Plugstack { fence: None, hooks: None, pyxis_after: false, path };
        for line in lines(&found.path, DEPTH) {
            let place = match line.plugin.rsplit('/').next() {
                Some("spank_gpushare.so") => &mut found.fence,
                Some("spank_gpushare_prolog.so") => &mut found.hooks,
                Some("spank_pyxis.so") => {
                    found.pyxis_after |= found.fence.is_some();
                    continue;
                }
                _ => continue,
            };
            place.get_or_insert(line);
        }
        found
    }
}

/// Whether the file names spank_gpushare_prolog.so.
pub fn has_hooks(named: &str, slurm_conf: &Path) -> bool {
    Plugstack::read(named, slurm_conf).hooks.is_some()
}

/// The lines that name plugins, including those in included files.
fn lines(path: &Path, depth: usize) -> Vec<Line> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut found = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        match words.as_slice() {
            ["include", pattern, ..] if depth > 0 => {
                for file in matching(path, pattern) {
                    found.extend(lines(&file, depth - 1));
                }
            }
            [word @ ("required" | "optional"), plugin, ..] => {
                found.push(Line { required: *word == "required", plugin: (*plugin).to_owned() });
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugstack_conf_is_read_with_what_it_includes() {
        let dir = tempfile::tempdir().unwrap();
        let conf = dir.path().join("plugstack.conf");
        fs::create_dir(dir.path().join("plugstack.conf.d")).unwrap();
        fs::write(&conf, "# required other.so\ninclude plugstack.conf.d/*.conf\nrequired /opt/x.so a=b\n")
            .unwrap();
        let other = dir.path().join("plugstack.conf.d/50-gpushare.conf");
        fs::write(other, "optional spank_gpushare.so # not yet\n").unwrap();
        fs::write(dir.path().join("plugstack.conf.d/off"), "required off.so\n").unwrap();
        let line = |required, plugin: &str| Line { required, plugin: plugin.to_owned() };
        assert_eq!(lines(&conf, DEPTH), [line(false, "spank_gpushare.so"), line(true, "/opt/x.so")]);
        let read = Plugstack::read("", &dir.path().join("slurm.conf"));
        assert_eq!((read.fence, read.hooks), (Some(line(false, "spank_gpushare.so")), None));
        fs::write(&conf, "include plugstack.conf\n").unwrap();
        assert_eq!(lines(&conf, DEPTH), []);
    }

    #[test]
    fn our_plugins_are_known_by_their_names_wherever_they_lie() {
        let dir = tempfile::tempdir().unwrap();
        let conf = dir.path().join("other");
        fs::write(&conf, "required /opt/spank_gpushare.so\noptional spank_gpushare_prolog.so\n").unwrap();
        let read = Plugstack::read(conf.to_str().unwrap(), Path::new("/nowhere/slurm.conf"));
        assert_eq!(read.fence.unwrap(), Line { required: true, plugin: "/opt/spank_gpushare.so".to_owned() });
        assert!(!read.hooks.unwrap().required && !read.pyxis_after);
        for (text, after) in [
            ("required spank_gpushare.so\nrequired /usr/lib/slurm/spank_pyxis.so\n", true),
            ("required spank_pyxis.so\nrequired spank_gpushare.so\n", false),
        ] {
            fs::write(&conf, text).unwrap();
            let read = Plugstack::read(conf.to_str().unwrap(), Path::new("/nowhere/slurm.conf"));
            assert_eq!(read.pyxis_after, after, "{text}");
        }
    }
}
