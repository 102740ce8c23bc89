//! The program sobench: the command line and the commands.
//!
//! A run passes through the crates in this order:
//!
//! 1. [`commands`] turn flags into options; those of a run are
//!    [`sobench_plan::record::Settings`].
//! 2. [`sobench_data::dataset`] loads [`sobench_core::case::Case`]s, each with the
//!    [`sobench_core::constraint::Constraint`] that its answer must match.
//! 3. [`sobench_core::schedule`] computes due times; [`sobench_backend`] encodes requests for one kind
//!    of server.
//! 4. [`sobench_client`] sends the requests and records an
//!    [`sobench_core::observation::Observation`] of each.
//! 5. [`sobench_runlog`] stores the run record and the events. [`sobench_judge`] turns each
//!    observation into a [`sobench_core::verdict::Verdict`].
//! 6. [`sobench_results::metrics`] computes metrics; [`sobench_report`] builds pages, which
//!    [`sobench_render`] writes.
//!
//! [`sobench_preflight`] tests whether a server enforces constraints. [`sobench_engine`] and
//! [`sobench_embedded`] are the embedded server: real constrained-decoding libraries that mask a
//! synthetic model. The package `sobench-tools` measures and tests these libraries in process.
//! `ARCHITECTURE.md` describes the crates.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod cli;
pub mod commands;
pub mod contracts;
pub mod terminal;
