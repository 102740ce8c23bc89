//! How chunks arrive: one by one, or several at once with pauses between.

use serde::Serialize;

use super::pooled::Pooled;
use sobench_facts::Sample;
use sobench_facts::latency::chunk_gaps_ms;
use sobench_plan::metrics::MetricsSettings;

/// A chunk that arrives this soon after the one before was sent together with it.
const TOGETHER_MS: f64 = 0.5;

/// Chunks are in bursts if at least this share arrives together with others, and the pauses between
/// bursts are at least this long.
const MIN_SHARE_PERCENT: f64 = 50.0;
const MIN_INTERVAL_MS: f64 = 10.0;

/// The gaps between chunks of streamed answers.
#[derive(Clone, Copy, Debug, PartialEq, schemars::JsonSchema, Serialize)]
pub struct Bursts {
    /// Gaps between chunks.
    pub gaps: u64,
    /// Gaps of less than half a millisecond.
    pub together: u64,
    pub together_percent: f64,
    /// The median of the other gaps; `None` if there are none.
    pub interval_ms: Option<f64>,
    /// Whether ITL describes the bursts and not the tokens.
    pub is_bursty: bool,
}

impl Bursts {
    /// The gaps of a run; `None` without any.
    pub fn new(samples: &[Sample<'_>], options: &MetricsSettings) -> Option<Self> {
        let (mut gaps, mut together, mut pauses) = (0, 0, Pooled::default());
        let answers = samples
            .iter()
            .filter(|sample| sample.outcome().is_answer() && sample.streamed(options));
        for sample in answers {
            let mut apart = Vec::new();
            for gap in chunk_gaps_ms(&sample.chunks_ns()) {
                gaps += 1;
                if gap < TOGETHER_MS {
                    together += 1;
                } else {
                    apart.push(gap);
                }
            }
            pauses.add(apart);
        }
        if gaps == 0 {
            return None;
        }
        let together_percent = 100.0 * together as f64 / gaps as f64;
        let interval_ms = pauses.summary(&[]).median;
        Some(Self {
            gaps,
            together,
            together_percent,
            interval_ms,
            is_bursty: together_percent >= MIN_SHARE_PERCENT
                && interval_ms.is_some_and(|interval| interval >= MIN_INTERVAL_MS),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_facts::testing::{TestRequest, test_request, with_samples};

    fn bursts(chunks: &[u64]) -> Option<Bursts> {
        let run = [TestRequest {
            chunks: chunks.to_vec(),
            ..test_request()
        }];
        with_samples(&run, |samples| {
            Bursts::new(samples, &MetricsSettings::default())
        })
    }

    #[test]
    fn bursts_have_a_share_and_an_interval() {
        let found = bursts(&[10, 10, 10, 510, 510, 510, 1010, 1010]).unwrap();
        assert_eq!((found.gaps, found.together), (7, 5));
        assert_eq!((found.interval_ms, found.is_bursty), (Some(500.0), true));
        // Token by token, with one long stall.
        assert!(!bursts(&[10, 20, 30, 40, 2000, 2010]).unwrap().is_bursty);
        // As fast as the network: there is no interval.
        assert!(!bursts(&[10, 10, 10, 10]).unwrap().is_bursty);
        assert_eq!(bursts(&[10]), None);
    }
}
