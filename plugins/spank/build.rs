//! Build script of the two SPANK plugins: once loaded they stay. srun and slurmstepd load a plugin twice in every
//! start, the first time only to look at its name, and a plugin that stays is there already the second time.

fn main() {
    // Of two crates, this file is in one; when it changes it runs again by itself.
    println!("cargo::rerun-if-changed=Cargo.toml");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
