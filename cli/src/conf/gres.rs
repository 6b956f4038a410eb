//! A node's lines of gres.conf, from its GPUs and `Placement`, and what slurm.conf must say about the node.

use gpushare_machine::config::Config;
use gpushare_node::config::{NodeConfig, Placement, units};
use gpushare_node::gpu::{self, Detail, DeviceError, Inventory, Roots};

use super::ConfError;
use crate::requirements::types;
use crate::slurm::Slurm;

/// The lines for this machine, which is node `name`.
///
/// # Errors
/// Its GPUs can't be determined, or don't match `UnitsPerGpu`.
pub fn of(config: &Config, name: &str, slurm: &Slurm) -> Result<String, ConfError> {
    // Takes the GPUs from gpushare.conf or /dev, because gres.conf is what we are about to write.
    let here = config.of_node(name);
    let files = gpu::Files::of(&here.gpu_files, None, Some(name)).map_err(DeviceError::from);
    let found = files.and_then(|files| gpu::inventory(&files, &Roots::system()));
    let mut found = found.map_err(ConfError::Node)?;
    let known = known_types(config, name, slurm);
    for detail in &mut found.details {
        detail.gres_type = Some(type_of(detail.model.as_deref().unwrap_or_default(), &known));
    }
    text(here, name, &found)
}

/// The known names of types: on this node, or otherwise in gpushare.conf.
#[derive(Default)]
struct Types {
    here: Vec<String>,
    elsewhere: Vec<String>,
}

fn known_types(config: &Config, name: &str, slurm: &Slurm) -> Types {
    let here = slurm.nodes.iter().filter(|node| node.name == name).flat_map(|node| &node.gres);
    let here = here.filter(|(name, ..)| name == "gpu").filter_map(|(_, gres_type, _)| gres_type.clone());
    Types { here: here.collect(), elsewhere: types(config).into_iter().map(str::to_owned).collect() }
}

fn text(config: &NodeConfig, name: &str, found: &Inventory) -> Result<String, ConfError> {
    let details = &found.details;
    let groups = groups(details);
    let units = match config.placement {
        Placement::Off => Vec::new(),
        _ => gpu::units_of(config, found).ok_or_else(|| ConfError::Units(found.count()))?,
    };
    let mut lines = String::new();
    let mut gres: Vec<String> = Vec::new();
    for detail in details {
        if let Some(unfit) = &detail.unfit {
            lines += &format!("# {}: {unfit}; it takes no shares\n", detail.path.display());
        }
    }
    if config.placement == Placement::Own {
        lines += "\n# Slurm only counts shares here and knows no GPUs: gpushare chooses the GPU.\n";
    } else {
        lines += "\n# GPUs in this order, not as the driver finds them.\nAutoDetect=off\n";
        if groups.len() > 1 && config.placement != Placement::Off {
            lines += "# GPUs of several types: gpushare.conf needs GpuFile=, in the order that slurmd -G prints.\n";
        }
        for (gres_type, paths) in &groups {
            lines += &format!("NodeName={name} Name=gpu Type={gres_type} File={}\n", files(paths));
        }
        gres.extend(counts(&groups));
    }
    if let Some(Shares { count, flags, why, by_gpu }) = shares(config, &units) {
        let share = &config.share_gres;
        let without = if config.placement == Placement::Own { "" } else { WITHOUT };
        lines += &format!("# {why}.{without}\n");
        if by_gpu {
            for (detail, units) in details.iter().zip(&units).filter(|(_, units)| **units > 0) {
                let file = detail.path.display();
                lines += &format!("NodeName={name} Name={share} Count={units} File={file}{flags}\n");
            }
        } else {
            lines += &format!("NodeName={name} Name={share} Count={count}{flags}\n");
        }
        gres.push(format!("{share}:{count}"));
    }
    Ok(lines + &format!("\n# In slurm.conf:\n# NodeName={name} … Gres={}\n", gres.join(",")))
}

/// The note on the line of shares if the same gpushare.conf is for nodes without shares.
const WITHOUT: &str = " Leave this out on a node for whole GPUs only.";

/// How Slurm must count the shares.
struct Shares {
    /// Units in total.
    count: u64,
    /// Flags in the lines.
    flags: &'static str,
    why: String,
    /// One line for each GPU, if they differ and Slurm chooses.
    by_gpu: bool,
}

fn shares(config: &NodeConfig, units: &[u32]) -> Option<Shares> {
    let all: u64 = units.iter().map(|units| u64::from(*units)).sum();
    let gpus = u64::try_from(units.len()).unwrap_or(u64::MAX);
    let why = units::written(units);
    let is_mps = config.share_gres == "mps";
    let differ = units.windows(2).any(|pair| matches!(pair, [one, other] if one != other));
    let by_gpu = differ && config.placement == Placement::Follow;
    let shares = Shares { count: all, flags: "", why, by_gpu };
    Some(match config.placement {
        Placement::Off => return None,
        Placement::Own => Shares { flags: " Flags=CountOnly", ..shares },
        Placement::Follow if is_mps => {
            let why = format!("{}, and Slurm may use all of them at the same time", shares.why);
            Shares { flags: " Flags=all_sharing", why, ..shares }
        }
        Placement::Override if is_mps => {
            let higher = "the count is higher because Slurm uses only one GPU's part of it at a time";
            let why = format!("{} are {all}; {higher}", shares.why);
            Shares { count: all.saturating_mul(gpus), why, ..shares }
        }
        Placement::Follow | Placement::Override => shares,
    })
}

/// Consecutive GPUs of one type.
fn groups(details: &[Detail]) -> Vec<(String, Vec<String>)> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for detail in details {
        let gres_type = detail.gres_type.clone().unwrap_or_default();
        let path = detail.path.display().to_string();
        match groups.last_mut() {
            Some((last, paths)) if *last == gres_type => paths.push(path),
            _ => groups.push((gres_type, vec![path])),
        }
    }
    groups
}

/// Each type once: `gpu:a40:4`.
fn counts(groups: &[(String, Vec<String>)]) -> Vec<String> {
    let mut sums: Vec<(&str, usize)> = Vec::new();
    for (gres_type, paths) in groups {
        match sums.iter_mut().find(|(known, _)| known == gres_type) {
            Some((_, sum)) => *sum += paths.len(),
            None => sums.push((gres_type, paths.len())),
        }
    }
    sums.into_iter().map(|(gres_type, count)| format!("gpu:{gres_type}:{count}")).collect()
}

/// The type of a model: Slurm's name if all of the node's GPUs have one type, else the longest known type within the
/// model's name, else that name as Slurm would write it.
fn type_of(model: &str, known: &Types) -> String {
    if let [only] = known.here.as_slice() {
        return only.clone();
    }
    let plain = |text: &str| text.to_ascii_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "");
    let within = known
        .here
        .iter()
        .chain(&known.elsewhere)
        .filter(|gres_type| plain(model).contains(&plain(gres_type)));
    if let Some(gres_type) = within.max_by_key(|gres_type| gres_type.len()) {
        return gres_type.clone();
    }
    let words = model.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let words: Vec<String> = words.map(str::to_ascii_lowercase).filter(|word| word != "nvidia").collect();
    if words.is_empty() { "gpu".to_owned() } else { words.join("_") }
}

/// Writes paths as `/dev/nvidia[0-2,5]`.
fn files(paths: &[String]) -> String {
    let split = |path: &str| {
        let digits = path.chars().rev().take_while(char::is_ascii_digit).count();
        let (stem, number) = path.split_at(path.len() - digits);
        Some((stem.to_owned(), number.parse::<u32>().ok()?))
    };
    let numbers: Option<Vec<(String, u32)>> = paths.iter().map(|path| split(path)).collect();
    let (Some(numbers), true) = (numbers, paths.len() > 1) else { return paths.join(",") };
    let stem = numbers.first().map(|(stem, _)| stem.clone()).unwrap_or_default();
    if numbers.iter().any(|(other, _)| *other != stem) {
        return paths.join(",");
    }
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for (_, number) in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let range =
        |(first, last): (u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    format!("{stem}[{}]", ranges.into_iter().map(range).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests;
