//! In-process measurement of constrained-decoding engines over a corpus: `sobench-tools mask`.
//!
//! A corpus is read into entries, each with a constraint and instances. Every entry under every
//! engine becomes one [`row::Row`]. Rows are measured in child processes, so that a crash costs one
//! row only.
//!
//! In reading order: [`plan`] holds the settings, `corpus` reads entries, `run` measures one
//! engine after another, `supervise` controls the child processes, [`worker`] is the child process,
//! `entry_measurer` measures one entry, `walk` one text, `draft_walk` its drafts, `row_builder`
//! assembles a row from the child's events, and `rows` stores it. [`prove`] searches for mask errors, `proof_jobs` runs its
//! jobs in the child, and [`proof_run`] controls the search.

pub mod args;
mod batch;
mod clock;
pub mod command;
mod commit;
mod corpus;
mod draft_walk;
pub mod drafts;
mod entry_measurer;
pub mod measure;
pub mod options;
mod oracle;
pub mod plan;
pub mod proof;
mod proof_jobs;
pub mod proof_report;
pub mod proof_run;
mod protocol;
pub mod prove;
pub mod record;
pub mod report;
pub mod row;
mod row_builder;
mod rows;
mod run;
mod spelling;
mod supervise;
#[cfg(test)]
mod testing;
pub mod times;
mod walk;
pub mod worker;

pub use plan::{CorpusSource, MaskPlan};
pub use rows::{MergedRows, Rows, is_rows_file, merge_rows};
pub use run::{MaskEvent, MaskRun, run};
pub use sobench_process::child::WorkerCommand;
