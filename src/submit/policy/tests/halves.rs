//! Updates that pass: whatever part of one Slurm takes, the job that is left would pass as a submission. Names may be
//! empty, which gives a job its default QOS and account and takes it out of its reservation.

use proptest::prelude::*;

use super::*;
use crate::config::rules::Rules;

fn one_of(words: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    proptest::sample::select(words)
}

const SITES: [&str; 4] = [
    "",
    "GovernedPartitions=owned",
    "ShareReservations=course\nShareOnlyPartitions=shares\nGpuPartitions=gpus",
    "ExemptReservations=course\nForeignTypes=allow",
];

/// A job that waits.
fn had() -> impl Strategy<Value = String> {
    let names = one_of(&["qos=normal", "qos=qos_lafferty", "qos=qos_sum", "qos=qos_shards", "user=2001"]);
    let place =
        one_of(&["", "account=mine", "p=gpus", "p=owned", "reservation=course", "reservation=x p=main"]);
    let gpus = one_of(&[
        "",
        "node=gres/gpu:a40:2",
        "node=gres/gpu:2",
        "job=gres/gpu:a40:4",
        "task=gres/gpu:a40:1 n=2",
        "node=gres/mps:20",
        "task=gres/gpu:a40:1 n=4 per-node=2",
        "node=gres/gpu:p100:1",
    ]);
    let nodes = one_of(&["", "N=1", "N=2 Nmax=2", "N=2", "N=1 Nmax=4"]);
    (names, place, gpus, nodes)
        .prop_map(|(names, place, gpus, nodes)| format!("{names} {place} {gpus} {nodes}"))
}

/// What an update says.
fn change() -> impl Strategy<Value = String> {
    let qos = one_of(&["", "", "qos=", "qos=qos_lafferty", "qos=normal", "qos=qos_sum"]);
    let place = one_of(&[
        "",
        "",
        "account=",
        "account=mine",
        "p=",
        "p=owned",
        "p=shares",
        "reservation=",
        "reservation=x",
    ]);
    let gpus = one_of(&[
        "",
        "",
        "node=",
        "node=gres/gpu:a40:1",
        "job=gres/gpu:a40:2",
        "node=gres/gpu:1",
        "node=gres/mps:10",
    ]);
    let nodes = one_of(&["", "", "N=1 Nmax=1", "N=3 Nmax=3", "n=6", "N=4"]);
    (qos, place, gpus, nodes).prop_map(|(qos, place, gpus, nodes)| format!("{qos} {place} {gpus} {nodes}"))
}

/// The rule that refuses this as a submission. An empty name is none.
fn broken_as(job: &Request, policy: &Policy) -> Option<Rule> {
    let named = |name: Option<&'_ [u8]>| name.is_some_and(|name| !name.is_empty());
    let mut job = *job;
    job.qos = job.qos.filter(|name| named(Some(name)));
    job.account = job.account.filter(|name| named(Some(name)));
    job.partition = job.partition.filter(|name| named(Some(name)));
    job.reservation = job.reservation.filter(|name| named(Some(name)));
    broken(judge(&job, policy, &TABLE))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_part_of_an_update_that_passes_leaves_a_job_that_may_be_there(
        had in had(), change in change(), site in one_of(&SITES), anew in any::<bool>(),
    ) {
        let (policy, existing) = (Rules::parse(site).unwrap().policy, asked(&had));
        let said = Request { user_id: 0, ..asked(&change) };
        let mut others = Vec::new();
        others.extend((said.min_nodes.is_some() || said.max_nodes.is_some()).then_some("NumNodes"));
        others.extend(said.num_tasks.map(|_| "NumTasks"));
        let update = Update { job: b"12_3", array: false, request: said.into(), anew, others: &others };
        // The job waits, so it was accepted.
        if broken_as(&existing, &policy).is_some() {
            return Ok(());
        }
        let Ok(accepted) = judge_update(&update, &existing, &policy, &TABLE) else { return Ok(()) };
        let names = Request {
            qos: said.qos.or(existing.qos), account: said.account.or(existing.account),
            partition: said.partition.or(existing.partition), reservation: said.reservation.or(existing.reservation),
            ..existing
        };
        let most = accepted.most_nodes.or(said.max_nodes).or(existing.max_nodes);
        let nodes = Request {
            min_nodes: said.min_nodes.or(existing.min_nodes), max_nodes: most,
            num_tasks: said.num_tasks.or(existing.num_tasks), ..names
        };
        let whole = Request { max_nodes: most, ..said.over(&existing) };
        for (part, job) in [("names", names), ("nodes", nodes), ("all", whole)] {
            let rule = broken_as(&job, &policy);
            prop_assert!(rule.is_none(), "{had} -> {change} [{site}] anew={anew}\n {part}: {rule:?} {job:?}");
        }
    }
}
