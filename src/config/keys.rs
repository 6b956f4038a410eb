//! The keys that stand on a line of their own: what each allows, and where its value goes.

use std::collections::BTreeMap;

use super::values::{
    MODES, NAMES, OFF_OR_PATH, YES_NO, governed, governed_accounts, governed_gres, gpu_weights, milliseconds,
    mode, names_to, number, nvml, off_or_path, path, share_gres, word,
};
use super::{
    ComputeMode, Config, FrameworkEnv, Mps, OnCollision, OnMpsFailure, Overcommit, Packing, Placement,
    Problem, Shares, UserMix, VisibleDevices, record, share,
};
use crate::device::GpuFiles;
use crate::ledger::RUN_DIR;
use crate::policy::{ForeignTypes, LimitAdvice, ShareGres};

/// One key: its name, what it allows, and how a value is taken over.
struct Key {
    name: &'static str,
    allowed: &'static str,
    take: fn(&mut Draft, &str) -> Option<()>,
}

const KEYS: [Key; 38] = [
    Key {
        name: "GovernedQOS",
        allowed: "auto, or names of QOSes separated by commas, in which * stands for any characters",
        take: |draft, value| governed(value).map(|found| draft.config.policy.governed = found),
    },
    Key {
        name: "GovernedPartitions",
        allowed: NAMES,
        take: |draft, value| names_to(&mut draft.config.policy.partitions, value),
    },
    Key {
        name: "GovernedAccounts",
        allowed: "auto, off, or names of accounts separated by commas, in which * stands for any characters",
        take: |draft, value| governed_accounts(value).map(|found| draft.config.policy.accounts = found),
    },
    Key {
        name: "GovernedGRES",
        allowed: "names of GRES such as gpu, mps and shard, separated by commas",
        take: |draft, value| governed_gres(value).map(|found| draft.config.policy.gres = found),
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
        name: "LimitAdvice",
        allowed: "warn, refuse or off",
        take: |draft, value| {
            let known =
                [("warn", LimitAdvice::Warn), ("refuse", LimitAdvice::Refuse), ("off", LimitAdvice::Off)];
            draft.config.policy.limit_advice = word(value, &known)?;
            Some(())
        },
    },
    Key {
        name: "Mode",
        allowed: MODES,
        take: |draft, value| mode(value).map(|found| draft.config.policy.mode = found),
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
            let sizes = value.split(',').map(|size| number(size.trim(), 1, 1_000_000).map(u64::from));
            draft.config.policy.shares.sizes = sizes.collect::<Option<_>>()?;
            Some(())
        },
    },
    Key {
        name: "ShareOnlyPartitions",
        allowed: NAMES,
        take: |draft, value| names_to(&mut draft.config.policy.shares.only_partitions, value),
    },
    Key {
        name: "GpuWeight",
        allowed: "TYPE:NUMBER, such as a40:1,h100:4.5, separated by commas, each type once",
        take: |draft, value| gpu_weights(value).map(|found| draft.config.gpu_weights = found),
    },
    Key {
        name: "GetUserEnv",
        allowed: "allow or drop",
        take: |draft, value| {
            draft.config.policy.drops_user_env = word(value, &[("allow", false), ("drop", true)])?;
            Some(())
        },
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
        take: |draft, value| share_gres(value).map(|found| draft.config.node.share_gres = found),
    },
    Key {
        name: "UnitsPerGpu",
        allowed: "a whole number from 1 to 1000000",
        take: |draft, value| {
            draft.units_per_gpu = Some(number(value, 1, 1_000_000)?);
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
            word(value, &known).map(|found| draft.config.node.user_mix = found)
        },
    },
    Key {
        name: "OnCollision",
        allowed: "fail or run",
        take: |draft, value| {
            let known = [("fail", OnCollision::Fail), ("run", OnCollision::Run)];
            word(value, &known).map(|found| draft.config.node.on_collision = found)
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
        name: "VisibleDevices",
        allowed: "index or uuid",
        take: |draft, value| {
            let known = [("index", VisibleDevices::Index), ("uuid", VisibleDevices::Uuid)];
            word(value, &known).map(|found| draft.config.node.visible_devices = found)
        },
    },
    Key {
        name: "FrameworkEnv",
        allowed: "no, yes or pytorch",
        take: |draft, value| {
            let known =
                [("no", FrameworkEnv::No), ("yes", FrameworkEnv::Yes), ("pytorch", FrameworkEnv::Pytorch)];
            word(value, &known).map(|found| draft.config.node.framework_env = found)
        },
    },
    Key {
        name: "MemPerUnit",
        allowed: "a whole number of MiB from 1 to 1000000",
        take: |draft, value| {
            draft.config.node.mem_per_unit = Some(number(value, 1, 1_000_000)?);
            Some(())
        },
    },
    Key {
        name: "Nvml",
        allowed: "auto, off, or the path of libnvidia-ml.so.1",
        take: |draft, value| nvml(value).map(|found| draft.config.node.nvml = found),
    },
    Key {
        name: "LoadTimeout",
        allowed: "milliseconds, from 10 to 10000",
        take: |draft, value| {
            draft.config.node.load_timeout = milliseconds(value, 10, 10_000)?;
            Some(())
        },
    },
    Key {
        name: "Mps",
        allowed: "off, per-user or multiuser",
        take: |draft, value| {
            let known = [("off", Mps::Off), ("per-user", Mps::PerUser), ("multiuser", Mps::Multiuser)];
            draft.config.node.mps = word(value, &known)?;
            Some(())
        },
    },
    Key {
        name: "MpsControl",
        allowed: "the path of nvidia-cuda-mps-control",
        take: |draft, value| path(value).map(|found| draft.config.node.mps_control = found),
    },
    Key {
        name: "MpsDir",
        allowed: "the path of a folder, at most 60 characters long",
        take: |draft, value| {
            draft.config.node.mps_dir = path(value).filter(|path| path.as_os_str().len() <= 60)?;
            Some(())
        },
    },
    Key {
        name: "MpsTimeout",
        allowed: "milliseconds, from 100 to 60000",
        take: |draft, value| {
            draft.config.node.mps_timeout = milliseconds(value, 100, 60_000)?;
            Some(())
        },
    },
    Key {
        name: "OnMpsFailure",
        allowed: "fail or run",
        take: |draft, value| {
            let known = [("fail", OnMpsFailure::Fail), ("run", OnMpsFailure::Run)];
            draft.config.node.on_mps_failure = word(value, &known)?;
            Some(())
        },
    },
    Key {
        name: "ComputeMode",
        allowed: "keep or exclusive",
        take: |draft, value| {
            let known = [("keep", ComputeMode::Keep), ("exclusive", ComputeMode::Exclusive)];
            draft.config.node.compute_mode = word(value, &known)?;
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
    Key {
        name: "GpuStat",
        allowed: "off, or an absolute path that is not gpushare's own /run/gpushare",
        take: |draft, value| {
            let folder = off_or_path(value)?;
            // Files there that are named by numbers are the ledger's.
            (!folder.as_ref().is_some_and(|folder| folder.starts_with(RUN_DIR))).then_some(())?;
            draft.config.node.gpu_stat = folder;
            Some(())
        },
    },
    Key {
        name: "RefusalCounts",
        allowed: OFF_OR_PATH,
        take: |draft, value| off_or_path(value).map(|found| draft.config.refusal_counts = found),
    },
];

/// Every key that can begin a line.
pub(super) fn names() -> Vec<&'static str> {
    KEYS.iter().map(|key| key.name).chain([record::KEY, share::KEY]).collect()
}

/// What was read so far.
pub(super) struct Draft {
    lines_of_shares: Shares,
    config: Config,
    units_per_gpu: Option<u32>,
    seen: Vec<(&'static str, usize)>,
    /// Line numbers of shares, by QOS.
    /// Not hashed: that would take memory of each thread of slurmctld's, and keep it.
    shares: BTreeMap<String, usize>,
}

impl Draft {
    pub(super) fn new(lines_of_shares: Shares) -> Draft {
        let (config, seen, shares) = (Config::default(), Vec::new(), BTreeMap::new());
        Draft { lines_of_shares, config, units_per_gpu: None, seen, shares }
    }

    pub(super) fn take(&mut self, number: usize, line: &str) -> Result<(), Problem> {
        let (name, value) = line.split_once('=').ok_or_else(|| Problem::NoValue(line.to_owned()))?;
        let (name, value) = (name.trim(), value.trim());
        if name.eq_ignore_ascii_case(record::KEY) {
            self.config.policy.records.push(record::parse(line)?);
            return Ok(());
        }
        if name.eq_ignore_ascii_case(share::KEY) {
            if self.lines_of_shares == Shares::Skip {
                return Ok(());
            }
            let share = share::parse(number, line)?;
            if let Some(first) = self.shares.insert(share.qos.clone(), number) {
                return Err(Problem::SameShare(share.qos, first));
            }
            self.config.shares.push(share);
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
        let node = &self.config.node;
        // Under EXCLUSIVE_PROCESS a GPU takes one MPS server, and a user's own serves that user alone. Where Slurm picks GPUs
        // it mixes users whatever UserMix says.
        if node.compute_mode == ComputeMode::Exclusive
            && node.mps != Mps::Multiuser
            && (node.mps == Mps::Off || node.user_mix != UserMix::Deny || node.placement == Placement::Follow)
        {
            return Err(Problem::Against {
                setting: "ComputeMode=exclusive",
                needs: "Mps=multiuser, or Mps=per-user and UserMix=deny where gpushare picks GPUs (Placement=own or override)",
            });
        }
        if !self.seen.iter().any(|(key, _)| *key == "GovernedGRES") {
            self.config.policy.gres.add(&self.config.node.share_gres);
        }
        // slurmctld notes the size of such a share for the node.
        self.config.policy.share_gres = ShareGres(self.config.node.share_gres.clone());
        let of_shares = self.config.shares.iter().flat_map(|share| &share.gpus).map(|(kind, _)| kind);
        let types = of_shares.chain(self.config.gpu_weights.iter().map(|weight| &weight.kind));
        self.config.policy.types = types.cloned().collect();
        self.config.policy.types.sort_unstable();
        self.config.policy.types.dedup();
        for share in &mut self.config.shares {
            share.keeps_to_its_types = self.config.policy.keeps_to_its_types(share.qos.as_bytes());
        }
        Ok(self.config)
    }
}
