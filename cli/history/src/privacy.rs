//! Whether this user sees every job in accounting. If jobs are private, sacct shows other users' jobs only to
//! administrators, and doesn't say that it omits any.

use gpushare_slurm_text::Settings;
use gpushare_slurm_text::version::Release;

use gpushare_slurm_run::run::text;

use crate::HistoryError;

/// From this release on, `sacctmgr show config` prints slurm.conf's PrivateData as if it were slurmdbd's
/// (src/api/extra_get_functions.c).
const TELLS_ITS_OWN: Release = Release(26, 5);

/// The words that hide other users' jobs.
pub const OF_JOBS: &[&str] = &["jobs", "users", "accounts"];
/// The same, or sreport's sums.
pub const WITH_SUMS: &[&str] = &["jobs", "users", "accounts", "usage"];

/// Nothing if this user sees all; otherwise what to say if that is unknown.
///
/// # Errors
/// The user doesn't see all, because one of these words hides some, or sacctmgr or id can't be asked.
pub fn of_this_user(release: Release, words: &[&'static str]) -> Result<Option<String>, HistoryError> {
    let config = text("sacctmgr", &["show", "config"])?;
    let user = text("id", &["-un"])?.trim().to_owned();
    // `SlurmUser = slurm(64030)`; slurmdbd's own user may see everything too.
    let is_slurms = Settings::parse(&config.replace('(', ",(")).has("SlurmUser", &user);
    let of = format!("user={user}");
    let level =
        || text("sacctmgr", &["-nP", "show", "user", "where", &of, "format=adminlevel"]).unwrap_or_default();
    if user == "root" || is_slurms || ["Operator", "Administrator"].contains(&level().trim()) {
        return Ok(None);
    }
    if release >= TELLS_ITS_OWN {
        return Ok(Some(format!(
            "'{user}' is not an accounting administrator: if slurmdbd.conf has PrivateData, which this Slurm release \
             doesn't show, other users' jobs are missing. Run this as root to be sure"
        )));
    }
    private(&config, words).map_or(Ok(None), |private| Err(HistoryError::NotAll { user, private }))
}

/// Which of these words is in slurmdbd's setting. slurm.conf has a key of the same name, which is about slurmctld's own
/// answers.
fn private(config: &str, words: &[&'static str]) -> Option<&'static str> {
    let settings = Settings::parse(config.split_once("SlurmDBD configuration")?.1);
    words.iter().copied().find(|word| settings.has("PrivateData", word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_slurmdbds_private_data_is_private_to_sacct() {
        let config = |ours: &str, its: &str| {
            format!(
                "Configuration data as of x\nPrivateData = {ours}\n\nSlurmDBD configuration:\nPrivateData    = {its}\n"
            )
        };
        let of_jobs = |config: &str| private(config, OF_JOBS);
        assert_eq!(of_jobs(&config("jobs", "none")), None);
        assert_eq!(of_jobs(&config("none", "usage,jobs")), Some("jobs"));
        assert_eq!(of_jobs(&config("none", "accounts,events")), Some("accounts"));
        assert_eq!(of_jobs(&config("none", "usage")), None);
        assert_eq!(private(&config("none", "usage"), WITH_SUMS), Some("usage"));
    }
}
