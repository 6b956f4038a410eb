//! Finds Slurm's headers: `SLURM_INCLUDE_DIR`, then pkg-config, then /usr/include; otherwise one message lists what it
//! tried. A directory counts if it has the landmark slurm/slurm.h. It is refused without slurm/slurm_version.h, which
//! configure makes.

use std::path::{Path, PathBuf};

const VARIABLE: &str = "SLURM_INCLUDE_DIR";
const LANDMARK: &str = "slurm/slurm.h";
const CONFIGURED: &str = "slurm/slurm_version.h";

/// The directory of Slurm's headers.
///
/// # Errors
/// `SLURM_INCLUDE_DIR` names a directory without the headers, they are in none of the usual places, or configure has
/// not run.
pub fn include_dir() -> Result<PathBuf, String> {
    if let Some(named) = env(VARIABLE) {
        let dir = PathBuf::from(named);
        return if has_landmark(&dir) {
            configured(dir)
        } else {
            Err(format!("{VARIABLE} is '{}', but there is no {LANDMARK} in it", dir.display()))
        };
    }
    let mut tried = Vec::new();
    for dir in from_pkg_config().into_iter().chain([PathBuf::from("/usr/include")]) {
        if has_landmark(&dir) {
            return configured(dir);
        }
        tried.push(dir.display().to_string());
    }
    Err(format!(
        "Slurm's headers were not found: pkg-config knows no usable 'slurm' and {LANDMARK} is not in {}; \
         set {VARIABLE}, or install libslurm-dev (Debian), slurm-smd-dev (SchedMD's .deb) or slurm-devel (RPM)",
        tried.join(", ")
    ))
}

fn has_landmark(dir: &Path) -> bool {
    println!("cargo::rerun-if-changed={}", dir.join(LANDMARK).display());
    dir.join(LANDMARK).is_file()
}

/// The directory, unless it is of sources that weren't configured.
fn configured(dir: PathBuf) -> Result<PathBuf, String> {
    println!("cargo::rerun-if-changed={}", dir.join(CONFIGURED).display());
    if dir.join(CONFIGURED).is_file() {
        return Ok(dir);
    }
    Err(format!(
        "{} has {LANDMARK}, but no {CONFIGURED}: these are sources; run ./configure --without-munge there first, or \
         install Slurm's development package",
        dir.display()
    ))
}

fn from_pkg_config() -> Vec<PathBuf> {
    println!("cargo::rerun-if-env-changed=PKG_CONFIG_PATH");
    pkg_config::Config::new()
        .cargo_metadata(false)
        .env_metadata(false)
        .probe("slurm")
        .map(|library| library.include_paths)
        .unwrap_or_default()
}

/// A variable of the environment. Cargo runs the build again when it changes.
fn env(name: &str) -> Option<std::ffi::OsString> {
    println!("cargo::rerun-if-env-changed={name}");
    std::env::var_os(name)
}
