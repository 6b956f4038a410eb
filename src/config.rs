//! gpushare.conf: the administrator's rules for both sides, read whole or not at all.
//!
//! `Key=Value` lines as in slurm.conf: `#` starts a comment, keys and fixed words are read without case, names and paths
//! as they are. An unknown key, a value that isn't allowed or a key given twice is an error that names the line, the key
//! and what is allowed; half a policy is never used. Which file to read is the caller's question ([`find`]).

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::device::GpuFiles;
use crate::policy::{ForeignTypes, Governed, Policy};

/// Nobody writes a longer file; a daemon must not read without bound.
const LONGEST: u64 = 1 << 20;

/// All of gpushare.conf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The submit side's part.
    pub policy: Policy,
    /// The node side's part.
    pub node: NodeConfig,
}

/// How GPUs are shared on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeConfig {
    /// `Placement`
    pub placement: Placement,
    /// `GpuFile`
    pub gpu_files: GpuFiles,
    /// `Overcommit`
    pub overcommit: Overcommit,
}

/// Who picks a share's GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Slurm alone; gpushare leaves the node's jobs as they are.
    #[default]
    Off,
    /// gpushare, replacing the GPU that Slurm charged.
    Override {
        /// `UnitsPerGpu`: units that fill one GPU; at least 1.
        units_per_gpu: u32,
    },
}

/// What happens to a share that fits on no GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overcommit {
    /// It goes to the GPU with the least assigned, and the log says so.
    #[default]
    Allow,
    /// Its job fails.
    Refuse,
}

/// Why a text is no configuration.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Counted from 1; `None` where the file as a whole is at fault.
    pub line: Option<usize>,
    /// What is wrong and what is allowed.
    pub problem: Problem,
}

/// What is wrong with a line, or with all of them together.
#[derive(Debug, PartialEq, Eq)]
pub enum Problem {
    /// The line has no `=`.
    NoValue(String),
    /// No such key.
    UnknownKey(String),
    /// The key can't have that value.
    BadValue {
        /// As in the table of keys.
        key: &'static str,
        /// As written.
        value: String,
        /// What could have been written.
        allowed: &'static str,
    },
    /// The key was there before.
    Twice {
        /// As in the table of keys.
        key: &'static str,
        /// Where it was first.
        first: usize,
    },
    /// One key's value makes another key necessary.
    Missing {
        /// What must be added.
        key: &'static str,
        /// The setting that needs it.
        because: &'static str,
    },
    /// Bytes that are no text.
    NotText,
}

/// Why a file is no configuration.
#[derive(Debug)]
pub enum LoadError {
    /// It can't be read.
    Read(PathBuf, io::Error),
    /// It is longer than any configuration.
    TooLong(PathBuf),
    /// It can be read, and is wrong.
    Content(PathBuf, ConfigError),
}

/// Where the configuration is if it isn't beside slurm.conf: a configless slurmd keeps a slurm.conf of its own making in
/// a folder of its own, and brings no other files.
pub const FALLBACK: &str = "/etc/slurm/gpushare.conf";

/// The configuration's path: beside the running slurm.conf if something of that name is there, else `fallback`.
#[must_use]
pub fn find(slurm_conf: &Path, fallback: &Path) -> PathBuf {
    let beside = slurm_conf.with_file_name("gpushare.conf");
    if beside.symlink_metadata().is_ok() { beside } else { fallback.to_owned() }
}

impl Config {
    /// Reads the file; `None` where there is none. A link that leads nowhere is an error, not "none".
    pub fn load(path: &Path) -> Result<Option<Config>, LoadError> {
        if let Err(error) = path.symlink_metadata()
            && error.kind() == io::ErrorKind::NotFound
        {
            return Ok(None);
        }
        let unreadable = |error| LoadError::Read(path.to_owned(), error);
        let mut bytes = Vec::with_capacity(4096);
        let file = std::fs::File::open(path).map_err(unreadable)?;
        file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > LONGEST {
            return Err(LoadError::TooLong(path.to_owned()));
        }
        let wrong = |error| LoadError::Content(path.to_owned(), error);
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
            let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
            wrong(ConfigError { line: Some(line), problem: Problem::NotText })
        })?;
        Config::parse(&text).map(Some).map_err(wrong)
    }

    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        let mut draft = Draft::default();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                draft.take(number, line).map_err(|problem| ConfigError { line: Some(number), problem })?;
            }
        }
        draft.finish().map_err(|problem| ConfigError { line: None, problem })
    }
}

/// One key: its name, what it allows, and how a value is taken over.
struct Key {
    name: &'static str,
    allowed: &'static str,
    take: fn(&mut Draft, &str) -> Option<()>,
}

const KEYS: [Key; 6] = [
    Key {
        name: "GovernedQOS",
        allowed: "auto, or names of QOSes separated by commas, in which * stands for any characters",
        take: |draft, value| {
            draft.config.policy.governed = governed(value)?;
            Some(())
        },
    },
    Key {
        name: "ForeignTypes",
        allowed: "deny or allow",
        take: |draft, value| {
            let known = [("deny", ForeignTypes::Deny), ("allow", ForeignTypes::Allow)];
            draft.config.policy.foreign_types = word(value, &known)?;
            Some(())
        },
    },
    Key {
        name: "Placement",
        allowed: "off or override",
        take: |draft, value| {
            draft.overriding = word(value, &[("off", false), ("override", true)])?;
            Some(())
        },
    },
    Key {
        name: "UnitsPerGpu",
        allowed: "a whole number from 1 to 1000000",
        take: |draft, value| {
            draft.units_per_gpu = Some(value.parse().ok().filter(|units| (1..=1_000_000).contains(units))?);
            Some(())
        },
    },
    Key {
        name: "GpuFile",
        allowed: "auto, or paths as in gres.conf's File=, such as /dev/nvidia[0-3]",
        take: |draft, value| {
            draft.config.node.gpu_files = GpuFiles::parse(value)?;
            Some(())
        },
    },
    Key {
        name: "Overcommit",
        allowed: "allow or refuse",
        take: |draft, value| {
            let known = [("allow", Overcommit::Allow), ("refuse", Overcommit::Refuse)];
            draft.config.node.overcommit = word(value, &known)?;
            Some(())
        },
    },
];

#[derive(Default)]
struct Draft {
    config: Config,
    overriding: bool,
    units_per_gpu: Option<u32>,
    seen: Vec<(&'static str, usize)>,
}

impl Draft {
    fn take(&mut self, number: usize, line: &str) -> Result<(), Problem> {
        let (name, value) = line.split_once('=').ok_or_else(|| Problem::NoValue(line.to_owned()))?;
        let (name, value) = (name.trim(), value.trim());
        let key = KEYS
            .iter()
            .find(|key| key.name.eq_ignore_ascii_case(name))
            .ok_or_else(|| Problem::UnknownKey(name.to_owned()))?;
        if let Some((_, first)) = self.seen.iter().find(|(seen, _)| *seen == key.name) {
            return Err(Problem::Twice { key: key.name, first: *first });
        }
        self.seen.push((key.name, number));
        (key.take)(self, value).ok_or_else(|| Problem::BadValue {
            key: key.name,
            value: value.to_owned(),
            allowed: key.allowed,
        })
    }

    fn finish(mut self) -> Result<Config, Problem> {
        if self.overriding {
            let units_per_gpu = self
                .units_per_gpu
                .ok_or(Problem::Missing { key: "UnitsPerGpu", because: "Placement=override" })?;
            self.config.node.placement = Placement::Override { units_per_gpu };
        }
        Ok(self.config)
    }
}

fn word<T: Copy>(value: &str, known: &[(&str, T)]) -> Option<T> {
    known.iter().find(|(name, _)| name.eq_ignore_ascii_case(value)).map(|(_, meaning)| *meaning)
}

fn governed(value: &str) -> Option<Governed> {
    if value.eq_ignore_ascii_case("auto") {
        return Some(Governed::Auto);
    }
    let names: Vec<String> = value.split(',').map(|name| name.trim().to_owned()).collect();
    let well_formed =
        |name: &String| !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control());
    names.iter().all(well_formed).then_some(Governed::Names(names))
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self.line {
            Some(line) => write!(out, "line {line}: {}", self.problem),
            None => self.problem.fmt(out),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Problem::NoValue(line) => write!(out, "'{}' is not of the form Key=Value", line.escape_debug()),
            Problem::UnknownKey(name) => {
                let keys: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
                write!(out, "unknown key '{}'; the keys are {}", name.escape_debug(), keys.join(", "))
            }
            Problem::BadValue { key, value, allowed } => {
                write!(out, "{key} can't be '{}'; allowed is {allowed}", value.escape_debug())
            }
            Problem::Twice { key, first } => write!(out, "{key} is given twice, first in line {first}"),
            Problem::Missing { key, because } => write!(out, "{because} needs {key}"),
            Problem::NotText => write!(out, "bytes that are not UTF-8"),
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            LoadError::Read(path, error) => write!(out, "{}: {error}", path.display()),
            LoadError::TooLong(path) => write!(out, "{}: longer than {LONGEST} bytes", path.display()),
            LoadError::Content(path, error) => write!(out, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for ConfigError {}
impl std::error::Error for LoadError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_lines_are_the_defaults() {
        assert_eq!(Config::parse("\n# nothing\n"), Ok(Config::default()));
        assert_eq!(Config::default().policy.governed, Governed::Auto);
    }

    #[test]
    fn every_key_is_taken() {
        let text = "governedqos = qos_*, hpc # both\nForeignTypes=ALLOW\nPlacement=override\nUnitsPerGpu=80\n\
                    GpuFile=/dev/nvidia[0-1]\nOvercommit=refuse\n";
        let config = Config::parse(text).unwrap();
        assert_eq!(config.policy.governed, Governed::Names(vec!["qos_*".into(), "hpc".into()]));
        assert_eq!(config.policy.foreign_types, ForeignTypes::Allow);
        assert_eq!(config.node.placement, Placement::Override { units_per_gpu: 80 });
        assert_eq!(config.node.overcommit, Overcommit::Refuse);
        assert_eq!(config.node.gpu_files, GpuFiles::parse("/dev/nvidia0,/dev/nvidia1").unwrap());
    }

    #[test]
    fn errors_name_line_key_and_what_is_allowed() {
        for (text, expected) in [
            ("GovernedQOS", "line 1: 'GovernedQOS' is not of the form Key=Value"),
            (
                "\nGouvernedQOS=x",
                "line 2: unknown key 'Gouvernedqos'; the keys are GovernedQOS, ForeignTypes, Placement, UnitsPerGpu, \
                 GpuFile, Overcommit",
            ),
            ("ForeignTypes=no", "line 1: ForeignTypes can't be 'no'; allowed is deny or allow"),
            (
                "UnitsPerGpu=0",
                "line 1: UnitsPerGpu can't be '0'; allowed is a whole number from 1 to 1000000",
            ),
            (
                "UnitsPerGpu=1e3",
                "line 1: UnitsPerGpu can't be '1e3'; allowed is a whole number from 1 to 1000000",
            ),
            ("Overcommit=allow\n\nOvercommit=allow", "line 3: Overcommit is given twice, first in line 1"),
            ("Placement=override", "Placement=override needs UnitsPerGpu"),
            (
                "GovernedQOS=a,,b",
                "line 1: GovernedQOS can't be 'a,,b'; allowed is auto, or names of QOSes separated by commas, in \
                 which * stands for any characters",
            ),
        ] {
            let expected = expected.replace("Gouvernedqos", "GouvernedQOS");
            assert_eq!(Config::parse(text).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn the_file_beside_slurm_conf_comes_before_the_fallback() {
        let dir = tempfile::tempdir().unwrap();
        let (slurm_conf, fallback) = (dir.path().join("slurm.conf"), Path::new("/other/gpushare.conf"));
        assert_eq!(find(&slurm_conf, fallback), fallback);
        std::os::unix::fs::symlink("nowhere", dir.path().join("gpushare.conf")).unwrap();
        assert_eq!(find(&slurm_conf, fallback), dir.path().join("gpushare.conf"), "broken, but meant");
    }

    #[test]
    fn a_missing_file_is_none_and_everything_else_that_fails_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gpushare.conf");
        assert!(Config::load(&path).unwrap().is_none());
        std::os::unix::fs::symlink("nowhere", &path).unwrap();
        assert!(matches!(Config::load(&path), Err(LoadError::Read(..))));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, b"# fine\nPlacement=\xff\n").unwrap();
        assert!(Config::load(&path).unwrap_err().to_string().ends_with("line 2: bytes that are not UTF-8"));
        std::fs::write(&path, vec![b'#'; 2 << 20]).unwrap();
        assert!(matches!(Config::load(&path), Err(LoadError::TooLong(_))));
        assert!(matches!(Config::load(dir.path()), Err(LoadError::Read(..))));
    }

    proptest::proptest! {
        #[test]
        fn any_text_gives_an_answer(text in "\\PC{0,200}") {
            let _ = Config::parse(&text);
        }
    }
}
