//! What slurmd tells a prolog or epilog about a job, read from its environment once.
//!
//! Slurm gives a prolog no share count (prep_script_slurmd.c): gres/mps says the share as a whole percentage of the GPU
//! it charged, rounded down. So job_submit_gpushare.so passes the count on in `SPANK_GPUSHARE_SHARE`, and it is believed
//! only where it agrees with Slurm's percentage, which no user can set.

use std::fmt;

/// The variable that job_submit_gpushare.so sets, as slurmd hands it on.
pub const SHARE_VARIABLE: &str = "SPANK_GPUSHARE_SHARE";

/// A job, and which start of it: a requeued job keeps its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobKey {
    /// `SLURM_JOB_ID`
    pub id: u32,
    /// `SLURM_JOB_RESTART_COUNT`
    pub restart: u32,
}

impl fmt::Display for JobKey {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}.{}", self.id, self.restart)
    }
}

/// A job as its prolog sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeJob {
    /// Which job.
    pub key: JobKey,
    /// Whose.
    pub user_id: u32,
    /// Its share of a GPU, if Slurm gave it one.
    pub share: Option<Share>,
}

/// A share as Slurm and our own plugin describe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Whole percent, 1 to 100, of the units that Slurm hands out on this node at once.
    pub percent: u32,
    /// Units, as noted at submission; not yet compared with the percentage.
    pub noted: Option<u32>,
}

/// Why the environment is not a job's.
#[derive(Debug, PartialEq, Eq)]
pub enum JobError {
    /// A variable that slurmd always sets is not there.
    Missing(&'static str),
    /// It is there, and no number.
    NoNumber(&'static str, String),
}

impl NodeJob {
    /// Reads the job from the variables that `variable` looks up.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<NodeJob, JobError> {
        let (id, restart) = id_and_restart(&variable)?;
        let user_id = number(&variable, "SLURM_JOB_UID")?.ok_or(JobError::Missing("SLURM_JOB_UID"))?;
        let share = match variable("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE") {
            None => None,
            Some(text) => {
                let percent = text.parse().ok().filter(|percent| (1..=100).contains(percent));
                let percent = percent.ok_or(JobError::NoNumber("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", text))?;
                Some(Share { percent, noted: variable(SHARE_VARIABLE).and_then(|note| units(&note)) })
            }
        };
        Ok(NodeJob { key: JobKey { id, restart: restart.unwrap_or(0) }, user_id, share })
    }
}

/// The job's number and which start of it this is. slurmd doesn't know the second in every epilog: one that it runs
/// without the job's credential has no `SLURM_JOB_RESTART_COUNT`.
pub fn id_and_restart(variable: impl Fn(&str) -> Option<String>) -> Result<(u32, Option<u32>), JobError> {
    let id = number(&variable, "SLURM_JOB_ID")?.ok_or(JobError::Missing("SLURM_JOB_ID"))?;
    Ok((id, number(&variable, "SLURM_JOB_RESTART_COUNT")?))
}

fn number(variable: impl Fn(&str) -> Option<String>, name: &'static str) -> Result<Option<u32>, JobError> {
    match variable(name) {
        None => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| JobError::NoNumber(name, text)),
    }
}

/// `mps:40` → 40.
fn units(note: &str) -> Option<u32> {
    note.strip_prefix("mps:")?.parse().ok().filter(|units| *units > 0)
}

impl Share {
    /// Units of the share, where Slurm hands out `total` units on the node at once: the count noted at submission if
    /// Slurm's percentage confirms it, else the count that the percentage stands for, to the nearest unit.
    #[must_use]
    pub fn units(self, total: u64) -> u32 {
        let estimate = (u64::from(self.percent) * total + 50) / 100;
        let confirmed = self.noted.filter(|units| self.confirms(*units, total));
        confirmed.unwrap_or_else(|| u32::try_from(estimate.max(1)).unwrap_or(u32::MAX))
    }

    /// A note that Slurm's percentage contradicts: `total`, and so `UnitsPerGpu`, is not what Slurm counts with.
    #[must_use]
    pub fn contradicted_note(self, total: u64) -> Option<u32> {
        self.noted.filter(|units| !self.confirms(*units, total))
    }

    fn confirms(self, units: u32, total: u64) -> bool {
        (u64::from(units) * 100).checked_div(total).unwrap_or(0).max(1) == u64::from(self.percent)
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            JobError::Missing(name) => {
                write!(out, "{name} is not set; slurmd runs this as Prolog= or Epilog= and sets it")
            }
            JobError::NoNumber(name, text) => {
                write!(out, "{name} is '{}', not a number it can be", text.escape_debug())
            }
        }
    }
}

impl std::error::Error for JobError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<NodeJob, JobError> {
        NodeJob::read(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_share_is_slurms_percentage_and_our_note() {
        let job = read(&[
            ("SLURM_JOB_ID", "7"),
            ("SLURM_JOB_UID", "2001"),
            ("SLURM_JOB_RESTART_COUNT", "2"),
            ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "12"),
            (SHARE_VARIABLE, "mps:40"),
        ]);
        let share = Some(Share { percent: 12, noted: Some(40) });
        assert_eq!(job, Ok(NodeJob { key: JobKey { id: 7, restart: 2 }, user_id: 2001, share }));
    }

    #[test]
    fn a_note_alone_is_no_share() {
        let job = read(&[("SLURM_JOB_ID", "7"), ("SLURM_JOB_UID", "0"), (SHARE_VARIABLE, "mps:40")]).unwrap();
        assert_eq!(job.share, None);
    }

    #[test]
    fn an_incomplete_environment_is_an_error() {
        assert_eq!(read(&[]), Err(JobError::Missing("SLURM_JOB_ID")));
        assert_eq!(read(&[("SLURM_JOB_ID", "7")]), Err(JobError::Missing("SLURM_JOB_UID")));
        for bad in ["", "-1", "7 ", "99999999999"] {
            assert_eq!(
                read(&[("SLURM_JOB_ID", bad)]),
                Err(JobError::NoNumber("SLURM_JOB_ID", bad.to_owned()))
            );
        }
        let percent = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";
        for bad in ["0", "101", "x"] {
            let job = read(&[("SLURM_JOB_ID", "7"), ("SLURM_JOB_UID", "0"), (percent, bad)]);
            assert_eq!(job, Err(JobError::NoNumber(percent, bad.to_owned())));
        }
    }

    #[test]
    fn the_note_is_believed_where_the_percentage_confirms_it() {
        for (percent, noted, expected) in [
            (12, Some(40), 40),
            (12, Some(39), 39),
            (12, Some(320), 38),
            (12, None, 38),
            (25, Some(80), 80),
            (1, Some(1), 1),
            (100, None, 320),
        ] {
            let share = Share { percent, noted };
            assert_eq!(share.units(320), expected, "{percent} {noted:?}");
            assert_eq!(
                share.contradicted_note(320),
                noted.filter(|noted| *noted != expected),
                "{percent} {noted:?}"
            );
        }
        assert_eq!(Share { percent: 50, noted: None }.units(0), 1);
    }
}
