//! Integration tests of the engines.

#![allow(
    clippy::disallowed_methods,
    reason = "tests start servers and wait for them"
)]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests may panic; clippy exempts only test functions"
)]

mod conversions;
mod engines;
#[path = "../../../grammar/tests/it/guidance.rs"]
mod guidance;
mod hostile;
