//! Load settings of a run: request rate, concurrency, duration, timeouts and error limits.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::json_numbers::{NumberOrInf, number_or_inf, seconds, seconds_or_null};
use crate::schedule::{Pace, Until};

/// Load settings of a run.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Load {
    pub pace: Pace,
    /// Sends the requests at the times at which they were recorded, this many times as fast, in
    /// place of the pace; `None` to follow the pace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_speed: Option<f64>,
    /// Shape of the gamma distribution of the gaps between requests; infinite for evenly spaced
    /// requests.
    #[serde(with = "number_or_inf")]
    #[schemars(with = "NumberOrInf")]
    pub burstiness: f64,
    /// Maximum number of requests in flight; `None` for no limit.
    pub max_concurrency: Option<usize>,
    pub warmups: usize,
    #[serde(rename = "request_timeout_s", with = "seconds")]
    #[schemars(with = "f64")]
    pub request_timeout: Duration,
    /// Maximum time without a byte of the response; `None` for no limit.
    #[serde(rename = "idle_timeout_s", with = "seconds_or_null")]
    #[schemars(with = "Option<f64>")]
    pub idle_timeout: Option<Duration>,
    /// Maximum time that requests in flight may continue after the first Ctrl-C; zero aborts them.
    #[serde(rename = "drain_timeout_s", with = "seconds")]
    #[schemars(with = "f64")]
    pub drain_timeout: Duration,
    pub until: Until,
    pub error_limits: ErrorLimits,
    /// The fraction of the concurrency cap from which the run counts as steady, above 0 and up to
    /// 1.
    pub steady_state_threshold: f64,
    /// Sends a never-seen JSON Schema with every K-th constrained request; at least 2.
    pub cold_schema_every: Option<usize>,
    /// Rate of small probe requests during the run, per second; `None` for none.
    pub probe_request_rate: Option<f64>,
    /// Whether the run fails if a figure is not trusted because of the client.
    pub strict_client: bool,
    /// The requests whose connection the client closes; `None` for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancellation: Option<Cancellation>,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pace {
            _ if self.replay_speed.is_some() => {
                let speed = self.replay_speed.unwrap_or_default();
                write!(f, "at the recorded times, speed {speed}")?;
            }
            Pace::Steady(rate) if rate.per_second().is_infinite() => write!(f, "all at once")?,
            Pace::Steady(rate) => write!(f, "{} req/s", rate.per_second())?,
            Pace::Ramp(ramp) => write!(f, "{} to {} req/s", ramp.start_rps, ramp.end_rps)?,
        }
        match self.max_concurrency {
            Some(cap) => write!(f, ", at most {cap} in flight"),
            None => Ok(()),
        }
    }
}

/// The requests that the client abandons.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Cancellation {
    /// Their share of all requests, above 0 and up to 1.
    pub rate: f64,
    pub after: CancelAfter,
}

/// When the client closes the connection of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelAfter {
    /// After the first chunk with content.
    #[default]
    FirstToken,
    /// This number of seconds after it was sent.
    Seconds(f64),
}

impl CancelAfter {
    /// Name of [`CancelAfter::FirstToken`] in flags and tables.
    const FIRST_TOKEN: &'static str = "first-token";

    /// Parses `first-token` or a number of seconds; `None` for other texts.
    pub fn parse(text: &str) -> Option<Self> {
        if text == Self::FIRST_TOKEN {
            return Some(Self::FirstToken);
        }
        let seconds: f64 = text.parse().ok()?;
        (seconds.is_finite() && seconds > 0.0).then_some(Self::Seconds(seconds))
    }

    /// The time limit; `None` for the first token.
    pub fn time(self) -> Option<Duration> {
        match self {
            Self::FirstToken => None,
            Self::Seconds(seconds) => {
                Some(Duration::try_from_secs_f64(seconds).unwrap_or_default())
            }
        }
    }
}

impl fmt::Display for CancelAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FirstToken => f.write_str(Self::FIRST_TOKEN),
            Self::Seconds(seconds) => write!(f, "{seconds}"),
        }
    }
}

impl fmt::Display for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} after {}", self.rate, self.after)
    }
}

/// Error limits that stop a run; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ErrorLimits {
    /// Maximum fraction of errors among finished requests, from 0 to below 1; applies from
    /// [`MIN_FINISHED_REQUESTS`] finished requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_error_rate: Option<f64>,
    /// This many consecutive errors stop the run; at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_consecutive_errors: Option<usize>,
}

/// Minimum number of finished requests for an error rate.
pub const MIN_FINISHED_REQUESTS: usize = 20;

impl ErrorLimits {
    /// One phrase for each limit. `enough` describes the minimum number of finished requests for an
    /// error rate.
    pub fn phrases(&self, enough: &str) -> Vec<String> {
        let rate = self.max_error_rate.map(|share| {
            format!(
                "above an error rate of {share}, once {enough} have finished (--max-error-rate)"
            )
        });
        let in_a_row = self
            .max_consecutive_errors
            .map(|most| format!("at {most} consecutive errors (--max-consecutive-errors)"));
        rate.into_iter().chain(in_a_row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_of_cancellation_are_read_as_printed() {
        for (text, after) in [
            ("first-token", CancelAfter::FirstToken),
            ("0.25", CancelAfter::Seconds(0.25)),
            ("2", CancelAfter::Seconds(2.0)),
        ] {
            assert_eq!(CancelAfter::parse(text), Some(after));
            assert_eq!(after.to_string(), text);
        }
        for text in ["", "first", "0", "-1", "NaN", "inf", "1s"] {
            assert_eq!(CancelAfter::parse(text), None, "{text}");
        }
        let json = serde_json::to_string(&CancelAfter::Seconds(0.5)).unwrap();
        assert_eq!(json, r#"{"seconds":0.5}"#);
    }
}
