//! Groups of flags that several commands share, with the options that they are built into.

pub(crate) mod checks;
pub mod dataset;
pub mod embedded;
pub mod engine;
pub(crate) mod environment;
pub(crate) mod gate;
pub mod paths;
pub mod rendering;
pub(crate) mod shard;
pub(crate) mod values;
