//! Integration tests of the preflight.

#![allow(
    clippy::disallowed_methods,
    reason = "tests make servers, and wait for them"
)]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails; clippy exempts test functions, not their helpers"
)]

mod preflight;
mod reasoning;
mod tool_calls;
