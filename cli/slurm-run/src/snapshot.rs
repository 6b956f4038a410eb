//! What slurmctld and slurmdbd say while one command runs: asked when it is needed, and each question once.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use gpushare_slurm_text::limits::{self, QOSES};
use gpushare_slurm_text::node::{self, ALL_NODES};
use gpushare_slurm_text::partition::{self, PARTITIONS};
use gpushare_slurm_text::settings::SETTINGS;
use gpushare_slurm_text::{Node, Partition, Qos, Question, Settings};

use super::ProgramError;
use super::run::ask;

/// The answers so far.
#[derive(Debug, Default)]
pub struct Snapshot {
    partitions: OnceCell<Vec<Partition>>,
    qoses: OnceCell<Vec<Qos>>,
    nodes: OnceCell<Vec<Node>>,
    settings: OnceCell<Settings>,
    others: RefCell<HashMap<Vec<String>, Rc<str>>>,
}

impl Snapshot {
    /// All partitions, also hidden ones.
    ///
    /// # Errors
    /// slurmctld doesn't answer.
    pub fn partitions(&self) -> Result<&[Partition], ProgramError> {
        once(&self.partitions, || Ok(partition::read(&text(PARTITIONS)?))).map(Vec::as_slice)
    }

    /// The database's QOSes.
    ///
    /// # Errors
    /// slurmdbd doesn't answer.
    pub fn qoses(&self) -> Result<&[Qos], ProgramError> {
        once(&self.qoses, || Ok(limits::qoses(&text(QOSES)?))).map(Vec::as_slice)
    }

    /// All nodes, also those that don't exist yet.
    ///
    /// # Errors
    /// slurmctld doesn't answer.
    pub fn nodes(&self) -> Result<&[Node], ProgramError> {
        once(&self.nodes, || Ok(node::read(&text(ALL_NODES)?))).map(Vec::as_slice)
    }

    /// The settings that slurmctld uses.
    ///
    /// # Errors
    /// slurmctld doesn't answer.
    pub fn settings(&self) -> Result<&Settings, ProgramError> {
        once(&self.settings, || Ok(Settings::parse(&text(SETTINGS)?)))
    }

    /// What any other question is answered, as by [`super::ask`].
    ///
    /// # Errors
    /// The same as there.
    pub fn ask(&self, program: &str, arguments: &[&str]) -> Result<Rc<str>, ProgramError> {
        self.kept(program, arguments, || super::ask(program, arguments))
    }

    fn kept(
        &self,
        program: &str,
        arguments: &[&str],
        question: impl FnOnce() -> Result<String, ProgramError>,
    ) -> Result<Rc<str>, ProgramError> {
        let words: Vec<String> = [&[program], arguments].concat().into_iter().map(str::to_owned).collect();
        if let Some(known) = self.others.borrow().get(&words) {
            return Ok(Rc::clone(known));
        }
        let said: Rc<str> = question()?.into();
        self.others.borrow_mut().insert(words, Rc::clone(&said));
        Ok(said)
    }
}

fn text((program, arguments): Question) -> Result<String, ProgramError> {
    ask(program, arguments).map(|output| String::from_utf8_lossy(&output).into_owned())
}

fn once<T>(cell: &OnceCell<T>, asking: impl FnOnce() -> Result<T, ProgramError>) -> Result<&T, ProgramError> {
    match cell.get() {
        Some(known) => Ok(known),
        None => asking().map(|said| cell.get_or_init(|| said)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_asked_once_and_again_if_nobody_answered() {
        let (cell, mut asked) = (OnceCell::new(), 0);
        assert!(once::<Vec<u8>>(&cell, || Err(ProgramError::Unasked("x"))).is_err());
        for _ in 0..3 {
            let found = once(&cell, || {
                asked += 1;
                Ok(vec![7])
            });
            assert_eq!(*found.unwrap(), [7]);
        }
        assert_eq!(asked, 1);
    }

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
}
