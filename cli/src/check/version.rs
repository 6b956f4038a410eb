//! Which Slurm a plugin was built for, and which one a program belongs to. It reads a plugin's version from its file,
//! since it can't load it.

use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use gpushare_slurm_text::version::{Release, Version};
use object::{Object, ObjectSection, ObjectSymbol};

use crate::slurm::{command, run};

/// How long a program may take to report its version.
const PATIENCE: Duration = Duration::from_secs(10);

/// The number that a plugin gives as `plugin_version`: 24.11.5 is 0x180b05.
///
/// # Errors
/// The file can't be read, or Slurm can't load it.
pub fn of_plugin(path: &Path) -> Result<Version, PluginError> {
    let bytes = fs::read(path)?;
    let file = object::File::parse(bytes.as_slice())?;
    let symbol = file.dynamic_symbols().find(|symbol| symbol.name() == Ok("plugin_version"));
    let symbol = symbol.ok_or(PluginError::NoSymbol)?;
    let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
    let found = section.and_then(|section| section.data_range(symbol.address(), 4).ok().flatten());
    let number = found.and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
    let [micro, month, year, _] = number.ok_or(PluginError::Unreadable)?;
    Ok(Version { release: Release(year, month), micro: Some(micro) })
}

/// The version that a program on this machine reports. Looks in PATH, and where Slurm's daemons are.
pub fn of_program(name: &str) -> Option<Version> {
    ["", "/usr/sbin/", "/usr/local/sbin/"].iter().find_map(|folder| {
        let answer = run::run(command(&format!("{folder}{name}")).arg("-V"), PATIENCE).ok()?;
        answer.status.success().then(|| Version::parse(&String::from_utf8_lossy(&answer.output)))?
    })
}

gpushare::errors! {
    /// Why there is no version.
    #[derive(Debug)]
    pub enum PluginError {
        NoSymbol => "it has no plugin_version, so Slurm can't load it";
        Unreadable => "its plugin_version can't be read";
    } from { Read(io::Error), Elf(object::Error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_plugin_has_no_version() {
        assert!(of_plugin(Path::new("/proc/self/status")).is_err());
        let own = of_plugin(&std::env::current_exe().unwrap()).unwrap_err().to_string();
        assert_eq!(own, "it has no plugin_version, so Slurm can't load it");
    }

    #[test]
    fn a_program_that_is_none_of_slurms_has_no_version() {
        assert_eq!(of_program("false"), None);
        assert_eq!(of_program("no-such-program-of-slurm"), None);
    }
}
