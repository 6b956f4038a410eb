//! `gpushare explain`: what a message means, why a job waits or which GPUs it has, and what Slurm would do with an
//! sbatch command or script.
//!
//! Read → judge → print. It reads a command as sbatch does and the accounting data through sacctmgr, and judges with
//! the code of slurmctld's plugin; it submits nothing. Of Slurm's own reasons to refuse, it checks only names.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use clap::{Args, FromArgMatches, ValueHint};
use gpushare::config::{self, Config};
use gpushare::submit::message;
use gpushare::submit::policy::{self, Policy, Verdict};

mod accounting;
mod job;
mod messages;
mod options;
mod outlook;
pub mod past;
mod release;
mod script;
mod steps;
mod submission;
mod table;
mod time;
mod wording;

use crate::slurm::Settings;
use crate::slurm::run::ask;
use accounting::Database;
use job::JobId;
use options::Source;
use outlook::Names;
use release::Release;
use submission::Submission;

/// The note about jobs that are several requests in one.
const HETEROGENEOUS: &str = "a heterogeneous job is several requests; judge each by itself";

/// The longest script that it reads; sbatch's are shorter.
const LONGEST_SCRIPT: u64 = 64 << 20;

/// The command line of `gpushare explain`.
#[derive(Args)]
#[command(
    after_help = "Exit status: 0 gpushare would accept it (Slurm may still refuse it for reasons of its own),\n\
                        1 gpushare would refuse it, 2 it can't judge, or there is no such job or message.\n\
                        SBATCH_... variables count as they do for sbatch."
)]
pub struct Arguments {
    /// The user to judge the request for [default: you]
    #[arg(long, value_name = "NAME", value_hint = ValueHint::Username)]
    user: Option<String>,
    /// The rules [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]
    #[arg(long, value_name = "PATH")]
    conf: Option<PathBuf>,
    /// Print one JSON object about a job
    #[arg(long)]
    json: bool,
    /// For a running job: read DIR/NODE.json, the output of gpushare status --json on the nodes
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    collected: Option<PathBuf>,
    /// Jobs (12, 12_3, 12+1), numbers of messages, a batch script, or -- and sbatch's options [default: all messages]
    #[arg(value_name = "JOB | GS101 | SCRIPT | -- OPTIONS", trailing_var_arg = true, value_hint = ValueHint::AnyPath)]
    words: Vec<OsString>,
}

/// The output, and whether a request is refused.
pub struct Answer {
    /// For standard output.
    pub text: String,
    /// gpushare would refuse the request.
    pub refused: bool,
}

/// An error is one line: why there is no answer.
pub fn run(arguments: Arguments) -> Result<Answer, String> {
    let arguments = options_first(arguments)?;
    let words: Vec<Vec<u8>> = arguments.words.into_iter().map(OsStringExt::into_vec).collect();
    let named: Option<Vec<Named>> = words.iter().map(|word| Named::of(word)).collect();
    let job = |named: &Vec<Named>| matches!(named.as_slice(), [Named::Job(_)]);
    if (arguments.json || arguments.collected.is_some()) && !named.as_ref().is_some_and(job) {
        return Err("--json and --collected are for the number of one job".to_owned());
    }
    let conf = arguments.conf.as_deref();
    let options = job::Options { json: arguments.json, collected: arguments.collected.as_deref(), conf };
    match named {
        Some(named) if named.is_empty() => messages::text(None).map(accepted),
        Some(named) => {
            let said: Result<Vec<String>, String> = named.iter().map(|one| one.text(options)).collect();
            said.map(|said| accepted(said.join("\n")))
        }
        None => judge(&words, arguments.user.as_deref(), conf),
    }
}

/// Options may follow a number. What follows a script belongs to the script.
fn options_first(arguments: Arguments) -> Result<Arguments, String> {
    let is_named = arguments.words.first().is_some_and(|word| Named::of(word.as_bytes()).is_some());
    let at = arguments.words.iter().position(|word| word.as_bytes().starts_with(b"-"));
    let Some(at) = at.filter(|_| is_named) else { return Ok(arguments) };
    let Arguments { user, conf, json, collected, mut words } = arguments;
    let mut line = vec![OsString::from("explain")];
    line.extend(words.split_off(at));
    line.extend(words);
    let matches = Arguments::augment_args(clap::Command::new("explain")).try_get_matches_from(line);
    let after = matches.and_then(|matches| Arguments::from_arg_matches(&matches));
    let after = after.map_err(|error| {
        let text = error.to_string();
        text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
    })?;
    Ok(Arguments {
        user: after.user.or(user),
        conf: after.conf.or(conf),
        json: after.json || json,
        collected: after.collected.or(collected),
        words: after.words,
    })
}

/// A word of the command line that is no script.
enum Named {
    Message(String),
    Job(JobId),
}

impl Named {
    fn of(word: &[u8]) -> Option<Named> {
        if messages::is_number(word) {
            return Some(Named::Message(word.escape_ascii().to_string()));
        }
        JobId::parse(word).map(Named::Job)
    }

    fn text(&self, options: job::Options) -> Result<String, String> {
        let id = match self {
            Named::Message(number) => return messages::text(Some(number)),
            Named::Job(id) => id,
        };
        // Users leave letters out: where Slurm shows no such job, the message is meant.
        let page = messages::text(Some(&format!("GS{id}"))).ok();
        match (job::explain(id, options), page) {
            (Ok(Some(text)), _) => Ok(text),
            (_, Some(page)) => Ok(page),
            (Ok(None), None) => Err(job::unknown(id)),
            (Err(reason), None) => Err(reason),
        }
    }
}

fn accepted(text: String) -> Answer {
    Answer { text, refused: false }
}

fn judge(words: &[Vec<u8>], user: Option<&str>, conf: Option<&Path>) -> Result<Answer, String> {
    let release = Release::parse(&ask("sbatch", &["--version"])?)?;
    let (job, steps) = read_job(words, release)?;
    let policy = read_policy(conf)?;
    let settings = settings()?;
    let cluster = Some(settings.get("ClusterName")).filter(|name| !name.is_empty());
    let cluster = cluster.ok_or("'scontrol show config' names no ClusterName")?;
    if job.clusters.as_ref().is_some_and(|names| names != cluster.as_bytes()) {
        return Err(format!("--clusters names another cluster than this one, '{cluster}'"));
    }
    let (user, user_id) = identity(user)?;
    let database = Database::read(&user, cluster, settings.gives_memory())?;
    let request = job.request(release.spelling(), user_id);
    Ok(match policy::judge(&request, &policy, &&database) {
        Verdict::Accept(acceptance) => {
            let refused = Names::ask().refused(&request);
            let mut notes = Vec::new();
            if refused.is_none() {
                let qos = wording::qos(&request, &database).map(String::from_utf8_lossy);
                notes.extend(
                    qos.into_iter()
                        .flat_map(|qos| outlook::above(&request, &qos, &database, &acceptance.remarks)),
                );
                notes.extend(steps);
            }
            accepted(wording::accepted((&request, &policy, &database, &acceptance), refused, &notes))
        }
        Verdict::Refuse(refusal) => Answer { text: message::refusal(&refusal) + "\n", refused: true },
    })
}

/// `#SBATCH` lines, then the environment, then the command line; and what is to be said of the script's steps.
fn read_job(words: &[Vec<u8>], release: Release) -> Result<(Submission, Vec<String>), String> {
    let (line, rest) = options::split(words, release, Source::Line)?;
    if words.iter().any(|word| word == b":") {
        return Err(HETEROGENEOUS.to_owned());
    }
    let wrapped = line.iter().any(|given| given.name == "wrap");
    let text = match rest.first() {
        Some(_) if wrapped => return Err("sbatch takes either --wrap or a script".to_owned()),
        Some(name) => Some((name.escape_ascii().to_string(), read_script(name)?)),
        None => None,
    };
    let mut options = Vec::new();
    if let Some((name, text)) = &text {
        let words = script::words(text, release).map_err(|reason| format!("{name}: {reason}"))?;
        let (given, rest) =
            options::split(&words, release, Source::Script).map_err(|reason| format!("{name}: {reason}"))?;
        if let Some(word) = rest.first() {
            return Err(format!("{name}: '{}' on an #SBATCH line is no option", word.escape_ascii()));
        }
        options.extend(given);
    }
    let variable = |name: &str| std::env::var_os(name).map(OsString::into_vec);
    options.extend(options::from_environment(release, variable));
    options.extend(line);
    let job = Submission::new(&options, release)?;
    let steps = text.as_ref().map(|(_, text)| steps::notes(text, &options, release)).unwrap_or_default();
    match text.and_then(|(name, text)| Some((name, script::speaks_another_language(&text)?))) {
        Some((name, word)) if !job.ignore_pbs => Err(format!(
            "{name}: sbatch reads its {word} lines too, which can't be judged; write #SBATCH or add --ignore-pbs"
        )),
        _ => Ok((job, steps)),
    }
}

/// Beside the caller, or in PATH, as sbatch looks for it.
fn read_script(name: &[u8]) -> Result<Vec<u8>, String> {
    let path = Path::new(std::ffi::OsStr::from_bytes(name));
    let anywhere = || {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let bare = !name.contains(&b'/');
        std::env::split_paths(&folders).map(|folder| folder.join(path)).find(|path| bare && path.is_file())
    };
    let path = if path.exists() { path.to_owned() } else { anywhere().unwrap_or_else(|| path.to_owned()) };
    let unreadable = |error| format!("{}: {error}", path.display());
    let mut text = Vec::new();
    let file = std::fs::File::open(&path).map_err(unreadable)?;
    file.take(LONGEST_SCRIPT + 1).read_to_end(&mut text).map_err(unreadable)?;
    if text.len() as u64 > LONGEST_SCRIPT {
        return Err(format!("{}: longer than {LONGEST_SCRIPT} bytes", path.display()));
    }
    Ok(text)
}

/// As the plugin finds it; without a file the defaults apply.
pub fn read_policy(conf: Option<&Path>) -> Result<Policy, String> {
    if let Some(path) = conf {
        let found = Config::load(path).map_err(|error| error.to_string())?;
        return found
            .map(|config| config.policy)
            .ok_or_else(|| format!("{}: there is no such file", path.display()));
    }
    let slurm_conf = std::env::var_os("SLURM_CONF").unwrap_or_else(|| "/etc/slurm/slurm.conf".into());
    let path = config::find(Path::new(&slurm_conf), Path::new(config::FALLBACK));
    Config::load(&path).map(|found| found.unwrap_or_default().policy).map_err(|error| error.to_string())
}

/// What slurmctld runs on.
fn settings() -> Result<Settings, String> {
    Ok(Settings::parse(&String::from_utf8_lossy(&ask("scontrol", &["show", "config"])?)))
}

/// Name and number.
fn identity(user: Option<&str>) -> Result<(String, u32), String> {
    let id = |option: &str| match user {
        Some(name) => ask("id", &[option, "--", name]),
        None => ask("id", &[option]),
    };
    let word = |text: Vec<u8>| String::from_utf8_lossy(&text).trim().to_owned();
    let number = word(id("-u")?);
    let user_id = number.parse().map_err(|_| format!("'id -u' says '{}'", number.escape_debug()))?;
    Ok((word(id("-un")?), user_id))
}

#[cfg(test)]
mod tests;
