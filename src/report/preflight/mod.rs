//! A preflight as text and as JSON. Of `preflight` it sees only its plain data; it asks nobody.

pub mod features;
pub mod json;
pub mod text;
mod words;
