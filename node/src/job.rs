//! What slurmd tells a prolog or epilog about a job. Reads the environment once.
//!
//! Slurm gives a prolog no share count (prep_script_slurmd.c): gres/mps gives the share as a whole percentage of the
//! GPU that Slurm allocated, rounded down. So job_submit_gpushare.so passes the count in `SPANK_GPUSHARE_SHARE`. The
//! count is used only if it agrees with Slurm's percentage, which no user can set.

/// The variable that job_submit_gpushare.so sets and slurmd passes on.
pub const SHARE_VARIABLE: &str = "SPANK_GPUSHARE_SHARE";

/// slurmd's name for `--gpu-mps`, which spank_gpushare.so registers (plugstack.c, `_opt_env_name`).
const GPU_MPS: &str = "SPANK__SLURM_SPANK_OPTION_gpushare_gpu_mps";
/// Set by gres/mps.
const PERCENTAGE: &str = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";
/// Set by gres/gpu, gres/mps and gres/shard.
const GPUS: &str = "SLURM_JOB_GPUS";
/// Limits what a variable can make us do.
const MOST_GPUS: u32 = 256;

/// A job, and which of its starts: a requeued job keeps its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobKey {
    /// `SLURM_JOB_ID`
    pub id: u32,
    /// `SLURM_JOB_RESTART_COUNT`
    pub restart: u32,
}

/// A job as its prolog sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeJob {
    /// Which job, and which start.
    pub key: JobKey,
    /// The job's user.
    pub user_id: u32,
    /// `CUDA_MPS_ACTIVE_THREAD_PERCENTAGE`: an mps share in whole percent, 1 to 100, of the GPU that Slurm allocated.
    pub percent: Option<u32>,
    /// The share as noted at submission.
    pub noted: Option<Noted>,
    /// `SLURM_JOB_GPUS`: Slurm's indices of the GPUs that it allocated.
    pub gpus: Vec<u32>,
    /// `--gpu-mps`: an MPS daemon for its own whole GPUs.
    pub gpu_mps: bool,
}

/// A share as job_submit_gpushare.so noted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// The GRES, such as `mps`.
    pub gres: String,
    /// How many units.
    pub units: u32,
}

gpushare::errors! {
    /// Why the environment isn't that of a job.
    #[derive(Debug, PartialEq, Eq)]
    pub enum JobError {
        Missing(name: &'static str) =>
            "{name} is not set; slurmd runs this as Prolog= or Epilog= and sets it";
        NoNumber(name: &'static str, text: String) =>
            "{name} is '{}', which is not a valid number", text.escape_debug();
    }
}

impl NodeJob {
    /// Neither Slurm nor our note mentions any GPU.
    pub fn has_nothing(&self) -> bool {
        self.percent.is_none() && self.noted.is_none() && self.gpus.is_empty()
    }

    /// Reads the job from the variables that `variable` looks up.
    ///
    /// # Errors
    /// A variable is missing or not a number.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<NodeJob, JobError> {
        let (id, restart) = id_and_restart(&variable)?;
        let user_id = number(&variable, "SLURM_JOB_UID")?.ok_or(JobError::Missing("SLURM_JOB_UID"))?;
        let percent = match variable(PERCENTAGE) {
            None => None,
            Some(text) => {
                let percent = text.parse().ok().filter(|percent| (1..=100).contains(percent));
                Some(percent.ok_or(JobError::NoNumber(PERCENTAGE, text))?)
            }
        };
        let gpus = match variable(GPUS) {
            None => Vec::new(),
            Some(text) => indices(&text).ok_or(JobError::NoNumber(GPUS, text))?,
        };
        let noted = variable(SHARE_VARIABLE).and_then(|note| noted(&note));
        let key = JobKey { id, restart: restart.unwrap_or(0) };
        let mut job = NodeJob { key, user_id, percent, noted, gpus, gpu_mps: variable(GPU_MPS).is_some() };
        // sbatch gives the option to each component of a het job, also to one without GPUs.
        job.gpu_mps &= !job.has_nothing() || variable("SLURM_HET_JOB_ID").is_none();
        Ok(job)
    }
}

/// The job's number, and which of its starts this is. slurmd doesn't know the start in every epilog: one that it runs
/// without the job's credential has no `SLURM_JOB_RESTART_COUNT`.
///
/// # Errors
/// A variable is missing or not a number.
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

/// Parses `mps:40`.
fn noted(note: &str) -> Option<Noted> {
    let (gres, units) = note.split_once(':')?;
    let units = units.parse().ok().filter(|units| *units > 0)?;
    Some(Noted { gres: gres.to_owned(), units })
}

/// Parses `0,2` or `0-2`; empty if Slurm gave none.
fn indices(text: &str) -> Option<Vec<u32>> {
    let mut found = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last - first >= MOST_GPUS {
            return None;
        }
        found.extend(first..=last);
    }
    Some(found)
}

/// Lists the first ten, such as `7, 9`.
pub fn listed(keys: &[JobKey]) -> String {
    keys.iter().take(10).map(|key| key.id.to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<NodeJob, JobError> {
        NodeJob::read(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn everything_that_slurm_and_our_note_say_is_read() {
        let job = read(&[
            ("SLURM_JOB_ID", "7"),
            ("SLURM_JOB_UID", "2001"),
            ("SLURM_JOB_RESTART_COUNT", "2"),
            ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "12"),
            ("SLURM_JOB_GPUS", "0,2-3"),
            (SHARE_VARIABLE, "mps:40"),
            (GPU_MPS, "(null)"),
        ]);
        let noted = Some(Noted { gres: "mps".to_owned(), units: 40 });
        let key = JobKey { id: 7, restart: 2 };
        let gpus = vec![0, 2, 3];
        assert_eq!(job, Ok(NodeJob { key, user_id: 2001, percent: Some(12), noted, gpus, gpu_mps: true }));
    }

    #[test]
    fn a_part_of_a_het_job_without_gpus_asks_for_no_daemon() {
        let asks = |more: &[(&str, &str)]| {
            let all =
                [&[("SLURM_JOB_ID", "8"), ("SLURM_JOB_UID", "2001"), (GPU_MPS, "(null)")], more].concat();
            read(&all).unwrap().gpu_mps
        };
        let (het, gpus) = (("SLURM_HET_JOB_ID", "7"), ("SLURM_JOB_GPUS", "0"));
        assert!(asks(&[]) && asks(&[gpus]) && asks(&[het, gpus]) && !asks(&[het]));
    }

    #[test]
    fn a_note_that_is_none_counts_for_nothing() {
        for note in ["", "mps", "mps:", "mps:0", "mps:x", "mps:-1"] {
            let job = read(&[("SLURM_JOB_ID", "7"), ("SLURM_JOB_UID", "0"), (SHARE_VARIABLE, note)]).unwrap();
            assert_eq!(job.noted, None, "{note}");
        }
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
        for bad in ["x", "2-1", "0-9999", "1-"] {
            let job = read(&[("SLURM_JOB_ID", "7"), ("SLURM_JOB_UID", "0"), ("SLURM_JOB_GPUS", bad)]);
            assert_eq!(job, Err(JobError::NoNumber("SLURM_JOB_GPUS", bad.to_owned())));
        }
    }
}
