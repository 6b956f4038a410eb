//! `gpushare`, the administrator's and user's command.
#![forbid(unsafe_code)]

mod audit;
mod check;
mod conf;
mod csv;
mod explain;
#[cfg(test)]
mod generated_docs;
mod json;
mod leaks;
mod metrics;
mod period;
mod qos;
mod requirements;
mod slurm;
mod status;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

/// Share GPUs on Slurm: who is on which GPU, what a message means, and whose the cluster's GPUs are.
#[derive(Parser)]
#[command(name = "gpushare", version, propagate_version = true, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// From slurmctld's log: which requests Mode=audit and warn let pass, which were refused, and what to ask for
    /// instead
    Audit(audit::Arguments),
    /// Check this machine, its Slurm and its GPUs: what is right, what is wrong, and how to fix it
    Check(check::Arguments),
    /// Print the lines of slurm.conf, gres.conf, cgroup.conf and plugstack.conf that gpushare.conf needs, with reasons
    Conf(conf::Arguments),
    /// Explain a message by its number, or judge an sbatch command line or script without submitting it
    Explain(explain::Arguments),
    /// From accounting alone: when limits on GPU types were exceeded, by which requests, and what to ask for instead
    Leaks(leaks::Arguments),
    /// Print this machine's figures for Prometheus: GPUs, shares, placements and refusals
    Metrics(metrics::Arguments),
    /// Groups' QOSes: compare gpushare.conf with Slurm's database, make the database match it, show and publish them
    Qos(qos::Arguments),
    /// Show this node's GPUs, or the cluster's: which units are assigned, and to which jobs
    Status(status::Arguments),
    /// Print a shell's completions of this command line, for `make install`
    #[command(hide = true)]
    Completions {
        /// bash, zsh or fish
        shell: clap_complete::Shell,
    },
}

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == check::fence::PROBE) {
        let said = check::fence::probe(words).and_then(|text| print(&text));
        return finish(said.map(|()| ExitCode::SUCCESS), 1);
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return misuse(&error),
    };
    match arguments.command {
        Command::Audit(arguments) => {
            let said = audit::run(&arguments).and_then(|answer| print(&answer.text).map(|()| answer.passed));
            finish(said.map(|passed| ExitCode::from(u8::from(passed))), 2)
        }
        Command::Check(arguments) => {
            let said = check::run(&arguments).and_then(|answer| print(&answer.text).map(|()| answer.status));
            finish(said.map(ExitCode::from), 2)
        }
        Command::Conf(arguments) => {
            finish(conf::run(&arguments).and_then(|text| print(&text)).map(|()| ExitCode::SUCCESS), 2)
        }
        Command::Explain(arguments) => {
            // 1 is a verdict here.
            let said =
                explain::run(arguments).and_then(|answer| print(&answer.text).map(|()| answer.refused));
            finish(said.map(|refused| ExitCode::from(u8::from(refused))), 2)
        }
        Command::Leaks(arguments) => {
            let said =
                leaks::run(&arguments).and_then(|answer| print(&answer.text).map(|()| answer.exceeded));
            finish(said.map(|exceeded| ExitCode::from(u8::from(exceeded))), 2)
        }
        Command::Metrics(arguments) => {
            let said =
                metrics::run(&arguments).and_then(|answer| print(&answer.text).map(|()| answer.complete));
            finish(said.map(|complete| ExitCode::from(u8::from(!complete))), 1)
        }
        Command::Qos(arguments) => finish(qos::run(&arguments), 2),
        Command::Completions { shell } => finish(completions(shell).map(|()| ExitCode::SUCCESS), 2),
        Command::Status(arguments) => {
            finish(status::run(&arguments).and_then(|text| print(&text)).map(|()| ExitCode::SUCCESS), 2)
        }
    }
}

/// clap prints help and version; a wrong command line is reported like any other error.
fn misuse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
    }
    let text = error.render().to_string();
    finish(Err(text.trim_start_matches("error: ").trim_end().to_owned()), 2)
}

fn completions(shell: clap_complete::Shell) -> Result<(), String> {
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "gpushare", &mut bytes);
    print(&String::from_utf8_lossy(&bytes))
}

/// The exit status; prints an error first.
fn finish(result: Result<ExitCode, String>, failure: u8) -> ExitCode {
    result.unwrap_or_else(|reason| {
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "gpushare: {reason}");
        ExitCode::from(failure)
    })
}

/// A reader that closes early, such as head(1), is no error.
fn print(text: &str) -> Result<(), String> {
    use std::io::{ErrorKind, Write};
    let mut stdout = std::io::stdout();
    // A question has no line end.
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("standard output: {error}")),
        _ => Ok(()),
    }
}
