//! A run over time, in steps of equal length: concurrent requests, output and failures.

use super::view::TestStatus;
use sobench_facts::Sample;

/// The steps of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    pub step_s: f64,
    pub steps: Vec<Step>,
    pub unit: OutputUnit,
}

/// One step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// Most concurrent requests in the step.
    pub in_flight: u64,
    /// Output received in the step, in the timeline's unit.
    pub output: f64,
    /// Invalid constrained answers that ended in the step.
    pub invalid: u64,
    /// Requests that ended in the step refused or failed.
    pub no_answer: u64,
}

/// A count of a step.
pub type Count = fn(&Step) -> u64;

/// The unit of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputUnit {
    /// Tokens; those of an answer are spread evenly over its chunks.
    Tokens,
    /// Content chunks, where the token count of an answer is unknown.
    Chunks,
}

impl OutputUnit {
    /// The unit per second.
    pub fn per_second(self) -> &'static str {
        match self {
            Self::Tokens => "output tokens/s",
            Self::Chunks => "content chunks/s",
        }
    }
}

impl Timeline {
    /// Cuts a run of `duration_ns` into `steps` steps; `None` where the run has no duration or
    /// nothing was sent.
    pub fn new(samples: &[Sample<'_>], duration_ns: u64, steps: usize) -> Option<Self> {
        let is_sent = samples
            .iter()
            .any(|sample| sample.request_times().sent_ns.is_some());
        if duration_ns == 0 || steps == 0 || !is_sent {
            return None;
        }
        let mut made = vec![Step::default(); steps];
        // In 128 bits: nanoseconds of hours times steps. Events after the end are in the last step.
        let place = |at_ns: u64| {
            ((u128::from(at_ns) * steps as u128 / u128::from(duration_ns)) as usize).min(steps - 1)
        };
        let answers = || samples.iter().filter(|sample| sample.outcome().is_answer());
        let is_counted = answers().all(|sample| sample.tokens().output.is_some());
        for sample in samples {
            let timing = sample.request_times();
            let tokens = sample
                .tokens()
                .output
                .filter(|_| is_counted)
                .map(|tokens| tokens as f64 / timing.chunks.max(1) as f64);
            let weight = if is_counted {
                tokens.unwrap_or(0.0)
            } else {
                1.0
            };
            if sample.outcome().is_answer() {
                sample
                    .chunks_ns()
                    .iter()
                    .for_each(|at_ns| made[place(*at_ns)].output += weight);
            }
            let ended_ns = timing.end_ns.or(timing.sent_ns).unwrap_or(timing.due_ns);
            match TestStatus::new(sample) {
                TestStatus::Invalid(_) => made[place(ended_ns)].invalid += 1,
                TestStatus::NoAnswer(_) => made[place(ended_ns)].no_answer += 1,
                TestStatus::Passed | TestStatus::Skipped(_) => {}
            }
        }
        add_in_flight(&mut made, samples, duration_ns, place);
        let unit = if is_counted {
            OutputUnit::Tokens
        } else {
            OutputUnit::Chunks
        };
        Some(Self {
            step_s: duration_ns as f64 / 1e9 / steps as f64,
            steps: made,
            unit,
        })
    }

    /// Most concurrent requests.
    pub fn most_in_flight(&self) -> u64 {
        self.steps
            .iter()
            .map(|step| step.in_flight)
            .max()
            .unwrap_or(0)
    }

    /// Output per second in each step.
    pub fn output_per_s(&self) -> impl Iterator<Item = f64> + '_ {
        self.steps.iter().map(|step| step.output / self.step_s)
    }

    /// The duration, in seconds.
    pub fn duration_s(&self) -> f64 {
        self.step_s * self.steps.len() as f64
    }
}

/// The highest level of each step. A step without events keeps the level of the one before.
fn add_in_flight(
    made: &mut [Step],
    samples: &[Sample<'_>],
    duration_ns: u64,
    place: impl Fn(u64) -> usize,
) {
    let timings = samples.iter().map(|sample| sample.request_times());
    let mut changes: Vec<(u64, i64)> = timings
        .filter_map(|timing| {
            let sent_ns = timing.sent_ns?;
            let end_ns = timing
                .end_ns
                .or(timing.last_content_ns)
                .unwrap_or(duration_ns)
                .max(sent_ns.saturating_add(1));
            Some([(sent_ns, 1), (end_ns, -1)])
        })
        .flatten()
        .collect();
    // At the same instant an end comes before a start: the two requests are not concurrent.
    changes.sort_unstable();
    let (mut level, mut next) = (0_i64, 0);
    for (step, made) in made.iter_mut().enumerate() {
        let mut highest = level;
        while let Some((_, change)) = changes.get(next).filter(|(at_ns, _)| place(*at_ns) <= step) {
            level += change;
            highest = highest.max(level);
            next += 1;
        }
        made.in_flight = u64::try_from(highest).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::observation::Outcome;
    use sobench_core::verdict::{NotScored, Reason, Verdict};
    use sobench_facts::testing::{TestRequest, test_request, with_samples};

    const MS: u64 = 1_000_000;

    fn timeline(run: &[TestRequest<'_>], duration_ms: u64, steps: usize) -> Option<Timeline> {
        with_samples(run, |samples| {
            Timeline::new(samples, duration_ms * MS, steps)
        })
    }

    #[test]
    fn each_step_counts_its_events() {
        let invalid = Verdict::Invalid {
            reason: Reason::Choice,
        };
        let failed = Verdict::NotScored {
            why: NotScored::Failed,
        };
        let run = [
            TestRequest {
                sent: Some(0),
                chunks: vec![5, 15, 16],
                end: Some(30),
                output: Some(6),
                ..test_request()
            },
            TestRequest {
                sent: Some(12),
                chunks: vec![39],
                end: Some(39),
                output: Some(1),
                verdict: invalid,
                ..test_request()
            },
            TestRequest {
                sent: Some(20),
                chunks: vec![],
                end: Some(40),
                outcome: Outcome::TimedOut {
                    limit_ms: 1,
                    limit: Default::default(),
                    stage: None,
                },
                verdict: failed,
                ..test_request()
            },
        ];
        let timeline = timeline(&run, 40, 4).unwrap();
        let seen: Vec<_> = timeline
            .steps
            .iter()
            .map(|step| (step.in_flight, step.output, step.invalid, step.no_answer))
            .collect();
        assert_eq!(
            seen,
            [
                (1, 2.0, 0, 0),
                (2, 4.0, 0, 0),
                (3, 0.0, 0, 0),
                (3, 1.0, 1, 1)
            ]
        );
        assert_eq!(
            (timeline.most_in_flight(), timeline.unit),
            (3, OutputUnit::Tokens)
        );
        assert_eq!(timeline.output_per_s().next(), Some(200.0));
    }

    #[test]
    fn unknown_tokens_are_counted_in_chunks_and_empty_runs_are_none() {
        let run = [
            TestRequest {
                output: None,
                ..test_request()
            },
            test_request(),
        ];
        let chunks = timeline(&run, 40, 2).unwrap();
        assert_eq!(
            (chunks.unit, chunks.steps[0].output, chunks.steps[1].output),
            (OutputUnit::Chunks, 2.0, 4.0)
        );
        let far = [TestRequest {
            chunks: vec![u64::MAX / MS - 1],
            end: None,
            ..test_request()
        }];
        assert!(
            (timeline(&far, 40, 3).unwrap().steps[2].output - 3.0).abs() < 1e-9,
            "late is last"
        );
        for (run, duration_ms, steps) in [(&run[..], 0, 4), (&run, 40, 0), (&[], 40, 4)] {
            assert_eq!(timeline(run, duration_ms, steps), None);
        }
    }
}
