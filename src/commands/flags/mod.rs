//! Groups of flags that several commands share, with the options that they are built into.

pub mod dataset;
pub mod embedded;
pub mod engine;
pub(crate) mod environment;
pub mod rendering;
