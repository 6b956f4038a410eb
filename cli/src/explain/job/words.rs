//! A limit in words: how much of it is used, by whom, and what it means for a job.

use super::limits::{Limit, Scope, User, Verdict};
use super::minutes::{Minutes, NO_LIMIT, USED};

/// Further jobs would not help.
const JOBS: usize = 5;
/// Further users would not help.
const USERS: usize = 8;

/// What it limits, in words: `a40s`, `minutes of a40s`.
fn what(limit: &Limit) -> String {
    let s = if limit.limit == 1 && limit.minutes.is_none() { "" } else { "s" };
    let of = if limit.minutes.is_some() { "minutes of " } else { "" };
    let what = match limit.tres.as_str() {
        "gres/gpu" => format!("GPU{s}"),
        "cpu" => format!("CPU{s}"),
        "mem" => "memory".to_owned(),
        tres => match tres.strip_prefix("gres/gpu:") {
            Some(gres_type) => format!("{gres_type}{s}"),
            None => tres.strip_prefix("gres/").unwrap_or(tres).to_owned(),
        },
    };
    format!("{of}{what}")
}

/// What the part of a limit that isn't free is.
fn taken(limit: &Limit) -> &'static str {
    match limit.minutes {
        Some(_) if limit.field == USED => "used",
        Some(_) => "reserved for running jobs",
        None => "in use",
    }
}

/// How much must become free, and when that is.
fn free(limit: &Limit, more: &str, for_more: u64) -> String {
    let one = for_more == 1;
    let amount = amount(&limit.tres, for_more);
    let of_used = limit.minutes.as_ref().filter(|_| limit.field == USED);
    let Some(Minutes { kept, enough_in, reset, .. }) = of_used else {
        return format!("{amount}{more} {} free", if one { "is" } else { "are" });
    };
    let is_kept = kept.saturating_add(limit.asks) > limit.limit;
    let kept = if *kept > 0 { format!(" ({kept} are reserved for running jobs)") } else { String::new() };
    match (enough_in, reset.as_str()) {
        (Some(seconds), _) => {
            let have = if one { "has" } else { "have" };
            format!("{amount}{more} {have} decayed{kept}, in about {} if no other job starts", time(*seconds))
        }
        _ if is_kept => format!("{amount}{more} are free{kept}"),
        (None, "") => {
            format!("{amount}{more} are free{kept}: used minutes don't decay; ask an administrator")
        }
        (None, reset) => {
            format!("{amount}{more} are free{kept}: Slurm resets used minutes {}", reset.to_ascii_lowercase())
        }
    }
}

/// How much of a limit is in use, and by whom.
pub fn in_use(limit: &Limit) -> String {
    let Limit { holder, scope, tres, .. } = limit;
    let (whose, what, most) = (whose(*scope), what(limit), amount(tres, limit.limit));
    let Some(used) = limit.used else { return format!("{holder}, {whose}: at most {most} {what}") };
    let whom = whom(limit);
    let whom = if limit.is_untold { ": can't tell who".to_owned() } else { whom };
    let decay = match &limit.minutes {
        Some(minutes) if limit.field == USED => format!("; {}", decay(minutes)),
        _ => String::new(),
    };
    format!("{holder}, {whose}: {} of {most} {what} {}{whom}{decay}", amount(tres, used), taken(limit))
}

/// When used minutes come back.
pub fn decay(minutes: &Minutes) -> String {
    let half = (minutes.half_life > 0).then(|| format!("half decays in {}", time(minutes.half_life)));
    let reset = (!minutes.reset.is_empty()).then(|| format!("reset {}", minutes.reset.to_ascii_lowercase()));
    let all: Vec<String> = half.into_iter().chain(reset).collect();
    if all.is_empty() { "used minutes don't decay".to_owned() } else { all.join(", ") }
}

/// What stops the job, in one line: the first limit, or of those on used minutes the one that stops it the longest.
pub fn headline(limits: &[Limit]) -> Option<String> {
    let waits = |limit: &&Limit| limit.field == USED && matches!(limit.verdict, Verdict::Waits { .. });
    let ends =
        |limit: &&Limit| limit.minutes.as_ref().map_or(u64::MAX, |it| it.enough_in.unwrap_or(u64::MAX));
    let first = limits.iter().find(|limit| limit.stops())?;
    let last = limits.iter().rev().filter(waits).max_by_key(ends).filter(|_| waits(&first));
    answer(last.unwrap_or(first))
}

/// What stops the job, in one line, if it is a limit: `qos_lafferty uses 2 of its 2 a40s: alice 2 (job 7); …`
pub fn answer(limit: &Limit) -> Option<String> {
    let Limit { holder, scope, tres, .. } = limit;
    let name = holder.strip_prefix("QOS '").and_then(|name| name.strip_suffix('\'')).unwrap_or(holder);
    let what = what(limit);
    let most = amount(tres, limit.limit);
    let asks = match amount(tres, limit.asks) {
        _ if limit.asks >= NO_LIMIT => "it has no time limit".to_owned(),
        asks => format!("it asks for {asks}"),
    };
    match (limit.verdict, limit.used) {
        (Verdict::Never, _) => {
            let whose = whose(*scope);
            Some(format!("{name} allows at most {most} {what} for {whose}, and {asks}: it never starts"))
        }
        (Verdict::Waits { for_more }, Some(used)) => {
            let used = amount(tres, used);
            let allowed =
                |who| format!("the {who} has {used} of the {most} {what} that {name} allows one {who}");
            let uses = match scope {
                Scope::User => allowed("user"),
                Scope::Account => allowed("account"),
                _ if limit.field == USED => format!("{name} has used {used} of its {most} {what}"),
                _ => format!("{name} uses {used} of its {most} {what}"),
            };
            Some(format!("{uses}{}; starts when {}", whom(limit), free(limit, "", for_more)))
        }
        _ => None,
    }
}

/// A number of a TRES.
pub fn amount(name: &str, count: u64) -> String {
    match name {
        _ if count >= NO_LIMIT => "any number".to_owned(),
        "mem" => format!("{count}M"),
        _ => count.to_string(),
    }
}

/// A limit that a job could never pass, and what happens to it.
pub fn above(limit: &Limit, then: &str) -> String {
    let Limit { holder, field, tres, .. } = limit;
    let (asks, most) = (amount(tres, limit.asks), amount(tres, limit.limit));
    let of = if limit.minutes.is_some() { "minutes of " } else { "" };
    format!(
        "{holder} never allows more than {most} {of}{tres} for {} ({field}), but this asks for {asks}: {then}",
        whose(limit.scope)
    )
}

fn whose(scope: Scope) -> &'static str {
    match scope {
        Scope::All => "all its jobs",
        Scope::User => "one user's jobs",
        Scope::Account => "one account's jobs",
        Scope::Job => "one job",
        Scope::Node => "one job on one node",
    }
}

/// A limit and what it means for the job, as lines.
pub fn limit(limit: &Limit) -> Vec<String> {
    let Limit { holder, field, scope, tres, users, unseen, asks, verdict, .. } = limit;
    let (whose, most) = (whose(*scope), amount(tres, limit.limit));
    let of = if limit.minutes.is_some() { "minutes of " } else { "" };
    let count = match limit.used {
        Some(used) => format!("{} of {most} {of}{tres} {}", amount(tres, used), taken(limit)),
        None => format!("at most {most} {of}{tres}"),
    };
    let mut lines = vec![format!("  {holder}, {whose} ({field}): {count}")];
    if !users.is_empty() || *unseen > 0 {
        lines.push(format!("    {}by {}", lately(limit), by_whom(users, *unseen, tres)));
    }
    let asks = match limit.minutes {
        Some(_) if *asks >= NO_LIMIT => "any number (it has no time limit)".to_owned(),
        Some(_) => format!("{} (for its time limit)", amount(tres, *asks)),
        None => amount(tres, *asks),
    };
    let then = match verdict {
        Verdict::Fits => "it fits".to_owned(),
        Verdict::Waits { for_more } => format!("it waits until {}", free(limit, " more", *for_more)),
        Verdict::Never => "that is above the limit, so it waits forever".to_owned(),
    };
    lines.push(format!("    the job asks for {asks}: {then}"));
    lines
}

pub fn by_whom(users: &[User], unseen: u64, tres: &str) -> String {
    let user = |user: &User| {
        if user.jobs.is_empty() {
            return format!("{} {}", user.user, amount(tres, user.used));
        }
        let jobs = user.jobs.iter().take(JOBS).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if user.jobs.len() > JOBS { ", …" } else { "" };
        let word = if user.jobs.len() == 1 { "job" } else { "jobs" };
        format!("{} {} ({word} {jobs}{more})", user.user, amount(tres, user.used))
    };
    let mut all: Vec<String> = users.iter().take(USERS).map(user).collect();
    if let Some(others) = users.len().checked_sub(USERS).filter(|others| *others > 0) {
        let used = users.iter().skip(USERS).map(|user| user.used).sum();
        all.push(format!("{others} other users {}", amount(tres, used)));
    }
    if unseen > 0 {
        all.push(format!("jobs that Slurm doesn't show you {}", amount(tres, unseen)));
    }
    all.join(", ")
}

/// Who uses it, after a colon; empty if nobody is known.
fn whom(limit: &Limit) -> String {
    let whom = by_whom(&limit.users, limit.unseen, &limit.tres);
    if whom.is_empty() { whom } else { format!(": {}{whom}", lately(limit)) }
}

/// Of what time the users are: slurmctld counts a QOS's minutes, but not whose they are.
fn lately(limit: &Limit) -> &'static str {
    if limit.field == USED && limit.is_of_qos { "in the last 30 days " } else { "" }
}

/// A number of seconds.
pub fn time(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
