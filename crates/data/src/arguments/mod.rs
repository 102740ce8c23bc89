//! Types and parsers of the values of flags: files that are read or written, and values from a
//! closed list.

pub mod paths;
pub mod values;
