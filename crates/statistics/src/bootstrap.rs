//! The bootstrap: a sample is drawn again from itself many times, and the middle of what comes out
//! is an interval.
//!
//! [`RandomSource::resample`] makes the resamples. What is drawn is the caller's: single values or
//! pairs ([`RandomSource::below`]), clusters such as runs ([`runs`]), or neighbours in time
//! ([`blocks`]). The interval is Efron's percentile interval ([`middle`], [`Replicates`]).

use rayon::iter::{IntoParallelIterator, ParallelIterator};

use sobench_pycompat::random::NumpyRandom;

/// Where a bootstrap's random numbers come from.
pub trait RandomSource: Sized {
    /// A whole number below `bound`, which is above 0.
    fn below(&mut self, bound: usize) -> usize;

    /// Calls `draw` for each resample, and returns what it came to, in order. The same seed draws
    /// the same. `draw` may keep memory from one resample to the next in its second argument.
    fn resample<B: Default, T: Send>(
        seed: u64,
        resamples: usize,
        draw: impl Fn(&mut Self, &mut B) -> T + Sync,
    ) -> Vec<T>;
}

/// One stream for all resamples, one after the other; of the seed the lower 32 bits count.
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

/// A stream for each resample, on all threads.
impl RandomSource for SplitMix {
    /// Of the bias of Lemire's multiplication (2019) nothing is left to see: below 2^-40 for a
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
/// few operations a draw, and any seed starts a stream of its own, so that resamples can be drawn
/// in any order and on any thread.
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

/// How often each of `count` runs is drawn.
///
/// Of several, one fewer is drawn than there are: drawing all would find the spread between runs
/// too small by 1/runs (Rao and Wu, "Resampling inference with complex survey data", 1988). A
/// single run stands for itself, and its like is not known.
pub fn runs(random: &mut impl RandomSource, count: usize, out: &mut Vec<u32>) {
    out.clear();
    out.resize(count, 0);
    match count {
        1 => out[0] = 1,
        _ => (1..count).for_each(|_| out[random.below(count)] += 1),
    }
}

/// Draws `count` of as many things in a row, in blocks of neighbours, and adds how often each was
/// drawn to `out`: a circular block bootstrap (Politis and Romano, 1992). Requests that are near in
/// time share a batch and a queue, so that drawing each by itself would find too little spread. The
/// block's length is of the order that Hall, Horowitz and Jing (1995) find best for a variance.
pub fn blocks(random: &mut impl RandomSource, count: usize, out: &mut [u32]) {
    let length = (count as f64).cbrt().ceil() as usize;
    let mut left = count;
    while left > 0 {
        let begin = random.below(count);
        for step in 0..length.min(left) {
            out[(begin + step) % count] += 1;
        }
        left -= length.min(left);
    }
}

/// What resamples of two samples came to: differences, and ratios less 1, each sorted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replicates {
    differences: Vec<f64>,
    ratios: Vec<f64>,
}

impl Replicates {
    /// From the two values of each resample; `None` where a resample has none of one.
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

    /// The middle `level` of the differences: Efron's percentile interval. `None` where there are
    /// too few to cut anything off.
    pub fn interval(&self, level: f64) -> Option<(f64, f64)> {
        middle_of_level(&self.differences, level)
    }

    /// The same of the ratios less 1.
    pub fn relative(&self, level: f64) -> Option<(f64, f64)> {
        middle_of_level(&self.ratios, level)
    }
}

/// Resamples that an interval of this level takes, so that at least ten lie beyond each of its
/// ends.
pub fn resamples_for(level: f64) -> usize {
    // The tiny term is for levels such as 0.99, which have no exact number.
    (20.0 / (1.0 - level) - 1e-6).ceil() as usize
}

/// The ends of what is left of sorted values where `beyond` of them are left out at each end;
/// `None` where nothing is left.
pub fn middle(sorted: &[f64], beyond: usize) -> Option<(f64, f64)> {
    let last = sorted.len().checked_sub(beyond + 1)?;
    (beyond <= last).then(|| (sorted[beyond], sorted[last]))
}

fn middle_of_level(sorted: &[f64], level: f64) -> Option<(f64, f64)> {
    // Rounded towards the outside; the tiny term is for products such as 1000 * 0.01 that come out
    // just below the whole number.
    let beyond = (sorted.len() as f64 * (1.0 - level) / 2.0 + 1e-9).floor() as usize;
    middle(sorted, beyond.checked_sub(1)?)
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
    fn one_run_fewer_is_drawn_than_there_are() {
        let mut drawn = Vec::new();
        for (count, expected) in [(1, 1), (2, 1), (5, 4)] {
            runs(&mut SplitMix::new(0, 0), count, &mut drawn);
            assert_eq!((drawn.len(), drawn.iter().sum::<u32>()), (count, expected));
        }
    }

    #[test]
    fn blocks_are_neighbours_and_come_to_all() {
        for count in [1, 2, 30, 1000] {
            let mut drawn = vec![0; count];
            blocks(&mut SplitMix::new(3, 1), count, &mut drawn);
            assert_eq!(drawn.iter().sum::<u32>() as usize, count);
        }
        let mut drawn = vec![0; 1_000_000];
        blocks(&mut SplitMix::new(3, 2), drawn.len(), &mut drawn);
        let starts = drawn.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(starts <= 2 * 10_000, "blocks of a hundred: {starts}");
    }

    #[test]
    fn an_interval_leaves_out_the_ends() {
        let drawn = Replicates::new((0..1000).rev().map(|place| Some((1.0, f64::from(place)))));
        assert_eq!(drawn.interval(0.98), Some((8.0, 989.0)));
        assert_eq!(drawn.relative(0.98), Some((8.0, 989.0)));
        assert_eq!(drawn.interval(0.999), None, "no resample lies beyond it");
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
