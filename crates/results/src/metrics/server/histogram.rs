//! Mean and percentiles of a histogram.

use serde::Serialize;

use sobench_core::server_sample::HistogramCounts;

/// The durations of a histogram in the run, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, schemars::JsonSchema, Serialize)]
pub struct HistogramSummary {
    pub count: f64,
    /// Exact.
    pub mean_ms: f64,
    /// Interpolated within their bucket; `None` without buckets, below the lowest bound, or above the
    /// highest one.
    pub p50_ms: Option<f64>,
    pub p90_ms: Option<f64>,
    pub p99_ms: Option<f64>,
}

impl HistogramSummary {
    /// `None` without a duration.
    pub(super) fn new(counts: &HistogramCounts) -> Option<Self> {
        (counts.count > 0.0).then(|| Self {
            count: counts.count,
            mean_ms: counts.sum / counts.count,
            p50_ms: quantile(counts, 0.5),
            p90_ms: quantile(counts, 0.9),
            p99_ms: quantile(counts, 0.99),
        })
    }
}

/// The quantile as Prometheus' `histogram_quantile` computes it: linear within its bucket. It is
/// unknown in the first bucket, which is from zero to 300 ms in vLLM's histogram of queue times.
fn quantile(counts: &HistogramCounts, share: f64) -> Option<f64> {
    let rank = share * counts.count;
    let place = counts
        .buckets
        .iter()
        .position(|(_, count)| *count >= rank)?;
    let (high, upto) = counts.buckets[place];
    let (low, before) = counts.buckets[place.checked_sub(1)?];
    let within = if upto > before {
        (rank - before) / (upto - before)
    } else {
        1.0
    };
    Some(low + (high - low) * within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_interpolated_and_unknown_outside_of_the_bounds() {
        let counts = HistogramCounts {
            count: 100.0,
            sum: 2500.0,
            buckets: vec![(10.0, 40.0), (20.0, 50.0), (40.0, 98.0)],
        };
        let found = HistogramSummary::new(&counts).unwrap();
        assert_eq!((found.mean_ms, found.p50_ms), (25.0, Some(20.0)));
        assert_eq!(found.p90_ms, Some(20.0 + 20.0 * 40.0 / 48.0));
        assert_eq!(found.p99_ms, None);
        let low = HistogramCounts {
            buckets: vec![(300.0, 100.0)],
            ..counts
        };
        assert_eq!(HistogramSummary::new(&low).unwrap().p50_ms, None);
        let bare = HistogramCounts {
            buckets: Vec::new(),
            ..counts
        };
        assert_eq!(HistogramSummary::new(&bare).unwrap().p50_ms, None);
        assert_eq!(HistogramSummary::new(&HistogramCounts::default()), None);
    }
}
