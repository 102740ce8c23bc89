//! The steady state of a closed loop: the part of a run at full concurrency, without ramp-up and
//! drain.
//!
//! The window and its keys follow vLLM's Rust `vllm-bench` (`steady_state.rs`), with two
//! differences: failed requests count as in flight until they end, because they occupy a slot; and
//! times are relative to the start of the run, not to the first sending.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use sobench_facts::Sample;
use sobench_plan::metrics::MetricsSettings;
use sobench_statistics::Summary;

const NS_PER_S: f64 = 1e9;

/// Minimum length of a representative window in seconds and as a share of the run, as in
/// `vllm-bench`.
const MIN_WINDOW_S: f64 = 10.0;
const MIN_WINDOW_SHARE: f64 = 0.1;

/// TPOT percentiles that `vllm-bench` always writes.
const TPOT_PERCENTILES: [f64; 2] = [90.0, 99.0];

/// The part of a run between the first and the last time at which enough requests were in flight.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Window {
    /// Seconds from the start of the run.
    pub start_s: f64,
    pub end_s: f64,
    pub duration_s: f64,
    /// The concurrency cap.
    pub target_concurrency: usize,
    /// The required share of the cap.
    pub threshold: f64,
    /// The required number of requests in flight, rounded up.
    pub threshold_abs: usize,
    /// Maximum number of requests in flight during the run.
    pub observed_peak: usize,
    pub requests_started_in_window: usize,
    pub requests_completed_in_window: usize,
    /// Number of sent requests of the run.
    pub requests_total: usize,
    /// The reason why the window may not be representative.
    pub warning: Option<String>,
}

/// The figures of the window. `None` without data or with an unknown count.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct SteadyState {
    pub window: Window,
    /// Answers that ended in the window, per second.
    pub request_throughput: Option<f64>,
    /// Input tokens of answered requests sent in the window, per second.
    pub input_throughput: Option<f64>,
    /// Output tokens that arrived in the window, per second. The tokens of an answer are spread
    /// evenly over its chunks.
    pub output_throughput: Option<f64>,
    pub total_token_throughput: Option<f64>,
    /// TTFT of answered requests sent in the window.
    pub ttft_ms: Summary,
    /// TPOT of answered requests sent in the window.
    pub tpot_ms: Summary,
}

/// The time in flight of one request, in nanoseconds.
struct Flight<'s, 'a> {
    sample: &'s Sample<'a>,
    sent_ns: u64,
    end_ns: u64,
}

impl SteadyState {
    /// Finds the window of a run of `duration_ns` in which at least `threshold` (a fraction) of
    /// `target` requests were in flight; `None` if there is none.
    pub fn new(
        samples: &[Sample<'_>],
        duration_ns: u64,
        options: &MetricsSettings,
        target: usize,
        threshold: f64,
    ) -> Option<Self> {
        // Not a list: a run can have a million requests.
        let flights = || {
            let sent = samples.iter();
            sent.filter_map(|sample| Flight::new(sample, duration_ns))
        };
        let threshold_abs = ((threshold * target as f64).ceil() as usize).max(1);
        let (start_ns, end_ns, observed_peak) = crossings(flights, threshold_abs)?;
        let within = |at: u64| (start_ns..end_ns).contains(&at);
        let duration_s = (end_ns - start_ns) as f64 / NS_PER_S;
        let answered = || flights().filter(|flight| flight.sample.outcome().is_answer());
        let started: Vec<&Sample<'_>> = answered()
            .filter(|flight| within(flight.sent_ns))
            .map(|flight| flight.sample)
            .collect();
        let completed = answered().filter(|flight| within(flight.end_ns)).count();
        let per_second = |count: f64| {
            if end_ns == start_ns {
                None
            } else {
                Some(count / duration_s)
            }
        };
        let input = super::throughput::sum(started.iter().map(|sample| sample.tokens().input));
        let input_throughput = input.and_then(|tokens| per_second(tokens as f64));
        let output_throughput =
            tokens_between(answered().map(|flight| flight.sample), within).and_then(per_second);
        let ttfts = started
            .iter()
            .filter_map(|sample| sample.latency(options).ttft_ms)
            .collect();
        let tpots = started
            .iter()
            .filter_map(|sample| sample.latency(options).tpot_ms)
            .collect();
        let window = Window {
            start_s: start_ns as f64 / NS_PER_S,
            end_s: end_ns as f64 / NS_PER_S,
            duration_s,
            target_concurrency: target,
            threshold,
            threshold_abs,
            observed_peak,
            requests_started_in_window: flights().filter(|flight| within(flight.sent_ns)).count(),
            requests_completed_in_window: flights().filter(|flight| within(flight.end_ns)).count(),
            requests_total: flights().count(),
            warning: warning(duration_s, duration_ns as f64 / NS_PER_S),
        };
        Some(Self {
            window,
            request_throughput: per_second(completed as f64),
            input_throughput,
            output_throughput,
            total_token_throughput: input_throughput
                .zip(output_throughput)
                .map(|(input, output)| input + output),
            ttft_ms: Summary::new(ttfts, &options.percentiles),
            tpot_ms: Summary::new(tpots, &tpot_percentiles(options)),
        })
    }

    /// The object that `vllm-bench` writes, with its keys and order.
    pub fn vllm_keys(&self) -> Value {
        let pairs: Vec<(f64, Option<f64>)> = self
            .ttft_ms
            .percentiles
            .iter()
            .map(|found| (found.p, found.value))
            .collect();
        let mut keys = json!({
            "window": self.window,
            "request_throughput": self.request_throughput,
            "input_throughput": self.input_throughput,
            "output_throughput": self.output_throughput,
            "total_token_throughput": self.total_token_throughput,
            "mean_ttft_ms": self.ttft_ms.mean,
            "median_ttft_ms": self.ttft_ms.median,
            "percentiles_ttft_ms": pairs,
            "mean_tpot_ms": self.tpot_ms.mean,
            "median_tpot_ms": self.tpot_ms.median,
        });
        for p in TPOT_PERCENTILES {
            keys[format!("p{p}_tpot_ms")] = json!(self.tpot_ms.at(p));
        }
        keys
    }
}

impl<'s, 'a> Flight<'s, 'a> {
    /// A request without an end was in flight until the end of the run.
    fn new(sample: &'s Sample<'a>, duration_ns: u64) -> Option<Self> {
        let timing = sample.request_times();
        let sent_ns = timing.sent_ns?;
        let end_ns = timing
            .end_ns
            .or(timing.last_content_ns)
            .unwrap_or(duration_ns);
        Some(Self {
            sample,
            sent_ns,
            end_ns: end_ns.max(sent_ns),
        })
    }
}

/// The first and the last time at which `threshold` requests were in flight, and the maximum. At
/// equal times, ends come before starts.
fn crossings<'s, 'a: 's, F: Iterator<Item = Flight<'s, 'a>>>(
    flights: impl Fn() -> F,
    threshold: usize,
) -> Option<(u64, u64, usize)> {
    let sorted = |mut times_ns: Vec<u64>| {
        times_ns.sort_unstable();
        times_ns
    };
    let starts = sorted(flights().map(|flight| flight.sent_ns).collect());
    // A request with zero duration is in flight for one nanosecond, so that it does not end before it
    // starts.
    let end_ns = |flight: Flight<'_, '_>| flight.end_ns.max(flight.sent_ns.saturating_add(1));
    let ends = sorted(flights().map(end_ns).collect());
    let (mut started, mut peak) = (0, 0);
    let (mut first, mut last) = (None, None);
    for (ended, end_ns) in ends.into_iter().enumerate() {
        while starts
            .get(started)
            .is_some_and(|start_ns| *start_ns < end_ns)
        {
            started += 1;
            peak = peak.max(started - ended);
            if started - ended == threshold {
                first = first.or(Some(starts[started - 1]));
            }
        }
        if started - ended == threshold {
            last = Some(end_ns);
        }
    }
    Some((first?, last?, peak))
}

/// Output tokens of chunks at times for which `within` is true; `None` if the tokens of an answer
/// are unknown.
fn tokens_between<'s, 'a: 's>(
    answers: impl Iterator<Item = &'s Sample<'a>>,
    within: impl Fn(u64) -> bool,
) -> Option<f64> {
    let mut tokens = 0.0;
    for answer in answers {
        let chunks = answer.chunks_ns();
        let inside = chunks.iter().filter(|&&at| within(at)).count();
        if inside > 0 {
            tokens += answer.tokens().output? as f64 * inside as f64 / chunks.len() as f64;
        }
    }
    Some(tokens)
}

fn warning(window_s: f64, run_s: f64) -> Option<String> {
    let enough_s = MIN_WINDOW_S.max(MIN_WINDOW_SHARE * run_s);
    let share = if run_s > 0.0 {
        100.0 * window_s / run_s
    } else {
        0.0
    };
    (window_s < enough_s).then(|| {
        format!("the steady-state window of {window_s:.1} s ({share:.1} % of the run) is shorter than {enough_s:.0} s and may not be representative")
    })
}

fn tpot_percentiles(options: &MetricsSettings) -> Vec<f64> {
    let mut percentiles = options.percentiles.clone();
    percentiles.extend(
        TPOT_PERCENTILES
            .iter()
            .filter(|percentile| !options.percentiles.contains(percentile)),
    );
    percentiles
}

#[cfg(test)]
mod tests;
