//! The keys that stand on a line of their own: what each allows, and where its value goes.

use super::{Config, OnCollision, Overcommit, Packing, Placement, Problem, UserMix, record};
use crate::device::GpuFiles;
use crate::pattern::Patterns;
use crate::policy::{ForeignTypes, Governed, GovernedGres, Mode, ShareGres};

/// One key: its name, what it allows, and how a value is taken over.
struct Key {
    name: &'static str,
    allowed: &'static str,
    take: fn(&mut Draft, &str) -> Option<()>,
}

const NAMES: &str = "names separated by commas, in which * stands for any characters";

const KEYS: [Key; 22] = [
    Key {
        name: "GovernedQOS",
        allowed: "auto, or names of QOSes separated by commas, in which * stands for any characters",
        take: |draft, value| {
            draft.config.policy.governed = governed(value)?;
            Some(())
        },
    },
    Key {
        name: "GovernedPartitions",
        allowed: NAMES,
        take: |draft, value| names_to(&mut draft.config.policy.partitions, value),
    },
    Key {
        name: "GovernedGRES",
        allowed: "gpu, mps and shard, separated by commas, or some of them",
        take: |draft, value| {
            draft.config.policy.gres = governed_gres(value)?;
            Some(())
        },
    },
    Key {
        name: "ForeignTypes",
        allowed: "deny or allow",
        take: |draft, value| {
            let known = [("deny", ForeignTypes::Deny), ("allow", ForeignTypes::Allow)];
            draft.config.policy.foreign_types = word(value, &known)?;
            Some(())
        },
    },
    Key {
        name: "Mode",
        allowed: MODES,
        take: |draft, value| {
            draft.config.policy.mode = mode(value)?;
            Some(())
        },
    },
    Key {
        name: "ExemptUsers",
        allowed: "names or numbers of users separated by commas, in which * stands for any characters",
        take: |draft, value| names_to(&mut draft.config.policy.exempt.users, value),
    },
    Key {
        name: "ExemptAccounts",
        allowed: NAMES,
        take: |draft, value| names_to(&mut draft.config.policy.exempt.accounts, value),
    },
    Key {
        name: "ExemptPartitions",
        allowed: NAMES,
        take: |draft, value| names_to(&mut draft.config.policy.exempt.partitions, value),
    },
    Key {
        name: "ExemptReservations",
        allowed: NAMES,
        take: |draft, value| names_to(&mut draft.config.policy.exempt.reservations, value),
    },
    Key {
        name: "ShareReservations",
        allowed: "parts of names of reservations separated by commas, in which * stands for any characters",
        take: |draft, value| names_to(&mut draft.config.policy.shares.reservations, value),
    },
    Key {
        name: "ShareSizes",
        allowed: "whole numbers from 1 to 1000000 separated by commas",
        take: |draft, value| {
            let size = |text: &str| text.trim().parse().ok().filter(|size| (1..=1_000_000).contains(size));
            draft.config.policy.shares.sizes = value.split(',').map(size).collect::<Option<_>>()?;
            Some(())
        },
    },
    Key {
        name: "ShareOnlyPartitions",
        allowed: NAMES,
        take: |draft, value| names_to(&mut draft.config.policy.shares.only_partitions, value),
    },
    Key {
        name: "Placement",
        allowed: "off, follow, own or override",
        take: |draft, value| {
            let known = [
                ("off", Placement::Off),
                ("follow", Placement::Follow),
                ("own", Placement::Own),
                ("override", Placement::Override),
            ];
            draft.config.node.placement = word(value, &known)?;
            Some(())
        },
    },
    Key {
        name: "ShareGRES",
        allowed: "the name of a GRES, such as mps, shard or gpushare; not gpu",
        take: |draft, value| {
            draft.config.node.share_gres = share_gres(value)?;
            Some(())
        },
    },
    Key {
        name: "UnitsPerGpu",
        allowed: "a whole number from 1 to 1000000",
        take: |draft, value| {
            draft.units_per_gpu = Some(value.parse().ok().filter(|units| (1..=1_000_000).contains(units))?);
            Some(())
        },
    },
    Key {
        name: "GpuFile",
        allowed: "auto, or paths as in gres.conf's File=, such as /dev/nvidia[0-3]",
        take: |draft, value| {
            draft.config.node.gpu_files = GpuFiles::parse(value)?;
            Some(())
        },
    },
    Key {
        name: "Policy",
        allowed: "spread or pack",
        take: |draft, value| {
            draft.config.node.packing = word(value, &[("spread", Packing::Spread), ("pack", Packing::Pack)])?;
            Some(())
        },
    },
    Key {
        name: "UserMix",
        allowed: "allow, avoid or deny",
        take: |draft, value| {
            let known = [("allow", UserMix::Allow), ("avoid", UserMix::Avoid), ("deny", UserMix::Deny)];
            draft.config.node.user_mix = word(value, &known)?;
            Some(())
        },
    },
    Key {
        name: "OnCollision",
        allowed: "fail or run",
        take: |draft, value| {
            let known = [("fail", OnCollision::Fail), ("run", OnCollision::Run)];
            draft.config.node.on_collision = word(value, &known)?;
            Some(())
        },
    },
    Key {
        name: "FenceDrm",
        allowed: "yes or no",
        take: |draft, value| {
            draft.config.node.fence_drm = word(value, &YES_NO)?;
            Some(())
        },
    },
    Key {
        name: "FrameworkEnv",
        allowed: "yes or no",
        take: |draft, value| {
            draft.config.node.framework_env = word(value, &YES_NO)?;
            Some(())
        },
    },
    Key {
        name: "Overcommit",
        allowed: "allow or refuse",
        take: |draft, value| {
            let known = [("allow", Overcommit::Allow), ("refuse", Overcommit::Refuse)];
            draft.config.node.overcommit = word(value, &known)?;
            Some(())
        },
    },
];

/// Every key that can begin a line.
pub(super) fn names() -> Vec<&'static str> {
    KEYS.iter().map(|key| key.name).chain([record::KEY]).collect()
}

/// What was read so far.
#[derive(Default)]
pub(super) struct Draft {
    config: Config,
    units_per_gpu: Option<u32>,
    seen: Vec<(&'static str, usize)>,
}

impl Draft {
    pub(super) fn take(&mut self, number: usize, line: &str) -> Result<(), Problem> {
        let (name, value) = line.split_once('=').ok_or_else(|| Problem::NoValue(line.to_owned()))?;
        let (name, value) = (name.trim(), value.trim());
        if name.eq_ignore_ascii_case(record::KEY) {
            self.config.policy.records.push(record::parse(line)?);
            return Ok(());
        }
        let key = KEYS
            .iter()
            .find(|key| key.name.eq_ignore_ascii_case(name))
            .ok_or_else(|| Problem::UnknownKey(name.to_owned(), names()))?;
        if let Some((_, first)) = self.seen.iter().find(|(seen, _)| *seen == key.name) {
            return Err(Problem::Twice { key: key.name, first: Some(*first) });
        }
        self.seen.push((key.name, number));
        let (key, allowed) = (key.name, (key.allowed, key.take));
        (allowed.1)(self, value).ok_or_else(|| Problem::BadValue {
            key,
            value: value.to_owned(),
            allowed: allowed.0,
        })
    }

    pub(super) fn finish(mut self) -> Result<Config, Problem> {
        let because = match self.config.node.placement {
            Placement::Off => None,
            Placement::Follow => Some("Placement=follow"),
            Placement::Own => Some("Placement=own"),
            Placement::Override => Some("Placement=override"),
        };
        match (self.units_per_gpu, because) {
            (Some(units), because) => {
                self.config.node.units_per_gpu = units;
                self.config.policy.shares.most = because.map(|_| u64::from(units));
            }
            (None, Some(because)) => return Err(Problem::Missing { key: "UnitsPerGpu", because }),
            (None, None) => {}
        }
        // slurmctld notes the size of such a share for the node.
        self.config.policy.share_gres = ShareGres(self.config.node.share_gres.clone());
        Ok(self.config)
    }
}

pub(super) fn word<T: Copy>(value: &str, known: &[(&str, T)]) -> Option<T> {
    known.iter().find(|(name, _)| name.eq_ignore_ascii_case(value)).map(|(_, meaning)| *meaning)
}

pub(super) const YES_NO: [(&str, bool); 2] = [("yes", true), ("no", false)];

pub(super) const MODES: &str = "enforce, warn, audit or default";

pub(super) fn mode(value: &str) -> Option<Mode> {
    let known = [
        ("enforce", Mode::Enforce),
        ("warn", Mode::Warn),
        ("audit", Mode::Audit),
        ("default", Mode::Default),
    ];
    word(value, &known)
}

fn names_to(place: &mut Patterns, value: &str) -> Option<()> {
    *place = Patterns::parse(value)?;
    Some(())
}

fn governed(value: &str) -> Option<Governed> {
    if value.eq_ignore_ascii_case("auto") {
        return Some(Governed::Auto);
    }
    Patterns::parse(value).map(Governed::Names)
}

/// Slurm writes GRES names so; `gpu` is whole GPUs.
fn share_gres(value: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let name = !value.is_empty() && value.len() <= 64 && value.chars().all(plain) && value != "gpu";
    name.then(|| value.to_owned())
}

fn governed_gres(value: &str) -> Option<GovernedGres> {
    let known = [("gpu", "gpu"), ("mps", "mps"), ("shard", "shard")];
    let names = value.split(',').map(|name| word(name.trim(), &known).map(str::to_owned));
    names.collect::<Option<_>>().map(GovernedGres)
}
