//! Integration tests of the verdicts.

#![allow(
    clippy::disallowed_methods,
    reason = "tests start servers and wait for them"
)]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests may panic; clippy exempts only test functions"
)]

mod hostile;
mod properties;
mod shipped_suite;
mod suite;
mod verdicts;
