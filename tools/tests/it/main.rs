//! Integration tests of `sobench-tools`.

#![allow(
    clippy::disallowed_methods,
    reason = "tests make servers, and wait for them"
)]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot continue fails; clippy exempts test functions, not their helpers"
)]

pub(crate) use sobench_testkit::support;

mod contracts;
mod limits_command;
mod limits_of_servers;
mod mask;
mod mask_command;
mod mask_worker;
mod proof;
mod ratchet;
mod registries;
mod served_limits;
mod shards;
