//! llama.cpp's `llama-server`, with `--metrics`.
//!
//! Source: `tools/server/server-task.cpp` of llama.cpp, as in llama-cpp-python 0.3.36, and the
//! server's README. Deferred requests are those without a free slot. `kv_cache_usage_ratio` is of
//! versions before June 2025.

use super::{PATH, PageSpec, Series};
use sobench_core::server_sample::Quantity;

pub(super) const SPEC: PageSpec = PageSpec {
    name: "llama.cpp",
    label: "llama.cpp",
    prefix: "llamacpp:",
    path: PATH,
    port: None,
    kinds: &[],
    series: &[
        Series::new(Quantity::PromptTokens, "llamacpp:prompt_tokens_total"),
        Series::new(Quantity::GeneratedTokens, "llamacpp:tokens_predicted_total"),
        Series::new(Quantity::Drafts, "llamacpp:spec_decode_num_drafts_total"),
        Series::new(
            Quantity::DraftTokens,
            "llamacpp:spec_decode_num_draft_tokens_total",
        ),
        Series::new(
            Quantity::AcceptedTokens,
            "llamacpp:spec_decode_num_accepted_tokens_total",
        ),
        Series::new(Quantity::Running, "llamacpp:requests_processing"),
        Series::new(Quantity::Waiting, "llamacpp:requests_deferred"),
        Series::share(Quantity::CacheUsage, "llamacpp:kv_cache_usage_ratio"),
    ],
    accepted_by_position: Some("llamacpp:spec_decode_num_accepted_tokens_per_pos_total"),
};
