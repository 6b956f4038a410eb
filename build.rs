//! Build script of every crate that depends on `slurm-sys`: turns the release found in Slurm's headers into cfgs.
//!
//! A cfg means "at least this release": code uses `#[cfg(slurm_23_02)]` for what came with 23.02 and is still there.
//! `slurm-sys` publishes which hold, as the preprocessor has decided it (slurm-sys/build/version.c). This also sets
//! which unwinder the plugins are linked with.

fn main() {
    // This file doesn't belong to the crate. Cargo notices by itself when it changes.
    println!("cargo::rerun-if-changed=Cargo.toml");
    for (published, holds) in [("DEP_SLURM_HAS", true), ("DEP_SLURM_LACKS", false)] {
        let Ok(names) = std::env::var(published) else {
            println!("cargo::error=slurm-sys did not say what Slurm's headers have ({published})");
            std::process::exit(1);
        };
        for name in names.split(',').filter(|name| !name.is_empty()) {
            println!("cargo::rustc-check-cfg=cfg({name})");
            if holds {
                println!("cargo::rustc-cfg={name}");
            }
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
