//! Types and parsers of flag values: file paths and values from a closed list.

pub mod paths;
pub mod values;
