//! The page and the JSON file of a preflight; `features` has those of a survey of JSON-Schema
//! features.

pub(super) mod features;
pub(super) mod json;
pub(super) mod page;
