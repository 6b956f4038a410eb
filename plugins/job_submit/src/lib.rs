//! job_submit_gpushare.so, which slurmctld loads (`JobSubmitPlugins=gpushare`): refuses GPU requests that would bypass
//! a QOS's typed limits, and tells the user the command that works.
//!
//! Read → decide → apply: [`submit`] and [`modify`] are the whole pipeline. The rules are in
//! `gpushare::submit::policy`; [`live`] watches their file. [`count`] counts what was refused, let pass or changed, and
//! [`who`] names the user in the log.
#![forbid(unsafe_code)]

use std::sync::Arc;

use gpushare::mend::mended;
use gpushare::submit::counters::{self, Outcome};
use gpushare::submit::log_line::PREFIX;
use gpushare::submit::message;
use gpushare::submit::policy::{self, Acceptance, Change, Policy, Refusal, Remark, Trait, Update};
use gpushare::submit::request::Field;
use gpushare_slurm::accounting::Cache;
use gpushare_slurm::submission::{Existing, Known, Record, ReturnCode, Submission};
use gpushare_slurm::{daemon, export_job_submit};
use parking_lot::Mutex;

mod count;
mod live;
mod who;

use who::Who;

export_job_submit! {
    name = "gpushare job submit plugin",
    type = "job_submit/gpushare",
    init = load,
    submit = submit,
    modify = modify,
}

/// The name under which prolog and epilog get the share; Slurm adds the prefix `SPANK_`.
const SHARE: &str = "GPUSHARE_SHARE";

static LIVE: live::Live = live::Live::new();
static COUNTED: count::Counted = count::Counted::new();

/// The last record that an update was to change.
static LAST: Mutex<Option<Known>> = Mutex::new(None);

/// 22.05 and 23.02 load the plugin again in the same process when JobSubmitPlugins changes; then the file is read
/// again.
fn load() -> bool {
    let plugins = daemon::job_submit_plugins().unwrap_or_default();
    let last = plugins.rsplit(|byte| *byte == b',').map(<[u8]>::trim_ascii).find(|name| !name.is_empty());
    if last.is_some_and(|name| name.strip_prefix(b"job_submit/").unwrap_or(name) != b"gpushare") {
        let plugins = plugins.escape_ascii();
        log::error!(
            "job_submit/gpushare: JobSubmitPlugins={plugins}: gpushare must be last, or a later plugin can change a \
             request that gpushare has checked"
        );
    }
    let Some(slurm_conf) = daemon::slurm_conf() else {
        log::error!("job_submit/gpushare: slurmctld doesn't know the path of slurm.conf");
        return false;
    };
    match LIVE.start(&slurm_conf, daemon::state_folder()) {
        Ok(counts) => {
            COUNTED.start(counts.as_deref());
            true
        }
        Err(error) => {
            log::error!("job_submit/gpushare: {error}");
            false
        }
    }
}

/// The rules in force.
fn rules() -> Option<Arc<Policy>> {
    LIVE.policy(daemon::control_time(), |counts| COUNTED.start(counts))
}

/// Checks a submission. `submitter` may be root or another cluster; the job's own user counts.
fn submit(submission: &mut Submission, _submitter: u32) -> ReturnCode {
    #[cfg(feature = "panic-for-test")]
    panic_if_asked(submission);
    let Some(policy) = rules() else { return ReturnCode::Failure };
    if submission.names_no_gpu() && policy.judges_only_gpus() {
        submission.set_job_control_variable(SHARE, None);
        return ReturnCode::Accept;
    }
    judge(submission, &policy)
}

#[inline(never)] // its large frame is none for a job without GPUs
fn judge(submission: &mut Submission, policy: &Policy) -> ReturnCode {
    submission.follow_alternates();
    let request = submission.request();
    let cache = Cache::new();
    match policy::judge(&request, policy, &&cache) {
        Ok(accepted) => {
            write(submission, &accepted);
            // Slurm's locks are released before anything else is written.
            // Its name is literal, so that there is room for all of it at once.
            let note = accepted.share.map(|(gres, units)| format!("GPUSHARE_SHARE={gres}:{units}"));
            let Acceptance { remarks, once, .. } = accepted;
            drop(cache);
            // Removes a variable that the user set themselves, in any case.
            submission.set_job_control_variable(SHARE, note.as_deref());
            if !remarks.is_empty() {
                follow(submission, &remarks);
            }
            if once {
                submission.set_requeue(false);
            }
            ReturnCode::Accept
        }
        Err(refusal) => {
            drop(cache);
            log_refusal(&Who::submits(submission), &refusal);
            refuse(submission, &refusal)
        }
    }
}

/// Writes what was checked in the place of the user's default, and where the job may run.
fn write(job: &mut Submission, accepted: &Acceptance) {
    if let Some(qos) = accepted.pin_qos {
        job.set_qos(qos);
    }
    if let Some(account) = accepted.pin_account {
        job.set_account(account);
    }
    if let Some(nodes) = accepted.most_nodes {
        job.set_most_nodes(nodes);
    }
    if let Some(nodes) = &accepted.excluded_nodes {
        job.set_excluded_nodes(nodes);
    }
}

#[cold]
fn follow(submission: &mut Submission, remarks: &[Remark]) {
    let who = Who::submits(submission);
    for remark in remarks {
        log(&who, remark);
        apply(submission, remark);
    }
}

/// Checks an update of a job. Holding and releasing also come here, and concern no rule by themselves. But a job that
/// passed because of a reservation was held when that ended, so it is checked again when it is released.
///
/// slurmctld asks about each record of an array, under its locks, and reads a job's environment from its disk for a
/// copy. So a job is checked as slurmctld shows it, which may be one of several things. Only if the verdict differs
/// between these it is copied.
fn modify(update: &mut Submission, record: &Record, submitter: u32) -> ReturnCode {
    let Some(policy) = rules() else { return ReturnCode::Failure };
    let goes_on = update.request().releases || update.request().starts_again;
    let may_have_passed = goes_on && policy.depends_on_reservations() && mended("reservation-ends");
    let concerns_caps = policy.has_caps && update.request().touches_amounts();
    if !may_have_passed && !concerns_caps && !update.request().touches_rules() {
        return ReturnCode::Accept;
    }
    update.follow_alternates();
    let mut last = LAST.lock();
    if !last.as_mut().is_some_and(|known| known.is_like(update, record)) {
        *last = Known::of(update, record);
    }
    if let Some(known) = &mut *last {
        if known.is_settled(update) {
            return ReturnCode::Accept;
        }
        if let Some(code) = judge_update(update, known.existing(), &policy, submitter) {
            if code == ReturnCode::Accept && update.is_silent() {
                known.settle(update);
            }
            return code;
        }
    }
    if update.has_read_enough() {
        let array = update.names_array();
        let refusal = changes(update, array, &[]).too_much();
        if update.is_first(&counters::name(refusal.rule.number(), Outcome::Refused)) {
            log::info!("{PREFIX}refused {} uid={submitter}", refusal.rule.number());
            COUNTED.add(refusal.rule.number(), Outcome::Refused);
        }
        return refuse(update, &refusal);
    }
    let Some(existing) = record.copy() else { return ReturnCode::Failure };
    update.has_read(existing.size_read());
    judge_update(update, &existing, &policy, submitter).unwrap_or(ReturnCode::Failure)
}

fn changes<'a>(update: &'a Submission, array: bool, others: &'a [&'static str]) -> Update<'a> {
    Update {
        job: update.job_id().unwrap_or_default(),
        array,
        request: update.request().into(),
        anew: daemon::UPDATES_ARE_MADE_ANEW,
        others,
    }
}

/// Checks and changes the update, and says why it is refused. `None` if the verdict on another job that is shown alike
/// would differ.
fn judge_update(
    update: &mut Submission,
    existing: &Existing,
    policy: &Policy,
    submitter: u32,
) -> Option<ReturnCode> {
    update.stays_in(existing.request().partition);
    let (others, array) = (update.other_changes(), update.names_array());
    let changes = changes(update, array, &others);
    let cache = Cache::new();
    let accounting = &&cache;
    let verdict = policy::judge_update(&changes, &existing.request(), policy, accounting);
    if existing.others().iter().any(|job| policy::judge_update(&changes, job, policy, accounting) != verdict)
    {
        return None;
    }
    match verdict {
        Ok(accepted) => {
            write(update, &accepted);
            let Acceptance { remarks, once, .. } = accepted;
            drop(cache);
            for remark in &remarks {
                let (number, outcome) = counters::of(remark);
                if update.is_first(&counters::name(number, outcome)) {
                    log(&Who::updates(update, existing, submitter), remark);
                }
                apply(update, remark);
            }
            if once {
                update.set_requeue(false);
            }
            Some(ReturnCode::Accept)
        }
        Err(refusal) => {
            drop(cache);
            if update.is_first(&counters::name(refusal.rule.number(), Outcome::Refused)) {
                log_refusal(&Who::updates(update, existing, submitter), &refusal);
            }
            Some(refuse(update, &refusal))
        }
    }
}

#[cold]
fn refuse(job: &mut Submission, refusal: &Refusal) -> ReturnCode {
    job.say(&message::refusal(refusal));
    if refusal.rule.is(Trait::Qos) { ReturnCode::InvalidQos } else { ReturnCode::InvalidGres }
}

#[cold]
fn log_refusal(who: &Who, refusal: &Refusal) {
    log::info!("{}", who.line(None, refusal));
    COUNTED.add(refusal.rule.number(), Outcome::Refused);
}

fn apply(job: &mut Submission, remark: &Remark) {
    match remark {
        Remark::Passed(..) => {}
        Remark::Changed(Change::Type { fields, .. }) => {
            fields.iter().for_each(|(field, text)| job.set_tres(*field, text));
        }
        Remark::Changed(Change::Requeue { .. }) => job.set_requeue(true),
        Remark::Changed(Change::Append { .. }) => job.set_append(),
        Remark::Changed(Change::Throttle { array, .. }) => job.set_array(array),
        Remark::Changed(Change::UserEnv) => job.drop_user_env(),
        Remark::Changed(Change::Share { text, .. }) => job.set_tres(Field::Node, text),
    }
    if let Some(text) = message::remark(remark) {
        job.say(&text);
    }
}

/// Logs and counts what was let pass or changed.
fn log(who: &Who, remark: &Remark) {
    let (number, outcome) = counters::of(remark);
    match remark {
        Remark::Passed(refusal, because) => log::info!("{}", who.line(Some(*because), refusal)),
        Remark::Changed(_) => log::info!("{PREFIX}changed {number} uid={}", who.user_id()),
    }
    COUNTED.add(number, outcome);
}

#[cfg(feature = "panic-for-test")]
#[allow(clippy::panic, reason = "this build is for the test that a panic is harmless")]
fn panic_if_asked(submission: &Submission) {
    assert!(submission.name() != Some(b"panic"), "asked to by the job's name");
}
