//! Groups of flags that several commands share, and the options that they determine.

pub mod checks;
pub mod embedded;
pub mod engine;
pub mod environment;
pub(crate) mod gate;
pub mod rendering;
pub mod shard;

pub use sobench_data::arguments::paths;
pub use sobench_data::arguments::values;
