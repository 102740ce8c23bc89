//! SGLang, with `--enable-metrics`.
//!
//! Source: `python/sglang/srt/metrics/collector.py` of SGLang, commit 00ae9c15. Its page has no
//! counters of drafts, only the acceptance rate of the last interval.

use super::{PATH, PageSpec, Series};
use sobench_core::server_sample::Quantity;

pub(super) const SPEC: PageSpec = PageSpec {
    name: "sglang",
    label: "SGLang",
    prefix: "sglang:",
    path: PATH,
    port: None,
    kinds: &[],
    series: &[
        Series::seconds(Quantity::Ttft, "sglang:time_to_first_token_seconds"),
        Series::seconds(Quantity::QueueTime, "sglang:queue_time_seconds"),
        Series::seconds(
            Quantity::CompileTime,
            "sglang:grammar_compilation_time_seconds",
        ),
        Series::new(Quantity::PromptTokens, "sglang:prompt_tokens_total"),
        Series::new(Quantity::GeneratedTokens, "sglang:generation_tokens_total"),
        Series::new(Quantity::Preemptions, "sglang:num_retracted_requests_total"),
        Series::new(Quantity::Running, "sglang:num_running_reqs"),
        Series::new(Quantity::Waiting, "sglang:num_queue_reqs"),
        Series::new(Quantity::CompileQueue, "sglang:num_grammar_queue_reqs"),
        Series::share(Quantity::CacheUsage, "sglang:token_usage"),
        Series::share(Quantity::AcceptanceRate, "sglang:spec_accept_rate"),
    ],
    accepted_by_position: None,
};
