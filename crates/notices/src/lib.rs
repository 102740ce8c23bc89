//! Typed notices about a run, and whether its server enforces constraints.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod breach;
pub mod enforcement;
pub mod notice;
