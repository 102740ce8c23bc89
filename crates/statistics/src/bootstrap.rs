//! Bootstrap confidence intervals.
//!
//! [`RandomSource::resample`] makes the resamples. The caller draws single values or pairs
//! ([`RandomSource::below`]), clusters such as runs ([`draw_runs`]), or neighbours in time
//! ([`draw_blocks`]). Intervals are Efron's percentile intervals ([`trimmed_range`],
//! [`Replicates`]).

use rayon::iter::{IntoParallelIterator, ParallelIterator};

use sobench_pycompat::random::NumpyRandom;

/// Source of random numbers for the bootstrap.
pub trait RandomSource: Sized {
    /// A random integer below `bound`, which is above 0.
    fn below(&mut self, bound: usize) -> usize;

    /// Calls `draw` for each resample and returns the results in order. The same seed gives the
    /// same draws. The second argument of `draw` is a buffer to reuse between resamples.
    fn resample<B: Default, T: Send>(
        seed: u64,
        resamples: usize,
        draw: impl Fn(&mut Self, &mut B) -> T + Sync,
    ) -> Vec<T>;
}

/// One stream for all resamples in sequence; only the lower 32 bits of the seed are used.
impl RandomSource for NumpyRandom {
    fn below(&mut self, bound: usize) -> usize {
        // `random` is below 1; rounding of the product could still reach the bound.
        ((self.random() * bound as f64) as usize).min(bound - 1)
    }

    fn resample<B: Default, T: Send>(
        seed: u64,
        resamples: usize,
        draw: impl Fn(&mut Self, &mut B) -> T + Sync,
    ) -> Vec<T> {
        let mut random = Self::new((seed & u64::from(u32::MAX)) as u32);
        let mut buffers = B::default();
        (0..resamples)
            .map(|_| draw(&mut random, &mut buffers))
            .collect()
    }
}

/// One stream for each resample, in parallel.
impl RandomSource for SplitMix {
    /// Lemire's multiplication (2019); its bias is negligible: below 2^-40 for a bound of a
    /// million.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    fn resample<B: Default, T: Send>(
        seed: u64,
        resamples: usize,
        draw: impl Fn(&mut Self, &mut B) -> T + Sync,
    ) -> Vec<T> {
        let one = |buffers: &mut B, resample: u64| draw(&mut Self::new(seed, resample), buffers);
        (0..resamples as u64)
            .into_par_iter()
            .map_init(B::default, one)
            .collect()
    }
}

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014): a
/// few operations per draw, and each seed starts an independent stream, so that resamples can be
/// drawn in any order on any thread.
#[derive(Clone, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// The stream of one resample.
    pub fn new(seed: u64, resample: u64) -> Self {
        let mut mixed = Self(seed ^ 0x6a09_e667_f3bc_c908);
        let start = mixed.next();
        let mut own = Self(start ^ resample.wrapping_mul(0xd129_42b6_4f2d_a5b5));
        own.0 = own.next();
        own
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Draws runs with replacement; `out` gets the number of times each of `count` runs is drawn.
///
/// Draws `count - 1` runs: drawing `count` would underestimate the variance between runs by 1/runs
/// (Rao and Wu, "Resampling inference with complex survey data", 1988). A single run is drawn once;
/// its variance is unknown.
pub fn draw_runs(random: &mut impl RandomSource, count: usize, out: &mut Vec<u32>) {
    out.clear();
    out.resize(count, 0);
    match count {
        1 => out[0] = 1,
        _ => (1..count).for_each(|_| out[random.below(count)] += 1),
    }
}

/// Draws `count` of `count` items in blocks of neighbours, and adds the number of times each is
/// drawn to `out`: a circular block bootstrap (Politis and Romano, 1992). Requests that are close
/// in time share a batch and a queue, so that independent draws would underestimate the variance.
/// The block length has the order that Hall, Horowitz and Jing (1995) find optimal for a variance.
pub fn draw_blocks(random: &mut impl RandomSource, count: usize, out: &mut [u32]) {
    let length = (count as f64).cbrt().ceil() as usize;
    let mut left = count;
    while left > 0 {
        let start = random.below(count);
        for step in 0..length.min(left) {
            out[(start + step) % count] += 1;
        }
        left -= length.min(left);
    }
}

/// Results of resampling two samples: differences, and ratios minus 1, both sorted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replicates {
    differences: Vec<f64>,
    ratios: Vec<f64>,
}

impl Replicates {
    /// From the two values of each resample; `None` for a resample without one of them.
    pub fn new(replicates: impl Iterator<Item = Option<(f64, f64)>>) -> Self {
        let mut sorted = Self::default();
        for (a, b) in replicates.flatten() {
            sorted.differences.push(b - a);
            if a > 0.0 {
                sorted.ratios.push(b / a - 1.0);
            }
        }
        sorted.differences.sort_by(f64::total_cmp);
        sorted.ratios.sort_by(f64::total_cmp);
        sorted
    }

    /// Efron's percentile interval of the differences. `None` if there are too few resamples to
    /// trim.
    pub fn interval(&self, level: f64) -> Option<(f64, f64)> {
        interval_of_level(&self.differences, level)
    }

    /// The same for ratios minus 1.
    pub fn relative(&self, level: f64) -> Option<(f64, f64)> {
        interval_of_level(&self.ratios, level)
    }
}

/// Number of resamples for an interval of this level, so that at least ten lie beyond each end.
pub fn resamples_for(level: f64) -> usize {
    // The small term compensates for rounding of levels such as 0.99.
    (20.0 / (1.0 - level) - 1e-6).ceil() as usize
}

/// The range of sorted values after removing `beyond` values at each end; `None` if nothing is
/// left.
pub fn trimmed_range(sorted: &[f64], beyond: usize) -> Option<(f64, f64)> {
    let last = sorted.len().checked_sub(beyond + 1)?;
    (beyond <= last).then(|| (sorted[beyond], sorted[last]))
}

fn interval_of_level(sorted: &[f64], level: f64) -> Option<(f64, f64)> {
    // Rounded outwards; the small term compensates for products such as 1000 * 0.01 just below an
    // integer.
    let beyond = (sorted.len() as f64 * (1.0 - level) / 2.0 + 1e-9).floor() as usize;
    trimmed_range(sorted, beyond.checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_even_and_repeatable() {
        let mut random = SplitMix::new(7, 3);
        let mut counts = [0_u32; 10];
        (0..100_000).for_each(|_| counts[random.below(10)] += 1);
        assert!(
            counts.iter().all(|count| (9_600..10_400).contains(count)),
            "{counts:?}"
        );
        let first = |seed, resample| SplitMix::new(seed, resample).below(1_000_000);
        assert_eq!(first(1, 2), first(1, 2));
        assert!(first(1, 2) != first(1, 3) && first(1, 2) != first(2, 2));
    }

    #[test]
    fn one_run_fewer_than_available_is_drawn() {
        let mut drawn = Vec::new();
        for (count, expected) in [(1, 1), (2, 1), (5, 4)] {
            draw_runs(&mut SplitMix::new(0, 0), count, &mut drawn);
            assert_eq!((drawn.len(), drawn.iter().sum::<u32>()), (count, expected));
        }
    }

    #[test]
    fn blocks_are_contiguous_and_draw_the_full_count() {
        for count in [1, 2, 30, 1000] {
            let mut drawn = vec![0; count];
            draw_blocks(&mut SplitMix::new(3, 1), count, &mut drawn);
            assert_eq!(drawn.iter().sum::<u32>() as usize, count);
        }
        let mut drawn = vec![0; 1_000_000];
        draw_blocks(&mut SplitMix::new(3, 2), drawn.len(), &mut drawn);
        let starts = drawn.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(starts <= 2 * 10_000, "blocks of a hundred: {starts}");
    }

    #[test]
    fn intervals_trim_both_ends() {
        let drawn = Replicates::new(
            (0..1000)
                .rev()
                .map(|position| Some((1.0, f64::from(position)))),
        );
        assert_eq!(drawn.interval(0.98), Some((8.0, 989.0)));
        assert_eq!(drawn.relative(0.98), Some((8.0, 989.0)));
        assert_eq!(drawn.interval(0.999), None, "too few resamples to trim");
        assert_eq!(
            Replicates::new([None, Some((0.0, 1.0))].into_iter()).relative(0.1),
            None
        );
        assert_eq!(
            (resamples_for(0.99), resamples_for(1.0 - 0.02 / 6.0)),
            (2000, 6000)
        );
    }
}
