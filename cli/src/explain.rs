//! `gpushare explain`: what a message means, why a job waits or which GPUs it has, and what Slurm would do with an
//! sbatch command or script.
//!
//! Read → decide → print. It reads a command as sbatch does and the accounting data through sacctmgr, and checks with
//! the code of slurmctld's plugin; it submits nothing. Then it asks Slurm itself (`trial`).

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use clap::{Args, FromArgMatches, ValueHint};
use gpushare::submit::message;
use gpushare::submit::policy::{self, Change, Remark};
use gpushare::submit::request::{Batch, Request};

mod error;
pub mod job;
mod messages;
pub mod mine;
mod outlook;
mod script;
mod steps;
mod trial;
mod wording;

use error::ExplainError;
use gpushare_judge::accounting::Database;
use gpushare_judge::options::{self, Source};
use gpushare_judge::submission::Submission;
use gpushare_machine::config::Config;
use gpushare_machine::local;
use gpushare_slurm_run::Snapshot;
use gpushare_slurm_run::run::ask;
use gpushare_slurm_text::version::Release;
use gpushare_terminal::{Answer, FileError, notes};
use job::{Beyond, JobId};
use script::{LONGEST, ScriptError};

/// The error about jobs that consist of several requests.
const HETEROGENEOUS: &str = "a heterogeneous job is several requests; check each by itself";

/// The command line of `gpushare explain`.
#[derive(Args)]
#[command(
    after_help = "Exit status: 0 gpushare and Slurm would accept it, 1 one of them says no, 2 it can't tell, \
                        sbatch can't read the request, or there is no such job or message.\n\
                        SBATCH_... variables count as they do for sbatch."
)]
pub struct Arguments {
    /// The user to check the request for, or whose waiting jobs to explain [default: you]
    #[arg(long, value_name = "NAME", value_hint = ValueHint::Username)]
    user: Option<String>,
    /// The rules [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]
    #[arg(long, value_name = "PATH")]
    conf: Option<PathBuf>,
    /// Print one JSON object about a job
    #[arg(long)]
    json: bool,
    /// Jobs (12, 12_3, 12+1), error codes (GS: all), a batch script, or -- and sbatch's options [default: your
    /// waiting jobs]
    #[arg(value_name = "JOB | GS101 | SCRIPT | -- OPTIONS", trailing_var_arg = true, value_hint = ValueHint::AnyPath)]
    words: Vec<OsString>,
}

/// The explanation.
///
/// # Errors
/// There is no such message or job, or the request could not be checked.
pub fn run(arguments: Arguments) -> Result<Answer, ExplainError> {
    let arguments = options_first(arguments)?;
    let words: Vec<Vec<u8>> = arguments.words.into_iter().map(OsStringExt::into_vec).collect();
    let named: Option<Vec<Named>> = words.iter().map(|word| Named::of(word)).collect();
    let job = |named: &Vec<Named>| matches!(named.as_slice(), [] | [Named::Job(_)]);
    if arguments.json && !named.as_ref().is_some_and(job) {
        return Err(ExplainError::NotOneJob);
    }
    let conf = arguments.conf.as_deref();
    let options = job::Options { json: arguments.json, conf };
    match named {
        Some(named) if named.is_empty() => {
            let (_, user_id) = identity(arguments.user.as_deref())?;
            Ok(Answer::from(job::waiting(user_id, options)?))
        }
        Some(named) => each(&named, options),
        None => judge(&words, arguments.user.as_deref(), conf),
    }
}

/// All that is named: what isn't found keeps nothing else from being told.
fn each(named: &[Named], options: job::Options) -> Result<Answer, ExplainError> {
    let (mut said, mut status) = (Vec::new(), 0);
    for one in named {
        match one.text(options) {
            Err(reason @ (ExplainError::NoJob(_) | ExplainError::NoMessage(_))) if named.len() > 1 => {
                said.push(format!("{reason}\n"));
                status = 2;
            }
            other => said.push(other?),
        }
    }
    Ok(Answer { text: said.join("\n"), status })
}

/// Allows options after a number. Words after a script belong to the script.
fn options_first(arguments: Arguments) -> Result<Arguments, ExplainError> {
    let is_named = arguments.words.first().is_some_and(|word| Named::of(word.as_bytes()).is_some());
    let at = arguments.words.iter().position(|word| word.as_bytes().starts_with(b"-"));
    let Some(at) = at.filter(|_| is_named) else { return Ok(arguments) };
    let Arguments { user, conf, json, mut words } = arguments;
    let mut line = vec![OsString::from("explain")];
    line.extend(words.split_off(at));
    line.extend(words);
    let matches = Arguments::augment_args(clap::Command::new("explain")).try_get_matches_from(line);
    let after = matches.and_then(|matches| Arguments::from_arg_matches(&matches));
    let after = after.map_err(ExplainError::Arguments)?;
    Ok(Arguments {
        user: after.user.or(user),
        conf: after.conf.or(conf),
        json: after.json || json,
        words: after.words,
    })
}

/// A word of the command line that isn't a script.
enum Named {
    Message(String),
    /// All messages.
    Messages,
    Job(JobId),
}

impl Named {
    fn of(word: &[u8]) -> Option<Named> {
        if word.eq_ignore_ascii_case(b"GS") {
            return Some(Named::Messages);
        }
        if messages::is_number(word) {
            return Some(Named::Message(word.escape_ascii().to_string()));
        }
        JobId::parse(word).map(Named::Job)
    }

    fn text(&self, options: job::Options) -> Result<String, ExplainError> {
        let id = match self {
            Named::Message(number) => {
                return messages::one(number).ok_or_else(|| ExplainError::NoMessage(number.clone()));
            }
            Named::Messages => return Ok(messages::all()),
            Named::Job(id) => id,
        };
        // Users omit letters: if Slurm shows no such job, they mean the message.
        let page = messages::one(&format!("GS{id}"));
        match (job::explain(id, options), page) {
            (Ok(Some(text)), _) => Ok(text),
            (_, Some(page)) => Ok(page),
            (Ok(None), None) => Err(ExplainError::NoJob(*id)),
            (Err(reason), None) => Err(reason),
        }
    }
}

fn judge(words: &[Vec<u8>], user: Option<&str>, conf: Option<&Path>) -> Result<Answer, ExplainError> {
    let release = Release::parse(&ask("sbatch", &["--version"])?)?;
    let Asked { mut job, steps, options, has_script } = read_job(words, release)?;
    let Config { policy, qoses, .. } = local::config(conf)?.unwrap_or_default();
    let snapshot = Snapshot::default();
    let settings = snapshot.settings()?;
    if settings.has("SelectTypeParameters", "ENFORCE_BINDING_GRES") {
        job.enforce_binding_by_default();
    }
    let cluster = Some(settings.get("ClusterName")).filter(|name| !name.is_empty());
    let cluster = cluster.ok_or(ExplainError::NoCluster)?;
    if job.text("clusters").is_some_and(|names| names != cluster.as_bytes()) {
        return Err(ExplainError::OtherCluster(cluster.to_owned()));
    }
    let own = user.is_none();
    let (user, user_id) = identity(user)?;
    let counted = settings.list("AccountingStorageTRES");
    let database = Database::ask(&user, cluster, settings.default_memory(), &counted, &snapshot)?;
    let mut request = job.request(release.spelling(), user_id);
    let partitions = database.taking_jobs(&request);
    request.partition = partitions.as_deref().or(request.partition);
    Ok(match policy::judge(&request, &policy, &&database) {
        Ok(acceptance) => {
            // slurmctld checks the request that the plugin leaves.
            let mut request = request;
            for remark in &acceptance.remarks {
                match remark {
                    Remark::Changed(Change::Share { text, .. }) => request.tres_per_node = Some(text),
                    Remark::Changed(Change::Type { fields, .. }) => {
                        fields.iter().for_each(|(field, text)| *request.string_mut(*field) = Some(text));
                    }
                    _ => {}
                }
            }
            let (mut refused, mut notes) = (None, Vec::new());
            let qos = wording::qos(&request, &database).map(String::from_utf8_lossy);
            // Slurm refuses by the time that is asked for, and backfill starts a job with as little as --time-min.
            let asked = request.batch.and_then(|batch| batch.time_limit);
            let batch = request.batch.map(|batch| Batch { time_limit: job.least_time(), ..batch });
            let started = Request { batch, ..request };
            let is_refused = |line: &Beyond| matches!(line, Beyond::Refused(_));
            let above = |request, qos: &str| {
                outlook::above((request, asked), qos, &database, &acceptance.remarks, (&snapshot, &qoses))
                    .into_iter()
            };
            let mut lines: Vec<Beyond> = Vec::new();
            if let Some(qos) = &qos {
                lines.extend(outlook::unwelcome(&started, qos, &database, &snapshot));
                lines.extend(above(&request, qos).filter(is_refused));
                lines.extend(above(&started, qos).filter(|line| !is_refused(line)));
            }
            // A request that is only let pass would be counted and logged again; and slurmctld's rules may be others.
            let asks = acceptance.remarks.is_empty() && own && conf.is_none();
            if asks && !lines.iter().any(is_refused) {
                lines.extend(trial::ask(words, &options, has_script));
            }
            for line in lines {
                match line {
                    Beyond::Refused(why) if refused.is_none() => refused = Some(why),
                    Beyond::Refused(why) | Beyond::Waits(why) => notes.push(why),
                }
            }
            notes.extend(steps);
            notes.extend(outlook::plugins(settings));
            wording::accepted((&request, &policy, &database, &acceptance), refused, &notes)
        }
        Err(refusal) => {
            let text = message::refusal(&refusal) + "\n" + &notes(outlook::plugins(settings).as_slice());
            Answer { text, status: 1 }
        }
    })
}

/// What sbatch's words say.
struct Asked {
    job: Submission,
    /// Notes about the script's steps.
    steps: Vec<String>,
    /// The names of all options.
    options: Vec<&'static str>,
    has_script: bool,
}

/// Combines `#SBATCH` lines, then the environment, then the command line.
fn read_job(words: &[Vec<u8>], release: Release) -> Result<Asked, ExplainError> {
    let (line, rest) = options::split(words, release, Source::Line)?;
    if words.iter().any(|word| word == b":") {
        return Err(ExplainError::Heterogeneous);
    }
    let wrapped = line.iter().any(|given| given.name == "wrap");
    let text = match rest.first() {
        Some(_) if wrapped => return Err(ExplainError::WrapAndScript),
        Some(name) => Some((name.escape_ascii().to_string(), read_script(name)?)),
        None => None,
    };
    let mut options = Vec::new();
    if let Some((name, text)) = &text {
        options = script::options(text, release).map_err(|why| ExplainError::Script(name.clone(), why))?;
    }
    let variable = |name: &str| std::env::var_os(name).map(OsString::into_vec);
    options.extend(options::from_environment(release, variable));
    options.extend(line);
    let options = options::without_overruled(options);
    let job = Submission::new(&options, release)?;
    let notes = |text| [script::below(text), steps::notes(text, &options, release)].concat();
    let steps = text.as_ref().map(|(_, text)| notes(text.as_slice())).unwrap_or_default();
    let has_script = wrapped || text.is_some();
    match text.and_then(|(name, text)| Some((name, script::speaks_another_language(&text)?))) {
        Some((name, word)) if !job.ignore_pbs => {
            Err(ExplainError::Script(name, ScriptError::OtherLanguage(word)))
        }
        _ => Ok(Asked { job, steps, options: options.iter().map(|given| given.name).collect(), has_script }),
    }
}

/// Looks next to the caller, or in PATH, as sbatch does.
fn read_script(name: &[u8]) -> Result<Vec<u8>, ExplainError> {
    let path = Path::new(std::ffi::OsStr::from_bytes(name));
    let anywhere = || {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let bare = !name.contains(&b'/');
        std::env::split_paths(&folders).map(|folder| folder.join(path)).find(|path| bare && path.is_file())
    };
    let path = if path.exists() { path.to_owned() } else { anywhere().unwrap_or_else(|| path.to_owned()) };
    let mut text = Vec::new();
    let read = std::fs::File::open(&path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut text));
    read.map_err(FileError::of(&path))?;
    if text.len() as u64 > LONGEST {
        return Err(ExplainError::Script(path.display().to_string(), ScriptError::TooLong));
    }
    Ok(text)
}

/// The user's name and number.
fn identity(user: Option<&str>) -> Result<(String, u32), ExplainError> {
    let id = |option: &str| match user {
        Some(name) => ask("id", &[option, "--", name]),
        None => ask("id", &[option]),
    };
    let word = |text: Vec<u8>| String::from_utf8_lossy(&text).trim().to_owned();
    let number = word(id("-u")?);
    let user_id = number.parse().map_err(|_| ExplainError::NoUser(number))?;
    Ok((word(id("-un")?), user_id))
}

#[cfg(test)]
mod tests;
