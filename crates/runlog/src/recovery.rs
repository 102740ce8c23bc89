//! Recovery of the server after abandoned requests (`--cancel-rate`): the same few requests, one at a
//! time, before the run and after it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use sobench_statistics::Summary;

/// A server is slower if the median latency after the run is above this multiple of the one before
/// it, and by more than [`SLOWER_BY_MS`]. A few requests alone vary by less.
pub const SLOWER_FACTOR: f64 = 1.5;

/// See [`SLOWER_FACTOR`]. It keeps the variation of a fast server from counting.
pub const SLOWER_BY_MS: f64 = 10.0;

/// Whether the server serves as before.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Recovery {
    pub state: RecoveryState,
    pub latency: SingleLatency,
    /// Number of answered requests on each side.
    pub answered_before: usize,
    pub answered_after: usize,
    /// Median latencies; `None` without an answer.
    pub before_ms: Option<f64>,
    pub after_ms: Option<f64>,
    /// Why a request after the run has no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The result of the requests after the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryState {
    /// Answered, and not slower than before.
    Recovered,
    /// Answered, and slower than before by [`SLOWER_FACTOR`] and [`SLOWER_BY_MS`].
    Slower,
    /// A request after the run has no answer.
    NoAnswer,
    /// Answered, and no request before the run was.
    NotComparable,
}

/// The measured latency of single requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SingleLatency {
    Ttft,
    /// In place of TTFT if answers are not streamed.
    E2el,
}

impl SingleLatency {
    /// The name in texts.
    pub fn label(self) -> &'static str {
        match self {
            Self::Ttft => "TTFT",
            Self::E2el => "E2EL",
        }
    }
}

impl Recovery {
    /// Compares latencies before the run with those after it. `error` is that of the request that
    /// ended the second series.
    pub fn new(
        latency: SingleLatency,
        before_ms: Vec<f64>,
        after_ms: Vec<f64>,
        error: Option<String>,
    ) -> Self {
        let (answered_before, answered_after) = (before_ms.len(), after_ms.len());
        let [before_ms, after_ms] =
            [before_ms, after_ms].map(|latencies| Summary::new(latencies, &[]).median);
        let state = match (before_ms, after_ms) {
            _ if error.is_some() => RecoveryState::NoAnswer,
            (_, None) => RecoveryState::NoAnswer,
            (None, Some(_)) => RecoveryState::NotComparable,
            (Some(before), Some(after))
                if after > before * SLOWER_FACTOR && after - before > SLOWER_BY_MS =>
            {
                RecoveryState::Slower
            }
            (Some(_), Some(_)) => RecoveryState::Recovered,
        };
        Self {
            state,
            latency,
            answered_before,
            answered_after,
            before_ms,
            after_ms,
            error,
        }
    }

    /// The result in a sentence. `abandoned` is the number of abandoned requests of the run.
    pub fn sentence(&self, abandoned: usize) -> String {
        let plural = if abandoned == 1 { "" } else { "s" };
        let start = format!("after {abandoned} abandoned request{plural} the server");
        let label = self.latency.label();
        match (self.state, self.before_ms, self.after_ms) {
            (RecoveryState::NoAnswer, _, _) => {
                let error = self.error.as_deref().unwrap_or("no request was sent");
                format!("{start} does not answer: {error}")
            }
            (_, Some(before), Some(after)) => {
                let verdict = if self.state == RecoveryState::Slower {
                    "answers more slowly"
                } else {
                    "answers"
                };
                format!(
                    "{start} {verdict}; {label} alone {before:.1} ms before, {after:.1} ms after"
                )
            }
            _ => format!("{start} answers; no single request was answered before the run"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recovery(before: &[f64], after: &[f64], error: Option<&str>) -> Recovery {
        Recovery::new(
            SingleLatency::Ttft,
            before.to_vec(),
            after.to_vec(),
            error.map(str::to_owned),
        )
    }

    #[test]
    fn slower_needs_the_factor_and_the_difference() {
        for (before, after, state) in [
            (11.2, 11.4, RecoveryState::Recovered),
            (1.0, 10.9, RecoveryState::Recovered),
            (1.0, 11.1, RecoveryState::Slower),
            (100.0, 149.0, RecoveryState::Recovered),
            (100.0, 151.0, RecoveryState::Slower),
            (100.0, 20.0, RecoveryState::Recovered),
        ] {
            let found = recovery(&[before; 3], &[after; 3], None);
            assert_eq!(found.state, state, "{before} {after}");
        }
    }

    #[test]
    fn sentences_name_both_latencies_or_the_error() {
        for (before, after, error, sentence) in [
            (
                &[11.0, 11.2, 40.0][..],
                &[11.4][..],
                None,
                "after 12 abandoned requests the server answers; TTFT alone 11.2 ms before, 11.4 ms after",
            ),
            (
                &[11.2],
                &[30.0],
                None,
                "after 12 abandoned requests the server answers more slowly; TTFT alone 11.2 ms before, 30.0 ms after",
            ),
            (
                &[11.2],
                &[11.0],
                Some("HTTP 500: dead"),
                "after 12 abandoned requests the server does not answer: HTTP 500: dead",
            ),
            (
                &[],
                &[11.0],
                None,
                "after 12 abandoned requests the server answers; no single request was answered before the run",
            ),
        ] {
            assert_eq!(recovery(before, after, error).sentence(12), sentence);
        }
    }
}
