//! `gpushare guard --waiting`: jobs that were accepted before today's rules and haven't started. gpushare checks a job
//! when it is submitted or changed, so these would still start.
//!
//! It reads what Slurm says of each request, and checks it as `gpushare explain` checks a command.

use std::fmt::Write;
use std::path::Path;

use gpushare::text::shown::shell_word;
use gpushare_slurm_text::{Job, Snapshot, State, Trust};
use serde::Serialize;

use super::GuardError;
use gpushare_judge::past::{Asked, Judge, Place, Tables, Told};
use gpushare_slurm_run::run;
use gpushare_slurm_text::version::Release;
use gpushare_terminal::{Answer, clean, complain, json};

/// A job that would be refused.
#[derive(Debug, Serialize)]
struct Refused {
    job: String,
    user: String,
    state: String,
    qos: String,
    /// The message's number.
    message: &'static str,
    /// Why, in a line.
    why: String,
    /// The command that helps.
    command: String,
}

/// # Errors
/// gpushare.conf or Slurm can't be read.
pub(super) fn run(conf: Option<&Path>, as_json: bool) -> Result<Answer, GuardError> {
    let config = super::config(conf)?;
    let release = Release::parse(&run::ask("scontrol", &["--version"])?)?;
    let now = super::look(false)?;
    let partitions = run::ask("scontrol", &["-a", "-o", "show", "partition"])?;
    let tables = Tables { partitions, ..Tables::ask(None, now.settings.cluster())? };
    let judge = Judge::new(config.policy, release, tables.read().into());
    let (found, unread) = refused(&now, &judge, release);
    if !unread.is_empty() {
        complain(format!("not checked, because the request can't be read: job {}", unread.join(", ")));
    }
    let text = if as_json {
        json::text(&serde_json::json!({"waiting": found, "unread": unread}))
    } else {
        text(&found, now.jobs.iter().filter(|job| job.state == State::Waits).count())
    };
    Ok(Answer { text, status: u8::from(!found.is_empty()) })
}

fn refused(now: &Snapshot, judge: &Judge, release: Release) -> (Vec<Refused>, Vec<String>) {
    let (mut found, mut unread) = (Vec::new(), Vec::new());
    for job in now.jobs.iter().filter(|job| job.state == State::Waits) {
        let Job { user, account, qos, partition, .. } = job;
        let place = Place { user, account, qos, partition };
        let told = (job.record.trust != Trust::Unclear).then(|| judge.told(place, &options(job, release)));
        match told {
            Some(Ok(Some(told))) => found.push(Refused::of(job, &told, release)),
            Some(Ok(None)) => {}
            Some(Err(_)) | None => unread.push(job.name.clone()),
        }
    }
    (found, unread)
}

/// sbatch's options for what a job asks for.
fn options(job: &Job, release: Release) -> Vec<Asked> {
    let asked = &job.record.asked;
    let mut found: Vec<Asked> = Vec::new();
    let mut add = |name: &'static str, value: String| found.push((name, Some(value.into_bytes())));
    for (key, text) in &asked.tres {
        match *key {
            "TresPerNode" => add("gres", without_prefix(text)),
            "TresPerJob" => add("gpus", gpus(text)),
            "TresPerSocket" => add("gpus-per-socket", gpus(text)),
            "TresPerTask" if release >= Release(23, 11) => add("tres-per-task", text.clone()),
            "TresPerTask" => add("gpus-per-task", gpus(text)),
            "CpusPerTres" => add("cpus-per-gpu", gpus(text)),
            "MemPerTres" => add("mem-per-gpu", gpus(text)),
            _ => {}
        }
    }
    for (name, count) in ["nodes", "ntasks", "cpus-per-task"].into_iter().zip(asked.counts) {
        // 1 is what Slurm says of a job that named none.
        if let Some(count) = count.filter(|count| *count > 1) {
            add(name, count.to_string());
        }
    }
    if let Some((key, value)) = &asked.memory {
        add(if *key == "MinMemoryCPU" { "mem-per-cpu" } else { "mem" }, value.clone());
    }
    if !job.reservation.is_empty() {
        add("reservation", job.reservation.clone());
    }
    if job.record.whole_nodes {
        found.push(("exclusive", None));
    }
    found
}

/// `gres/gpu:4,gres/mps:1` → `gpu:4,mps:1`
fn without_prefix(text: &str) -> String {
    let part =
        |part: &str| part.strip_prefix("gres/").or(part.strip_prefix("gres:")).unwrap_or(part).to_owned();
    text.split(',').map(part).collect::<Vec<_>>().join(",")
}

/// `gres/gpu:a40:4` → `a40:4`, and `gres/gpu` → `1`.
fn gpus(text: &str) -> String {
    let plain = without_prefix(text);
    let number = |part: &str| {
        let rest = part.strip_prefix("gpu").unwrap_or(part).trim_start_matches([':', '=']);
        if rest.is_empty() { "1".to_owned() } else { rest.to_owned() }
    };
    plain.split(',').map(number).collect::<Vec<_>>().join(",")
}

impl Refused {
    fn of(job: &Job, told: &Told, release: Release) -> Refused {
        let state = &job.state_word;
        Refused {
            job: job.name.clone(),
            user: job.user.clone(),
            state: if job.record.asked.is_cron { format!("{state}, scrontab") } else { state.clone() },
            qos: job.qos.clone(),
            message: told.number,
            why: told.text.lines().next().unwrap_or_default().trim_start_matches("gpushare: ").to_owned(),
            command: command(job, told, release),
        }
    }
}

/// The command that helps: an update that names the type where that is all there is to change, else another submission.
fn command(job: &Job, told: &Told, release: Release) -> String {
    let asked = &job.record.asked;
    let options = told.command.as_deref().unwrap_or_default();
    let again = if options.is_empty() { String::new() } else { format!(" with {options}") };
    if asked.is_cron {
        // A name that can't be shown is replaced by its number.
        let user = shell_word(job.user.as_bytes()).unwrap_or_else(|| job.user_id.to_string());
        return format!("scrontab -e -u {user}   # #SCRON lines{again}");
    }
    if let [(key, _)] = asked.tres.as_slice()
        && let Some(new) = updated(key, options, release)
    {
        return format!("scontrol update job={} {key}={new}", job.update_handle());
    }
    // The array's tasks that run go on.
    let whom = job.waiting_array().map(|array| format!("--state=PENDING {array}"));
    format!("scancel {}   # and submit it again{again}", whom.as_deref().unwrap_or(job.handle()))
}

/// The new value of a key, if the options say nothing else than where the job belongs and these GPUs. Up to 22.05 the
/// plugin lets no such job be changed (GS115).
fn updated(key: &str, options: &str, release: Release) -> Option<String> {
    if release < Release(23, 2) {
        return None;
    }
    let places = ["--qos=", "--account=", "--partition=", "--reservation="];
    let mut others =
        options.split_whitespace().filter(|word| !places.iter().any(|place| word.starts_with(place)));
    let (only, None) = (others.next()?, others.next()) else { return None };
    let (list, name) = match key {
        "TresPerNode" => (only.strip_prefix("--gres=")?, ""),
        "TresPerJob" => (only.strip_prefix("--gpus=")?, "gpu:"),
        _ => return None,
    };
    // What needs quotes is left to another submission, where it has them; and no update makes a share (GS124).
    let is_gpu = |part: &str| !name.is_empty() || part.split(':').next() == Some("gpu");
    if !list.split(',').all(is_gpu) || shell_word(list.as_bytes()).is_none_or(|word| word != list) {
        return None;
    }
    let prefix = String::from_utf8_lossy(release.spelling().prefix());
    Some(list.split(',').map(|part| format!("{prefix}{name}{part}")).collect::<Vec<_>>().join(","))
}

fn text(found: &[Refused], waiting: usize) -> String {
    let mut out = String::new();
    for Refused { job, user, state, qos, why, command, .. } in found {
        let [job, user, state, qos, why] = [job, user, state, qos, why].map(|text| clean(text));
        let _ = writeln!(out, "job {job} of {user} ({state}, QOS {qos}): {why}\n      {}", clean(command));
    }
    if found.is_empty() {
        let _ = writeln!(out, "today's rules would refuse none of the waiting jobs ({waiting})");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_slurm_prints_is_what_sbatch_takes() {
        for (text, list, count) in [
            ("gres/gpu:4", "gpu:4", "4"),
            ("gres:gpu:a40:2,gres:gpu:1", "gpu:a40:2,gpu:1", "a40:2,1"),
            ("gres/gpu", "gpu", "1"),
            ("gres/mps:40", "mps:40", "mps:40"),
        ] {
            assert_eq!((without_prefix(text).as_str(), gpus(text).as_str()), (list, count));
        }
    }

    #[test]
    fn a_command_names_what_slurm_takes_and_a_shell_passes_on() {
        let asks = |key, name: &str, is_cron| {
            let mut job = Job { name: name.to_owned(), user: "o'neil x".to_owned(), ..Job::default() };
            job.record.asked.tres.push((key, "gres/gpu:2".to_owned()));
            job.record.asked.is_cron = is_cron;
            let options = Some("--gres=gpu:a40:2".to_owned());
            let told = Told { number: "GS101", text: String::new(), command: options };
            command(&job, &told, Release(24, 11))
        };
        for (name, update, cancel) in [
            ("12", "12", "12"),
            ("12_3", "12_3", "12_3"),
            ("12+1", "12+1", "12"),
            ("12_[0-9%2]", "12", "--state=PENDING 12"),
            ("12_[0,2,5]", "12", "--state=PENDING 12"),
        ] {
            let new = format!("scontrol update job={update} TresPerNode=gres/gpu:a40:2");
            assert_eq!(asks("TresPerNode", name, false), new);
            let again = format!("scancel {cancel}   # and submit it again with --gres=gpu:a40:2");
            assert_eq!(asks("TresPerTask", name, false), again);
        }
        let edit = r"scrontab -e -u 'o'\''neil x'   # #SCRON lines with --gres=gpu:a40:2";
        assert_eq!(asks("TresPerNode", "12", true), edit);
    }

    #[test]
    fn an_update_is_offered_only_where_it_says_all() {
        let (new, old) = (Release(24, 11), Release(23, 2));
        for (key, options, release, expected) in [
            ("TresPerNode", "--qos=q --gres=gpu:a40:2", new, Some("gres/gpu:a40:2")),
            ("TresPerNode", "--qos=q --gres=gpu:a40:2,gpu:t4:1", old, Some("gres:gpu:a40:2,gres:gpu:t4:1")),
            ("TresPerNode", "--partition=course --gres=gpushare:80", new, None),
            ("TresPerNode", "--gres=gpu:a40:2,mps:1", new, None),
            ("TresPerJob", "--gpus=a40:2", new, Some("gres/gpu:a40:2")),
            ("TresPerJob", "--gpus=a40:2", Release(22, 5), None),
            ("TresPerJob", "--gpus=a40:2 -N2", new, None),
            ("TresPerNode", "--gpus=a40:2", new, None),
            ("TresPerTask", "--gpus-per-task=a40:2", new, None),
            ("TresPerNode", "--qos=q", new, None),
            ("TresPerNode", "", new, None),
            ("TresPerNode", "--gres='gpu:a;b:2'", new, None),
            ("TresPerNode", "--gres=gpu:a;b:2", new, None),
        ] {
            assert_eq!(updated(key, options, release).as_deref(), expected, "{key} {options}");
        }
    }
}
