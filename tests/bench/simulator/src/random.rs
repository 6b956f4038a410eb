//! Random numbers that are the same on every machine for the same seed: splitmix64 and the distributions that traces
//! need.

use std::f64::consts::TAU;

/// A source of random numbers.
pub struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Random {
        let mut random = Random(seed);
        random.bits();
        random
    }

    /// Steele, Lea and Flood: Fast splittable pseudorandom number generators (2014).
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0, without 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        let drawn = u128::from(self.bits()) * end as u128;
        usize::try_from(drawn >> 64).unwrap_or(0)
    }

    /// One of these.
    pub fn one_of<T: Copy>(&mut self, choices: &[T], otherwise: T) -> T {
        choices.get(self.below(choices.len())).copied().unwrap_or(otherwise)
    }

    /// Times between arrivals that come independently.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// With that median; `sigma` is of the logarithm.
    pub fn lognormal(&mut self, median: f64, sigma: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        median * (sigma * radius * (TAU * self.unit()).cos()).exp()
    }

    /// With that least value; the heavier the tail, the smaller `alpha`.
    pub fn pareto(&mut self, least: f64, alpha: f64) -> f64 {
        least / (1.0 - self.unit()).powf(1.0 / alpha)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_have_the_means_that_books_give() {
        let mut random = Random::new(1);
        let mut mean =
            |draw: fn(&mut Random) -> f64| (0..100_000).map(|_| draw(&mut random)).sum::<f64>() / 100_000.0;
        for (found, expected) in [
            (mean(Random::unit), 0.5),
            (mean(|random| random.exponential(3.0)), 3.0),
            (mean(|random| random.lognormal(1.0, 0.5)), 0.125_f64.exp()),
            (mean(|random| random.pareto(1.0, 3.0)), 1.5),
            (mean(|random| random.below(5) as f64), 2.0),
        ] {
            assert!((found / expected - 1.0).abs() < 0.02, "{found} {expected}");
        }
    }

    #[test]
    fn a_seed_gives_the_same_numbers_each_time() {
        let draw = |seed| {
            (0..5)
                .map(|_| 0)
                .scan(Random::new(seed), |random, _: i32| Some(random.bits()))
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
