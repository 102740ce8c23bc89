//! Helpers of the server's unit tests.

use std::sync::{Arc, OnceLock};

use super::model::LanguageModel;
use super::stats::{AnswerCounts, SequenceCounts, ServerStats};
use sobench_engine::vocabulary::shared;

/// One model for all tests of this binary, since it takes long to build without optimisation.
pub(super) fn shared_model() -> Arc<LanguageModel> {
    static SHARED: OnceLock<Arc<LanguageModel>> = OnceLock::new();
    Arc::clone(SHARED.get_or_init(|| Arc::new(LanguageModel::new(shared()))))
}

/// Statistics without any requests.
pub(super) fn no_stats() -> ServerStats {
    ServerStats {
        engine: "guidance".into(),
        engine_version: "llguidance 0".into(),
        settings: vec![("forcing".into(), "true".into())],
        max_batch: 2,
        threads: 1,
        step_ms: 0.0,
        cache_hits: 3,
        cache_misses: 1,
        compiling: 0,
        running: 0,
        waiting: 0,
        prompt_tokens: 0,
        tokens: 0,
        steps: 0,
        largest_batch: 0,
        step_ns: None,
        masks: 0,
        mask_ns: None,
        stuck_masks: 0,
        ended: SequenceCounts::default(),
        answers: AnswerCounts::default(),
        unread_fields: Vec::new(),
        routes: Vec::new(),
        faults: Vec::new(),
    }
}
