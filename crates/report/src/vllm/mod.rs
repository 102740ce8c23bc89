//! The result in the layouts of vLLM's two tools, key for key, in their order and units.
//!
//! Sources, in vLLM 0.32 and 0.33: [`serve`] is `vllm bench serve` (`vllm/benchmarks/serve.py`),
//! [`structured`] the script (`benchmarks/benchmark_serving_structured_output.py`). Three rules
//! where their figures would mislead:
//!
//! - An unknown figure of the run is `null`; the tools write 0.
//! - A column has 0 for a request without an answer, as in the tools, whose `errors` explains it;
//!   it has `null` where an answer has no such figure.
//! - Verdicts are sobench's: [`structured`] describes them under the script's keys.

mod describe;
pub mod serve;
pub mod structured;

use crate::saved_result::{Column, Layout, MS_PER_S, SavedResult};
use crate::view::View;
use sobench_facts::Sample;

fn empty(view: View<'_>) -> SavedResult<'_> {
    SavedResult {
        view,
        layout: Layout::Vllm,
        members: serde_json::Map::new(),
    }
}

/// Requests that got an answer.
fn answered<'s, 'a>(samples: &'s [Sample<'a>]) -> impl Iterator<Item = &'s Sample<'a>> {
    samples.iter().filter(|sample| sample.outcome().is_answer())
}
