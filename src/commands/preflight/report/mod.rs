//! Reports and JSON files of `sobench preflight`; `features` has those of `--features`.

pub mod features;
pub mod json;
pub(super) mod page;
mod reasoning;
mod tool_calls;
mod wire;
