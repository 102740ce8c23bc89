//! vLLM.
//!
//! Source: `vllm/v1/metrics/loggers.py` and `vllm/v1/spec_decode/metrics.py` of vLLM 0.32.0. The
//! client library adds `_total` to the names of counters. `vllm:gpu_cache_usage_perc` is the name
//! before 0.10. The resident memory is that of the process that serves the page; the engine runs
//! in another process unless VLLM_ENABLE_V1_MULTIPROCESSING is 0.

use super::{PATH, PageSpec, Series};
use sobench_core::server_sample::Quantity;

pub(super) const SPEC: PageSpec = PageSpec {
    name: "vllm",
    label: "vLLM",
    prefix: "vllm:",
    path: PATH,
    port: None,
    kinds: &[],
    series: &[
        Series::seconds(Quantity::Ttft, "vllm:time_to_first_token_seconds"),
        Series::seconds(Quantity::QueueTime, "vllm:request_queue_time_seconds"),
        PROMPT_TOKENS,
        GENERATED_TOKENS,
        PREEMPTIONS,
        DRAFTS,
        DRAFT_TOKENS,
        ACCEPTED_TOKENS,
        RUNNING,
        WAITING,
        Series::new(Quantity::Deferred, "vllm:num_requests_waiting_by_reason")
            .with_label("reason", "deferred"),
        Series::share(Quantity::CacheUsage, "vllm:kv_cache_usage_perc"),
        Series::share(Quantity::CacheUsage, "vllm:gpu_cache_usage_perc"),
    ],
    accepted_by_position: Some(ACCEPTED_BY_POSITION),
};

pub(super) const PROMPT_TOKENS: Series =
    Series::new(Quantity::PromptTokens, "vllm:prompt_tokens_total");
pub(super) const GENERATED_TOKENS: Series =
    Series::new(Quantity::GeneratedTokens, "vllm:generation_tokens_total");
pub(super) const PREEMPTIONS: Series =
    Series::new(Quantity::Preemptions, "vllm:num_preemptions_total");
pub(super) const DRAFTS: Series =
    Series::new(Quantity::Drafts, "vllm:spec_decode_num_drafts_total");
pub(super) const DRAFT_TOKENS: Series = Series::new(
    Quantity::DraftTokens,
    "vllm:spec_decode_num_draft_tokens_total",
);
pub(super) const ACCEPTED_TOKENS: Series = Series::new(
    Quantity::AcceptedTokens,
    "vllm:spec_decode_num_accepted_tokens_total",
);
pub(super) const RUNNING: Series = Series::new(Quantity::Running, "vllm:num_requests_running");
pub(super) const WAITING: Series = Series::new(Quantity::Waiting, "vllm:num_requests_waiting");
pub(super) const ACCEPTED_BY_POSITION: &str = "vllm:spec_decode_num_accepted_tokens_per_pos_total";
