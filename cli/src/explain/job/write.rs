//! The report about a job, as lines.

use std::fmt::Write;

use super::limits::Limit;
use super::place::Place;
use super::smaller::Smaller;
use super::words::{amount, headline, limit, time};
use super::{Told, What, reason};
use gpushare_slurm_text::queue::Tres;
use gpushare_terminal::clean;

/// All reports, and how many are not shown.
pub fn text(told: &[Told], more: usize) -> String {
    let mut text = told.iter().map(one).collect::<Vec<_>>().join("\n");
    if more > 0 {
        let _ = writeln!(text, "\n{more} more; name one, such as 12 or 12_3");
    }
    text
}

fn one(told: &Told) -> String {
    let Told { job, user, state, what } = told;
    let mut lines = Vec::new();
    match what {
        What::Waits { reason, because, expected, asks, limits, smaller, shorter, notes } => {
            // A job that is held or waits for a time doesn't start when GPUs are free.
            let by_limits = reason::is_limit(reason) || ["Resources", "Priority", "None"].contains(&reason.as_str());
            lines.extend(headline(limits).filter(|_| by_limits));
            lines.push(format!("job {job} of {user} waits ({reason}): {because}"));
            lines.push(format!("  asks for: {}", amounts(asks)));
            lines.extend(limits.iter().flat_map(limit));
            lines.extend(if by_limits { outlook(limits, smaller.as_ref(), reason, job) } else { Vec::new() });
            lines.extend(shorter.filter(|_| by_limits).map(|minutes| {
                let job = in_a_shell(job);
                format!("  try: `scontrol update JobId={job} TimeLimit={minutes}`: with that it can start now")
            }));
            lines.extend(expected.as_ref().map(|time| format!("  Slurm expects to start it at {time}")));
            lines.extend(notes.iter().map(|note| format!("  note: {note}")));
        }
        What::Runs { since, has, places, notes } => {
            lines.push(format!("job {job} of {user} is {} since {since}", state.to_ascii_lowercase()));
            lines.push(format!("  has: {}", amounts(has)));
            lines.extend(places.iter().map(|one| place(one, job, user)));
            lines.extend(notes.iter().map(|note| format!("  note: {note}")));
        }
        What::Hidden {} => lines.push(format!(
            "job {job} of {user} is {} according to the accounting database; slurmctld doesn't show it to you \
             (PrivateData=jobs)",
            state.to_ascii_lowercase()
        )),
        What::Over { end } if ["Unknown", "N/A", ""].contains(&end.as_str()) => {
            lines.push(format!("job {job} of {user} has ended: {state}"));
        }
        What::Over { end } => lines.push(format!("job {job} of {user} has ended: {state}, at {end}")),
    }
    lines.iter().map(|line| clean(line) + "\n").collect()
}

/// Lists amounts without the TRES that users don't request by themselves.
fn amounts(tres: &Tres) -> String {
    let untyped = |name: &str| name == "gres/gpu" && tres.keys().any(|name| name.starts_with("gres/gpu:"));
    let shown = tres.iter().filter(|(name, _)| *name != "billing" && !untyped(name));
    shown.map(|(name, count)| format!("{} {name}", amount(name, *count))).collect::<Vec<_>>().join(", ")
}

/// What would pass now.
fn outlook(limits: &[Limit], smaller: Option<&Smaller>, reason: &str, job: &str) -> Vec<String> {
    let said = match smaller {
        None if limits.iter().any(Limit::stops) => return Vec::new(),
        None if reason::is_limit(reason) => {
            "none of these limits stops it now; Slurm's reason is from its last try".to_owned()
        }
        None if reason == "Resources" => {
            "these limits let it start: what it lacks may be CPUs, memory or nodes (-c, --mem, -N)".to_owned()
        }
        None => "none of the limits that gpushare checks stops it now".to_owned(),
        Some(Smaller { gpus: 0, gres, .. }) => format!("these limits let no job with {gres} start now"),
        Some(Smaller { gpus, gres, .. }) => {
            format!("these limits let a job with {gres}:{gpus} start now, if a node has it free")
        }
    };
    let options = smaller.filter(|smaller| smaller.gpus > 0).and_then(|smaller| smaller.options.as_ref());
    let job = in_a_shell(job);
    let then = options.map(|options| format!("  try: {options} (a new job; then `scancel {job}`)"));
    [format!("  {said}")].into_iter().chain(then).collect()
}

/// As scancel(1) takes it in a shell: without the `%2` of an array's tasks, and quoted.
fn in_a_shell(job: &str) -> String {
    let without = job.split_once('%').map_or_else(|| job.to_owned(), |(tasks, _)| format!("{tasks}]"));
    if without.contains('[') { format!("'{without}'") } else { without }
}

fn place(place: &Place, job: &str, user: &str) -> String {
    let Place { node, gpus, units, capacity, memory, idle, source } = place;
    let indexes = gpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let word = if gpus.len() == 1 { "GPU" } else { "GPUs" };
    let of = capacity.map(|capacity| format!(" of its {capacity}")).unwrap_or_default();
    let mut parts = Vec::new();
    match (units, gpus.is_empty()) {
        (Some(units), false) => parts.push(format!("{word} {indexes}, {units}{of} units")),
        (None, false) => parts.push(format!("{word} {indexes}, whole")),
        (Some(units), true) => parts.push(format!("a share of {units} units")),
        (None, true) => parts.push("GPUs".to_owned()),
    }
    parts.extend(memory.map(|mebibytes| format!("{mebibytes} MiB")));
    parts.extend(idle.map(|seconds| match seconds {
        0 => "in use at the last check".to_owned(),
        seconds => format!("not seen in use for {}", time(seconds)),
    }));
    let command = format!("`srun --jobid={job} --overlap gpushare explain {job}`");
    let unknown = gpus.is_empty().then(|| format!("; which GPU only the node knows: as {user}, {command}"));
    let unknown = unknown.unwrap_or_default();
    let from = if *source == "ledger" { "this node's ledger" } else { source };
    format!("  {node}: {} (from {from}){unknown}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::limits::Verdict;
    use super::super::limits::concerning;
    use super::super::limits::tests::job;
    use super::super::minutes::{Minutes, USED};
    use super::super::records::{known, tests::TEXT};
    use super::super::smaller;
    use super::*;

    #[test]
    fn a_job_that_waits_is_told_what_of_and_what_would_start() {
        let asked = job(7, "alice", "PENDING", "cpu=1,mem=2000,gres/gpu=2,gres/gpu:a40=2");
        let rows = [job(1, "bob", "RUNNING", "gres/gpu:a40=1"), job(2, "alice", "RUNNING", "gres/gpu:a40=2")];
        let limits: Vec<Limit> = concerning(&asked, &known(TEXT, &asked, &["q"]), &rows)
            .into_iter()
            .filter(|limit| limit.verdict != Verdict::Fits)
            .collect();
        let smaller = smaller::of(&asked, &limits);
        let told = Told {
            job: asked.name(),
            user: "alice".into(),
            state: "PENDING".into(),
            what: What::Waits {
                reason: "QOSGrpGRES".into(),
                because: reason::plain("QOSGrpGRES"),
                expected: None,
                asks: asked.tres.clone(),
                limits,
                smaller,
                shorter: None,
                notes: vec!["a\x1bb".into()],
            },
        };
        let expected = "\
q uses 3 of its 4 a40s: alice 2 (job 2), bob 1 (job 1); starts when 1 is free
job 7 of alice waits (QOSGrpGRES): the jobs of its QOS together have reached a limit on GPUs or other GRES
  asks for: 1 cpu, 2 gres/gpu:a40, 2000M mem
  QOS 'q', all its jobs (GrpTRES): 3 of 4 gres/gpu:a40 in use
    by alice 2 (job 2), bob 1 (job 1)
    the job asks for 2: it waits until 1 more is free
  QOS 'q', one user's jobs (MaxTRESPU): 2 of 3 gres/gpu:a40 in use
    by alice 2 (job 2)
    the job asks for 2: it waits until 1 more is free
  these limits let a job with gpu:a40:1 start now, if a node has it free
  try: --qos=q --gres=gpu:a40:1 (a new job; then `scancel 7`)
";
        let text = text(&[told], 0);
        let (head, note) = text.split_at(expected.len());
        assert_eq!(head, expected);
        assert!(note.starts_with("  note: a") && !note.contains('\x1b'), "{note}");
    }

    #[test]
    fn the_first_line_is_what_stops_the_job() {
        for (tres, qos, expected) in [
            (
                "gres/gpu:a40=6",
                "q",
                Some("q allows at most 4 a40s for all its jobs, and it asks for 6: it never starts"),
            ),
            (
                "cpu=3",
                "part",
                Some("part allows at most 2 CPUs for all its jobs, and it asks for 3: it never starts"),
            ),
            (
                "gres/gpu:a40=2",
                "part",
                Some("account 'limits' uses 5 of its 6 a40s: … 5; starts when 1 is free"),
            ),
            ("gres/gpu:a40=1", "q", None),
        ] {
            let asked = job(7, "alice", "PENDING", tres);
            let limits = concerning(&asked, &known(TEXT, &asked, &[qos]), &[]);
            let said = headline(&limits);
            let said = said.map(|said| said.replace("jobs that Slurm doesn't show you", "…"));
            assert_eq!(said.as_deref(), expected, "{tres} {qos}");
        }
    }

    #[test]
    fn of_limits_on_minutes_the_first_line_is_the_last_to_pass() {
        let limit = |tres: &str, enough_in| Limit {
            holder: "QOS 'q'".into(),
            field: USED,
            tres: tres.into(),
            limit: 9,
            used: Some(9),
            asks: 1,
            verdict: Verdict::Waits { for_more: 1 },
            minutes: Some(Minutes { enough_in, ..Minutes::default() }),
            ..Limit::default()
        };
        let [week, later, never] = [
            limit("gres/gpu", Some(7 * 86_400)),
            limit("gres/gpu:a40", Some(11 * 86_400)),
            limit("cpu", None),
        ];
        let told = |limits: &[&Limit]| {
            headline(&limits.iter().map(|one| (*one).clone()).collect::<Vec<_>>()).unwrap_or_default()
        };
        let said = told(&[&week, &later, &week]);
        assert!(
            said.starts_with("q has used 9 of its 9 minutes of a40s") && said.contains("about 11 days"),
            "{said}"
        );
        assert!(told(&[&week, &never, &later]).contains("used minutes don't decay"));
        let now = Limit { field: "GrpTRES", minutes: None, ..week.clone() };
        assert!(
            told(&[&now, &later]).ends_with("starts when 1 is free"),
            "limits on what is in use come first"
        );
        let fits = Limit { verdict: Verdict::Fits, ..never };
        assert!(told(&[&week, &fits]).contains("about 7 days"));
        assert_eq!(told(&[&fits]), "");
    }

    #[test]
    fn places_are_told_as_far_as_they_are_known() {
        let share = Place {
            node: "n1".into(),
            gpus: vec![2],
            units: Some(40),
            capacity: Some(80),
            source: "ledger",
            ..Place::default()
        };
        for (one, expected) in [
            (
                Place { memory: Some(20000), idle: Some(600), ..share.clone() },
                "  n1: GPU 2, 40 of its 80 units, 20000 MiB, not seen in use for 10 min (from this node's ledger)",
            ),
            (
                Place { units: None, capacity: None, gpus: vec![0, 1], source: "slurmctld", ..share.clone() },
                "  n1: GPUs 0,1, whole (from slurmctld)",
            ),
            (
                Place { gpus: Vec::new(), capacity: None, source: "slurmctld", ..share },
                "  n1: a share of 40 units (from slurmctld); which GPU only the node knows: as \
                 alice, `srun --jobid=7 --overlap gpushare explain 7`",
            ),
        ] {
            assert_eq!(place(&one, "7", "alice"), expected);
        }
    }
}
