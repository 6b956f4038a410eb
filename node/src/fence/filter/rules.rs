//! What a fence means for a device number. Only character devices have rules.
//!
//! Rules cover the whole class of NVIDIA's GPUs, so that a GPU that appears after the job has started is closed. Any
//! other device is covered by its exact number or not at all.

use crate::fence::Fence;
use crate::gpu::DeviceNumber;

/// NVIDIA's major number (Documentation/admin-guide/devices.txt of the kernel).
pub const NVIDIA: u32 = 195;
/// The last minor that is a GPU; 254 is nvidia-modeset, 255 nvidiactl (NVIDIA's nv.h), which every job needs.
pub const LAST_GPU: u32 = 253;

/// The rules of one fence. Other programs decide about devices that the rules don't name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceRules {
    /// Devices outside NVIDIA's class to close.
    pub closed: Vec<DeviceNumber>,
    /// The job's devices outside NVIDIA's class.
    pub open: Vec<DeviceNumber>,
    /// The job's minors in NVIDIA's class; every other one of the class is closed.
    pub gpus: Vec<u32>,
    /// Whether to open the job's devices. Otherwise other programs decide about them.
    pub widens: bool,
}

impl DeviceRules {
    /// The rules of `fence`. A device that it both opens and closes is closed.
    pub fn of(fence: &Fence) -> DeviceRules {
        let closed: Vec<DeviceNumber> = fence.closed.iter().map(|device| device.number).collect();
        let open = fence.open.iter().map(|device| device.number).filter(|number| !closed.contains(number));
        let (gpus, open): (Vec<DeviceNumber>, Vec<DeviceNumber>) = open.partition(is_gpu);
        DeviceRules {
            closed: closed.into_iter().filter(|number| !is_gpu(number)).collect(),
            open,
            gpus: gpus.into_iter().map(|number| number.minor).collect(),
            widens: fence.widens,
        }
    }
}

fn is_gpu(number: &DeviceNumber) -> bool {
    number.major == NVIDIA && number.minor <= LAST_GPU
}
