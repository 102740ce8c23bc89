//! Data types that all layers share: cases, constraints, answers, observations, verdicts, errors,
//! exit codes, input limits and the load of a run.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod answer;
mod answer_departures;
pub mod audio;
pub mod case;
pub mod channel_timing;
pub mod constraint;
pub mod contract;
pub mod dates;
pub mod departure;
pub mod distinct;
pub mod error;
pub mod error_message;
pub mod exit_codes;
pub mod frames;
pub mod input;
pub mod json_numbers;
pub mod load;
pub mod nonce;
pub mod observation;
pub mod ordered_work;
pub mod output_files;
pub mod output_format;
pub mod printable;
pub mod proc_status;
pub mod progress;
pub mod recorded;
pub mod registry;
pub mod run_event;
pub mod schedule;
pub mod schema_keywords;
pub mod schema_part;
pub mod scorer;
pub mod secrets;
pub mod server_sample;
pub mod shard;
pub mod speed;
pub mod tokenizer_files;
pub mod tools;
pub mod verdict;
