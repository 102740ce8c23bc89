//! Masks that failed under load: classes of answers to canary requests, with what they go with.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::in_flight;
use sobench_core::nonce::Nonce;
use sobench_core::observation::Outcome;
use sobench_core::verdict::Verdict;
use sobench_facts::Sample;
use sobench_judge::canary::CanaryAnswer;
pub use sobench_judge::canary::{CanaryClass, Excerpt};
use sobench_statistics::{RankCorrelation, Rate, ShareTrend, mean};

/// Maximum number of findings in a report. The run log has all of them.
pub const MAX_FINDINGS: usize = 100;

/// Parts of the run, by time.
const TIME_BINS: u64 = 8;

/// A shift under load has at most this p-value, and at least this change, in percent.
const MAX_P_VALUE: f64 = 0.01;
const MIN_CHANGE_PERCENT: f64 = 10.0;

/// The smallest number of answers at low load, and at high load.
const MIN_SIDE: usize = 10;

/// What the answers to the canary requests of a run show.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Canaries {
    /// Answers with a class.
    pub answers: usize,
    /// Answers by class, of all classes.
    pub classes: Vec<ClassRate>,
    /// By requests in flight when the request was sent, itself included.
    pub by_in_flight: Vec<CanaryGroup>,
    /// By the rank of the request in the order of sending, among the requests in flight when its
    /// answer started.
    pub by_rank: Vec<CanaryGroup>,
    pub by_kind: Vec<CanaryGroup>,
    /// By the time of sending, in parts of equal length.
    pub over_time: Vec<CanaryGroup>,
    /// Tests of the shares of classes for a trend.
    pub trends: Vec<CanaryTrend>,
    /// Length and validity by requests in flight.
    pub shifts: Vec<LoadShift>,
    /// The first findings, in the order of sending.
    pub findings: Vec<CanaryFinding>,
}

/// The share of a class among the answers.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ClassRate {
    pub class: CanaryClass,
    pub rate: Rate,
}

/// The answers of a group.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct CanaryGroup {
    /// A number, a range such as `3 to 4`, or a kind of constraint.
    pub group: String,
    pub answers: usize,
    pub fine: Rate,
    pub swapped: Rate,
    pub mask_off: Rate,
    pub restarted: Rate,
    pub failed_open: Rate,
}

/// The quantity with which a share may have a trend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TrendBy {
    /// Requests in flight when the request was sent.
    InFlight,
    /// The time of sending.
    Time,
}

/// The test of Cochran and Armitage of the share of a class.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct CanaryTrend {
    pub class: CanaryClass,
    pub by: TrendBy,
    /// Above 0 if the share rises.
    pub z: f64,
    pub p_value: f64,
}

/// A property of answers that may change with the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shifted {
    /// The tokens of an answer, in percent of the mean of its kind and size.
    Length,
    /// Whether an answer is valid, in percent.
    Validity,
}

/// A property of answers at low and at high load, and its rank correlation with the load.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct LoadShift {
    pub of: Shifted,
    pub answers: usize,
    /// Kendall's tau-b with the requests in flight when the request was sent.
    pub tau: f64,
    pub p_value: f64,
    /// The middle between the fewest and the most requests in flight. Low load is up to it.
    pub middle: f64,
    /// The means at low and at high load.
    pub low_percent: f64,
    pub high_percent: f64,
    /// Whether the correlation is significant and the difference is not small.
    pub is_shift: bool,
}

/// An answer that shows a failure of its mask.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct CanaryFinding {
    pub class: CanaryClass,
    pub case_id: String,
    pub kind: &'static str,
    /// The byte of the answer at which it leaves the language of its constraint.
    pub byte: usize,
    pub excerpt: Option<Excerpt>,
    /// Requests in flight when it was sent, itself included.
    pub in_flight: Option<u64>,
    /// Its rank among the requests in flight when its answer started.
    pub rank: Option<u64>,
    /// The request whose nonce is in the answer.
    pub partner: Option<CanaryPartner>,
}

/// The request whose nonce is in the answer to another one.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct CanaryPartner {
    pub case_id: String,
    pub kind: &'static str,
    /// How long both were in flight.
    pub overlap_ms: f64,
    /// Requests in flight when it was sent, itself included.
    pub in_flight: Option<u64>,
    /// Its rank among the requests in flight when its answer started.
    pub rank: Option<u64>,
    /// The class of its own answer; `None` without one.
    pub class: Option<CanaryClass>,
}

/// An answer with its class, and the load at which it was made.
struct Classified<'s, 'a> {
    sample: &'s Sample<'a>,
    answer: &'a CanaryAnswer,
    kind: &'static str,
    sent_ns: u64,
    in_flight: u64,
    rank: Option<u64>,
}

impl Canaries {
    /// `None` without answers to canaries.
    pub fn new(samples: &[Sample<'_>]) -> Option<Self> {
        if samples.iter().all(|sample| sample.canary().is_none()) {
            return None;
        }
        let levels = in_flight::when_sent(samples);
        let ranks = in_flight::ranks(samples);
        let mut answers: Vec<Classified<'_, '_>> = samples
            .iter()
            .zip(levels.iter().zip(&ranks))
            .filter_map(|(sample, (level, rank))| {
                Some(Classified {
                    sample,
                    answer: sample.canary()?,
                    kind: sample.constraint()?.kind(),
                    sent_ns: sample.request_times().sent_ns?,
                    in_flight: (*level)?,
                    rank: *rank,
                })
            })
            .collect();
        answers.sort_by_key(|answer| answer.sent_ns);
        let all: Vec<&Classified<'_, '_>> = answers.iter().collect();
        let range = |(from, to): (u64, u64)| {
            if from == to {
                from.to_string()
            } else {
                format!("{from} to {to}")
            }
        };
        let first_ns = answers.first()?.sent_ns;
        let width_ns = (answers.last()?.sent_ns - first_ns) / TIME_BINS + 1;
        let part = |answer: &Classified<'_, '_>| (answer.sent_ns - first_ns) / width_ns;
        let seconds = |part: u64| {
            let at = |part: u64| (first_ns + part * width_ns) as f64 / 1e9;
            format!("{:.2} s to {:.2} s", at(part), at(part + 1))
        };
        Some(Self {
            answers: answers.len(),
            classes: CanaryClass::ALL
                .into_iter()
                .filter_map(|class| {
                    let rate = rate(&all, class)?;
                    Some(ClassRate { class, rate })
                })
                .collect(),
            by_in_flight: groups(
                &answers,
                |answer| Some(in_flight::bin(answer.in_flight)),
                range,
            ),
            by_rank: groups(&answers, |answer| answer.rank.map(in_flight::bin), range),
            by_kind: groups(&answers, |answer| Some(answer.kind), str::to_owned),
            over_time: groups(&answers, |answer| Some(part(answer)), seconds),
            trends: trends(&answers),
            shifts: [length_shift(&answers), validity_shift(&answers)]
                .into_iter()
                .flatten()
                .collect(),
            findings: findings(&answers, samples, &levels, &ranks),
        })
    }

    /// The number of answers of a class.
    pub fn count(&self, class: CanaryClass) -> usize {
        let mut classes = self.classes.iter();
        classes
            .find(|found| found.class == class)
            .map_or(0, |found| found.rate.hits)
    }

    /// The number of answers that are not fine.
    pub fn found(&self) -> usize {
        self.answers - self.count(CanaryClass::Fine)
    }
}

fn rate(answers: &[&Classified<'_, '_>], class: CanaryClass) -> Option<Rate> {
    let member =
        |answer: &&Classified<'_, '_>| (answer.answer.class == class, answer.sample.copy_hash());
    Rate::of_members(answers.iter().map(member))
}

/// The answers by a key, in its order.
fn groups<K: Copy + Ord>(
    answers: &[Classified<'_, '_>],
    key: impl Fn(&Classified<'_, '_>) -> Option<K>,
    name: impl Fn(K) -> String,
) -> Vec<CanaryGroup> {
    let mut keyed: Vec<(K, &Classified<'_, '_>)> = answers
        .iter()
        .filter_map(|answer| Some((key(answer)?, answer)))
        .collect();
    keyed.sort_by_key(|(key, _)| *key);
    let chunks = keyed.chunk_by(|(one, _), (other, _)| one == other);
    chunks
        .filter_map(|chunk| {
            let members: Vec<&Classified<'_, '_>> =
                chunk.iter().map(|(_, answer)| *answer).collect();
            Some(CanaryGroup {
                group: name(chunk.first()?.0),
                answers: members.len(),
                fine: rate(&members, CanaryClass::Fine)?,
                swapped: rate(&members, CanaryClass::Swapped)?,
                mask_off: rate(&members, CanaryClass::MaskOff)?,
                restarted: rate(&members, CanaryClass::Restarted)?,
                failed_open: rate(&members, CanaryClass::FailedOpen)?,
            })
        })
        .collect()
}

/// Trends of the classes that some answers have and others do not.
fn trends(answers: &[Classified<'_, '_>]) -> Vec<CanaryTrend> {
    let trend = |class: CanaryClass, by: TrendBy| {
        let score = |answer: &Classified<'_, '_>| match by {
            TrendBy::InFlight => answer.in_flight as f64,
            TrendBy::Time => answer.sent_ns as f64 / 1e9,
        };
        let trials = answers
            .iter()
            .map(|answer| (score(answer), answer.answer.class == class));
        let found = ShareTrend::new(&trials.collect::<Vec<_>>())?;
        Some(CanaryTrend {
            class,
            by,
            z: found.z,
            p_value: found.p_value,
        })
    };
    CanaryClass::ALL
        .into_iter()
        .flat_map(|class| [TrendBy::InFlight, TrendBy::Time].map(|by| trend(class, by)))
        .flatten()
        .collect()
}

/// The kind and the tags of a request, which set the length of its answer.
fn stratum<'a>(answer: &Classified<'_, 'a>) -> (&'static str, &'a [String]) {
    (answer.kind, &answer.sample.request_input().tags)
}

/// Lengths in percent of the mean of their stratum.
fn length_shift(answers: &[Classified<'_, '_>]) -> Option<LoadShift> {
    let mut lengths: HashMap<(&str, &[String]), Vec<f64>> = HashMap::new();
    let length = |answer: &Classified<'_, '_>| answer.sample.tokens().output.map(|n| n as f64);
    for answer in answers {
        let tokens = length(answer);
        lengths.entry(stratum(answer)).or_default().extend(tokens);
    }
    let means: HashMap<(&str, &[String]), f64> = lengths
        .into_iter()
        .filter_map(|(stratum, lengths)| Some((stratum, mean(&lengths)?)))
        .filter(|(_, mean)| *mean > 0.0)
        .collect();
    let relative = answers.iter().filter_map(|answer| {
        let of_stratum = means.get(&stratum(answer))?;
        Some((answer.in_flight, 100.0 * length(answer)? / of_stratum))
    });
    LoadShift::new(Shifted::Length, &relative.collect::<Vec<_>>())
}

/// Validity of the answers that ended normally.
fn validity_shift(answers: &[Classified<'_, '_>]) -> Option<LoadShift> {
    let ended = answers
        .iter()
        .filter(|answer| *answer.sample.outcome() == Outcome::Completed);
    let valid = ended.map(|answer| {
        let is_valid = *answer.sample.verdict() == Verdict::Valid;
        (answer.in_flight, if is_valid { 100.0 } else { 0.0 })
    });
    LoadShift::new(Shifted::Validity, &valid.collect::<Vec<_>>())
}

impl LoadShift {
    /// The shift of values with requests in flight; `None` if all values, or loads, are equal, or
    /// with too few answers at low or high load.
    fn new(of: Shifted, values: &[(u64, f64)]) -> Option<Self> {
        let loads = values.iter().map(|(load, _)| *load);
        let (least, most) = (loads.clone().min()?, loads.max()?);
        let middle = (least + most) as f64 / 2.0;
        let (low, high): (Vec<_>, Vec<_>) = values
            .iter()
            .copied()
            .partition(|(load, _)| *load as f64 <= middle);
        if low.len() < MIN_SIDE || high.len() < MIN_SIDE {
            return None;
        }
        let side = |values: &[(u64, f64)]| {
            let values: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
            mean(&values)
        };
        let (low_percent, high_percent) = (side(&low)?, side(&high)?);
        let pairs: Vec<(f64, f64)> = values
            .iter()
            .map(|(load, value)| (*load as f64, *value))
            .collect();
        let found = RankCorrelation::new(&pairs)?;
        let change = (high_percent - low_percent).abs();
        Some(Self {
            of,
            answers: values.len(),
            tau: found.tau,
            p_value: found.p_value,
            middle,
            low_percent,
            high_percent,
            is_shift: found.p_value < MAX_P_VALUE && change >= MIN_CHANGE_PERCENT,
        })
    }
}

/// The first answers that are not fine, in the order of sending, with the requests whose nonces they
/// have.
fn findings(
    answers: &[Classified<'_, '_>],
    samples: &[Sample<'_>],
    levels: &[Option<u64>],
    ranks: &[Option<u64>],
) -> Vec<CanaryFinding> {
    let found = answers
        .iter()
        .filter(|answer| answer.answer.class != CanaryClass::Fine);
    let found: Vec<&Classified<'_, '_>> = found.take(MAX_FINDINGS).collect();
    let sought: Vec<Nonce> = found
        .iter()
        .filter_map(|answer| answer.answer.nonce)
        .collect();
    let mut owners: HashMap<Nonce, Vec<usize>> = HashMap::new();
    if !sought.is_empty() {
        for (index, sample) in samples.iter().enumerate() {
            let nonce = sample
                .constraint()
                .and_then(|constraint| Nonce::from_constraint(constraint));
            if let Some(nonce) = nonce.filter(|nonce| sought.contains(nonce))
                && sample.arm().sends_constraint()
            {
                owners.entry(nonce).or_default().push(index);
            }
        }
    }
    let partner = |answer: &Classified<'_, '_>| {
        let owners = owners.get(&answer.answer.nonce?)?;
        let overlap_ms = |index: &usize| overlap_ms(answer.sample, &samples[*index]);
        // Several if requests are repeated.
        let index = *owners
            .iter()
            .max_by(|one, other| overlap_ms(one).total_cmp(&overlap_ms(other)))?;
        let sample = &samples[index];
        Some(CanaryPartner {
            case_id: sample.id(),
            kind: sample.constraint()?.kind(),
            overlap_ms: overlap_ms(&index),
            in_flight: levels[index],
            rank: ranks[index],
            class: sample.canary().map(|own| own.class),
        })
    };
    found
        .iter()
        .map(|answer| CanaryFinding {
            class: answer.answer.class,
            case_id: answer.sample.id(),
            kind: answer.kind,
            byte: answer.answer.byte.unwrap_or_default(),
            excerpt: answer.answer.excerpt.clone(),
            in_flight: Some(answer.in_flight),
            rank: answer.rank,
            partner: partner(answer),
        })
        .collect()
}

/// How long two requests were both in flight.
fn overlap_ms(one: &Sample<'_>, other: &Sample<'_>) -> f64 {
    let span = |sample: &Sample<'_>| {
        let times = sample.request_times();
        Some((times.sent_ns?, times.end_ns.or(times.last_content_ns)?))
    };
    let Some(((start, end), (other_start, other_end))) = span(one).zip(span(other)) else {
        return 0.0;
    };
    let overlap_ns = end.min(other_end).saturating_sub(start.max(other_start));
    overlap_ns as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use sobench_core::constraint::Constraint;
    use sobench_core::verdict::Reason;
    use sobench_facts::testing::{TestRequest, test_request, with_cases};

    fn canary(class: CanaryClass, nonce: Option<u64>) -> CanaryAnswer {
        let is_fine = class == CanaryClass::Fine;
        CanaryAnswer {
            class,
            byte: (!is_fine).then_some(7),
            nonce: nonce.map(Nonce::new),
            excerpt: (!is_fine).then(|| Excerpt {
                before: "cn-0000".to_owned(),
                from: "bread".to_owned(),
            }),
        }
    }

    /// A canary in flight for 100 ms.
    fn request(sent: u64, class: CanaryClass) -> TestRequest<'static> {
        TestRequest {
            sent: Some(sent),
            chunks: vec![sent + 10],
            end: Some(sent + 100),
            verdict: if class == CanaryClass::Fine {
                Verdict::Valid
            } else {
                Verdict::Invalid {
                    reason: Reason::Choice,
                }
            },
            canary: Some(canary(class, None)),
            ..test_request()
        }
    }

    fn canaries(run: &[TestRequest<'_>]) -> Canaries {
        let change = |index: usize, case: &mut sobench_core::case::Case| {
            let nonce = Nonce::new(index as u64);
            case.constraint = Some(Arc::new(Constraint::Regex(
                format!("{nonce} a {nonce}").into(),
            )));
        };
        with_cases(run, change, |samples| Canaries::new(samples).unwrap())
    }

    #[test]
    fn a_swap_names_the_partner_and_the_overlap() {
        let mut run = vec![
            request(0, CanaryClass::Fine),
            request(60, CanaryClass::Swapped),
            request(400, CanaryClass::MaskOff),
        ];
        run[1].canary = Some(canary(CanaryClass::Swapped, Some(0)));
        let found = canaries(&run);
        assert_eq!((found.answers, found.found()), (3, 2));
        let [swap, off] = &found.findings[..] else {
            panic!("{found:?}")
        };
        assert_eq!(
            (swap.class, swap.case_id.as_str(), swap.byte),
            (CanaryClass::Swapped, "case-1", 7)
        );
        assert_eq!((swap.in_flight, swap.rank), (Some(2), Some(2)));
        let partner = swap.partner.clone().unwrap();
        assert_eq!(
            (
                partner.case_id.as_str(),
                partner.overlap_ms,
                partner.in_flight,
                partner.class
            ),
            ("case-0", 40.0, Some(1), Some(CanaryClass::Fine))
        );
        assert_eq!((off.class, &off.partner), (CanaryClass::MaskOff, &None));
        let by_load: Vec<(&str, usize, usize)> = found
            .by_in_flight
            .iter()
            .map(|group| (group.group.as_str(), group.answers, group.swapped.hits))
            .collect();
        assert_eq!(by_load, [("1", 2, 0), ("2", 1, 1)]);
        assert_eq!(found.by_kind.len(), 1);
        assert_eq!(found.by_kind[0].mask_off.hits, 1);
        assert_eq!(found.count(CanaryClass::Fine), 1);
    }

    /// Bursts of 16: the number in flight when sent goes from 1 to 16 in each.
    fn bursts(request: impl Fn(u64, u64) -> TestRequest<'static>) -> Vec<TestRequest<'static>> {
        let places = (0..8).flat_map(|burst| (0..16).map(move |place| (burst, place)));
        places.map(|(burst, place)| request(burst, place)).collect()
    }

    #[test]
    fn shares_that_rise_with_load_or_time_have_a_trend() {
        let class = |is_off: bool| {
            if is_off {
                CanaryClass::MaskOff
            } else {
                CanaryClass::Fine
            }
        };
        let p_values = |run: &[TestRequest<'_>]| {
            let trends = canaries(run).trends;
            let p_value = |by: TrendBy| {
                let is_sought =
                    |trend: &&CanaryTrend| trend.by == by && trend.class == CanaryClass::MaskOff;
                trends
                    .iter()
                    .find(is_sought)
                    .map(|trend| trend.p_value)
                    .unwrap()
            };
            [p_value(TrendBy::InFlight), p_value(TrendBy::Time)]
        };
        let under_load = bursts(|burst, place| request(1000 * burst + place, class(place > 11)));
        let [load, time] = p_values(&under_load);
        assert!(load < 1e-10 && time > 0.5, "{load} {time}");
        let late = bursts(|burst, place| request(1000 * burst + place, class(burst > 5)));
        let [load, time] = p_values(&late);
        assert!(time < 1e-10 && load > 0.5, "{load} {time}");
        let fine = bursts(|burst, place| request(1000 * burst + place, CanaryClass::Fine));
        assert_eq!(canaries(&fine).trends, []);
    }

    #[test]
    fn answers_that_get_shorter_with_load_are_a_shift() {
        let shift = |tokens: fn(u64, u64) -> u64| {
            let run = bursts(|burst, place| TestRequest {
                output: Some(tokens(burst, place)),
                ..request(1000 * burst + place, CanaryClass::Fine)
            });
            let found = canaries(&run);
            let mut shifts = found.shifts.iter();
            shifts.find(|shift| shift.of == Shifted::Length).copied()
        };
        let shorter = shift(|burst, place| 100 + burst % 3 - 2 * place).unwrap();
        assert!(shorter.is_shift && shorter.tau < -0.5, "{shorter:?}");
        assert!(
            shorter.low_percent - shorter.high_percent > 15.0,
            "{shorter:?}"
        );
        assert_eq!(shorter.middle, 8.5);
        // Significant and small, and not significant.
        let slightly = shift(|burst, place| 1000 + burst % 3 - place).unwrap();
        assert!(
            !slightly.is_shift && slightly.p_value < 0.01,
            "{slightly:?}"
        );
        let other = shift(|burst, place| 100 + (burst * 7 + place * 5) % 40).unwrap();
        assert!(!other.is_shift, "{other:?}");
        assert_eq!(shift(|_, _| 50), None, "all equal");
    }

    #[test]
    fn other_runs_have_no_canaries() {
        let found = with_cases(&[test_request()], |_, _| {}, Canaries::new);
        assert_eq!(found, None);
    }
}
