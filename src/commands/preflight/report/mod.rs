//! Reports and JSON files of `sobench preflight`; `features` has those of --features.

pub(super) mod features;
pub(super) mod json;
pub(super) mod page;
mod reasoning;
mod tool_calls;
