//! The node's GPUs as Slurm counts them, and what is known about each.
//!
//! A GPU that has disappeared is unfit but keeps its index, so that the others keep theirs. Only a node without any GPU
//! left has no inventory.

use std::io;
use std::path::{Path, PathBuf};

use super::DeviceError;
use super::device::{DeviceNumber, Gpu, minor_by_name, numbered_nodes, sort_by_minor};
use super::drained::{Drain, drained};
use super::driver::{self, Known, position, sort_by};
use super::gres_conf::{Files, Order, Slot};
use super::roots::{MOST, Roots};

/// The node's GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// In order of Slurm's index, including missing GPUs.
    pub details: Vec<Detail>,
}

/// What is known about a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Slurm's index.
    pub index: u32,
    /// The device node, such as `/dev/nvidia0`.
    pub path: PathBuf,
    /// Its device number, unless the device node is missing.
    pub number: Option<DeviceNumber>,
    /// `GPU-…`; like `pci` and `model`, only if the NVIDIA driver reports it.
    pub uuid: Option<String>,
    /// Such as `0000:c1:00.0`.
    pub pci: Option<String>,
    /// Such as `NVIDIA A40`.
    pub model: Option<String>,
    /// Its type, if gres.conf names one.
    pub gres_type: Option<String>,
    /// Why it can't take a share, if so.
    pub unfit: Option<Unfit>,
}

/// The major number of NVIDIA's GPUs (Linux' devices.txt).
const NVIDIA: u32 = 195;

gpushare::errors! {
    /// Why a GPU can't take a share.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Unfit {
        Missing(kind: io::ErrorKind) => "its device node {}", match kind {
            io::ErrorKind::NotFound => "is missing".to_owned(),
            kind => format!("can't be read: {kind}"),
        };
        NoDevice => "it is not a character device";
        Excluded => "the driver excludes it (NVreg_ExcludedGpus)";
        /// Its device node remains after it fell off the bus, or was taken from the driver.
        UnknownToDriver => "the driver doesn't know it";
        /// Or it is a part of a GPU.
        MigEnabled => "MIG is enabled on it; shares of MIG devices are not supported";
        /// An administrator took it out of service.
        Drained(drain: Box<Drain>) => "drained by {}: {}", drain.user, drain.reason;
    }
}

/// Collects the node's GPUs.
///
/// # Errors
/// The GPUs or their order can't be determined.
pub fn inventory(files: &Files, roots: &Roots) -> Result<Inventory, DeviceError> {
    let known = driver::known(roots);
    let slots = slots(files, roots, &known)?;
    let drained = drained(roots)?;
    let detail = |(index, slot)| Detail::of(index, slot, roots, (&known, &drained));
    let details: Vec<Detail> = (0..).zip(&slots).map(detail).collect();
    // AutoDetect=nvml finds parts; AutoDetect=nvidia doesn't.
    let finds_parts = matches!(files.order, Order::Pci | Order::NameOrPci);
    if finds_parts && details.iter().any(|detail| detail.unfit == Some(Unfit::MigEnabled)) {
        return Err(DeviceError::Parts);
    }
    match details.first() {
        None => Err(DeviceError::None),
        Some(Detail { path, unfit: Some(unfit), .. }) if details.iter().all(|it| it.number.is_none()) => {
            Err(DeviceError::NoneThere(path.clone(), unfit.clone()))
        }
        Some(_) => Ok(Inventory { details }),
    }
}

impl Inventory {
    /// How many GPUs Slurm counts.
    pub fn count(&self) -> usize {
        self.details.len()
    }

    /// Whether every GPU has its device node.
    pub fn is_complete(&self) -> bool {
        self.details.iter().all(|detail| detail.number.is_some())
    }

    /// The GPUs whose device nodes exist.
    pub fn gpus(&self) -> Vec<Gpu> {
        self.details.iter().filter_map(Detail::gpu).collect()
    }

    /// The GPU with Slurm's index.
    pub fn detail(&self, index: u32) -> Option<&Detail> {
        self.details.iter().find(|detail| detail.index == index)
    }
}

impl Detail {
    fn of(index: u32, slot: &Slot, roots: &Roots, (known, drained): (&[Known], &[Drain])) -> Detail {
        let path = slot.path.clone();
        let found = device_number(&path);
        let number = found.as_ref().ok().copied();
        let is_unknown = number.is_some_and(|number| is_unknown(number, known));
        let known = known_by(&path, known);
        let mig_enabled =
            slot.part || number.is_some_and(|number| driver::is_in_mig_mode(roots, number.minor));
        let (uuid, pci) = (known.and_then(|gpu| gpu.uuid.clone()), known.map(|gpu| gpu.pci.clone()));
        let drain = drained.iter().find(|drain| drain.is_of(uuid.as_deref(), pci.as_deref(), &path));
        Detail {
            index,
            number,
            uuid,
            pci,
            model: known.and_then(|gpu| gpu.model.clone()),
            gres_type: slot.gres_type.clone(),
            // Who drained it knows that it is broken. Whether it is a part of a GPU matters more: Slurm counts parts.
            unfit: drain
                .filter(|_| !mig_enabled)
                .map(|drain| Unfit::Drained(Box::new(drain.clone())))
                .or_else(|| found.err())
                .or_else(|| known.is_some_and(|gpu| gpu.excluded).then_some(Unfit::Excluded))
                .or_else(|| is_unknown.then_some(Unfit::UnknownToDriver))
                .or_else(|| mig_enabled.then_some(Unfit::MigEnabled)),
            path,
        }
    }

    /// Who took it out of service, and why.
    pub fn drain(&self) -> Option<&Drain> {
        if let Some(Unfit::Drained(drain)) = &self.unfit { Some(drain) } else { None }
    }

    /// The GPU, if its device node exists.
    pub fn gpu(&self) -> Option<Gpu> {
        let Detail { index, path, uuid, .. } = self;
        self.number.map(|number| Gpu { index: *index, path: path.clone(), number, uuid: uuid.clone() })
    }
}

/// One slot for each of Slurm's indices.
fn slots(Files { slots, order }: &Files, roots: &Roots, known: &[Known]) -> Result<Vec<Slot>, DeviceError> {
    let mut paths = match slots {
        Some(slots) if *order == Order::Listed => return Ok(slots.clone()),
        Some(slots) => slots.iter().map(|slot| slot.path.clone()).collect(),
        None => detected(every_node(roots, known)?, *order, known)?,
    };
    sort(&mut paths, *order, known)?;
    let listed = |path: &Path| slots.iter().flatten().find(|listed| listed.path == path).cloned();
    Ok(paths.into_iter().map(|path| listed(&path).unwrap_or(Slot::whole(path))).collect())
}

/// The GPUs that AutoDetect finds. NVML doesn't count excluded GPUs; slurmd's other methods count them, because they
/// read /proc.
fn detected(paths: Vec<PathBuf>, order: Order, known: &[Known]) -> Result<Vec<PathBuf>, DeviceError> {
    let is_excluded = |path: &PathBuf| known_by(path, known).is_some_and(|gpu| gpu.excluded);
    match order {
        Order::Pci => Ok(paths.into_iter().filter(|path| !is_excluded(path)).collect()),
        Order::NameOrPci if paths.iter().any(is_excluded) => Err(DeviceError::Order),
        _ => Ok(paths),
    }
}

/// Sorts as AutoDetect does. A GPU that the driver doesn't know has no PCI address. That doesn't matter as long as both
/// orders are the same for the others.
fn sort(paths: &mut [PathBuf], order: Order, known: &[Known]) -> Result<(), DeviceError> {
    if order == Order::Listed {
        return Ok(());
    }
    let as_listed = paths.is_sorted_by_key(|path| by_name(path));
    sort_by(paths, &|one, other| by_name(one).cmp(&by_name(other)));
    let pci = |path: &Path| known_by(path, known).and_then(|gpu| position(&gpu.pci));
    let found: Vec<_> = paths.iter().filter_map(|path| pci(path)).collect();
    match order {
        Order::Name if as_listed => Ok(()),
        Order::Pci | Order::NameOrPci if found.is_sorted() => Ok(()),
        Order::Pci if found.len() == paths.len() => {
            sort_by(paths, &|one, other| pci(one).cmp(&pci(other)));
            Ok(())
        }
        _ => Err(DeviceError::Order),
    }
}

/// Puts `nvidia2` before `nvidia10`, as Slurm's strnatcmp() does.
fn by_name(path: &Path) -> (String, u64) {
    let name = path.to_string_lossy();
    let head = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name.strip_prefix(head).and_then(|digits| digits.parse().ok());
    (head.to_owned(), number.unwrap_or(0))
}

/// Whether the driver knows GPUs, but not this one.
fn is_unknown(number: DeviceNumber, known: &[Known]) -> bool {
    number.major == NVIDIA && !known.is_empty() && known.iter().all(|gpu| gpu.minor != number.minor)
}

fn known_by<'a>(path: &Path, known: &'a [Known]) -> Option<&'a Known> {
    let minor = device_number(path).map(|number| number.minor).ok().or_else(|| minor_by_name(path))?;
    known.iter().find(|gpu| gpu.minor == minor)
}

/// Every /dev/nvidiaN, by number, including those that the driver knows but that have no device node.
fn every_node(roots: &Roots, known: &[Known]) -> Result<Vec<PathBuf>, DeviceError> {
    let mut paths =
        numbered_nodes(&roots.dev).map_err(|error| DeviceError::List(roots.dev.clone(), error))?;
    let minors: Vec<u32> = paths.iter().filter_map(|path| Some(device_number(path).ok()?.minor)).collect();
    let missing = known.iter().filter(|gpu| !minors.contains(&gpu.minor));
    paths.extend(missing.map(|gpu| roots.dev.join(format!("nvidia{}", gpu.minor))));
    sort_by_minor(&mut paths);
    paths.dedup();
    paths.truncate(MOST);
    Ok(paths)
}

/// The number of a device node.
///
/// # Errors
/// It is missing, can't be examined, or isn't a character device.
pub(super) fn device_number(path: &Path) -> Result<DeviceNumber, Unfit> {
    let metadata = path.metadata().map_err(|error| Unfit::Missing(error.kind()))?;
    DeviceNumber::of(&metadata).ok_or(Unfit::NoDevice)
}

#[cfg(test)]
pub(super) mod fake;
#[cfg(test)]
mod tests;
