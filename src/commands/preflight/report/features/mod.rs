//! A survey of JSON-Schema features as text and as JSON. Of `preflight` it sees only its plain data; it asks nobody.

pub(crate) mod json;
#[cfg(test)]
mod testing;
pub(crate) mod text;
