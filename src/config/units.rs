//! `UnitsPerGpu`: how many units fill a GPU, even if GPUs differ.

use super::values::{number, of_type};

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
                let (gres_type, units) = of_type(part, &types)?;
                types.push((gres_type, number(units, 1, MOST)?));
            }
            return Some(UnitsPerGpu::ByType(types));
        }
        let units: Vec<u32> = parts.into_iter().map(|part| number(part, 0, MOST)).collect::<Option<_>>()?;
        units.iter().any(|units| *units > 0).then_some(UnitsPerGpu::ByIndex(units))
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

#[cfg(test)]
mod tests {
    use super::UnitsPerGpu;

    #[test]
    fn the_largest_gpu_decides_and_nothing_else_is_read() {
        for (text, most) in [
            ("a40:48,v100:32", 48),
            ("24, 12,0", 24),
            ("80", 80),
            ("a40:48", 48),
            ("1000000", 1_000_000),
            ("0,1", 1),
        ] {
            assert_eq!(UnitsPerGpu::parse(text).unwrap().most(), most, "{text}");
        }
        assert_eq!(UnitsPerGpu::parse("24,0"), Some(UnitsPerGpu::ByIndex(vec![24, 0])));
        assert_eq!(UnitsPerGpu::parse("24"), Some(UnitsPerGpu::Each(24)));
        for wrong in
            ["", "0", "0,0", "24,", "a40", "a40:0", "a40:48,12", "a40:48,A40:12", "24,-1", "1000001", ":3"]
        {
            assert_eq!(UnitsPerGpu::parse(wrong), None, "{wrong}");
        }
    }
}
