//! Build script of every crate that depends on `slurm-sys`: turns the release found in Slurm's headers into cfgs.
//!
//! A cfg means "at least this release": code uses `#[cfg(slurm_23_02)]` for what came with 23.02 and is still there.
//! The number comes from `slurm-sys`, which read it from slurm_version.h; nothing is typed by hand. This also sets
//! which unwinder the plugins are linked with.

/// The releases at which something that this project uses changed.
const RELEASES: [(u32, u32); 3] = [(23, 2), (23, 11), (25, 11)];

fn main() {
    // This file doesn't belong to the crate. Cargo notices by itself when it changes.
    println!("cargo::rerun-if-changed=Cargo.toml");
    let published = std::env::var("DEP_SLURM_VERSION_NUMBER").ok().and_then(|text| text.parse::<u32>().ok());
    let Some(number) = published else {
        println!("cargo::error=slurm-sys did not say which Slurm its headers are of");
        std::process::exit(1);
    };
    let found = ((number >> 16) & 0xff, (number >> 8) & 0xff);
    for (major, minor) in RELEASES {
        println!("cargo::rustc-check-cfg=cfg(slurm_{major:02}_{minor:02})");
        if found >= (major, minor) {
            println!("cargo::rustc-cfg=slurm_{major:02}_{minor:02}");
        }
    }
    link_unwinder();
}

/// Links GCC's unwinder into the plugins: every srun loads them, and would otherwise load libgcc_s.so too. The standard
/// library requests `-lgcc_s`, so a linker script of that name refers to the static library.
fn link_unwinder() {
    let folder = std::env::var("OUT_DIR").unwrap_or_default();
    if let Err(error) = std::fs::write(format!("{folder}/libgcc_s.so"), "INPUT(-lgcc_eh)\n") {
        println!("cargo::error={folder}: {error}");
    }
    println!("cargo::rustc-link-search=native={folder}");
}
