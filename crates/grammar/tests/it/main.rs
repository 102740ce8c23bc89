//! Integration tests of the grammars.

#![allow(
    clippy::disallowed_methods,
    reason = "tests start servers and wait for them"
)]
#![allow(
    clippy::unwrap_used,
    reason = "a failed precondition fails the test; clippy exempts test functions, not their helpers"
)]

mod grammars;
mod guidance;
mod shipped_suite;
