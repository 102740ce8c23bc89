//! Computes metrics from observations and verdicts.
//!
//! [`summarise`] is the entry point. Definitions are in [`latency`], [`throughput`] and
//! [`quality`], statistics in [`sobench_statistics`].

pub mod accuracy;
pub mod arm_acceptance;
pub mod buffered_calls;
pub mod bursts;
pub mod canary;
pub mod channel_latency;
pub mod client_overhead;
pub mod cold_load;
pub mod constraint_loss;
pub mod constraint_overhead;
pub mod control_arm;
pub mod dataset_parts;
pub mod departures;
pub mod distribution;
pub mod drift;
pub mod error_groups;
pub mod examples;
pub mod first_uses;
pub mod free_choices;
mod in_flight;
pub mod knee;
pub mod latency;
pub mod mean_difference;
pub mod modes;
mod name_change;
pub mod offered_load;
pub mod outage;
pub mod pooled;
pub mod quality;
pub mod reasoning;
pub mod registry;
pub mod repetition;
pub mod run_issues;
pub mod server;
pub mod server_times;
pub mod steady_state;
pub mod stream_parity;
pub mod throughput;
pub mod token_gaps;
pub mod validity_pattern;

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use self::accuracy::AccuracySummary;
use self::buffered_calls::BufferedCalls;
use self::bursts::Bursts;
use self::canary::Canaries;
use self::control_arm::ControlArm;
use self::departures::DepartureCounts;
use self::drift::Drift;
use self::error_groups::ErrorGroups;
use self::examples::Group;
use self::free_choices::FreeChoiceShares;
use self::latency::Latency;
use self::modes::Modes;
use self::quality::Quality;
use self::reasoning::Reasoning;
use self::registry::{RunSamples, Values};
use self::repetition::Repetition;
use self::run_issues::RunIssues;
use self::server::ServerMetrics;
use self::server_times::ServerTimesSummary;
use self::stream_parity::StreamParity;
use self::throughput::Throughput;
use self::validity_pattern::ValidityPattern;
use sobench_core::case::Arm;
use sobench_core::contract;
use sobench_core::observation::{CountFault, Outcome, failure_message};
use sobench_core::server_sample::ServerSample;
use sobench_facts::{Sample, TokenSource};
use sobench_notices::notice::NameChange;
use sobench_plan::metrics::{Answers, MetricsOptions};

/// All figures of a run.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Metrics {
    /// From the start of the schedule to the end of the last request.
    #[serde(skip)]
    pub duration_ns: u64,
    pub options: MetricsOptions,
    pub outcomes: OutcomeCounts,
    /// Requests without an answer, by outcome, over all arms. Abandoned ones are left out.
    pub quality: Quality,
    pub failures: Vec<Group>,
    /// The same requests by message.
    pub errors: ErrorGroups,
    /// How answers depart from the API; `None` if none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub departures: Option<DepartureCounts>,
    /// The control arm; `None` without one.
    pub control: Option<ControlArm>,
    /// Accuracy by arm and effects of arms; `None` without references.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<AccuracySummary>,
    /// Validity by requests in flight and over time; `None` without judged answers.
    pub validity: Option<ValidityPattern>,
    pub repetition: Repetition,
    /// Tests of TTFT, TPOT and E2EL for a trend or a step over the run; empty if it is too short.
    pub drift: Vec<Drift>,
    /// Latencies with two modes.
    pub modes: Vec<Modes>,
    /// How chunks arrive; `None` without gaps.
    pub bursts: Option<Bursts>,
    /// A server that withholds the arguments of tool calls.
    #[serde(skip)]
    pub buffered_calls: Option<BufferedCalls>,
    /// `None` without reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
    /// `None` without JSON answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_choices: Option<FreeChoiceShares>,
    /// `None` without answers to canary requests.
    #[serde(rename = "canary", skip_serializing_if = "Option::is_none")]
    pub canaries: Option<Canaries>,
    /// `None` unless answers were requested streamed and whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_parity: Option<StreamParity>,
    /// Times that the server reports with each answer; `None` without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_times: Option<ServerTimesSummary>,
    /// What the server reports about itself; `None` without samples of its metrics page.
    #[serde(rename = "server_metrics", skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerMetrics>,
    #[serde(skip)]
    pub issues: RunIssues,
    /// Models and fingerprints of the server that change during the run.
    #[serde(skip)]
    pub name_changes: Vec<NameChange>,
    /// Figures of all requests.
    pub overall: ArmMetrics,
    pub arms: Arms,
    /// Every metric of [`registry::Metric::ALL`], over the whole run.
    #[serde(rename = "metrics")]
    pub values: Values,
}

/// Number of requests by outcome. The counts add up to the number of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutcomeCounts([usize; Outcome::NAMES.len()]);

/// Figures of each arm with requests.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Arms {
    pub constrained: Option<ArmMetrics>,
    pub control: Option<ArmMetrics>,
    pub free: Option<ArmMetrics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraint: Option<ArmMetrics>,
    #[serde(rename = "think+constraint", skip_serializing_if = "Option::is_none")]
    pub think_constraint: Option<ArmMetrics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compact: Option<ArmMetrics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flexible: Option<ArmMetrics>,
}

/// Figures of a group of requests. Rates are per second of the whole run.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct ArmMetrics {
    pub requests: usize,
    /// Requests with an answer, complete or truncated at the token limit: vLLM's `completed`.
    pub completed: usize,
    /// Truncated answers.
    pub truncated: usize,
    /// Requests cancelled at the end of the run, sent or not.
    pub cancelled: usize,
    /// Requests whose connection the client closed by plan.
    #[serde(skip_serializing_if = "quality::is_zero")]
    pub abandoned: usize,
    /// Requests that were rejected, timed out, or failed in the server, the stream or the network.
    pub failed: usize,
    pub tokens: TokenTotals,
    pub throughput: Throughput,
    pub latency: Latency,
}

/// Tokens of all answers. A total is `None` if the count of any answer is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct TokenTotals {
    pub input: Option<u64>,
    pub output: Option<u64>,
    pub input_sources: Sources,
    pub output_sources: Sources,
    /// Answers whose counts by the server contradict the response.
    #[serde(skip_serializing_if = "Contradictions::is_none")]
    pub contradictions: Contradictions,
}

/// Number of answers by [`CountFault`] of the server's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Contradictions {
    pub fewer_than_chunks: usize,
    pub reasoning_above_all: usize,
    pub several_choices: usize,
    pub no_prompt_tokens: usize,
}

impl Contradictions {
    fn new<'s, 'a: 's>(answers: impl Iterator<Item = &'s Sample<'a>>) -> Self {
        answers.fold(Self::default(), |mut counts, answer| {
            let count = |fault| usize::from(answer.has_count_fault(fault));
            counts.fewer_than_chunks += count(CountFault::FewerThanChunks);
            counts.reasoning_above_all += count(CountFault::ReasoningAboveAll);
            counts.several_choices += count(CountFault::SeveralChoices);
            counts.no_prompt_tokens += count(CountFault::NoPromptTokens);
            counts
        })
    }

    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Number of answers by source of their token count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Sources {
    pub server: usize,
    pub tokenizer: usize,
    #[serde(skip_serializing_if = "quality::is_zero")]
    pub other_tokenizer: usize,
    pub unknown: usize,
}

/// Computes all figures of a run of `duration_ns` without samples of the server's metrics page.
/// `samples` are in plan order.
pub fn summarise(samples: &[Sample<'_>], duration_ns: u64, options: &MetricsOptions) -> Metrics {
    summarise_with_server(samples, duration_ns, options, &[])
}

/// Computes all figures of a run, with those of the server's metrics page.
pub fn summarise_with_server(
    samples: &[Sample<'_>],
    duration_ns: u64,
    options: &MetricsOptions,
    server: &[ServerSample],
) -> Metrics {
    let all: Vec<&Sample<'_>> = samples.iter().collect();
    let overall = ArmMetrics::new(&all, duration_ns, options);
    let server = ServerMetrics::new(server, samples, duration_ns, &overall);
    let drift = Drift::all(samples, options);
    let arm_metrics = |arm: Arm| {
        let members: Vec<&Sample<'_>> = samples
            .iter()
            .filter(|sample| sample.arm() == arm)
            .collect();
        match members.len() {
            0 => None,
            // The only arm equals the whole.
            count if count == samples.len() => Some(overall.clone()),
            _ => Some(ArmMetrics::new(&members, duration_ns, options)),
        }
    };
    Metrics {
        duration_ns,
        options: options.clone(),
        outcomes: OutcomeCounts::new(samples),
        failures: Group::by(samples, failure),
        errors: ErrorGroups::new(samples),
        departures: DepartureCounts::new(samples),
        arms: Arms {
            constrained: arm_metrics(Arm::Constrained),
            control: arm_metrics(Arm::Control),
            free: arm_metrics(Arm::Free),
            constraint: arm_metrics(Arm::ConstraintOnly),
            think_constraint: arm_metrics(Arm::ThinkConstraint),
            compact: arm_metrics(Arm::Compact),
            flexible: arm_metrics(Arm::Flexible),
        },
        quality: Quality::new(samples),
        control: ControlArm::new(samples),
        accuracy: AccuracySummary::new(samples, options),
        validity: ValidityPattern::new(samples),
        repetition: Repetition::new(samples),
        modes: Modes::all(samples, options, &drift),
        drift,
        bursts: Bursts::new(samples, options),
        buffered_calls: BufferedCalls::new(samples, options),
        reasoning: Reasoning::new(samples, 0),
        stream_parity: StreamParity::new(samples),
        free_choices: FreeChoiceShares::new(samples),
        canaries: Canaries::new(samples),
        server_times: ServerTimesSummary::new(samples, options),
        issues: RunIssues::new(samples),
        name_changes: name_change::all(samples),
        values: Values::new(&RunSamples {
            samples: &all,
            duration_ns,
            options,
            overall: &overall,
            server: server.as_ref(),
        }),
        server,
        overall,
    }
}

impl Metrics {
    /// Every example of the metrics.
    pub fn examples_mut(&mut self) -> impl Iterator<Item = &mut examples::Example> {
        let quality = &mut self.quality;
        let groups = self
            .failures
            .iter_mut()
            .chain(&mut quality.reasons)
            .chain(&mut quality.not_scored)
            .chain(self.control.iter_mut().flat_map(|arm| &mut arm.reasons));
        groups
            .chain([&mut quality.vllm.only_script, &mut quality.vllm.only_ours])
            .flat_map(|group| &mut group.examples)
    }
}

impl OutcomeCounts {
    fn new(samples: &[Sample<'_>]) -> Self {
        let mut counts = Self::default();
        for sample in samples {
            let name = sample.outcome().name();
            let index = Outcome::NAMES
                .iter()
                .position(|known| *known == name)
                .expect("NAMES has the name of every outcome");
            counts.0[index] += 1;
        }
        counts
    }

    /// Every outcome's name and count, including zeros, in report order. Abandoned requests are
    /// left out of runs without any, which cannot have them unless the user wants them.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, usize)> + '_ {
        let abandoned = Outcome::Abandoned.name();
        let counts = Outcome::NAMES.into_iter().zip(self.0);
        counts.filter(move |(name, count)| *name != abandoned || *count > 0)
    }

    /// Number of requests.
    pub fn total(&self) -> usize {
        self.0.iter().sum()
    }
}

impl JsonSchema for OutcomeCounts {
    fn schema_name() -> Cow<'static, str> {
        "OutcomeCounts".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let is_required = |name| (name, name != Outcome::Abandoned.name());
        let count = generator.subschema_for::<usize>();
        contract::members(Outcome::NAMES.map(is_required), &count)
    }
}

impl Serialize for OutcomeCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl Arms {
    /// The arms with requests, in the order of tables.
    pub fn iter(&self) -> impl Iterator<Item = (Arm, &ArmMetrics)> {
        let metrics = [
            &self.constrained,
            &self.control,
            &self.free,
            &self.constraint,
            &self.think_constraint,
            &self.compact,
            &self.flexible,
        ];
        let arms = Arm::ALL.into_iter().zip(metrics);
        arms.filter_map(|(arm, metrics)| Some((arm, metrics.as_ref()?)))
    }
}

impl ArmMetrics {
    fn new(samples: &[&Sample<'_>], duration_ns: u64, options: &MetricsOptions) -> Self {
        let completed = samples
            .iter()
            .filter(|sample| sample.outcome().is_answer())
            .count();
        let count_of = |outcome: &Outcome| {
            samples
                .iter()
                .filter(|sample| sample.outcome() == outcome)
                .count()
        };
        let cancelled = count_of(&Outcome::Cancelled);
        let abandoned = count_of(&Outcome::Abandoned);
        Self {
            requests: samples.len(),
            completed,
            truncated: count_of(&Outcome::Truncated),
            cancelled,
            abandoned,
            failed: samples.len() - completed - cancelled - abandoned,
            tokens: TokenTotals::new(samples, options),
            throughput: Throughput::new(samples, duration_ns, options),
            latency: Latency::new(samples, options),
        }
    }
}

impl TokenTotals {
    fn new(samples: &[&Sample<'_>], options: &MetricsOptions) -> Self {
        let answers = || {
            samples
                .iter()
                .filter(|sample| sample.outcome().is_answer())
                .map(|sample| sample.tokens())
        };
        let is_generated = options.answers == Answers::Generated;
        Self {
            input: throughput::sum(answers().map(|tokens| tokens.input)),
            output: throughput::sum(answers().map(|tokens| tokens.output)).filter(|_| is_generated),
            input_sources: Sources::new(answers().map(|tokens| tokens.input_source)),
            output_sources: Sources::new(
                answers()
                    .map(|tokens| tokens.output_source)
                    .filter(|_| is_generated),
            ),
            contradictions: Contradictions::new(
                samples
                    .iter()
                    .copied()
                    .filter(|sample| sample.outcome().is_answer()),
            ),
        }
    }
}

impl Sources {
    fn new(sources: impl Iterator<Item = TokenSource>) -> Self {
        sources.fold(Self::default(), |mut counts, source| {
            match source {
                TokenSource::Server => counts.server += 1,
                TokenSource::Tokenizer => counts.tokenizer += 1,
                TokenSource::OtherTokenizer => counts.other_tokenizer += 1,
                TokenSource::Unknown => counts.unknown += 1,
            }
            counts
        })
    }
}

fn failure(sample: &Sample<'_>) -> Option<(&'static str, String)> {
    let outcome = sample.outcome();
    let is_failure = !outcome.is_answer() && *outcome != Outcome::Abandoned;
    is_failure.then(|| (outcome.name(), failure_message(outcome)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::observation::TransportCause;
    use sobench_core::verdict::{NotScored, Verdict};
    use sobench_facts::testing::{TestRequest, test_request, with_samples};

    const SECOND: u64 = 1_000_000_000;

    fn summarised(run: &[TestRequest<'_>], duration_ns: u64) -> Metrics {
        with_samples(run, |samples| {
            summarise(samples, duration_ns, &MetricsOptions::default())
        })
    }

    fn one_of_each_outcome() -> Vec<TestRequest<'static>> {
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
        outcomes
            .map(|outcome| TestRequest {
                outcome,
                ..test_request()
            })
            .to_vec()
    }

    #[test]
    fn no_data_is_not_zero() {
        let metrics = summarised(&[], 0);
        assert_eq!(metrics.outcomes.total(), 0);
        // All except `abandoned`.
        assert_eq!(metrics.outcomes.iter().count(), Outcome::NAMES.len() - 1);
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
    fn outcome_counts_add_up() {
        let metrics = summarised(&one_of_each_outcome(), SECOND);
        assert_eq!(
            metrics
                .outcomes
                .iter()
                .map(|(name, count)| format!("{name}={count}"))
                .collect::<Vec<_>>()
                .join(" "),
            "completed=1 truncated=1 rejected=1 refused=0 unsupported=1 server_error=1 stream_error=1 transport=1 timed_out=1 cancelled=1"
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
            "cancelled requests are not failed"
        );
        assert_eq!(
            metrics.overall.tokens.input,
            Some(14),
            "input tokens of answers only, as in vLLM"
        );
        assert_eq!(metrics.overall.throughput.request_throughput, Some(2.0));
        assert_eq!(
            metrics
                .failures
                .iter()
                .map(|group| group.count)
                .sum::<usize>(),
            7
        );
        assert_eq!(
            metrics.failures[0].name, "cancelled",
            "ties are sorted by name"
        );
        assert_eq!(metrics.failures[1].examples[0].message, "HTTP 400: no");
    }

    #[test]
    fn abandoned_requests_are_counted_and_in_no_rate() {
        let abandoned = TestRequest {
            outcome: Outcome::Abandoned,
            verdict: Verdict::NotScored {
                why: NotScored::Abandoned,
            },
            ..test_request()
        };
        let run = [test_request(), abandoned];
        let metrics = summarised(&run, SECOND);
        let overall = &metrics.overall;
        assert_eq!(
            (overall.requests, overall.abandoned, overall.failed),
            (2, 1, 0)
        );
        assert_eq!((overall.completed, overall.latency.ttft_ms.n), (1, 1));
        for (metric, value) in metrics.values.iter() {
            if let registry::Value::Rate(rate) = value {
                assert_eq!(rate.of, 1, "{}", metric.name);
            }
        }
        assert!(metrics.failures.is_empty() && metrics.errors.groups.is_empty());
        assert_eq!(
            metrics.outcomes.iter().last(),
            Some((Outcome::Abandoned.name(), 1))
        );
        assert_eq!(metrics.outcomes.total(), 2);
    }

    #[test]
    fn total_with_an_unknown_term_is_unknown() {
        let run = [
            test_request(),
            TestRequest {
                output: None,
                ..test_request()
            },
        ];
        let overall = summarised(&run, SECOND).overall;
        assert_eq!(overall.tokens.output, None);
        assert_eq!(
            overall.tokens.output_sources,
            Sources {
                server: 1,
                tokenizer: 0,
                other_tokenizer: 0,
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
    fn latencies_of_one_answer_match_the_definitions() {
        let run = [TestRequest {
            due: 100,
            sent: Some(130),
            chunks: vec![180, 190, 220],
            output: Some(9),
            ..test_request()
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
    fn latencies_cover_answers_and_lag_covers_sent_requests() {
        let mut run = one_of_each_outcome();
        run.push(TestRequest {
            outcome: Outcome::Cancelled,
            sent: None,
            chunks: vec![],
            end: None,
            ..test_request()
        });
        run.push(TestRequest {
            chunks: vec![],
            output: Some(1),
            ..test_request()
        });
        run.push(TestRequest {
            chunks: vec![5],
            output: Some(6),
            ..test_request()
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
    fn arms_are_separate() {
        let free = TestRequest {
            arm: Arm::Free,
            verdict: Verdict::NotScored {
                why: NotScored::NoConstraint,
            },
            vllm_correct: None,
            ..test_request()
        };
        let run = [
            test_request(),
            TestRequest {
                arm: Arm::Control,
                chunks: vec![40],
                ..test_request()
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
                (Arm::Constrained, 1, Some(10.0)),
                (Arm::Control, 1, Some(40.0)),
                (Arm::Free, 2, Some(10.0))
            ]
        );
        assert_eq!(arms.free.unwrap().throughput.output_throughput, Some(3.0));
    }
}
