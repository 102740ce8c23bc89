//! Child processes that take jobs and may be killed, and the process of a server: its memory and CPU
//! time, and its end if this program is killed.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod child;
pub mod exit_cause;
pub mod memory;
pub mod server;
pub mod watchdog;
