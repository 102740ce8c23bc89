//! Results of runs: metrics and comparisons. Everything is computed from the run log, without a
//! server.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod accept;
pub mod compare;
pub mod metrics;
pub mod to_explain;
