//! `UnitsPerGpu`: how many units fill a GPU, even if GPUs differ.

use super::values::{is_gpu_type, number};

/// The values of `UnitsPerGpu`.
pub const UNITS_PER_GPU: &str =
    "a whole number from 1 to 1000000, a list with one for each GPU, or TYPE:NUMBER for each type of GPU";

/// More units than any GPU is divided into.
const MOST: u32 = 1_000_000;

/// The value of `UnitsPerGpu`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitsPerGpu {
    /// `80`: this many on every GPU.
    Each(u32),
    /// `24,24,12,0`: one for each GPU in Slurm's order; 0 for one that takes no share.
    ByIndex(Vec<u32>),
    /// `a40:48,v100:32`: by type; a GPU of another type takes no share.
    ByType(Vec<(String, u32)>),
}

impl UnitsPerGpu {
    /// Reads the key's value.
    pub fn parse(value: &str) -> Option<UnitsPerGpu> {
        let parts: Vec<&str> = value.split(',').map(str::trim).collect();
        if let [one] = parts.as_slice()
            && !one.contains(':')
        {
            return number(one, 1, MOST).map(UnitsPerGpu::Each);
        }
        if parts.iter().any(|part| part.contains(':')) {
            let mut types: Vec<(String, u32)> = Vec::new();
            for part in parts {
                let (gres_type, units) = part.split_once(':')?;
                let again = types.iter().any(|(known, _)| known.eq_ignore_ascii_case(gres_type));
                if !is_gpu_type(gres_type) || again {
                    return None;
                }
                types.push((gres_type.to_owned(), number(units, 1, MOST)?));
            }
            return Some(UnitsPerGpu::ByType(types));
        }
        let units: Vec<u32> = parts.into_iter().map(|part| number(part, 0, MOST)).collect::<Option<_>>()?;
        units.iter().any(|units| *units > 0).then_some(UnitsPerGpu::ByIndex(units))
    }

    /// The units of the GPU with Slurm's index `index`; 0 if it takes no share. `gres_type` is its type in Slurm's
    /// files. Without one, its model such as `NVIDIA A40` decides: the longest type that is a part of it.
    pub fn of_gpu(&self, index: u32, gres_type: Option<&str>, model: Option<&str>) -> u32 {
        match self {
            UnitsPerGpu::Each(units) => *units,
            UnitsPerGpu::ByIndex(list) => {
                usize::try_from(index).ok().and_then(|at| list.get(at)).copied().unwrap_or(0)
            }
            UnitsPerGpu::ByType(types) => {
                let is_it = |known: &str| match gres_type {
                    Some(gres_type) => known.eq_ignore_ascii_case(gres_type),
                    None => plain(model.unwrap_or_default()).contains(&plain(known)),
                };
                let found =
                    types.iter().filter(|(known, _)| is_it(known)).max_by_key(|(known, _)| known.len());
                found.map_or(0, |(_, units)| *units)
            }
        }
    }

    /// How many GPUs a list is for.
    pub fn listed(&self) -> Option<usize> {
        match self {
            UnitsPerGpu::ByIndex(list) => Some(list.len()),
            UnitsPerGpu::Each(_) | UnitsPerGpu::ByType(_) => None,
        }
    }

    /// The most units that a GPU has.
    pub fn most(&self) -> u32 {
        match self {
            UnitsPerGpu::Each(units) => *units,
            UnitsPerGpu::ByIndex(list) => list.iter().copied().max().unwrap_or(0),
            UnitsPerGpu::ByType(types) => types.iter().map(|(_, units)| *units).max().unwrap_or(0),
        }
    }
}

/// Such as `80 on each of 4 GPUs`, or `24,24,12 on 3 GPUs`.
pub fn units_written(units: &[u32]) -> String {
    match units {
        [first, others @ ..] if others.iter().all(|other| other == first) => {
            format!("{first} on each of {} GPUs", units.len())
        }
        _ => {
            let each: Vec<String> = units.iter().map(u32::to_string).collect();
            format!("{} on {} GPUs", each.join(","), units.len())
        }
    }
}

/// Prepares a text for comparison as Slurm's AutoDetect compares a type with a model's name: ignoring case and all
/// other characters than letters and digits.
fn plain(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::{UnitsPerGpu, units_written};

    fn read(value: &str) -> Vec<u32> {
        let units = UnitsPerGpu::parse(value).unwrap();
        let gpus = [(Some("a40"), Some("NVIDIA A40")), (None, Some("Tesla V100-SXM2-32GB")), (None, None)];
        (0..).zip(gpus).map(|(index, (gres_type, model))| units.of_gpu(index, gres_type, model)).collect()
    }

    #[test]
    fn units_are_of_each_gpu_by_index_or_by_type() {
        for (value, expected) in [
            ("80", [80, 80, 80]),
            ("24,12,0", [24, 12, 0]),
            ("24, 12", [24, 12, 0]),
            ("a40:48,v100:32", [48, 32, 0]),
            ("v100:16,V100_SXM2:32", [0, 32, 0]),
            ("A40:48", [48, 0, 0]),
        ] {
            assert_eq!(read(value), expected, "{value}");
        }
        assert_eq!(units_written(&[80, 80]), "80 on each of 2 GPUs");
        assert_eq!(units_written(&[24, 24, 0]), "24,24,0 on 3 GPUs");
        assert_eq!(UnitsPerGpu::parse("24,12").unwrap().listed(), Some(2));
        assert_eq!(UnitsPerGpu::parse("a40:48,v100:32").unwrap().most(), 48);
        for wrong in
            ["", "0", "0,0", "24,", "a40", "a40:0", "a40:48,12", "a40:48,A40:12", "24,-1", "1000001", ":3"]
        {
            assert_eq!(UnitsPerGpu::parse(wrong), None, "{wrong}");
        }
    }
}
