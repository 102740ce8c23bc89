//! Report, charts and JSON file of `sobench-tools limits`.

mod charts;
pub mod json;
pub(crate) mod page;
pub(crate) mod sentences;
#[cfg(test)]
mod testing;
