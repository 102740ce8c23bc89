//! TensorRT-LLM's `trtllm-serve`, with `return_perf_metrics`.
//!
//! Source: `tensorrt_llm/metrics/collector.py` of TensorRT-LLM, as quoted in its tests and in those
//! of NVIDIA Dynamo; the gauges are those that llm-d's inference scheduler documents for
//! `trtllm-serve`. The page is at `/prometheus/metrics`; `/metrics` is JSON.

use super::{PageSpec, Series};
use crate::ServerKind;
use sobench_core::server_sample::Quantity;

pub(super) const SPEC: PageSpec = PageSpec {
    name: "trtllm-serve",
    label: "trtllm-serve",
    prefix: "trtllm_",
    path: "/prometheus/metrics",
    port: None,
    kinds: &[ServerKind::TrtllmServe],
    series: &[
        Series::seconds(Quantity::Ttft, "trtllm_time_to_first_token_seconds"),
        Series::seconds(Quantity::QueueTime, "trtllm_request_queue_time_seconds"),
        Series::new(Quantity::Running, "trtllm_num_requests_running"),
        Series::new(Quantity::Waiting, "trtllm_num_requests_waiting"),
        Series::share(Quantity::CacheUsage, "trtllm_kv_cache_utilization"),
    ],
    accepted_by_position: None,
};
