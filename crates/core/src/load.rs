//! The load of a run: how much is sent, how fast, for how long, and how many errors are accepted.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::json_numbers::{number_or_inf, seconds, seconds_or_null};
use crate::schedule::{Pace, Until};

/// The load of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    pub pace: Pace,
    /// Shape of the gamma distribution of the gaps between requests; infinite for even spacing.
    #[serde(with = "number_or_inf")]
    pub burstiness: f64,
    /// The most requests in flight; `None` without a cap.
    pub max_concurrency: Option<usize>,
    pub warmups: usize,
    #[serde(rename = "request_timeout_s", with = "seconds")]
    pub request_timeout: Duration,
    /// The longest time without any byte of an answer; `None` for no such limit.
    #[serde(rename = "idle_timeout_s", with = "seconds_or_null")]
    pub idle_timeout: Option<Duration>,
    /// How long requests in flight may go on after the first Ctrl-C; zero cuts them off.
    #[serde(rename = "drain_timeout_s", with = "seconds")]
    pub drain_timeout: Duration,
    pub until: Until,
    pub error_limits: ErrorLimits,
    /// The share of the cap from which the run counts as steady, above 0 and up to 1.
    pub steady_state_threshold: f64,
    /// A schema that no server has seen is sent with every K-th constrained request; at least 2.
    pub cold_schema_every: Option<usize>,
    /// Small requests beside the run, per second; `None` for none.
    pub probe_request_rate: Option<f64>,
    /// Whether a client that limited the run makes it a failed one.
    pub strict_client: bool,
}

/// How many errors a run accepts before it stops; by default any number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorLimits {
    /// The largest share of errors among the requests that have ended, 0 to below 1; it counts from
    /// [`MIN_ENDED`] of them on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_error_rate: Option<f64>,
    /// So many requests in a row that end in an error stop the run; at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_consecutive_errors: Option<usize>,
}

/// A share of errors counts from so many ended requests on.
pub const MIN_ENDED: usize = 20;

impl ErrorLimits {
    /// When the run stops, one phrase per limit. `enough` names the requests that have to end
    /// before a share counts.
    pub fn phrases(&self, enough: &str) -> Vec<String> {
        let rate = self.max_error_rate.map(|share| {
            format!(
                "above a share of errors of {share}, once {enough} have ended (--max-error-rate)"
            )
        });
        let in_a_row = self
            .max_consecutive_errors
            .map(|most| format!("at {most} errors in a row (--max-consecutive-errors)"));
        rate.into_iter().chain(in_a_row).collect()
    }
}
