//! The database's QOSes, according to sacctmgr.

use std::collections::{BTreeMap, BTreeSet};

use gpushare_slurm_text::limits::{self, Kind, Qos};

use gpushare_machine::config::Config;

use super::{ProgramError, ask, gres_of_type};

/// The facts about QOSes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qoses {
    /// All names.
    pub names: Vec<String>,
    /// The QOSes with a limit on a type of a governed GRES.
    pub governed: Vec<String>,
    /// The QOSes with a limit on a type of another GRES, by the GRES.
    pub ungoverned: BTreeMap<String, Vec<String>>,
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
    /// The TRES with limits that add up several jobs.
    pub of_several: BTreeSet<String>,
}

/// A QOS with limits on GPU types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Typed {
    /// The types, in lowercase as in the database.
    pub gres_types: BTreeSet<String>,
    /// `GrpTRES=gres/gpu:a40`: the limits without their numbers.
    pub limits: BTreeSet<String>,
    /// Those of the types whose limit is 0.
    pub none_of: BTreeSet<String>,
}

impl Typed {
    /// The type that its jobs can only mean, if it is one.
    pub fn only(&self) -> Option<&str> {
        let mut usable = self.gres_types.difference(&self.none_of);
        usable.next().filter(|_| usable.next().is_none()).map(String::as_str)
    }
}

/// The kinds of limits on what a job can have at once, alone or together with others.
const AT_ONCE: [Kind; 4] = [Kind::Grp, Kind::PerJob, Kind::PerUser, Kind::PerAccount];

impl Qoses {
    /// Asks slurmdbd.
    ///
    /// # Errors
    /// slurmdbd doesn't answer.
    pub fn ask(config: &Config) -> Result<Qoses, ProgramError> {
        let (program, arguments) = limits::QOSES;
        Ok(Qoses::of(&limits::qoses(&ask(program, arguments)?), config))
    }

    fn of(all: &[Qos], config: &Config) -> Qoses {
        let names = |is: &dyn Fn(&&Qos) -> bool| all.iter().filter(is).map(|qos| qos.name.clone()).collect();
        let is_governed = |gres: &str| config.policy.gres.has(gres.as_bytes());
        let of_types = |qos: &Qos| -> BTreeSet<String> {
            qos.limits.iter().filter_map(|(_, tres, _)| gres_of_type(tres)).map(str::to_owned).collect()
        };
        let mut ungoverned: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for qos in all {
            for gres in of_types(qos).into_iter().filter(|gres| !is_governed(gres)) {
                ungoverned.entry(gres).or_default().push(qos.name.clone());
            }
        }
        let typed = |qos: &Qos| {
            let of_gpus = || qos.limits.iter().filter(|(_, tres, _)| tres.starts_with("gres/gpu:"));
            let gres_types = of_gpus().map(|(_, tres, _)| tres["gres/gpu:".len()..].to_owned()).collect();
            let limits = of_gpus().map(|(field, tres, _)| format!("{field}={tres}")).collect();
            let none = of_gpus().filter(|(.., number)| *number == 0);
            let none_of = none.map(|(_, tres, _)| tres["gres/gpu:".len()..].to_owned()).collect();
            of_gpus().next().is_some().then(|| (qos.name.clone(), Typed { gres_types, limits, none_of }))
        };
        let mut priorities: Vec<&str> = all.iter().map(|qos| qos.priority.as_str()).collect();
        priorities.dedup();
        Qoses {
            names: names(&|_| true),
            governed: names(&|qos| of_types(qos).iter().any(|gres| is_governed(gres))),
            ungoverned,
            typed: all.iter().filter_map(typed).collect(),
            preempting: names(&|qos| qos.preempts),
            over_partition: all.iter().filter(|qos| qos.over_partition).map(|qos| qos.name.clone()).collect(),
            priorities: priorities.len() > 1,
            most: all.iter().filter_map(|qos| Some((qos.name.clone(), most(qos)?))).collect(),
            of_several: all.iter().flat_map(|qos| qos.limits.of_several()).map(str::to_owned).collect(),
        }
    }
}

/// The lowest of those limits on each TRES but memory; percentages are no numbers.
fn most(qos: &Qos) -> Option<BTreeMap<String, u64>> {
    let mut most: BTreeMap<String, u64> = BTreeMap::new();
    for (tres, number) in AT_ONCE.into_iter().flat_map(|kind| qos.limits.of(kind).iter()) {
        let smallest = most.entry(tres.to_owned()).or_insert(number);
        *smallest = number.min(*smallest);
    }
    most.remove("mem");
    (!most.is_empty() && !qos.is_relative).then_some(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qos_has_its_types_and_the_most_that_a_job_can_have() {
        let text = "a|cpu=8,gres/gpu:A40=4,mem=2T|gres/gpu:A40=2|gres/gpu:A40=3|gres/gpu=9||gres/gpu:A40=1|||||\
                    DenyOnLimit|0|\n\
                    b|||||||||||OverPartQOS|7|a\n\
                    half|gres/gpu=50||||||||||Relative|7|\n\
                    c|gres/gpu:a40=1,gres/gpu:h100=0|||||||||||0|\nd|gres/gpu:a40=1,gres/gpu:h100=2|||||||||||0|\n\
                    e|gres/gpu:a40=0,gres/nic:x=1|||||||||||0|\n";
        let found = Qoses::of(&limits::qoses(text), &Config::default());
        let most: Vec<(&str, u64)> =
            found.most["a"].iter().map(|(tres, most)| (tres.as_str(), *most)).collect();
        assert_eq!(most, [("cpu", 8), ("gres/gpu", 9), ("gres/gpu:a40", 2)]);
        assert_eq!(
            (found.most.len(), found.governed.join(" "), found.preempting.join(" ")),
            (4, "a c d e".to_owned(), "b".to_owned())
        );
        assert_eq!(
            ["a", "c", "d", "e"].map(|qos| found.typed[qos].only()),
            [Some("a40"), Some("a40"), None, None]
        );
        assert_eq!(found.ungoverned, [("nic".to_owned(), vec!["e".to_owned()])].into());
        assert_eq!(found.over_partition, ["b".to_owned()].into());
        assert!(found.of_several.contains("gres/gpu:a40") && !found.of_several.contains("gres/shard:a40"));
        assert!(found.priorities && found.typed["a"].gres_types.contains("a40"));
    }
}
