//! The program sobench: the commands, and the parser of their flags.
//!
//! A run goes through the crates in this order:
//!
//! 1. [`commands`] turn flags into options; those of a run are [`sobench_results::record::Settings`].
//! 2. [`sobench_data::dataset`] turns them into [`sobench_core::case::Case`]s, each with the
//!    [`sobench_core::constraint::Constraint`] that its answer must match.
//! 3. [`sobench_core::schedule`] decides when each case is due; [`sobench_backend`] encodes it for one kind of server.
//! 4. [`sobench_client`] sends the cases and keeps one [`sobench_core::observation::Observation`] for each.
//! 5. [`sobench_results::runlog`] keeps the run record and what happened. [`sobench_judge`] turns every observation into a
//!    [`sobench_core::verdict::Verdict`].
//! 6. [`sobench_results::metrics`] counts and times; [`sobench_report`] makes pages of it, which [`sobench_render`] writes.
//!
//! [`sobench_preflight`] tests whether a server enforces constraints. [`sobench_engine`] and
//! [`sobench_embedded`] are the embedded server: real constrained-decoding libraries that mask a
//! synthetic model. [`sobench_mask`] measures and proves those libraries in process.
//! `ARCHITECTURE.md` has the map.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod cli;
pub mod commands;
pub mod terminal;
