//! `/metrics` in Prometheus' text format, version 0.0.4.
//!
//! Metrics with the same meaning as in vLLM have vLLM's name, those of the process the names of
//! Prometheus' client libraries. The others have the prefix `sobench:`.

use std::fmt::{Display, Write as _};

use super::stats::{DraftStats, ServerStats, buckets};
use sobench_statistics::durations::Durations;

/// Writes metrics of one model.
struct Page {
    text: String,
    /// The label of every metric except for those of the process.
    model: String,
}

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, label: Option<(&str, &str)>, value: impl Display) {
        let Self { text, model } = self;
        let label = label.map(|(name, value)| format!(",{name}=\"{value}\""));
        let label = label.unwrap_or_default();
        let _ = writeln!(text, "{name}{{model_name=\"{model}\"{label}}} {value}");
    }

    fn gauge(&mut self, name: &str, help: &str, value: usize) {
        self.head(name, "gauge", help);
        self.line(name, None, value);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, "counter", help);
        self.line(name, None, value);
    }

    fn by_label(&mut self, name: &str, help: &str, label: &str, values: &[(&str, u64)]) {
        self.head(name, "counter", help);
        for (value, count) in values {
            self.line(name, Some((label, value)), count);
        }
    }

    fn histogram(&mut self, name: &str, help: &str, times: &Durations) {
        self.head(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        for (bound, count) in buckets(times) {
            let bound = if bound.is_finite() {
                bound.to_string()
            } else {
                "+Inf".to_owned()
            };
            self.line(&bucket, Some(("le", &bound)), count);
        }
        self.line(&format!("{name}_sum"), None, times.sum_ns() as f64 / 1e9);
        self.line(&format!("{name}_count"), None, times.count());
    }

    /// A metric of the process, without labels.
    fn process(&mut self, name: &str, kind: &str, help: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.head(name, kind, help);
            let _ = writeln!(self.text, "{name} {value}");
        }
    }
}

/// The page.
pub(super) fn render(stats: &ServerStats, model: &str) -> String {
    let mut page = Page {
        text: String::new(),
        model: label_value(model),
    };
    add_requests(&mut page, stats);
    add_compiles(&mut page, stats);
    page.counter("sobench:masks_total", "Number of masks.", stats.masks);
    if stats.speculate > 0 {
        add_drafts(&mut page, &stats.drafts, stats.speculate);
    }
    let process = &stats.process;
    page.process(
        "process_resident_memory_bytes",
        "gauge",
        "Resident memory size in bytes.",
        process.resident_memory_bytes,
    );
    page.process(
        "process_cpu_seconds_total",
        "counter",
        "Total user and system CPU time spent in seconds.",
        process.cpu_s,
    );
    page.process(
        "process_start_time_seconds",
        "gauge",
        "Start time of the server since unix epoch in seconds.",
        Some(process.start_time_s),
    );
    page.text
}

fn add_requests(page: &mut Page, stats: &ServerStats) {
    page.gauge(
        "vllm:num_requests_running",
        "Number of sequences in the batch.",
        stats.running,
    );
    page.gauge(
        "vllm:num_requests_waiting",
        "Number of sequences in the queue.",
        stats.waiting,
    );
    page.counter(
        "vllm:prompt_tokens_total",
        "Number of prompt tokens of started answers.",
        stats.prompt_tokens,
    );
    page.counter(
        "vllm:generation_tokens_total",
        "Number of generated tokens.",
        stats.tokens,
    );
    page.by_label(
        "vllm:request_success_total",
        "Number of sequences that ended.",
        "finished_reason",
        &[("stop", stats.ended.stop), ("length", stats.ended.length)],
    );
    page.counter(
        "vllm:num_preemptions_total",
        "Number of preemptions.",
        stats.preemptions,
    );
    page.histogram(
        "sobench:time_to_first_token_seconds",
        "Time from the arrival of a request to its first token.",
        &stats.time_to_first_token,
    );
    page.histogram(
        "sobench:request_queue_time_seconds",
        "Time that a sequence waited for a place in the batch.",
        &stats.queue_time,
    );
}

fn add_compiles(page: &mut Page, stats: &ServerStats) {
    page.gauge(
        "sobench:compiles_in_flight",
        "Number of constraints that are being compiled or wait for it.",
        stats.compiling,
    );
    page.histogram(
        "sobench:grammar_compilation_time_seconds",
        "Time of the compile of a constraint, with its first mask.",
        &stats.compile_time,
    );
    page.histogram(
        "sobench:grammar_queue_time_seconds",
        "Time that a constraint waited for a compile thread.",
        &stats.compile_queue_time,
    );
}

/// The counters of speculative decoding, which vLLM has only if it is on.
fn add_drafts(page: &mut Page, drafts: &DraftStats, speculate: usize) {
    for (name, help, value) in [
        (
            "vllm:spec_decode_num_drafts_total",
            "Number of drafts.",
            drafts.drafts,
        ),
        (
            "vllm:spec_decode_num_draft_tokens_total",
            "Number of drafted tokens.",
            drafts.drafted,
        ),
        (
            "vllm:spec_decode_num_accepted_tokens_total",
            "Number of accepted tokens.",
            drafts.accepted,
        ),
    ] {
        page.counter(name, help, value);
    }
    let positions: Vec<String> = (0..speculate)
        .map(|position| position.to_string())
        .collect();
    let accepted = drafts
        .accepted_by_position
        .iter()
        .copied()
        .chain(std::iter::repeat(0));
    let values: Vec<(&str, u64)> = positions.iter().map(String::as_str).zip(accepted).collect();
    page.by_label(
        "vllm:spec_decode_num_accepted_tokens_per_pos_total",
        "Number of accepted tokens by their position in the draft.",
        "position",
        &values,
    );
}

fn label_value(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
