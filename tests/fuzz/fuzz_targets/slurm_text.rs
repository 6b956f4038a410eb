//! Any text as what Slurm's commands print: no panic; lists of TRES, jobs and versions read the same when they are
//! printed; and no name of a job, whatever is in it, changes the devices of a record that is said to be reliable.
//!
//! Input: a job's name, which any of the readers gets too, and after a NUL its comment.
#![no_main]

use gpushare_slurm_text::record::{Record, Records, Trust};
use gpushare_slurm_text::{
    Associations, Gres, Job, Node, Partition, Reservation, Settings, Tres, assoc_mgr, limits, node, own,
    partition, past, placed, queue, sacct, tres, version,
};
use libfuzzer_sys::fuzz_target;
use std::collections::HashMap;
use std::sync::LazyLock;

fuzz_target!(|text: &str| {
    let (name, comment) = text.split_once('\0').unwrap_or((text, ""));
    tables(name);
    name.lines().for_each(lines);
    printed(name);
    forged(name, comment);
});

/// The readers of whole answers.
fn tables(text: &str) {
    let settings = Settings::parse(text);
    let _ =
        (settings.cluster(), settings.enforces_limits(), settings.slurm_user(), settings.default_memory());
    let _ = (node::read(text), partition::read(text), placed::jobs(text), tres::names(text));
    let _ = limits::not_judged(&limits::qoses(text));
    let _ = (limits::is_whole(text, limits::QOSES), limits::default_account(text, "alice"));
    let associations = Associations::read(text);
    let _ = (associations.of_user("alice").count(), associations.of("acct", "alice", "p").len());
    for qos in assoc_mgr::qoses(text) {
        let _ = (qos.counts("GrpTRES"), qos.of_account("acct", "MaxTRESPA"), qos.of_user(2001, "MaxTRESPU"));
    }
    assoc_mgr::associations(text).for_each(|one| drop(one.counts("GrpTRES")));
    for wanted in [sacct::Wanted::Requests, sacct::Wanted::Jobs, sacct::Wanted::Steps] {
        let _ = sacct::read(&mut text.as_bytes(), b"|", wanted, |job| {
            let _ = (job.has_gpus(), job.is_elsewhere());
        });
    }
}

/// The readers of one line.
fn lines(line: &str) {
    let _ = (Partition::read(line), Reservation::read(line), past::ended(line));
    if let Some(node) = Node::read(line) {
        let _ = (node.why(), node.has("gpu"), node.type_of(0), node.only_type("gpu"));
    }
    if let Some(row) = queue::row(line) {
        let _ = (row.name(), row.is_over(), row.has_nodes(), row.expected_start(), row.first_partition());
    }
    let _ = (own::number(line), own::association(line), own::qos(line, 5));
    let _ = own::parent(line, |account| account.len() % 2 == 0);
    let _ = (sacct::gpus(line.as_bytes()).count(), sacct::count(line.as_bytes(), b"node"));
    let _ = Gres::read(line).iter().map(|gres| gres.indexes().len()).max();
}

/// What is read, printed and read again.
fn printed(text: &str) {
    let list = Tres::read(text);
    assert_eq!(Tres::read(&list_of(&list)), list);
    if let Some(version) = version::Version::parse(text) {
        assert_eq!(version::Version::parse(&version.to_string()), Some(version));
    }
    for job in text.lines().filter_map(Job::read) {
        let Job { id, name, user_id, user, account, qos, partition, reservation, .. } = &job;
        let Job { state_word, start, nodes, reason, allocated, .. } = &job;
        let tres = allocated.as_ref().map(|list| list_of(list) + " ").unwrap_or_default();
        let line = format!(
            "{id}|{name}|{user_id}|{user}|{account}|{qos}|{partition}|{reservation}|{state_word}|{start}|{nodes}|\
             {reason}|{tres}|"
        );
        assert_eq!(Job::read(&line).as_ref(), Some(&job), "{line}");
    }
}

/// A blank at an end of the text belongs to no name.
fn list_of(list: &Tres) -> String {
    list.iter().map(|(name, count)| format!(",{name}={count}")).chain([",".to_owned()]).collect()
}

/// A record as 24.11 prints it, without lines that nobody reads.
fn record(id: u32, name: &str, comment: &str) -> String {
    format!(
        "JobId={id} JobName={name}\n   UserId=alice(2001) GroupId=alice(2001)\n   NumNodes=1 NumTasks=2\n   \
         ReqTRES=cpu=1,gres/gpu:a40=1\n     Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:a40:1(IDX:{id})\n   MinCPUsNode=1\n   \
         OverSubscribe=OK Licenses=(null)\n   Command=(null)\n   Comment={comment}\n   TresPerNode=gres/gpu:a40:1\n\n"
    )
}

fn both(name: &str, comment: &str) -> [Record; 2] {
    let mut records = Records::default();
    (record(1, name, comment) + &record(2, "x", "")).lines().for_each(|line| records.line(line));
    let mut found = records.of(&HashMap::from([(1, 1), (2, 1)]));
    [1, 2].map(|id| found.remove(&id).unwrap_or_default())
}

fn forged(name: &str, comment: &str) {
    static HONEST: LazyLock<[Record; 2]> = LazyLock::new(|| both("x", ""));
    for (told, honest) in both(name, comment).iter().zip(&*HONEST) {
        let is_same = (&told.on, told.whole_nodes) == (&honest.on, honest.whole_nodes);
        assert!(told.trust != Trust::Said || is_same, "{told:?}");
    }
}
