//! Results of runs: the run record, the run log, samples, metrics and comparisons. Everything can
//! be computed again from the run log, without a server.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod compare;
pub mod metrics;
pub mod runlog;
