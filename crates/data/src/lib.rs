//! Datasets, tokenizers, downloads from the Hugging Face Hub, and the types of their flags.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod arguments;
pub mod dataset;
pub mod hub;
pub mod recorded;
pub mod redact;
pub mod request_body;
pub mod tokenizer;
