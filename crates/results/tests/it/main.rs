//! Integration tests of run records and comparisons.

#![allow(
    clippy::disallowed_methods,
    reason = "tests start servers and wait for them"
)]
#![allow(
    clippy::unwrap_used,
    reason = "a panic is a test failure; clippy exempts test functions, but not their helpers"
)]

mod acceptance;
mod accuracy_simulation;
mod cells;
mod gate;
mod pairs;
