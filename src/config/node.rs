//! How GPUs are shared on a node: what an administrator can choose.

use crate::device::GpuFiles;

/// The node's part of gpushare.conf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// `Placement`
    pub placement: Placement,
    /// `UnitsPerGpu`: units that fill one GPU; at least 1, and given wherever `placement` is not off.
    pub units_per_gpu: u32,
    /// `ShareGRES`: the GRES whose counts are shares, such as `mps`.
    pub share_gres: String,
    /// `GpuFile`
    pub gpu_files: GpuFiles,
    /// `Policy`
    pub packing: Packing,
    /// `UserMix`
    pub user_mix: UserMix,
    /// `Overcommit`
    pub overcommit: Overcommit,
    /// `OnCollision`
    pub on_collision: OnCollision,
    /// `FenceDrm`: render and card nodes of other GPUs are closed too.
    pub fence_drm: bool,
    /// `FrameworkEnv`: variables for TensorFlow and JAX.
    pub framework_env: bool,
}

impl Default for NodeConfig {
    fn default() -> Self {
        NodeConfig {
            placement: Placement::Off,
            units_per_gpu: 1,
            share_gres: "mps".to_owned(),
            gpu_files: GpuFiles::Auto,
            packing: Packing::Spread,
            user_mix: UserMix::Allow,
            overcommit: Overcommit::Allow,
            on_collision: OnCollision::Fail,
            fence_drm: false,
            framework_env: false,
        }
    }
}

/// Who picks a share's GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Slurm alone; gpushare leaves the node's jobs as they are.
    #[default]
    Off,
    /// Slurm; gpushare records, verifies and tells the job.
    Follow,
    /// gpushare, on a node whose GPUs Slurm doesn't know: a count-only GRES, and no `gpu`.
    Own,
    /// gpushare, replacing the GPU that Slurm charged.
    Override,
}

/// Where a share goes if it fits on several GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// To the one with the least assigned.
    #[default]
    Spread,
    /// To the one with the most assigned, so that whole GPUs stay free.
    Pack,
}

/// Whether shares of different users may be on one GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserMix {
    /// They may.
    #[default]
    Allow,
    /// Only where the share fits on no GPU that is empty or the user's own.
    Avoid,
    /// Never.
    Deny,
}

/// What happens to a share that fits on no GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overcommit {
    /// It goes to the GPU with the least assigned, and the log says so.
    #[default]
    Allow,
    /// Its job fails.
    Refuse,
}

/// What happens to a job to which Slurm gave a whole GPU that has shares on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCollision {
    /// It fails, and the shares go on undisturbed.
    #[default]
    Fail,
    /// It runs beside them, and the log says so.
    Run,
}
