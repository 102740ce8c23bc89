//! Report, charts and JSON file of `sobench preflight --limits`.

mod charts;
pub(crate) mod json;
pub(crate) mod page;
pub(crate) mod sentences;
#[cfg(test)]
mod testing;
