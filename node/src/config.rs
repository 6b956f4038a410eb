//! How GPUs are shared on a node: what a node's plugins and programs read of gpushare.conf. Records `QOS=` and
//! `PartitionName=` are not theirs, so that a mistake in one fails no job.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gpushare::config::names::Record;
use gpushare::config::nodes::NodeLines;
use gpushare::config::values::Key;
use gpushare::config::{ConfigError, LoadError, Problem, Section, load, read};
use gpushare::text::hostlist;
use gpushare::words;

pub mod gpu_files;
mod keys;
#[cfg(test)]
mod tests;
pub mod units;

pub use gpu_files::GpuFiles;
pub use gpushare::config::nodes::Placement;
pub use gpushare::config::units::UnitsPerGpu;
pub use gpushare::config::{FALLBACK, find};

/// The ledger's directory on a node.
pub const RUN_DIR: &str = "/run/gpushare";

/// The settings of all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    /// The settings of nodes without a `NodeName=` line.
    pub all: NodeConfig,
    /// Nodes with their own settings, in the order of the lines.
    pub lines: Vec<NodeRecord>,
}

/// The settings of some nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// Their names, such as `gpu[01-04],big1`.
    pub names: String,
    /// All of their settings.
    pub config: NodeConfig,
}

impl NodeRecord {
    /// Whether a node is one of them.
    pub fn names(&self, node: &str) -> bool {
        hostlist::contains(&self.names, node) == Some(true)
    }
}

impl Nodes {
    /// Reads a text.
    ///
    /// # Errors
    /// The first mistake in the settings of nodes, or in the form of a line.
    pub fn parse(text: &str) -> Result<Nodes, ConfigError> {
        let mut draft = Draft::default();
        read(text, &mut [&mut draft])?;
        draft.finish()
    }

    /// The settings of a node: those of the first line that names it, otherwise those for all.
    pub fn of(&self, name: &str) -> &NodeConfig {
        let own = self.lines.iter().find(|record| record.names(name));
        own.map_or(&self.all, |record| &record.config)
    }
}

/// What has been read so far.
#[derive(Debug, Default)]
pub struct Draft {
    all: NodeConfig,
    lines: NodeLines<NodeConfig>,
}

impl Section for Draft {
    fn take(&mut self, record: Option<Record>, key: &'static str, value: &str) -> Result<(), Problem> {
        if record.is_some() {
            return self.lines.take(keys::KEYS, key, value);
        }
        Key::take_of(keys::FOR_ALL, &mut self.all, key, value)?;
        Key::take_of(keys::KEYS, &mut self.all, key, value)
    }

    fn reads(&self, record: Record) -> bool {
        record == Record::Node
    }

    fn end(&mut self, _: Record, line: usize) -> Result<(), Problem> {
        self.lines.end(line);
        Ok(())
    }
}

impl Draft {
    /// The settings that all lines make together.
    ///
    /// # Errors
    /// Settings that don't go together; with the line, if that is one for single nodes.
    pub fn finish(self) -> Result<Nodes, ConfigError> {
        self.all.is_sound().map_err(Problem::of_file)?;
        let lines = self.lines.over(&self.all, NodeConfig::is_sound)?;
        let lines = lines.into_iter().map(|(names, config)| NodeRecord { names, config }).collect();
        Ok(Nodes { all: self.all, lines })
    }
}

/// The settings of a node in gpushare.conf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// `Placement`
    pub placement: Placement,
    /// `UnitsPerGpu`: how many units fill a GPU; always set unless `placement` is off.
    pub units_per_gpu: Option<UnitsPerGpu>,
    /// `ShareGRES`: the GRES whose counts are shares, such as `mps`.
    pub share_gres: String,
    /// `GpuFile`
    pub gpu_files: GpuFiles,
    /// `Packing`
    pub packing: Packing,
    /// `UserMix`
    pub user_mix: UserMix,
    /// `Overcommit`
    pub overcommit: Overcommit,
    /// `OnCollision`
    pub on_collision: OnCollision,
    /// `FenceDrm`: whether to close the render and card nodes of other GPUs too.
    pub fence_drm: bool,
    /// `VisibleDevices`
    pub visible_devices: VisibleDevices,
    /// `FrameworkEnv`: variables for TensorFlow, JAX and PyTorch.
    pub framework_env: FrameworkEnv,
    /// `MemPerUnit`, in MiB; without it a share gets its part of the memory that NVML reports for the GPU.
    pub mem_per_unit: Option<u32>,
    /// `Nvml`
    pub nvml: Nvml,
    /// `NvmlTimeout`: how long a prolog waits for NVML.
    pub nvml_timeout: Duration,
    /// `Mps`
    pub mps: Mps,
    /// `MpsWholeGpus`: whether a job may have a daemon for its own whole GPUs (`--gpu-mps`).
    pub mps_whole_gpus: bool,
    /// `MpsControl`: NVIDIA's nvidia-cuda-mps-control, in whose directory nvidia-cuda-mps-server is searched first.
    pub mps_control: PathBuf,
    /// `MpsDir`: the directory of the daemons' pipes and logs.
    pub mps_dir: PathBuf,
    /// `MpsTimeout`: how long a daemon may take to start, answer or end.
    pub mps_timeout: Duration,
    /// `OnMpsFailure`
    pub on_mps_failure: OnMpsFailure,
    /// `ComputeMode`
    pub compute_mode: ComputeMode,
    /// `ForeignProcesses`
    pub foreign_processes: ForeignProcesses,
    /// `JobstatsDir`: the directory of jobstats' files.
    pub jobstats_dir: Option<PathBuf>,
    /// `DcgmJobMappingDir`: the directory of dcgm-exporter's files.
    pub dcgm_dir: Option<PathBuf>,
}

impl NodeConfig {
    /// Reads the file on a node, where a job waits for it. `node` is Slurm's name for this node.
    ///
    /// # Errors
    /// The file can't be read, or has a mistake; or it has lines for single nodes, and `node` is unknown.
    pub fn load(path: &Path, node: Option<&str>) -> Result<Option<NodeConfig>, LoadError> {
        match (load(path, Nodes::parse)?, node) {
            (None, _) => Ok(None),
            (Some((nodes, _)), None) if !nodes.lines.is_empty() => Err(LoadError::Nameless(path.to_owned())),
            (Some((nodes, _)), node) => Ok(Some(nodes.of(node.unwrap_or_default()).clone())),
        }
    }

    /// Whether gpushare closes every GPU to a job without an entry in the ledger. Under `own` Slurm closes nothing.
    /// Under `override` Slurm opens the GPU that it allocated to a share, or a whole GPU that is not recorded, so that
    /// the next share would be placed on it. Slurm leaves DRM nodes open to all jobs.
    pub fn closes_without_entry(&self) -> bool {
        match self.placement {
            Placement::Own | Placement::Override => true,
            Placement::Follow => self.fence_drm,
            Placement::Off => false,
        }
    }

    /// Whether Slurm sets a variable in the steps of a share, whatever their user has set.
    pub fn shows_shares(&self) -> bool {
        self.placement != Placement::Own && matches!(self.share_gres.as_str(), "mps" | "shard")
    }

    /// Whether gpushare starts MPS daemons, for shares or for jobs with whole GPUs.
    pub fn runs_daemons(&self) -> bool {
        self.mps != Mps::Off || self.mps_whole_gpus
    }

    /// Checks that the settings fit together.
    ///
    /// # Errors
    /// A setting lacks another that it needs, or can't be had with another.
    fn is_sound(&self) -> Result<(), Problem> {
        self.placement.largest_gpu(self.units_per_gpu.as_ref())?;
        // Under EXCLUSIVE_PROCESS a GPU accepts one MPS server, and a user's own daemon serves only that user. If Slurm
        // chooses the GPU, it mixes users whatever UserMix says.
        if self.compute_mode == ComputeMode::Exclusive
            && self.mps != Mps::Multiuser
            && (self.mps == Mps::Off || self.user_mix != UserMix::Deny || self.placement == Placement::Follow)
        {
            return Err(Problem::Against {
                setting: "ComputeMode=exclusive",
                needs: "Mps=multiuser, or Mps=per-user and UserMix=deny where gpushare picks GPUs (Placement=own or \
                        override)",
            });
        }
        if self.dcgm_dir.is_some() && self.dcgm_dir == self.jobstats_dir {
            return Err(Problem::Against {
                setting: "DcgmJobMappingDir",
                needs: "a directory of its own, not that of JobstatsDir",
            });
        }
        Ok(())
    }
}

impl Default for NodeConfig {
    fn default() -> Self {
        NodeConfig {
            placement: Placement::Off,
            units_per_gpu: None,
            share_gres: "mps".to_owned(),
            gpu_files: GpuFiles::Auto,
            packing: Packing::Spread,
            user_mix: UserMix::Allow,
            overcommit: Overcommit::Allow,
            on_collision: OnCollision::Fail,
            fence_drm: false,
            visible_devices: VisibleDevices::Index,
            framework_env: FrameworkEnv::No,
            mem_per_unit: None,
            nvml: Nvml::Auto,
            nvml_timeout: Duration::from_millis(500),
            mps: Mps::Off,
            mps_whole_gpus: false,
            mps_control: "/usr/bin/nvidia-cuda-mps-control".into(),
            mps_dir: "/run/gpushare/mps".into(),
            mps_timeout: Duration::from_secs(5),
            on_mps_failure: OnMpsFailure::Fail,
            compute_mode: ComputeMode::Keep,
            foreign_processes: ForeignProcesses::Ignore,
            jobstats_dir: None,
            dcgm_dir: None,
        }
    }
}

words! {
    /// Where a share goes if it fits on several GPUs.
    pub enum Packing: "spread or pack" {
        /// To the GPU with the fewest units assigned.
        #[default]
        Spread = "spread",
        /// To the GPU with the most units assigned, so that whole GPUs stay free.
        Pack = "pack",
    }
}

words! {
    /// Whether shares of different users may be on one GPU.
    pub enum UserMix: "allow, avoid or deny" {
        /// They may always.
        #[default]
        Allow = "allow",
        /// Only if the share fits on no GPU that is empty or has only the user's own shares.
        Avoid = "avoid",
        /// They may not.
        Deny = "deny",
    }
}

words! {
    /// What happens to a share that fits on no GPU.
    pub enum Overcommit: "allow or refuse" {
        /// It goes to the GPU with the fewest units assigned, and the log reports that.
        #[default]
        Allow = "allow",
        /// Its job fails.
        Refuse = "refuse",
    }
}

words! {
    /// What happens if Slurm gave a job a whole GPU that has shares.
    pub enum OnCollision: "fail or run" {
        /// The job fails, and the shares continue undisturbed.
        #[default]
        Fail = "fail",
        /// The job runs beside them, and the log reports that.
        Run = "run",
    }
}

words! {
    /// How `CUDA_VISIBLE_DEVICES` names the GPU for a share's programs.
    pub enum VisibleDevices: "index or uuid" {
        /// `0`: CUDA counts only the GPUs that it can open, and a share can open one.
        #[default]
        Index = "index",
        /// The GPU's UUID, if known.
        Uuid = "uuid",
    }
}

words! {
    /// Which frameworks learn the share through their own variables.
    #[derive(PartialOrd, Ord)]
    pub enum FrameworkEnv: "no, yes or pytorch" {
        /// None.
        #[default]
        No = "no",
        /// TensorFlow and JAX.
        Yes = "yes",
        /// PyTorch too. Its releases that don't know the option refuse to allocate.
        Pytorch = "pytorch",
    }
}

/// Whether and through which library to ask NVML what GPUs are doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Nvml {
    /// The driver's library, as the loader finds it.
    #[default]
    Auto,
    /// NVML is not queried.
    Off,
    /// The library with this path.
    At(PathBuf),
}

words! {
    /// Whether gpushare runs NVIDIA's MPS daemons for shares, and which.
    pub enum Mps: "off, per-user or multiuser" {
        /// gpushare runs none.
        #[default]
        Off = "off",
        /// One daemon for each GPU and user, run as that user.
        PerUser = "per-user",
        /// One daemon for each GPU, run as root, which serves several users at once. Needs a driver that supports this
        /// (555 and newer).
        Multiuser = "multiuser",
    }
}

words! {
    /// What a prolog does about foreign processes on the GPU that its job was given.
    pub enum ForeignProcesses: "ignore, warn, fail or end" {
        /// It doesn't check.
        #[default]
        Ignore = "ignore",
        /// The log names them.
        Warn = "warn",
        /// The job fails.
        Fail = "fail",
        /// The prolog ends them.
        End = "end",
    }
}

words! {
    /// What happens to a job if its MPS daemon doesn't work.
    pub enum OnMpsFailure: "fail or run" {
        /// It fails, before its program starts.
        #[default]
        Fail = "fail",
        /// It runs without MPS: without limits, and its kernels take turns with those of other processes.
        Run = "run",
    }
}

words! {
    /// The compute mode of a GPU with shares.
    pub enum ComputeMode: "keep or exclusive" {
        /// Stays as the administrator set it.
        #[default]
        Keep = "keep",
        /// `EXCLUSIVE_PROCESS` from the GPU's first share to its last, then `DEFAULT`: a program that bypasses MPS
        /// can't use the GPU.
        Exclusive = "exclusive",
    }
}
