//! The nouns of sobench, which every layer names: what is asked, what came back, what it was worth;
//! errors, exit codes, limits of input, and the load of a run. Knows no server, no network and no
//! clock.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod answer;
pub mod case;
pub mod constraint;
pub mod dates;
pub mod error;
pub mod exit_codes;
pub mod input;
pub mod json_numbers;
pub mod load;
pub mod observation;
pub mod output_files;
pub mod output_format;
pub mod printable;
pub mod registry;
pub mod run_event;
pub mod schedule;
pub mod shard;
pub mod sound;
pub mod tokenizer_files;
pub mod verdict;
