//! The slope of a measured level over a growing count.

use super::distributions::t_score;
use super::mean;

/// Blocks that the points are cut into. Levels within a block are averaged.
const BLOCKS: usize = 9;

/// Variance of the sum of differences of block means, as a multiple of the sum of their squares, for
/// a level that moves as a random walk: with `m` differences of blocks of equal length the ratio is
/// (m - 1/3) / (2 m / 3), at most 1.5. For a level with independent errors it is below 1.
const WALK_FACTOR: f64 = 1.5;

/// The slope of a level over a count, for example of memory over the number of schemas. Errors of
/// the level may be correlated: memory is a sum of steps. The interval is that of the mean of
/// differences between successive blocks, which covers errors from independent to a random walk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// Level per count.
    pub slope: f64,
    /// Two-sided interval.
    pub low: f64,
    pub high: f64,
}

impl Growth {
    /// The slope of points (count, level) in order of time, at a confidence level such as 0.99;
    /// `None` with fewer than two points for each block, or if the count does not grow.
    pub fn new(points: &[(f64, f64)], level: f64) -> Option<Self> {
        if points.len() < 2 * BLOCKS {
            return None;
        }
        let blocks: Vec<(f64, f64)> = (0..BLOCKS)
            .map(|block| {
                let place = |block: usize| block * points.len() / BLOCKS;
                let block = &points[place(block)..place(block + 1)];
                let of = |value: fn(&(f64, f64)) -> f64| -> Option<f64> {
                    mean(&block.iter().map(value).collect::<Vec<_>>())
                };
                Some((of(|point| point.0)?, of(|point| point.1)?))
            })
            .collect::<Option<_>>()?;
        let steps: Vec<(f64, f64)> = blocks
            .windows(2)
            .map(|pair| (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1))
            .collect();
        let (counts, levels) = steps
            .iter()
            .fold((0.0, 0.0), |sum, step| (sum.0 + step.0, sum.1 + step.1));
        if counts <= 0.0 {
            return None;
        }
        let slope = levels / counts;
        let squares: f64 = steps
            .iter()
            .map(|(count, level)| (level - slope * count).powi(2))
            .sum();
        let n = steps.len() as f64;
        let error = (squares * n / (n - 1.0) * WALK_FACTOR).sqrt() / counts;
        let margin = t_score(level, steps.len() - 1) * error;
        Some(Self {
            slope,
            low: slope - margin,
            high: slope + margin,
        })
    }

    /// Whether the interval is above zero.
    pub fn is_growing(&self) -> bool {
        self.low > 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::SplitMix;

    /// An approximately normal number with variance 1.
    fn normal(random: &mut SplitMix) -> f64 {
        (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
    }

    /// Runs of 60 points whose interval contains `slope`.
    fn covered(slope: f64, level: impl Fn(&mut SplitMix, &mut f64) -> f64) -> usize {
        (0..400)
            .filter(|seed| {
                let mut random = SplitMix::new(*seed, 0);
                let mut state = 0.0;
                let points: Vec<(f64, f64)> = (0..60)
                    .map(|place| {
                        let count = f64::from(place) * 4.0;
                        (
                            count,
                            100.0 + slope * count + level(&mut random, &mut state),
                        )
                    })
                    .collect();
                let growth = Growth::new(&points, 0.99).unwrap();
                (growth.low..=growth.high).contains(&slope)
            })
            .count()
    }

    #[test]
    fn intervals_cover_independent_and_correlated_errors() {
        let independent = |random: &mut SplitMix, _: &mut f64| normal(random);
        let walk = |random: &mut SplitMix, state: &mut f64| {
            *state += normal(random);
            *state
        };
        let autoregressive = |random: &mut SplitMix, state: &mut f64| {
            *state = 0.9 * *state + normal(random);
            *state
        };
        for (name, covered) in [
            ("independent", covered(0.0, independent)),
            ("walk", covered(0.0, walk)),
            ("walk with a slope", covered(3.0, walk)),
            ("autoregressive", covered(0.0, autoregressive)),
        ] {
            assert!(covered >= 388, "{name}: {covered} of 400");
        }
    }

    #[test]
    fn steps_and_constant_levels_are_no_growth() {
        let flat: Vec<(f64, f64)> = (0..40).map(|at| (f64::from(at), 7.0)).collect();
        let growth = Growth::new(&flat, 0.99).unwrap();
        assert_eq!((growth.slope, growth.low, growth.high), (0.0, 0.0, 0.0));
        assert!(!growth.is_growing());
        for at in [3, 20, 35] {
            let mut step = flat.clone();
            step[at..].iter_mut().for_each(|point| point.1 = 9.0);
            let growth = Growth::new(&step, 0.99).unwrap();
            assert!(!growth.is_growing(), "{growth:?}");
        }
    }

    #[test]
    fn planted_slope_is_found() {
        let mut random = SplitMix::new(1, 0);
        let points: Vec<(f64, f64)> = (0..40)
            .map(|at| {
                let count = f64::from(at) * 5.0;
                (count, 5e8 + 1e6 * count + 4e5 * normal(&mut random))
            })
            .collect();
        let growth = Growth::new(&points, 0.99).unwrap();
        assert!(growth.is_growing());
        assert!((growth.slope / 1e6 - 1.0).abs() < 0.02, "{growth:?}");
        assert!(growth.high - growth.low < 0.2e6, "{growth:?}");
    }

    #[test]
    fn too_few_points_and_constant_counts_have_no_slope() {
        let points: Vec<(f64, f64)> = (0..17).map(|at| (f64::from(at), 1.0)).collect();
        assert_eq!(Growth::new(&points, 0.99), None);
        assert_eq!(Growth::new(&[(3.0, 1.0); 40], 0.99), None);
    }
}
