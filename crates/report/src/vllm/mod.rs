//! The saved result in the layouts of vLLM's two tools, key for key, in their order and units, so
//! that what reads their files reads these. Knows no file.
//!
//! Both were read in vLLM 0.32 and 0.33: [`serve`] is `vllm bench serve`
//! (`vllm/benchmarks/serve.py`), [`structured`] the script
//! (`benchmarks/benchmark_serving_structured_output.py`). Three rules where their figures would
//! mislead:
//!
//! - A figure over a run that is not known is `null`; the tools write 0.
//! - A column says 0 for a request without an answer, as theirs do, since its entry in `errors` says so beside it; it says `null` where
//!   an answer has no such figure.
//! - Verdicts are ours: [`structured`] says what they are under the script's keys.

mod describe;
pub mod serve;
pub mod structured;

use crate::saved_result::{Column, Layout, MS_PER_S, SavedResult};
use crate::view::View;
use sobench_results::metrics::Sample;

fn empty(view: View<'_>) -> SavedResult<'_> {
    SavedResult {
        view,
        layout: Layout::Vllm,
        members: serde_json::Map::new(),
    }
}

/// Requests that got an answer.
fn answered<'s, 'a>(samples: &'s [Sample<'a>]) -> impl Iterator<Item = &'s Sample<'a>> {
    samples.iter().filter(|it| it.outcome().is_answer())
}
