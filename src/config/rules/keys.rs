//! The keys of the rules for all QOSes and partitions: their allowed values, and where each value goes.

use super::per_gpu::{CPUS_PER_GPU, MEM_PER_GPU, cpus_per_gpu, mem_per_gpu};
use super::{Draft, Key};
use crate::config::values::{
    NAMES, OFF_OR_PATH, SHARE_GRES, is_gres_name, keys, number, off_or_path, share_gres, word,
};
use crate::submit::policy::{
    ForeignTypes, Governed, GovernedAccounts, GovernedGres, LimitAdvice, Mode, PartitionRecord, ShareGres,
};
use crate::text::pattern::Patterns;
use crate::word::Word;

pub(super) const KEYS: &[Key<Draft>] = keys! {
    "GovernedQOS": "auto alone, or names of QOSes separated by commas, in which * matches any characters; a name \
                    with a blank in double quotes" => rules.policy.governed = governed;
    "GovernedPartitions": NAMES => rules.policy.partitions = Patterns::parse;
    "GovernedAccounts": "auto or off alone, or names of accounts separated by commas, in which * matches any \
                         characters; a name with a blank in double quotes" => rules.policy.accounts = governed_accounts;
    "GovernedGRES": "names of GRES such as gpu, mps and shard, separated by commas"
        => rules.policy.gres = governed_gres;
    "ForeignTypes": ForeignTypes::ALLOWED => rules.policy.foreign_types = ForeignTypes::read;
    "LimitAdvice": LimitAdvice::ALLOWED => rules.policy.limit_advice = LimitAdvice::read;
    "Mode": Mode::ALLOWED => rules.policy.mode = Mode::read;
    "ExemptUsers": "user names or UIDs separated by commas, in which * matches any characters; a name with \
                    a blank in double quotes" => rules.policy.exempt.users = Patterns::parse;
    "ExemptAccounts": NAMES => rules.policy.exempt.accounts = Patterns::parse;
    "ExemptPartitions": NAMES => rules.policy.exempt.partitions = Patterns::parse;
    "ExemptReservations": NAMES => rules.policy.exempt.reservations = Patterns::parse;
    "ShareReservations": "parts of names of reservations separated by commas, in which * matches any characters"
        => rules.policy.shares.reservations = Patterns::parse;
    "ShareSizes": "whole numbers from 1 to 1000000 separated by commas" => rules.policy.shares.sizes = sizes;
    "ShareOnlyPartitions": NAMES => rules.policy.shares.only_partitions = Patterns::parse;
    "GpuPartitions": NAMES => rules.policy.gpu_partitions = Patterns::parse;
    "MaxCPUsPerGpu": CPUS_PER_GPU => rules.policy.caps.cpus = cpus_per_gpu;
    "MaxMemPerGpu": MEM_PER_GPU => rules.policy.caps.mem = mem_per_gpu;
    "GetUserEnv": "allow or drop" => rules.policy.drops_user_env = drops_user_env;
    "ShareGRES": SHARE_GRES => rules.policy.share_gres = |text| share_gres(text).map(ShareGres);
    "MemoryGRES": "the name of a GRES that no node has, such as gpumem" => memory_gres = share_gres;
    "RefusalCounts": OFF_OR_PATH => rules.refusal_counts = off_or_path;
};

/// Those of a line `PartitionName=NAMES Key=Value…`, which replace those for all partitions.
pub(super) const OF_PARTITIONS: &[Key<PartitionRecord>] = keys! {
    "PartitionName": NAMES => names = Patterns::parse;
    "MaxCPUsPerGpu": CPUS_PER_GPU => caps.cpus = cpus_per_gpu;
    "MaxMemPerGpu": MEM_PER_GPU => caps.mem = mem_per_gpu;
};

fn drops_user_env(value: &str) -> Option<bool> {
    word(value, &[("allow", false), ("drop", true)])
}

fn sizes(value: &str) -> Option<Vec<u64>> {
    value.split(',').map(|size| number(size.trim(), 1, 1_000_000).map(u64::from)).collect()
}

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
