//! Build script of the two SPANK plugins, which stay loaded: srun and slurmstepd load a plugin twice at every start,
//! the first time only to look at its name. For a plugin that stays loaded, the second time costs nothing.

fn main() {
    // This file is in only one of the two crates. Cargo notices by itself when it changes.
    println!("cargo::rerun-if-changed=Cargo.toml");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
