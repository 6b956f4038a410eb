//! What a user sees: the refusal of a request, or the note about an accepted one.
//!
//! It uses the QOS's own limits and ends with a command that works. It shows users' text as UTF-8, escapes what can't
//! be seen, and never uses it as a format. The texts behind the numbers are in [`pages`].

use std::fmt::Write;

use crate::submit::policy::{Amount, Because, Change, Command, Ground, Offer, Refusal, Remark, Rule, Trait};
use crate::submit::request::{Field, LONGEST};
use crate::text::quantity::size;
use crate::text::shown::shown;

mod correction;
pub mod pages;

/// The refusal as its user sees it: several lines without a newline at the end. For an update it is a single line,
/// since scontrol puts the text into parentheses for each job of an array.
pub fn refusal(refusal: &Refusal) -> String {
    let number = refusal.rule.number();
    laid_out(refusal, "gpushare: ", &format!("{number}, see `gpushare explain {number}`"))
}

/// The options of the message's `try:` line, or its command for an update, if it has one.
pub fn correction(refusal: &Refusal) -> Option<String> {
    correction::written(refusal)
}

/// The part of the request that breaks the rule, as an option: `--gres=gpu:2`, `--gpus=2`. `None` if the rule is about
/// something other than one GRES, or if its option is unknown.
pub fn request(refusal: &Refusal) -> Option<Vec<u8>> {
    let (asked, gres) = (refusal.asked.as_slice(), refusal.gres.as_slice());
    let rest = asked.strip_prefix(gres).filter(|_| refusal.rule.is(Trait::Token) && !gres.is_empty())?;
    if !matches!(rest.first(), None | Some(b':' | b'=')) {
        return None;
    }
    let option: &[u8] = match refusal.field {
        Field::Job => b"--gpus=",
        Field::Socket => b"--gpus-per-socket=",
        Field::Task => b"--gpus-per-task=",
        Field::Node => b"--gres=",
        Field::CpusPerGpu | Field::MemPerGpu => return None,
    };
    match rest.get(1..).filter(|_| gres == b"gpu" && refusal.field != Field::Node) {
        Some(count) => Some([option, count].concat()),
        None if refusal.field == Field::Node => Some([option, asked].concat()),
        None => None,
    }
}

/// The text for the user about an accepted request, if any.
pub fn remark(remark: &Remark) -> Option<String> {
    match remark {
        Remark::Passed(refusal, Because::Warn) => {
            let number = refusal.rule.number();
            let accepted = match (refusal.rule, refusal.denied) {
                (Rule::BeyondLimit, false) => "if Slurm accepts it, cancel it and request less",
                (Rule::BeyondLimit, true) => "Slurm itself refuses it (DenyOnLimit)",
                _ => "accepted for now",
            };
            let last = format!("{accepted}; {number}, see `gpushare explain {number}`");
            Some(laid_out(refusal, "gpushare: warning: ", &last))
        }
        Remark::Passed(..) => None,
        Remark::Changed(change) => Some(format!("gpushare: {} ({})", changed(change), change.number())),
    }
}

fn laid_out(refusal: &Refusal, start: &str, last: &str) -> String {
    let between = if refusal.command == Command::Submit { "\n  " } else { "; " };
    let mut text = format!("{start}{}", fault(refusal));
    if let Some(offer) = offer(refusal) {
        let _ = write!(text, "{between}{offer}");
    }
    let command = correction::written(refusal);
    if refusal.rule == Rule::OldRequestStays {
        let with = command.map(|options| format!(" with: {options}")).unwrap_or_default();
        let _ = write!(text, "; cancel the job and submit it again{with}");
    } else if let Some(command) = command {
        if let Command::Update { job, array, .. } = &refusal.command
            && correction::names_several(job, *array)
        {
            text.push_str(
                "; Slurm applies a QOS and GPUs only to the first of several tasks, so change each task",
            );
        }
        let _ = write!(text, "{between}try: {command}");
    }
    let _ = write!(text, "{between}{last}");
    text
}

fn fault(refusal: &Refusal) -> String {
    let asked = shown(&refusal.asked);
    let whose = whose(&refusal.ground);
    let limited = matches!((&refusal.ground, &refusal.offer), (Ground::Account { .. }, Offer::OfQos(_)));
    match refusal.rule {
        Rule::TypeMissing if limited => format!("{whose} limits GPU types; '{asked}' has no type"),
        Rule::TypeMissing => format!("{whose} requires a GPU type; '{asked}' has no type"),
        Rule::TypeUnknown => format!(
            "{whose} requires a GPU type that Slurm counts; it doesn't count the one in '{asked}': a typo, or missing \
             in AccountingStorageTRES"
        ),
        Rule::TypeForeign => format!("{whose} has no GPUs of the type in '{asked}'"),
        Rule::Unreadable => {
            format!("{whose} accepts only requests of the form NAME[:TYPE][:COUNT], not '{asked}'")
        }
        Rule::NtasksPerGpuAlone => {
            format!("{whose} requires a GPU type; --ntasks-per-gpu alone has no type")
        }
        Rule::QosList => format!("{whose} can't be in a list of QOSes: '{asked}'"),
        Rule::OptionInsideQos => format!(
            "'{asked}' is a separate option, not part of the QOS name; use a space instead of the comma"
        ),
        Rule::TooLong => format!("longer than {LONGEST} characters, which Slurm refuses: '{asked}…'"),
        Rule::ShareUncounted => format!("{whose} has no limit that counts the share '{asked}'"),
        Rule::TooMuchAtOnce => {
            "the scripts and environments of these jobs are too large for one update; update fewer tasks at a time"
                .to_owned()
        }
        Rule::GpuUncounted => format!("{whose} limits shares of GPUs but has no limit on '{asked}'"),
        Rule::TasksUneven => {
            format!("{whose} counts GPUs per task, but Slurm allocates them for full nodes; {asked} don't fill them")
        }
        Rule::NotRestated if refusal.ground == Ground::Site => {
            "to move a job out of a reservation for shares, specify its GPUs again in the same command"
                .to_owned()
        }
        Rule::NotRestated => {
            format!("to move a job to {whose}, specify its GPUs again in the same command")
        }
        Rule::TypeResembles => format!(
            "the type in '{asked}' doesn't exist here, but Slurm would treat it as '{}'",
            shown(&refusal.resembles)
        ),
        Rule::TypeOfNone => {
            format!(
                "--cpus-per-gpu and --mem-per-gpu may name only types that the job requests, not '{asked}'"
            )
        }
        Rule::TooManyNodes => {
            format!(
                "{whose} allows at most as many nodes as the job has GPUs of a type; {asked} are more than {}",
                refusal.count
            )
        }
        Rule::BeyondLimit => format!("'{asked}' is more than {whose} allows at once, so the job can't start"),
        Rule::CountedTwoWays => {
            format!("{whose} requires all GPUs in one kind of option; '{asked}' is in another")
        }
        Rule::NotAlone if refusal.field == Field::Task => format!(
            "{whose} counts GPUs per task, so change tasks or GPUs in a separate command; this one also changes: \
             {asked}"
        ),
        Rule::NotAlone => {
            format!(
                "to move a job to {whose}, use a command that changes only its QOS, partition, and GPUs; this one \
                 (perhaps because of another plugin) also changes: {asked}"
            )
        }
        Rule::OldRequestStays => {
            format!(
                "to move a job to {whose}, its current GPUs must be visible and acceptable there, because Slurm may \
                 apply only part of an update"
            )
        }
        Rule::ShareReservation => format!("the share '{asked}' is allowed only in certain reservations"),
        Rule::ShareSize if matches!(refusal.offer, Offer::UpTo(_)) => {
            format!("the share '{asked}' is more than one GPU")
        }
        Rule::ShareSize => format!("the share '{asked}' has a size that this cluster doesn't allow"),
        Rule::ShareForm => {
            format!("request the share once, in units per node; '{asked}' is in another form")
        }
        Rule::ShareMemory => format!("no share here has as much GPU memory as '{asked}'"),
        Rule::ShareFixed => format!("a job's share '{asked}' can't be changed after submission"),
        Rule::WholeGpu if refusal.ground == Ground::Partition(Vec::new()) => {
            format!("specify the partition for '{asked}': the reservation may be in one for shares only")
        }
        Rule::WholeGpu => format!("{whose} is for shares of GPUs only; '{asked}' requests whole GPUs"),
        Rule::GpuMissing if refusal.ground == Ground::Partition(Vec::new()) => {
            "specify the partition for a job without a GPU: the reservation may be in one for GPUs only"
                .to_owned()
        }
        Rule::GpuMissing => format!("{whose} is for jobs with GPUs; this job requests none"),
        Rule::TooManyCpus | Rule::TooMuchMemory => too_much(refusal, &whose, &asked),
    }
}

/// More CPUs or memory than the job's GPUs allow.
fn too_much(refusal: &Refusal, whose: &str, asked: &str) -> String {
    let Offer::PerGpu { amount, wanted, .. } = &refusal.offer else { return String::new() };
    let wanted = match (wanted, amount) {
        (Some(wanted), _) => format!("requests {}", amount_of(*amount, *wanted)),
        (None, Amount::Cpus) => {
            "would get all CPUs of its nodes, because of --gres-flags=enforce-binding".to_owned()
        }
        (None, Amount::Memory) => "would get all memory of its nodes".to_owned(),
    };
    let most = amount_of(*amount, refusal.count);
    match amount {
        Amount::Cpus => format!("{whose} allows at most {most} CPUs with '{asked}'; the job {wanted}"),
        Amount::Memory => format!("{whose} allows at most {most} of memory with '{asked}'; the job {wanted}"),
    }
}

/// A number of CPUs, or memory.
fn amount_of(amount: Amount, number: u64) -> String {
    match amount {
        Amount::Cpus => number.to_string(),
        Amount::Memory => size(number),
    }
}

fn whose(ground: &Ground) -> String {
    match ground {
        Ground::Qos(name) => format!("QOS '{}'", shown(name)),
        Ground::Partition(name) if name.is_empty() => "a reservation without --partition".to_owned(),
        Ground::Partition(name) => format!("partition '{}'", shown(name)),
        Ground::Account { name, own: false, .. } => format!("account '{}'", shown(name)),
        Ground::Account { name, .. } => format!("your association with account '{}'", shown(name)),
        Ground::Site => "this cluster".to_owned(),
    }
}

fn offer(refusal: &Refusal) -> Option<String> {
    let (what, list): (_, Vec<String>) = match &refusal.offer {
        Offer::OfQos(limits) => {
            let whose = match refusal.ground {
                Ground::Account { own: false, .. } => "this account has",
                Ground::Account { .. } => "this association has",
                _ => "this QOS has",
            };
            (whose, limits.iter().map(|(gres_type, count)| limit(gres_type, *count)).collect())
        }
        Offer::OfCluster(types) => {
            ("this cluster has", types.iter().map(|gres_type| shown(gres_type)).collect())
        }
        Offer::Reservations(parts) => ("their names contain one of", parts.clone()),
        Offer::Sizes(sizes) => ("sizes", sizes.iter().map(u64::to_string).collect()),
        Offer::UpTo(units) => ("at most", vec![format!("{units}, a whole GPU")]),
        Offer::Memory(sizes) => {
            let one = |(mebibytes, units): &(u64, u64)| format!("{} ({units})", size(*mebibytes));
            ("sizes (units)", sizes.iter().map(one).collect())
        }
        Offer::PerGpu { amount, cap, .. } => {
            let what = match amount {
                Amount::Cpus => "CPUs per GPU",
                Amount::Memory => "memory per GPU",
            };
            let types =
                cap.types.iter().map(|(gres_type, cap)| format!("{gres_type} {}", amount_of(*amount, *cap)));
            let others = if cap.types.is_empty() { "any type" } else { "other types" };
            let others = cap.others.map(|cap| format!("{others} {}", amount_of(*amount, cap)));
            (what, types.chain(others).collect())
        }
        Offer::Nothing => return None,
    };
    let beyond = refusal.beyond.as_ref().map(|(gres, asked)| {
        let of = if *gres == refusal.gres { String::new() } else { format!(" of {}", shown(gres)) };
        format!("; the job requests {asked}{of} in total")
    });
    let beyond = beyond.unwrap_or_default();
    (!list.is_empty()).then(|| format!("{what}: {}{beyond}", list.join(", ")))
}

fn limit(gres_type: &[u8], count: Option<u64>) -> String {
    match count {
        Some(count) => format!("{} ({count})", shown(gres_type)),
        None => shown(gres_type),
    }
}

fn changed(change: &Change) -> String {
    match change {
        Change::Type { qos, asked, given, .. } if asked.is_empty() => {
            format!("QOS '{}' requires a GPU type; '{}' was added", shown(qos), shown(given))
        }
        Change::Type { qos, asked, given, .. } => {
            format!(
                "QOS '{}' requires a GPU type; '{}' was changed to '{}'",
                shown(qos),
                shown(asked),
                shown(given)
            )
        }
        Change::Requeue { qos } => {
            format!("jobs of QOS '{}' may be preempted: --requeue was set", shown(qos))
        }
        Change::Append { qos } => {
            format!("jobs of QOS '{}' may start again: --open-mode=append was set", shown(qos))
        }
        Change::Throttle { qos, array, tasks, over_minutes } => {
            let (hours, minutes) = (over_minutes / 60, over_minutes % 60);
            format!(
                "QOS '{}' runs at most {tasks} array tasks longer than {hours}:{minutes:02} hours at once: \
                 --array={} was set",
                shown(qos),
                shown(array)
            )
        }
        Change::Share { asked, given, mebibytes, .. } => {
            let memory = size(*mebibytes);
            format!(
                "'{}' was changed to '{}', a share with {memory} of GPU memory",
                shown(asked),
                shown(given)
            )
        }
        Change::UserEnv => {
            "the node doesn't run your login shell before the job; the job has only the variables that you export"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests;
