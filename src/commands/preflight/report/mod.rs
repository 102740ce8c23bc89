//! Reports and JSON files of `sobench preflight`; `features` and `limits` have those of their flags.

pub mod features;
pub mod json;
pub mod limits;
pub(super) mod page;
mod reasoning;
mod tool_calls;
