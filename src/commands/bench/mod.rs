//! `sobench bench`: one run, from flags to report.

pub mod args;
pub(crate) mod dry_run;
pub mod matrix_args;
pub mod options;
pub mod run;
pub mod session;
