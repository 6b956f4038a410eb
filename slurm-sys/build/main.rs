//! Build script of slurm-sys: find the headers, ask the preprocessor for their version, write the bindings.

mod bindings;
mod find;
mod version;

fn main() {
    let include = find::include_dir().unwrap_or_else(|message| stop(&message));
    let headers = version::of(&include).unwrap_or_else(|message| stop(&message));
    let version = headers.version;
    if version < version::OLDEST {
        stop(&format!(
            "the headers in {} are of Slurm {version}; gpushare needs {} or newer",
            include.display(),
            version::OLDEST
        ));
    }
    bindings::write(&include).unwrap_or_else(|message| stop(&message));
    println!("cargo::metadata=HAS={}", headers.has.join(","));
    println!("cargo::metadata=LACKS={}", headers.lacks.join(","));
    println!("cargo::metadata=INCLUDE={}", include.display());
}

/// Ends the build with one sentence instead of a backtrace.
fn stop(message: &str) -> ! {
    println!("cargo::error={message}");
    std::process::exit(1)
}
