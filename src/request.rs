//! What a job asks for, as far as the policy looks at it: plain borrowed bytes, "not set" as `None`.
//!
//! The safe layer fills it from Slurm's `job_desc_msg_t`; tests from text. C strings are bytes: nothing here assumes
//! UTF-8, a length, or that a command of Slurm's rather than a REST client wrote them.

use crate::grammar::{self, Gres, Spelling, Token};

/// A submission, read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// How the Slurm that received the strings reads them.
    pub spelling: Spelling,
    /// The user the job is for, also when root or another cluster submits it.
    pub user_id: u32,
    /// `--qos`; `None` where the default QOS will be taken.
    pub qos: Option<&'a [u8]>,
    /// `--account`; `None` where the user's default will be taken.
    pub account: Option<&'a [u8]>,
    /// `--partition`, perhaps a list; `None` where Slurm picks one.
    pub partition: Option<&'a [u8]>,
    /// `--gpus`.
    pub tres_per_job: Option<&'a [u8]>,
    /// `--gres` and `--gpus-per-node`, joined by a comma.
    pub tres_per_node: Option<&'a [u8]>,
    /// `--gpus-per-socket`.
    pub tres_per_socket: Option<&'a [u8]>,
    /// `--gpus-per-task` and `--tres-per-task`.
    pub tres_per_task: Option<&'a [u8]>,
    /// `--ntasks-per-gpu`: alone it makes slurmctld invent GPUs with no type.
    pub ntasks_per_tres: Option<u16>,
    /// `--ntasks`; `None` where not given.
    pub num_tasks: Option<u32>,
}

/// Longest string of a submission that Slurm accepts (`_test_job_desc_fields` in src/slurmctld/job_mgr.c); it looks
/// only after its plugins.
pub const LONGEST: usize = 1024;

/// Which of the four strings a token stood in; decides the option that a corrected command names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `tres_per_job`
    Job,
    /// `tres_per_node`
    Node,
    /// `tres_per_socket`
    Socket,
    /// `tres_per_task`
    Task,
}

impl Field {
    /// The option of sbatch, salloc and srun that asks for GPUs in this field, up to the type.
    #[must_use]
    pub const fn gpu_option(self) -> &'static str {
        match self {
            Field::Job => "--gpus=",
            Field::Node => "--gres=gpu:",
            Field::Socket => "--gpus-per-socket=",
            Field::Task => "--gpus-per-task=",
        }
    }
}

impl<'a> Request<'a> {
    /// A request for nothing.
    #[must_use]
    pub const fn new(spelling: Spelling) -> Self {
        Request {
            spelling,
            user_id: 0,
            qos: None,
            account: None,
            partition: None,
            tres_per_job: None,
            tres_per_node: None,
            tres_per_socket: None,
            tres_per_task: None,
            ntasks_per_tres: None,
            num_tasks: None,
        }
    }

    /// A string that is longer than Slurm will accept, if there is one.
    #[must_use]
    pub fn overlong(&self) -> Option<&'a [u8]> {
        let (tres, names) = (self.tres().map(|(_, text)| text), [self.qos, self.account, self.partition]);
        tres.chain(names).flatten().find(|text| text.len() > LONGEST)
    }

    fn tres(&self) -> impl Iterator<Item = (Field, Option<&'a [u8]>)> {
        [
            (Field::Node, self.tres_per_node),
            (Field::Job, self.tres_per_job),
            (Field::Task, self.tres_per_task),
            (Field::Socket, self.tres_per_socket),
        ]
        .into_iter()
    }

    /// Every token of the four strings that can ask for a GRES, and where it stood.
    pub fn tokens(&self) -> impl Iterator<Item = (Field, Token<'a>)> {
        let spelling = self.spelling;
        self.tres()
            .filter_map(|(field, text)| text.map(|text| (field, text)))
            .flat_map(move |(field, text)| grammar::tokens(text, spelling).map(move |token| (field, token)))
    }

    /// Whether anything in the request can lead to a GPU; a job that has nothing needs no look at its QOS.
    #[must_use]
    pub fn may_use_gpus(&self) -> bool {
        self.ntasks_per_tres() > 0 || self.tokens().any(|(_, token)| token != Token::Other)
    }

    /// Tasks for each GPU; 0 where not asked for.
    #[must_use]
    pub fn ntasks_per_tres(&self) -> u16 {
        self.ntasks_per_tres.unwrap_or(0)
    }

    /// The share of one GPU that the job wants on each node: its only GRES token of that name, counted per node.
    #[must_use]
    pub fn share(&self, name: &[u8]) -> Option<Gres<'a>> {
        let mut wanted = self.tokens().filter_map(|(field, token)| match token {
            Token::Gres(gres) if gres.name == name => Some((field, gres)),
            _ => None,
        });
        let (field, gres) = wanted.next()?;
        (wanted.next().is_none() && field == Field::Node && gres.count > 0).then_some(gres)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_for_processors_only_may_not_use_gpus() {
        let mut request = Request::new(Spelling::Slash);
        request.tres_per_task = Some(b"cpu=4,license/matlab:1");
        assert!(!request.may_use_gpus());
        request.tres_per_task = Some(b"cpu=4,gres/gpu:1");
        assert!(request.may_use_gpus());
    }

    #[test]
    fn a_share_is_one_token_counted_per_node() {
        let mut request = Request::new(Spelling::Slash);
        request.tres_per_node = Some(b"gres/mps:40,gres/nic:1");
        assert_eq!(request.share(b"mps").map(|gres| gres.count), Some(40));
        request.tres_per_node = Some(b"gres/mps:40,gres/mps:20");
        assert_eq!(request.share(b"mps"), None);
        request.tres_per_node = None;
        request.tres_per_task = Some(b"gres/mps:40");
        assert_eq!(request.share(b"mps"), None);
    }
}
