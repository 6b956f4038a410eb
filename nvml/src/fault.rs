//! Decides whether a GPU is unusable, and why. Only a fault from which the GPU can't recover by itself counts: not an
//! error for which the driver has ended the process, nor a row of memory that waits to be remapped. NVIDIA says about
//! the latter: "unaffected applications can continue … and new workloads can be launched" (GPU Memory Error Management,
//! Error Recovery and Response Flags). The number of past errors doesn't matter: it doesn't show that the GPU is
//! unusable now.

use nvml_wrapper::error::NvmlError;

/// What NVML reported about a GPU's health; `None` if it has no answer.
#[derive(Debug, Default)]
pub struct Health {
    /// The first error of a call that says that the GPU is unusable.
    refused: Option<NvmlError>,
    /// It is in MIG mode, but is not split into instances: no program can use it.
    pub mig_without_instances: bool,
    /// NVML_FI_DEV_RETIRED_PENDING_DBE: pages with uncorrectable errors are in use until the GPU is reset (before
    /// Ampere).
    pub pages_pending: Option<u64>,
    /// NVML_FI_DEV_REMAPPED_FAILURE: no spare row is left (Ampere and newer).
    pub remap_failure: Option<u64>,
    /// NVML_FI_DEV_RESET_STATUS, in drivers that lack the recovery action.
    pub reset: Option<u64>,
    /// NVML_FI_DEV_DRAIN_AND_RESET_STATUS, also in such drivers.
    pub drain_and_reset: Option<u64>,
    /// NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, `nvmlDeviceGpuRecoveryAction_t`: what a fatal error (Xid) requires.
    pub recovery_action: Option<u64>,
}

/// Whether the error concerns the whole GPU, not only the query.
pub fn is_unusable(error: &NvmlError) -> bool {
    matches!(
        error,
        NvmlError::GpuLost | NvmlError::ResetRequired | NvmlError::IrqIssue | NvmlError::InsufficientPower
    )
}

impl Health {
    /// The value, if there is one. Remembers an error that concerns the whole GPU.
    pub fn answer<T>(&mut self, answer: Result<T, NvmlError>) -> Option<T> {
        match answer {
            Ok(value) => Some(value),
            Err(error) => {
                if self.refused.is_none() && is_unusable(&error) {
                    self.refused = Some(error);
                }
                None
            }
        }
    }

    /// Why the GPU should take no share.
    pub fn fault(&self) -> Option<String> {
        let set = |flag: Option<u64>| flag.is_some_and(|value| value != 0);
        if let Some(error) = &self.refused {
            return Some(error.to_string());
        }
        if let Some(action) = self.recovery_action.and_then(needed) {
            return Some(action);
        }
        let reset = set(self.reset) || set(self.drain_and_reset);
        let reasons = [
            (reset, "it must be reset (nvidia-smi --gpu-reset)"),
            (
                self.mig_without_instances,
                "it is in MIG mode, without instances (nvidia-smi -mig 0 ends that mode)",
            ),
            (
                set(self.pages_pending),
                "memory pages with uncorrectable errors wait for a reset to be retired",
            ),
            (set(self.remap_failure), "a memory row with errors could not be remapped: no spare row is left"),
        ];
        reasons.into_iter().find(|(is, _)| *is).map(|(_, reason)| reason.to_owned())
    }
}

/// What an administrator must do according to `nvmlDeviceGpuRecoveryAction_t`.
fn needed(action: u64) -> Option<String> {
    match action {
        0 => None,
        1 => Some("it must be reset (nvidia-smi --gpu-reset)".to_owned()),
        2 | 7 => Some("the node must be rebooted".to_owned()),
        3 => Some("its peer-to-peer traffic must be drained".to_owned()),
        4 => Some("it must be drained and reset".to_owned()),
        // This concerns links between nodes, but a share has one GPU.
        5 => None,
        6 => Some("its PCIe bus must be reset".to_owned()),
        other => Some(format!("NVML recommends recovery action {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_makes_a_gpu_unusable_is_a_fault() {
        let health = Health::default;
        for (health, expected) in [
            (health(), None),
            (
                Health {
                    pages_pending: Some(0),
                    remap_failure: Some(0),
                    recovery_action: Some(0),
                    ..health()
                },
                None,
            ),
            (Health { mig_without_instances: true, ..health() }, Some("MIG mode, without instances")),
            (Health { pages_pending: Some(1), ..health() }, Some("retired")),
            (Health { remap_failure: Some(1), ..health() }, Some("remapped")),
            (Health { reset: Some(1), ..health() }, Some("reset")),
            (Health { drain_and_reset: Some(1), ..health() }, Some("reset")),
            (Health { recovery_action: Some(1), ..health() }, Some("reset")),
            (Health { recovery_action: Some(2), remap_failure: Some(1), ..health() }, Some("rebooted")),
            (Health { recovery_action: Some(3), ..health() }, Some("drained")),
            (Health { recovery_action: Some(4), ..health() }, Some("drained and reset")),
            (Health { recovery_action: Some(5), ..health() }, None),
            (Health { recovery_action: Some(5), remap_failure: Some(1), ..health() }, Some("remapped")),
            (Health { recovery_action: Some(6), ..health() }, Some("PCIe")),
            (Health { recovery_action: Some(99), ..health() }, Some("action 99")),
        ] {
            let fault = health.fault();
            match expected {
                None => assert_eq!(fault, None, "{health:?}"),
                Some(part) => assert!(fault.as_deref().unwrap_or("").contains(part), "{health:?}: {fault:?}"),
            }
        }
    }

    #[test]
    fn a_call_that_is_not_supported_says_nothing_of_the_gpu() {
        let mut health = Health::default();
        for error in [NvmlError::NotSupported, NvmlError::NoPermission, NvmlError::Unknown, NvmlError::InUse]
        {
            assert_eq!(health.answer::<u32>(Err(error)), None);
        }
        assert_eq!(health.fault(), None);
        assert_eq!(health.answer(Ok(7)), Some(7));
        assert_eq!(health.answer::<u32>(Err(NvmlError::GpuLost)), None);
        assert_eq!(health.answer::<u32>(Err(NvmlError::ResetRequired)), None);
        assert_eq!(health.fault(), Some(NvmlError::GpuLost.to_string()));
    }
}
