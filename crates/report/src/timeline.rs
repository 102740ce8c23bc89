//! A run over its time, in steps of equal length: requests under way, output, and what went wrong.
//! Knows no drawing.

use super::view::Standing;
use sobench_results::metrics::Sample;

/// What happened in each step of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    pub step_s: f64,
    pub steps: Vec<Step>,
    pub unit: OutputUnit,
}

/// One step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// Most requests under way at one instant of it.
    pub in_flight: u64,
    /// Output that came in it, in the timeline's unit.
    pub output: f64,
    /// Constrained answers that ended in it and are not valid.
    pub invalid: u64,
    /// Requests that ended in it, refused or failed.
    pub no_answer: u64,
}

/// One of a step's counts.
pub type Count = fn(&Step) -> u64;

/// What output is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputUnit {
    /// Tokens, those of an answer spread evenly over its chunks.
    Tokens,
    /// Content chunks, where the tokens of some answer are not known.
    Chunks,
}

impl OutputUnit {
    /// What it is called per second.
    pub fn per_second(self) -> &'static str {
        match self {
            Self::Tokens => "output tokens/s",
            Self::Chunks => "content chunks/s",
        }
    }
}

impl Timeline {
    /// Cuts a run of `duration_ns` into so many steps; `None` where it took no time or nothing was
    /// sent.
    pub fn of(samples: &[Sample<'_>], duration_ns: u64, steps: usize) -> Option<Self> {
        let is_sent = samples.iter().any(|it| it.moments().sent_ns.is_some());
        if duration_ns == 0 || steps == 0 || !is_sent {
            return None;
        }
        let mut made = vec![Step::default(); steps];
        // In 128 bits: nanoseconds of hours times steps. What came after the end is in the last
        // step.
        let place = |at_ns: u64| {
            ((u128::from(at_ns) * steps as u128 / u128::from(duration_ns)) as usize).min(steps - 1)
        };
        let answers = || samples.iter().filter(|it| it.outcome().is_answer());
        let is_counted = answers().all(|it| it.tokens().output.is_some());
        for sample in samples {
            let timing = sample.moments();
            let tokens = sample
                .tokens()
                .output
                .filter(|_| is_counted)
                .map(|it| it as f64 / timing.chunks.max(1) as f64);
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
            match Standing::of(sample) {
                Standing::Invalid(_) => made[place(ended_ns)].invalid += 1,
                Standing::NoAnswer(_) => made[place(ended_ns)].no_answer += 1,
                Standing::Passed | Standing::Skipped(_) => {}
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

    /// Most requests under way.
    pub fn most_in_flight(&self) -> u64 {
        self.steps.iter().map(|it| it.in_flight).max().unwrap_or(0)
    }

    /// Output per second in each step.
    pub fn output_per_s(&self) -> impl Iterator<Item = f64> + '_ {
        self.steps.iter().map(|it| it.output / self.step_s)
    }

    /// The whole time, in seconds.
    pub fn duration_s(&self) -> f64 {
        self.step_s * self.steps.len() as f64
    }
}

/// The highest level of each step; one that nothing happens in keeps the level of the one before.
fn add_in_flight(
    made: &mut [Step],
    samples: &[Sample<'_>],
    duration_ns: u64,
    place: impl Fn(u64) -> usize,
) {
    let timings = samples.iter().map(|it| it.moments());
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
    // At the same instant one that ends goes first: it is not beside one that begins.
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
    use sobench_results::metrics::testing::{Made, made, with_samples};

    const MS: u64 = 1_000_000;

    fn timeline(run: &[Made<'_>], duration_ms: u64, steps: usize) -> Option<Timeline> {
        with_samples(run, |samples| {
            Timeline::of(samples, duration_ms * MS, steps)
        })
    }

    #[test]
    fn each_step_has_what_happened_in_it() {
        let invalid = Verdict::Invalid {
            reason: Reason::Choice,
        };
        let failed = Verdict::NotScored {
            why: NotScored::Failed,
        };
        let run = [
            Made {
                sent: Some(0),
                chunks: vec![5, 15, 16],
                end: Some(30),
                output: Some(6),
                ..made()
            },
            Made {
                sent: Some(12),
                chunks: vec![39],
                end: Some(39),
                output: Some(1),
                verdict: invalid,
                ..made()
            },
            Made {
                sent: Some(20),
                chunks: vec![],
                end: Some(40),
                outcome: Outcome::TimedOut {
                    limit_ms: 1,
                    limit: Default::default(),
                    stage: None,
                },
                verdict: failed,
                ..made()
            },
        ];
        let timeline = timeline(&run, 40, 4).unwrap();
        let seen: Vec<_> = timeline
            .steps
            .iter()
            .map(|it| (it.in_flight, it.output, it.invalid, it.no_answer))
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
    fn unknown_tokens_are_counted_in_chunks_and_odd_runs_are_none() {
        let run = [
            Made {
                output: None,
                ..made()
            },
            made(),
        ];
        let chunks = timeline(&run, 40, 2).unwrap();
        assert_eq!(
            (chunks.unit, chunks.steps[0].output, chunks.steps[1].output),
            (OutputUnit::Chunks, 2.0, 4.0)
        );
        let far = [Made {
            chunks: vec![u64::MAX / MS - 1],
            end: None,
            ..made()
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
