//! What a step has of another job's share: sbatch, srun and salloc send their whole environment, and a script that runs
//! in a share has the share's variables. In a job with other GPUs they name the wrong GPU, daemon and limits.
//!
//! What a user has set anew stays. A value counts as the share's if it is what gpushare sets for the share that
//! `GPUSHARE_…` describe, or if nobody else has a use for it, such as the directory of a daemon of gpushare's.

use std::path::Path;

use super::{MEMORY, MPS_MEMORY, PERCENTAGE, PYTORCH, pytorch};
use crate::config::Placement;
use crate::gpu::is_uuid;
use crate::mps::service::{self, Daemon};

/// Variables that only gpushare sets.
const OWN: [&str; 5] = ["GPUSHARE_GPU", "GPUSHARE_UNITS", "GPUSHARE_CAPACITY", "GPUSHARE_FRACTION", MEMORY];

/// The variables to remove from a step that has the variables of `value`. Those that it is given itself are replaced.
/// `has_gpus`: Slurm has given it GPUs, and with them `CUDA_VISIBLE_DEVICES`.
pub fn inherited(
    value: impl Fn(&str) -> Option<String>,
    has_gpus: bool,
    placement: Placement,
) -> Vec<&'static str> {
    let number = |name| value(name).and_then(|text| text.parse::<u32>().ok());
    let is = |name: &str, of_share: Option<String>| of_share.is_some() && value(name) == of_share;
    let (index, fraction) = (value("GPUSHARE_GPU"), value("GPUSHARE_FRACTION"));
    let share = number("GPUSHARE_UNITS").zip(number("GPUSHARE_CAPACITY").filter(|capacity| *capacity > 0));
    let percents = share.map(|(units, capacity)| [service::percent(units, capacity), service::ALL]);
    let is_percent = percents.is_some_and(|known| number(PERCENTAGE).is_some_and(|set| known.contains(&set)));
    let limit = value(MEMORY).map(|mib| format!("0={mib}M"));
    let uuid = value("NVIDIA_VISIBLE_DEVICES").filter(|named| index.is_some() && is_uuid(named));
    let visible = value("CUDA_VISIBLE_DEVICES").filter(|_| index.is_some() && !has_gpus);
    let is_visible = visible.is_some_and(|named| named == "0" || Some(&named) == uuid.as_ref());
    let grows = is("XLA_PYTHON_CLIENT_MEM_FRACTION", fraction.clone());
    let is_daemons = |name, part| value(name).is_some_and(|path| is_of_daemon(Path::new(&path), part));
    // gpushare gives no shares here, so the percentage may be that of a share of Slurm's, even if it is the same.
    let is_slurms = has_gpus && placement == Placement::Off;
    let others = [
        (PERCENTAGE, !is_slurms && is_percent),
        ("CUDA_MPS_PIPE_DIRECTORY", is_daemons("CUDA_MPS_PIPE_DIRECTORY", "pipe")),
        ("CUDA_MPS_LOG_DIRECTORY", is_daemons("CUDA_MPS_LOG_DIRECTORY", "log")),
        (MPS_MEMORY, is(MPS_MEMORY, limit)),
        ("CUDA_VISIBLE_DEVICES", is_visible),
        ("NVIDIA_VISIBLE_DEVICES", uuid.is_some()),
        ("SLURM_JOB_GPUS", !has_gpus && is("SLURM_JOB_GPUS", index)),
        ("XLA_PYTHON_CLIENT_MEM_FRACTION", grows),
        ("TF_FORCE_GPU_ALLOW_GROWTH", grows && is("TF_FORCE_GPU_ALLOW_GROWTH", Some("true".to_owned()))),
        (PYTORCH, is(PYTORCH, fraction.as_deref().map(pytorch))),
    ];
    let own = OWN.map(|name| (name, value(name).is_some()));
    own.into_iter().chain(others).filter_map(|(name, goes)| goes.then_some(name)).collect()
}

/// Takes out of the names those to remove before anything else looks at the step: a leftover percentage looks like a
/// share that Slurm has given it. With GPUs of Slurm's it may be just that.
pub fn misleading(names: &mut Vec<&'static str>, has_gpus: bool) -> Vec<&'static str> {
    names.extract_if(.., |name| *name == PERCENTAGE && !has_gpus).collect()
}

/// Whether it is the directory `part` of a daemon that gpushare starts, in whatever `MpsDir`: `…/0.2001/pipe`.
fn is_of_daemon(path: &Path, part: &str) -> bool {
    let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    path.ends_with(part) && folder.is_some_and(|name| name.parse::<Daemon>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{FrameworkEnv, Mps, NodeConfig, VisibleDevices};
    use crate::environment::variables;
    use crate::fake::{self, gpu, share};
    use crate::gpu::Gpu;
    use crate::ledger::Entry;

    const UUID: &str = "GPU-9a40c0de-0000-4000-8000-0000000000a3";

    fn of_share(visible_devices: VisibleDevices) -> Vec<(String, String)> {
        let gpu = Gpu { uuid: Some(UUID.to_owned()), ..gpu(3) };
        let entry = Entry { holding: share(20, Some(11_250)), ..fake::entry(1, vec![gpu]) };
        let config = NodeConfig {
            mps: Mps::PerUser,
            framework_env: FrameworkEnv::Pytorch,
            visible_devices,
            ..NodeConfig::default()
        };
        variables(&entry, &config)
    }

    /// The names that stay of the share's variables, with these set anew.
    fn left(has_gpus: bool, visible: VisibleDevices, anew: &[(&str, &str)]) -> Vec<String> {
        let mut all = of_share(visible);
        all.retain(|(name, _)| anew.iter().all(|(known, _)| known != name));
        all.extend(anew.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let value = |wanted: &str| Some(all.iter().find(|(name, _)| name == wanted)?.1.clone());
        let gone = inherited(value, has_gpus, Placement::Follow);
        all.iter().map(|(name, _)| name).filter(|name| !gone.contains(&name.as_str())).cloned().collect()
    }

    #[test]
    fn all_that_a_share_has_goes_and_what_slurm_and_the_user_set_stays() {
        let none: [&str; 0] = [];
        for visible in [VisibleDevices::Index, VisibleDevices::Uuid] {
            assert_eq!(left(false, visible, &[]), none);
            assert_eq!(left(true, visible, &[]), ["SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES"]);
        }
        for anew in [
            ("CUDA_MPS_PIPE_DIRECTORY", "/tmp/my-mps/pipe"),
            ("CUDA_MPS_LOG_DIRECTORY", "/run/site/0.2001"),
            ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=4G"),
            ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "10"),
            ("CUDA_VISIBLE_DEVICES", "1,2"),
            ("NVIDIA_VISIBLE_DEVICES", "all"),
            ("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.9"),
            ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
        ] {
            let left = left(false, VisibleDevices::Index, &[anew]);
            // TensorFlow's goes with JAX's: only together they are gpushare's.
            let others = if anew.0.starts_with("XLA") { 2 } else { 1 };
            assert!(left.iter().any(|name| name == anew.0) && left.len() == others, "{anew:?}: {left:?}");
        }
        assert!(
            left(false, VisibleDevices::Index, &[("GPUSHARE_MEM_MIB", "1")])
                .iter()
                .any(|name| name == MPS_MEMORY)
        );
    }

    #[test]
    fn only_a_step_with_gpus_of_slurms_is_read_with_its_percentage() {
        for (has_gpus, first, then) in [
            (false, vec![PERCENTAGE], vec!["GPUSHARE_GPU", MPS_MEMORY]),
            (true, vec![], vec!["GPUSHARE_GPU", PERCENTAGE, MPS_MEMORY]),
        ] {
            let mut names = vec!["GPUSHARE_GPU", PERCENTAGE, MPS_MEMORY];
            assert_eq!((misleading(&mut names, has_gpus), names), (first, then), "{has_gpus}");
        }
    }

    #[test]
    fn without_a_share_only_a_daemons_folder_goes() {
        let all = [
            ("CUDA_VISIBLE_DEVICES", "0"),
            ("NVIDIA_VISIBLE_DEVICES", UUID),
            ("TF_FORCE_GPU_ALLOW_GROWTH", "true"),
            ("CUDA_MPS_PIPE_DIRECTORY", "/run/gpushare/mps/0.2001/pipe"),
            ("CUDA_MPS_LOG_DIRECTORY", "/data/mps/7.all/log"),
        ];
        assert!(is_of_daemon(Path::new("/run/gpushare/mps/j7-2001/pipe"), "pipe"), "of a job's whole GPUs");
        assert!(!is_of_daemon(Path::new("/tmp/7-2001/pipe"), "pipe"), "of a user's own script");
        let value = |wanted: &str| Some(all.iter().find(|(name, _)| *name == wanted)?.1.to_owned());
        assert_eq!(
            inherited(value, false, Placement::Follow),
            ["CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"]
        );
    }

    #[test]
    fn slurms_own_percentage_stays_where_gpushare_gives_no_shares() {
        let all = of_share(VisibleDevices::Index);
        let value = |wanted: &str| Some(all.iter().find(|(name, _)| name == wanted)?.1.clone());
        for (has_gpus, placement, goes) in [
            (true, Placement::Off, false),
            (false, Placement::Off, true),
            (true, Placement::Follow, true),
            (false, Placement::Own, true),
        ] {
            let gone = inherited(value, has_gpus, placement);
            assert_eq!(gone.contains(&PERCENTAGE), goes, "{has_gpus} {placement:?}");
        }
    }
}
