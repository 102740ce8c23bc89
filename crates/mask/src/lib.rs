//! In-process measurement of decoding engines over a corpus: `sobench mask`. Knows engines and
//! evaluators, no server.
//!
//! A corpus becomes entries, each with a constraint and instances; every entry and engine becomes
//! one [`row::Row`], made in a child process so that one bad schema costs its own row. What the
//! rows add up to is [`crate::commands::mask::report`]'s matter.
//!
//! In reading order: [`plan`] says what is wanted, `corpus` reads entries, [`run`] takes one engine
//! after another, `supervise` watches over its children, [`worker`] is such a child, `job` measures
//! an entry in it, `walk` one text; `assemble` makes a row of what the child says, `rows` keeps it.
//! [`prove`] is another thing that a child can do with an entry, `proving` its jobs, and
//! [`proof_run`] the order of things there.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod assemble;
mod batch;
mod clock;
mod corpus;
mod job;
mod memory;
mod oracle;
pub mod plan;
pub mod proof_run;
mod protocol;
pub mod prove;
mod proving;
pub mod record;
pub mod row;
mod rows;
mod run;
mod spelling;
mod supervise;
#[cfg(test)]
mod testing;
pub mod times;
mod walk;
pub mod worker;

pub use plan::{CorpusSource, MaskPlan, WorkerCommand};
pub use rows::{MergedRows, Rows, begins as is_rows_file, merge as merge_rows};
pub use run::{MaskEvent, MaskRun, run};
