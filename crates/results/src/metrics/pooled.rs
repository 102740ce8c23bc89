//! Summaries of grouped values, such as the gaps of each answer, in bounded memory.

use sobench_statistics::durations::Durations;
use sobench_statistics::{Percentile, Summary};

/// Maximum number of values that are kept exactly; more are counted in buckets.
const MAX_EXACT: usize = 2_000_000;

const NS_PER_MS: f64 = 1e6;

/// Grouped values in milliseconds.
///
/// Values of a group are correlated, so the standard error is that of a mean over clusters
/// (Cochran, "Sampling Techniques", 9.5), and percentiles have no interval.
///
/// Up to two million values are exact. With more, count, mean, standard deviation, minimum and
/// maximum are exact, and median and percentiles come from buckets with a width of 0.1 %, which
/// [`Summary::within_percent`] reports.
#[derive(Clone, Debug, Default)]
pub struct Pooled {
    exact: Vec<f64>,
    /// The size of each non-empty group.
    sizes: Vec<u32>,
    counted: Option<Counted>,
}

/// Values counted in buckets.
#[derive(Clone, Debug, Default)]
struct Counted {
    durations: Durations,
    n: usize,
    /// Running mean and sum of squared distances (Welford, 1962).
    mean: f64,
    squares: f64,
    min: f64,
    max: f64,
    clusters: Clusters,
}

/// Sums over the groups' distances from the mean. Because the mean is unknown until the end,
/// distances are relative to a value near it and corrected at the end. A sum of squares about zero
/// would lose precision.
#[derive(Clone, Debug, Default)]
struct Clusters {
    near: f64,
    count: f64,
    squares: f64,
    products: f64,
    sizes_squared: f64,
}

impl Pooled {
    /// Adds a group.
    pub fn add(&mut self, group: impl IntoIterator<Item = f64>) {
        let (mut sum, mut size) = (0.0, 0_u32);
        for value in group {
            sum += value;
            size += 1;
            match &mut self.counted {
                Some(counted) => counted.add(value),
                None => self.exact.push(value),
            }
        }
        if size == 0 {
            return;
        }
        match &mut self.counted {
            Some(counted) => counted.clusters.add(sum, size),
            None => self.sizes.push(size),
        }
        if self.exact.len() > MAX_EXACT {
            self.counted = Some(self.count());
        }
    }

    /// Adds the groups of another sample.
    pub fn merge(&mut self, other: &Self) {
        match &other.counted {
            None => {
                let mut rest = other.exact.as_slice();
                for size in &other.sizes {
                    let (group, others) = rest.split_at((*size as usize).min(rest.len()));
                    self.add(group.iter().copied());
                    rest = others;
                }
            }
            Some(counted) => {
                let mut own = self.counted.take().unwrap_or_else(|| self.count());
                own.merge(counted);
                self.counted = Some(own);
            }
        }
    }

    /// Converts exact values to counts.
    fn count(&mut self) -> Counted {
        let (exact, sizes) = (
            std::mem::take(&mut self.exact),
            std::mem::take(&mut self.sizes),
        );
        let mut counted = Counted {
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            ..Counted::default()
        };
        exact.iter().for_each(|value| counted.add(*value));
        counted.clusters = Clusters::new(&exact, &sizes, counted.mean);
        counted
    }

    /// Summarizes the values.
    pub fn summary(self, percentiles: &[f64]) -> Summary {
        let Self {
            exact,
            sizes,
            counted,
        } = self;
        let (clusters, summary) = match counted {
            None => {
                let mean = exact.iter().sum::<f64>() / exact.len().max(1) as f64;
                (
                    Clusters::new(&exact, &sizes, mean),
                    Summary::without_standard_error(exact, percentiles, false),
                )
            }
            Some(counted) => {
                let summary = counted.summary(percentiles);
                (counted.clusters, summary)
            }
        };
        Summary {
            standard_error: summary
                .mean
                .and_then(|mean| clusters.error(mean, summary.n)),
            ..summary
        }
    }
}

impl Clusters {
    fn new(values: &[f64], sizes: &[u32], near: f64) -> Self {
        let mut clusters = Self {
            near,
            ..Self::default()
        };
        let mut rest = values;
        for size in sizes {
            let (group, others) = rest.split_at((*size as usize).min(rest.len()));
            clusters.add(group.iter().sum(), *size);
            rest = others;
        }
        clusters
    }

    fn add(&mut self, sum: f64, size: u32) {
        let size = f64::from(size);
        let off = sum - self.near * size;
        self.count += 1.0;
        self.squares += off * off;
        self.products += off * size;
        self.sizes_squared += size * size;
    }

    fn merge(&mut self, other: &Self) {
        let shift = other.near - self.near;
        self.count += other.count;
        self.squares +=
            other.squares + 2.0 * shift * other.products + shift * shift * other.sizes_squared;
        self.products += other.products + shift * other.sizes_squared;
        self.sizes_squared += other.sizes_squared;
    }

    /// The standard error of the mean of `n` values.
    fn error(&self, mean: f64, n: usize) -> Option<f64> {
        let shift = mean - self.near;
        let spread = (self.squares - 2.0 * shift * self.products
            + shift * shift * self.sizes_squared)
            .max(0.0);
        (self.count > 1.0).then(|| (spread * self.count / (self.count - 1.0)).sqrt() / n as f64)
    }
}

impl Counted {
    fn add(&mut self, value: f64) {
        self.durations
            .record((value * NS_PER_MS).round().max(0.0) as u64);
        self.n += 1;
        let off = value - self.mean;
        self.mean += off / self.n as f64;
        self.squares += off * (value - self.mean);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds other counts, with the formula of Chan, Golub and LeVeque (1979).
    fn merge(&mut self, other: &Self) {
        let (n, m) = (self.n as f64, other.n as f64);
        let off = other.mean - self.mean;
        self.durations.merge(&other.durations);
        self.n += other.n;
        self.mean += off * m / (n + m);
        self.squares += other.squares + off * off * n * m / (n + m);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.clusters.merge(&other.clusters);
    }

    fn summary(&self, percentiles: &[f64]) -> Summary {
        let at = |p: f64| {
            self.durations
                .quantile_ns(p / 100.0)
                .map(|ns| (ns as f64 / NS_PER_MS).clamp(self.min, self.max))
        };
        Summary {
            n: self.n,
            mean: Some(self.mean),
            median: at(50.0),
            std: Some((self.squares / self.n as f64).sqrt()),
            standard_error: None,
            min: Some(self.min),
            max: Some(self.max),
            percentiles: percentiles
                .iter()
                .filter_map(|&p| Percentile::without_interval(p, at(p), self.n))
                .collect(),
            within_percent: Some(Durations::RELATIVE_ERROR_PERCENT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(groups: &[Vec<f64>]) -> Summary {
        let mut pooled = Pooled::default();
        groups
            .iter()
            .for_each(|group| pooled.add(group.iter().copied()));
        pooled.summary(&[0.0, 50.0, 99.0, 100.0])
    }

    #[test]
    fn bucketed_percentiles_are_accurate() {
        // Few long values among many short ones, in groups of different sizes.
        let value = |index: usize| {
            if index % 1000 == 7 {
                40.0 + (index % 97) as f64
            } else {
                5.0 + (index % 1013) as f64 / 1013.0
            }
        };
        let all: Vec<f64> = (0..MAX_EXACT + 5000).map(value).collect();
        let groups: Vec<Vec<f64>> = all.chunks(37).map(<[f64]>::to_vec).collect();
        let (counted, exact) = (
            summary(&groups),
            Summary::without_standard_error(all, &[0.0, 50.0, 99.0, 100.0], false),
        );
        assert_eq!(
            (counted.n, counted.min, counted.max, counted.within_percent),
            (exact.n, exact.min, exact.max, Some(0.1))
        );
        let pairs = [
            (counted.mean, exact.mean, 1e-9),
            (counted.std, exact.std, 1e-9),
            (counted.median, exact.median, 1e-3),
        ];
        let percentiles = counted
            .percentiles
            .iter()
            .zip(&exact.percentiles)
            .map(|(one, other)| (one.value, other.value, 1e-3));
        for (found, expected, share) in pairs.into_iter().chain(percentiles) {
            let (found, expected) = (found.unwrap(), expected.unwrap());
            assert!(
                (found / expected - 1.0).abs() <= share,
                "{found} {expected}"
            );
        }
        let spread: f64 = groups
            .iter()
            .map(|group| {
                group
                    .iter()
                    .map(|value| value - exact.mean.unwrap())
                    .sum::<f64>()
                    .powi(2)
            })
            .sum();
        let clusters = groups.len() as f64;
        let error = (spread * clusters / (clusters - 1.0)).sqrt() / exact.n as f64;
        assert!(
            (counted.standard_error.unwrap() / error - 1.0).abs() < 1e-6
                && exact.within_percent.is_none()
        );
    }

    #[test]
    fn standard_error_counts_groups() {
        let near = |found: Option<f64>, expected: Option<f64>| {
            assert!((found.unwrap() - expected.unwrap()).abs() < 1e-12);
        };
        // Three groups of equal values are only three independent values.
        let groups: Vec<Vec<f64>> = [1.0, 2.0, 6.0]
            .iter()
            .map(|value| vec![*value; 50])
            .collect();
        let (pooled, three) = (summary(&groups), Summary::new(vec![1.0, 2.0, 6.0], &[]));
        assert_eq!(
            (pooled.n, pooled.mean, pooled.percentiles[1].value),
            (150, three.mean, Some(2.0))
        );
        near(pooled.standard_error, three.standard_error);
        assert_eq!(
            (pooled.percentiles[1].low, pooled.percentiles[1].high),
            (None, None)
        );
        // Groups of one value are independent values.
        let singles: Vec<Vec<f64>> = [3.0, 1.0, 4.0, 1.0, 5.0]
            .iter()
            .map(|value| vec![*value])
            .collect();
        near(
            summary(&singles).standard_error,
            Summary::new(singles.concat(), &[]).standard_error,
        );
        assert_eq!(
            summary(&[vec![1.0, 2.0], vec![]]).standard_error,
            None,
            "one group has no standard error"
        );
        assert_eq!(Pooled::default().summary(&[]), Summary::default());
    }

    #[test]
    fn merged_samples_equal_one_sample() {
        let groups: Vec<Vec<f64>> = (0..60)
            .map(|group| {
                (0..group % 7)
                    .map(|index| f64::from(group * 3 + index))
                    .collect()
            })
            .collect();
        let pooled = |groups: &[Vec<f64>], is_counted: bool| {
            let mut pooled = Pooled::default();
            groups
                .iter()
                .for_each(|group| pooled.add(group.iter().copied()));
            if is_counted {
                pooled.counted = Some(pooled.count());
            }
            pooled
        };
        let whole = pooled(&groups, false).summary(&[99.0]);
        for counted in [[false, false], [false, true], [true, false], [true, true]] {
            let [mut first, second] = [
                pooled(&groups[..25], counted[0]),
                pooled(&groups[25..], counted[1]),
            ];
            first.merge(&second);
            let merged = first.summary(&[99.0]);
            assert_eq!(
                (merged.n, merged.min, merged.max),
                (whole.n, whole.min, whole.max)
            );
            for (merged, whole) in [
                (merged.mean, whole.mean),
                (merged.std, whole.std),
                (merged.standard_error, whole.standard_error),
            ] {
                assert!(
                    (merged.unwrap() / whole.unwrap() - 1.0).abs() < 1e-9,
                    "{counted:?}: {merged:?} {whole:?}"
                );
            }
        }
    }
}
