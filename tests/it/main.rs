//! The one integration-test binary: a module per promise.

mod cli;
mod contracts;
mod grammars;
mod hub;
mod server;
mod streams;
mod support;
mod tidy;
mod verdicts;
