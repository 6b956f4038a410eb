//! The installed plugins against the running slurmctld, and plugstack.conf. A plugin's version is read from its file: it
//! needn't be loaded for that, and couldn't be.

use std::fs;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection, ObjectSymbol};

use super::finding::Finding;
use crate::needs::is_plugin;
use crate::slurm::Settings;

/// How many files plugstack.conf may include, one in another.
const DEPTH: usize = 4;

/// Slurm's number for a version: 24.11.5 is 0x180b05.
fn version(text: &str) -> Option<u32> {
    let mut numbers = text.split('.').map(|word| {
        let digits: String = word.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().ok().filter(|number| *number < 256)
    });
    let mut number = || numbers.next().flatten();
    Some(number()? << 16 | number()? << 8 | number()?)
}

fn written(version: u32) -> String {
    format!("{}.{:02}.{}", version >> 16, version >> 8 & 0xff, version & 0xff)
}

/// The number that a plugin gives as `plugin_version`.
fn plugin_version(path: &Path) -> Result<u32, String> {
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    let file = object::File::parse(bytes.as_slice()).map_err(|error| error.to_string())?;
    let symbol = file.dynamic_symbols().find(|symbol| symbol.name() == Ok("plugin_version"));
    let symbol = symbol.ok_or("it has no plugin_version, so Slurm can't load it")?;
    let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
    let found = section.and_then(|section| section.data_range(symbol.address(), 4).ok().flatten());
    let number = found.and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
    number.map(u32::from_le_bytes).ok_or_else(|| "its plugin_version can't be read".to_owned())
}

/// Which part of the version Slurm compares.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Match {
    /// All of it: plugins of slurmctld.
    Micro,
    /// 24.11 of 24.11.5: SPANK plugins.
    Release,
}

fn fits(about: &'static str, path: &Path, settings: &Settings, how: Match) -> Finding {
    let running = settings.get("SLURM_VERSION");
    let Some(wanted) = version(running) else {
        return Finding::unknown(about, format!("Slurm's version '{running}' can't be read"));
    };
    let shown = path.display();
    let found = match plugin_version(path) {
        Ok(found) => found,
        Err(why) => {
            return Finding::wrong(
                about,
                format!("{shown}: {why}"),
                format!("install the build for Slurm {running}"),
            );
        }
    };
    let same = match how {
        Match::Micro => found == wanted,
        Match::Release => found >> 8 == wanted >> 8,
    };
    if same {
        return Finding::ok(about, format!("{shown} is built for Slurm {}", written(found)));
    }
    Finding::wrong(
        about,
        format!("{shown} is built for Slurm {}, and {running} runs", written(found)),
        format!("build it against the headers of {running} and install it by rename"),
    )
}

/// job_submit_gpushare.so: on a controller it must fit, elsewhere it need not be there.
pub fn job_submit(settings: &Settings, is_controller: bool) -> Option<Finding> {
    let path = Path::new(settings.get("PluginDir")).join("job_submit_gpushare.so");
    let about = "job_submit_gpushare.so";
    match path.try_exists() {
        Ok(true) => Some(fits(about, &path, settings, Match::Micro)),
        _ if is_controller
            && settings.list("JobSubmitPlugins").iter().any(|word| is_plugin(word, "gpushare")) =>
        {
            Some(Finding::wrong(
                about,
                format!("{}: there is no such file, and slurmctld needs it to start", path.display()),
                "install it there",
            ))
        }
        _ => None,
    }
}

/// A line of plugstack.conf that names a plugin of ours.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    required: bool,
    plugin: String,
}

/// plugstack.conf and the plugins that it names.
pub fn spank(settings: &Settings, slurm_conf: &Path) -> (Vec<Finding>, bool) {
    let about = "plugstack.conf";
    let named = settings.get("PlugStackConfig");
    let path =
        if named.is_empty() { slurm_conf.with_file_name("plugstack.conf") } else { PathBuf::from(named) };
    let lines = lines(&path, DEPTH);
    let of = |name: &str| lines.iter().find(|line| line.plugin.rsplit('/').next() == Some(name));
    let hooks = of("spank_gpushare_prolog.so");
    let mut findings = vec![match of("spank_gpushare.so") {
        Some(Line { required: true, .. }) => {
            Finding::ok(about, format!("{} requires spank_gpushare.so", path.display()))
        }
        Some(_) => Finding::wrong(
            about,
            format!(
                "{}: spank_gpushare.so is optional, so jobs would run without a fence if it failed to load",
                path.display()
            ),
            "on compute nodes: required spank_gpushare.so",
        ),
        None => Finding::wrong(
            about,
            format!("{} doesn't name spank_gpushare.so: jobs have no fence", path.display()),
            "required spank_gpushare.so",
        ),
    }];
    for (line, name) in [(of("spank_gpushare.so"), "spank_gpushare.so"), (hooks, "spank_gpushare_prolog.so")]
    {
        if let Some(line) = line {
            let file = if line.plugin.starts_with('/') {
                PathBuf::from(&line.plugin)
            } else {
                Path::new(settings.get("PluginDir")).join(&line.plugin)
            };
            findings.push(fits(name, &file, settings, Match::Release));
        }
    }
    (findings, hooks.is_some())
}

/// The lines that name plugins, with those of files that it includes.
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

/// The files that an include line, or `Prolog=`, names; `*` in its last part only, as everybody writes it.
pub fn matching(from: &Path, pattern: &str) -> Vec<PathBuf> {
    let path = from.with_file_name(pattern);
    let Some((before, after)) = path.file_name().and_then(|name| name.to_str()?.split_once('*')) else {
        return vec![path];
    };
    let names = path.parent().map(fs::read_dir).into_iter().flatten().flatten().flatten();
    let fits = |name: &str| {
        name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
    };
    let mut files: Vec<PathBuf> = names
        .map(|file| file.path())
        .filter(|file| file.file_name().and_then(|name| name.to_str()).is_some_and(fits))
        .collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_slurms_number() {
        for (text, number) in [
            ("24.11.5", Some(0x18_0b05)),
            ("22.05.8-1", Some(0x16_0508)),
            ("26.05.0-0rc1", Some(0x1a_0500)),
            ("24.11", None),
            ("", None),
        ] {
            assert_eq!(version(text), number, "{text}");
        }
        assert_eq!(written(0x18_0b05), "24.11.5");
        assert_eq!(written(0x16_0508), "22.05.8");
    }

    #[test]
    fn what_is_no_plugin_has_no_version() {
        assert!(plugin_version(Path::new("/proc/self/status")).is_err());
        let own = plugin_version(&std::env::current_exe().unwrap()).unwrap_err();
        assert_eq!(own, "it has no plugin_version, so Slurm can't load it");
    }

    #[test]
    fn plugstack_conf_is_read_with_what_it_includes() {
        let dir = tempfile::tempdir().unwrap();
        let conf = dir.path().join("plugstack.conf");
        std::fs::create_dir(dir.path().join("plugstack.conf.d")).unwrap();
        std::fs::write(
            &conf,
            "# required other.so\ninclude plugstack.conf.d/*.conf\nrequired /opt/x.so a=b\n",
        )
        .unwrap();
        let other = dir.path().join("plugstack.conf.d/50-gpushare.conf");
        std::fs::write(other, "optional spank_gpushare.so # not yet\n").unwrap();
        std::fs::write(dir.path().join("plugstack.conf.d/off"), "required off.so\n").unwrap();
        let line = |required, plugin: &str| Line { required, plugin: plugin.to_owned() };
        assert_eq!(lines(&conf, DEPTH), [line(false, "spank_gpushare.so"), line(true, "/opt/x.so")]);
        std::fs::write(&conf, "include plugstack.conf\n").unwrap();
        assert_eq!(lines(&conf, DEPTH), []);
    }
}
