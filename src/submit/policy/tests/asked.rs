//! Requests as options, and their verdicts.

use super::*;
use crate::submit::message;
use crate::submit::request::Memory;

/// The options of a request, as sbatch sends them.
pub(super) fn asked<'a>(options: &'a str) -> Request<'a> {
    let mut request = Request::new(Spelling::Slash);
    let number = |text: &str| text.parse::<u32>().unwrap();
    let small = |text: &str| Some(text.parse::<u16>().unwrap());
    let memory = |text: &str| {
        text.strip_suffix('G')
            .map_or_else(|| text.parse().unwrap(), |text| text.parse::<u64>().unwrap() << 10)
    };
    let text = |text: &'a str| Some(text.as_bytes());
    for option in options.split_whitespace() {
        let (name, value) = option.split_once('=').unwrap();
        match name {
            "node" => request.tres_per_node = text(value),
            "job" => request.tres_per_job = text(value),
            "task" => request.tres_per_task = text(value),
            "socket" => request.tres_per_socket = text(value),
            "n" => request.num_tasks = Some(number(value)),
            "N" => request.min_nodes = Some(number(value)),
            "Nmax" => request.max_nodes = Some(number(value)),
            "c" => request.cpus_per_task = small(value),
            "per-node" => request.ntasks_per_node = small(value),
            "per-socket" => request.ntasks_per_socket = small(value),
            "sockets" => request.sockets_per_node = small(value),
            "per-gpu" => request.ntasks_per_tres = small(value),
            "mincpus" => request.cpus_per_node = small(value),
            "cpus" => request.min_cpus = Some(number(value)),
            "cpus-per-gpu" => request.cpus_per_tres = text(value),
            "mem-per-gpu" => request.mem_per_tres = text(value),
            "mem" => request.memory = Some(Memory::PerNode(memory(value))),
            "mem-per-cpu" => request.memory = Some(Memory::PerCpu(memory(value))),
            "account" => request.account = text(value),
            "p" => request.partition = text(value),
            "qos" => request.qos = text(value),
            "user" => request.user_id = number(value),
            "reservation" => request.reservation = text(value),
            "exclusive" => request.exclusive = true,
            "binding" => request.enforces_binding = true,
            _ => panic!("{name}"),
        }
    }
    request
}

/// The accepted request; it must pass.
pub(super) fn accepted(verdict: Verdict) -> Acceptance {
    match verdict {
        Ok(accepted) => accepted,
        Err(refusal) => panic!("refused: {refusal:?}"),
    }
}

/// Why the request is refused; it must not pass.
pub(super) fn refused(verdict: Verdict) -> Refusal {
    match verdict {
        Ok(accepted) => panic!("accepted: {accepted:?}"),
        Err(refusal) => *refusal,
    }
}

/// The broken rule, if any.
pub(super) fn broken(verdict: Verdict) -> Option<Rule> {
    match verdict {
        Ok(_) => None,
        Err(refusal) => Some(refusal.rule),
    }
}

/// The verdict on a change of a pending job.
pub(super) fn changed<'a>(change: Request<'a>, existing: &Request<'a>, policy: &'a Policy) -> Verdict<'a> {
    judge_update(
        &Update { job: b"12_3", array: false, request: change.into(), anew: true, others: &[] },
        existing,
        policy,
        &TABLE,
    )
}

/// The text that the user sees after `try:`.
pub(super) fn tried(refusal: &Refusal) -> Option<String> {
    let text = message::refusal(refusal);
    let end = if refusal.command == Command::Submit { "\n" } else { ";" };
    Some(text.split_once("try: ")?.1.split(end).next()?.to_owned())
}

/// The verdict on an update of a job.
///
/// # Errors
/// The rule that refuses it.
pub(super) fn judged(change: Request, existing: &Request, anew: bool) -> Result<Acceptance<'static>, Rule> {
    static POLICY: std::sync::LazyLock<Policy> = std::sync::LazyLock::new(Policy::default);
    match judge_update(
        &Update { job: b"7", array: false, request: change.into(), anew, others: &[] },
        existing,
        &POLICY,
        &TABLE,
    ) {
        Ok(accepted) => Ok(accepted),
        Err(refusal) => Err(refusal.rule),
    }
}

/// The verdict on a submission.
///
/// # Errors
/// The rule that refuses it.
pub(super) fn submitted(request: &Request) -> Result<Acceptance<'static>, Rule> {
    static POLICY: std::sync::LazyLock<Policy> = std::sync::LazyLock::new(Policy::default);
    match judge(request, &POLICY, &TABLE) {
        Ok(accepted) => Ok(accepted),
        Err(refusal) => Err(refusal.rule),
    }
}
