//! The names in a request: of QOSes, partitions and reservations; and whether it names a GPU.

use super::{Field, Request};

/// A list of names, as Slurm separates them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names<'a>(&'a [u8]);

/// The QOS that a job requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qos<'a> {
    /// None, so the job gets its default.
    Default,
    /// This one; empty in an update that gives the job its default again.
    One(&'a [u8]),
    /// One of these, or options without a blank between them.
    List(Names<'a>),
}

/// Where a job can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partitions<'a> {
    /// In one of these.
    Named(Names<'a>),
    /// In its reservation's, which is unknown here.
    OfReservation,
    /// In the cluster's default.
    Default,
}

impl<'a> Names<'a> {
    /// The names in a text.
    pub const fn of(text: &'a [u8]) -> Names<'a> {
        Names(text)
    }

    /// All of the text, for a message.
    pub const fn text(self) -> &'a [u8] {
        self.0
    }

    /// The names, including empty ones.
    pub fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        self.0.split(|byte| *byte == b',')
    }

    /// The distinct names in their order: otherwise one name, repeated five hundred times, could keep slurmctld busy.
    pub fn each(self) -> Vec<&'a [u8]> {
        self.distinct(|byte| *byte)
    }

    /// The distinct names of QOSes, whose case doesn't count, in their order.
    pub fn of_qoses(self) -> Vec<&'a [u8]> {
        let mut names = self.distinct(u8::to_ascii_lowercase);
        names.retain(|name| !name.is_empty());
        names
    }

    fn distinct(self, key: fn(&u8) -> u8) -> Vec<&'a [u8]> {
        let (mut names, mut sorted): (Vec<&[u8]>, Vec<&[u8]>) = (Vec::new(), Vec::new());
        for name in self.iter() {
            let order = |known: &&[u8]| known.iter().map(key).cmp(name.iter().map(key));
            if let Err(at) = sorted.binary_search_by(order) {
                sorted.insert(at, name);
                names.push(name);
            }
        }
        names
    }
}

/// The list that slurmctld makes of a job's partitions: of those that take jobs, and of the ends of the others' chains
/// of `Alternate=`. `look` gives a partition's next one, perhaps an empty name, and `None` if it takes jobs. `None` if
/// no partition is left; then Slurm refuses the job. It charges the association of one of the list, and refuses a list
/// in which two differ (`_check_for_part_assocs`), so their order, by tiers, doesn't matter.
#[doc(alias = "_get_job_parts")]
pub fn taking_jobs(names: &[&[u8]], look: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let end = |name: &&[u8]| {
        // No chain is longer; one without an end goes round and round.
        let last = std::iter::successors(Some(name.to_vec()), |at| look(at)).take(100).last()?;
        Some(last).filter(|last| !last.is_empty() && look(last).is_none())
    };
    let ends: Vec<Vec<u8>> = names.iter().filter_map(end).collect();
    (!ends.is_empty()).then(|| ends.join(&b','))
}

impl<'a> Request<'a> {
    /// The QOS.
    pub fn wanted_qos(&self) -> Qos<'a> {
        match self.qos {
            None => Qos::Default,
            Some(text) if text.contains(&b',') => Qos::List(Names(text)),
            Some(name) => Qos::One(name),
        }
    }

    /// Whether nothing in it can lead to a GPU, and no name needs a check of its own. Then only rules on other jobs
    /// than those with GPUs can concern it.
    pub fn names_no_gpu(&self) -> bool {
        let gres = Field::ALL.iter().any(|field| self.string(*field).is_some());
        let list = || matches!(self.wanted_qos(), Qos::List(_));
        !gres && self.ntasks_per_tres() == 0 && !list() && self.overlong().is_none()
    }

    /// The partitions.
    pub fn partitions(&self) -> Partitions<'a> {
        let said = |text: Option<&'a [u8]>| text.filter(|text| !text.is_empty());
        match (said(self.partition), said(self.reservation)) {
            (Some(list), _) => Partitions::Named(Names(list)),
            (None, Some(_)) => Partitions::OfReservation,
            (None, None) => Partitions::Default,
        }
    }

    /// Whether Slurm will take the partition from the job's reservation; that partition is unknown here.
    pub fn partition_is_the_reservations(&self) -> bool {
        matches!(self.partitions(), Partitions::OfReservation)
    }

    /// The reservations; `None` if the job names none.
    pub fn reservations(&self) -> Option<Names<'a>> {
        self.reservation.filter(|list| !list.is_empty()).map(Names)
    }
}

#[cfg(test)]
mod tests {
    use super::{Field, Names, Partitions, Qos, Request, taking_jobs};
    use crate::submit::grammar::Spelling;
    use crate::submit::request::LONGEST;

    fn nothing<'a>() -> Request<'a> {
        Request::new(Spelling::Slash)
    }

    #[test]
    fn a_qos_is_none_one_or_a_list() {
        let wanted =
            |qos: Option<&'static str>| Request { qos: qos.map(str::as_bytes), ..nothing() }.wanted_qos();
        assert_eq!(wanted(None), Qos::Default);
        assert_eq!(wanted(Some("")), Qos::One(b""), "an update to the default");
        assert_eq!(wanted(Some("a")), Qos::One(b"a"));
        assert_eq!(wanted(Some("a,b")), Qos::List(Names(b"a,b")));
    }

    #[test]
    fn a_job_runs_in_its_partitions_or_its_reservations_or_the_clusters() {
        let text = |text: &'static str| Some(text.as_bytes());
        for (partition, reservation, expected) in [
            (None, None, Partitions::Default),
            (text(""), text(""), Partitions::Default),
            (text("p,q"), text("r"), Partitions::Named(Names(b"p,q"))),
            (text(""), text("r"), Partitions::OfReservation),
            (None, text("r"), Partitions::OfReservation),
        ] {
            let request = Request { partition, reservation, ..nothing() };
            assert_eq!(request.partitions(), expected, "{request:?}");
            let of_reservation = expected == Partitions::OfReservation;
            assert_eq!(request.partition_is_the_reservations(), of_reservation, "{request:?}");
            let named = reservation.filter(|list| !list.is_empty()).map(Names);
            assert_eq!(request.reservations(), named);
        }
    }

    #[test]
    fn whatever_may_lead_to_a_gpu_is_no_request_without_one() {
        let (text, long) = (Some(b"x".as_slice()), vec![b'x'; LONGEST + 1]);
        assert!(nothing().names_no_gpu());
        assert!(Request { qos: text, partition: text, ntasks_per_tres: Some(0), ..nothing() }.names_no_gpu());
        let mut requests = vec![
            Request { ntasks_per_tres: Some(1), ..nothing() },
            Request { qos: Some(b"a,b"), ..nothing() },
            Request { account: Some(&long), ..nothing() },
        ];
        for field in Field::ALL {
            let mut request = nothing();
            *request.string_mut(field) = Some(b"");
            requests.push(request);
        }
        for request in requests {
            assert!(!request.names_no_gpu(), "{request:?}");
        }
    }

    #[test]
    fn each_name_counts_once_in_its_place() {
        assert_eq!(Names::of(b"b,a,b,,a,").each(), [b"b".as_slice(), b"a", b""]);
        assert_eq!(Names::of(b"b,A,B,,a,").of_qoses(), [b"b".as_slice(), b"A"]);
    }

    #[test]
    fn what_takes_no_jobs_is_no_part_of_a_list() {
        for (list, expected) in [
            ("low,high", Some("low,high")),
            ("drained,low", Some("low")),
            ("low,old,high", Some("low,new,high")),
            ("older", Some("new")),
            ("drained", None),
            ("round", None),
        ] {
            let look = |name: &[u8]| match name {
                b"older" => Some(b"old".to_vec()),
                b"old" => Some(b"new".to_vec()),
                b"drained" => Some(Vec::new()),
                b"round" => Some(b"about".to_vec()),
                b"about" => Some(b"round".to_vec()),
                _ => None,
            };
            let names: Vec<&[u8]> = list.split(',').map(str::as_bytes).collect();
            let found = taking_jobs(&names, look).map(|list| String::from_utf8(list).unwrap());
            assert_eq!(found.as_deref(), expected, "{list}");
        }
    }
}
