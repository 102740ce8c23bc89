//! Summaries of samples: mean, median, standard deviation and percentiles, and the sample size that
//! a percentile needs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::order_interval::order_interval;

/// Maximum probability that fewer than two values lie beyond a percentile that counts as reliable.
const TAIL_MISS_MAX: f64 = 0.01;

/// Summary of a sample, in the unit of the sample. Without data, figures are `None`, not zero.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Summary {
    /// Sample size.
    pub n: usize,
    pub mean: Option<f64>,
    pub median: Option<f64>,
    /// Population standard deviation (`ddof=0`, numpy's default and so vLLM's).
    pub std: Option<f64>,
    /// Standard error of the mean, for at least two values; see [`Summary::new`] and
    /// `metrics::pooled`.
    pub standard_error: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// In the requested order.
    pub percentiles: Vec<Percentile>,
    /// Relative error of median and percentiles in percent, if there were too many values to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_percent: Option<f64>,
}

/// A percentile, and whether the sample is large enough for it.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Percentile {
    /// 0 to 100.
    pub p: f64,
    pub value: Option<f64>,
    /// Whether the sample has at least [`samples_needed`] values.
    pub enough: bool,
    /// See [`samples_needed`].
    pub needs: u64,
    /// Bounds of the 95 % confidence interval ([`order_interval`]); `None` if the sample is too
    /// small or its values are not independent.
    pub low: Option<f64>,
    pub high: Option<f64>,
}

impl Summary {
    /// Summarises independent `values`; percentiles outside 0 to 100 are skipped.
    ///
    /// The standard error is the sample standard deviation (`ddof=1`) divided by the square root of
    /// the sample size.
    pub fn new(values: Vec<f64>, percentiles: &[f64]) -> Self {
        let summary = Self::without_standard_error(values, percentiles, true);
        let n = summary.n as f64;
        let error = |std: f64| std / (n - 1.0).sqrt();
        Self {
            standard_error: summary.std.map(error).filter(|_| summary.n > 1),
            ..summary
        }
    }

    /// The percentile `p`; `None` if it was not requested or there is no data.
    pub fn at(&self, p: f64) -> Option<f64> {
        self.percentiles
            .iter()
            .find(|percentile| percentile.p == p)?
            .value
    }

    pub fn without_standard_error(
        mut values: Vec<f64>,
        percentiles: &[f64],
        independent: bool,
    ) -> Self {
        values.sort_by(f64::total_cmp);
        let sorted = values;
        let mean = mean(&sorted);
        Self {
            n: sorted.len(),
            mean,
            median: median(&sorted),
            std: mean.map(|mean| deviation(&sorted, mean)),
            standard_error: None,
            min: sorted.first().copied(),
            max: sorted.last().copied(),
            percentiles: percentiles
                .iter()
                .filter_map(|&p| Percentile::new(&sorted, p, independent))
                .collect(),
            within_percent: None,
        }
    }
}

impl Percentile {
    fn new(sorted: &[f64], p: f64, independent: bool) -> Option<Self> {
        let value = percentile(sorted, p);
        let (low, high) = if independent {
            order_interval(sorted.len(), p)
        } else {
            (None, None)
        };
        let ranked = |rank: Option<usize>| rank.and_then(|rank| sorted.get(rank - 1).copied());
        // In a small sample, the interpolated extreme percentile may lie just outside the bound;
        // the interval is widened to include it.
        let low = ranked(low).zip(value).map(|(low, value)| low.min(value));
        let high = ranked(high).zip(value).map(|(high, value)| high.max(value));
        Some(Self {
            low,
            high,
            ..Self::without_interval(p, value, sorted.len())?
        })
    }

    /// A percentile of `n` values that are not independent, without an interval; `None` outside 0
    /// to 100.
    pub fn without_interval(p: f64, value: Option<f64>, n: usize) -> Option<Self> {
        let needs = samples_needed(p)?;
        Some(Self {
            p,
            value,
            enough: n as u64 >= needs,
            needs,
            low: None,
            high: None,
        })
    }

    /// The label in vLLM's keys and rows: `99`, `99.9`.
    pub fn label(&self) -> String {
        // `Display` prints the shortest text that reads back as the same number, without `.0` for
        // integers: equal to Python's `str(int(p)) if int(p) == p else str(p)` for percentiles
        // between 0 and 100.
        format!("{}", self.p)
    }
}

/// The minimum sample size for the `p`-th percentile: the size at which, with 99 % confidence, at
/// least two values lie beyond it. This is the rule of MLPerf Inference's early stopping (LoadGen),
/// with the same figures: 64 values for p90, 662 for p99.
///
/// Each of `n` independent values lies beyond the percentile with probability t = 1 - p / 100. None
/// does with probability (1 - t)^n, exactly one with n t (1 - t)^(n - 1); with fewer than two, the
/// percentile would depend on a single outlier. So (1 - t)^(n - 1) (1 - t + n t) must be at most 1
/// %.
///
/// Below the median the lower tail counts. Percentiles 0 and 100 need one value. `None` outside 0
/// to 100.
pub fn samples_needed(p: f64) -> Option<u64> {
    if !(0.0..=100.0).contains(&p) {
        return None;
    }
    let tail = p.min(100.0 - p) / 100.0;
    if tail == 0.0 {
        return Some(1);
    }
    // Probability of at most one value in the tail of a sample of n; decreases with n.
    let miss = |n: u64| {
        let rest = 1.0 - tail;
        ((n - 1) as f64 * rest.ln()).exp() * (rest + n as f64 * tail)
    };
    let mut high = 2_u64;
    while miss(high) > TAIL_MISS_MAX && high < u64::MAX / 4 {
        high *= 2;
    }
    let mut low = high / 2;
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if miss(middle) > TAIL_MISS_MAX {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(high)
}

/// The arithmetic mean; `None` if empty.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Population standard deviation (`ddof=0`).
fn deviation(values: &[f64], mean: f64) -> f64 {
    (values
        .iter()
        .map(|value| (value - mean).powi(2))
        .sum::<f64>()
        / values.len() as f64)
        .sqrt()
}

/// The middle value, or the mean of the two in the middle.
fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The `p`-th percentile by linear interpolation between order statistics: NumPy's default method,
/// type 7 of Hyndman and Fan.
pub fn percentile(sorted: &[f64], p: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = last as f64 * p / 100.0;
    let below = (position.floor() as usize).min(last);
    let above = (below + 1).min(last);
    let (low, high, fraction) = (sorted[below], sorted[above], position - below as f64);
    // Interpolates from the nearer neighbour, as NumPy does, so that the result never exceeds it.
    Some(if fraction < 0.5 {
        low + (high - low) * fraction
    } else {
        high - (high - low) * (1.0 - fraction)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        let tolerance = 1e-12 * expected.abs().max(1.0);
        assert!(
            (found - expected).abs() <= tolerance,
            "found {found}, expected {expected}"
        );
    }

    /// Expected figures are numpy 2.4's `mean`, `median`, `std` and `percentile`.
    fn check(values: Vec<f64>, [mean, median, std]: [f64; 3], percentiles: &[(f64, f64)]) {
        let n = values.len();
        let requested: Vec<f64> = percentiles.iter().map(|(p, _)| *p).collect();
        let summary = Summary::new(values, &requested);
        assert_eq!(summary.n, n);
        near(summary.mean.unwrap(), mean);
        near(summary.median.unwrap(), median);
        near(summary.std.unwrap(), std);
        for (found, (p, expected)) in summary.percentiles.iter().zip(percentiles) {
            assert_eq!(found.p, *p);
            near(found.value.unwrap(), *expected);
        }
    }

    #[test]
    fn agrees_with_numpy() {
        check(
            vec![12.5, 3.25, 7.75, 100.1, 0.3, 55.5, 41.9, 8.8, 8.8, 19.0],
            [25.79, 10.65, 29.912_328_561_982_598],
            &[
                (0.0, 0.3),
                (1.0, 0.565_5),
                (25.0, 8.0125),
                (75.0, 36.175),
                (90.0, 59.959_999_999_999_99),
                (95.0, 80.029_999_999_999_94),
                (99.0, 96.086),
                (99.9, 99.698_600_000_000_06),
                (100.0, 100.1),
            ],
        );
        check(
            (1..=1000).map(|i| f64::from(i * i) * 0.1).collect(),
            [33_383.35, 25_050.050_000_000_003, 29_842.172_777_974_796],
            &[
                (50.0, 25_050.050_000_000_003),
                (99.0, 98_011.981),
                (99.9, 99_800.299_900_000_03),
            ],
        );
        check(
            vec![7.0, 5.0],
            [6.0, 6.0, 1.0],
            &[(1.0, 5.02), (50.0, 6.0), (99.0, 6.98)],
        );
        check(
            vec![42.0],
            [42.0, 42.0, 0.0],
            &[(0.0, 42.0), (50.0, 42.0), (99.0, 42.0)],
        );
    }

    /// A row of `fixtures/numpy/percentiles.json`.
    #[derive(serde::Deserialize)]
    struct Row {
        values: Vec<f64>,
        mean: f64,
        median: f64,
        std: f64,
        standard_error: Option<f64>,
        percentiles: Vec<(f64, f64)>,
    }

    #[test]
    fn agrees_with_numpy_on_samples_of_every_size() {
        let rows: Vec<Row> =
            serde_json::from_str(include_str!("../../../fixtures/numpy/percentiles.json")).unwrap();
        for row in rows {
            let requested: Vec<f64> = row.percentiles.iter().map(|(p, _)| *p).collect();
            let summary = Summary::new(row.values.clone(), &requested);
            let sorted = summary.percentiles.is_sorted_by(|a, b| a.value <= b.value);
            assert!(sorted, "percentiles never fall: {summary:?}");
            assert_eq!(
                summary.standard_error.is_some(),
                row.standard_error.is_some()
            );
            for (found, expected) in summary.standard_error.iter().zip(row.standard_error) {
                near(*found, expected);
            }
            for found in &summary.percentiles {
                let (value, low, high) = (found.value.unwrap(), found.low, found.high);
                assert!(
                    low.is_none_or(|low| low <= value) && high.is_none_or(|high| high >= value),
                    "{found:?}"
                );
            }
            check(
                row.values,
                [row.mean, row.median, row.std],
                &row.percentiles,
            );
        }
    }

    #[test]
    fn no_data_is_not_zero() {
        let summary = Summary::new(vec![], &[99.0]);
        assert_eq!(
            (summary.n, summary.mean, summary.median, summary.std),
            (0, None, None, None)
        );
        assert_eq!((summary.min, summary.max), (None, None));
        assert_eq!(
            summary.percentiles,
            [Percentile {
                p: 99.0,
                value: None,
                enough: false,
                needs: 662,
                low: None,
                high: None
            }]
        );
    }

    #[test]
    fn percentiles_need_a_minimum_sample_size() {
        for (p, needs) in [
            (50.0, 11),
            (25.0, 24),
            (90.0, 64),
            (95.0, 130),
            (99.0, 662),
            (99.9, 6636),
            (0.0, 1),
            (100.0, 1),
        ] {
            assert_eq!(samples_needed(p), Some(needs), "p{p}");
        }
        for p in [-1.0, 100.5, f64::NAN, f64::INFINITY] {
            assert_eq!(samples_needed(p), None, "p{p}");
        }
        assert!(samples_needed(99.999_999_999).is_some());
        let at = |n: usize| Summary::new(vec![1.0; n], &[99.0]).percentiles[0].enough;
        assert!(!at(661));
        assert!(at(662));
        assert!(
            Summary::new(vec![1.0], &[f64::NAN, 101.0])
                .percentiles
                .is_empty()
        );
    }

    #[test]
    fn percentile_labels_match_vllm() {
        for (p, label) in [
            (99.0, "99"),
            (99.9, "99.9"),
            (50.0, "50"),
            (0.5, "0.5"),
            (100.0, "100"),
        ] {
            let percentile = Percentile {
                p,
                value: None,
                enough: false,
                needs: 0,
                low: None,
                high: None,
            };
            assert_eq!(percentile.label(), label);
        }
    }
}
