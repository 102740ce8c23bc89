//! Statistics of the embedded server: `/sobench/stats` as JSON. `prometheus.rs` has `/metrics`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Serialize, Serializer};
use serde_json::json;

use super::answer_outcome::AnswerOutcome;
use super::drafts::DraftCounts;
use super::generation::{FinishReason, StepWork};
use super::process_stats::ProcessStats;
use sobench_statistics::durations::Durations;

/// State and statistics of a server since its start. `/sobench/stats` returns them as JSON with the
/// same member names.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ServerStats {
    /// The name in `--guided-decoding-backend`.
    pub engine: String,
    /// The library and its version.
    pub engine_version: String,
    /// The engine's settings, as names and values. An object in JSON.
    #[serde(serialize_with = "as_object")]
    pub settings: Vec<(String, String)>,
    /// Limit on concurrently running sequences.
    pub max_batch: usize,
    /// Requests whose constraint was already compiled or being compiled.
    pub cache_hits: u64,
    /// Requests whose constraint had to be compiled.
    pub cache_misses: u64,
    /// Distinct constraints that are being compiled or wait for a compile thread.
    pub compiling: usize,
    /// Sequences in the batch.
    pub running: usize,
    /// Sequences in the queue.
    pub waiting: usize,
    /// Prompt tokens of all started answers.
    pub prompt_tokens: u64,
    /// Generated tokens, including end tokens.
    pub tokens: u64,
    pub steps: u64,
    /// Most sequences in one step.
    pub largest_batch: usize,
    pub masks: u64,
    /// Times of masks, one per sequence and step. The first mask after a compile, which checks the
    /// constraint, is not included.
    pub mask_ns: Option<TimeSummary>,
    /// Masks that timed out and are still being computed.
    pub stuck_masks: usize,
    /// Drafted tokens of one step of a sequence, at most. 0 without speculative decoding.
    pub speculate: usize,
    pub drafts: DraftStats,
    /// Sequences that returned to the queue because their tokens did not fit. A sequence may be
    /// preempted several times.
    pub preemptions: u64,
    /// Ends of sequences in the batch, regardless of injected faults.
    pub ended: SequenceCounts,
    /// Outcomes of requests for their clients.
    pub answers: AnswerCounts,
    /// Requests with an injected fault, by fault. An object in JSON.
    #[serde(serialize_with = "as_object")]
    pub faults: Vec<(String, u64)>,
    /// Requests that a fault could have changed, by fault. An object in JSON.
    #[serde(serialize_with = "as_object")]
    pub fault_eligible: Vec<(String, u64)>,
    /// From the arrival of a request to its first token.
    #[serde(serialize_with = "as_sum")]
    pub time_to_first_token: Durations,
    /// From the queue to the batch, once for each sequence.
    #[serde(serialize_with = "as_sum")]
    pub queue_time: Durations,
    /// Compiles of constraints, each with its first mask.
    #[serde(serialize_with = "as_sum")]
    pub compile_time: Durations,
    /// How long constraints waited for a compile thread.
    #[serde(serialize_with = "as_sum")]
    pub compile_queue_time: Durations,
    /// Memory and CPU time of the process.
    pub process: ProcessStats,
}

/// Times in nanoseconds: the exact sum, and quantiles to three digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TimeSummary {
    pub sum: u64,
    pub p50: u64,
    pub p99: u64,
    pub max: u64,
}

/// Number of sequences by their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SequenceCounts {
    /// The model ended them.
    pub stop: u64,
    /// They reached their token limit.
    pub length: u64,
    /// The engine failed, crashed or hung.
    pub failed: u64,
    /// Their client disconnected.
    pub gone: u64,
}

/// Counts of speculative decoding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DraftStats {
    /// Steps of sequences with a drafted token that the masks allow.
    pub drafts: u64,
    /// Drafted tokens that the masks allow.
    pub drafted: u64,
    /// Drafted tokens that the masks do not allow, and those after them.
    pub masked_out: u64,
    /// Drafted tokens that the model also drew.
    pub accepted: u64,
    /// The accepted tokens by their position in the draft.
    pub accepted_by_position: Vec<u64>,
}

/// Number of requests by their outcome for the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AnswerCounts {
    /// Written completely, including those with injected faults.
    pub whole: u64,
    /// Answered with a status other than 200.
    pub refused: u64,
    /// Aborted after their start.
    pub broken: u64,
    /// Their client disconnected first.
    pub gone: u64,
}

fn as_object<V: Serialize, S: Serializer>(
    pairs: &[(String, V)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

/// Running counts, shared by the batching loop and the routes.
#[derive(Default)]
pub(super) struct Tally {
    running: AtomicUsize,
    waiting: AtomicUsize,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    prompt_tokens: u64,
    tokens: u64,
    steps: u64,
    largest_batch: usize,
    mask_times: Durations,
    drafts: DraftStats,
    preemptions: u64,
    ended: SequenceCounts,
    answers: AnswerCounts,
    faults: Vec<(&'static str, u64)>,
    fault_eligible: Vec<(&'static str, u64)>,
    time_to_first_token: Durations,
    queue_time: Durations,
    compile_time: Durations,
    compile_queue_time: Durations,
}

impl Tally {
    /// An answer starts.
    pub(super) fn add_prompt_tokens(&self, tokens: u32) {
        self.counts().prompt_tokens += u64::from(tokens);
    }

    /// A fault is injected into a request.
    pub(super) fn fault_injected(&self, fault: &'static str) {
        add_one(&mut self.counts().faults, fault);
    }

    /// A fault could change a request.
    pub(super) fn fault_eligible(&self, fault: &'static str) {
        add_one(&mut self.counts().fault_eligible, fault);
    }

    /// A request has ended.
    pub(super) fn answer_ended(&self, outcome: AnswerOutcome) {
        let answers = &mut self.counts().answers;
        match outcome {
            AnswerOutcome::Complete => answers.whole += 1,
            AnswerOutcome::Refused => answers.refused += 1,
            AnswerOutcome::Aborted => answers.broken += 1,
            AnswerOutcome::Disconnected => answers.gone += 1,
        }
    }

    /// A sequence enters the queue.
    pub(super) fn queued(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
    }

    /// A sequence has waited this long in the queue.
    pub(super) fn waited(&self, ns: u64) {
        self.counts().queue_time.record(ns);
    }

    /// A sequence has its first token, this long after the arrival of its request.
    pub(super) fn first_token(&self, ns: u64) {
        self.counts().time_to_first_token.record(ns);
    }

    /// A compile has ended, with or without success. It waited for a thread before.
    pub(super) fn compiled(&self, queue_ns: u64, compile_ns: u64) {
        let mut counts = self.counts();
        counts.compile_queue_time.record(queue_ns);
        counts.compile_time.record(compile_ns);
    }

    /// Sequences move from the queue to the batch.
    pub(super) fn admitted(&self, sequences: usize) {
        self.running.fetch_add(sequences, Ordering::SeqCst);
        self.waiting.fetch_sub(sequences, Ordering::SeqCst);
    }

    /// The clients of these numbers of sequences in the queue and the batch have disconnected.
    pub(super) fn disconnected(&self, waiting: usize, running: usize) {
        self.waiting.fetch_sub(waiting, Ordering::SeqCst);
        self.running.fetch_sub(running, Ordering::SeqCst);
        self.counts().ended.gone += (waiting + running) as u64;
    }

    /// A sequence returns from the batch to the queue.
    pub(super) fn preempted(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.running.fetch_sub(1, Ordering::SeqCst);
        self.counts().preemptions += 1;
    }

    /// The batching loop has died with these numbers of sequences in the queue and the batch.
    pub(super) fn loop_died(&self, waiting: usize, running: usize) {
        self.waiting.fetch_sub(waiting, Ordering::SeqCst);
        self.running.fetch_sub(running, Ordering::SeqCst);
        self.counts().ended.failed += (waiting + running) as u64;
    }

    /// A sequence of the batch has ended. `None` means that it failed.
    pub(super) fn sequence_ended(&self, finish: Option<FinishReason>) {
        self.running.fetch_sub(1, Ordering::SeqCst);
        let ended = &mut self.counts().ended;
        match finish {
            Some(FinishReason::Stop | FinishReason::ToolCalls) => ended.stop += 1,
            Some(FinishReason::Length) => ended.length += 1,
            None => ended.failed += 1,
        }
    }

    /// A step of this number of sequences has ended. Turns of the loop without sequences are not
    /// counted.
    pub(super) fn step_ended<'w>(&self, batch: usize, works: impl Iterator<Item = &'w StepWork>) {
        if batch == 0 {
            return;
        }
        let mut counts = self.counts();
        counts.steps += 1;
        counts.largest_batch = counts.largest_batch.max(batch);
        for work in works {
            counts.tokens += u64::from(work.tokens);
            work.mask_ns
                .iter()
                .for_each(|ns| counts.mask_times.record(*ns));
            counts.drafts.add(work.drafts);
        }
    }

    /// Fills the fields counted here: all except those of the engine, the cache and the options.
    pub(super) fn fill(&self, stats: &mut ServerStats) {
        let counts = self.counts();
        stats.running = self.running.load(Ordering::SeqCst);
        stats.waiting = self.waiting.load(Ordering::SeqCst);
        stats.prompt_tokens = counts.prompt_tokens;
        stats.tokens = counts.tokens;
        stats.steps = counts.steps;
        stats.largest_batch = counts.largest_batch;
        stats.masks = counts.mask_times.count();
        stats.mask_ns = summary(&counts.mask_times);
        stats.drafts = counts.drafts.clone();
        stats.preemptions = counts.preemptions;
        stats.ended = counts.ended;
        stats.answers = counts.answers;
        let named = |counts: &[(&'static str, u64)]| {
            let named = counts
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count));
            named.collect()
        };
        stats.time_to_first_token = counts.time_to_first_token.clone();
        stats.queue_time = counts.queue_time.clone();
        stats.compile_time = counts.compile_time.clone();
        stats.compile_queue_time = counts.compile_queue_time.clone();
        stats.faults = named(&counts.faults);
        stats.fault_eligible = named(&counts.fault_eligible);
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DraftStats {
    /// Adds the draft of one step of a sequence.
    fn add(&mut self, step: DraftCounts) {
        self.masked_out += u64::from(step.masked_out);
        if step.drafted == 0 {
            return;
        }
        self.drafts += 1;
        self.drafted += u64::from(step.drafted);
        self.accepted += u64::from(step.accepted);
        let accepted = step.accepted as usize;
        if self.accepted_by_position.len() < accepted {
            self.accepted_by_position.resize(accepted, 0);
        }
        for count in &mut self.accepted_by_position[..accepted] {
            *count += 1;
        }
    }
}

fn add_one(counts: &mut Vec<(&'static str, u64)>, fault: &'static str) {
    match counts.iter_mut().find(|(name, _)| *name == fault) {
        Some((_, count)) => *count += 1,
        None => counts.push((fault, 1)),
    }
}

fn summary(times: &Durations) -> Option<TimeSummary> {
    Some(TimeSummary {
        sum: times.sum_ns(),
        p50: times.quantile_ns(0.5)?,
        p99: times.quantile_ns(0.99)?,
        max: times.max_ns()?,
    })
}

/// Upper bounds of the buckets, in milliseconds. A last bucket has no bound.
const BOUNDS_MS: [f64; 16] = [
    0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1e3, 2.5e3, 5e3, 1e4, 3e4, 6e4,
];

/// Upper bounds in seconds, each with the number of durations up to it, within 0.1 % of the bound. The
/// last bound is infinite.
pub(super) fn buckets(times: &Durations) -> impl Iterator<Item = (f64, u64)> {
    let up_to = |ms: f64| {
        let longer = times.count_above((ms * 1e6) as u64);
        (ms / 1e3, times.count() - longer)
    };
    let bounds = BOUNDS_MS.into_iter().map(up_to);
    bounds.chain([(f64::INFINITY, times.count())])
}

/// The number and the sum; `/metrics` has the buckets.
fn as_sum<S: Serializer>(times: &Durations, serializer: S) -> Result<S::Ok, S::Error> {
    json!({"count": times.count(), "sum_s": times.sum_ns() as f64 / 1e9}).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prometheus;
    use crate::testing::no_stats;

    fn stats(tally: &Tally) -> ServerStats {
        let mut stats = no_stats();
        tally.fill(&mut stats);
        stats
    }

    /// A step of a sequence, with its drafted and accepted tokens.
    fn work(tokens: u32, mask_ns: &[u64], (drafted, accepted): (u32, u32)) -> StepWork {
        StepWork {
            tokens,
            mask_ns: mask_ns.to_vec(),
            drafts: DraftCounts {
                drafted,
                masked_out: 1,
                accepted,
            },
        }
    }

    #[test]
    fn drafts_and_preemptions_are_counted() {
        let tally = Tally::default();
        (0..2).for_each(|_| tally.queued());
        tally.admitted(2);
        tally.step_ended(
            3,
            [
                work(3, &[1, 1, 1], (2, 2)),
                work(2, &[1, 1], (3, 1)),
                work(1, &[1], (0, 0)),
            ]
            .iter(),
        );
        tally.preempted();
        let mut seen = stats(&tally);
        assert_eq!(
            seen.drafts,
            DraftStats {
                drafts: 2,
                drafted: 5,
                masked_out: 3,
                accepted: 3,
                accepted_by_position: vec![2, 1],
            }
        );
        assert_eq!((seen.tokens, seen.masks), (6, 6));
        assert_eq!((seen.running, seen.waiting, seen.preemptions), (1, 1, 1));
        assert!(!prometheus::render(&seen, "m").contains("spec_decode"));
        seen.speculate = 3;
        let text = prometheus::render(&seen, "m");
        for line in [
            "vllm:num_preemptions_total{model_name=\"m\"} 1",
            "vllm:spec_decode_num_draft_tokens_total{model_name=\"m\"} 5",
            "vllm:spec_decode_num_accepted_tokens_per_pos_total{model_name=\"m\",position=\"2\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{text}");
        }
        tally.loop_died(1, 1);
        let seen = stats(&tally);
        assert_eq!((seen.running, seen.waiting, seen.ended.failed), (0, 0, 2));
    }

    #[test]
    fn counts_what_the_loop_reports() {
        let tally = Tally::default();
        assert_eq!(stats(&tally).mask_ns, None, "no masks yet");
        tally.add_prompt_tokens(7);
        (0..4).for_each(|_| tally.queued());
        tally.admitted(3);
        tally.step_ended(3, [work(1, &[100], (0, 0)), work(1, &[300], (0, 0))].iter());
        tally.step_ended(0, std::iter::empty());
        tally.sequence_ended(None);
        tally.sequence_ended(Some(FinishReason::Stop));
        tally.disconnected(1, 0);
        tally.fault_injected("hang");
        tally.fault_injected("hang");
        for outcome in [
            AnswerOutcome::Aborted,
            AnswerOutcome::Complete,
            AnswerOutcome::Disconnected,
            AnswerOutcome::Aborted,
            AnswerOutcome::Refused,
        ] {
            tally.answer_ended(outcome);
        }
        let seen = stats(&tally);
        assert_eq!(
            (seen.running, seen.waiting, seen.prompt_tokens, seen.tokens),
            (1, 0, 7, 2)
        );
        assert_eq!((seen.steps, seen.largest_batch, seen.masks), (1, 3, 2));
        assert_eq!(
            seen.mask_ns,
            Some(TimeSummary {
                sum: 400,
                p50: 100,
                p99: 300,
                max: 300
            })
        );
        assert_eq!(
            seen.ended,
            SequenceCounts {
                stop: 1,
                length: 0,
                failed: 1,
                gone: 1
            }
        );
        assert_eq!(seen.faults, [("hang".to_owned(), 2)]);
        assert_eq!(
            seen.answers,
            AnswerCounts {
                whole: 1,
                refused: 1,
                broken: 2,
                gone: 1
            }
        );
        let json = serde_json::to_value(&seen).unwrap();
        assert_eq!(
            (&json["faults"]["hang"], &json["settings"]["forcing"]),
            (&2.into(), &"true".into())
        );
    }

    #[test]
    fn prometheus_text_is_well_formed() {
        let tally = Tally::default();
        tally.first_token(2_000_000);
        tally.waited(1);
        tally.compiled(0, 3_000_000_000);
        let mut seen = stats(&tally);
        seen.process.resident_memory_bytes = Some(4096);
        let text = prometheus::render(&seen, "a\"b");
        for line in [
            r#"vllm:num_requests_running{model_name="a\"b"} 0"#,
            r#"vllm:request_success_total{model_name="a\"b",finished_reason="stop"} 0"#,
            r#"sobench:time_to_first_token_seconds_bucket{model_name="a\"b",le="0.001"} 0"#,
            r#"sobench:time_to_first_token_seconds_bucket{model_name="a\"b",le="0.0025"} 1"#,
            r#"sobench:time_to_first_token_seconds_sum{model_name="a\"b"} 0.002"#,
            r#"sobench:grammar_compilation_time_seconds_bucket{model_name="a\"b",le="+Inf"} 1"#,
            r#"sobench:grammar_compilation_time_seconds_count{model_name="a\"b"} 1"#,
            r#"sobench:request_queue_time_seconds_count{model_name="a\"b"} 1"#,
            "process_resident_memory_bytes 4096",
            "process_start_time_seconds 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        let mut declared = std::collections::BTreeMap::new();
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                assert!(help.contains(' ') && help.ends_with('.'), "{line}");
                continue;
            }
            if let Some((name, kind)) = line
                .strip_prefix("# TYPE ")
                .and_then(|declaration| declaration.split_once(' '))
            {
                assert_eq!(declared.insert(name, kind), None, "{line}");
                continue;
            }
            let (name, value) = line.rsplit_once(' ').unwrap();
            let name = name.split_once('{').map_or(name, |(name, _)| name);
            let base = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| name.strip_suffix(suffix))
                .filter(|base| declared.get(base) == Some(&"histogram"));
            assert!(declared.contains_key(base.unwrap_or(name)), "{line}");
            assert!(value.parse::<f64>().unwrap() >= 0.0, "{line}");
        }
    }
}
