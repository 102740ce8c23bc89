//! What is asked: datasets, the tokenizers that count their lengths, the Hub that they may come
//! from, and the types of their flags. Knows no server and no clock.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod arguments;
pub mod dataset;
pub mod hub;
pub mod tokenizer;
