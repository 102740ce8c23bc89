//! Triton Inference Server with the backend TensorRT-LLM.
//!
//! Source: Triton's `docs/user_guide/metrics.md`, and the page quoted in the README of
//! `tensorrtllm_backend`. The page has its own port. Queue time is a pair of counters over all
//! models of a pipeline; the histogram of first responses exists only if it is enabled.

use super::{PATH, PageSpec, Series};
use crate::ServerKind;
use sobench_core::server_sample::Quantity;

pub(super) const SPEC: PageSpec = PageSpec {
    name: "triton",
    label: "Triton",
    prefix: "nv_",
    path: PATH,
    port: Some(8002),
    kinds: &[ServerKind::TensorrtLlm],
    series: &[
        Series::new(Quantity::Ttft, "nv_inference_first_response_histogram_ms"),
        Series::new(Quantity::QueueTime, "nv_inference_queue_duration_us")
            .scaled(0.001)
            .with_count("nv_inference_request_success"),
        Series::new(Quantity::Running, "nv_trt_llm_request_metrics")
            .with_label("request_type", "scheduled"),
        Series::new(Quantity::Waiting, "nv_trt_llm_request_metrics")
            .with_label("request_type", "waiting"),
        Series::share(Quantity::CacheUsage, "nv_trt_llm_kv_cache_block_metrics")
            .with_label("kv_cache_block_type", "fraction"),
    ],
    accepted_by_position: None,
};
