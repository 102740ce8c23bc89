//! Statistics based on the crate `statrs`: quantiles of distributions, confidence intervals,
//! summaries of samples, the bootstrap, and histograms of durations.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod association;
pub mod bootstrap;
mod clusters;
pub mod contrast;
pub mod distributions;
pub mod durations;
mod growth;
mod level_shift;
mod linear_fit;
mod order_interval;
pub mod paired;
mod rate;
pub mod sequential;
mod summary;
mod trend;
mod two_modes;

pub use self::association::{RankCorrelation, ShareTrend};
pub use self::clusters::effective_size;
pub use self::growth::Growth;
pub use self::level_shift::LevelShift;
pub use self::linear_fit::LinearFit;
pub use self::order_interval::order_interval;
pub use self::rate::{Rate, Wilson};
pub use self::summary::{Percentile, Summary, mean, percentile, samples_needed};
pub use self::trend::Trend;
pub use self::two_modes::TwoModes;

/// The 97.5 % point of the normal distribution, for two-sided 95 % intervals.
pub const Z_95: f64 = 1.959_963_984_540_054;
