//! Limits: those of QOSes and associations, from sacctmgr.
//!
//! sacctmgr prints limits on single jobs, and default QOSes, including those that come down from the accounts above.
//! What an association itself says, and every setting of a QOS, is what `gpushare qos` compares and writes: its crate
//! has the fields of that.

use std::collections::HashMap;

use crate::{Question, Tres};

/// Asks for all QOSes.
pub const QOSES: Question = (
    "sacctmgr",
    &[
        "-nP",
        "show",
        "qos",
        "format=name,GrpTRES,MaxTRES,MaxTRESPU,MaxTRESPA,MaxTRESPerNode,GrpTRESMins,GrpTRESRunMins,MaxTRESMins,\
         MaxTRESRunMinsPA,MaxTRESRunMinsPU,flags,priority,preempt,usagefactor",
    ],
);

/// Asks for associations; the caller adds `where cluster=NAME`.
pub const ASSOCIATIONS: Question = (
    "sacctmgr",
    &[
        "-nP",
        "show",
        "assoc",
        "format=account,user,partition,qos,defaultqos,parentname,GrpTRES,MaxTRES,MaxTRESPerNode,GrpTRESMins,\
         GrpTRESRunMins,MaxTRESMins",
    ],
);

/// Asks for users' default accounts; the caller adds which users.
pub const DEFAULT_ACCOUNTS: Question = ("sacctmgr", &["-nP", "show", "user", "format=user,defaultaccount"]);

/// A user's default account; empty if there is none.
pub fn default_account(text: &str, user: &str) -> String {
    let mut rows = text.lines().filter_map(|line| line.split_once('|'));
    let found = rows.find(|(name, _)| name.eq_ignore_ascii_case(user));
    found.map(|(_, account)| account.to_owned()).unwrap_or_default()
}

/// Whether an answer to one of them has all of its columns in every line, and has lines: every database has the QOS
/// `normal`, and every cluster the account `root`. A line may have more: see [`Associations::odd`].
pub fn is_whole(text: &str, question: Question) -> bool {
    let columns = columns_of(question);
    let mut lines = text.lines().filter(|line| !line.is_empty()).peekable();
    lines.peek().is_some() && lines.all(|line| crate::columns(line).count() >= columns)
}

fn columns_of((_, arguments): Question) -> usize {
    arguments.last().map_or(0, |format| format.split(',').count())
}

gpushare::names! {
    /// What a limit counts together, in the order of the columns, each as sacctmgr names it in full.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Kind: word {
        /// All jobs.
        Grp = "GrpTRES",
        /// Each job.
        PerJob = "MaxTRESPerJob",
        /// All jobs of a user.
        PerUser = "MaxTRESPerUser",
        /// All jobs of an account.
        PerAccount = "MaxTRESPerAccount",
        /// Each node of a job; Slurm divides the job's number by its nodes and rounds down.
        PerNode = "MaxTRESPerNode",
    }
}

impl Kind {
    /// Its column. `MaxTRES` is the limit per job; 22.05 has no other short name for it.
    pub const fn column(self) -> &'static str {
        match self {
            Kind::PerJob => "MaxTRES",
            Kind::PerUser => "MaxTRESPU",
            Kind::PerAccount => "MaxTRESPA",
            Kind::Grp | Kind::PerNode => self.word(),
        }
    }
}

/// The limits of a QOS or an association.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    at_once: [Tres; 5],
    /// Limits on minutes, by field.
    pub minutes: Vec<(&'static str, Tres)>,
}

impl Limits {
    /// What may be in use at once.
    pub fn of(&self, kind: Kind) -> &Tres {
        let [grp, job, user, account, node] = &self.at_once;
        match kind {
            Kind::Grp => grp,
            Kind::PerJob => job,
            Kind::PerUser => user,
            Kind::PerAccount => account,
            Kind::PerNode => node,
        }
    }

    /// All of them: field, TRES and number.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str, u64)> {
        let at_once = Kind::ALL.into_iter().map(|kind| (kind.column(), self.of(kind)));
        let all = at_once.chain(self.minutes.iter().map(|(field, tres)| (*field, tres)));
        all.flat_map(|(field, tres)| tres.iter().map(move |(name, count)| (field, name, count)))
    }

    /// The TRES of those that add up several jobs.
    pub fn of_several(&self) -> impl Iterator<Item = &str> {
        let of_one = ["MaxTRES", "MaxTRESPerNode", "MaxTRESMins"];
        self.iter().filter(move |(field, ..)| !of_one.contains(field)).map(|(_, tres, _)| tres)
    }

    /// Whether there is any on a number at once.
    pub fn is_any_at_once(&self) -> bool {
        self.at_once.iter().any(|limits| !limits.is_empty())
    }

    /// The lowest numbers on a TRES: the lowest of all, and the lowest of those that are not per node. `None` if
    /// nothing is limited.
    pub fn lowest(&self, tres: &str) -> Option<(Option<u64>, Option<u64>)> {
        let [rest @ .., node] = &self.at_once;
        let of_job = rest.iter().filter_map(|limits| limits.of(tres)).min();
        let lowest = of_job.into_iter().chain(node.of(tres)).min();
        let minutes = || self.minutes.iter().any(|(_, limits)| limits.of(tres).is_some());
        (lowest.is_some() || minutes()).then_some((lowest, of_job))
    }

    /// Drops those on other TRES.
    pub fn keep(&mut self, is_kept: impl Fn(&str) -> bool) {
        let minutes = self.minutes.iter_mut().map(|(_, tres)| tres);
        self.at_once.iter_mut().chain(minutes).for_each(|tres| tres.keep(&is_kept));
    }
}

/// A QOS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qos {
    /// Its name, as in the database.
    pub name: String,
    /// What it limits.
    pub limits: Limits,
    /// Its priority.
    pub priority: String,
    /// Whether it preempts another.
    pub preempts: bool,
    /// Whether Slurm refuses a job that alone exceeds a limit.
    pub denies_on_limit: bool,
    /// Whether its limits come before those of a partition's QOS.
    pub over_partition: bool,
    /// Whether its jobs may have more time than a partition allows (`PartitionTimeLimit`).
    pub over_partition_time: bool,
    /// Whether its limits are percentages of what there is (`Relative`, since 23.11). Of what, sacctmgr doesn't say.
    pub is_relative: bool,
    /// Whether minutes stay used (`NoDecay`).
    pub keeps_minutes: bool,
    /// `UsageFactor` in thousandths: how much a minute of its jobs counts.
    pub usage_factor: u64,
    /// Whether a job's time limit counts so, too (`UsageFactorSafe`).
    pub scales_time_limits: bool,
}

impl Qos {
    /// Reads a line; what it lacks is unset.
    pub fn read(line: &str) -> Qos {
        let mut columns = crate::columns(line);
        let mut next = || columns.next().unwrap_or_default();
        let name = next().to_owned();
        let at_once = [next(), next(), next(), next(), next()].map(Tres::read);
        let minutes =
            ["GrpTRESMins", "GrpTRESRunMins", "MaxTRESMins", "MaxTRESRunMinsPA", "MaxTRESRunMinsPU"]
                .map(|field| (field, Tres::read(next())));
        let flags = next();
        let has = |name: &str| flags.split(',').any(|flag| flag.eq_ignore_ascii_case(name));
        Qos {
            name,
            limits: Limits { at_once, minutes: minutes.to_vec() },
            denies_on_limit: has("DenyOnLimit"),
            over_partition: has("OverPartQOS"),
            over_partition_time: has("PartitionTimeLimit"),
            is_relative: has("Relative"),
            keeps_minutes: has("NoDecay"),
            scales_time_limits: has("UsageFactorSafe"),
            priority: next().to_owned(),
            preempts: !next().is_empty(),
            usage_factor: thousandths(next()).unwrap_or(1000),
        }
    }

    /// The lowest numbers on a TRES, as [`Limits::lowest`]; percentages are none.
    pub fn lowest(&self, tres: &str) -> Option<(Option<u64>, Option<u64>)> {
        let found = self.limits.lowest(tres)?;
        Some(if self.is_relative { (None, None) } else { found })
    }
}

/// `0.500000` as 500.
fn thousandths(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction: u64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(fraction)
}

/// Reads all QOSes.
pub fn qoses(text: &str) -> Vec<Qos> {
    text.lines().filter(|line| line.contains('|')).map(Qos::read).collect()
}

/// The line about QOSes whose limits can't be checked, if there are such.
pub fn not_judged<'q>(qoses: impl IntoIterator<Item = &'q Qos>) -> Option<String> {
    let relative = qoses.into_iter().filter(|qos| qos.is_relative && qos.limits.is_any_at_once());
    let mut names: Vec<&str> = relative.map(|qos| qos.name.as_str()).collect();
    names.sort_unstable();
    (!names.is_empty()).then(|| {
        format!("limits of these QOSes are percentages (Relative), and aren't checked: {}", names.join(", "))
    })
}

/// An association: an account's, a user's in an account, or a user's in an account and a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Association {
    /// The account.
    pub account: String,
    /// Empty for an account's own.
    pub user: String,
    /// Empty if it is for all partitions.
    pub partition: String,
    /// The QOSes that its jobs may have.
    pub qoses: Vec<String>,
    /// Empty if there is none.
    pub default_qos: String,
    /// The account above an account's.
    pub parent: String,
    /// What it limits.
    pub limits: Limits,
}

impl Association {
    /// Reads a line; what it lacks is unset. A coordinator may have named an account `a|b`: there are 11 columns after
    /// the name.
    pub fn read(line: &str) -> Association {
        let bar = line.rmatch_indices('|').nth(10).or(line.match_indices('|').next());
        let (account, rest) =
            bar.and_then(|(at, _)| Some((line.get(..at)?, line.get(at + 1..)?))).unwrap_or((line, ""));
        let (account, mut columns) = (account.to_owned(), crate::columns(rest));
        let mut next = || columns.next().unwrap_or_default();
        let [user, partition] = [next(), next()].map(str::to_owned);
        let qoses = crate::words(next());
        let [default_qos, parent] = [next(), next()].map(str::to_owned);
        let [grp, per_job, per_node] = [next(), next(), next()].map(Tres::read);
        let minutes =
            ["GrpTRESMins", "GrpTRESRunMins", "MaxTRESMins"].map(|field| (field, Tres::read(next())));
        let at_once = [grp, per_job, Tres::default(), Tres::default(), per_node];
        let limits = Limits { at_once, minutes: minutes.to_vec() };
        Association { account, user, partition, qoses, default_qos, parent, limits }
    }

    /// Its limits without those that Slurm tests for no job: an account's own on single jobs, which its users have.
    pub fn tested(&self) -> Limits {
        let mut limits = self.limits.clone();
        if self.user.is_empty() {
            let [_, rest @ ..] = &mut limits.at_once;
            rest.fill(Tres::default());
            limits.minutes.retain(|(field, _)| *field != "MaxTRESMins");
        }
        limits
    }
}

/// All associations of a cluster, or those of accounts and of one user. Slurm ignores case in their names.
#[derive(Clone, Debug, Default)]
pub struct Associations {
    /// In sacctmgr's order.
    pub all: Vec<Association>,
    /// The lines that have too many columns, because a name has a bar, and several lines of one: coordinators name
    /// accounts. Which one is which is a guess then.
    pub odd: Vec<String>,
    by_key: HashMap<[String; 3], usize>,
    /// The places of each user's own.
    by_user: HashMap<String, Vec<usize>>,
}

impl Associations {
    /// Reads them.
    pub fn read(text: &str) -> Associations {
        let mut found = Associations::default();
        let columns = columns_of(ASSOCIATIONS);
        let mut before = String::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            // The name of an account may have several lines.
            let line = std::mem::take(&mut before) + line;
            if !line.contains('|') {
                before = line + "\n";
                continue;
            }
            let is_odd = crate::columns(&line).count() > columns || line.contains('\n');
            found.add(Association::read(&line));
            found.odd.extend(is_odd.then_some(line));
        }
        found
    }

    /// Adds one, unless it is there.
    pub fn add(&mut self, one: Association) {
        let (at, key) = (self.all.len(), key(&one.account, &one.user, &one.partition));
        if self.by_key.contains_key(&key) {
            return;
        }
        self.by_user.entry(one.user.to_ascii_lowercase()).or_default().push(at);
        self.by_key.insert(key, at);
        self.all.push(one);
    }

    fn at(&self, account: &str, user: &str, partition: &str) -> Option<(usize, &Association)> {
        let at = *self.by_key.get(&key(account, user, partition))?;
        Some((at, self.all.get(at)?))
    }

    /// A user's own associations in every account, with their places; with an empty name, those of accounts.
    pub fn of_user(&self, user: &str) -> impl Iterator<Item = (usize, &Association)> {
        let places = self.by_user.get(&user.to_ascii_lowercase());
        places.into_iter().flatten().filter_map(|at| Some((*at, self.all.get(*at)?)))
    }

    /// The user's own for the partition, or else for all.
    pub fn own(&self, account: &str, user: &str, partition: &str) -> Option<(usize, &Association)> {
        self.at(account, user, partition).or_else(|| self.at(account, user, ""))
    }

    /// An account's and those above it, up to root's, with their places.
    pub fn above(&self, account: &str) -> impl Iterator<Item = (usize, &Association)> {
        let of = |name: &str| self.at(name, "", "").filter(|_| !name.is_empty());
        // A circle would have no end.
        std::iter::successors(of(account), move |(_, one)| of(&one.parent)).take(self.all.len())
    }

    /// Those that are charged for a job, with their names: its user's own, then each account's up to root.
    pub fn of(&self, account: &str, user: &str, partition: &str) -> Vec<(String, &Association)> {
        let own = self.own(account, user, partition).map(|(_, own)| {
            let part =
                if own.partition.is_empty() { String::new() } else { format!(" and partition {partition}") };
            (format!("user {user} in account {account}{part}"), own)
        });
        let above = self.above(account).map(|(_, one)| (format!("account {}", one.account), one));
        own.into_iter().chain(above).collect()
    }
}

fn key(account: &str, user: &str, partition: &str) -> [String; 3] {
    [account, user, partition].map(str::to_ascii_lowercase)
}

#[cfg(test)]
mod tests;
