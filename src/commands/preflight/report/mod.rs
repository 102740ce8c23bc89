//! A preflight as text and as JSON. Of `preflight` it sees only its plain data; it asks nobody.

pub(super) mod features;
pub(super) mod json;
pub(super) mod text;
