//! Parses words into sbatch's options, as getopt_long(3) does for sbatch: it stops at the first word that isn't an
//! option.

use gpushare::text::shown::shown;

use super::table::{self, Arity, Spec};
use gpushare_slurm_text::version::Release;

/// Where an option comes from. A later source overrides an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// An `#SBATCH` line.
    Script,
    /// An `SBATCH_…` variable.
    Environment,
    /// The command line.
    Line,
}

/// One option with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The full name, without dashes.
    pub name: &'static str,
    /// `None` for an option without a value.
    pub value: Option<Vec<u8>>,
    /// Where it was given.
    pub source: Source,
}

impl Given {
    /// The value and its source, as text.
    fn shown(&self) -> String {
        let value = shown(self.value.as_deref().unwrap_or_default());
        let place = match self.source {
            Source::Script => " in the script",
            Source::Environment => " in the environment",
            Source::Line => "",
        };
        format!("'{value}' for --{}{place}", self.name)
    }
}

gpushare::errors! {
    /// Why sbatch would refuse the options, or why they can't be checked.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum OptionError {
        Unknown(option: String, release: Release) =>
            "gpushare knows no option '{option}' of sbatch in Slurm {release}; omit it to check the command";
        Short { name: String, meant: Vec<String> } =>
            "'--{name}' may be {}; write it in full", meant.join(" or ");
        Flag(name: &'static str) => "sbatch's option --{name} takes no value";
        NoValue(option: String) => "sbatch's option {option} needs a value";
        Value(given: Given) => "sbatch does not accept {}", given.shown();
        OtherUser => "--uid submits for another user; name that user with gpushare's --user";
        SubmitsNothing(name: &'static str) => "with --{name} sbatch submits nothing";
        /// Which of the two counts depends on where each was given, and differs between releases.
        BothPerTask => "--gpus-per-task and --tres-per-task both name GPUs; use only one of them";
    }
}

/// Separates the options at the start of the words from the rest: a script and its arguments.
///
/// # Errors
/// sbatch has no such option, or expects another form.
pub fn split(
    words: &[Vec<u8>],
    release: Release,
    source: Source,
) -> Result<(Vec<Given>, &[Vec<u8>]), OptionError> {
    let mut options = Vec::new();
    let mut rest = words;
    while let Some((word, mut after)) = rest.split_first() {
        if word == b"--" {
            return Ok((options, after));
        }
        if let Some(text) = word.strip_prefix(b"--") {
            let (spec, value) = long(text, &mut after, release)?;
            options.push(Given { name: spec.name, value, source });
        } else if let Some(letters) = word.strip_prefix(b"-").filter(|letters| !letters.is_empty()) {
            short(letters, &mut after, release, source, &mut options)?;
        } else {
            break;
        }
        rest = after;
    }
    Ok((options, rest))
}

/// The options that are set in the environment.
pub fn from_environment(release: Release, value: impl Fn(&str) -> Option<Vec<u8>>) -> Vec<Given> {
    let set = table::VARIABLES
        .iter()
        .filter_map(|(variable, option)| value(variable).map(|value| (*option, value)));
    set.filter(|(option, _)| table::options(release).any(|spec| spec.name == *option))
        .map(|(name, value)| Given { name, value: Some(value), source: Source::Environment })
        .collect()
}

/// Options of which sbatch takes one.
const RIVALS: [&[&str]; 2] = [&["mem", "mem-per-cpu", "mem-per-gpu"], &["cpus-per-task", "cpus-per-gpu"]];

/// Drops variables whose rival is an option: to sbatch, options of the script count as much as those of the command
/// line.
pub fn without_overruled(options: Vec<Given>) -> Vec<Given> {
    let is_rival = |one: &Given, other: &Given| {
        one.name != other.name
            && RIVALS.iter().any(|all| all.contains(&one.name) && all.contains(&other.name))
    };
    let is_overruled = |one: &Given| {
        one.source == Source::Environment
            && options.iter().any(|other| other.source != Source::Environment && is_rival(one, other))
    };
    options.iter().filter(|one| !is_overruled(one)).cloned().collect()
}

fn long(
    text: &[u8],
    after: &mut &[Vec<u8>],
    release: Release,
) -> Result<(&'static Spec, Option<Vec<u8>>), OptionError> {
    let mut halves = text.splitn(2, |byte| *byte == b'=');
    let name = halves.next().unwrap_or_default();
    let spec = named(name, release)?;
    let value = match (spec.arity, halves.next()) {
        (Arity::Flag, Some(_)) => return Err(OptionError::Flag(spec.name)),
        (Arity::Required, None) => {
            Some(next(after).ok_or_else(|| OptionError::NoValue(format!("--{}", spec.name)))?)
        }
        (_, value) => value.map(<[u8]>::to_vec),
    };
    Ok((spec, value))
}

/// The option with that name, or the only one that begins with it.
fn named(name: &[u8], release: Release) -> Result<&'static Spec, OptionError> {
    let known = table::options(release);
    if let Some(exact) = known.clone().find(|spec| spec.name.as_bytes() == name) {
        return Ok(exact);
    }
    let meant: Vec<_> = known.filter(|spec| spec.name.as_bytes().starts_with(name)).collect();
    match meant.as_slice() {
        [only] => Ok(only),
        [] => Err(OptionError::Unknown(format!("--{}", shown(name)), release)),
        several => {
            let meant = several.iter().map(|spec| format!("--{}", spec.name)).collect();
            Err(OptionError::Short { name: shown(name), meant })
        }
    }
}

/// Parses `-n2`, `-n 2`, and letters without a value before it: `-vHn2`.
fn short(
    letters: &[u8],
    after: &mut &[Vec<u8>],
    release: Release,
    source: Source,
    options: &mut Vec<Given>,
) -> Result<(), OptionError> {
    let mut letters = letters;
    while let Some((letter, rest)) = letters.split_first() {
        let option = || format!("-{}", letter.escape_ascii());
        let spec = table::options(release).find(|spec| spec.short == Some(*letter));
        let spec = spec.ok_or_else(|| OptionError::Unknown(option(), release))?;
        let same_word = Some(rest.to_vec()).filter(|value| !value.is_empty());
        let value = match spec.arity {
            Arity::Flag => None,
            Arity::Optional => same_word,
            Arity::Required => {
                Some(same_word.or_else(|| next(after)).ok_or_else(|| OptionError::NoValue(option()))?)
            }
        };
        options.push(Given { name: spec.name, value, source });
        if spec.arity != Arity::Flag {
            break;
        }
        letters = rest;
    }
    Ok(())
}

fn next(after: &mut &[Vec<u8>]) -> Option<Vec<u8>> {
    let (value, rest) = after.split_first()?;
    *after = rest;
    Some(value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Vec<u8>> {
        line.split_whitespace().map(|word| word.as_bytes().to_vec()).collect()
    }

    /// `name=value` for each option, then the rest.
    fn shown(line: &str, release: Release) -> Result<String, OptionError> {
        let words = words(line);
        let (options, rest) = split(&words, release, Source::Line)?;
        let mut parts: Vec<_> = options
            .iter()
            .map(|given| match &given.value {
                Some(value) => format!("{}={}", given.name, value.escape_ascii()),
                None => given.name.to_owned(),
            })
            .collect();
        parts.extend(rest.iter().map(|word| format!("[{}]", word.escape_ascii())));
        Ok(parts.join(" "))
    }

    #[test]
    fn words_are_taken_apart_as_getopt_does() {
        for (line, expected) in [
            ("--qos=q --gres=gpu:2 job.sh", "qos=q gres=gpu:2 [job.sh]"),
            ("--qos q --gres gpu:2", "qos=q gres=gpu:2"),
            ("-q q -pp -N 1", "qos=q partition=p nodes=1"),
            ("-Hvn2 job.sh -q x", "hold verbose ntasks=2 [job.sh] [-q] [x]"),
            ("-n -2", "ntasks=-2"),
            ("--qos= x", "qos= [x]"),
            ("--exclusive user", "exclusive [user]"),
            ("--exclusive=user", "exclusive=user"),
            ("-k2 -k job.sh", "no-kill=2 no-kill [job.sh]"),
            ("--reserv=r --part=p --gpus-per-n=2", "reservation=r partition=p gpus-per-node=2"),
            ("--gpus=2 --time 1:00", "gpus=2 time=1:00"),
            ("-- --qos=q", "[--qos=q]"),
            ("- --qos=q", "[-] [--qos=q]"),
            ("--gres=a=b", "gres=a=b"),
            ("--cluster=x", "cluster=x"),
        ] {
            assert_eq!(shown(line, Release(24, 11)).as_deref(), Ok(expected), "{line}");
        }
    }

    #[test]
    fn what_sbatch_would_not_take_is_said() {
        for (line, part) in [
            ("--no-such=1", "gpushare knows no option '--no-such' of sbatch in Slurm 24.11"),
            ("-Z", "gpushare knows no option '-Z'"),
            ("--gpus-per=1", "--gpus-per-node or --gpus-per-socket or --gpus-per-task"),
            ("--hold=1", "--hold takes no value"),
            ("--qos", "--qos needs a value"),
            ("-q", "-q needs a value"),
            ("-vq", "-q needs a value"),
        ] {
            let reason = shown(line, Release(24, 11)).unwrap_err().to_string();
            assert!(reason.contains(part), "{line}: {reason}");
        }
    }

    #[test]
    fn a_release_has_its_own_options() {
        assert!(shown("--tres-per-task=gres:gpu:1", Release(22, 5)).is_err());
        assert!(shown("--tres-per-task=gres:gpu:1", Release(23, 2)).is_ok());
        assert!(shown("--power=x", Release(24, 11)).is_err());
        assert!(shown("--requeue=expedite", Release(25, 5)).is_err());
        assert_eq!(shown("--requeue x", Release(25, 11)).as_deref(), Ok("requeue [x]"));
        // The same abbreviation means one option in one release and is ambiguous in another.
        assert_eq!(shown("--extra x:y:z", Release(22, 5)).as_deref(), Ok("extra-node-info=x:y:z"));
        assert_eq!(shown("--extra x", Release(23, 2)).as_deref(), Ok("extra=x"));
    }

    #[test]
    fn the_environment_stands_for_options() {
        let set = |name: &str| match name {
            "SBATCH_QOS" | "SBATCH_TRES_PER_TASK" | "SLURM_QOS" => Some(b"x".to_vec()),
            _ => None,
        };
        let names =
            |release| from_environment(release, set).iter().map(|given| given.name).collect::<Vec<_>>();
        assert_eq!(names(Release(24, 11)), ["qos", "tres-per-task"]);
        assert_eq!(names(Release(22, 5)), ["qos"]);
    }

    #[test]
    fn a_variable_gives_way_to_a_rival_option() {
        let given = |name, source| Given { name, value: None, source };
        let left = without_overruled(vec![
            given("mem", Source::Script),
            given("mem-per-gpu", Source::Environment),
            given("mem", Source::Environment),
            given("cpus-per-gpu", Source::Environment),
        ]);
        assert_eq!(
            left.iter().map(|one| one.name).collect::<Vec<_>>(),
            ["mem", "mem", "cpus-per-gpu"],
            "mem-per-gpu has a rival in the script"
        );
    }

    #[test]
    fn every_variable_stands_for_an_option() {
        for (variable, option) in table::VARIABLES {
            assert!(table::options(Release(26, 5)).any(|spec| spec.name == *option), "{variable}");
        }
    }
}
