//! What is known of runs: the run record, the run log, the samples made of it, the metrics, and
//! comparisons. Pure: all of it can be done again from the file, without a server.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod compare;
pub mod metrics;
pub mod record;
pub mod runlog;
