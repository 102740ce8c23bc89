//! Groups of flags that several commands share, and the options that they determine.

pub(crate) mod checks;
pub mod embedded;
pub mod engine;
pub(crate) mod environment;
pub(crate) mod gate;
pub mod rendering;
pub(crate) mod shard;

pub use sobench_data::arguments::paths;
pub(crate) use sobench_data::arguments::values;
