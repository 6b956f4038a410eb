//! `gpushare`, the administrator's and user's command.
#![forbid(unsafe_code)]

mod explain;
mod status;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Share GPUs on Slurm: who is on which GPU, and what a message means.
#[derive(Parser)]
#[command(name = "gpushare", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Explain a message by its number, such as GS101
    Explain {
        /// The number; without one, all are listed
        number: Option<String>,
    },
    /// Show this node's shares: job, user, units, GPU
    Status,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Explain { number } => explain::run(number.as_deref()),
        Command::Status => status::run(),
    };
    match result.and_then(|text| print(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            use std::io::Write;
            let _ = writeln!(std::io::stderr(), "gpushare: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// A reader that has seen enough, such as head(1), is no error.
fn print(text: &str) -> Result<(), String> {
    use std::io::{ErrorKind, Write};
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("standard output: {error}")),
        _ => Ok(()),
    }
}
