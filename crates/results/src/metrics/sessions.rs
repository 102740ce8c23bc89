//! Sessions: the figures of each turn, and until when the load was full.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use sobench_facts::Sample;
use sobench_plan::metrics::MetricsSettings;
use sobench_statistics::{Rate, mean};

use super::registry::{Metric, RunSamples, Values, latencies, rates, totals};
use super::session_ends::{SessionEnd, ends, number, rate};

/// The most turns in the table; later ones are together.
const MAX_TURNS: u32 = 12;

/// The sessions of a run.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Sessions {
    pub sessions: usize,
    /// Sessions that the end of the run cut off. They do not count in rates.
    pub cut_off: usize,
    /// Sessions with an answer to every turn.
    pub finished: Option<Rate>,
    /// Finished sessions without an invalid answer, of those with a judged or a failed turn.
    pub valid: Option<Rate>,
    /// Finished sessions whose last answer is right, of those whose last turn has a reference.
    pub right: Option<Rate>,
    pub turns: Vec<TurnFigures>,
    /// `None` if no session has ended.
    pub full_load: Option<FullLoad>,
}

/// The requests with a number in their session.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct TurnFigures {
    /// The number, from 1.
    pub turn: u32,
    /// Whether requests with higher numbers are here too.
    pub and_later: bool,
    /// Requests that were sent.
    pub requests: usize,
    pub valid: Option<Rate>,
    pub right: Option<Rate>,
    pub p50_ttft_ms: Option<f64>,
    pub mean_input_tokens: Option<f64>,
    /// Mean of the answers whose server reports it.
    pub mean_cached_tokens: Option<f64>,
    pub mean_output_tokens: Option<f64>,
    /// Mean output tokens as a percentage of the mean tokens of the recorded answers.
    pub output_percent_of_reference: Option<f64>,
}

/// The start of the run, in which every session that ended was replaced: until the first session ended
/// after the last one had started. As the performance window of mlcommons/endpoints.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct FullLoad {
    pub until_s: f64,
    /// Turns that were sent in it, of all that were sent.
    pub turns: usize,
    pub of_turns: usize,
    /// Output tokens per second of the answers that ended in it; `None` if a count is unknown.
    pub output_throughput: Option<f64>,
    /// Of the answers to these turns.
    pub p50_ttft_ms: Option<f64>,
    pub p50_tpot_ms: Option<f64>,
}

impl Sessions {
    /// `None` without sessions.
    pub(super) fn new(samples: &[Sample<'_>], options: &MetricsSettings) -> Option<Self> {
        let all: Vec<&Sample<'_>> = samples
            .iter()
            .filter(|sample| sample.turn().is_some())
            .collect();
        let ends = ends(&all);
        if ends.is_empty() {
            return None;
        }
        let counted = || ends.iter().filter(|end| !end.is_cut_off);
        let mut by_turn: BTreeMap<u32, Vec<&Sample<'_>>> = BTreeMap::new();
        for sample in all.iter().filter(|sample| sample.sent_ns().is_some()) {
            by_turn
                .entry(number(sample).min(MAX_TURNS))
                .or_default()
                .push(sample);
        }
        let last = all.iter().map(|sample| number(sample)).max();
        Some(Self {
            sessions: ends.len(),
            cut_off: ends.len() - counted().count(),
            finished: rate(counted().map(|end| end.is_finished)),
            valid: rate(counted().filter_map(|end| end.is_valid)),
            right: rate(counted().filter_map(|end| end.is_right)),
            turns: by_turn
                .iter()
                .map(|(turn, members)| TurnFigures {
                    and_later: *turn == MAX_TURNS && last > Some(MAX_TURNS),
                    ..TurnFigures::new(*turn, members, options)
                })
                .collect(),
            full_load: FullLoad::new(&ends, &all, options),
        })
    }

    /// The known rates of sessions.
    pub fn rates(&self) -> impl Iterator<Item = (&'static Metric, Rate)> {
        let rates = [self.finished, self.valid, self.right];
        let known = totals::OF_SESSIONS.into_iter().zip(rates);
        known.filter_map(|(metric, rate)| Some((metric, rate?)))
    }
}

impl TurnFigures {
    fn new(turn: u32, members: &[&Sample<'_>], options: &MetricsSettings) -> Self {
        let answers = || members.iter().filter(|sample| sample.outcome().is_answer());
        let mean_of = |value: &dyn Fn(&Sample<'_>) -> Option<u64>| {
            let values = answers().filter_map(|sample| value(sample));
            mean(&values.map(|value| value as f64).collect::<Vec<_>>())
        };
        let run = RunSamples::new(members, 0, options, None);
        let metrics = [&rates::CORRECT_RATE, &rates::ACCURACY, &latencies::TTFT];
        let values = Values::selected(&metrics, &run);
        let pairs = answers().filter_map(|sample| {
            let reference = sample
                .turn()?
                .reference_tokens
                .filter(|tokens| *tokens > 0)?;
            Some((sample.tokens().output?, u64::from(reference)))
        });
        let (output, reference) = pairs.fold((0, 0), |(output, reference), pair| {
            (output + pair.0, reference + pair.1)
        });
        Self {
            turn,
            and_later: false,
            requests: members.len(),
            valid: values.rate(&rates::CORRECT_RATE),
            right: values.rate(&rates::ACCURACY),
            p50_ttft_ms: values.summary(&latencies::TTFT).median,
            mean_input_tokens: mean_of(&|sample| sample.tokens().input),
            mean_cached_tokens: mean_of(&|sample| sample.cached_tokens()),
            mean_output_tokens: mean_of(&|sample| sample.tokens().output),
            output_percent_of_reference: (reference > 0)
                .then(|| 100.0 * output as f64 / reference as f64),
        }
    }
}

impl FullLoad {
    fn new(
        ends: &[SessionEnd],
        samples: &[&Sample<'_>],
        options: &MetricsSettings,
    ) -> Option<Self> {
        let last_start = ends.iter().filter_map(|end| end.first_sent_ns).max()?;
        let session_ends = ends.iter().filter_map(|end| end.last_end_ns);
        let until_ns = session_ends.filter(|end| *end > last_start).min()?;
        let was_until = |ns: Option<u64>| ns.is_some_and(|ns| ns <= until_ns);
        let sent = samples.iter().copied();
        let sent: Vec<&Sample<'_>> = sent.filter(|sample| was_until(sample.sent_ns())).collect();
        let ended = samples
            .iter()
            .filter(|sample| sample.outcome().is_answer() && was_until(sample.end_ns()));
        let tokens: Option<u64> = ended.map(|sample| sample.tokens().output).sum();
        let until_s = until_ns as f64 / 1e9;
        let run = RunSamples::new(&sent, 0, options, None);
        let values = Values::selected(&[&latencies::TTFT, &latencies::TPOT], &run);
        let all_sent = samples.iter().filter(|sample| sample.sent_ns().is_some());
        Some(Self {
            until_s,
            turns: sent.len(),
            of_turns: all_sent.count(),
            output_throughput: tokens
                .filter(|_| until_ns > 0)
                .map(|tokens| tokens as f64 / until_s),
            p50_ttft_ms: values.summary(&latencies::TTFT).median,
            p50_tpot_ms: values.summary(&latencies::TPOT).median,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use sobench_core::case::Turn;
    use sobench_core::observation::Outcome;
    use sobench_core::verdict::{NotScored, Reason, Verdict};
    use sobench_facts::testing::{TestRequest, test_request, with_cases};

    /// Sessions of two turns.
    fn figures(run: &[TestRequest<'_>]) -> Sessions {
        let change = |index: usize, case: &mut sobench_core::case::Case| {
            case.turn = Some(Arc::new(Turn {
                session: (index / 2) as u32,
                turn: (index % 2) as u32 + 1,
                of: 2,
                reference_tokens: Some(5),
                ..Turn::default()
            }));
        };
        with_cases(run, change, |samples| {
            Sessions::new(samples, &MetricsSettings::default()).unwrap()
        })
    }

    fn at(sent: u64, end: u64) -> TestRequest<'static> {
        TestRequest {
            due: sent,
            sent: Some(sent),
            chunks: vec![sent + 1],
            end: Some(end),
            output: Some(10),
            ..test_request()
        }
    }

    fn unsent() -> TestRequest<'static> {
        TestRequest {
            outcome: Outcome::Cancelled,
            verdict: Verdict::NotScored {
                why: NotScored::Cancelled,
            },
            sent: None,
            chunks: vec![],
            end: None,
            output: None,
            ..test_request()
        }
    }

    #[test]
    fn sessions_are_finished_valid_or_cut_off() {
        let failed = TestRequest {
            outcome: Outcome::StreamError {
                message: "broken".to_owned(),
            },
            verdict: Verdict::NotScored {
                why: NotScored::Failed,
            },
            ..at(0, 10)
        };
        let invalid = TestRequest {
            verdict: Verdict::Invalid {
                reason: Reason::Choice,
            },
            ..at(20, 30)
        };
        let run = [
            at(0, 10),
            at(20, 30),
            at(0, 10),
            invalid,
            failed,
            unsent(),
            at(0, 10),
            unsent(),
            unsent(),
            unsent(),
        ];
        let found = figures(&run);
        let counts = |rate: Option<Rate>| rate.map(|rate| (rate.hits, rate.of));
        assert_eq!((found.sessions, found.cut_off), (4, 1));
        assert_eq!(counts(found.finished), Some((2, 3)));
        assert_eq!(
            counts(found.valid),
            Some((1, 3)),
            "a session with a failed turn is not valid"
        );
        assert_eq!(found.right, None);
        let turns: Vec<_> = found
            .turns
            .iter()
            .map(|turn| (turn.turn, turn.requests))
            .collect();
        assert_eq!(turns, [(1, 4), (2, 2)]);
        assert_eq!(found.turns[1].output_percent_of_reference, Some(200.0));
    }

    #[test]
    fn the_load_is_full_until_a_session_is_not_replaced() {
        // The second session ends at 50 ms, and the third starts then; the first ends at 60 ms.
        let run = [
            at(0, 20),
            at(30, 60),
            at(0, 20),
            at(30, 50),
            at(50, 70),
            at(80, 90),
        ];
        let full = figures(&run).full_load.unwrap();
        assert_eq!((full.turns, full.of_turns), (5, 6));
        assert!((full.until_s - 0.06).abs() < 1e-12, "{full:?}");
        // The answers to the five turns start after 1 ms; the turn at 80 ms is late.
        assert_eq!(full.p50_ttft_ms, Some(1.0));
    }
}
