//! Schedule: due times of requests from a seed, a rate and a distribution, and the end of sending.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::json_numbers::{NumberOrInf, number_or_inf, seconds};
use crate::shard::{Shard, Units};
use sobench_pycompat::random::NumpyRandom;

/// Requested rate.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema)]
#[schemars(with = "NumberOrInf")]
pub enum Rate {
    /// All requests are due immediately; only the concurrency cap limits them.
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

/// Serialised as in vLLM: a number, or the string `inf`.
impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        number_or_inf::serialize(&self.per_second(), serializer)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let rate = number_or_inf::deserialize(deserializer)?;
        Ok(if rate.is_infinite() {
            Self::Infinite
        } else {
            Self::PerSecond(rate)
        })
    }
}

/// Arrival rate over the run.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// Constant rate.
    Steady(Rate),
    /// A rate that rises with every request.
    Ramp(Ramp),
}

/// A rate that rises from the first request to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Ramp {
    pub strategy: RampStrategy,
    /// Requests per second at the first request; at least 1.
    pub start_rps: u32,
    /// Requests per second at the last request; at least `start_rps`.
    pub end_rps: u32,
}

/// How the rate rises with the request index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RampStrategy {
    /// The rate increases by a constant amount.
    Linear,
    /// The rate increases by a constant factor.
    Exponential,
}

/// A whole number of requests per second that a ramp reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateStep {
    pub rps: u32,
    /// Since the start of the run.
    pub at: Duration,
}

/// Schedule of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Due time of each case since the start; never decreasing.
    pub due: Vec<Duration>,
    pub until: Until,
    /// The shard whose cases are sent, each at its due time in the complete schedule. Always
    /// [`Shard::WHOLE`] if cases repeat.
    pub part: Shard,
    /// The sessions of the cases, if they have any. The turns of a session are due with its first
    /// one in `due`, and are sent when those before them have ended.
    pub units: Units,
}

/// When sending ends. Requests in flight may still finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// After the last case.
    LastCase,
    /// At this time since the start, or earlier, after the last case. A case that is due by then
    /// and still waits for a free slot counts as cancelled. Cases due at time 0 are sent as slots
    /// become free; those left over are not part of the run.
    Time(
        #[serde(with = "seconds")]
        #[schemars(with = "f64")]
        Duration,
    ),
    /// At this time since the start; until then cases repeat, each due as soon as a slot is free.
    Cycling(
        #[serde(with = "seconds")]
        #[schemars(with = "f64")]
        Duration,
    ),
}

impl RampStrategy {
    /// The name in flags and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Exponential => "exponential",
        }
    }
}

impl Schedule {
    /// A schedule that sends every case at its due time.
    pub fn new(due: Vec<Duration>) -> Self {
        Self {
            due,
            until: Until::LastCase,
            part: Shard::WHOLE,
            units: Units::default(),
        }
    }
}

impl Until {
    /// The time limit, if there is one.
    pub fn time(self) -> Option<Duration> {
        match self {
            Self::LastCase => None,
            Self::Time(at) | Self::Cycling(at) => Some(at),
        }
    }

    /// Whether a case that was not sent by the end counts as missing.
    pub fn counts_as_missing(self, due: Duration) -> bool {
        match self {
            Self::LastCase => true,
            Self::Time(at) => !due.is_zero() && due <= at,
            Self::Cycling(_) => false,
        }
    }
}

impl Pace {
    /// Number of requests due within `duration`; `None` if all are due immediately.
    pub fn requests_within(self, duration: Duration) -> Option<f64> {
        let mean_gap_s = match self {
            Self::Steady(Rate::Infinite) => return None,
            Self::Steady(Rate::PerSecond(rate)) => rate.recip(),
            Self::Ramp(ramp) => ramp.mean_gap_s(),
        };
        // Compensates for rounding just below a whole number.
        Some((duration.as_secs_f64() / mean_gap_s + 1e-9).floor())
    }

    /// The ramp, if the rate rises.
    pub fn ramp(self) -> Option<Ramp> {
        match self {
            Self::Steady(_) => None,
            Self::Ramp(ramp) => Some(ramp),
        }
    }

    /// The value of vLLM's `request_rate`: infinity for a ramp.
    pub fn steady_rate(self) -> Rate {
        match self {
            Self::Steady(rate) => rate,
            Self::Ramp(_) => Rate::Infinite,
        }
    }

    /// Requests per second when request `index` of `requests` is due.
    pub fn rate_at(self, index: usize, requests: usize) -> f64 {
        match self {
            Self::Steady(rate) => rate.per_second(),
            Self::Ramp(ramp) => ramp.rate_at(index, requests),
        }
    }
}

impl Ramp {
    /// Requests per second when request `index` of `requests` is due; `_get_current_request_rate`
    /// of `vllm bench serve`.
    pub fn rate_at(self, index: usize, requests: usize) -> f64 {
        let progress = index as f64 / requests.saturating_sub(1).max(1) as f64;
        let (start, end) = (f64::from(self.start_rps), f64::from(self.end_rps));
        match self.strategy {
            RampStrategy::Linear => start + (end - start) * progress,
            RampStrategy::Exponential => start * (end / start).powf(progress),
        }
    }

    /// The whole rates that the ramp reaches, and when: the first at the start, each later one when
    /// the first request of that rate is due. `due` holds the first of `requests` due times. Equals
    /// vLLM's `rps_change_events`.
    pub fn steps(self, requests: usize, due: &[Duration]) -> Vec<RateStep> {
        let mut reached = self.start_rps;
        let mut steps = vec![RateStep {
            rps: reached,
            at: Duration::ZERO,
        }];
        for (index, &at) in due.iter().enumerate() {
            let rps = self.rate_at(index, requests) as u32;
            steps.extend((reached + 1..=rps).map(|rps| RateStep { rps, at }));
            reached = reached.max(rps);
        }
        steps
    }

    /// Mean of 1 / rate over a ramp of many requests.
    fn mean_gap_s(self) -> f64 {
        let (start, end) = (f64::from(self.start_rps), f64::from(self.end_rps));
        match self.strategy {
            _ if self.start_rps == self.end_rps => start.recip(),
            RampStrategy::Linear => (end / start).ln() / (end - start),
            RampStrategy::Exponential => (start.recip() - end.recip()) / (end / start).ln(),
        }
    }
}

/// Due times of `requests` requests since the start of the run, in order.
///
/// As in `vllm bench serve`: every gap (the one before the first request too) is drawn from a gamma
/// distribution of shape `burstiness` and mean 1 / rate, from NumPy's legacy generator under the
/// same seed; infinite burstiness spaces evenly. At a steady rate the sums are rescaled so that the
/// last request is due at requests / rate, so that the offered load has the requested rate; those
/// of a ramp are not rescaled.
pub fn due_times(requests: usize, pace: Pace, burstiness: f64, seed: u64) -> Vec<Duration> {
    if pace == Pace::Steady(Rate::Infinite) {
        return vec![Duration::ZERO; requests];
    }
    let mut random = NumpyRandom::new(legacy_seed(seed));
    let mut due_s = 0.0;
    let sums: Vec<f64> = (0..requests)
        .map(|index| {
            let rate = pace.rate_at(index, requests);
            due_s += if burstiness.is_infinite() {
                1.0 / rate
            } else {
                random.gamma(burstiness, 1.0 / (rate * burstiness))
            };
            due_s
        })
        .collect();
    let scale = match pace {
        Pace::Steady(rate) if due_s > 0.0 => requests as f64 / rate.per_second() / due_s,
        _ => 1.0,
    };
    sums.into_iter()
        .map(|sum_s| Duration::from_secs_f64(sum_s * scale))
        .collect()
}

/// Due times of requests that were recorded at these times in seconds, in order: the first is due at
/// once, and the others are `speed` times as fast.
pub fn replayed(recorded_s: &[f64], speed: f64) -> Vec<Duration> {
    let first_s = recorded_s.first().copied().unwrap_or_default();
    recorded_s
        .iter()
        .map(|at_s| Duration::try_from_secs_f64((at_s - first_s) / speed).unwrap_or_default())
        .collect()
}

/// NumPy's legacy seeding takes 32 bits; longer seeds keep their low half.
fn legacy_seed(seed: u64) -> u32 {
    (seed & u64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests;
