//! slurmctld's settings: `scontrol show config`, which has slurm.conf and, since at least 22.05, cgroup.conf.

use std::collections::BTreeMap;

use gpushare::submit::policy::DefaultMemory;

use crate::Question;

/// Asks for them.
pub const SETTINGS: Question = ("scontrol", &["show", "config"]);

/// The values by key, in lowercase because releases differ in case. One key may have several lines.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    values: BTreeMap<String, Vec<String>>,
}

impl Settings {
    /// Reads lines `Key = value`; each of `Key[0] = value` and so on is kept.
    pub fn parse(text: &str) -> Settings {
        Settings::of(text.lines().filter_map(|line| line.split_once('=')))
    }

    /// Makes settings from keys and values.
    pub fn of<'a>(found: impl Iterator<Item = (&'a str, &'a str)>) -> Settings {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (key, value) in found {
            let key = key.trim().split('[').next().unwrap_or_default().to_ascii_lowercase();
            let value = value.trim();
            if key.is_empty() || value == "(null)" || value == "(null type)" {
                continue;
            }
            values.entry(key).or_default().push(value.to_owned());
        }
        Settings { values }
    }

    /// The value of a key, the first if it has several; empty if it has none.
    pub fn get(&self, key: &str) -> &str {
        self.all(key).first().map_or("", String::as_str)
    }

    /// The values of all of a key's lines.
    pub fn all(&self, key: &str) -> &[String] {
        self.values.get(&key.to_ascii_lowercase()).map_or(&[], Vec::as_slice)
    }

    /// The words of a list.
    pub fn list(&self, key: &str) -> Vec<&str> {
        self.all(key)
            .iter()
            .flat_map(|value| value.split(','))
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .collect()
    }

    /// Whether a list has a word, ignoring case.
    pub fn has(&self, key: &str, word: &str) -> bool {
        self.list(key).iter().any(|found| found.eq_ignore_ascii_case(word))
    }

    /// The value as a number; 0 if there is none.
    pub fn number(&self, key: &str) -> u64 {
        self.get(key).parse().unwrap_or(0)
    }

    /// `ClusterName`; empty if the text wasn't slurmctld's.
    pub fn cluster(&self) -> &str {
        self.get("ClusterName")
    }

    /// Whether `AccountingStorageEnforce` has `limits`: otherwise Slurm holds no job to any.
    pub fn enforces_limits(&self) -> bool {
        // `safe` includes limits (slurm.conf(5)), and slurmctld prints both.
        ["limits", "safe", "all"].iter().any(|word| self.has("AccountingStorageEnforce", word))
    }

    /// Whether it has `safe`: a job starts only if what is left of minutes lasts for its whole time limit.
    pub fn is_safe(&self) -> bool {
        ["safe", "all"].iter().any(|word| self.has("AccountingStorageEnforce", word))
    }

    /// The value as a time, in seconds; 0 if there is none.
    pub fn seconds(&self, key: &str) -> u64 {
        gpushare::text::time::seconds(self.get(key)).unwrap_or(0)
    }

    /// The number of `SlurmUser`, who sees every job, as root does.
    pub fn slurm_user(&self) -> Option<u32> {
        self.get("SlurmUser").split_once('(')?.1.trim_end_matches(')').parse().ok()
    }

    /// slurm.conf's default for jobs that request no memory, as the plugin reads it.
    pub fn default_memory(&self) -> DefaultMemory {
        default_memory(|key| self.get(key))
    }
}

/// Slurm also accepts a plugin's name with its type before it.
pub fn is_plugin(word: &str, name: &str) -> bool {
    word.strip_prefix("job_submit/").unwrap_or(word) == name
}

/// The default from anything that has these keys: slurm.conf or a partition. scontrol writes `DefMemPerCPU=UNLIMITED`
/// for 0, and `DefMemPerNode=UNLIMITED` if it isn't set.
pub(crate) fn default_memory<'a>(value: impl Fn(&str) -> &'a str) -> DefaultMemory {
    let [of_cpu, of_node] = ["DefMemPerCPU", "DefMemPerNode"].map(&value);
    let is_more = |value: &str| value.parse::<u64>().is_ok_and(|value| value > 0);
    let is_unlimited = of_cpu.eq_ignore_ascii_case("UNLIMITED") || of_cpu == "0";
    let defaults = value("JobDefaults").to_ascii_lowercase();
    let of_gpu = defaults.split(',').find_map(|word| word.trim().strip_prefix("defmempergpu="));
    DefaultMemory {
        of_node: (is_more(of_cpu) || is_more(of_node)).then_some(true).or(is_unlimited.then_some(false)),
        of_gpu: of_gpu.map(|value| value != "0"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_whatever_the_release_writes() {
        let text = "Configuration data as of 2026\nProlog[0]   = /a\nProlog[1] = /b\nPreemptType             = (null)\n\
                    TaskPlugin = task/cgroup,task/affinity\n\nCgroup Support Configuration:\nConstrainDevices = yes\n\
                    PriorityWeightQOS = 100\n";
        let settings = Settings::parse(text);
        assert_eq!(settings.list("prolog"), ["/a", "/b"]);
        assert_eq!((settings.all("Prolog").len(), settings.get("Prolog")), (2, "/a"));
        assert_eq!((settings.get("PreemptType"), settings.get("constraindevices")), ("", "yes"));
        assert!(settings.has("TaskPlugin", "task/CGROUP") && !settings.has("TaskPlugin", "cgroup"));
        assert_eq!((settings.number("PriorityWeightQOS"), settings.number("Prolog")), (100, 0));
    }

    #[test]
    fn slurms_user_and_whether_it_holds_jobs_to_limits() {
        for (enforce, expected) in
            [("associations,limits,qos", true), ("Safe", true), ("associations,qos", false), ("none", false)]
        {
            let text = format!(
                "AccountingStorageEnforce = {enforce}\nClusterName = lab\nSlurmUser = slurm(64030)\n"
            );
            let found = Settings::parse(&text);
            assert_eq!(
                (found.cluster(), found.enforces_limits(), found.slurm_user()),
                ("lab", expected, Some(64030)),
                "{enforce}"
            );
        }
        assert_eq!(Settings::parse("slurm_load_ctl_conf error: Unable to contact").cluster(), "");
    }
}
