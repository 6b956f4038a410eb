//! `gpushare`, the administrator's and user's command.
#![forbid(unsafe_code)]

mod check;
mod conf;
mod explain;
#[cfg(test)]
mod generated_docs;
mod gpu;
mod guard;
mod qos;
mod requirements;
mod slurm;
mod status;

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use gpushare_terminal::{Answer, PrintError, print};

/// Manage GPU limits and GPU shares in Slurm: show who is on which GPU, explain messages and jobs, and update QOSes.
#[derive(Parser)]
#[command(name = "gpushare", version, propagate_version = true, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Report from slurmctld's log which requests were accepted under Mode=audit or warn, or refused, and the options
    /// that work
    Audit(gpushare_audit::Arguments),
    /// Check this machine, its Slurm and its GPUs: what is right, what is wrong, and how to fix it
    Check(check::Arguments),
    /// Print the lines of slurm.conf, gres.conf, cgroup.conf and plugstack.conf that gpushare.conf needs, with reasons
    Conf(conf::Arguments),
    /// Say why a job waits or which GPUs it has, what a message means, or whether Slurm would accept an sbatch command
    /// line
    Explain(explain::Arguments),
    /// From accounting alone: which jobs with a whole GPU would have fitted a share, what to ask for, and what that
    /// frees
    Fit(gpushare_fit::Arguments),
    /// Take GPUs of this node out of service, and back: they get no shares, and their jobs continue
    Gpu(gpu::Arguments),
    /// List running jobs that exceed a GPU limit, and waiting jobs that would be refused
    Guard(guard::Arguments),
    /// On a node, which jobs don't use their GPUs: warn their users, and end the jobs as IdleLimit and IdleAction say
    Idle(gpushare_idle::Arguments),
    /// From accounting alone: when limits on GPU types were exceeded, by which requests, and what to ask for instead
    Leaks(gpushare_leaks::Arguments),
    /// Print this machine's metrics for Prometheus: GPUs, shares, placements and refusals
    Metrics(gpushare_metrics::Arguments),
    /// Show what you may use: your accounts and QOSes, their limits on GPUs, who uses them, and what to write
    Mine(explain::mine::Arguments),
    /// Groups' QOSes: compare gpushare.conf with Slurm's database, make the database match it, show and publish them
    Qos(qos::Arguments),
    /// What groups own, use, lend and leave idle in a month: for all groups and the cluster, or for one group
    Report(gpushare_report::Arguments),
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
        return finish(check::fence::probe(words), 1);
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return misuse(&error),
    };
    match arguments.command {
        Command::Audit(arguments) => finish(gpushare_audit::run(&arguments), 2),
        Command::Check(arguments) => finish(check::run(&arguments, gpushare_idle::names), 2),
        Command::Conf(arguments) => finish(conf::run(&arguments), 2),
        // For this command, 1 is a verdict.
        Command::Explain(arguments) => finish(explain::run(arguments), 2),
        Command::Fit(arguments) => finish(gpushare_fit::run(&arguments), 2),
        Command::Gpu(arguments) => finish(gpu::run(&arguments), 2),
        Command::Guard(arguments) => finish(guard::run(&arguments), 2),
        Command::Idle(arguments) => finish(gpushare_idle::run(&arguments), 2),
        Command::Leaks(arguments) => finish(gpushare_leaks::run(&arguments), 2),
        Command::Metrics(arguments) => finish(gpushare_metrics::run(&arguments), 1),
        Command::Mine(arguments) => finish(explain::mine::run(&arguments), 2),
        Command::Qos(arguments) => {
            finish(qos::run(&arguments).map(|status| Answer { text: String::new(), status }), 2)
        }
        Command::Report(arguments) => finish(gpushare_report::run(&arguments, gpushare_audit::refused), 2),
        Command::Completions { shell } => finish(Ok::<_, PrintError>(completions(shell)), 2),
        Command::Status(arguments) => finish(status::run(&arguments), 2),
    }
}

/// clap prints help and version; a wrong command line is reported like any other error.
fn misuse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
    }
    let text = error.render().to_string();
    finish(Err::<Answer, _>(text.trim_start_matches("error: ").trim_end()), 2)
}

fn completions(shell: clap_complete::Shell) -> String {
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "gpushare", &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Prints the answer, or why there is none, and returns the exit status.
fn finish(answer: Result<impl Into<Answer>, impl Display>, failure: u8) -> ExitCode {
    let fail = |reason: &dyn Display| {
        let _ = writeln!(io::stderr(), "gpushare: {reason}");
        failure
    };
    ExitCode::from(match answer.map(Into::into) {
        Ok(Answer { text, status }) => print(&text).map_or_else(|error| fail(&error), |()| status),
        Err(reason) => fail(&reason),
    })
}
