//! What commands print: lines in columns and colours, CSV and JSON. Whatever text is in it, it controls no terminal.
#![forbid(unsafe_code)]

use std::fmt::Display;
use std::io::{self, Write};

pub mod columns;
pub mod csv;
mod file_error;
pub mod format;
pub mod json;
mod table;

pub use columns::clean;
pub use file_error::{FileError, write_file};
pub use table::{Table, notes};

/// A command's standard output, and its exit status.
#[derive(Debug)]
pub struct Answer {
    /// What it prints.
    pub text: String,
    /// 0, or what the command says of it.
    pub status: u8,
}

impl From<String> for Answer {
    fn from(text: String) -> Answer {
        Answer { text, status: 0 }
    }
}

gpushare::errors! {
    /// Standard output can't be written.
    #[derive(Debug)]
    pub enum PrintError {
        Failed(error: io::Error) => "standard output: {error}";
    }
}

/// Prints to standard output. If a reader such as head(1) closes early, that isn't an error.
///
/// # Errors
/// Standard output can't be written.
pub fn print(text: &str) -> Result<(), PrintError> {
    let mut stdout = io::stdout();
    // A question has no line end, so it must be flushed.
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(PrintError::Failed(error)),
        _ => Ok(()),
    }
}

/// Prints a line on standard error.
pub fn complain(line: impl Display) {
    let _ = writeln!(io::stderr(), "gpushare: {}", clean(&line.to_string()));
}

/// The text in lines of at most so many characters, if its words are no longer.
pub fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        if let Some(last) = lines.last_mut() {
            if last.is_empty() {
                last.push_str(word);
            } else if last.chars().count() + 1 + word.chars().count() <= most {
                last.push(' ');
                last.push_str(word);
            } else {
                lines.push(word.to_owned());
            }
        }
    }
    lines
}

/// The first few names.
pub fn listed(names: &[impl AsRef<str>]) -> String {
    let shown = names.iter().take(8).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    if names.len() > 8 { format!("{shown} and {} more", names.len() - 8) } else { shown }
}
