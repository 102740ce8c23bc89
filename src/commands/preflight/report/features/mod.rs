//! The page and the JSON file of a survey of JSON-Schema features.

pub(crate) mod json;
pub(crate) mod page;
#[cfg(test)]
mod testing;
