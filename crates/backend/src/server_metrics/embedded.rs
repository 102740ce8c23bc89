//! The server of `sobench serve`.
//!
//! Metrics with the same meaning as in vLLM have vLLM's name, the others the prefix `sobench:`
//! (`crates/embedded`).

use super::vllm::{
    ACCEPTED_BY_POSITION, ACCEPTED_TOKENS, DRAFT_TOKENS, DRAFTS, GENERATED_TOKENS, PREEMPTIONS,
    PROMPT_TOKENS, RUNNING, WAITING,
};
use super::{PATH, PageSpec, Series};
use sobench_core::server_sample::Quantity;

pub(super) const SPEC: PageSpec = PageSpec {
    name: "embedded",
    label: "sobench serve",
    prefix: "sobench:",
    path: PATH,
    port: None,
    kinds: &[],
    series: &[
        Series::seconds(Quantity::Ttft, "sobench:time_to_first_token_seconds"),
        Series::seconds(Quantity::QueueTime, "sobench:request_queue_time_seconds"),
        Series::seconds(
            Quantity::CompileTime,
            "sobench:grammar_compilation_time_seconds",
        ),
        Series::seconds(Quantity::CompileWait, "sobench:grammar_queue_time_seconds"),
        PROMPT_TOKENS,
        GENERATED_TOKENS,
        PREEMPTIONS,
        DRAFTS,
        DRAFT_TOKENS,
        ACCEPTED_TOKENS,
        RUNNING,
        WAITING,
        Series::new(Quantity::CompileQueue, "sobench:compiles_in_flight"),
    ],
    accepted_by_position: Some(ACCEPTED_BY_POSITION),
};
