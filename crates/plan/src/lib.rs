//! Plans of datasets, settings, and the record of a run. No Hub, tokenizer or socket.

pub mod dataset;
pub mod metrics;
pub mod record;
