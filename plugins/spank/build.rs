//! Build script of the two SPANK plugins, which stay loaded: srun and slurmstepd load a plugin twice at every start,
//! the first time only to look at its name, and the second load of a plugin that stays costs nothing.

fn main() {
    // Of two crates, this file is in one; when it changes it runs again by itself.
    println!("cargo::rerun-if-changed=Cargo.toml");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
