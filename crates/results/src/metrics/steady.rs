//! The steady state of a closed loop: the part of a run in which as many requests were under way as
//! were allowed, without the filling up before and the draining after. Knows no schedule.
//!
//! The window and its keys are those of vLLM's Rust `vllm-bench` (`steady_state.rs`), with two
//! departures. Every request that was sent counts as under way until it ended, not only answered
//! ones: one that fails holds its slot as well. And instants count from the begin of the run, as
//! everywhere here, not from the first sending.

use serde::Serialize;
use serde_json::{Value, json};

use super::{MetricsOptions, Sample};
use sobench_statistics::Summary;

const NS_PER_S: f64 = 1e9;

/// A window shorter than this, or than this share of the run, may stand for nothing: `vllm-bench`'s
/// bounds.
const MIN_WINDOW_S: f64 = 10.0;
const MIN_WINDOW_SHARE: f64 = 0.1;

/// The percentiles of TPOT that `vllm-bench` writes whatever was asked for.
const TPOT_PERCENTILES: [f64; 2] = [90.0, 99.0];

/// The part of a run between the first and the last moment at which enough requests were under way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Window {
    /// Seconds from the begin of the run.
    pub start_s: f64,
    pub end_s: f64,
    pub duration_s: f64,
    /// The concurrency cap.
    pub target_concurrency: usize,
    /// The share of the cap that makes a run steady.
    pub threshold: f64,
    /// That share in requests, rounded up.
    pub threshold_abs: usize,
    /// Most requests under way at one instant of the run.
    pub observed_peak: usize,
    pub requests_started_in_window: usize,
    pub requests_completed_in_window: usize,
    /// Requests of the run that were sent.
    pub requests_total: usize,
    /// Why the window may not be representative.
    pub warning: Option<String>,
}

/// The figures of the window. `None` where there is no data or a count is not known.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SteadyState {
    pub window: Window,
    /// Answers that ended in the window, per second.
    pub request_throughput: Option<f64>,
    /// Input tokens of the answered requests that were sent in the window, per second.
    pub input_throughput: Option<f64>,
    /// Output tokens that came in the window, each answer's spread evenly over its chunks, per
    /// second.
    pub output_throughput: Option<f64>,
    pub total_token_throughput: Option<f64>,
    /// Over the answered requests that were sent in the window.
    pub ttft_ms: Summary,
    /// Over the same.
    pub tpot_ms: Summary,
}

/// One request's time under way, in nanoseconds.
struct Flight<'s, 'a> {
    sample: &'s Sample<'a>,
    sent_ns: u64,
    end_ns: u64,
}

impl SteadyState {
    /// Finds the window of a run of `duration_ns` in which at least `threshold` (a share of 1) of
    /// `target` requests were under way; `None` where it never came to that.
    pub fn of(
        samples: &[Sample<'_>],
        duration_ns: u64,
        options: &MetricsOptions,
        target: usize,
        threshold: f64,
    ) -> Option<Self> {
        let flights: Vec<Flight<'_, '_>> = samples
            .iter()
            .filter_map(|sample| Flight::of(sample, duration_ns))
            .collect();
        let threshold_abs = ((threshold * target as f64).ceil() as usize).max(1);
        let (start_ns, end_ns, observed_peak) = crossings(&flights, threshold_abs)?;
        let within = |at: u64| (start_ns..end_ns).contains(&at);
        let duration_s = (end_ns - start_ns) as f64 / NS_PER_S;
        let answered = || flights.iter().filter(|it| it.sample.outcome().is_answer());
        let started: Vec<&Sample<'_>> = answered()
            .filter(|it| within(it.sent_ns))
            .map(|it| it.sample)
            .collect();
        let completed = answered().filter(|it| within(it.end_ns)).count();
        let per_second = |count: f64| {
            if end_ns == start_ns {
                None
            } else {
                Some(count / duration_s)
            }
        };
        let input = super::throughput::sum(started.iter().map(|it| it.tokens().input));
        let input_throughput = input.and_then(|tokens| per_second(tokens as f64));
        let output_throughput =
            tokens_between(answered().map(|it| it.sample), within).and_then(per_second);
        let ttfts = started
            .iter()
            .filter_map(|it| it.latency(options).ttft_ms)
            .collect();
        let tpots = started
            .iter()
            .filter_map(|it| it.latency(options).tpot_ms)
            .collect();
        let window = Window {
            start_s: start_ns as f64 / NS_PER_S,
            end_s: end_ns as f64 / NS_PER_S,
            duration_s,
            target_concurrency: target,
            threshold,
            threshold_abs,
            observed_peak,
            requests_started_in_window: flights.iter().filter(|it| within(it.sent_ns)).count(),
            requests_completed_in_window: flights.iter().filter(|it| within(it.end_ns)).count(),
            requests_total: flights.len(),
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
            ttft_ms: Summary::of(ttfts, &options.percentiles),
            tpot_ms: Summary::of(tpots, &tpot_percentiles(options)),
        })
    }

    /// The object that `vllm-bench` writes: its keys, in its order.
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
    /// A request that never ended was under way until the run's end.
    fn of(sample: &'s Sample<'a>, duration_ns: u64) -> Option<Self> {
        let timing = sample.moments();
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

/// When `threshold` requests were first and last under way, and the most that ever were. At one
/// instant ends come before beginnings.
fn crossings(flights: &[Flight<'_, '_>], threshold: usize) -> Option<(u64, u64, usize)> {
    // `false` sorts before `true`. A request that took no time would end before it began, and is
    // under way for the shortest time.
    let ends = |it: &Flight<'_, '_>| it.end_ns.max(it.sent_ns.saturating_add(1));
    let mut steps: Vec<(u64, bool)> = flights
        .iter()
        .flat_map(|it| [(it.sent_ns, true), (ends(it), false)])
        .collect();
    steps.sort_unstable();
    let (mut level, mut peak) = (0_isize, 0_isize);
    let (mut first, mut last) = (None, None);
    for (at_ns, begins) in steps {
        let before = level;
        level += if begins { 1 } else { -1 };
        peak = peak.max(level);
        let bound = threshold as isize;
        if begins && before < bound && level >= bound {
            first = first.or(Some(at_ns));
        }
        if !begins && before >= bound && level < bound {
            last = Some(at_ns);
        }
    }
    Some((first?, last?, usize::try_from(peak).unwrap_or(0)))
}

/// Output tokens whose chunks came at instants that `within` takes; `None` where the tokens of an
/// answer are not known.
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
        format!("the steady-state window is {window_s:.1} s ({share:.1} % of the run), under {enough_s:.0} s: it may not be representative")
    })
}

fn tpot_percentiles(options: &MetricsOptions) -> Vec<f64> {
    let mut percentiles = options.percentiles.clone();
    percentiles.extend(
        TPOT_PERCENTILES
            .iter()
            .filter(|it| !options.percentiles.contains(it)),
    );
    percentiles
}

#[cfg(test)]
mod tests;
