//! What a share of a GPU is: its units and its memory.
//!
//! Units, sizes and memory of a unit are gpushare.conf's. Otherwise a GPU has 100 units, as with Slurm's mps, and
//! shares are an eighth, a quarter and a half of it. A type's memory is what --gpu-memory says, or MemPerUnit, or what
//! its name says.

use gpushare::config::units::UnitsPerGpu;
use gpushare::config::values::of_type;
use gpushare_machine::config::Config;
use gpushare_node::config::units;
use gpushare_slurm_text::tres;

use super::FitError;

/// `gres/mps` has 100 for each GPU in Slurm's own examples.
const UNITS: u32 = 100;
/// The parts of a GPU without `ShareSizes`.
const PARTS: [u32; 3] = [8, 4, 2];
/// Error correction takes a sixteenth of the memory that a model's name or data sheet promises: nvidia-smi shows 46068
/// MiB of an A40 with 48 GiB, and 15360 of a T4 with 16.
const SIXTEENTHS: u64 = 15;
/// GiB of models by a part of their name; of those that exist with several sizes the smallest, so that no job is taken
/// to fit that might not.
const MODELS: &str = "\
    k80:12 p4:8 p40:24 p100:12 v100:16 t4:16 a10:24 a16:16 a30:24 a40:48 a100:40 l4:24 l40:48 l40s:48 \
    h100:80 h200:141 b200:180 rtx6000:24 a5000:24 a6000:48 3090:24 4090:24";

/// How GPUs are divided.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    /// gpushare.conf, if there is one.
    pub config: Option<Config>,
    /// MiB by type, as the administrator says.
    pub memory: Vec<(String, u64)>,
    /// What a share must have beyond what was used, in percent of that.
    pub margin: u32,
}

/// A GPU of some type on some node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gpu {
    /// How many units fill it; 0 if it takes no share.
    pub capacity: u32,
    /// Its memory in MiB, if known.
    pub memory: Option<u64>,
    /// The shares of it: units and MiB, the smallest first.
    pub sizes: Vec<(u32, u64)>,
}

/// Reads `a40:46068M,h100:80G`.
///
/// # Errors
/// It isn't such a list.
pub fn memory(value: &str) -> Result<Vec<(String, u64)>, FitError> {
    let mut found: Vec<(String, u64)> = Vec::new();
    for part in value.split(',').map(str::trim) {
        let size = of_type(part, &found).and_then(|(gres_type, size)| {
            let mib = tres::bytes(size)? >> 20;
            (mib > 0).then(|| (gres_type.to_ascii_lowercase(), mib))
        });
        found.push(size.ok_or_else(|| FitError::GpuMemory(value.to_owned()))?);
    }
    Ok(found)
}

impl Gpu {
    /// The memory of so many units in MiB; `None` if it doesn't take them, or that is unknown.
    pub fn memory_of(&self, units: u32) -> Option<u64> {
        let size = self.sizes.iter().find(|(number, _)| *number == units).map(|(_, mib)| *mib);
        let part = || Some(part(self.memory.filter(|_| units <= self.capacity)?, units, self.capacity));
        size.or_else(part)
    }
}

fn part(all: u64, number: u32, capacity: u32) -> u64 {
    all.saturating_mul(number.into()) / u64::from(capacity.max(1))
}

impl Shares {
    /// The GRES of shares.
    pub fn gres(&self) -> &str {
        self.config.as_ref().map_or("mps", |config| &config.node.share_gres)
    }

    /// A GPU of this type, in lowercase, on this node.
    pub fn gpu(&self, node: &str, gres_type: &str) -> Gpu {
        let config = self.config.as_ref().map(|config| (config, config.of_node(node)));
        let units = config.and_then(|(config, own)| {
            own.units_per_gpu.as_ref().or(config.every_node().find_map(|one| one.units_per_gpu.as_ref()))
        });
        let capacity = match units {
            None => UNITS,
            // Accounting doesn't have a GPU's index, so the smallest that takes shares counts.
            Some(UnitsPerGpu::ByIndex(list)) => {
                list.iter().copied().filter(|units| *units > 0).min().unwrap_or(0)
            }
            Some(units) => units::of_gpu(units, 0, Some(gres_type), None),
        };
        let of_unit = config.and_then(|(_, own)| own.mem_per_unit).map(u64::from);
        let said = self.memory.iter().find(|(known, _)| known == gres_type).map(|(_, mib)| *mib);
        let memory = said.or_else(|| Some(of_unit? * u64::from(capacity))).or_else(|| of_name(gres_type));
        let mut numbers: Vec<u32> = match config.map(|(config, _)| &config.policy.shares.sizes) {
            Some(sizes) if !sizes.is_empty() => {
                sizes.iter().filter_map(|size| u32::try_from(*size).ok()).collect()
            }
            _ => PARTS.iter().map(|part| capacity / part).collect(),
        };
        numbers.retain(|number| (1..capacity).contains(number));
        numbers.sort_unstable();
        numbers.dedup();
        let mib = |number: u32| {
            of_unit.map(|unit| unit * u64::from(number)).or_else(|| Some(part(memory?, number, capacity)))
        };
        let sizes = numbers.into_iter().filter_map(|number| Some((number, mib(number)?))).collect();
        Gpu { capacity, memory, sizes }
    }

    /// The smallest share that has so many bytes and the margin, its units and MiB; `None` if it takes a whole GPU.
    pub fn smallest(&self, gpu: &Gpu, bytes: u64) -> Option<(u32, u64)> {
        let needed = u128::from(bytes) * (100 + u128::from(self.margin));
        let is_enough = |mib: u64| needed <= (u128::from(mib) << 20) * 100;
        gpu.sizes.iter().find(|(_, mib)| is_enough(*mib)).copied()
    }
}

/// `nvidia_a100_80gb_pcie` says its size; `a40` is known.
fn of_name(gres_type: &str) -> Option<u64> {
    let name: String =
        gres_type.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let digits = |text: &str| text.len() - text.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let written = gres_type.to_ascii_lowercase().find("gb").and_then(|at| {
        let before = gres_type.get(..at)?;
        before.get(before.len() - digits(before)..)?.parse().ok()
    });
    let models = MODELS.split(' ').filter_map(|model| model.split_once(':')).filter(|(model, _)| {
        name.match_indices(model).any(|(at, _)| {
            let (before, after) =
                (name.get(..at).unwrap_or_default(), name.get(at + model.len()..).unwrap_or_default());
            // Not the a10 of a100.
            !after.starts_with(|c: char| c.is_ascii_digit())
                && (!model.starts_with(|c: char| c.is_ascii_digit()) || digits(before) == 0)
        })
    });
    let known = || models.max_by_key(|(model, _)| model.len())?.1.parse().ok();
    let gib: u64 = written.or_else(known)?;
    Some(gib.checked_mul(1024)? / 16 * SIXTEENTHS).filter(|mib| *mib > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_types_memory_is_said_or_known_by_its_name_or_unknown() {
        let gib = |number: u64| Some(number * 960);
        for (name, expected) in [
            ("a40", gib(48)),
            ("A40", gib(48)),
            ("a100", gib(40)),
            ("nvidia_a100_80gb_pcie", gib(80)),
            ("NVIDIA_A100-SXM4-40GB", gib(40)),
            ("tesla_v100-sxm2-32gb", gib(32)),
            ("v100", gib(16)),
            ("l40s", gib(48)),
            ("l4", gib(24)),
            ("a10", gib(24)),
            ("quadro_rtx_6000", gib(24)),
            ("rtx_a6000", gib(48)),
            ("geforce_rtx_3090", gib(24)),
            ("h200", gib(141)),
            ("gb", None),
            ("99999999999999999999gb", None),
            ("mi250", None),
            ("ampere", None),
            ("", None),
        ] {
            assert_eq!(of_name(name), expected, "{name}");
        }
        assert_eq!(
            memory("a40:46068M, H100:80G").unwrap(),
            [("a40".into(), 46_068), ("h100".into(), 81_920)]
        );
        for wrong in ["", "a40", "a40:48", "a40:x", "a40:0M", "a40:1G,A40:2G", ":1G", "a40:1G,"] {
            assert!(memory(wrong).unwrap_err().to_string().contains("write TYPE:SIZE"), "{wrong}");
        }
    }

    #[test]
    fn shares_are_the_files_or_halves() {
        let of = |conf: &str, gres_type: &str| {
            let config = (!conf.is_empty()).then(|| Config::parse(conf).unwrap());
            Shares { config, ..Shares::default() }.gpu("n1", gres_type)
        };
        assert_eq!(of("", "a40").sizes, [(12, 5529), (25, 11_520), (50, 23_040)]);
        let by_unit =
            of("Placement=own\nUnitsPerGpu=a40:48,h100:80\nMemPerUnit=900\nShareGRES=gpushare", "h100");
        assert_eq!((by_unit.capacity, by_unit.memory), (80, Some(72_000)));
        assert_eq!(by_unit.sizes, [(10, 9000), (20, 18_000), (40, 36_000)]);
        let listed = of("Placement=own\nUnitsPerGpu=24,0,12\nShareSizes=3,6,12", "a40");
        assert_eq!((listed.capacity, listed.sizes), (12, vec![(3, 11_520), (6, 23_040)]));
        assert_eq!(of("Placement=own\nUnitsPerGpu=a40:48", "h100").capacity, 0);
        assert_eq!(of("Mode=audit", "unknown"), Gpu { capacity: 100, memory: None, sizes: vec![] });
    }

    #[test]
    fn the_margin_is_on_top() {
        let shares = Shares { margin: 10, ..Shares::default() };
        let gpu = Gpu { capacity: 4, memory: Some(400), sizes: vec![(1, 110), (2, 220)] };
        let of = |mib: u64| shares.smallest(&gpu, mib << 20).map(|(units, _)| units);
        assert_eq!([0, 100, 101, 200, 201].map(of), [Some(1), Some(1), Some(2), Some(2), None]);
        assert_eq!(shares.smallest(&gpu, u64::MAX), None);
    }
}
