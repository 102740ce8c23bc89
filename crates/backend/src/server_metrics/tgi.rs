//! Hugging Face's text-generation-inference.
//!
//! Source: <https://huggingface.co/docs/text-generation-inference/reference/metrics>. It has no
//! histogram of the time to first token, and tokens are sums of histograms.

use super::{PATH, PageSpec, Series};
use sobench_core::server_sample::Quantity;

pub(super) const SPEC: PageSpec = PageSpec {
    name: "tgi",
    label: "text-generation-inference",
    prefix: "tgi_",
    path: PATH,
    port: None,
    kinds: &[],
    series: &[
        Series::seconds(Quantity::QueueTime, "tgi_request_queue_duration"),
        Series::new(Quantity::PromptTokens, "tgi_request_input_length_sum"),
        Series::new(
            Quantity::GeneratedTokens,
            "tgi_request_generated_tokens_sum",
        ),
        Series::new(Quantity::Running, "tgi_batch_current_size"),
        Series::new(Quantity::Waiting, "tgi_queue_size"),
    ],
    accepted_by_position: None,
};
