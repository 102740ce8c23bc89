//! Metrics pages: any page is a sample that a run log can hold, or a fault; comments and empty lines
//! change nothing.
//!
//! Bytes: the page.

use sobench_backend::server_metrics::read_page;
use sobench_core::server_sample::ServerSample;

pub(crate) fn check(bytes: &[u8]) {
    let page = String::from_utf8_lossy(bytes);
    let named = ["x", "x{a=\"1\"}", "vllm:num_requests_running"].map(str::to_owned);
    let read = read_page(&page, "http://x/metrics", &named);
    let with_comments = format!("# HELP y z\n\n{page}\n\n# EOF\n");
    if !page.trim_start().starts_with('<') {
        assert_eq!(read_page(&with_comments, "http://x/metrics", &named), read);
    }
    let Ok((sample, _)) = read else { return };
    assert!(
        sample
            .values
            .values()
            .all(|value| value.is_finite() && *value >= 0.0)
    );
    assert!(
        sample
            .histograms
            .values()
            .all(|counts| counts.buckets.is_sorted_by(|one, other| one.0 < other.0))
    );
    let line = serde_json::to_string(&sample).expect("a sample is JSON");
    let again: ServerSample = serde_json::from_str(&line).expect("a sample is read back");
    assert_eq!(again, sample);
}
