//! The times of a request.

/// The times of a request, with only the first and the last of its chunks; see
/// [`sobench_core::observation::Timing`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestTimes {
    pub due_ns: u64,
    pub ready_ns: Option<u64>,
    pub sent_ns: Option<u64>,
    pub first_content_ns: Option<u64>,
    pub last_content_ns: Option<u64>,
    pub first_reasoning_ns: Option<u64>,
    pub first_answer_ns: Option<u64>,
    pub first_arguments_ns: Option<u64>,
    pub end_ns: Option<u64>,
    /// Number of chunks with content.
    pub chunks: u64,
    pub streamed: bool,
}
