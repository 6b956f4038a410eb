//! Acts on jobs beyond a limit: asks whether the job is still the one that was checked, tells its user, and then
//! cancels it, or requeues and holds it. A run acts on few jobs and for a short time: the next one goes on.

use std::time::{Duration, Instant};

use gpushare_guard::{Finding, Member};
use gpushare_qos::config::Guard;
use gpushare_slurm_text::{Job, State, job};

use super::write;
use gpushare_slurm_run::control::{Ask, GONE, ask, requeue};
use gpushare_terminal::complain;

/// How many jobs a run acts on.
pub(super) const MOST: usize = 20;
/// After this time a run begins with no other job: what it knows of jobs grows old.
const ALL_IN: Duration = Duration::from_secs(20);

const CANCELLED: &str = "cancelled";
const HELD: &str = "requeued and held";

/// What was done to a job, or why it couldn't be.
pub(super) struct Deed {
    pub job: Member,
    /// `cancelled` or `requeued and held`
    pub what: &'static str,
    /// The limit.
    pub limit: String,
    /// Why it failed.
    pub error: Option<String>,
}

pub(super) fn all(chosen: &[(Member, Finding)], guard: Guard) -> Vec<Deed> {
    let begun = Instant::now();
    let (deeds, is_done) = first(chosen, guard, || begun.elapsed() < ALL_IN, &mut ask);
    for Deed { job, error, .. } in &deeds {
        if let Some(error) = error {
            complain(format!("job {}: {error}", job.name));
        }
    }
    if !is_done {
        complain("more jobs are beyond a limit: the next run goes on");
    }
    deeds
}

/// The deeds, and whether these are all.
fn first(
    chosen: &[(Member, Finding)],
    guard: Guard,
    mut in_time: impl FnMut() -> bool,
    ask: Ask,
) -> (Vec<Deed>, bool) {
    let mut deeds = Vec::new();
    for (at, (job, finding)) in chosen.iter().enumerate() {
        if at == MOST || !in_time() {
            return (deeds, false);
        }
        let limit = write::limit(finding);
        let (what, done) = match is_the_same(job, ask) {
            Ok(true) => act(job, &limit, guard, ask),
            Ok(false) => continue,
            Err(error) => (if guard == Guard::RequeueHold { HELD } else { CANCELLED }, Err(error)),
        };
        deeds.push(Deed { job: job.clone(), what, limit, error: done.err() });
    }
    (deeds, true)
}

/// Whether a job still runs and hasn't started anew.
fn is_the_same(job: &Member, ask: Ask) -> Result<bool, String> {
    let (program, arguments) = job::JOBS;
    let id = job.id.to_string();
    let said = match ask(program, &[arguments, &["-j", &id]].concat()) {
        Ok(said) => said,
        Err(error) if error.contains(GONE) => return Ok(false),
        Err(error) => return Err(error),
    };
    let mut jobs = said.lines().filter_map(Job::read);
    Ok(jobs.any(|now| (now.id, now.start, now.state) == (job.id, job.start, State::Runs)))
}

fn act(job: &Member, limit: &str, guard: Guard, ask: Ask) -> (&'static str, Result<(), String>) {
    let (handle, requeues) = (job.handle.as_str(), guard == Guard::RequeueHold);
    let what = if requeues { "requeued and held, or cancelled if it can't be requeued" } else { CANCELLED };
    let note = format!("gpushare: job {} is beyond {limit}, and is {what}", job.name);
    // Only srun and salloc, and a batch job's output, show it; nothing depends on it.
    let _ = ask("scontrol", &["notify", handle, &note]);
    if requeues {
        match requeue("requeuehold", handle, ask) {
            // Its owner may release a job that is held so, and no job that an administrator holds.
            Ok(true) => return (HELD, ask("scontrol", &["hold", handle]).map(drop)),
            Ok(false) => {}
            Err(error) => return (HELD, Err(error)),
        }
    }
    (CANCELLED, ask("scancel", &[handle]).map(drop))
}

#[cfg(test)]
mod tests {
    use gpushare_guard::{Rules, agree};
    use gpushare_machine::config::Config;
    use gpushare_slurm_text::{Associations, Qos};
    use gpushare_slurm_text::{Settings, Snapshot};

    use super::*;

    /// A line of squeue; a job has started when its number says.
    fn line(id: usize, start: usize, state: &str) -> String {
        let line = format!("{id}|{id}|2001|alice|acct|q|p|(null)|{state}|{start}|1|None|gres/gpu:a40=1");
        gpushare_slurm_text::job::padded(&line) + "\n"
    }

    /// Jobs 1 to `last`, of which none may have a GPU.
    fn chosen(last: usize) -> Vec<(Member, Finding)> {
        let now = Snapshot {
            jobs: (1..=last).filter_map(|id| Job::read(line(id, id, "RUNNING").trim_end())).collect(),
            qoses: [("q".to_owned(), Qos::read("q|gres/gpu:a40=0"))].into(),
            associations: Associations::read("root|\n"),
            settings: Settings::parse("AccountingStorageEnforce=limits\n"),
            ..Snapshot::default()
        };
        agree(&now, &now, &Rules::of(&Config::default().policy, Default::default()), MOST + 1)
    }

    /// What was done, and the commands that were run, without the question and the note.
    fn done(
        chosen: &[(Member, Finding)],
        guard: Guard,
        refused: impl Fn(&str, &str) -> Option<&'static str>,
    ) -> (Vec<String>, Vec<String>) {
        let mut commands = Vec::new();
        let mut ask =
            |program: &str, arguments: &[&str]| {
                let job = arguments.last().copied().unwrap_or_default();
                if program == "squeue" {
                    return match refused("squeue", job) {
                        Some(GONE) => Err(GONE.to_owned()),
                        Some(state) => Ok(line(job.parse().unwrap(), 1, state)),
                        None => Ok(line(1, 1, "RUNNING")
                            + &line(job.parse().unwrap(), job.parse().unwrap(), "RUNNING")),
                    };
                }
                if arguments.contains(&"notify") {
                    return Err("nobody listens".to_owned());
                }
                commands.push([&[program], arguments].concat().join(" "));
                let verb = arguments.first().copied().filter(|_| program == "scontrol").unwrap_or(program);
                refused(verb, job).map_or(Ok(String::new()), |why| Err(why.to_owned()))
            };
        let (deeds, _) = first(chosen, guard, || true, &mut ask);
        let of = |deed: &Deed| format!("{} {} {:?}", deed.job.id, deed.what, deed.error.as_deref());
        (deeds.iter().map(of).collect(), commands)
    }

    #[test]
    fn a_requeued_job_is_held_so_that_its_owner_cannot_release_it() {
        let (deeds, commands) = done(&chosen(1), Guard::RequeueHold, |_, _| None);
        assert_eq!(deeds, ["1 requeued and held None"]);
        assert_eq!(commands, ["scontrol requeuehold 1", "scontrol hold 1"]);
    }

    #[test]
    fn a_job_that_cannot_be_requeued_is_cancelled() {
        for why in [
            "Requested operation is presently disabled for job 1",
            "Only batch jobs are accepted or processed",
        ] {
            let refused = move |verb: &str, _: &str| (verb == "requeuehold").then_some(why);
            let (deeds, commands) = done(&chosen(1), Guard::RequeueHold, refused);
            assert_eq!(deeds, ["1 cancelled None"]);
            assert_eq!(commands, ["scontrol requeuehold 1", "scancel 1"]);
        }
        // If slurmctld doesn't answer, nobody knows that.
        let refused = |verb: &str, _: &str| (verb == "requeuehold").then_some("no answer");
        let (deeds, commands) = done(&chosen(1), Guard::RequeueHold, refused);
        assert_eq!(deeds, [r#"1 requeued and held Some("no answer")"#]);
        assert_eq!(commands, ["scontrol requeuehold 1"]);
        let (_, commands) = done(&chosen(1), Guard::Cancel, |_, _| None);
        assert_eq!(commands, ["scancel 1"]);
    }

    #[test]
    fn a_job_that_has_ended_or_started_again_stays() {
        for (said, expected) in [(GONE, 0), ("COMPLETING", 0), ("PENDING", 0), ("RUNNING", 1)] {
            let refused = move |verb: &str, job: &str| (verb == "squeue" && job == "1").then_some(said);
            assert_eq!(done(&chosen(1), Guard::Cancel, refused).1.len(), expected, "{said}");
        }
        // Job 2 started at 1 now, and job 3 is still the same.
        let refused = |verb: &str, job: &str| (verb == "squeue" && job == "2").then_some("RUNNING");
        assert_eq!(done(&chosen(3), Guard::Cancel, refused).1, ["scancel 1", "scancel 3"]);
    }

    #[test]
    fn a_run_acts_on_few_jobs_and_not_for_long() {
        let all = chosen(100);
        assert_eq!(all.len(), MOST + 1);
        let mut ask = |program: &str, arguments: &[&str]| match (program, arguments.last()) {
            ("squeue", Some(id)) => Ok(line(id.parse().unwrap(), id.parse().unwrap(), "RUNNING")),
            _ => Ok(String::new()),
        };
        let (deeds, is_done) = first(&all, Guard::Cancel, || true, &mut ask);
        assert_eq!((deeds.len(), is_done), (MOST, false));
        let mut left = 3;
        let mut in_time = || {
            left -= 1;
            left > 0
        };
        let (deeds, is_done) = first(&all, Guard::Cancel, &mut in_time, &mut ask);
        assert_eq!((deeds.len(), is_done), (2, false));
        assert!(first(&all[..2], Guard::Cancel, || true, &mut ask).1);
    }
}
