//! A file for node_exporter's textfile collector: replaced all at once, and named as node_exporter requires.

use std::fmt::{Display, Write as _};
use std::io;
use std::path::{Path, PathBuf};

use gpushare::root_file;

/// The extension that node_exporter requires; it ignores other files.
const EXTENSION: &str = "prom";

gpushare::errors! {
    /// Why nothing was written.
    #[derive(Debug)]
    pub enum TextfileError {
        Name(out: PathBuf) =>
            "--out {}: the name must end in .{EXTENSION}, or node_exporter doesn't read the file", out.display();
        Write(out: PathBuf, error: io::Error) => "writing {}: {error}", out.display();
    }
}

/// Prometheus' text so far: one family of samples after another, each with its meaning.
#[derive(Debug, Default)]
pub struct Text(pub String);

/// Names and values.
pub type Labels<'a> = Vec<(&'static str, &'a str)>;

impl Text {
    /// Writes a family; nothing if it has no samples.
    pub fn family<'a, V: Display>(
        &mut self,
        (name, gres_type, help): (&str, &str, &str),
        samples: impl IntoIterator<Item = (Labels<'a>, V)>,
    ) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {gres_type}");
        for (labels, value) in samples {
            let labels: Vec<String> =
                labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(self.0, "{name}{labels} {value}");
        }
    }

    /// Writes a family of one sample without labels.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family((name, "gauge", help), [(Vec::new(), value)]);
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Checks a name before there is a text.
///
/// # Errors
/// node_exporter doesn't read a file with this name.
pub fn check_name(out: &Path) -> Result<(), TextfileError> {
    let right = out.extension().is_some_and(|extension| extension == EXTENSION) && out.file_name().is_some();
    right.then_some(()).ok_or_else(|| TextfileError::Name(out.to_owned()))
}

/// Renames the file, so that node_exporter reads either the old or the new one.
///
/// # Errors
/// The file can't be written.
pub fn write(out: &Path, text: &str) -> Result<(), TextfileError> {
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    // A simultaneous run uses another name; none ends in .prom.
    let temporary = out.with_file_name(format!(".{name}.{}", std::process::id()));
    root_file::replace(&temporary, out, text).map_err(|error| TextfileError::Write(out.to_owned(), error))
}

/// The time of the last success in the file to be replaced, for a run that isn't a success: the number after `before`.
pub fn last_success(out: &Path, before: &str) -> Option<u64> {
    let bytes = root_file::read(out, 1 << 20).ok()??;
    let text = String::from_utf8(bytes).ok()?;
    text.lines().find_map(|line| line.strip_prefix(before)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_must_be_one_that_node_exporter_reads() {
        for name in ["/x/gpushare.prom", "a.prom"] {
            assert!(check_name(Path::new(name)).is_ok(), "{name}");
        }
        for name in ["/x/gpushare.txt", "/x/prom", "/x/.prom", "/", "x.prom/..", "x.prom.new"] {
            assert!(
                check_name(Path::new(name)).unwrap_err().to_string().contains("must end in .prom"),
                "{name}"
            );
        }
    }

    #[test]
    fn the_file_is_replaced_whole_and_keeps_the_last_success() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("gpushare.prom");
        assert_eq!(last_success(&out, "a_time"), None);
        write(&out, "other 1\na_time 1700000000\n").unwrap();
        assert_eq!(last_success(&out, "a_time"), Some(1_700_000_000));
        let names =
            || -> Vec<_> { dir.path().read_dir().unwrap().map(|file| file.unwrap().file_name()).collect() };
        assert_eq!(names(), ["gpushare.prom"]);
        std::fs::write(&out, "half a f").unwrap();
        assert_eq!(last_success(&out, "a_time"), None);
        write(&out, "x\n").unwrap();
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "x\n");
        assert!(
            write(&dir.path().join("no/such.prom"), "x\n").unwrap_err().to_string().starts_with("writing ")
        );
    }
}
