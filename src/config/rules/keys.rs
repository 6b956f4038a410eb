//! The keys of the rules for all QOSes and partitions: their allowed values, and where each value goes.

use super::per_gpu::{CPUS_PER_GPU, MEM_PER_GPU, per_gpu};
use super::{Draft, Key};
use crate::config::values::{OFF_OR_PATH, is_gres_name, number, off_or_path, share_gres, word};
use crate::submit::policy::{ForeignTypes, Governed, GovernedAccounts, GovernedGres, LimitAdvice, Mode};
use crate::text::pattern::Patterns;
use crate::word_key;

/// A key whose value is a list of names: its own name, and where the names go.
macro_rules! names_key {
    ($name:literal => $($place:ident).+) => {
        Key {
            name: $name,
            allowed: $crate::config::values::NAMES,
            take: |target, value| {
                $crate::text::pattern::Patterns::parse(value).map(|found| target.$($place).+ = found)
            },
        }
    };
}
pub(super) use names_key;

pub(super) const KEYS: [Key<Draft>; 20] = [
    Key {
        name: "GovernedQOS",
        allowed: "auto alone, or names of QOSes separated by commas, in which * stands for any characters; a name \
                  with a blank in double quotes",
        take: |draft, value| governed(value).map(|found| draft.rules.policy.governed = found),
    },
    names_key!("GovernedPartitions" => rules.policy.partitions),
    Key {
        name: "GovernedAccounts",
        allowed: "auto or off alone, or names of accounts separated by commas, in which * stands for any \
                  characters; a name with a blank in double quotes",
        take: |draft, value| governed_accounts(value).map(|found| draft.rules.policy.accounts = found),
    },
    Key {
        name: "GovernedGRES",
        allowed: "names of GRES such as gpu, mps and shard, separated by commas",
        take: |draft, value| governed_gres(value).map(|found| draft.rules.policy.gres = found),
    },
    word_key!("ForeignTypes": ForeignTypes => rules.policy.foreign_types),
    word_key!("LimitAdvice": LimitAdvice => rules.policy.limit_advice),
    word_key!("Mode": Mode => rules.policy.mode),
    Key {
        name: "ExemptUsers",
        allowed: "names or numbers of users separated by commas, in which * stands for any characters; a name with \
                  a blank in double quotes",
        take: |draft, value| Patterns::parse(value).map(|found| draft.rules.policy.exempt.users = found),
    },
    names_key!("ExemptAccounts" => rules.policy.exempt.accounts),
    names_key!("ExemptPartitions" => rules.policy.exempt.partitions),
    names_key!("ExemptReservations" => rules.policy.exempt.reservations),
    Key {
        name: "ShareReservations",
        allowed: "parts of names of reservations separated by commas, in which * stands for any characters",
        take: |draft, value| {
            Patterns::parse(value).map(|found| draft.rules.policy.shares.reservations = found)
        },
    },
    Key {
        name: "ShareSizes",
        allowed: "whole numbers from 1 to 1000000 separated by commas",
        take: |draft, value| {
            let sizes = value.split(',').map(|size| number(size.trim(), 1, 1_000_000).map(u64::from));
            draft.rules.policy.shares.sizes = sizes.collect::<Option<_>>()?;
            Some(())
        },
    },
    names_key!("ShareOnlyPartitions" => rules.policy.shares.only_partitions),
    names_key!("GpuPartitions" => rules.policy.gpu_partitions),
    Key {
        name: "MaxCPUsPerGpu",
        allowed: CPUS_PER_GPU,
        take: |draft, value| per_gpu(value, "cpu").map(|cap| draft.rules.policy.caps.cpus = Some(cap)),
    },
    Key {
        name: "MaxMemPerGpu",
        allowed: MEM_PER_GPU,
        take: |draft, value| per_gpu(value, "mem").map(|cap| draft.rules.policy.caps.mem = Some(cap)),
    },
    Key {
        name: "GetUserEnv",
        allowed: "allow or drop",
        take: |draft, value| {
            word(value, &[("allow", false), ("drop", true)])
                .map(|drops| draft.rules.policy.drops_user_env = drops)
        },
    },
    Key {
        name: "MemoryGRES",
        allowed: "the name of a GRES that no node has, such as gpumem",
        take: |draft, value| share_gres(value).map(|found| draft.memory_gres = Some(found)),
    },
    Key {
        name: "RefusalCounts",
        allowed: OFF_OR_PATH,
        take: |draft, value| off_or_path(value).map(|found| draft.rules.refusal_counts = found),
    },
];

fn governed(value: &str) -> Option<Governed> {
    if value.eq_ignore_ascii_case("auto") {
        return Some(Governed::Auto);
    }
    names(value, &["auto"]).map(Governed::Names)
}

fn governed_accounts(value: &str) -> Option<GovernedAccounts> {
    match value.to_ascii_lowercase().as_str() {
        "auto" => Some(GovernedAccounts::Auto),
        "off" => Some(GovernedAccounts::Off),
        _ => names(value, &["auto", "off"]).map(GovernedAccounts::Names),
    }
}

/// Parses names, none of which may be one of the key's words: in a list, that would be meant as the word.
fn names(value: &str, words: &[&str]) -> Option<Patterns> {
    let is_word = |name: &str| words.iter().any(|word| word.eq_ignore_ascii_case(name));
    Patterns::parse(value).filter(|patterns| !patterns.iter().any(is_word))
}

fn governed_gres(value: &str) -> Option<GovernedGres> {
    let known = [("gpu", "gpu"), ("mps", "mps"), ("shard", "shard")];
    let names = value.split(',').map(str::trim).map(|name| word(name, &known).unwrap_or(name));
    names.clone().all(is_gres_name).then(|| GovernedGres(names.map(str::to_owned).collect()))
}
