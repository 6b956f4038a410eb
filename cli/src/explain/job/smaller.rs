//! How many GPUs, or how long a time, a waiting job could request to pass the limits now. Doesn't check whether nodes
//! have these GPUs free.

use serde::Serialize;

use super::limits::Limit;
use gpushare_slurm_text::queue::Row;

/// The largest request of the same kind that passes the limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Smaller {
    /// How many GPUs; 0 if even one is too many.
    pub gpus: u64,
    /// Such as `gpu:a40` or `gpu`.
    pub gres: String,
    /// Options for a new job, if they can be determined.
    pub options: Option<String>,
}

/// `None` if no limit stops the job, if a limit on something else than its GPUs does, or if it requests several types.
pub fn of(job: &Row, limits: &[Limit]) -> Option<Smaller> {
    let typed: Vec<&str> = job.tres.keys().filter_map(|name| name.strip_prefix("gres/gpu:")).collect();
    let (gres, names) = match typed.as_slice() {
        [] => ("gpu".to_owned(), vec!["gres/gpu".to_owned()]),
        [one] => (format!("gpu:{one}"), vec!["gres/gpu".to_owned(), format!("gres/gpu:{one}")]),
        _ => return None,
    };
    let is_of_gpus = |limit: &&Limit| names.contains(&limit.tres) && limit.minutes.is_none();
    if !is_stopped_by(limits, |limit| is_of_gpus(&limit)) {
        return None;
    }
    let per_job = |limit: &Limit| match limit.scope {
        super::limits::Scope::Node => limit.limit.saturating_mul(job.nodes.max(1)),
        _ => limit.left(),
    };
    let most = limits.iter().filter(is_of_gpus).map(per_job).min()?;
    let (gpus, options) = options(job, &gres, most);
    // Without the option, Slurm would charge another account, with other limits.
    let of_account = !limits.iter().all(|limit| limit.is_of_qos);
    let account = if of_account { format!("--account={} ", job.account) } else { String::new() };
    let options = options.map(|options| format!("--qos={} {account}{options}", job.qos));
    Some(Smaller { gpus, gres, options })
}

/// The longest time limit in minutes with which the job could start now, if only limits on minutes stop it.
pub fn longest(limits: &[Limit]) -> Option<u64> {
    let longest =
        limits.iter().filter_map(|limit| limit.minutes.as_ref()).map(|minutes| minutes.longest).min();
    longest.filter(|longest| *longest > 0 && is_stopped_by(limits, |limit| limit.minutes.is_some()))
}

/// Whether limits stop the job, and only such.
fn is_stopped_by(limits: &[Limit], is_one: impl Fn(&Limit) -> bool) -> bool {
    let mut stopping = limits.iter().filter(|limit| limit.stops()).peekable();
    stopping.peek().is_some() && stopping.all(is_one)
}

/// The most that can be requested with the job's own kind of option, and that option.
fn options(job: &Row, gres: &str, most: u64) -> (u64, Option<String>) {
    let nodes = job.nodes.max(1);
    let is_only = |text: &str| {
        let plain = text.strip_prefix("gres").and_then(|rest| rest.strip_prefix([':', '/']));
        let rest = plain.unwrap_or(text).strip_prefix(gres);
        // The database has types in lowercase.
        let rest = rest.or_else(|| {
            plain.unwrap_or(text).get(gres.len()..).filter(|_| text.to_ascii_lowercase().contains(gres))
        });
        rest.is_some_and(|rest| {
            rest.is_empty() || rest.strip_prefix(':').is_some_and(|count| count.parse::<u64>().is_ok())
        })
    };
    match (job.per_node.as_str(), job.per_job.as_str()) {
        (text, "") if !job.per_other && is_only(text) => {
            let each = most / nodes;
            let on = if nodes > 1 { format!("-N{nodes} ") } else { String::new() };
            (each * nodes, (each > 0).then(|| format!("{on}--gres={gres}:{each}")))
        }
        ("", text) if !job.per_other && is_only(text) => {
            let asked = gres.split_once(':').map_or(String::new(), |(_, gres_type)| format!("{gres_type}:"));
            // Every node of the job has at least one GPU.
            (most, (most >= nodes && most > 0).then(|| format!("--gpus={asked}{most}")))
        }
        _ => (most, None),
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::concerning;
    use super::super::limits::tests::job;
    use super::super::records::{known, tests::TEXT};
    use super::*;

    fn smaller(job: &Row) -> Option<(u64, String, Option<String>)> {
        let limits = concerning(job, &known(TEXT, job, &["q"]), &[]);
        of(job, &limits).map(|smaller| (smaller.gpus, smaller.gres, smaller.options))
    }

    #[test]
    fn the_largest_request_that_passes_is_named() {
        let mut asked = job(7, "alice", "PENDING", "gres/gpu=2,gres/gpu:a40=2");
        let told =
            |gpus, options: Option<&str>| Some((gpus, "gpu:a40".to_owned(), options.map(str::to_owned)));
        assert_eq!(smaller(&asked), told(1, Some("--qos=q --account=acct --gres=gpu:a40:1")));
        asked.nodes = 2;
        assert_eq!(smaller(&asked), told(0, None), "one on each of two nodes is more than is left");
        (asked.per_node, asked.per_job) = (String::new(), "gres:gpu:A40:2".to_owned());
        asked.nodes = 1;
        assert_eq!(smaller(&asked), told(1, Some("--qos=q --account=acct --gpus=a40:1")));
        asked.per_other = true;
        assert_eq!(smaller(&asked), told(1, None));
    }

    #[test]
    fn nothing_is_named_where_gpus_are_not_what_is_missing() {
        assert_eq!(smaller(&job(7, "alice", "PENDING", "gres/gpu:a40=1")), None, "it passes");
        assert_eq!(smaller(&job(7, "alice", "PENDING", "gres/gpu:a40=2,gres/gpu:h100=1")), None, "two types");
        let all = job(7, "alice", "PENDING", "cpu=3,gres/gpu:a40=2");
        let limits = concerning(&all, &known(TEXT, &all, &["part", "q"]), &[]);
        assert_eq!(of(&all, &limits), None, "CPUs are missing too");
    }
}
