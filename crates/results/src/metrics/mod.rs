//! Observations and verdicts to numbers. Pure: no clock, no network, no environment, no rendering.
//!
//! [`summarise`] is the door. What each figure means is said where it is computed: [`latency`],
//! [`throughput`], [`quality`], and the statistics in [`sobench_statistics`].

pub mod client;
pub mod cold;
pub mod cold_load;
pub mod difference;
pub mod distribution;
pub mod excerpt;
mod gaps;
pub mod holding;
pub mod knee;
pub mod latency;
mod latency_metric;
pub mod ledger;
pub mod offered;
pub mod outage;
pub mod overhead;
pub mod parts;
pub mod pooled;
pub mod probe;
pub mod quality;
pub mod queueing;
pub mod registry;
pub mod said;
pub mod spec_decode;
pub mod steady;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used)]
pub mod testing;
pub mod throughput;
pub mod token_gaps;

use serde::{Deserialize, Serialize, Serializer};

use self::excerpt::Group;
use self::latency::{Latency, RequestLatency};
pub use self::latency_metric::LatencyMetric;
use self::ledger::{Ledger, Row};
use self::quality::Quality;
pub use self::queueing::QueueMetric;
use self::registry::{RunSamples, Values};
use self::said::Said;
use self::throughput::Throughput;
use sobench_core::case::Arm;
use sobench_core::observation::{Outcome, failure_words};
use sobench_core::verdict::Verdict;

/// Token counts of one request, the best there are, and whose they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    pub input: Option<u64>,
    pub input_source: TokenSource,
    pub output: Option<u64>,
    pub output_source: TokenSource,
}

/// Who counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenSource {
    /// The server's `usage`.
    Server,
    /// Our tokenizer, over the text.
    Tokenizer,
    /// Nobody.
    #[default]
    Unknown,
}

/// One request with all that is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    ledger: &'a Ledger,
    row: &'a Row,
}

/// What was found out about one request after the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    #[serde(flatten)]
    pub verdict: Verdict,
    pub tokens: Tokens,
    /// Whether vLLM's script would call it correct; `None` where it does not score (grammars).
    pub vllm_correct: Option<bool>,
    /// Whether the answer was cut while it wrote nothing but white space ([`holding::runs_away`]).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub white_space_run: bool,
    /// Whether the answer is the call that its reference asks for ([`sobench_judge::call`]); `None`
    /// where there is no such reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub right_call: Option<bool>,
}

/// What to compute beside the fixed figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricsOptions {
    /// Percentiles of every latency, each from 0 to 100.
    pub percentiles: Vec<f64>,
    /// The bounds that make an answer a good one.
    pub goodput: Option<Slo>,
    /// Whether answers were asked for in a stream; without one there is no TTFT, TPOT or ITL. What
    /// came is the server's doing: see [`Sample::streamed`].
    pub streamed: bool,
    pub answers: Answers,
}

/// What answers are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answers {
    /// Text, token by token.
    #[default]
    Generated,
    /// Vectors or scores, computed whole: there are no output tokens, and no latency but the one to
    /// the end.
    Computed,
}

/// Service level objectives, in milliseconds; an answer is good that meets all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slo {
    pub ttft_ms: Option<f64>,
    pub tpot_ms: Option<f64>,
    pub e2el_ms: Option<f64>,
    /// Whether it has to be valid as well, where it has a constraint.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub valid: bool,
}

/// All numbers of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Metrics {
    /// From the moment from which due times count to the end of the last request.
    pub duration_ns: u64,
    pub options: MetricsOptions,
    pub outcomes: OutcomeCounts,
    /// Requests that got no answer, by outcome, in every arm.
    pub failures: Vec<Group>,
    /// Every request.
    pub overall: ArmMetrics,
    pub arms: Arms,
    pub quality: Quality,
    pub said: Said,
    /// Every metric of [`registry::Metric::ALL`], over the whole run.
    pub values: Values,
}

/// How many requests ended in which way; they add up to the number of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutcomeCounts([usize; Outcome::NAMES.len()]);

/// The figures of each arm that has requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Arms {
    pub constrained: Option<ArmMetrics>,
    pub control: Option<ArmMetrics>,
    pub free: Option<ArmMetrics>,
}

/// The figures of a group of requests. Rates are per second of the whole run, also for a group that
/// had only part of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ArmMetrics {
    pub requests: usize,
    /// Requests that got an answer, whole or cut at the token limit: vLLM's `completed`.
    pub completed: usize,
    /// Those of the completed that were cut.
    pub truncated: usize,
    /// Those that the end of the run overtook, sent or not.
    pub cancelled: usize,
    /// The rest: refused, or failed in the server, in the stream, on the way or by time.
    pub failed: usize,
    pub tokens: TokenTotals,
    pub throughput: Throughput,
    pub latency: Latency,
}

/// Tokens of all answers. A total is `None` where the count of any answer is not known: a sum with
/// holes is no total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TokenTotals {
    pub input: Option<u64>,
    pub output: Option<u64>,
    pub input_sources: Sources,
    pub output_sources: Sources,
}

/// How many answers were counted by whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sources {
    pub server: usize,
    pub tokenizer: usize,
    pub unknown: usize,
}

/// Computes every figure of a run of `duration_ns`; `samples` in plan order.
pub fn summarise(samples: &[Sample<'_>], duration_ns: u64, options: &MetricsOptions) -> Metrics {
    let all: Vec<&Sample<'_>> = samples.iter().collect();
    let overall = ArmMetrics::of(&all, duration_ns, options);
    let of_arm = |arm: Arm| {
        let members: Vec<&Sample<'_>> = samples.iter().filter(|it| it.arm() == arm).collect();
        match members.len() {
            0 => None,
            // The only arm is the whole.
            count if count == samples.len() => Some(overall.clone()),
            _ => Some(ArmMetrics::of(&members, duration_ns, options)),
        }
    };
    Metrics {
        duration_ns,
        options: options.clone(),
        outcomes: OutcomeCounts::of(samples),
        failures: Group::by(samples, failure),
        arms: Arms {
            constrained: of_arm(Arm::Constrained),
            control: of_arm(Arm::Control),
            free: of_arm(Arm::Free),
        },
        quality: Quality::of(samples),
        said: Said::of(samples),
        values: Values::new(&RunSamples {
            samples: &all,
            duration_ns,
            options,
            overall: &overall,
        }),
        overall,
    }
}

impl Metrics {
    /// Every example, wherever it stands.
    pub fn excerpts_mut(&mut self) -> impl Iterator<Item = &mut excerpt::Excerpt> {
        let quality = &mut self.quality;
        let groups = self
            .failures
            .iter_mut()
            .chain(&mut quality.reasons)
            .chain(&mut quality.not_scored);
        groups
            .chain([&mut quality.vllm.only_script, &mut quality.vllm.only_ours])
            .flat_map(|group| &mut group.excerpts)
    }
}

impl Default for MetricsOptions {
    /// vLLM's defaults: p99, no goodput, streaming.
    fn default() -> Self {
        Self {
            percentiles: vec![99.0],
            goodput: None,
            streamed: true,
            answers: Answers::Generated,
        }
    }
}

impl Sample<'_> {
    /// The latencies of this request.
    pub fn latency(&self, options: &MetricsOptions) -> RequestLatency {
        RequestLatency::of(
            &self.moments(),
            self.tokens().output,
            self.streamed(options),
        )
    }

    /// Whether the answer was asked for in a stream and came in one: only then its chunks tell
    /// TTFT, TPOT and ITL.
    pub fn streamed(&self, options: &MetricsOptions) -> bool {
        options.streamed && self.moments().streamed
    }
}

impl OutcomeCounts {
    fn of(samples: &[Sample<'_>]) -> Self {
        let mut counts = Self::default();
        for sample in samples {
            let name = sample.outcome().name();
            let place = Outcome::NAMES
                .iter()
                .position(|it| *it == name)
                .expect("NAMES has the name of every outcome");
            counts.0[place] += 1;
        }
        counts
    }

    /// Every outcome's name with its count, zeros among them, in the order of reports.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, usize)> + '_ {
        Outcome::NAMES.into_iter().zip(self.0)
    }

    /// The number of requests.
    pub fn total(&self) -> usize {
        self.0.iter().sum()
    }
}

impl Serialize for OutcomeCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl Arms {
    /// The arms that have requests, with the name that files and tables use.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &ArmMetrics)> {
        let arms = [
            ("constrained", &self.constrained),
            ("control", &self.control),
            ("free", &self.free),
        ];
        arms.into_iter()
            .filter_map(|(name, arm)| Some((name, arm.as_ref()?)))
    }
}

impl ArmMetrics {
    fn of(samples: &[&Sample<'_>], duration_ns: u64, options: &MetricsOptions) -> Self {
        let completed = samples.iter().filter(|it| it.outcome().is_answer()).count();
        let cancelled = samples
            .iter()
            .filter(|it| *it.outcome() == Outcome::Cancelled)
            .count();
        Self {
            requests: samples.len(),
            completed,
            truncated: samples
                .iter()
                .filter(|it| *it.outcome() == Outcome::Truncated)
                .count(),
            cancelled,
            failed: samples.len() - completed - cancelled,
            tokens: TokenTotals::of(samples, options),
            throughput: Throughput::of(samples, duration_ns, options),
            latency: Latency::of(samples, options),
        }
    }
}

impl TokenTotals {
    fn of(samples: &[&Sample<'_>], options: &MetricsOptions) -> Self {
        let answers = || {
            samples
                .iter()
                .filter(|it| it.outcome().is_answer())
                .map(|it| it.tokens())
        };
        let is_generated = options.answers == Answers::Generated;
        Self {
            input: throughput::sum(answers().map(|it| it.input)),
            output: throughput::sum(answers().map(|it| it.output)).filter(|_| is_generated),
            input_sources: Sources::of(answers().map(|it| it.input_source)),
            output_sources: Sources::of(
                answers()
                    .map(|it| it.output_source)
                    .filter(|_| is_generated),
            ),
        }
    }
}

impl Sources {
    fn of(sources: impl Iterator<Item = TokenSource>) -> Self {
        sources.fold(Self::default(), |mut counts, source| {
            match source {
                TokenSource::Server => counts.server += 1,
                TokenSource::Tokenizer => counts.tokenizer += 1,
                TokenSource::Unknown => counts.unknown += 1,
            }
            counts
        })
    }
}

fn failure(sample: &Sample<'_>) -> Option<(&'static str, String)> {
    let outcome = sample.outcome();
    (!outcome.is_answer()).then(|| (outcome.name(), failure_words(outcome)))
}

#[cfg(test)]
mod tests {
    use super::testing::{Made, made, with_samples};
    use super::*;
    use sobench_core::observation::TransportCause;
    use sobench_core::verdict::NotScored;

    const SECOND: u64 = 1_000_000_000;

    fn summarised(run: &[Made<'_>], duration_ns: u64) -> Metrics {
        with_samples(run, |samples| {
            summarise(samples, duration_ns, &MetricsOptions::default())
        })
    }

    fn one_of_each_outcome() -> Vec<Made<'static>> {
        let outcomes = [
            Outcome::Completed,
            Outcome::Truncated,
            Outcome::Rejected {
                status: 400,
                body: "no".into(),
                advice: None,
            },
            Outcome::Unsupported {
                what: "no field".into(),
            },
            Outcome::ServerError {
                status: 500,
                body: "oops".into(),
                advice: None,
            },
            Outcome::StreamError {
                message: "cut".into(),
            },
            Outcome::Transport {
                cause: TransportCause::Reset,
                message: "reset".into(),
            },
            Outcome::TimedOut {
                limit_ms: 9,
                limit: Default::default(),
                stage: None,
            },
            Outcome::Cancelled,
        ];
        outcomes.map(|outcome| Made { outcome, ..made() }).to_vec()
    }

    #[test]
    fn nothing_is_not_zero() {
        let metrics = summarised(&[], 0);
        assert_eq!(metrics.outcomes.total(), 0);
        assert_eq!(metrics.outcomes.iter().count(), Outcome::NAMES.len());
        assert_eq!(metrics.overall.throughput.request_throughput, None);
        assert_eq!(
            (
                metrics.overall.latency.ttft_ms.mean,
                metrics.overall.latency.ttft_ms.n
            ),
            (None, 0)
        );
        assert_eq!(metrics.arms.iter().count(), 0);
        assert_eq!(metrics.quality.correct_rate, None);
    }

    #[test]
    fn outcomes_add_up_and_answers_are_the_completed_ones() {
        let metrics = summarised(&one_of_each_outcome(), SECOND);
        assert_eq!(
            metrics
                .outcomes
                .iter()
                .map(|(name, count)| format!("{name}={count}"))
                .collect::<Vec<_>>()
                .join(" "),
            "completed=1 truncated=1 rejected=1 unsupported=1 server_error=1 stream_error=1 transport=1 timed_out=1 cancelled=1"
        );
        assert_eq!(
            (
                metrics.overall.requests,
                metrics.overall.completed,
                metrics.overall.truncated,
                metrics.overall.failed
            ),
            (9, 2, 1, 6)
        );
        assert_eq!(
            metrics.overall.cancelled, 1,
            "what the end of the run overtook did not fail"
        );
        assert_eq!(
            metrics.overall.tokens.input,
            Some(14),
            "input tokens of answers only, as in vLLM"
        );
        assert_eq!(metrics.overall.throughput.request_throughput, Some(2.0));
        assert_eq!(metrics.failures.iter().map(|it| it.count).sum::<usize>(), 7);
        assert_eq!(metrics.failures[0].name, "cancelled", "ties go by name");
        assert_eq!(metrics.failures[1].excerpts[0].words, "HTTP 400: no");
    }

    #[test]
    fn a_total_with_a_hole_is_no_total() {
        let run = [
            made(),
            Made {
                output: None,
                ..made()
            },
        ];
        let overall = summarised(&run, SECOND).overall;
        assert_eq!(overall.tokens.output, None);
        assert_eq!(
            overall.tokens.output_sources,
            Sources {
                server: 1,
                tokenizer: 0,
                unknown: 1
            }
        );
        assert_eq!(
            (
                overall.throughput.output_throughput,
                overall.throughput.total_token_throughput
            ),
            (None, None)
        );
        assert_eq!(overall.throughput.request_throughput, Some(2.0));
        assert_eq!(overall.throughput.max_output_tokens_per_s, None);
        assert_eq!(overall.latency.tpot_ms.n, 1);
        assert_eq!(overall.latency.itl_ms.n, 4);
        assert_eq!(overall.latency.itl_per_token_ms.n, 2);
    }

    #[test]
    fn one_answer_is_measured_by_the_definitions() {
        let run = [Made {
            due: 100,
            sent: Some(130),
            chunks: vec![180, 190, 220],
            output: Some(9),
            ..made()
        }];
        let latency = summarised(&run, SECOND).overall.latency;
        for (summary, n, mean) in [
            (&latency.ttft_ms, 1, 50.0),
            (&latency.tpot_ms, 1, 5.0),
            (&latency.itl_ms, 2, 20.0),
            (&latency.itl_per_token_ms, 2, 20.0 / 3.0),
            (&latency.e2el_ms, 1, 90.0),
            (&latency.ttft_from_due_ms, 1, 80.0),
            (&latency.e2el_from_due_ms, 1, 120.0),
            (&latency.schedule_lag_ms, 1, 30.0),
        ] {
            assert_eq!(summary.n, n);
            assert!((summary.mean.unwrap() - mean).abs() < 1e-9, "{summary:?}");
            assert!(!summary.percentiles[0].enough);
        }
        assert_eq!(
            (
                latency.chunks,
                latency.multi_token_chunk_answers,
                latency.single_chunk_answers
            ),
            (3, 1, 0)
        );
    }

    #[test]
    fn latencies_are_of_answers_and_lag_is_of_everything_sent() {
        let mut run = one_of_each_outcome();
        run.push(Made {
            outcome: Outcome::Cancelled,
            sent: None,
            chunks: vec![],
            end: None,
            ..made()
        });
        run.push(Made {
            chunks: vec![],
            output: Some(1),
            ..made()
        });
        run.push(Made {
            chunks: vec![5],
            output: Some(6),
            ..made()
        });
        let latency = summarised(&run, SECOND).overall.latency;
        assert_eq!(
            (latency.ttft_ms.n, latency.e2el_ms.n, latency.tpot_ms.n),
            (3, 3, 2)
        );
        assert_eq!((latency.schedule_lag_ms.n, latency.never_sent), (11, 1));
        assert_eq!(
            (latency.empty_answers, latency.single_chunk_answers),
            (1, 1)
        );
    }

    #[test]
    fn arms_are_kept_apart() {
        let free = Made {
            arm: Arm::Free,
            verdict: Verdict::NotScored {
                why: NotScored::NoConstraint,
            },
            vllm_correct: None,
            ..made()
        };
        let run = [
            made(),
            Made {
                arm: Arm::Control,
                chunks: vec![40],
                ..made()
            },
            free.clone(),
            free,
        ];
        let arms = summarised(&run, 2 * SECOND).arms;
        let found: Vec<_> = arms
            .iter()
            .map(|(name, arm)| (name, arm.requests, arm.latency.ttft_ms.mean))
            .collect();
        assert_eq!(
            found,
            [
                ("constrained", 1, Some(10.0)),
                ("control", 1, Some(40.0)),
                ("free", 2, Some(10.0))
            ]
        );
        assert_eq!(arms.free.unwrap().throughput.output_throughput, Some(3.0));
    }
}
