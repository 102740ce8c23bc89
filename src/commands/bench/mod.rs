//! `sobench bench`: one run from flags to report.

pub mod args;
pub mod matrix_args;
pub mod options;
pub mod run;
pub mod session;
