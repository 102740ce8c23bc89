//! Reports and JSON files of `sobench preflight`; `features` and `limits` have those of their flags.

pub(super) mod features;
pub(super) mod json;
pub(super) mod limits;
pub(super) mod page;
mod reasoning;
mod tool_calls;
