//! Validity of constrained answers by requests in flight and over time, and what explains a loss of
//! constraints.
//!
//! Answers are split in two by each of [`LossVariable::ALL`], at each of its values. Each side has its
//! own probability of a valid answer. The best split of a variable has a log likelihood, from which
//! the logarithm of the number of its splits is subtracted, since more splits fit better by chance.

use schemars::JsonSchema;
use serde::Serialize;

use super::in_flight;
use super::judgement::complied;
use sobench_core::case::{Arm, Prompt};
use sobench_facts::Sample;
use sobench_notices::notice::{LossSplit, LossVariable, ValidAnswers};

/// The smallest number of answers on each side of a split.
const MIN_SIDE: usize = 3;

/// One explanation is better than another if it makes the answers this much more likely. A loss is
/// reported if its best explanation is this much better than none, and as many times more as there
/// are variables.
const MIN_LOG_RATIO: f64 = std::f64::consts::LN_10;

/// Parts of the run, by time.
const TIME_BINS: usize = 8;

/// Validity of the constrained answers that ended normally.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ValidityPattern {
    /// By requests in flight when the request was sent, itself included: 1, 2, 3 to 4, 5 to 8 and
    /// so on; bins without answers are left out.
    pub by_in_flight: Vec<InFlightBin>,
    /// By the time of sending, in parts of equal length; parts without answers are left out.
    pub over_time: Vec<TimeBin>,
    /// Where validity falls; `None` if it does not.
    pub loss: Option<ValidityLoss>,
}

/// Answers to requests that were sent with this many in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct InFlightBin {
    pub from: u64,
    pub to: u64,
    pub valid: usize,
    pub answers: usize,
}

/// Answers to requests that were sent in a part of the run.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct TimeBin {
    pub from_s: f64,
    pub to_s: f64,
    pub valid: usize,
    pub answers: usize,
}

/// A fall of validity.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ValidityLoss {
    /// The variable of the best explanation.
    pub explained_by: LossVariable,
    /// The best explanation, and those that are not clearly worse.
    pub explanations: Vec<LossSplit>,
}

/// A constrained answer that ended normally.
struct Ended<'s, 'a> {
    sample: &'s Sample<'a>,
    in_flight: u32,
    is_valid: bool,
}

impl Ended<'_, '_> {
    fn in_flight(&self) -> u64 {
        u64::from(self.in_flight)
    }

    fn sent_ns(&self) -> u64 {
        self.sample.request_times().sent_ns.unwrap_or_default()
    }
}

impl ValidityPattern {
    /// The pattern of a run; `None` without constrained answers that ended normally.
    pub fn new(samples: &[Sample<'_>]) -> Option<Self> {
        let mut ended: Vec<Ended<'_, '_>> = Vec::with_capacity(samples.len());
        let found = samples
            .iter()
            .zip(in_flight::when_sent(samples))
            .filter(|(sample, _)| sample.arm() == Arm::Constrained)
            .filter_map(|(sample, in_flight)| {
                Some(Ended {
                    sample,
                    in_flight: u32::try_from(in_flight?).unwrap_or(u32::MAX),
                    is_valid: complied(sample)?,
                })
            });
        ended.extend(found);
        ended.sort_unstable_by_key(|answer| (answer.sent_ns(), answer.sample.case_index()));
        let over_time = time_bins(&ended)?;
        let loss = loss(samples, &ended);
        ended.sort_unstable_by_key(|answer| answer.in_flight);
        Some(Self {
            by_in_flight: in_flight_bins(&ended),
            over_time,
            loss,
        })
    }

    /// Whether any answer is invalid.
    pub fn has_invalid(&self) -> bool {
        self.over_time.iter().any(|bin| bin.valid < bin.answers)
    }
}

/// The explanations of a loss in answers in the order of sending.
fn loss(samples: &[Sample<'_>], ended: &[Ended<'_, '_>]) -> Option<ValidityLoss> {
    if ended.iter().all(|answer| answer.is_valid) {
        return None;
    }
    let mut found: Vec<(f64, LossSplit)> = Vec::new();
    for by in LossVariable::ALL {
        let numbers = numbers(by, samples, ended);
        let answers = numbers.into_iter().zip(ended).enumerate();
        let mut answers: Vec<(f64, bool, usize)> = answers
            .map(|(at, (number, answer))| (number, answer.is_valid, at))
            .collect();
        answers.sort_by(|one, other| one.0.total_cmp(&other.0));
        let Some((gain, at, [before, after])) = best_split(&answers) else {
            continue;
        };
        let is_time = by == LossVariable::Time;
        let split = LossSplit {
            by,
            up_to: answers[at - 1].0,
            from: answers[at].0,
            request: is_time.then(|| ended[answers[at].2].sample.id()),
            before,
            after,
        };
        found.push((gain, split));
    }
    // Stable, so that the order of the variables decides between equal ones.
    found.sort_by(|one, other| other.0.total_cmp(&one.0));
    let best = found.first()?.0;
    if best < MIN_LOG_RATIO + (LossVariable::ALL.len() as f64).ln() {
        return None;
    }
    let mut explanations: Vec<LossSplit> = found
        .into_iter()
        .take_while(|(gain, _)| best - gain < MIN_LOG_RATIO)
        .map(|(_, split)| split)
        .collect();
    let explained_by = explanations.first()?.by;
    // Requests in flight are one explanation, counted at two instants.
    let same = match explained_by {
        LossVariable::InFlight => Some(LossVariable::InFlightAtStart),
        LossVariable::InFlightAtStart => Some(LossVariable::InFlight),
        _ => None,
    };
    explanations.retain(|split| Some(split.by) != same);
    Some(ValidityLoss {
        explained_by,
        explanations,
    })
}

/// The values of a variable, one for each answer in the order of sending.
fn numbers(by: LossVariable, samples: &[Sample<'_>], ended: &[Ended<'_, '_>]) -> Vec<f64> {
    let of_requests = |numbers: Vec<Option<f64>>| {
        // Answers are in the order of sending, requests in that of the plan.
        let places = samples.iter().map(Sample::case_index).zip(numbers);
        let by_index: std::collections::HashMap<usize, Option<f64>> = places.collect();
        let number = |answer: &Ended<'_, '_>| by_index[&answer.sample.case_index()];
        ended
            .iter()
            .map(|answer| number(answer).unwrap_or(0.0))
            .collect()
    };
    match by {
        LossVariable::Tools => {
            let tools = ended
                .iter()
                .map(|answer| answer.sample.constraint()?.tools());
            tools
                .map(|tools| tools.map_or(0, |tools| tools.tools.len()) as f64)
                .collect()
        }
        LossVariable::PromptBytes => {
            let prompts = ended
                .iter()
                .map(|answer| &answer.sample.request_input().prompt);
            prompts.map(|prompt| bytes_of(prompt) as f64).collect()
        }
        LossVariable::InFlight => ended
            .iter()
            .map(|answer| answer.in_flight() as f64)
            .collect(),
        LossVariable::InFlightAtStart => of_requests(in_flight::when_started(samples)),
        LossVariable::IdleS => of_requests(in_flight::idle_before_s(samples)),
        LossVariable::Time => (0..ended.len()).map(|at| at as f64).collect(),
    }
}

/// Bytes of the texts of a prompt.
fn bytes_of(prompt: &Prompt) -> usize {
    match prompt {
        Prompt::Text(text) | Prompt::Body(text) => text.len(),
        Prompt::Messages(messages) => messages
            .iter()
            .map(|message| match &message.content {
                serde_json::Value::String(text) => text.len(),
                content => content
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|part| part["text"].as_str().map_or(0, str::len))
                    .sum(),
            })
            .sum(),
        Prompt::Audio(_) => 0,
        Prompt::Ranking { query, documents } => {
            query.len()
                + documents
                    .iter()
                    .map(|document| document.len())
                    .sum::<usize>()
        }
    }
}

/// The split after which validity falls, and that explains answers in the order of a number best:
/// its gain in log likelihood over no split, less the logarithm of the number of splits; the index
/// of the first answer after it; and both sides.
fn best_split(answers: &[(f64, bool, usize)]) -> Option<(f64, usize, [ValidAnswers; 2])> {
    let all = answers.iter().filter(|(_, is_valid, _)| *is_valid).count();
    let without = log_likelihood(all, answers.len());
    let (mut splits, mut valid_before) = (0_usize, 0);
    let mut best: Option<(f64, usize, [ValidAnswers; 2])> = None;
    for (at, pair) in (1..).zip(answers.windows(2)) {
        valid_before += usize::from(pair[0].1);
        if pair[0].0 == pair[1].0 {
            continue;
        }
        splits += 1;
        let sides = [(valid_before, at), (all - valid_before, answers.len() - at)]
            .map(|(valid, answers)| ValidAnswers { valid, answers });
        let [before, after] = sides.map(|side| side.valid as f64 / side.answers as f64);
        if after >= before || sides.iter().any(|side| side.answers < MIN_SIDE) {
            continue;
        }
        let with = sides.map(|side| log_likelihood(side.valid, side.answers));
        let gain = with[0] + with[1] - without;
        if best.as_ref().is_none_or(|(most, ..)| gain > *most) {
            best = Some((gain, at, sides));
        }
    }
    best.map(|(gain, at, sides)| (gain - (splits as f64).ln(), at, sides))
}

/// The log likelihood of `hits` in `of` trials with the best probability.
fn log_likelihood(hits: usize, of: usize) -> f64 {
    let term = |count: usize| {
        if count == 0 {
            0.0
        } else {
            count as f64 * (count as f64 / of as f64).ln()
        }
    };
    term(hits) + term(of - hits)
}

/// Bins of answers in the order of requests in flight.
fn in_flight_bins(ended: &[Ended<'_, '_>]) -> Vec<InFlightBin> {
    let mut bins: Vec<InFlightBin> = Vec::new();
    for answer in ended {
        if bins.last().is_none_or(|bin| answer.in_flight() > bin.to) {
            let (from, to) = in_flight::bin(answer.in_flight());
            bins.push(InFlightBin {
                from,
                to,
                valid: 0,
                answers: 0,
            });
        }
        if let Some(bin) = bins.last_mut() {
            bin.answers += 1;
            bin.valid += usize::from(answer.is_valid);
        }
    }
    bins
}

/// Bins of answers in the order of sending; `None` without answers.
fn time_bins(ended: &[Ended<'_, '_>]) -> Option<Vec<TimeBin>> {
    let (first, last) = (ended.first()?.sent_ns(), ended.last()?.sent_ns());
    let width_ns = ((last - first) / TIME_BINS as u64).saturating_add(1);
    let mut bins: Vec<TimeBin> = Vec::new();
    let mut end_ns = first;
    for answer in ended {
        if answer.sent_ns() >= end_ns {
            let from_ns = first + (answer.sent_ns() - first) / width_ns * width_ns;
            end_ns = from_ns + width_ns;
            bins.push(TimeBin {
                from_s: from_ns as f64 / 1e9,
                to_s: end_ns as f64 / 1e9,
                valid: 0,
                answers: 0,
            });
        }
        if let Some(bin) = bins.last_mut() {
            bin.answers += 1;
            bin.valid += usize::from(answer.is_valid);
        }
    }
    Some(bins)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use sobench_core::constraint::Constraint;
    use sobench_core::tools::ToolSet;
    use sobench_core::verdict::{Reason, Verdict};
    use sobench_facts::RequestTable;
    use sobench_facts::testing::{TestRequest, test_request, with_samples};
    use sobench_testkit::random::Random;

    /// A request from `sent` to `end` that is valid or not.
    fn request(sent: u64, end: u64, is_valid: bool) -> TestRequest<'static> {
        TestRequest {
            sent: Some(sent),
            chunks: vec![end],
            end: Some(end),
            verdict: if is_valid {
                Verdict::Valid
            } else {
                Verdict::Invalid {
                    reason: Reason::Choice,
                }
            },
            ..test_request()
        }
    }

    /// Waves of 16 requests: at each wave, one to sixteen are in flight.
    fn waves(is_valid: impl Fn(u64, u64) -> bool) -> Vec<TestRequest<'static>> {
        let members = (0..5_u64).flat_map(|wave| (0..16_u64).map(move |place| (wave, place)));
        members
            .map(|(wave, place)| {
                let start = wave * 1000;
                request(start + place, start + 500 + place, is_valid(wave, place))
            })
            .collect()
    }

    fn pattern(run: &[TestRequest<'_>]) -> ValidityPattern {
        with_samples(run, ValidityPattern::new).unwrap()
    }

    fn valid(valid: usize, answers: usize) -> ValidAnswers {
        ValidAnswers { valid, answers }
    }

    #[test]
    fn loss_above_a_number_in_flight_is_told_from_a_loss_in_time() {
        let found = pattern(&waves(|_, place| place < 8));
        let loss = found.loss.clone().unwrap();
        assert_eq!(loss.explained_by, LossVariable::InFlight, "{loss:?}");
        let [split] = &loss.explanations[..] else {
            panic!("{loss:?}");
        };
        assert_eq!(
            (split.up_to, split.from, split.before, split.after),
            (8.0, 9.0, valid(40, 40), valid(0, 40))
        );
        let bins: Vec<_> = found
            .by_in_flight
            .iter()
            .map(|bin| (bin.from, bin.to, bin.valid, bin.answers))
            .collect();
        assert_eq!(
            bins,
            [
                (1, 1, 5, 5),
                (2, 2, 5, 5),
                (3, 4, 10, 10),
                (5, 8, 20, 20),
                (9, 16, 0, 40)
            ]
        );
        let loss = pattern(&waves(|wave, _| wave < 2)).loss.unwrap();
        assert_eq!(loss.explained_by, LossVariable::Time, "{loss:?}");
        let split = &loss.explanations[0];
        assert_eq!(
            (split.request.as_deref(), split.before, split.after),
            (Some("case-32"), valid(32, 32), valid(0, 48))
        );
    }

    /// Without a cap, or in the first filling of the slots, the number in flight rises with time.
    #[test]
    fn loss_in_a_single_burst_has_both_explanations() {
        let run: Vec<TestRequest<'_>> = (0..40)
            .map(|index| request(index, 1000 + index, index < 8))
            .collect();
        let loss = pattern(&run).loss.unwrap();
        let by: Vec<LossVariable> = loss.explanations.iter().map(|split| split.by).collect();
        assert_eq!(by, [LossVariable::InFlight, LossVariable::Time], "{loss:?}");
        assert_eq!(loss.explanations[0].up_to, 8.0);
        assert_eq!(loss.explanations[1].request.as_deref(), Some("case-8"));
    }

    /// All are sent at once, and those that are answered while many wait are not constrained.
    #[test]
    fn loss_while_many_wait_is_found_in_a_single_burst() {
        let run: Vec<TestRequest<'_>> = (0..40)
            .map(|index| request(0, 1000 + 10 * index, index >= 32))
            .collect();
        let loss = pattern(&run).loss.unwrap();
        let split = &loss.explanations[0];
        assert_eq!(
            (loss.explained_by, split.up_to, split.before, split.after),
            (
                LossVariable::InFlightAtStart,
                8.0,
                valid(8, 8),
                valid(0, 32)
            ),
            "{loss:?}"
        );
    }

    /// One request at a time, after a pause of 5 s every `every` requests, with 3 or 24 tools and a
    /// prompt of 100 or 10,000 bytes.
    fn varied(len: u64, is_valid: impl Fn(bool, usize, usize) -> bool) -> ValidityPattern {
        let mut at = 0;
        let (mut table, mut verdicts) = (RequestTable::default(), Vec::new());
        for index in 0..len {
            let is_late = index % 3 == 1;
            let tools = if index * 7919 % 31 < 12 { 3 } else { 24 };
            let bytes = if index * 104_729 % 37 < 15 {
                100
            } else {
                10_000
            };
            at += if is_late { 5000 } else { 1 };
            let request = request(at, at + 20, is_valid(is_late, tools, bytes));
            at += 20;
            let (mut case, observation, verdict) = request.parts(index as usize);
            let tool = |tool: usize| serde_json::json!({"type": "function", "function": {"name": format!("f{tool}")}});
            let members = serde_json::json!({"tools": (0..tools).map(tool).collect::<Vec<_>>()});
            let set = ToolSet::from_members(members.as_object().unwrap()).unwrap();
            case.constraint = Some(Arc::new(Constraint::Tools(set.into())));
            case.prompt = Prompt::Text("a".repeat(bytes).into());
            assert!(table.push(&case, &observation, 0));
            verdicts.push(request.judged(verdict, &observation));
        }
        for (index, verdict) in verdicts.into_iter().enumerate() {
            table.judge(index, verdict);
        }
        ValidityPattern::new(&table.samples()).unwrap()
    }

    #[test]
    fn loss_goes_with_tools_prompts_or_a_pause() {
        type IsValid = fn(bool, usize, usize) -> bool;
        let cases: [(IsValid, LossVariable, &str); 3] = [
            (
                |_, tools, _| tools < 12,
                LossVariable::Tools,
                "with more than 3 tools",
            ),
            (
                |_, _, bytes| bytes < 4096,
                LossVariable::PromptBytes,
                "with prompts above 100 bytes",
            ),
            (
                |is_late, _, _| !is_late,
                LossVariable::IdleS,
                "after 5.0 s or more without a request",
            ),
        ];
        for (is_valid, by, text) in cases {
            for len in [12, 60] {
                let loss = varied(len, is_valid).loss.unwrap();
                assert_eq!(
                    (loss.explained_by, loss.explanations[0].to_string().as_str()),
                    (by, text),
                    "{loss:?}"
                );
            }
        }
        assert_eq!(varied(60, |_, _, _| true).loss, None);
    }

    #[test]
    fn partial_loss_is_found_and_chance_is_not() {
        let partial = waves(|wave, place| wave < 3 || place % 2 == 0);
        assert_eq!(
            pattern(&partial).loss.unwrap().explained_by,
            LossVariable::Time
        );
        // Every fourth, every third, and a rise instead of a fall.
        for is_valid in [
            (|wave, place| (wave * 5 + place) % 4 != 0) as fn(u64, u64) -> bool,
            |wave, place| (wave * 16 + place) % 3 != 0,
            |wave, _| wave > 2,
            |_, _| true,
            |_, _| false,
        ] {
            assert_eq!(pattern(&waves(is_valid)).loss, None);
        }
        let invalid: usize = pattern(&waves(|wave, place| (wave * 5 + place) % 4 != 0))
            .over_time
            .iter()
            .map(|bin| bin.answers - bin.valid)
            .sum();
        assert_eq!(invalid, 20);
        assert_eq!(with_samples(&[], ValidityPattern::new), None);
        let mut random = Random(7);
        let false_alarms = (0..400).filter(|run| {
            let share = 20 + 25 * (run % 4);
            let mut draws = (0..200)
                .map(|_| random.below(100) < share)
                .collect::<Vec<_>>();
            let drawn = std::cell::RefCell::new(&mut draws);
            varied(20 + run % 100, |_, _, _| drawn.borrow_mut().pop().unwrap())
                .loss
                .is_some()
        });
        let false_alarms = false_alarms.count();
        assert!(false_alarms <= 4, "{false_alarms} of 400");
    }
}
