//! A request, read once: the members of the job description, and every part of its strings as a token. Rules read the
//! tokens and never a string.
//!
//! [`description`]: the members. [`names`]: lists of QOSes, partitions and reservations. [`option`]: options of sbatch
//! as the strings that they become. [`array`]: `--array`.

use std::ops::Deref;

use crate::submit::grammar::{self, Gres, Token};

pub(crate) mod array;
mod description;
mod names;
pub(crate) mod option;

pub use description::{Batch, Description, LONGEST, Memory, Request};
pub use names::{Names, Partitions, Qos, taking_jobs};

crate::names! {
    /// Which of the six strings a token was in; determines the option that a corrected command names. The field's name
    /// is the one that `scontrol update` uses (scontrol(1)).
    pub enum Field: update_key {
        /// `tres_per_node`
        Node = "TresPerNode",
        /// `tres_per_job`
        Job = "TresPerJob",
        /// `tres_per_task`
        Task = "TresPerTask",
        /// `tres_per_socket`
        Socket = "TresPerSocket",
        /// `cpus_per_tres`
        CpusPerGpu = "CpusPerTres",
        /// `mem_per_tres`
        MemPerGpu = "MemPerTres",
    }
}

impl Field {
    /// Whether its tokens request GRES. Those of the other two set something for each GPU.
    pub const fn requests(self) -> bool {
        !matches!(self, Field::CpusPerGpu | Field::MemPerGpu)
    }
}

/// A part of a string, between commas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// The string.
    pub field: Field,
    /// It as it was sent.
    pub text: &'a [u8],
    /// What it says.
    pub token: Token<'a>,
}

/// A request and its tokens, in the order of [`Field`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed<'a> {
    request: Request<'a>,
    parts: Vec<Part<'a>>,
}

impl<'a> Deref for Parsed<'a> {
    type Target = Request<'a>;

    fn deref(&self) -> &Request<'a> {
        &self.request
    }
}

impl<'a> From<Request<'a>> for Parsed<'a> {
    fn from(request: Request<'a>) -> Self {
        let mut parts = Vec::new();
        for field in Field::ALL {
            let Some(text) = request.string(field) else { continue };
            let tokens = grammar::tokens(text, request.spelling);
            parts.extend(tokens.map(|(text, token)| Part { field, text, token }));
        }
        Parsed { request, parts }
    }
}

impl<'a> Parsed<'a> {
    /// The job after this update: the update's values, and otherwise the job's.
    #[must_use]
    pub fn over(&self, existing: &Parsed<'a>) -> Parsed<'a> {
        Parsed::from(self.request.over(&existing.request))
    }

    /// This job, with another's GRES.
    #[must_use]
    pub fn with_gres_of(&self, other: &Parsed<'a>) -> Parsed<'a> {
        let mut request = Request { ntasks_per_tres: other.ntasks_per_tres, ..self.request };
        Field::ALL.iter().for_each(|field| *request.string_mut(*field) = other.string(*field).copied());
        Parsed { request, parts: other.parts.clone() }
    }

    /// This job, with another's QOS, account, partition and reservation.
    #[must_use]
    pub fn with_names_of(&self, other: &Request<'a>) -> Parsed<'a> {
        let Request { qos, account, partition, reservation, .. } = *other;
        Parsed {
            request: Request { qos, account, partition, reservation, ..self.request },
            parts: self.parts.clone(),
        }
    }

    /// The same request with other texts in some fields.
    #[must_use]
    pub fn with<'b>(&self, fields: &'b [(Field, Vec<u8>)]) -> Parsed<'b>
    where
        'a: 'b,
    {
        let mut request: Request<'b> = self.request;
        fields.iter().for_each(|(field, text)| *request.string_mut(*field) = Some(text));
        Parsed::from(request)
    }

    /// Every part from which Slurm makes an entry of the request.
    pub fn parts(&self) -> &[Part<'a>] {
        &self.parts
    }

    /// The parts of one string.
    pub fn parts_of(&self, field: Field) -> impl Iterator<Item = &Part<'a>> {
        self.parts.iter().filter(move |part| part.field == field)
    }

    /// Every token of the four strings that can request a GRES, and where it was.
    pub fn tokens(&self) -> impl Iterator<Item = (Field, Token<'a>)> {
        self.parts.iter().filter(|part| part.field.requests()).map(|part| (part.field, part.token))
    }

    /// Every token of the two strings that set something for each GPU.
    pub fn per_gpu_tokens(&self) -> impl Iterator<Item = Token<'a>> {
        self.parts.iter().filter(|part| !part.field.requests()).map(|part| part.token)
    }

    /// The plain requests, in the order of the fields.
    pub fn gres(&self) -> impl Iterator<Item = (Field, Gres<'a>)> {
        self.tokens().filter_map(|(field, token)| match token {
            Token::Gres(gres) if gres.count > 0 => Some((field, gres)),
            _ => None,
        })
    }

    /// The plain requests of one field.
    pub fn gres_of(&self, field: Field) -> impl Iterator<Item = Gres<'a>> {
        self.gres().filter(move |(place, _)| *place == field).map(|(_, gres)| gres)
    }

    /// The first plain request for which `wanted` returns `true`.
    pub fn names(&self, wanted: impl Fn(&Gres) -> bool) -> Option<(Field, Gres<'a>)> {
        self.gres().find(|(_, gres)| wanted(gres))
    }

    /// The same entry in a field.
    pub fn same_entry(&self, field: Field, of: &Gres) -> Option<Gres<'a>> {
        self.gres_of(field).find(|gres| gres.is_same_entry(of))
    }

    /// Whether sbatch computes the number of tasks from GRES: one that is requested per task and in another way, or
    /// `--ntasks-per-gpu`.
    pub fn leaves_tasks_to_sbatch(&self) -> bool {
        let mut per_task = self.gres_of(Field::Task).peekable();
        let others = [Field::Node, Field::Job, Field::Socket];
        per_task.peek().is_some()
            && (self.ntasks_per_tres() > 0
                || self.num_tasks.is_none()
                    && per_task
                        .any(|gres| others.iter().any(|field| self.same_entry(*field, &gres).is_some())))
    }

    /// Whether anything in the request can lead to a GPU; for a job without that, the QOS needn't be looked up.
    pub fn may_use_gpus(&self) -> bool {
        let may = |part: &Part| matches!(part.token, Token::Gres(_) | Token::Unrecognised(_));
        self.ntasks_per_tres() > 0 || self.parts.iter().any(may)
    }

    /// Whether Slurm counts each GPU as it picks it: all are requested per node, or all per task, and nothing is set
    /// for each GPU.
    pub fn is_counted_plainly(&self) -> bool {
        let two = self.tres_per_task.is_some()
            && (self.tres_per_node.is_some() || self.ntasks_per_node.is_some_and(|each| each > 0));
        let others = [Field::Job, Field::Socket, Field::CpusPerGpu, Field::MemPerGpu];
        !two && others.iter().all(|field| self.string(*field).is_none())
    }

    /// The share of one GPU that the job requests on each node: its only GRES token of that name, counted per node.
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

    fn slash(members: Request) -> Parsed {
        Parsed::from(members)
    }

    #[test]
    fn a_job_for_processors_only_may_not_use_gpus() {
        let task =
            |text: &'static str| Request { tres_per_task: Some(text.as_bytes()), ..Request::default() };
        assert!(!slash(task("cpu=4,license/matlab:1")).may_use_gpus());
        assert!(slash(task("cpu=4,gres/gpu:1")).may_use_gpus());
    }

    #[test]
    fn a_share_is_one_token_counted_per_node() {
        let node =
            |text: &'static str| Request { tres_per_node: Some(text.as_bytes()), ..Request::default() };
        assert_eq!(slash(node("gres/mps:40,gres/nic:1")).share(b"mps").map(|gres| gres.count), Some(40));
        assert_eq!(slash(node("gres/mps:40,gres/mps:20")).share(b"mps"), None);
        let task = Request { tres_per_task: Some(b"gres/mps:40".as_slice()), ..Request::default() };
        assert_eq!(slash(task).share(b"mps"), None);
    }

    #[test]
    fn tasks_per_gpu_and_what_is_not_recognised_may_use_gpus() {
        assert!(!Parsed::from(Request::default()).may_use_gpus());
        assert!(slash(Request { ntasks_per_tres: Some(1), ..Request::default() }).may_use_gpus());
        assert!(!slash(Request { ntasks_per_tres: Some(0), ..Request::default() }).may_use_gpus());
        let unread = Request { tres_per_job: Some(b"gresgpu".as_slice()), ..Request::default() };
        assert!(slash(unread).may_use_gpus());
    }

    #[test]
    fn sbatch_computes_tasks_from_gpus_per_task_beside_a_total() {
        let task = Request { tres_per_task: Some(b"gres/gpu:a40:1".as_slice()), ..Request::default() };
        let total = Request { tres_per_job: Some(b"gres/gpu:a40:4"), ..task };
        for (request, expected) in [
            (task, false),
            (total, true),
            (Request { num_tasks: Some(4), ..total }, false),
            (Request { tres_per_job: Some(b"gres/gpu:h100:4"), ..task }, false),
            (Request { tres_per_node: Some(b"gres/gpu:a40:4"), ..task }, true),
            (Request { tres_per_socket: Some(b"gres/gpu:a40:4"), ..task }, true),
            (Request { ntasks_per_tres: Some(1), num_tasks: Some(4), ..task }, true),
            (Request { tres_per_task: None, ..total }, false),
            (Request { ntasks_per_tres: Some(1), ..Request::default() }, false),
        ] {
            assert_eq!(slash(request).leaves_tasks_to_sbatch(), expected, "{request:?}");
        }
    }

    #[test]
    fn gpus_are_counted_plainly_if_all_are_per_node_or_all_per_task() {
        let text = Some(b"gres/gpu:1".as_slice());
        let (node, task) = (
            Request { tres_per_node: text, ..Request::default() },
            Request { tres_per_task: text, ..Request::default() },
        );
        for (request, expected) in [
            (Request::default(), true),
            (node, true),
            (task, true),
            (Request { ntasks_per_node: Some(2), ..node }, true),
            (Request { ntasks_per_node: Some(0), ..task }, true),
            (Request { ntasks_per_node: Some(1), ..task }, false),
            (Request { tres_per_task: text, ..node }, false),
            (Request { tres_per_job: text, ..node }, false),
            (Request { tres_per_socket: text, ..Request::default() }, false),
            (Request { cpus_per_tres: text, ..node }, false),
            (Request { mem_per_tres: text, ..task }, false),
        ] {
            assert_eq!(slash(request).is_counted_plainly(), expected, "{request:?}");
        }
    }

    #[test]
    fn tokens_that_request_are_apart_from_those_for_each_gpu() {
        let request = slash(Request {
            tres_per_node: Some(b"gres/gpu:a40:2,gres/gpu:0".as_slice()),
            cpus_per_tres: Some(b"gres/gpu:4"),
            mem_per_tres: Some(b"gres/gpu:8"),
            ..Request::default()
        });
        assert_eq!((request.tokens().count(), request.per_gpu_tokens().count()), (2, 2));
        let a40 = Gres { name: b"gpu", gres_type: Some(b"a40"), count: 2 };
        assert_eq!(request.gres().collect::<Vec<_>>(), [(Field::Node, a40)], "0 requests nothing");
        assert_eq!(request.names(|gres| gres.gres_type.is_some()), Some((Field::Node, a40)));
        let (one, h100) = (Gres { count: 1, ..a40 }, Gres { gres_type: Some(b"h100"), ..a40 });
        assert_eq!(request.same_entry(Field::Node, &one), Some(a40));
        assert_eq!(request.same_entry(Field::Node, &h100), None);
        assert_eq!(request.same_entry(Field::Job, &one), None);
        assert_eq!(
            slash(Request { tres_per_node: Some(b"gres/mps:0".as_slice()), ..Request::default() })
                .share(b"mps"),
            None
        );
    }

    #[test]
    fn an_update_is_read_as_if_it_had_been_sent_whole() {
        let said =
            Request { tres_per_task: Some(b"gres/gpu:1"), tres_per_node: Some(b""), ..Request::default() };
        let existing = Request {
            tres_per_node: Some(b"gres/gpu:2,gres/nic:1".as_slice()),
            tres_per_task: Some(b"cpu=2"),
            mem_per_tres: Some(b"gres/gpu:8"),
            ..Request::default()
        };
        let whole = Parsed::from(said.over(&existing));
        assert_eq!(Parsed::from(said).over(&Parsed::from(existing)), whole);
        assert_eq!(whole.parts().len(), 2);
    }
}
