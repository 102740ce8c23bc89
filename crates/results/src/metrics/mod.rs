//! Computes metrics from observations and verdicts.
//!
//! [`summarise`] is the entry point. Figures are defined in [`registry`], statistics in
//! [`sobench_statistics`].

pub mod accuracy;
pub mod buffered_calls;
pub mod bursts;
pub mod canary;
pub mod cells;
pub mod channel_latency;
pub mod client_overhead;
pub mod client_table;
pub mod cold_load;
pub mod constraint_loss;
pub mod constraint_overhead;
pub mod departures;
pub mod dependence;
pub mod distribution;
pub mod drift;
pub mod error_groups;
pub mod examples;
pub mod findings;
pub mod first_uses;
pub mod free_choices;
pub(crate) mod in_flight;
pub mod judgement;
pub mod knee;
pub mod modes;
mod name_change;
pub mod offered_load;
pub mod outage;
pub mod pooled;
pub mod reasoning;
pub mod registry;
pub mod repetition;
pub mod run_issues;
pub mod server;
pub mod server_times;
mod session_ends;
pub mod sessions;
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
use self::cells::CellMap;
use self::client_table::ClientTable;
use self::departures::DepartureCounts;
use self::drift::Drift;
use self::error_groups::ErrorGroups;
use self::examples::Group;
use self::findings::Findings;
use self::free_choices::FreeChoiceShares;
use self::modes::Modes;
use self::reasoning::Reasoning;
use self::registry::{
    Figure, Group as Members, GroupValues, Metric, RunSamples, Value, Values, groups_of_run, totals,
};
use self::repetition::Repetition;
use self::run_issues::RunIssues;
use self::server::ServerMetrics;
use self::server_times::ServerTimesSummary;
use self::sessions::Sessions;
use self::stream_parity::StreamParity;
use self::validity_pattern::ValidityPattern;
use sobench_core::case::Arm;
use sobench_core::contract;
use sobench_core::observation::{CountFault, Outcome, failure_message};
use sobench_core::server_sample::ServerSample;
use sobench_facts::{Sample, TokenSource};
use sobench_notices::notice::NameChange;
use sobench_plan::metrics::{Answers, MetricsSettings};
use sobench_statistics::Rate;

/// All figures of a run.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Metrics {
    /// From the start of the schedule to the end of the last request.
    #[serde(skip)]
    pub duration_ns: u64,
    pub options: MetricsSettings,
    pub outcomes: OutcomeCounts,
    /// Requests without an answer, by outcome, over all arms. Abandoned ones are left out.
    #[serde(rename = "quality")]
    pub findings: Findings,
    pub failures: Vec<Group>,
    /// The same requests by message.
    pub errors: ErrorGroups,
    /// How answers depart from the API; `None` if none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub departures: Option<DepartureCounts>,
    /// What client libraries read; `None` if they read all answers alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<ClientTable>,
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
    /// `None` without a map of tools and context.
    #[serde(rename = "map", skip_serializing_if = "Option::is_none")]
    pub cells: Option<CellMap>,
    /// `None` without sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<Sessions>,
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
    /// The sources of token counts.
    pub token_sources: TokenSources,
    /// Every metric of [`registry::Metric::ALL`], over the whole run.
    #[serde(rename = "metrics")]
    pub values: Values,
    /// Every metric of each arm, if there are several, of each dataset of a mix, and of the
    /// constrained requests with each `tool_choice`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupValues>,
    /// The arms with requests, in the order of tables.
    #[serde(skip)]
    arms: Vec<Arm>,
}

/// Number of requests by outcome. The counts add up to the number of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutcomeCounts([usize; Outcome::NAMES.len()]);

/// Where the token counts of all answers are from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct TokenSources {
    pub input: Sources,
    pub output: Sources,
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
    #[serde(skip_serializing_if = "is_zero")]
    pub other_tokenizer: usize,
    pub unknown: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Computes all figures of a run of `duration_ns` without samples of the server's metrics page.
/// `samples` are in plan order.
pub fn summarise(samples: &[Sample<'_>], duration_ns: u64, options: &MetricsSettings) -> Metrics {
    summarise_with_server(samples, duration_ns, options, &[])
}

/// Computes all figures of a run, with those of the server's metrics page.
pub fn summarise_with_server(
    samples: &[Sample<'_>],
    duration_ns: u64,
    options: &MetricsSettings,
    server: &[ServerSample],
) -> Metrics {
    let all: Vec<&Sample<'_>> = samples.iter().collect();
    let mut server = ServerMetrics::new(server, samples, duration_ns);
    let values = Values::new(&RunSamples::new(
        &all,
        duration_ns,
        options,
        server.as_ref(),
    ));
    let token_sources = TokenSources::new(samples, options);
    if let Some(server) = &mut server {
        server.compare(&values, &token_sources);
    }
    let drift = Drift::all(samples, options);
    let arms: Vec<Arm> = Arm::ALL
        .into_iter()
        .filter(|arm| samples.iter().any(|sample| sample.arm() == *arm))
        .collect();
    let groups = groups_of_run(&arms, samples);
    Metrics {
        duration_ns,
        options: options.clone(),
        outcomes: OutcomeCounts::new(samples),
        failures: Group::by(samples, failure),
        errors: ErrorGroups::new(samples),
        departures: DepartureCounts::new(samples),
        clients: ClientTable::new(samples),
        findings: Findings::new(samples),
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
        cells: CellMap::new(samples, options),
        sessions: Sessions::new(samples, options),
        server_times: ServerTimesSummary::new(samples, options),
        issues: RunIssues::new(samples),
        name_changes: name_change::all(samples),
        groups: groups
            .into_iter()
            .filter_map(|group| GroupValues::new(group, samples, duration_ns, options))
            .collect(),
        token_sources,
        values,
        server,
        arms,
    }
}

impl Metrics {
    /// The arms with requests and their figures, in the order of tables.
    pub fn arms(&self) -> impl Iterator<Item = (Arm, &Values)> {
        let arms = self.arms.iter();
        arms.filter_map(|arm| Some((*arm, self.arm(*arm)?)))
    }

    /// The figures of an arm; `None` without requests.
    pub fn arm(&self, arm: Arm) -> Option<&Values> {
        let group = Members::of_arm(arm);
        let mut groups = self.groups.iter();
        match groups.find(|found| found.group == group) {
            Some(found) => Some(&found.values),
            // The only arm equals the whole.
            None => (self.arms[..] == [arm]).then_some(&self.values),
        }
    }

    /// The value of a figure's metric over the requests of its arm.
    fn value(&self, figure: Figure) -> Option<&Value> {
        let own = figure.arm.is_none().then_some(&self.values);
        own.or_else(|| self.arm(figure.arm?))?.get(figure.metric)
    }

    /// The rate of an arm; `None` if no request counts.
    pub fn rate(&self, figure: Figure) -> Option<Rate> {
        match self.value(figure)? {
            Value::Rate(rate) => Some(*rate),
            _ => None,
        }
    }

    /// Every metric with a value, each followed by those of other arms that tables show.
    pub fn iter(&self) -> impl Iterator<Item = (Figure, &Value)> {
        let figures = Metric::ALL.iter().flat_map(|metric| Figure::all_of(metric));
        figures.filter_map(|figure| Some((figure, self.value(figure)?)))
    }

    /// The number of requests of an arm.
    pub fn requests_of(&self, arm: Arm) -> usize {
        let values = self.arm(arm);
        values.map_or(0, |values| values.count(&totals::REQUESTS))
    }

    /// Whether every answer of the control arm was cut at the token limit, so that none could be
    /// valid.
    pub fn are_controls_all_cut(&self) -> bool {
        self.arm(Arm::Control).is_some_and(|control| {
            let answers = control.count(&totals::COMPLETED);
            answers > 0 && control.count(&totals::TRUNCATED) == answers
        })
    }

    /// Every example of the metrics.
    pub fn examples_mut(&mut self) -> impl Iterator<Item = &mut examples::Example> {
        let findings = &mut self.findings;
        let groups = self
            .failures
            .iter_mut()
            .chain(&mut findings.reasons)
            .chain(&mut findings.not_scored)
            .chain(&mut findings.control_reasons);
        groups
            .chain([&mut findings.vllm.only_script, &mut findings.vllm.only_ours])
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

impl TokenSources {
    fn new(samples: &[Sample<'_>], options: &MetricsSettings) -> Self {
        let answers = || samples.iter().filter(|sample| sample.outcome().is_answer());
        let tokens = || answers().map(|sample| sample.tokens());
        let is_generated = options.answers == Answers::Generated;
        let output = tokens().map(|tokens| tokens.output_source);
        Self {
            input: Sources::new(tokens().map(|tokens| tokens.input_source)),
            output: Sources::new(output.filter(|_| is_generated)),
            contradictions: Contradictions::new(answers()),
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
    use super::registry::{latencies, rates};
    use super::*;
    use sobench_core::case::DATASET_TAG;
    use sobench_core::observation::TransportCause;
    use sobench_core::verdict::{NotScored, Reason, Verdict};
    use sobench_facts::testing::{TestRequest, test_request, with_cases, with_samples};

    const SECOND: u64 = 1_000_000_000;

    fn summarised(run: &[TestRequest<'_>], duration_ns: u64) -> Metrics {
        with_samples(run, |samples| {
            summarise(samples, duration_ns, &MetricsSettings::default())
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
        assert_eq!(metrics.values.number(&totals::REQUEST_THROUGHPUT), None);
        let ttft = metrics.values.summary(&latencies::TTFT);
        assert_eq!((ttft.mean, ttft.n), (None, 0));
        assert_eq!(metrics.arms().count(), 0);
        assert_eq!(metrics.values.rate(&rates::CORRECT_RATE), None);
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
                metrics.values.count(&totals::REQUESTS),
                metrics.values.count(&totals::COMPLETED),
                metrics.values.count(&totals::TRUNCATED),
                metrics.values.count(&totals::FAILED)
            ),
            (9, 2, 1, 6)
        );
        assert_eq!(
            metrics.values.count(&totals::CANCELLED),
            1,
            "cancelled requests are not failed"
        );
        assert_eq!(
            metrics.values.number(&totals::INPUT_TOKENS),
            Some(14.0),
            "input tokens of answers only, as in vLLM"
        );
        assert_eq!(
            metrics.values.number(&totals::REQUEST_THROUGHPUT),
            Some(2.0)
        );
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
        let overall = &metrics.values;
        assert_eq!(
            (
                overall.count(&totals::REQUESTS),
                overall.count(&totals::ABANDONED),
                overall.count(&totals::FAILED)
            ),
            (2, 1, 0)
        );
        assert_eq!(
            (
                overall.count(&totals::COMPLETED),
                overall.summary(&latencies::TTFT).n
            ),
            (1, 1)
        );
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
        let metrics = summarised(&run, SECOND);
        let unknown = Sources {
            server: 1,
            unknown: 1,
            ..Sources::default()
        };
        assert_eq!(metrics.token_sources.output, unknown);
        let values = metrics.values;
        for metric in [
            &totals::OUTPUT_TOKENS,
            &totals::OUTPUT_THROUGHPUT,
            &totals::TOTAL_TOKEN_THROUGHPUT,
            &totals::MAX_OUTPUT_TOKENS,
        ] {
            assert_eq!(values.number(metric), None, "{metric:?}");
        }
        assert_eq!(values.number(&totals::REQUEST_THROUGHPUT), Some(2.0));
        let counts = [&latencies::TPOT, &latencies::ITL, &latencies::ITL_PER_TOKEN];
        assert_eq!(counts.map(|metric| values.summary(metric).n), [1, 4, 2]);
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
        let latency = summarised(&run, SECOND).values;
        for (summary, n, mean) in [
            (latency.summary(&latencies::TTFT), 1, 50.0),
            (latency.summary(&latencies::TPOT), 1, 5.0),
            (latency.summary(&latencies::ITL), 2, 20.0),
            (latency.summary(&latencies::ITL_PER_TOKEN), 2, 20.0 / 3.0),
            (latency.summary(&latencies::E2EL), 1, 90.0),
            (latency.summary(&latencies::TTFT_FROM_DUE), 1, 80.0),
            (latency.summary(&latencies::E2EL_FROM_DUE), 1, 120.0),
            (latency.summary(&latencies::SCHEDULE_LAG), 1, 30.0),
        ] {
            assert_eq!(summary.n, n);
            assert!((summary.mean.unwrap() - mean).abs() < 1e-9, "{summary:?}");
            assert!(!summary.percentiles[0].enough);
        }
        assert_eq!(
            (
                latency.count(&totals::CHUNKS),
                latency.count(&totals::MULTI_TOKEN_CHUNK_ANSWERS),
                latency.count(&totals::SINGLE_CHUNK_ANSWERS)
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
        let latency = summarised(&run, SECOND).values;
        assert_eq!(
            (
                latency.summary(&latencies::TTFT).n,
                latency.summary(&latencies::E2EL).n,
                latency.summary(&latencies::TPOT).n
            ),
            (3, 3, 2)
        );
        assert_eq!(
            (
                latency.summary(&latencies::SCHEDULE_LAG).n,
                latency.count(&totals::NEVER_SENT)
            ),
            (11, 1)
        );
        assert_eq!(
            (
                latency.count(&totals::EMPTY_ANSWERS),
                latency.count(&totals::SINGLE_CHUNK_ANSWERS)
            ),
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
        let metrics = summarised(&run, 2 * SECOND);
        let found: Vec<_> = metrics
            .arms()
            .map(|(arm, values)| {
                let requests = values.count(&totals::REQUESTS);
                (arm, requests, values.summary(&latencies::TTFT).mean)
            })
            .collect();
        assert_eq!(
            found,
            [
                (Arm::Constrained, 1, Some(10.0)),
                (Arm::Control, 1, Some(40.0)),
                (Arm::Free, 2, Some(10.0))
            ]
        );
        let free = metrics.arm(Arm::Free).unwrap();
        assert_eq!(free.number(&totals::OUTPUT_THROUGHPUT), Some(3.0));
    }

    #[test]
    fn datasets_and_choices_of_tools_are_groups() {
        let invalid = TestRequest {
            verdict: Verdict::Invalid {
                reason: Reason::Choice,
            },
            chunks: vec![40, 50],
            ..test_request()
        };
        let run = [test_request(), invalid, test_request()];
        let tag = |index: usize, case: &mut sobench_core::case::Case| {
            let name = if index == 1 { "json" } else { "regex" };
            case.tags = vec!["x".into(), format!("{DATASET_TAG}{name}")];
        };
        let groups = with_cases(&run, tag, |samples| {
            summarise(samples, SECOND, &MetricsSettings::default()).groups
        });
        let found: Vec<_> = groups
            .iter()
            .map(|GroupValues { group, values }| {
                let valid = values.rate(&rates::CORRECT_RATE).unwrap();
                let ttft_ms = values.summary(&latencies::TTFT).mean;
                (group.dataset.as_deref(), (valid.hits, valid.of), ttft_ms)
            })
            .collect();
        assert_eq!(
            found,
            [
                (Some("regex"), (2, 2), Some(10.0)),
                (Some("json"), (0, 1), Some(40.0))
            ]
        );
        assert!(summarised(&run, SECOND).groups.is_empty());
    }
}
