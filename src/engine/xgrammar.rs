//! The xgrammar engine.

use std::sync::Arc;

use super::{Engine, EngineError, EnginePolicy, Grammar, Vocabulary};
use crate::constraint::{Constraint, GrammarDialect};
use crate::error::{Error, Result as OurResult};

pub(super) struct Xgrammar;

impl Xgrammar {
    pub(super) fn new(_vocabulary: Arc<Vocabulary>, _policy: &EnginePolicy) -> OurResult<Self> {
        Err(Error::usage("decoding engine is not in this build yet: xgrammar"))
    }
}

impl Engine for Xgrammar {
    fn name(&self) -> &'static str {
        "xgrammar"
    }
    fn version(&self) -> &'static str {
        ""
    }
    fn settings(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
    fn compile(&self, _: &Constraint) -> Result<Arc<dyn Grammar>, EngineError> {
        Err(EngineError::Invalid { words: String::new() })
    }
    fn grammar_dialects(&self) -> &'static [GrammarDialect] {
        &[]
    }
}

/// Opens the original in C++ where it is built in.
pub(super) fn open_cpp(_vocabulary: Arc<Vocabulary>, _policy: &EnginePolicy) -> OurResult<Arc<dyn Engine>> {
    Err(Error::usage("decoding engine is not in this build: xgrammar-cpp").hint("build with --features engine-xgrammar-cpp"))
}
