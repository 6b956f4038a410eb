//! How many units each GPU of a node has, by `UnitsPerGpu`.

use gpushare::config::units::UnitsPerGpu;

/// The units of the GPU with Slurm's index `index`; 0 if it takes no share. `gres_type` is its type in Slurm's
/// files. Without one, its model such as `NVIDIA A40` decides: the longest type that is a part of it.
pub fn of_gpu(units: &UnitsPerGpu, index: u32, gres_type: Option<&str>, model: Option<&str>) -> u32 {
    match units {
        UnitsPerGpu::Each(units) => *units,
        UnitsPerGpu::ByIndex(list) => {
            usize::try_from(index).ok().and_then(|at| list.get(at)).copied().unwrap_or(0)
        }
        UnitsPerGpu::ByType(types) => {
            let is_it = |known: &str| match gres_type {
                Some(gres_type) => known.eq_ignore_ascii_case(gres_type),
                None => plain(model.unwrap_or_default()).contains(&plain(known)),
            };
            let found = types.iter().filter(|(known, _)| is_it(known)).max_by_key(|(known, _)| known.len());
            found.map_or(0, |(_, units)| *units)
        }
    }
}

/// How many GPUs a list is for.
pub fn listed(units: &UnitsPerGpu) -> Option<usize> {
    match units {
        UnitsPerGpu::ByIndex(list) => Some(list.len()),
        UnitsPerGpu::Each(_) | UnitsPerGpu::ByType(_) => None,
    }
}

/// Such as `80 on each of 4 GPUs`, or `24,24,12 on 3 GPUs`.
pub fn written(units: &[u32]) -> String {
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
    use super::*;

    fn read(value: &str) -> Vec<u32> {
        let units = UnitsPerGpu::parse(value).unwrap();
        let gpus = [(Some("a40"), Some("NVIDIA A40")), (None, Some("Tesla V100-SXM2-32GB")), (None, None)];
        (0..).zip(gpus).map(|(index, (gres_type, model))| of_gpu(&units, index, gres_type, model)).collect()
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
        assert_eq!(written(&[80, 80]), "80 on each of 2 GPUs");
        assert_eq!(written(&[24, 24, 0]), "24,24,0 on 3 GPUs");
        assert_eq!(listed(&UnitsPerGpu::parse("24,12").unwrap()), Some(2));
    }
}
