//! What slurmctld and slurmdbd say while one command runs: asked when it is needed, and each question once.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use gpushare_slurm_text::limits::{self, QOSES};
use gpushare_slurm_text::node::{self, ALL_NODES};
use gpushare_slurm_text::partition::{self, PARTITIONS};
use gpushare_slurm_text::settings::SETTINGS;
use gpushare_slurm_text::{Node, Partition, Qos, Settings};
use once_cell::unsync::OnceCell;

use super::ProgramError;
use super::run::question;

/// The answers so far.
#[derive(Debug, Default)]
pub struct Snapshot {
    partitions: OnceCell<Vec<Partition>>,
    qoses: OnceCell<Vec<Qos>>,
    nodes: OnceCell<Vec<Node>>,
    settings: OnceCell<Settings>,
    others: RefCell<HashMap<Vec<String>, Rc<str>>>,
    /// Whether `ask_slow` has failed.
    has_failed: Cell<bool>,
}

impl Snapshot {
    /// All partitions, also hidden ones.
    ///
    /// # Errors
    /// slurmctld doesn't answer.
    pub fn partitions(&self) -> Result<&[Partition], ProgramError> {
        self.partitions
            .get_or_try_init(|| Ok(partition::read(&question(PARTITIONS, &[])?)))
            .map(Vec::as_slice)
    }

    /// The database's QOSes.
    ///
    /// # Errors
    /// slurmdbd doesn't answer.
    pub fn qoses(&self) -> Result<&[Qos], ProgramError> {
        self.qoses.get_or_try_init(|| Ok(limits::qoses(&question(QOSES, &[])?))).map(Vec::as_slice)
    }

    /// All nodes, also those that don't exist yet.
    ///
    /// # Errors
    /// slurmctld doesn't answer.
    pub fn nodes(&self) -> Result<&[Node], ProgramError> {
        self.nodes.get_or_try_init(|| Ok(node::read(&question(ALL_NODES, &[])?))).map(Vec::as_slice)
    }

    /// The settings that slurmctld uses.
    ///
    /// # Errors
    /// slurmctld doesn't answer.
    pub fn settings(&self) -> Result<&Settings, ProgramError> {
        self.settings.get_or_try_init(|| Ok(Settings::parse(&question(SETTINGS, &[])?)))
    }

    /// What any other question is answered, as by [`super::ask`].
    ///
    /// # Errors
    /// The same as there.
    pub fn ask(&self, program: &str, arguments: &[&str]) -> Result<Rc<str>, ProgramError> {
        self.kept(program, arguments, || super::ask(program, arguments))
    }

    /// The same where an answer may take long: after one that failed, nothing is asked so again.
    ///
    /// # Errors
    /// The same as for [`Self::ask`].
    pub fn ask_slow(&self, program: &'static str, arguments: &[&str]) -> Result<Rc<str>, ProgramError> {
        if self.has_failed.get() {
            return Err(ProgramError::Unasked(program));
        }
        self.ask(program, arguments).inspect_err(|_| self.has_failed.set(true))
    }

    fn kept(
        &self,
        program: &str,
        arguments: &[&str],
        ask: impl FnOnce() -> Result<String, ProgramError>,
    ) -> Result<Rc<str>, ProgramError> {
        let words: Vec<String> = [&[program], arguments].concat().into_iter().map(str::to_owned).collect();
        if let Some(known) = self.others.borrow().get(&words) {
            return Ok(Rc::clone(known));
        }
        let said: Rc<str> = ask()?.into();
        self.others.borrow_mut().insert(words, Rc::clone(&said));
        Ok(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_words_are_asked_once() {
        let (snapshot, mut asked) = (Snapshot::default(), Vec::new());
        assert!(snapshot.kept("sacct", &["-q", "a"], || Err(ProgramError::Unasked("x"))).is_err());
        for qos in ["a", "b", "a", "a"] {
            let said = snapshot.kept("sacct", &["-q", qos], || {
                asked.push(qos);
                Ok(format!("of {qos}"))
            });
            assert_eq!(*said.unwrap(), *format!("of {qos}"));
        }
        assert_eq!(asked, ["a", "b"]);
    }

    #[test]
    fn nothing_slow_is_asked_after_a_failure() {
        let snapshot = Snapshot::default();
        assert!(snapshot.ask_slow("echo", &["1"]).is_ok());
        assert!(snapshot.ask_slow("false", &[]).is_err());
        assert!(snapshot.ask_slow("echo", &["2"]).is_err());
    }
}
