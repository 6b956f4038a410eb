//! What a user reads: the refusal of a request, or the note that goes with an accepted one.
//!
//! Built from the QOS's own limits and ending in a command that works. Users' text is quoted with everything but plain
//! ASCII escaped, and never used as a format. The texts behind the numbers are in [`pages`].

use std::fmt::Write;

use crate::policy::{Because, Change, Command, Ground, Offer, Refusal, Remark, Rule};
use crate::request::{Field, LONGEST};

pub mod pages;

/// The refusal as its user sees it: several lines, no newline at the end. For an update a single line, since scontrol puts
/// the text into parentheses for each job of an array.
#[must_use]
pub fn refusal(refusal: &Refusal) -> String {
    let number = refusal.rule.number();
    laid_out(refusal, "gpushare: ", &format!("{number}, see `gpushare explain {number}`"))
}

/// What the user is told of an accepted request, if anything.
#[must_use]
pub fn remark(remark: &Remark) -> Option<String> {
    match remark {
        Remark::Passed(refusal, Because::Warn) => {
            let number = refusal.rule.number();
            let last = format!("accepted for now; {number}, see `gpushare explain {number}`");
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
    if let Some(command) = correction(refusal) {
        let _ = write!(text, "{between}try: {command}");
    }
    let _ = write!(text, "{between}{last}");
    text
}

fn fault(refusal: &Refusal) -> String {
    let asked = quoted(&refusal.asked);
    let whose = whose(&refusal.ground);
    let limited = matches!((&refusal.ground, &refusal.offer), (Ground::Account { .. }, Offer::OfQos(_)));
    match refusal.rule {
        Rule::TypeMissing if limited => format!("{whose} has a limit on GPU types; '{asked}' names none"),
        Rule::TypeMissing => format!("{whose} needs a GPU type; '{asked}' names none"),
        Rule::TypeUnknown => format!("{whose} needs a GPU type that exists; '{asked}' names another"),
        Rule::TypeForeign => format!("{whose} has no GPUs of the type in '{asked}'"),
        Rule::Unreadable => {
            format!("{whose} needs requests of the form NAME[:TYPE][:COUNT]; '{asked}' is not one")
        }
        Rule::NtasksPerGpuAlone => format!("{whose} needs a GPU type; --ntasks-per-gpu alone names none"),
        Rule::QosList => format!("{whose} must be named alone, not in the list '{asked}'"),
        Rule::OptionInsideQos => format!("'{asked}' is an option of its own, not part of the QOS's name"),
        Rule::TooLong => format!("more than {LONGEST} characters, which Slurm won't accept: '{asked}…'"),
        Rule::ShareUncounted => format!("{whose} has no limit that counts the share '{asked}'"),
        Rule::NotRestated if refusal.ground == Ground::Site => {
            "a job leaves a reservation for shares only with its GPUs named again in the same command"
                .to_owned()
        }
        Rule::NotRestated => {
            format!("{whose} takes a job in only with its GPUs named again in the same command")
        }
        Rule::ShareReservation => format!("the share '{asked}' is only for certain reservations"),
        Rule::ShareSize => format!("the share '{asked}' is of no size that is given here"),
        Rule::ShareForm => format!("the share must be asked for once, in units per node; '{asked}' does not"),
        Rule::ShareFixed => format!("the share '{asked}' of a job can't be changed once it is submitted"),
        Rule::WholeGpu if refusal.ground == Ground::Partition(Vec::new()) => {
            format!("'{asked}' needs its partition named, since a reservation may lie in one for shares only")
        }
        Rule::WholeGpu => format!("{whose} is for shares of GPUs only; '{asked}' is more"),
    }
}

fn whose(ground: &Ground) -> String {
    match ground {
        Ground::Qos(name) => format!("QOS '{}'", quoted(name)),
        Ground::Partition(name) if name.is_empty() => "a reservation without --partition".to_owned(),
        Ground::Partition(name) => format!("partition '{}'", quoted(name)),
        Ground::Account { name, own: false, .. } => format!("account '{}'", quoted(name)),
        Ground::Account { name, .. } => format!("your association with account '{}'", quoted(name)),
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
            (whose, limits.iter().map(|(kind, count)| limit(kind, *count)).collect())
        }
        Offer::OfCluster(types) => ("this cluster has", types.iter().map(|kind| quoted(kind)).collect()),
        Offer::Reservations(parts) => ("those with one of these in the name", parts.clone()),
        Offer::Sizes(sizes) => ("sizes", sizes.iter().map(u64::to_string).collect()),
        Offer::Nothing => return None,
    };
    (!list.is_empty()).then(|| format!("{what}: {}", list.join(", ")))
}

fn limit(kind: &[u8], count: Option<u64>) -> String {
    match count {
        Some(count) => format!("{} ({count})", quoted(kind)),
        None => quoted(kind),
    }
}

/// Options or an update that would be accepted, where there is something to offer. NAME stands for what only the user knows.
fn correction(refusal: &Refusal) -> Option<String> {
    let gres = quoted(&refusal.gres);
    let wanted = |kind_and_count: &str| (refusal.field, gres.clone(), kind_and_count.to_owned());
    let (place, token) = match (refusal.rule, &refusal.offer) {
        (Rule::TooLong | Rule::ShareFixed, _) => return None,
        (Rule::OptionInsideQos, Offer::Nothing) => {
            let Ground::Qos(name) = &refusal.ground else { return None };
            let option = quoted(&refusal.asked);
            return (!name.is_empty()).then(|| format!("--qos={} {option}", quoted(name)));
        }
        // The rest of the command is not at fault.
        (Rule::QosList, _) if refusal.command == Command::Submit => (place(refusal), None),
        (Rule::ShareForm, _) => (None, Some((Field::Node, gres.clone(), refusal.count.to_string()))),
        (Rule::ShareReservation, _) => {
            (Some(("reservation", "NAME".to_owned())), Some(wanted(&refusal.count.to_string())))
        }
        (Rule::ShareSize, Offer::Sizes(sizes)) => {
            let fitting = sizes.iter().filter(|size| **size >= refusal.count).min();
            let size = fitting.or_else(|| sizes.iter().max())?;
            (None, Some(wanted(&size.to_string())))
        }
        (Rule::WholeGpu, _) if refusal.ground == Ground::Partition(Vec::new()) => {
            (Some(("partition", "NAME".to_owned())), None)
        }
        // An option that would have to go, or no size to name.
        (Rule::WholeGpu, _) if refusal.asked.starts_with(b"--") => return None,
        (Rule::WholeGpu, Offer::Sizes(sizes)) => {
            (place(refusal), Some((Field::Node, gres.clone(), sizes.iter().max()?.to_string())))
        }
        _ => {
            let (kind, count) = type_to_name(refusal)?;
            (place(refusal), Some(wanted(&format!("{kind}:{count}"))))
        }
    };
    Some(spelled(refusal, place, token))
}

/// Which QOS, partition or account the corrected command names.
fn place(refusal: &Refusal) -> Option<(&'static str, String)> {
    match &refusal.ground {
        Ground::Qos(name) if !name.is_empty() => Some(("qos", quoted(name))),
        Ground::Partition(name) if !name.is_empty() => Some(("partition", quoted(name))),
        Ground::Account { named: Some((key, name)), .. } => Some((*key, quoted(name))),
        _ => None,
    }
}

/// A type that is offered and has enough, or the most; and how many of it. TYPE stands for one of the cluster's: which of
/// them the job's nodes have is not known.
fn type_to_name(refusal: &Refusal) -> Option<(String, u64)> {
    let offered: Vec<(String, u64)> = match &refusal.offer {
        Offer::OfQos(limits) => {
            limits.iter().map(|(kind, count)| (quoted(kind), count.unwrap_or(u64::MAX))).collect()
        }
        Offer::OfCluster(types) => match types.as_slice() {
            [] => return None,
            [only] => vec![(quoted(only), u64::MAX)],
            _ => vec![("TYPE".to_owned(), u64::MAX)],
        },
        _ => return None,
    };
    let types = || offered.iter().filter(|(_, count)| *count > 0);
    let (kind, most) = types()
        .find(|(_, count)| *count >= refusal.count)
        .or_else(|| types().max_by_key(|(_, count)| *count))?;
    // Fewer GPUs than the tasks need are no help.
    let enough = refusal.count <= *most || refusal.ntasks_per_gpu == 0;
    enough.then(|| (kind.clone(), refusal.count.clamp(1, *most)))
}

type Place = Option<(&'static str, String)>;
type Named = Option<(Field, String, String)>;

fn spelled(refusal: &Refusal, place: Place, token: Named) -> String {
    let mut words = Vec::new();
    let others = quoted(&refusal.others);
    match &refusal.command {
        Command::Submit => {
            words.extend(place.map(|(key, value)| format!("--{key}={value}")));
            words.extend(token.map(|(field, gres, rest)| match (gres.as_str(), field) {
                (_, Field::Task) if !others.is_empty() => {
                    format!("--tres-per-task={others},gres/{gres}:{rest}")
                }
                (_, Field::Node) if !others.is_empty() => format!("--gres={gres}:{rest},{}", bare(&others)),
                ("gpu", _) => format!("{}{rest}", field.gpu_option()),
                (_, Field::Task) => format!("--tres-per-task=gres/{gres}:{rest}"),
                _ => format!("--gres={gres}:{rest}"),
            }));
            if refusal.ntasks_per_gpu > 0 {
                words.push(format!("--ntasks-per-gpu={}", refusal.ntasks_per_gpu));
            }
        }
        Command::Update { job, spelling } => {
            words.push(format!("scontrol update job={}", quoted(job)));
            words.extend(place.map(|(key, value)| format!("{key}={value}")));
            let prefix = quoted(spelling.prefix());
            let others = if others.is_empty() { others } else { format!(",{others}") };
            words.extend(
                token.map(|(field, gres, rest)| {
                    format!("{}={prefix}{gres}:{rest}{others}", field.update_key())
                }),
            );
        }
    }
    words.join(" ")
}

/// Tokens as after `--gres=`, without Slurm's prefix in either spelling.
fn bare(tokens: &str) -> String {
    let bare = |token: &str| token.trim_start_matches("gres:").trim_start_matches("gres/").to_owned();
    tokens.split(',').map(bare).collect::<Vec<_>>().join(",")
}

fn changed(change: &Change) -> String {
    match change {
        Change::Type { qos, asked, given, .. } if asked.is_empty() => {
            format!("QOS '{}' needs a GPU type; '{}' was added", quoted(qos), quoted(given))
        }
        Change::Type { qos, asked, given, .. } => {
            format!(
                "QOS '{}' needs a GPU type; '{}' was taken as '{}'",
                quoted(qos),
                quoted(asked),
                quoted(given)
            )
        }
        Change::Requeue { qos } => {
            format!("jobs of QOS '{}' may be preempted: --requeue was set", quoted(qos))
        }
        Change::Append { qos } => {
            format!("jobs of QOS '{}' may start again: --open-mode=append was set", quoted(qos))
        }
        Change::Throttle { qos, array, tasks, over_minutes } => {
            let (hours, minutes) = (over_minutes / 60, over_minutes % 60);
            format!(
                "QOS '{}' runs at most {tasks} array tasks of more than {hours}:{minutes:02} hours at once: \
                 --array={} was set",
                quoted(qos),
                quoted(array)
            )
        }
        Change::UserEnv => {
            "the node doesn't run your login shell before the job, which has the variables that you export \
             and no others"
                .to_owned()
        }
    }
}

/// Users' bytes as one line of printable ASCII.
fn quoted(text: &[u8]) -> String {
    text.escape_ascii().to_string()
}

#[cfg(test)]
mod tests;
