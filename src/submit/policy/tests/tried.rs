//! Whatever is refused: the command after `try:` isn't the user's own again, and it is accepted.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::config::rules::Rules;
use crate::submit::message;
use crate::submit::request::Memory;

/// Rules of sites, each with what it leaves open.
const SITES: [&str; 6] = [
    "",
    "ForeignTypes=allow\nGovernedPartitions=owned",
    "ShareReservations=course\nShareSizes=10,20,40\nShareOnlyPartitions=shares\nGpuPartitions=gpus",
    "MaxCPUsPerGpu=a40:8,h100:16\nMaxMemPerGpu=a40:64G,h100:128G\nGpuPartitions=gpus",
    "Placement=own\nUnitsPerGpu=80\nShareGRES=gpushare\nShareOnlyPartitions=shares\nGovernedPartitions=owned",
    "GovernedAccounts=off\nMode=default\nLimitAdvice=refuse",
];

fn one_of(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    proptest::sample::select(words).prop_map(str::to_owned)
}

/// Some GRES in one string, with the key that `asked` knows.
fn string(key: &'static str) -> impl Strategy<Value = String> {
    let kinds: &[&str] = if key == "job" {
        &["gpu", "gpu:a40", "gpu:h100", "gpu:p100"]
    } else {
        &["gpu", "gpu", "gpu:a40", "gpu:h100", "gpu:p100", "mps", "shard", "gpushare", "mps:a40", "nic"]
    };
    let token = (proptest::sample::select(kinds.to_vec()), 0_u32..9)
        .prop_map(|(kind, count)| format!("gres/{kind}:{count}"));
    vec(token, 1..3).prop_map(move |tokens| format!("{key}={}", tokens.join(",")))
}

/// A request for `asked`.
fn options() -> impl Strategy<Value = String> {
    let names = one_of(&[
        "qos=qos_lafferty",
        "qos=qos_lafferty",
        "qos=qos_two",
        "qos=qos_sum",
        "qos=qos_counted",
        "qos=qos_counted_twice",
        "qos=qos_shards",
        "qos=qos_both",
        "qos=qos_minutes",
        "qos=qos_all_shards",
        "qos=qos_none_of_h100",
        "qos=qos_billed",
        "qos=normal",
        "qos=normal,qos_lafferty",
        "user=2001",
    ]);
    let account = one_of(&["", "", "account=acct", "account=mine", "account=child", "account=mps"]);
    let account = prop_oneof![account, one_of(&["account=counted", "account=total", "account=none"])];
    let place = one_of(&[
        "",
        "",
        "",
        "p=owned",
        "p=shares",
        "p=gpus",
        "p=billed",
        "p=most1",
        "p=most2",
        "p=main,owned",
        "reservation=course",
        "reservation=x",
    ]);
    let gres = prop_oneof![
        5 => string("node"), 2 => string("job"), 2 => string("task"), 1 => string("socket"),
        1 => (string("node"), string("job")).prop_map(|(a, b)| format!("{a} {b}")),
        1 => (string("node"), string("task")).prop_map(|(a, b)| format!("{a} {b}")),
        1 => one_of(&["per-gpu=2", "node=gresgpu:2", "exclusive=1", "node=gres/gpu::2"]),
    ];
    let sizes = one_of(&[
        "",
        "",
        "n=4",
        "n=3 per-node=2",
        "N=2 Nmax=2",
        "N=2 Nmax=2 n=4 per-node=2",
        "N=1 Nmax=4",
        "n=8",
        "c=4",
        "n=40",
        "mem=200G",
        "sockets=2",
        "per-gpu=2 n=4",
        "cpus-per-gpu=gres/gpu:4",
        "mem-per-gpu=gres/gpu:90000",
        "cpus-per-gpu=gres/gpu:a40:4",
        "c=20 mem-per-cpu=9G",
        "N=3 Nmax=3",
        "per-node=3",
    ]);
    (names, account, place, gres, sizes)
        .prop_map(|(names, account, place, gres, sizes)| format!("{names} {account} {place} {gres} {sizes}"))
}

/// A job that waits.
fn had() -> impl Strategy<Value = String> {
    let plain = one_of(&[
        "node=gres/gpu:a40:2",
        "node=gres/gpu:2",
        "job=gres/gpu:a40:2",
        "task=gres/gpu:a40:1 n=2",
        "c=4",
        "node=gres/gpu:h100:1 c=4 mem=20G",
        "node=gres/gpu:a40:1 p=gpus",
        "node=gres/mps:20 reservation=course",
    ]);
    prop_oneof![2 => plain.prop_map(|plain| format!("qos=normal {plain}")), 1 => options()]
}

/// The command's words, with a value for each placeholder.
fn words(text: &str) -> Vec<String> {
    let text =
        text.replace("TYPE", "a40").replace("COUNT", "1").replace("reservation=NAME", "reservation=course");
    let text = text.replace("partition=NAME", "partition=main");
    assert!(!text.contains(['\'', '"', '$']), "{text}");
    text.split_whitespace().map(str::to_owned).collect()
}

fn tokens(value: &str) -> String {
    value
        .split(',')
        .map(|part| format!("gres/{}", if value.is_empty() { "" } else { part }))
        .collect::<Vec<_>>()
        .join(",")
}

fn gpus(value: &str) -> String {
    value.split(',').map(|part| format!("gres/gpu:{part}")).collect::<Vec<_>>().join(",")
}

/// What sbatch makes of its options, for `asked`.
fn read_back(words: &[String]) -> String {
    let mut all = Vec::new();
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or_else(|| word.split_at(2));
        let value = value.to_owned();
        all.push(match name {
            "--qos" | "--account" | "--reservation" => format!("{}={value}", &name[2..]),
            "--partition" => format!("p={value}"),
            "-N" => {
                let (fewest, most) = value.split_once('-').unwrap_or((&value, &value));
                format!("N={fewest} Nmax={most}")
            }
            "-n" | "-c" => format!("{}={value}", &name[1..]),
            "--ntasks-per-node" => format!("per-node={value}"),
            "--sockets-per-node" => format!("sockets={value}"),
            "--ntasks-per-gpu" => format!("per-gpu={value}"),
            "--gres" => format!("node={}", tokens(&value)),
            "--gpus" => format!("job={}", gpus(&value)),
            "--gpus-per-socket" => format!("socket={}", gpus(&value)),
            "--gpus-per-task" => format!("task={}", gpus(&value)),
            "--tres-per-task" => format!("task={value}"),
            "--cpus-per-gpu" => format!("cpus-per-gpu=gres/gpu:{value}"),
            "--mem-per-gpu" => format!("mem-per-gpu=gres/gpu:{}", value.trim_end_matches('M')),
            "--mincpus" => format!("mincpus={value}"),
            "--mem" | "--mem-per-cpu" => format!("{}={}", &name[2..], value.trim_end_matches('M')),
            _ => panic!("{word}"),
        });
    }
    all.join(" ")
}

/// What scontrol makes of its words, and what else they change, as slurmctld's plugin names it.
fn update_of(words: &[String]) -> (Request<'_>, Vec<&'static str>) {
    let (mut said, mut others) = (Request::new(Spelling::Slash), Vec::new());
    assert_eq!(
        words.iter().take(3).map(String::as_str).collect::<Vec<_>>(),
        ["scontrol", "update", "job=12_3"]
    );
    for word in words.iter().skip(3) {
        let (key, value) = word.split_once('=').unwrap();
        let text = Some(value.as_bytes());
        if let Some(field) = Field::ALL.into_iter().find(|field| field.update_key() == key) {
            *said.string_mut(field) = text;
            others.extend((!field.requests()).then_some(if key == "CpusPerTres" {
                "CpusPerTres"
            } else {
                "MemPerTres"
            }));
            continue;
        }
        match key {
            "qos" => said.qos = text,
            "account" => said.account = text,
            "partition" => said.partition = text,
            "reservation" => said.reservation = text,
            "NumNodes" => {
                let (fewest, most) = value.split_once('-').unwrap_or((value, value));
                (said.min_nodes, said.max_nodes) = (fewest.parse().ok(), most.parse().ok());
                others.push("NumNodes");
            }
            "NumTasks" => (said.num_tasks, _) = (value.parse().ok(), others.push("NumTasks")),
            "TasksPerNode" => (said.ntasks_per_node, _) = (value.parse().ok(), others.push("TasksPerNode")),
            "CPUsPerTask" => (said.cpus_per_task, _) = (value.parse().ok(), others.push("CPUsPerTask")),
            "ReqSockets" => (said.sockets_per_node, _) = (value.parse().ok(), others.push("something else")),
            "NumCPUs" => (said.min_cpus, _) = (value.parse().ok(), others.push("NumCPUs")),
            "MinCPUsNode" => (said.cpus_per_node, _) = (value.parse().ok(), others.push("MinCPUsNode")),
            "MinMemoryNode" => {
                said.memory = value.parse().ok().map(Memory::PerNode);
                others.push("MinMemory");
            }
            "MinMemoryCPU" => {
                said.memory = value.parse().ok().map(Memory::PerCpu);
                others.push("MinMemory");
            }
            _ => panic!("{word}"),
        }
    }
    (said, others)
}

fn others_of(said: &Request) -> Vec<&'static str> {
    let numbers = [
        (said.min_nodes.is_some(), "NumNodes"),
        (said.num_tasks.is_some(), "NumTasks"),
        (said.ntasks_per_node.is_some(), "TasksPerNode"),
        (said.cpus_per_task.is_some(), "CPUsPerTask"),
        (said.memory.is_some(), "MinMemory"),
        (said.cpus_per_tres.is_some(), "CpusPerTres"),
        (said.mem_per_tres.is_some(), "MemPerTres"),
        (said.sockets_per_node.is_some() || said.exclusive, "something else"),
    ];
    numbers.into_iter().filter_map(|(is, name)| is.then_some(name)).collect()
}

/// What a user keeps of a request when they replace the options of GPUs.
fn kept<'a>(request: &Request<'a>) -> Request<'a> {
    let mut kept = Request::new(Spelling::Slash);
    (kept.qos, kept.account, kept.user_id) = (request.qos, request.account, request.user_id);
    (kept.partition, kept.reservation, kept.exclusive) =
        (request.partition, request.reservation, request.exclusive);
    kept
}

/// What is wrong with a submission of the options that a refusal of this request suggests.
fn untrue(request: &Request, text: &str, policy: &Policy) -> Option<Rule> {
    let words = words(text);
    let is_name = |word: &String| word.starts_with("--qos=") || word.starts_with("--partition=");
    // A command of names alone leaves the rest of the user's as it is.
    let own = if words.iter().all(is_name) { *request } else { kept(request) };
    broken(judge(&asked(&read_back(&words)).over(&own), policy, &TABLE))
}

/// The task that a command for all of them names first.
fn of_one_task(text: &str) -> String {
    let all = ["$(squeue -hrt PD -o %A -j 12 | sort -nru | paste -sd,)", "12_3,12_4,12_5"];
    all.iter().fold(text.to_owned(), |text, jobs| text.replacen(&format!("job={jobs} "), "job=12_3 ", 1))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_a_refused_submission_may_try_is_accepted(options in options(), site in one_of(&SITES)) {
        let (policy, request) = (Rules::parse(&site).unwrap().policy, asked(&options));
        if let Err(refusal) = judge(&request, &policy, &TABLE)
            && let Some(text) = tried(&refusal)
        {
            let left = untrue(&request, &text, &policy);
            prop_assert!(left.is_none(), "{options} [{site}]\n {refusal:?}\n try: {text}: {left:?}");
        }
    }

    #[test]
    fn what_a_refused_update_may_try_is_accepted(
        had in had(), change in options(), site in one_of(&SITES), job in one_of(&["12_3", "12", "12_[3-5]"]),
        more in proptest::sample::select(vec![&[][..], &[], &[], &["Nice"]]),
    ) {
        let (policy, existing) = (Rules::parse(&site).unwrap().policy, asked(&had));
        let said = Request { user_id: 0, exclusive: false, ntasks_per_tres: None, ..asked(&change) };
        let judged = |said: Request, others: &[&'static str], job: &str| {
            let update = Update { job: job.as_bytes(), array: job == "12", request: said.into(), anew: true, others };
            judge_update(&update, &existing, &policy, &TABLE).err()
        };
        let mut others = others_of(&said);
        others.extend(more);
        // The job waits, so it was accepted.
        if broken(judge(&existing, &policy, &TABLE)).is_some() {
            return Ok(());
        }
        let Some(refusal) = judged(said, &others, &job) else { return Ok(()) };
        let shown = format!("{had} -> {change} {more:?} [{site}]\n {refusal:?}");
        if let Some((_, text)) = message::refusal(&refusal).split_once("submit it again with: ") {
            let text = text.split(';').next().unwrap();
            // What the update empties, the user leaves out.
            let stays = |said: Option<&[u8]>| said != Some(b"");
            let mut again = existing;
            again.qos = again.qos.filter(|_| stays(said.qos));
            again.reservation = again.reservation.filter(|_| stays(said.reservation));
            let left = untrue(&again, text, &policy);
            prop_assert!(left.is_none(), "{shown}\n again with: {text}: {left:?}");
        } else if let Some(text) = tried(&refusal) {
            let words = words(&of_one_task(&text));
            let (new, others) = update_of(&words);
            prop_assert!(job != "12_3" || new != said, "{shown}\n its own again: {text}");
            let left = judged(new, &others, "12_3");
            prop_assert!(left.is_none(), "{shown}\n try: {text}: {left:?}");
        }
    }
}
