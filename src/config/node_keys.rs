//! The keys of a node's settings: on separate lines for all nodes, or on a `NodeName=` line for some.

use super::RUN_DIR;
use super::gpu_files::GpuFiles;
use super::units::UnitsPerGpu;
use super::values::{YES_NO, milliseconds, number, off_or_path, path, word};
use super::{
    ComputeMode, ForeignProcesses, FrameworkEnv, Mps, NodeConfig, Nvml, OnCollision, OnMpsFailure,
    Overcommit, Packing, Placement, Problem, UserMix, VisibleDevices,
};

/// One key: its name, what it allows, and how a value is taken over.
pub(super) struct NodeKey {
    pub(super) name: &'static str,
    allowed: &'static str,
    take: fn(&mut NodeConfig, &str) -> Option<()>,
}

pub(super) const NODE_KEYS: [NodeKey; 22] = [
    NodeKey {
        name: "Placement",
        allowed: "off, follow, own or override",
        take: |node, value| {
            let known = [
                ("off", Placement::Off),
                ("follow", Placement::Follow),
                ("own", Placement::Own),
                ("override", Placement::Override),
            ];
            node.placement = word(value, &known)?;
            Some(())
        },
    },
    NodeKey {
        name: "UnitsPerGpu",
        allowed: "a whole number from 1 to 1000000, a list with one for each GPU, or TYPE:NUMBER for each type of GPU",
        take: |node, value| {
            node.units_per_gpu = Some(UnitsPerGpu::parse(value)?);
            Some(())
        },
    },
    NodeKey {
        name: "GpuFile",
        allowed: "auto, or paths as in gres.conf's File=, such as /dev/nvidia[0-3]",
        take: |node, value| {
            node.gpu_files = GpuFiles::parse(value)?;
            Some(())
        },
    },
    NodeKey {
        name: "Packing",
        allowed: "spread or pack",
        take: |node, value| {
            node.packing = word(value, &[("spread", Packing::Spread), ("pack", Packing::Pack)])?;
            Some(())
        },
    },
    NodeKey {
        name: "UserMix",
        allowed: "allow, avoid or deny",
        take: |node, value| {
            let known = [("allow", UserMix::Allow), ("avoid", UserMix::Avoid), ("deny", UserMix::Deny)];
            node.user_mix = word(value, &known)?;
            Some(())
        },
    },
    NodeKey {
        name: "OnCollision",
        allowed: "fail or run",
        take: |node, value| {
            let known = [("fail", OnCollision::Fail), ("run", OnCollision::Run)];
            node.on_collision = word(value, &known)?;
            Some(())
        },
    },
    NodeKey {
        name: "FenceDrm",
        allowed: "yes or no",
        take: |node, value| {
            node.fence_drm = word(value, &YES_NO)?;
            Some(())
        },
    },
    NodeKey {
        name: "VisibleDevices",
        allowed: "index or uuid",
        take: |node, value| {
            let known = [("index", VisibleDevices::Index), ("uuid", VisibleDevices::Uuid)];
            node.visible_devices = word(value, &known)?;
            Some(())
        },
    },
    NodeKey {
        name: "FrameworkEnv",
        allowed: "no, yes or pytorch",
        take: |node, value| {
            let known =
                [("no", FrameworkEnv::No), ("yes", FrameworkEnv::Yes), ("pytorch", FrameworkEnv::Pytorch)];
            node.framework_env = word(value, &known)?;
            Some(())
        },
    },
    NodeKey {
        name: "MemPerUnit",
        allowed: "a whole number of MiB from 1 to 1000000",
        take: |node, value| {
            node.mem_per_unit = Some(number(value, 1, 1_000_000)?);
            Some(())
        },
    },
    NodeKey {
        name: "Nvml",
        allowed: "auto, off, or the path of libnvidia-ml.so.1",
        take: |node, value| nvml(value).map(|found| node.nvml = found),
    },
    NodeKey {
        name: "NvmlTimeout",
        allowed: "milliseconds, from 10 to 10000",
        take: |node, value| {
            node.nvml_timeout = milliseconds(value, 10, 10_000)?;
            Some(())
        },
    },
    NodeKey {
        name: "Mps",
        allowed: "off, per-user or multiuser",
        take: |node, value| {
            let known = [("off", Mps::Off), ("per-user", Mps::PerUser), ("multiuser", Mps::Multiuser)];
            node.mps = word(value, &known)?;
            Some(())
        },
    },
    NodeKey {
        name: "MpsControl",
        allowed: "the path of nvidia-cuda-mps-control",
        take: |node, value| path(value).map(|found| node.mps_control = found),
    },
    NodeKey {
        name: "MpsDir",
        allowed: "the path of a folder, at most 60 characters long",
        take: |node, value| {
            node.mps_dir = path(value).filter(|path| path.as_os_str().len() <= 60)?;
            Some(())
        },
    },
    NodeKey {
        name: "MpsTimeout",
        allowed: "milliseconds, from 100 to 60000",
        take: |node, value| {
            node.mps_timeout = milliseconds(value, 100, 60_000)?;
            Some(())
        },
    },
    NodeKey {
        name: "OnMpsFailure",
        allowed: "fail or run",
        take: |node, value| {
            let known = [("fail", OnMpsFailure::Fail), ("run", OnMpsFailure::Run)];
            node.on_mps_failure = word(value, &known)?;
            Some(())
        },
    },
    NodeKey {
        name: "ComputeMode",
        allowed: "keep or exclusive",
        take: |node, value| {
            let known = [("keep", ComputeMode::Keep), ("exclusive", ComputeMode::Exclusive)];
            node.compute_mode = word(value, &known)?;
            Some(())
        },
    },
    NodeKey {
        name: "Overcommit",
        allowed: "allow or refuse",
        take: |node, value| {
            let known = [("allow", Overcommit::Allow), ("refuse", Overcommit::Refuse)];
            node.overcommit = word(value, &known)?;
            Some(())
        },
    },
    NodeKey {
        name: "ForeignProcesses",
        allowed: "ignore, warn, fail or end",
        take: |node, value| {
            let known = [
                ("ignore", ForeignProcesses::Ignore),
                ("warn", ForeignProcesses::Warn),
                ("fail", ForeignProcesses::Fail),
                ("end", ForeignProcesses::End),
            ];
            node.foreign_processes = word(value, &known)?;
            Some(())
        },
    },
    NodeKey {
        name: "JobstatsDir",
        allowed: "off, or an absolute path that is not gpushare's own /run/gpushare",
        take: |node, value| exporter_dir(value).map(|folder| node.jobstats_dir = folder),
    },
    NodeKey {
        name: "DcgmJobMappingDir",
        allowed: "off, or an absolute path that is not gpushare's own /run/gpushare",
        take: |node, value| exporter_dir(value).map(|folder| node.dcgm_dir = folder),
    },
];

impl NodeKey {
    pub(super) fn named(name: &str) -> Option<&'static NodeKey> {
        NODE_KEYS.iter().find(|key| key.name.eq_ignore_ascii_case(name))
    }

    pub(super) fn take(&self, node: &mut NodeConfig, value: &str) -> Result<(), Problem> {
        (self.take)(node, value).ok_or_else(|| Problem::BadValue {
            key: self.name,
            value: value.to_owned(),
            allowed: self.allowed,
        })
    }
}

/// Files there that are named by numbers would be the ledger's.
fn exporter_dir(value: &str) -> Option<Option<std::path::PathBuf>> {
    off_or_path(value).filter(|folder| !folder.as_ref().is_some_and(|folder| folder.starts_with(RUN_DIR)))
}

fn nvml(value: &str) -> Option<Nvml> {
    let known = [("auto", true), ("off", false)];
    match word(value, &known) {
        Some(true) => Some(Nvml::Auto),
        Some(false) => Some(Nvml::Off),
        None => path(value).map(Nvml::At),
    }
}
