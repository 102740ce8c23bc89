//! The auto engine.

use std::sync::Arc;

use super::{Engine, EngineError, EnginePolicy, Grammar, Vocabulary};
use crate::constraint::{Constraint, GrammarDialect};
use crate::error::{Error, Result as OurResult};

pub(super) struct Auto;

impl Auto {
    pub(super) fn new(_vocabulary: Arc<Vocabulary>, _policy: &EnginePolicy) -> OurResult<Self> {
        Err(Error::usage("decoding engine is not in this build yet: auto"))
    }
}

impl Engine for Auto {
    fn name(&self) -> &'static str {
        "auto"
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
