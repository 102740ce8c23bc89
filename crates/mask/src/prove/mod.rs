//! Proven errors of decoding engines: where a mask is too strict or too loose, each with a witness
//! that can be checked again. Knows engines and oracles, no server and no report.
//!
//! In reading order: [`finding`] says what a proof is, `judges` whether a text matches, `syntax`
//! what can follow a prefix at all (`json_prefix`, `sorted`), `along` proves along one text,
//! `prover` chooses the texts (`mutant`, `walks`), `difference`, `dead_end` and `consistency` prove
//! the rest; `explain` finds out by experiment whether an engine declares a departure (`respell`);
//! `shrink` makes a finding small (`simpler`, `plainer`), [`cluster`] gathers what is alike,
//! [`witness`] is one with all that is needed to check it.

mod along;
pub mod cluster;
mod consistency;
pub(super) mod contender;
pub mod count;
mod dead_end;
mod difference;
mod explain;
pub mod finding;
mod json_prefix;
mod judges;
mod mutant;
mod plainer;
pub(super) mod prover;
#[cfg(test)]
mod reference;
mod respell;
pub(super) mod shrink;
mod simpler;
pub(super) mod sorted;
mod syntax;
pub(super) mod walks;
pub mod witness;

#[cfg(test)]
mod tests;

pub use contender::{Duplicates, Proved};

/// What comes of asking an engine.
type EngineResult<T> = Result<T, sobench_engine::EngineError>;
