//! A small accounting database: one governed QOS, with a limit on every type of GPU that the cluster has, and no
//! others.

use gpushare::submit::policy::{Accounting, DefaultQos, Owner, TypedLimit};
use gpushare::submit::request::Request;

/// Types of GPUs: some real ones, and names that a reader of counts may stumble over.
pub const TYPES: [&[u8]; 13] = [
    b"a40",
    b"h100",
    b"1g.5gb",
    b"3090",
    b"k",
    b"2k",
    b"0x2",
    b"1e2",
    b"20000000p",
    b"nv/a40",
    b"a40@(b)",
    b"x:y",
    b"gr\xc3\xb6\xc3\x9fe",
];

/// Slurm's database has a type in small letters, whatever nodes have, and counts it so.
pub fn is_type(gres_type: &[u8]) -> bool {
    TYPES.iter().any(|known| known.eq_ignore_ascii_case(gres_type))
}

/// The QOS.
pub const GOVERNED: &[u8] = b"governed";

/// The database; the QOS is the default of every user too.
pub struct Database;

impl Accounting for Database {
    type Qos = ();

    fn qos_named(&self, name: &[u8]) -> Option<()> {
        name.eq_ignore_ascii_case(GOVERNED).then_some(())
    }

    fn default_qos(&self, _request: &Request) -> DefaultQos<()> {
        DefaultQos::One(())
    }

    fn name(&self, (): ()) -> &[u8] {
        GOVERNED
    }

    fn typed_limits<'s>(&'s self, (): (), gres: &'s [u8]) -> impl Iterator<Item = TypedLimit<'s>> {
        self.types(gres).map(|gres_type| TypedLimit { gres_type, count: Some(8), of_job: Some(8) })
    }

    fn limit_on_all(&self, (): (), _gres: &[u8]) -> Option<Option<u64>> {
        None
    }

    fn types<'s>(&'s self, gres: &'s [u8]) -> impl Iterator<Item = &'s [u8]> {
        TYPES.into_iter().filter(move |_| gres == b"gpu")
    }

    fn counts(&self, gres: &[u8]) -> bool {
        gres == b"gpu"
    }

    fn owner(&self, _request: &Request) -> Option<Owner<'_>> {
        None
    }

    fn default_partition(&self) -> Option<&[u8]> {
        None
    }
}
