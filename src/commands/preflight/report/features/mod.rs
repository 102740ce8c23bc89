//! Report and JSON file of `sobench preflight --features`.

pub mod json;
pub(crate) mod page;
#[cfg(test)]
mod testing;
