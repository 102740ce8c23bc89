//! The result of vLLM's structured-output script: indented JSON with every answer in it.
//!
//! `correct_rate(%)` and `correctness` are sobench's: valid answers of constrained requests. The
//! script's own figure, which never looks at the constraint and counts requests without one, is
//! `vllm_correct_rate(%)` in sobench's layout. `ttft_description` and `tpot_description` are over
//! answers; the script counts failed requests as 0.

use super::describe::describe;
use super::{Column, MS_PER_S, SavedResult, answered, empty};
use crate::json;
use crate::view::View;
use sobench_facts::latency::RequestLatency;
use sobench_results::metrics::registry::{rates, totals};

/// The file of a run, always with every request.
pub fn document(view: View<'_>) -> SavedResult<'_> {
    let mut document = empty(view);
    let (report, record, metrics) = (view.report, &view.report.record, &view.report.metrics);
    let settings = &record.settings;
    let number = |metric| metrics.values.number(metric);
    let count = |metric| metrics.values.known_count(metric);
    document.columns(&[Column::Outputs]);
    document.put("backend", settings.backend);
    document.put("model_id", &record.server.model_id);
    document.put("tokenizer_id", &record.tokenizer_id);
    document.put("num_prompts", report.requests);
    document
        .members
        .extend(json::members_of(&json::RateKeys::new(record)));
    document.put("correct_rate(%)", number(&rates::CORRECT_RATE));
    document.put("duration", metrics.duration_ns as f64 / 1e9);
    document.put("completed", count(&totals::COMPLETED));
    document.put("total_input_tokens", count(&totals::INPUT_TOKENS));
    document.put("total_output_tokens", count(&totals::OUTPUT_TOKENS));
    document.put("request_throughput", number(&totals::REQUEST_THROUGHPUT));
    document.put("output_throughput", number(&totals::OUTPUT_THROUGHPUT));
    document.put(
        "total_token_throughput",
        number(&totals::TOTAL_TOKEN_THROUGHPUT),
    );
    let described = |of: fn(&RequestLatency) -> Option<f64>| {
        let values = answered(view.samples)
            .filter_map(|sample| of(&sample.latency(&metrics.options)).map(|ms| ms / MS_PER_S));
        describe(values.collect())
    };
    document.put("ttft_description", described(|latency| latency.ttft_ms));
    document.put("tpot_description", described(|latency| latency.tpot_ms));
    document.columns(&[
        Column::InputLens,
        Column::OutputLens,
        Column::Ttfts,
        Column::Itls,
        Column::Errors,
    ]);
    document.latencies();
    document
}
