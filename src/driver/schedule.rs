//! When each request is due. Pure: a seed, a rate and a shape in, instants out; no clock, no waiting.

use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::random::NumpyRandom;

/// Requests per second asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// All requests are due at once; the concurrency cap alone paces them.
    Infinite,
    /// A positive, finite number of requests per second.
    PerSecond(f64),
}

impl Rate {
    /// The rate as a number, infinity included.
    pub fn per_second(self) -> f64 {
        match self {
            Self::Infinite => f64::INFINITY,
            Self::PerSecond(rate) => rate,
        }
    }
}

/// As vLLM writes it: a number, or the string `inf`.
impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Infinite => serializer.serialize_str("inf"),
            Self::PerSecond(rate) => serializer.serialize_f64(*rate),
        }
    }
}

/// Due times of `requests` requests, counted from the begin of the run, in order.
///
/// As in `vllm bench serve`: every gap (the one before the first request too) is drawn from a gamma distribution of shape
/// `burstiness` and mean 1 / rate, from NumPy's legacy generator under the same seed; infinite burstiness spaces evenly; the
/// sums are rescaled so that the last request is due at requests / rate, which makes the asked rate the offered one.
pub fn due_times(requests: usize, rate: Rate, burstiness: f64, seed: u64) -> Vec<Duration> {
    let Rate::PerSecond(rate) = rate else {
        return vec![Duration::ZERO; requests];
    };
    let mut random = NumpyRandom::new(legacy_seed(seed));
    let mut due_s = 0.0;
    let sums: Vec<f64> = (0..requests)
        .map(|_| {
            due_s += if burstiness.is_infinite() { 1.0 / rate } else { random.gamma(burstiness, 1.0 / (rate * burstiness)) };
            due_s
        })
        .collect();
    let scale = if due_s > 0.0 { requests as f64 / rate / due_s } else { 1.0 };
    sums.into_iter().map(|sum_s| Duration::from_secs_f64(sum_s * scale)).collect()
}

/// NumPy's legacy seeding takes 32 bits; longer seeds keep their low half.
fn legacy_seed(seed: u64) -> u32 {
    (seed & u64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(requests: usize, rate: f64, burstiness: f64) -> Vec<f64> {
        due_times(requests, Rate::PerSecond(rate), burstiness, 0).iter().map(Duration::as_secs_f64).collect()
    }

    #[test]
    fn an_infinite_rate_is_due_at_once() {
        assert_eq!(due_times(3, Rate::Infinite, 1.0, 0), vec![Duration::ZERO; 3]);
        assert!(due_times(0, Rate::PerSecond(1.0), 1.0, 0).is_empty());
    }

    #[test]
    fn the_last_request_is_due_at_requests_over_rate() {
        for burstiness in [0.3, 1.0, 5.0, f64::INFINITY] {
            let due = seconds(200, 50.0, burstiness);
            assert!((due[199] - 4.0).abs() < 1e-6, "burstiness {burstiness}: {}", due[199]);
            assert!(due.windows(2).all(|pair| pair[0] <= pair[1]), "burstiness {burstiness}");
        }
    }

    #[test]
    fn infinite_burstiness_spaces_evenly() {
        assert_eq!(seconds(4, 2.0, f64::INFINITY), vec![0.5, 1.0, 1.5, 2.0]);
    }

    #[test]
    fn gaps_have_the_spread_of_their_shape() {
        for (burstiness, expected) in [(0.25, 2.0), (1.0, 1.0), (4.0, 0.5)] {
            let due = seconds(20_000, 1.0, burstiness);
            let gaps: Vec<f64> = std::iter::once(due[0]).chain(due.windows(2).map(|pair| pair[1] - pair[0])).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            let variation = variance.sqrt() / mean;
            assert!((variation / expected - 1.0).abs() < 0.05, "burstiness {burstiness}: {variation}");
        }
    }

    /// `np.random.seed(0)`, then the arithmetic of `vllm bench serve`'s `get_request` for five requests at 2 per second.
    #[test]
    fn the_same_seed_gives_the_schedule_of_vllm_bench_serve() {
        let due = seconds(5, 2.0, 1.0);
        let expected = [0.461_293_300_031, 1.189_237_769_060, 1.724_343_049_132, 2.180_609_223_782, 2.5];
        for (ours, theirs) in due.iter().zip(expected) {
            assert!((ours - theirs).abs() < 1e-8, "{due:?}");
        }
    }
}
