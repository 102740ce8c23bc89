//! Integration tests of the timed client.

#![allow(
    clippy::disallowed_methods,
    reason = "tests start servers and wait for them"
)]
#![allow(
    clippy::unwrap_used,
    reason = "test helpers may panic; clippy exempts only test functions"
)]

mod streams;
