//! What a run found out beside its figures, as data: whether the server enforces constraints, and
//! notices for the reader.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod enforcement;
pub mod notice;
