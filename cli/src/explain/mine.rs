//! `gpushare mine`: the accounts and QOSes that a user may use, their limits on GPUs and shares, how much of that is in
//! use and by whom, and the options to write. It asks Slurm, so it doesn't matter who made the QOSes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use gpushare::submit::policy;
use gpushare::text::shown::shell_word;
use gpushare_qos::lending;
use gpushare_slurm_text::{Association, Node, Partition, Settings};
use serde::Serialize;

use super::error::ExplainError;
use super::identity;
use super::job::{Limit, loans, on_gres};
use gpushare_judge::accounting::Database;
use gpushare_judge::options::{self, Source};
use gpushare_judge::submission::Submission;
use gpushare_machine::config::Config;
use gpushare_machine::local;
use gpushare_slurm_run::Snapshot;
use gpushare_slurm_run::run::ask;
use gpushare_slurm_text::queue::Row;
use gpushare_slurm_text::version::Release;
use gpushare_terminal::{Answer, clean, json};

/// The command line of `gpushare mine`.
#[derive(Args)]
#[command(after_help = "Exit status: 0, 2 if Slurm doesn't answer, or has no accounts.")]
pub struct Arguments {
    /// Of this user, as far as Slurm shows it to you [default: you]
    #[arg(long, value_name = "NAME", value_hint = ValueHint::Username)]
    user: Option<String>,
    /// The rules [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]
    #[arg(long, value_name = "PATH")]
    conf: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// All that a user may use.
#[derive(Debug, Serialize)]
struct Mine {
    user: String,
    accounts: Vec<Account>,
    /// What a request for a part of a GPU is like; null if there are no shares.
    shares: Option<String>,
}

/// An association.
#[derive(Debug, Serialize)]
struct Account {
    account: String,
    /// Empty for all.
    partition: String,
    default: bool,
    qoses: Vec<MyQos>,
}

#[derive(Debug, Serialize)]
struct MyQos {
    qos: String,
    default: bool,
    limits: Vec<Limit>,
    /// GPUs of its quota that others have, and GPUs of others that it has: `2 a40 to qos_y_burst`.
    lent: String,
    borrowed: String,
    /// Options of sbatch, one for each type.
    write: Vec<String>,
}

/// What the user may use.
///
/// # Errors
/// Slurm can't be asked, or knows no account of the user's.
pub fn run(arguments: &Arguments) -> Result<Answer, ExplainError> {
    let config = local::config(arguments.conf.as_deref())?.unwrap_or_default();
    let snapshot = Snapshot::default();
    let settings = snapshot.settings()?;
    let (user, user_id) = identity(arguments.user.as_deref())?;
    let (rows, mut accounts, mut can_share) = (super::job::queued(Row::counts)?, Vec::new(), false);
    let counted = settings.list("AccountingStorageTRES");
    let cluster = settings.get("ClusterName");
    let asking = Asking {
        config: &config,
        release: Release::parse(&ask("sbatch", &["--version"])?)?,
        database: Database::ask(&user, cluster, settings.default_memory(), &counted, &snapshot)?,
        user_id,
    };
    let loans = loans(&config.qoses, &snapshot)?;
    for one in asking.database.of_user() {
        let is_first = one.account.as_bytes().eq_ignore_ascii_case(asking.database.default_account());
        let mut account = Account {
            account: one.account.clone(),
            partition: one.partition.clone(),
            default: is_first,
            qoses: Vec::new(),
        };
        for qos in &one.qoses {
            let partitions = snapshot.partitions().unwrap_or_default();
            let any = place(one, qos, partitions, |_| true);
            let row = any_job((&user, user_id), one, qos, settings, any.as_ref());
            let limits = on_gres(&row, &rows, &snapshot)?;
            let nodes = snapshot.nodes().unwrap_or_default();
            let where_is = |gres: &str| place(one, qos, partitions, |partition| has(partition, gres, nodes));
            let mut all = options(one, qos, is_first, &where_is, &limits, nodes, &config);
            all.retain(|words| asking.is_accepted(words));
            let write = all.iter().filter_map(|words| in_a_shell(words)).collect();
            can_share |= where_is(&config.node.share_gres)
                .is_some_and(|place| asking.accepts_a_share(&one.account, qos, &place));
            let default = is_default(one, qos);
            let [lent, borrowed] = lending::in_words(&loans, qos);
            account.qoses.push(MyQos { qos: qos.clone(), default, limits, lent, borrowed, write });
        }
        accounts.push(account);
    }
    if accounts.is_empty() {
        return Err(ExplainError::NoAccount(user));
    }
    let mine = Mine { user, accounts, shares: shares(&config).filter(|_| can_share) };
    Ok(Answer::from(if arguments.json { json::text(&mine) } else { mine.text() }))
}

/// What decides whether a line that is shown would work.
struct Asking<'a> {
    config: &'a Config,
    release: Release,
    database: Database,
    user_id: u32,
}

impl Asking<'_> {
    /// Whether the plugin would accept a job with these options.
    fn is_accepted(&self, words: &[String]) -> bool {
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let read = options::split(&words, self.release, Source::Line);
        let Ok(job) = read.and_then(|(given, _)| Submission::new(&given, self.release)) else { return false };
        let request = job.request(self.release.spelling(), self.user_id);
        let database = &self.database;
        policy::judge(&request, &self.config.policy, &database).is_ok()
    }

    /// The same of a small share.
    fn accepts_a_share(&self, account: &str, qos: &str, place: &Place) -> bool {
        let share = format!("--gres={}:{}", self.config.node.share_gres, some_units(self.config));
        let words = [format!("-A{account}"), format!("-q{qos}"), share];
        self.is_accepted(&words.into_iter().chain(in_partition(place)).collect::<Vec<_>>())
    }
}

/// Where a job of the QOS may run: the association's partition, or else the default one or the first that admits it.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    partition: String,
    /// A job that names none goes there.
    is_default: bool,
}

fn place(
    one: &Association,
    qos: &str,
    partitions: &[Partition],
    fits: impl Fn(&Partition) -> bool,
) -> Option<Place> {
    if !one.partition.is_empty() || partitions.is_empty() {
        return Some(Place { partition: one.partition.clone(), is_default: one.partition.is_empty() });
    }
    let admit = || partitions.iter().filter(|partition| partition.admits(qos) && fits(partition));
    let found = admit().find(|partition| partition.is_default).or_else(|| admit().next())?;
    Some(Place { partition: found.name.clone(), is_default: found.is_default })
}

/// Whether a node of the partition has such a GRES: `gpu`, `gpu:a40`, `mps`.
fn has(partition: &Partition, gres: &str, nodes: &[Node]) -> bool {
    let (name, wanted) = gres.split_once(':').map_or((gres, None), |(name, kind)| (name, Some(kind)));
    let is_it = |kind: &Option<String>| wanted.is_none_or(|wanted| kind.as_deref() == Some(wanted));
    let of_it = |node: &&Node| node.partitions.contains(&partition.name);
    let mut all = nodes.iter().filter(of_it).flat_map(|node| &node.gres);
    nodes.is_empty() || all.any(|(of, kind, count)| of == name && *count > 0 && is_it(kind))
}

/// A job that asks for one of each GRES that Slurm counts, so that every limit on one concerns it.
fn any_job(
    (user, user_id): (&str, u32),
    one: &Association,
    qos: &str,
    settings: &Settings,
    place: Option<&Place>,
) -> Row {
    let of_itself = ["gres/gpumem", "gres/gpuutil"];
    let counted = settings.list("AccountingStorageTRES").into_iter();
    let counted = counted.filter(|name| name.starts_with("gres/") && !of_itself.contains(name));
    Row {
        user_id,
        user: user.to_owned(),
        account: one.account.clone(),
        partition: place.map(|place| place.partition.clone()).unwrap_or_default(),
        qos: qos.to_owned(),
        nodes: 1,
        time_limit: Some(1),
        tres: counted.map(|name| (name.to_ascii_lowercase(), 1)).collect::<BTreeMap<_, _>>(),
        ..Row::default()
    }
}

/// Whether a job that names no QOS has this one; the only one is the default, too.
fn is_default(one: &Association, qos: &str) -> bool {
    one.default_qos.eq_ignore_ascii_case(qos) || one.default_qos.is_empty() && one.qoses.len() == 1
}

/// The option that names a partition, if it must be named.
fn in_partition(place: &Place) -> Option<String> {
    (!place.is_default).then(|| format!("--partition={}", place.partition))
}

/// A line of a shell; `None` if a name can't be shown.
fn in_a_shell(words: &[String]) -> Option<String> {
    let words: Option<Vec<String>> = words.iter().map(|word| shell_word(word.as_bytes())).collect();
    words.map(|words| words.join(" "))
}

/// What may be written: each type that the limits allow, or any GPU without a limit on a type; and a share, if there is
/// a limit on shares, or nothing else.
fn options(
    one: &Association,
    qos: &str,
    default: bool,
    where_is: &dyn Fn(&str) -> Option<Place>,
    limits: &[Limit],
    nodes: &[Node],
    config: &Config,
) -> Vec<Vec<String>> {
    let qos = (!is_default(one, qos)).then(|| format!("--qos={qos}"));
    let account = (!default).then(|| format!("--account={}", one.account));
    // Where no node has it, there is nothing to write.
    let line = |gres: &str, count: u64| {
        let (partition, gres) = (in_partition(&where_is(gres)?), format!("--gres={gres}:{count}"));
        Some([qos.clone(), account.clone(), partition, Some(gres)].into_iter().flatten().collect::<Vec<_>>())
    };
    // As nodes spell it, since Slurm finds nodes by that.
    let spelled = |gres_type: &str| {
        let known = nodes.iter().flat_map(|node| &node.gres).filter_map(|(_, kind, _)| kind.as_ref());
        let mut known = known.chain(config.policy.types.iter());
        let same = known.find(|written| written.eq_ignore_ascii_case(gres_type));
        same.map_or_else(|| gres_type.to_owned(), Clone::clone)
    };
    let mut found = Vec::new();
    let is_none = |tres: &str| limits.iter().any(|limit| limit.limit == 0 && limit.tres == tres);
    let typed: Vec<&str> = limits.iter().filter_map(|limit| limit.tres.strip_prefix("gres/gpu:")).collect();
    for gres_type in typed.iter().filter(|gres_type| !is_none(&format!("gres/gpu:{gres_type}"))) {
        let line = line(&format!("gpu:{}", spelled(gres_type)), 1);
        found.extend(line.filter(|line| !found.contains(line)));
    }
    if typed.is_empty() && !is_none("gres/gpu") {
        found.extend(line("gpu", 1));
    }
    let share = config.node.share_gres.as_str();
    let tres = format!("gres/{share}");
    let is_limited = limits.is_empty() || limits.iter().any(|limit| limit.tres == tres);
    if config.places_anywhere() && is_limited && !is_none(&tres) {
        found.extend(line(share, some_units(config)));
    }
    found
}

/// The units of a small share.
fn some_units(config: &Config) -> u64 {
    let shares = &config.policy.shares;
    shares.sizes.iter().min().copied().or(shares.most.map(|most| (most / 4).max(1))).unwrap_or(1)
}

/// How to ask for a part of a GPU, and where one can.
fn shares(config: &Config) -> Option<String> {
    if !config.places_anywhere() {
        return None;
    }
    let policy = &config.policy.shares;
    let numbers = |all: &[u64]| all.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let mut said = format!("--gres={}:N, N units of one GPU", config.node.share_gres);
    if let Some(most) = policy.most {
        said += &format!(", which has {most}");
    }
    if !policy.sizes.is_empty() {
        said += &format!("; N is one of {}", numbers(&policy.sizes));
    }
    let names = |patterns: &gpushare::text::pattern::Patterns| patterns.iter().collect::<Vec<_>>().join(", ");
    if !policy.reservations.is_empty() {
        let parts = names(&policy.reservations);
        said += &format!("; only in a reservation whose name contains {parts}");
    }
    if !policy.only_partitions.is_empty() {
        said += &format!("; only shares are allowed in partition {}", names(&policy.only_partitions));
    }
    Some(said)
}

impl Mine {
    fn text(&self) -> String {
        let mut lines = Vec::new();
        for Account { account, partition, default, qoses } in &self.accounts {
            let of = if partition.is_empty() { String::new() } else { format!(" in partition {partition}") };
            let default = if *default { " (default)" } else { "" };
            lines.push(format!("account {account}{default}{of}"));
            for MyQos { qos, default, limits, lent, borrowed, write } in qoses {
                let default = if *default { " (default)" } else { "" };
                let none = if limits.is_empty() { ": no limit on GPUs" } else { "" };
                lines.push(format!("  QOS {qos}{default}{none}"));
                // Zeros only say what the QOS isn't for.
                let shown = limits.iter().filter(|limit| limit.limit > 0);
                lines.extend(shown.map(|limit| format!("    {}", super::job::in_use(limit))));
                for (word, loans) in [("lent", lent), ("borrowed", borrowed)] {
                    lines.extend((!loans.is_empty()).then(|| format!("    {word}: {loans}")));
                }
                lines.extend(write.iter().map(|options| format!("    write: {options}")));
            }
        }
        lines.extend(self.shares.as_ref().map(|shares| format!("a share of a GPU: {shares}")));
        lines.iter().map(|line| clean(line) + "\n").collect()
    }
}

#[cfg(test)]
mod tests;
