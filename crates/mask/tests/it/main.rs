//! Integration tests of `sobench-mask`.

#![allow(
    clippy::disallowed_methods,
    reason = "tests make servers, and wait for them"
)]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot continue fails; clippy exempts test functions, not their helpers"
)]

mod mask;
