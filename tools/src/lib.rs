//! The program sobench-tools: what measures engines in this process, and what finds the limits of a
//! server.
//!
//! [`mask`] measures masks and proves errors in them, [`limits`] sends constraints that grow, [`merge`]
//! merges rows of shards. The command line, the terminal and the preflight's targets are those of
//! [`sobench`].

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod cli;
pub mod contracts;
pub mod limits;
pub mod mask;
pub mod merge;
