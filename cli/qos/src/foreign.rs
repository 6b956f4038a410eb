//! GPU types that jobs under a QOS must not get, although they can't request them: those that its record doesn't limit.
//!
//! A job that takes whole nodes (`--exclusive`, a partition with `OverSubscribe=EXCLUSIVE`, core specialization) gets
//! all GPUs of its nodes and names none. A plugin can't see which nodes it will get. But Slurm counts GPUs by type when
//! it is about to start the job, and a limit of 0 keeps the job waiting: seen with 22.05, 24.11 and 26.05 for each of
//! the three forms (`tests/live/test_whole_nodes.py`).

use super::TYPE;
use super::check::Cluster;
use crate::config::ManagedQos;
use crate::config::field::{FIELDS, Kind};
use crate::config::value::{self, Settings, Value};

/// The field with the zeros.
const ZEROS: &str = "GrpTRES";
/// Sets how many GPUs a job needs at least, so it limits none.
const MINIMUM: &str = "MinTRESPerJob";

/// The types that the line's jobs must not get, as TRES. Empty if gpushare.conf allows other types, or if the line
/// limits no type.
pub fn kept_away<'c>(managed: &ManagedQos, cluster: &'c Cluster) -> Vec<&'c str> {
    let limits = |name: &str| limited(&managed.settings).any(|known| known.eq_ignore_ascii_case(name));
    if !managed.keeps_to_its_types || !limited(&managed.settings).any(|name| name.starts_with(TYPE)) {
        return Vec::new();
    }
    let types = cluster.tracked.iter().map(String::as_str).filter(|name| name.starts_with(TYPE));
    types.filter(|name| !limits(name)).collect()
}

/// The settings that the QOS of a line must have: those in the line, and a limit of 0 on each type that its jobs must
/// not get.
pub(super) fn wanted(managed: &ManagedQos, cluster: &Cluster) -> Settings {
    let mut settings = cluster.spelled(&managed.settings);
    let zeros = kept_away(managed, cluster);
    if !zeros.is_empty()
        && let Value::Tres(limits) = settings.entry(ZEROS).or_insert_with(|| Value::Tres([].into()))
    {
        limits.extend(zeros.into_iter().map(|name| (name.to_owned(), 0)));
    }
    settings
}

/// Every TRES that the settings limit.
fn limited(settings: &Settings) -> impl Iterator<Item = &str> {
    let fields = FIELDS.iter().filter(|field| field.kind == Kind::Tres && field.name != MINIMUM);
    fields.flat_map(|field| value::limits(settings, field.name).keys()).map(String::as_str)
}
