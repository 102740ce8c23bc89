//! Validity of constrained answers by requests in flight and over time, and which of the two
//! explains a loss of constraints.
//!
//! Answers are split in two, once at each number of requests in flight and once at each request in
//! the order of sending. Each side has its own probability of a valid answer. The best split of
//! each kind has a log likelihood, from which the logarithm of the number of splits is subtracted,
//! since more splits fit better by chance.

use serde::Serialize;

use super::quality::complied;
use super::{Sample, in_flight};
use sobench_core::case::Arm;

/// The smallest number of answers on each side of a split.
const MIN_SIDE: usize = 3;

/// A loss is reported, and one explanation is better than the other, if it makes the answers this
/// much more likely.
const MIN_LOG_RATIO: f64 = std::f64::consts::LN_10;

/// Parts of the run, by time.
const TIME_BINS: usize = 8;

/// Validity of the constrained answers that ended normally.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct InFlightBin {
    pub from: u64,
    pub to: u64,
    pub valid: usize,
    pub answers: usize,
}

/// Answers to requests that were sent in a part of the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TimeBin {
    pub from_s: f64,
    pub to_s: f64,
    pub valid: usize,
    pub answers: usize,
}

/// A fall of validity, with the better of two explanations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ValidityLoss {
    pub explained_by: Explanation,
    /// The best split by requests in flight, if there is a fall.
    pub in_flight: Option<InFlightSplit>,
    /// The best split by time, if there is a fall.
    pub time: Option<TimeSplit>,
    /// The decimal logarithm of the likelihood ratio of the two: above 0 if requests in flight
    /// explain more. `None` if only one of them is a fall.
    pub log10_ratio: Option<f64>,
}

/// What a fall of validity goes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Explanation {
    InFlight,
    Time,
    /// Both explain the answers about equally well.
    Tied,
}

/// Valid answers on both sides of a split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sides {
    pub valid_before: usize,
    pub before: usize,
    pub valid_after: usize,
    pub after: usize,
}

/// A split by requests in flight: up to a number, and above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct InFlightSplit {
    pub up_to: u64,
    #[serde(flatten)]
    pub sides: Sides,
}

/// A split by time: before a request, and from it on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TimeSplit {
    pub request: String,
    #[serde(flatten)]
    pub sides: Sides,
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

/// The best split of a list.
struct Split {
    /// The index of the first answer after it.
    at: usize,
    sides: Sides,
    /// Gain in log likelihood over no split, less the logarithm of the number of splits.
    gain: f64,
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
        let validity = |ended: &[Ended<'_, '_>]| -> Vec<bool> {
            ended.iter().map(|answer| answer.is_valid).collect()
        };
        let by_time = best_split(&validity(&ended), |_| true).map(|split| {
            let request = ended[split.at].sample.id();
            (
                split.gain,
                TimeSplit {
                    request,
                    sides: split.sides,
                },
            )
        });
        ended.sort_unstable_by_key(|answer| answer.in_flight);
        let is_step = |at: usize| ended[at].in_flight > ended[at - 1].in_flight;
        let by_in_flight = best_split(&validity(&ended), is_step).map(|split| {
            let up_to = ended[split.at - 1].in_flight();
            (
                split.gain,
                InFlightSplit {
                    up_to,
                    sides: split.sides,
                },
            )
        });
        Some(Self {
            by_in_flight: in_flight_bins(&ended),
            over_time,
            loss: loss(by_in_flight, by_time),
        })
    }

    /// Whether any answer is invalid.
    pub fn has_invalid(&self) -> bool {
        self.over_time.iter().any(|bin| bin.valid < bin.answers)
    }
}

fn loss(
    in_flight: Option<(f64, InFlightSplit)>,
    time: Option<(f64, TimeSplit)>,
) -> Option<ValidityLoss> {
    let gains = [
        in_flight.as_ref().map(|(gain, _)| *gain),
        time.as_ref().map(|(gain, _)| *gain),
    ];
    let best = gains.into_iter().flatten().max_by(f64::total_cmp)?;
    if best < MIN_LOG_RATIO {
        return None;
    }
    let difference = gains[0].zip(gains[1]).map(|(one, other)| one - other);
    let explained_by = match difference {
        Some(difference) if difference.abs() < MIN_LOG_RATIO => Explanation::Tied,
        Some(difference) if difference < 0.0 => Explanation::Time,
        None if in_flight.is_none() => Explanation::Time,
        Some(_) | None => Explanation::InFlight,
    };
    Some(ValidityLoss {
        explained_by,
        in_flight: in_flight.map(|(_, split)| split),
        time: time.map(|(_, split)| split),
        log10_ratio: difference.map(|difference| difference / std::f64::consts::LN_10),
    })
}

/// The split after which validity falls, and that explains the answers best. `is_split` is whether
/// the list can be split before an index.
fn best_split(valid: &[bool], is_split: impl Fn(usize) -> bool) -> Option<Split> {
    let all = valid.iter().filter(|valid| **valid).count();
    let without = log_likelihood(all, valid.len());
    let (mut splits, mut valid_before) = (0_usize, 0);
    let mut best: Option<Split> = None;
    for at in 1..valid.len() {
        valid_before += usize::from(valid[at - 1]);
        if !is_split(at) {
            continue;
        }
        splits += 1;
        let sides = Sides {
            valid_before,
            before: at,
            valid_after: all - valid_before,
            after: valid.len() - at,
        };
        let share = |valid: usize, answers: usize| valid as f64 / answers as f64;
        let is_fall = share(sides.valid_after, sides.after) < share(valid_before, at);
        if !is_fall || sides.before < MIN_SIDE || sides.after < MIN_SIDE {
            continue;
        }
        let gain = log_likelihood(sides.valid_before, sides.before)
            + log_likelihood(sides.valid_after, sides.after)
            - without;
        if best.as_ref().is_none_or(|best| gain > best.gain) {
            best = Some(Split { at, sides, gain });
        }
    }
    best.map(|best| Split {
        gain: best.gain - (splits as f64).ln(),
        ..best
    })
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
    use super::*;
    use crate::metrics::testing::{TestRequest, test_request, with_samples};
    use sobench_core::verdict::{Reason, Verdict};

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

    #[test]
    fn loss_above_a_number_in_flight_is_told_from_a_loss_in_time() {
        let found = pattern(&waves(|_, place| place < 8));
        let loss = found.loss.clone().unwrap();
        assert_eq!(loss.explained_by, Explanation::InFlight, "{loss:?}");
        let split = loss.in_flight.unwrap();
        assert_eq!(
            (split.up_to, split.sides),
            (
                8,
                Sides {
                    valid_before: 40,
                    before: 40,
                    valid_after: 0,
                    after: 40
                }
            )
        );
        assert!(loss.log10_ratio.is_none_or(|ratio| ratio > 5.0), "{loss:?}");
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
        assert_eq!(loss.explained_by, Explanation::Time, "{loss:?}");
        let split = loss.time.unwrap();
        assert_eq!(
            (
                split.request.as_str(),
                split.sides.before,
                split.sides.valid_after
            ),
            ("case-32", 32, 0)
        );
    }

    /// Under a cap, the number in flight rises once, at the start.
    #[test]
    fn loss_in_the_first_filling_of_the_slots_is_tied() {
        let run: Vec<TestRequest<'_>> = (0..40)
            .map(|index| request(index, 1000 + index, index < 8))
            .collect();
        let loss = pattern(&run).loss.unwrap();
        assert_eq!(loss.explained_by, Explanation::Tied, "{loss:?}");
        assert_eq!(loss.in_flight.unwrap().up_to, 8);
        assert_eq!(loss.time.unwrap().request, "case-8");
    }

    #[test]
    fn partial_loss_is_found_and_chance_is_not() {
        let partial = waves(|wave, place| wave < 3 || place % 2 == 0);
        assert_eq!(
            pattern(&partial).loss.unwrap().explained_by,
            Explanation::Time
        );
        // Every fourth, every third, and a rise instead of a fall.
        for is_valid in [
            (|_, place| place % 4 != 0) as fn(u64, u64) -> bool,
            |wave, place| (wave * 16 + place) % 3 != 0,
            |wave, _| wave > 2,
            |_, _| true,
            |_, _| false,
        ] {
            assert_eq!(pattern(&waves(is_valid)).loss, None);
        }
        let invalid: usize = pattern(&waves(|_, place| place % 4 != 0))
            .over_time
            .iter()
            .map(|bin| bin.answers - bin.valid)
            .sum();
        assert_eq!(invalid, 20);
        assert_eq!(with_samples(&[], ValidityPattern::new), None);
    }
}
