//! In-process measurement of decoding engines over a corpus: `sobench mask`. Knows engines and evaluators, no server.
//!
//! A corpus becomes entries, each with a constraint and instances; every entry and engine becomes one [`row::Row`], made in a
//! child process so that one bad schema costs its own row. What the rows add up to is [`crate::report::mask`]'s matter.

pub mod about;
pub mod row;
pub mod times;
