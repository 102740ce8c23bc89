//! sobench: the measuring instrument for structured output from language models.
//!
//! The pipeline, in reading order:
//!
//! 1. [`commands`] turn flags into options; those of a run are [`record::Settings`].
//! 2. [`dataset`] turns them into [`case::Case`]s, each with the [`constraint::Constraint`] its answer must match.
//! 3. [`schedule`] decides when each case is due; [`backend`] encodes it for one kind of server.
//! 4. [`driver`] sends the cases and keeps one [`observation::Observation`] for each.
//! 5. [`runlog`] keeps the [`record::RunRecord`] and what happened, from which the rest can be done again. [`evaluate`] judges every
//!    observation into a [`verdict::Verdict`].
//! 6. [`metrics`] counts and times; [`report`] renders.
//!
//! [`compare`] compares runs, from their files. [`preflight`] tests whether a server enforces constraints, by the same driver and the
//! same evaluation. [`engine`] and [`server`] are the embedded server: real constrained-decoding libraries masking a synthetic model.
//! `ARCHITECTURE.md` has the map; `tests/it/tidy.rs` holds the modules to it.

pub mod answer;
pub mod arguments;
pub mod backend;
pub mod case;
pub mod cli;
pub mod commands;
pub mod compare;
pub mod constraint;
pub mod dataset;
pub mod dates;
pub mod driver;
pub mod enforcement;
pub mod engine;
pub mod error;
pub mod evaluate;
pub mod exit_codes;
pub mod grammar;
pub mod hub;
pub mod input;
pub mod json_numbers;
pub mod load;
pub mod mask;
pub mod metrics;
pub mod nan;
pub mod notice;
pub mod observation;
pub mod output_files;
pub mod output_format;
pub mod preflight;
pub mod printable;
pub mod random;
pub mod record;
mod registry;
pub mod render;
pub mod report;
pub mod run_event;
pub mod runlog;
pub mod schedule;
pub mod server;
pub mod shard;
pub mod shutdown;
pub mod sound;
pub mod statistics;
pub mod terminal;
pub mod tokenizer;
pub mod verdict;
