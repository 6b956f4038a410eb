//! `placement-simulator`: the same traces for every policy, a table of what became of the jobs, and a plot of it; and a
//! table of how often shares overcommit a GPU of one node while another has room.
//!
//!     placement-simulator [--seeds N] [--jobs N] [--svg FILE]
//!
//! Exit status 1 if a run broke what must hold of any (`Broken`). How it is meant and read: docs/dev/simulation.md.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for developers")]

mod cluster;
mod figures;
mod node;
mod openb;
mod overcommit;
mod plot;
mod policy;
mod random;
mod report;
mod trace;

use std::process::ExitCode;

use figures::Figures;
use policy::Policy;
use trace::Kind;

/// What became of one kind of trace: for each policy a run per seed.
struct Outcome {
    kind: Kind,
    runs: Vec<(Policy, Vec<Figures>)>,
}

struct Options {
    seeds: u64,
    jobs: usize,
    svg: Option<String>,
}

fn main() -> ExitCode {
    match options(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("placement-simulator: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { seeds: 31, jobs: 2048, svg: None };
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse::<u32>().map_err(|_| format!("{name}: \"{value}\" is no number"));
        match name.as_str() {
            "--seeds" => options.seeds = u64::from(number()?.max(1)),
            "--jobs" => options.jobs = number()? as usize,
            "--svg" => options.svg = Some(value),
            _ => return Err(format!("unknown option {name}")),
        }
    }
    Ok(options)
}

fn run(options: &Options) -> Result<(), String> {
    let outcomes: Vec<Outcome> =
        Kind::ALL.iter().map(|kind| outcome(*kind, options)).collect::<Result<_, _>>()?;
    println!("{} jobs a trace, seeds 1 to {}", options.jobs, options.seeds);
    println!("{}", report::table(&outcomes));
    println!("\n{}", overcommit::table(options.jobs, options.seeds)?);
    match &options.svg {
        Some(path) => std::fs::write(path, plot::svg(&outcomes)).map_err(|error| format!("{path}: {error}")),
        None => Ok(()),
    }
}

fn outcome(kind: Kind, options: &Options) -> Result<Outcome, String> {
    let traces: Vec<_> = (1..=options.seeds).map(|seed| (seed, kind.draw(options.jobs, seed))).collect();
    let runs = |policy: Policy| {
        let run = |(seed, trace): &(u64, trace::Trace)| {
            node::simulate(trace, policy)
                .map_err(|broken| format!("{}, seed {seed}, {}: {broken:?}", kind.name(), policy.name()))
        };
        Ok((policy, traces.iter().map(run).collect::<Result<_, String>>()?))
    };
    Ok(Outcome { kind, runs: Policy::ALL.into_iter().map(runs).collect::<Result<_, String>>()? })
}
