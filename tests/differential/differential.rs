//! gpushare against Slurm itself: whatever the policy accepts under a governed QOS, Slurm must read as the policy did,
//! or refuse; and a single request of a known type, with its count, must be accepted.
//!
//!     differential RELEASE colon|slash COUNT SEED COMMAND...
//!     differential RELEASE colon|slash all PART/PARTS COMMAND...
//!
//! COMMAND runs `reader.c` with that release's library. First the table of `tests/data` is held against it, then COUNT
//! strings, made from SEED, or every string of up to six tokens, or a part of these. Prints a line of numbers; exit
//! status 1 and the strings at a disagreement, 2 if it can't be tried.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for developers")]

mod accounting;
mod every;
mod generate;
mod reading;
mod slurm;
mod table;

use accounting::{Database, GOVERNED, is_type};
use generate::Generator;
use gpushare::submit::grammar::Spelling;
use gpushare::submit::policy::{Policy, judge};
use gpushare::submit::request::Request;
use reading::Reading;
use slurm::Slurm;
use std::collections::BTreeMap;
use std::fmt;
use std::process::ExitCode;

/// Strings that one run of the reader gets.
const BATCH: usize = 50_000;
/// Disagreements that are made small and shown, once where they then are the same.
const SHOWN: usize = 10;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("differential: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether there was nothing to object to.
fn run(mut arguments: impl Iterator<Item = String>) -> Outcome<bool> {
    let mut argument = || arguments.next().ok_or("too few arguments");
    let release = argument()?;
    let spelling = match argument()?.as_str() {
        "colon" => Spelling::Colon,
        "slash" => Spelling::Slash,
        other => return Err(format!("'{other}' is not a spelling").into()),
    };
    let (count, which) = (argument()?, argument()?);
    let trial = Trial { spelling, slurm: Slurm::new(arguments.collect()) };

    let table = table::rows(spelling)?;
    let strings: Vec<Vec<u8>> = table.iter().map(|row| row.text.clone()).collect();
    let answers = trial.slurm.read(&strings)?;
    for (row, answer) in table.iter().zip(&answers).filter(|(row, answer)| row.reading != **answer) {
        println!(
            "{release}: \"{}\": Slurm reads {answer}, the table {}",
            row.text.escape_ascii(),
            row.reading
        );
    }
    let mut figures = Figures::default();
    let typed = if count == "all" {
        let (part, parts) = which.split_once('/').ok_or("a part is PART/PARTS")?;
        let (part, parts) = (part.parse()?, parts.parse()?);
        if !(1..=parts).contains(&part) {
            return Err(format!("there is no part {which}").into());
        }
        figures.add_all(&trial, every::strings(spelling, part, parts))?;
        println!("{release}, all of up to 6 tokens, part {which}: {figures}");
        usize::from(parts == 1) // few are that long
    } else {
        figures.add(&trial, &strings, &answers);
        let mut generator = Generator::new(which.parse()?, spelling, strings);
        let made = std::iter::repeat_with(|| generator.string());
        figures.add_all(&trial, made.take(count.parse::<usize>()?.saturating_sub(figures.tried)))?;
        println!("{release}, seed {which}: {figures}");
        figures.tried / 50
    };
    let small: BTreeMap<_, _> =
        figures.disagreements.iter().take(SHOWN).map(|text| trial.smallest(text)).collect::<Outcome<_>>()?;
    for (text, why) in small {
        println!("{release}: \"{}\": {why}", text.escape_ascii());
    }
    let table_holds = table.iter().zip(&answers).all(|(row, answer)| row.reading == *answer);
    Ok(table_holds && figures.disagreements.is_empty() && figures.mean_something(typed))
}

/// One release.
struct Trial {
    spelling: Spelling,
    slurm: Slurm,
}

impl Trial {
    fn accepts(&self, text: &[u8]) -> bool {
        let request =
            Request { qos: Some(GOVERNED), tres_per_node: Some(text), ..Request::new(self.spelling) };
        judge(&request, &Policy::default(), &Database).is_ok()
    }

    /// Why gpushare should not have accepted, or refused, a string that Slurm reads so.
    fn objection(&self, text: &[u8], slurms: &Reading) -> Option<String> {
        let Reading::Wants(wanted) = slurms else { return None };
        if !self.accepts(text) {
            return self.is_innocent(text, wanted).then(|| format!("refused, and Slurm reads {slurms}"));
        }
        let Some(ours) = reading::ours(text, self.spelling).map(Reading::Wants) else {
            return Some("accepted, though not recognised".to_owned());
        };
        let typed = wanted.iter().filter(|wanted| wanted.name == b"gpu").all(has_known_type);
        (!typed || ours != *slurms).then(|| format!("Slurm reads {slurms}, gpushare {ours}"))
    }

    /// Whether a string is a single request with a small count behind a colon, and Slurm reads a known type in it.
    fn is_innocent(&self, text: &[u8], wanted: &[reading::Wanted]) -> bool {
        let count = text.rsplit(|byte| *byte == b':').next().unwrap_or_default();
        let small = (1..4).contains(&count.len()) && count.iter().all(u8::is_ascii_digit);
        let is_one = text.starts_with(self.spelling.prefix()) && !text.contains(&b',');
        let [one] = wanted else { return false };
        small && is_one && one.name == b"gpu" && has_known_type(one)
    }

    /// The shortest string that is left when bytes are taken out of `text` as long as the objection stays.
    fn smallest(&self, text: &[u8]) -> Outcome<(Vec<u8>, String)> {
        let mut found = (text.to_vec(), "seen once, not again".to_owned());
        loop {
            let candidates = parts(&found.0);
            let answers = self.slurm.read(&candidates)?;
            let objections = candidates.iter().zip(&answers).filter_map(|(candidate, answer)| {
                self.objection(candidate, answer).map(|why| (candidate.clone(), why))
            });
            match objections.min_by_key(|(candidate, _)| candidate.len()) {
                Some(smaller) if smaller.0.len() < found.0.len() => found = smaller,
                Some(same) => return Ok(same),
                None => return Ok(found),
            }
        }
    }
}

/// The text itself, and all that is left when a stretch of it is taken out.
fn parts(text: &[u8]) -> Vec<Vec<u8>> {
    let stretches =
        (1..=text.len()).flat_map(|length| (0..=text.len() - length).map(move |at| (at, at + length)));
    let left = stretches.filter_map(|(from, to)| Some([text.get(..from)?, text.get(to..)?].concat()));
    std::iter::once(text.to_vec()).chain(left).collect()
}

fn has_known_type(wanted: &reading::Wanted) -> bool {
    wanted.gres_type.as_deref().is_some_and(is_type)
}

/// What was seen.
#[derive(Default)]
struct Figures {
    tried: usize,
    ours: usize,
    slurms: usize,
    both: usize,
    typed: usize,
    kept_out: usize,
    disagreements: Vec<Vec<u8>>,
}

impl Figures {
    fn add_all(&mut self, trial: &Trial, mut strings: impl Iterator<Item = Vec<u8>>) -> Outcome<()> {
        loop {
            let batch: Vec<_> = strings.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                return Ok(());
            }
            self.add(trial, &batch, &trial.slurm.read(&batch)?);
        }
    }

    fn add(&mut self, trial: &Trial, strings: &[Vec<u8>], answers: &[Reading]) {
        for (text, answer) in strings.iter().zip(answers) {
            let (ours, slurms) = (trial.accepts(text), *answer != Reading::Error);
            let gpus =
                matches!(answer, Reading::Wants(all) if all.iter().any(|wanted| wanted.name == b"gpu"));
            self.tried += 1;
            self.ours += usize::from(ours);
            self.slurms += usize::from(slurms);
            self.both += usize::from(ours && slurms);
            self.typed += usize::from(ours && gpus);
            self.kept_out += usize::from(!ours && gpus);
            if trial.objection(text, answer).is_some() {
                self.disagreements.push(text.clone());
            }
        }
    }

    /// Whether enough strings got far enough for their agreement to say something. `typed` must have been accepted with
    /// GPUs.
    fn mean_something(&self, typed: usize) -> bool {
        let holds = self.tried < 1000 || self.typed >= typed && self.kept_out > self.tried / 50;
        if !holds {
            println!("too few of the strings ask for GPUs: the generator is broken");
        }
        holds
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let Figures { tried, ours, slurms, both, typed, kept_out, disagreements } = self;
        write!(
            out,
            "{tried} strings, accepted by gpushare {ours}, by Slurm {slurms}, by both {both} ({typed} with GPUs); \
             refused by gpushare alone though Slurm reads GPUs {kept_out}; disagreements {}",
            disagreements.len()
        )
    }
}
