//! Proven mask errors of constrained-decoding engines: masks that are too strict or too loose, each
//! with a witness that can be checked again.
//!
//! In reading order: [`finding`] defines proofs and findings; `oracles` judge texts (`tag_reader`
//! those of structural tags); `syntax` computes the tokens that may follow a prefix (`json_prefix`,
//! `sorted_vocabulary`); `mask_checks` checks every mask along one text; `prover` selects the texts
//! (`mutant`, `mask_walk`); `difference`, `dead_end`, `consistency` and `rollback` prove the other errors;
//! `explain` tests whether a declared departure explains a finding;
//! `shrink` minimises findings by [`sobench_reduce`]; [`cluster`] groups similar findings; [`witness`] stores and rechecks one finding.

pub mod cluster;
mod consistency;
mod dead_end;
pub mod decision_count;
mod difference;
pub(super) mod engine_session;
mod explain;
pub mod finding;
mod json_prefix;
mod mask_checks;
pub(super) mod mask_walk;
mod mutant;
mod oracles;
pub(super) mod prover;
#[cfg(test)]
mod reference_tests;
mod rollback;
pub(super) mod shrink;
pub(super) mod sorted_vocabulary;
mod syntax;
mod tag_reader;
pub mod witness;

#[cfg(test)]
mod tests;

pub use engine_session::{Duplicates, Proved};

use super::commit::EngineResult;
