//! How many answers a server decodes at once.
//!
//! Steps of fewer answers take less time. A server that decodes fewer answers because it is held up
//! elsewhere, for example by compiling, has a better TPOT that is no merit. A server that decodes
//! fewer answers because each of them takes less time produces as many tokens per second.

use sobench_results::compare::requests::{RequestView, Requests};
use sobench_results::metrics::registry::latencies;

/// A difference below this factor can come from TPOT itself.
const FACTOR: f64 = 1.25;

/// The decoding of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decoding {
    /// Answers that are decoded at once, on average.
    pub answers: f64,
    pub tokens_per_s: f64,
}

impl Decoding {
    /// The decoding of a run. By Little's law ("A proof for the queuing formula L = λW", 1961), the
    /// answers that are decoded at once are the sum of their decoding times (E2EL less TTFT) over
    /// the duration. `None` without streamed answers or token counts.
    pub fn new(requests: &Requests, duration_s: f64, tokens_per_s: Option<f64>) -> Option<Self> {
        let decoding_ms = |request: RequestView<'_>| {
            let [ttft_ms, e2el_ms] =
                [&latencies::TTFT, &latencies::E2EL].map(|metric| request.in_distribution(metric));
            Some(e2el_ms? - ttft_ms?)
        };
        let sum_ms: f64 = requests.iter().filter_map(decoding_ms).sum();
        let found = Self {
            answers: sum_ms / 1000.0 / duration_s,
            tokens_per_s: tokens_per_s?,
        };
        (found.answers > 0.0 && found.answers.is_finite()).then_some(found)
    }

    /// The mean of several runs; `None` if one is unknown.
    pub fn mean(runs: impl Iterator<Item = Option<Self>>) -> Option<Self> {
        let runs: Vec<Self> = runs.collect::<Option<_>>()?;
        let mean = |value: fn(&Self) -> f64| {
            sobench_statistics::mean(&runs.iter().map(value).collect::<Vec<_>>())
        };
        Some(Self {
            answers: mean(|run| run.answers)?,
            tokens_per_s: mean(|run| run.tokens_per_s)?,
        })
    }

    /// Whether it decodes fewer answers at once and produces fewer tokens: its TPOT is that of
    /// another load.
    fn is_lighter_than(self, other: Self) -> bool {
        FACTOR * self.answers < other.answers && FACTOR * self.tokens_per_s < other.tokens_per_s
    }
}

/// The decoding of a contender over its repeats.
#[derive(Clone, Copy, Debug, Default)]
pub struct CellDecoding {
    /// With the constraint.
    pub constrained: Option<Decoding>,
    pub control: Option<Decoding>,
}

impl CellDecoding {
    /// The answers that are decoded at once with the constraint and without it, if the constraint
    /// holds the server up elsewhere. What the constraint adds to a token is then unknown.
    pub fn held_up(self) -> Option<[f64; 2]> {
        let (constrained, control) = (self.constrained?, self.control?);
        constrained
            .is_lighter_than(control)
            .then_some([constrained.answers, control.answers])
    }

    /// The answers that two contenders decode at once, if one of them is held up elsewhere.
    pub fn unequal(self, other: Self) -> Option<[f64; 2]> {
        let (one, other) = (self.constrained?, other.constrained?);
        (one.is_lighter_than(other) || other.is_lighter_than(one))
            .then_some([one.answers, other.answers])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_answers_at_once_are_lighter_only_with_fewer_tokens() {
        let decoding = |answers, tokens_per_s| Decoding {
            answers,
            tokens_per_s,
        };
        let busy = decoding(16.0, 1600.0);
        assert!(decoding(1.2, 28.0).is_lighter_than(busy));
        assert!(!busy.is_lighter_than(decoding(1.2, 28.0)));
        // Twice as fast at the same request rate.
        assert!(!decoding(8.0, 1600.0).is_lighter_than(busy));
        // Twice as slow at the same concurrency.
        assert!(!decoding(16.0, 800.0).is_lighter_than(busy));
        let mean = Decoding::mean([Some(busy), Some(decoding(8.0, 800.0))].into_iter());
        assert_eq!(mean, Some(decoding(12.0, 1200.0)));
        assert_eq!(Decoding::mean([Some(busy), None].into_iter()), None);
    }
}
