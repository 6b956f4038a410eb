//! Finds Slurm's headers: `SLURM_INCLUDE_DIR`, then pkg-config, then /usr/include; otherwise one message lists what it
//! tried. A directory counts if it has the landmark slurm/slurm.h.

use std::path::{Path, PathBuf};

const VARIABLE: &str = "SLURM_INCLUDE_DIR";
const LANDMARK: &str = "slurm/slurm.h";

/// The directory of Slurm's headers.
///
/// # Errors
/// `SLURM_INCLUDE_DIR` names a directory without the headers, or they are in none of the usual places.
pub fn include_dir() -> Result<PathBuf, String> {
    if let Some(named) = env(VARIABLE) {
        let dir = PathBuf::from(named);
        return if has_landmark(&dir) {
            Ok(dir)
        } else {
            Err(format!("{VARIABLE} is '{}', but there is no {LANDMARK} in it", dir.display()))
        };
    }
    let mut tried = Vec::new();
    for dir in from_pkg_config().into_iter().chain([PathBuf::from("/usr/include")]) {
        if has_landmark(&dir) {
            return Ok(dir);
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
