//! The database's QOSes, according to sacctmgr.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::Config;

use super::{ProgramError, ask};

/// The facts about QOSes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qoses {
    /// All names.
    pub names: Vec<String>,
    /// The QOSes with a limit on a type of a governed GRES.
    pub governed: Vec<String>,
    /// The QOSes with a limit on a GPU type.
    pub typed: BTreeMap<String, Typed>,
    /// The QOSes that preempt others.
    pub preempting: Vec<String>,
    /// The QOSes whose limits apply even if a partition's QOS has the same.
    pub over_partition: BTreeSet<String>,
    /// Whether QOSes differ in priority.
    pub priorities: bool,
    /// The most that one job can have at once under a QOS, such as `gres/gpu:a40`, 4. Omits memory.
    pub most: BTreeMap<String, BTreeMap<String, u64>>,
}

/// A QOS with limits on GPU types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Typed {
    /// The types, in lowercase as in the database.
    pub gres_types: BTreeSet<String>,
    /// `GrpTRES=gres/gpu:a40`: the limits without their numbers.
    pub limits: BTreeSet<String>,
}

/// Fields of a QOS that may limit a GPU type.
const LIMITS: [&str; 10] = [
    "GrpTRES",
    "MaxTRES",
    "MaxTRESPU",
    "MaxTRESPA",
    "MaxTRESPerNode",
    "GrpTRESMins",
    "GrpTRESRunMins",
    "MaxTRESMins",
    "MaxTRESRunMinsPA",
    "MaxTRESRunMinsPU",
];

/// Those of them that limit what a job can have at once, alone or together with others.
const AT_ONCE: [&str; 4] = ["GrpTRES", "MaxTRES", "MaxTRESPU", "MaxTRESPA"];

impl Qoses {
    /// Asks slurmdbd.
    ///
    /// # Errors
    /// slurmdbd doesn't answer.
    pub fn ask(config: &Config) -> Result<Qoses, ProgramError> {
        let fields = format!("format=name,priority,preempt,flags,{}", LIMITS.join(","));
        Ok(read(&ask("sacctmgr", &["-nP", "show", "qos", &fields])?, config))
    }
}

/// `gres/gpu:a40=4` → gpu, a40
fn type_of(limit: &str) -> Option<(&str, &str)> {
    limit.rsplit_once('=')?.0.strip_prefix("gres/")?.split_once(':')
}

fn read(text: &str, config: &Config) -> Qoses {
    let mut found = Qoses::default();
    let mut priorities: Vec<&str> = Vec::new();
    for line in text.lines() {
        let mut columns = line.split('|');
        let (Some(name), Some(priority), Some(preempts)) = (columns.next(), columns.next(), columns.next())
        else {
            continue;
        };
        found.names.push(name.to_owned());
        let flags = columns.next().unwrap_or_default();
        let has = |name: &str| flags.split(',').any(|flag| flag.eq_ignore_ascii_case(name));
        if has("OverPartQOS") {
            found.over_partition.insert(name.to_owned());
        }
        let limits: Vec<(&str, &str)> = LIMITS
            .into_iter()
            .zip(columns)
            .flat_map(|(field, text)| text.split(',').map(move |limit| (field, limit)))
            .collect();
        let most = most(&limits);
        // Limits with `Relative` (23.11) are percentages.
        if !most.is_empty() && !has("Relative") {
            found.most.insert(name.to_owned(), most);
        }
        // Such as `GrpTRES`, `gpu`, `a40`.
        let limits: Vec<(&str, &str, &str)> = limits
            .into_iter()
            .filter_map(|(field, limit)| type_of(limit).map(|(gres, gres_type)| (field, gres, gres_type)))
            .collect();
        let governed = limits.iter().any(|(_, gres, _)| config.policy.gres.0.iter().any(|name| name == gres));
        let of_gpus = || limits.iter().filter(|(_, gres, _)| *gres == "gpu");
        let typed = Typed {
            gres_types: of_gpus().map(|(.., gres_type)| gres_type.to_ascii_lowercase()).collect(),
            limits: of_gpus()
                .map(|(field, _, gres_type)| format!("{field}=gres/gpu:{}", gres_type.to_ascii_lowercase()))
                .collect(),
        };
        if governed {
            found.governed.push(name.to_owned());
        }
        if !typed.gres_types.is_empty() {
            found.typed.insert(name.to_owned(), typed);
        }
        if !preempts.is_empty() {
            found.preempting.push(name.to_owned());
        }
        priorities.push(priority);
    }
    priorities.dedup();
    found.priorities = priorities.len() > 1;
    found
}

fn most(limits: &[(&str, &str)]) -> BTreeMap<String, u64> {
    let mut most: BTreeMap<String, u64> = BTreeMap::new();
    for (_, limit) in limits.iter().filter(|(field, _)| AT_ONCE.contains(field)) {
        let Some((tres, number)) = limit.rsplit_once('=') else { continue };
        if let Ok(number) = number.parse() {
            let smallest = most.entry(tres.to_owned()).or_insert(number);
            *smallest = number.min(*smallest);
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qos_has_its_types_and_the_most_that_a_job_can_have() {
        // The columns are name, priority, preempt, flags, and then LIMITS.
        let text = "a|0||DenyOnLimit|cpu=8,gres/gpu:A40=4,mem=2T|gres/gpu:A40=2|gres/gpu:A40=3|\
                    gres/gpu=9||gres/gpu:A40=1|||||\n\
                    b|7|a|OverPartQOS||||||||||\n\
                    half|7||Relative|gres/gpu=50|||||||||\n";
        let found = read(text, &Config::default());
        let most: Vec<(&str, u64)> =
            found.most["a"].iter().map(|(tres, most)| (tres.as_str(), *most)).collect();
        assert_eq!(most, [("cpu", 8), ("gres/gpu", 9), ("gres/gpu:A40", 2)]);
        assert_eq!(
            (found.most.len(), found.governed, found.preempting),
            (1, vec!["a".to_owned()], vec!["b".to_owned()])
        );
        assert_eq!(found.over_partition, ["b".to_owned()].into());
        assert!(found.priorities && found.typed["a"].gres_types.contains("a40"));
    }
}
