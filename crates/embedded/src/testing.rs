//! Helpers of the server's unit tests.

use std::sync::{Arc, OnceLock};

use super::constraint_fields::{GuidedFields, Rules};
use super::model::LanguageModel;
use super::stats::ServerStats;
use sobench_engine::vocabulary::shared;
use sobench_engine::{EngineError, Matcher, TokenId, TokenMask};

/// The rules of a server with default options.
pub(super) const RULES: Rules<'static> = Rules {
    engine: "guidance",
    any_whitespace: true,
    guided_fields: GuidedFields::Honour,
};

/// One model for all tests of this binary, since it takes long to build without optimisation.
pub(super) fn shared_model() -> Arc<LanguageModel> {
    static SHARED: OnceLock<Arc<LanguageModel>> = OnceLock::new();
    Arc::clone(SHARED.get_or_init(|| Arc::new(LanguageModel::new(shared()))))
}

/// A matcher for tests that need only its masks, which the function makes.
pub(super) struct MaskOnly<F>(pub(super) F);

impl<F: FnMut(&mut TokenMask) + Send> Matcher for MaskOnly<F> {
    fn mask(&mut self, mask: &mut TokenMask) -> Result<(), EngineError> {
        *mask = TokenMask::new(shared().len());
        (self.0)(mask);
        Ok(())
    }
    fn commit(&mut self, _: TokenId) -> Result<(), EngineError> {
        Ok(())
    }
    fn is_accepting(&mut self) -> Result<bool, EngineError> {
        Ok(false)
    }
    fn forced_tokens(&mut self) -> Vec<TokenId> {
        Vec::new()
    }
    fn rollback(&mut self, _: usize) -> Result<(), EngineError> {
        Ok(())
    }
    fn fork(&self) -> Box<dyn Matcher> {
        panic!("not used by these tests")
    }
}

/// Statistics without any requests.
pub(super) fn no_stats() -> ServerStats {
    ServerStats {
        engine: "guidance".into(),
        engine_version: "llguidance 0".into(),
        settings: vec![("forcing".into(), "true".into())],
        max_batch: 2,
        cache_hits: 3,
        cache_misses: 1,
        ..ServerStats::default()
    }
}
