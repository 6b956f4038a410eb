//! Past jobs: their options as accounting recorded them, and what gpushare would have replied.
//!
//! This reads and checks as `gpushare explain` does, with what accounting knows about a job: always its QOS, account
//! and partition, but other options only if they were on the command line.

use std::rc::Rc;

use gpushare::submit::message;
use gpushare::submit::policy::{self, Because, Policy, Refusal, Remark};

use super::accounting::Database;
pub use super::accounting::{Facts, Tables};
pub use super::options::OptionError;
use super::options::{self, Given, Source};
use super::submission::Submission;
use gpushare_slurm_text::version::Release;

/// gpushare's reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The message's number.
    pub number: &'static str,
    /// The whole text.
    pub text: String,
    /// The options that would have been accepted, if the message has any.
    pub command: Option<String>,
}

/// A job's owner and place.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The user's name.
    pub user: &'a str,
    /// The account charged.
    pub account: &'a str,
    /// The QOS that it ran under.
    pub qos: &'a str,
    /// The partition that it ran in.
    pub partition: &'a str,
}

/// An option, without dashes and in full, and its value.
pub type Asked = (&'static str, Option<Vec<u8>>);

/// The options in a command line; `None` if it isn't one of sbatch, srun or salloc, or can't be read with certainty.
pub fn options(line: &[u8], release: Release) -> Option<Vec<Asked>> {
    let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let mut words: Vec<Vec<u8>> = words.map(<[u8]>::to_vec).collect();
    let program = words.first()?.rsplit(|byte| *byte == b'/').next()?.to_vec();
    words.remove(0);
    match program.as_slice() {
        b"sbatch" => {}
        b"srun" | b"salloc" => words.retain(|word| !is_of_srun_only(word)),
        _ => return None,
    }
    if words.iter().any(|word| word == b":") {
        return None;
    }
    let (given, _) = options::split(&words, release, Source::Line).ok()?;
    Some(given.into_iter().map(|one| (one.name, one.value)).collect())
}

/// Whether it is a word that sbatch doesn't know and that has nothing to do with GPUs.
fn is_of_srun_only(word: &[u8]) -> bool {
    let flags = "--pty -u --unbuffered -l --label --overlap --exact -X --disable-status --no-shell --x11 --multi-prog";
    let starts = "--mpi= --cpu-bind= --immediate= --x11= --kill-on-bad-exit= --bell";
    flags.split(' ').any(|flag| word == flag.as_bytes())
        || starts.split(' ').any(|start| word.starts_with(start.as_bytes()))
}

/// Checks past requests by today's limits.
pub struct Judge {
    policy: Policy,
    release: Release,
    facts: Rc<Facts>,
}

impl Judge {
    /// A checker with these rules.
    pub fn new(policy: Policy, release: Release, facts: Rc<Facts>) -> Judge {
        Judge { policy, release, facts }
    }

    /// `Ok(None)` if nothing would be refused.
    ///
    /// # Errors
    /// The request can't be checked.
    pub fn told(&self, place: Place, asked: &[Asked]) -> Result<Option<Told>, OptionError> {
        let named = [("qos", place.qos), ("account", place.account), ("partition", place.partition)];
        let named = named.map(|(name, value)| (name, Some(value.as_bytes().to_vec())));
        let given = |(name, value)| Given { name, value, source: Source::Line };
        let all: Vec<Given> = asked.iter().cloned().chain(named).map(given).collect();
        let job = Submission::new(&all, self.release)?;
        let database = Database::of(place.user, Rc::clone(&self.facts));
        // The user's number matters only for exemptions, which also go by name.
        let request = job.request(self.release.spelling(), u32::MAX - 1);
        Ok(match policy::judge(&request, &self.policy, &&database) {
            Ok(acceptance) => acceptance.remarks.iter().find_map(|remark| match remark {
                Remark::Passed(refusal, Because::Warn | Because::Audit) => Some(told(refusal)),
                _ => None,
            }),
            Err(refusal) => Some(told(&refusal)),
        })
    }
}

fn told(refusal: &Refusal) -> Told {
    let (text, command) = (message::refusal(refusal), message::correction(refusal));
    Told { number: refusal.rule.number(), text, command }
}
