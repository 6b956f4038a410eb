//! job_submit_gpushare.so, loaded by slurmctld (`JobSubmitPlugins=gpushare`): refuses GPU requests that would slip under
//! a QOS's typed limits, and tells the user the command that works.
//!
//! Read → judge → apply: [`submit`] is the whole of it. The rules are in `gpushare::policy`.
#![forbid(unsafe_code)]

use std::path::Path;
use std::sync::{PoisonError, RwLock};

use gpushare::config::{self, Config};
use gpushare::message;
use gpushare::policy::{self, Acceptance, Policy, Refusal, Verdict};
use gpushare_slurm::accounting::Cache;
use gpushare_slurm::submission::{Answer, Submission};
use gpushare_slurm::{daemon, export_job_submit, log};

export_job_submit! {
    name = "gpushare job submit plugin",
    type = "job_submit/gpushare",
    init = load,
    submit = submit,
}

/// The name under which prolog and epilog get the share; Slurm adds `SPANK_`.
const SHARE: &str = "GPUSHARE_SHARE";

/// `None` until `init`, and then submissions are refused: better no job than one that nobody judged.
static POLICY: RwLock<Option<Policy>> = RwLock::new(None);

/// Reads gpushare.conf, beside slurm.conf or in /etc/slurm. Without one the defaults hold; with a broken one slurmctld must not start,
/// because nobody could tell which jobs slip through.
fn load() -> bool {
    let plugins = daemon::job_submit_plugins();
    let last = plugins.rsplit(|byte| *byte == b',').map(<[u8]>::trim_ascii).find(|name| !name.is_empty());
    if last.is_some_and(|name| name.strip_prefix(b"job_submit/").unwrap_or(name) != b"gpushare") {
        let plugins = plugins.escape_ascii();
        log::error(format!(
            "job_submit/gpushare: JobSubmitPlugins={plugins}: gpushare must be last, or a later plugin can change a \
             request that was judged"
        ));
    }
    let Some(slurm_conf) = daemon::slurm_conf() else {
        log::error("job_submit/gpushare: slurmctld has no path of slurm.conf");
        return false;
    };
    let path = config::find(&slurm_conf, Path::new(config::FALLBACK));
    match Config::load(&path) {
        Ok(found) => {
            let state = if found.is_some() { "read" } else { "not there, the defaults hold" };
            let policy = found.unwrap_or_default().policy;
            log::info(format!("job_submit/gpushare: {} {state}: {policy:?}", path.display()));
            // 22.05 loads the plugin anew in the same process when JobSubmitPlugins changes: the new policy holds.
            *POLICY.write().unwrap_or_else(PoisonError::into_inner) = Some(policy);
            true
        }
        Err(error) => {
            log::error(format!("job_submit/gpushare: {error}"));
            false
        }
    }
}

/// One submission. `submitter` may be root or another cluster; the job's own user counts.
fn submit(submission: &mut Submission, _submitter: u32) -> Answer {
    #[cfg(feature = "panic-for-test")]
    panic_if_asked(submission);
    let policy = POLICY.read().unwrap_or_else(PoisonError::into_inner);
    let Some(policy) = policy.as_ref() else { return Answer::Failure };
    let cache = Cache::default();
    let request = submission.request();
    let user_id = request.user_id;
    match policy::judge(&request, policy, &&cache) {
        Verdict::Accept(accepted) => accept(submission, accepted),
        Verdict::Refuse(refusal) => {
            // Slurm's locks are not held while a message is written.
            drop(cache);
            refuse(submission, user_id, &refusal)
        }
    }
}

fn accept(submission: &mut Submission, accepted: Acceptance) -> Answer {
    if let Some(qos) = accepted.pin_qos {
        submission.set_qos(qos);
    }
    let note = accepted.share_units.map(|units| format!("mps:{units}"));
    submission.set_job_control_variable(SHARE, note.as_deref());
    Answer::Accept
}

fn refuse(submission: &mut Submission, user_id: u32, refusal: &Refusal) -> Answer {
    let number = refusal.rule.number();
    let (qos, asked) = (refusal.qos.escape_ascii(), refusal.asked.escape_ascii());
    log::info(format!("job_submit/gpushare: refused {number} uid={user_id} qos='{qos}' asked='{asked}'"));
    submission.say(&message::refusal(refusal));
    if refusal.rule.is_about_qos() { Answer::InvalidQos } else { Answer::InvalidGres }
}

#[cfg(feature = "panic-for-test")]
#[allow(clippy::panic, reason = "this build is for the test that a panic is harmless")]
fn panic_if_asked(submission: &Submission) {
    assert!(submission.name() != Some(b"panic"), "asked to by the job's name");
}
