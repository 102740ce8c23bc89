//! Differences of two rates. The unit is the case: repeats of a case count as far as their results
//! vary, and fewer if the runs vary more than their requests explain.

use std::collections::BTreeMap;
use std::iter::Sum;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::distributions::{chi_square_above, proportion_at_most, student_t_975, z_score};
use crate::paired::{PairedSample, Pairs};
use crate::{Rate, Wilson, Z_95, mean};

/// The weight of the assumption that runs vary as their requests explain, in degrees of freedom.
/// Three runs a side have four: alone, they find twice the variation or half of it by chance.
const PRIOR_DEGREES: f64 = 10.0;

/// A variation between runs that chance exceeds less often is taken as it is.
const VARIATION_BY_CHANCE: f64 = 0.001;

/// The largest number of requests that is given as needed.
const MAX_NEEDED: f64 = 1e7;

/// Hits out of a total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Share {
    pub hits: usize,
    pub of: usize,
}

impl Sum for Share {
    fn sum<I: Iterator<Item = Self>>(shares: I) -> Self {
        shares.fold(Self::default(), |sum, share| Self {
            hits: sum.hits + share.hits,
            of: sum.of + share.of,
        })
    }
}

impl Share {
    /// Counts hits.
    pub fn count(hits: impl Iterator<Item = bool>) -> Self {
        hits.fold(Self::default(), |share, hit| Self {
            hits: share.hits + usize::from(hit),
            of: share.of + 1,
        })
    }

    /// In percent; `None` if the total is 0.
    pub fn percent(self) -> Option<f64> {
        (self.of > 0).then(|| 100.0 * self.hits as f64 / self.of as f64)
    }
}

/// The hits of a rate on one side.
#[derive(Clone, Debug, Default)]
pub struct Hits {
    /// By the number of the case, over all runs.
    cases: Vec<Share>,
    /// For each case a number that is equal for copies: the same request with the same answers in
    /// every run.
    copies: Vec<u32>,
    runs: Vec<Share>,
}

/// The difference of two rates, second minus first, as shares of 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateContrast {
    /// Over pairs if there are any.
    pub difference: f64,
    /// The requests that count on each side.
    pub requests: [Share; 2],
    /// The variance of the runs' shares over that of independent requests, at least 1; `None` with
    /// one run a side.
    variation: Option<f64>,
    spread: Spread,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Spread {
    /// Its pairs are all pairs of a run of the first side with one of the second.
    Paired(PairedSample),
    /// The number of independent requests that those of each side are worth.
    Unpaired([f64; 2]),
}

impl Hits {
    /// Adds the results of a run: for each the number of its case, and one that is equal for copies
    /// of a request and its answer, if it is known.
    pub fn add_run(&mut self, run: impl IntoIterator<Item = (usize, Option<u32>, bool)>) {
        let mut total = Share::default();
        for (case, copy, hit) in run {
            if case >= self.cases.len() {
                self.cases.resize(case + 1, Share::default());
                self.copies.resize(case + 1, 0);
            }
            for share in [&mut self.cases[case], &mut total] {
                share.of += 1;
                share.hits += usize::from(hit);
            }
            self.copies[case] = mixed(self.copies[case], copy.unwrap_or(case as u32));
        }
        self.runs.push(total);
    }

    fn total(&self) -> Share {
        self.runs.iter().copied().sum()
    }

    /// The number of independent requests that all are worth: their number over the design effect
    /// of the share (Rao and Scott, 1992), where copies of a case belong together. The
    /// number of such clusters if all results are equal.
    fn worth(&self) -> f64 {
        let known = self.cases.iter().zip(&self.copies);
        let mut known: Vec<_> = known.filter(|(share, _)| share.of > 0).collect();
        known.sort_unstable_by_key(|(_, copy)| **copy);
        let clusters = known.chunk_by(|(_, one), (_, other)| one == other);
        let clusters: Vec<Share> = clusters
            .map(|cluster| cluster.iter().map(|(share, _)| **share).sum())
            .collect();
        let total = self.total();
        let (count, of) = (clusters.len() as f64, total.of as f64);
        let share = total.hits as f64 / of;
        let single = share * (1.0 - share);
        if clusters.len() < 2 || single <= 0.0 {
            return count;
        }
        let excess = |cluster: &Share| cluster.hits as f64 - cluster.of as f64 * share;
        let squares: f64 = clusters.iter().map(|of_one| excess(of_one).powi(2)).sum();
        of / (count / (count - 1.0) * squares / (of * single)).max(1.0)
    }

    /// The degrees of freedom of the runs' shares, their squared deviations from the mean, and the
    /// variance of the share of a run of independent requests.
    fn variance_of_runs(&self) -> (f64, f64, f64) {
        let runs = self.runs.iter().filter(|run| run.of > 0);
        let shares: Vec<f64> = runs.map(|run| run.hits as f64 / run.of as f64).collect();
        let center = mean(&shares).unwrap_or(0.0);
        let squares = shares.iter().map(|share| (share - center).powi(2)).sum();
        // The variance of a result within its case, which cases that always fail do not add to.
        let within: Vec<f64> = self
            .cases
            .iter()
            .filter(|case| case.of > 1)
            .map(|case| {
                (case.hits * (case.of - case.hits)) as f64 / (case.of * (case.of - 1)) as f64
            })
            .collect();
        let within = mean(&within).unwrap_or(center * (1.0 - center));
        let size = self.total().of as f64 / shares.len().max(1) as f64;
        let degrees = shares.len().saturating_sub(1) as f64;
        (degrees, squares, within / size.max(1.0))
    }
}

/// How much the runs of some sides vary: see [`RateContrast::variation`]. Both sides of a contrast have
/// the same variation if they are equal.
///
/// Few runs show it badly, so that the ratio is a mean of 1 and what was seen. If chance does not
/// explain what was seen, it counts as it is, with Student's factor: a run with many failures is one
/// event.
fn variation(sides: &[&Hits]) -> Option<f64> {
    let (mut seen, mut expected, mut squares, mut is_known) = (0.0, 0.0, 0.0, false);
    for (degrees, found, variance) in sides.iter().map(|side| side.variance_of_runs()) {
        is_known |= degrees > 0.0;
        seen += found;
        expected += degrees * variance;
        squares += degrees * variance * variance;
    }
    if expected <= 0.0 {
        return is_known.then_some(1.0);
    }
    // Satterthwaite, "An approximate distribution of estimates of variance components" (1946).
    let degrees = expected * expected / squares;
    let ratio = seen / expected;
    let shrunk = (PRIOR_DEGREES + degrees * ratio) / (PRIOR_DEGREES + degrees);
    let is_chance = degrees * ratio <= chi_square_above(VARIATION_BY_CHANCE, degrees);
    Some(if is_chance {
        shrunk.max(1.0)
    } else {
        let student = student_t_975((degrees.round() as usize).max(1)) / Z_95;
        ratio * student.powi(2)
    })
}

/// The rate of a side over all runs, with the interval of the number of requests that they are
/// worth. `None` without requests.
pub fn rate(hits: &Hits) -> Option<Rate> {
    let Share { hits: count, of } = hits.total();
    let size = hits.worth() / variation(&[hits]).unwrap_or(1.0);
    Rate::with_effective(count, of, size)
}

impl RateContrast {
    /// Over the cases of both sides: Newcombe's interval of paired shares, and McNemar's test
    /// ([`PairedSample`]). `None` without common cases.
    pub fn paired(a: &Hits, b: &Hits) -> Option<Self> {
        let cases = a.cases.iter().zip(&b.cases);
        let both = cases.zip(a.copies.iter().zip(&b.copies));
        let both = both.filter(|((a, b), _)| a.of > 0 && b.of > 0);
        // Copies of a case belong together.
        let mut clusters: BTreeMap<(u32, u32), Pairs> = BTreeMap::new();
        for ((a, b), (copy_a, copy_b)) in both {
            *clusters.entry((*copy_a, *copy_b)).or_default() +=
                Pairs::of_trials((a.hits, a.of), (b.hits, b.of));
        }
        let clusters: Vec<Pairs> = clusters.into_values().collect();
        let mut sample = PairedSample::from_clusters(&clusters);
        let variation = variation(&[a, b]);
        sample.effective = (sample.effective / variation.unwrap_or(1.0)).max(1.0);
        Some(Self {
            difference: sample.pairs.difference()?,
            requests: [a.total(), b.total()],
            variation,
            spread: Spread::Paired(sample),
        })
    }

    /// Over the requests of each side: Newcombe's interval of independent shares. `None` if a side
    /// has no requests.
    pub fn unpaired(a: &Hits, b: &Hits) -> Option<Self> {
        let variation = variation(&[a, b]);
        let size = |hits: &Hits| (hits.worth() / variation.unwrap_or(1.0)).max(1.0);
        Self::of_sizes([a.total(), b.total()], [a, b].map(size), variation)
    }

    /// From counts alone. `None` if a side has no requests.
    pub fn of_counts(a: Share, b: Share) -> Option<Self> {
        Self::of_sizes([a, b], [a.of as f64, b.of as f64], None)
    }

    fn of_sizes(requests: [Share; 2], sizes: [f64; 2], variation: Option<f64>) -> Option<Self> {
        let [a, b] = requests.map(share);
        Some(Self {
            difference: b? - a?,
            requests,
            variation,
            spread: Spread::Unpaired(sizes),
        })
    }

    /// The pairs; `None` if the requests are not paired.
    pub fn pairs(&self) -> Option<&PairedSample> {
        match &self.spread {
            Spread::Paired(sample) => Some(sample),
            Spread::Unpaired(_) => None,
        }
    }

    /// Whether several runs of a side entered.
    pub fn has_runs(&self) -> bool {
        self.variation.is_some()
    }

    /// The interval of the difference.
    pub fn interval(&self, level: f64) -> (f64, f64) {
        let z = z_score(level);
        let wilson = |share: f64, size: f64| {
            let wilson = Wilson::from_share(share, size, z);
            (wilson.down(), wilson.up())
        };
        match &self.spread {
            Spread::Paired(sample) => sample.interval(level).unwrap_or((-1.0, 1.0)),
            Spread::Unpaired(sizes) => self.newcombe(*sizes, wilson),
        }
    }

    /// An interval each of whose ends has at most its error probability, for one-sided decisions.
    pub fn bounds(&self, level: f64) -> (f64, f64) {
        let error = (1.0 - level) / 2.0;
        let exact = |share: f64, size: f64| {
            let low = 1.0 - proportion_at_most(1.0 - share, size, error);
            (share - low, proportion_at_most(share, size, error) - share)
        };
        match &self.spread {
            Spread::Paired(sample) => sample.one_sided_bounds(level).unwrap_or((-1.0, 1.0)),
            Spread::Unpaired(sizes) => self.newcombe(*sizes, exact),
        }
    }

    /// The interval of the difference of two independent shares from the distances between each
    /// share and its bounds: Newcombe, "Interval estimation for the difference between independent
    /// proportions" (Statistics in Medicine 17, 1998), method 10.
    fn newcombe(&self, sizes: [f64; 2], margins: impl Fn(f64, f64) -> (f64, f64)) -> (f64, f64) {
        let [first, second] =
            [0, 1].map(|side| margins(share(self.requests[side]).unwrap_or(0.0), sizes[side]));
        (
            self.difference - second.0.hypot(first.1),
            self.difference + second.1.hypot(first.0),
        )
    }

    /// The p-value of McNemar's exact test, with several runs of the sign test over cases; `None`
    /// if the requests are not paired.
    pub fn p_value(&self) -> Option<f64> {
        self.pairs().map(PairedSample::p_value)
    }

    /// Whether any test can find a difference.
    pub fn can_differ(&self) -> bool {
        match &self.spread {
            Spread::Paired(sample) => sample.pairs.discordant() > 0,
            Spread::Unpaired(_) => self.difference != 0.0,
        }
    }

    /// The number of requests a side that rule out a loss of `size`, with the error of
    /// [`RateContrast::bounds`], if the requests fail as often as these and the sides are equal. `None`
    /// if it is above `MAX_NEEDED`.
    pub fn requests_needed(&self, size: f64, level: f64) -> Option<usize> {
        let is_enough = |factor: f64| {
            let larger = match &self.spread {
                Spread::Paired(sample) => Self {
                    spread: Spread::Paired(sample.without_difference(factor)),
                    ..*self
                },
                Spread::Unpaired(sizes) => {
                    let [a, b] = self.requests;
                    let both = Share {
                        hits: a.hits + b.hits,
                        of: a.of + b.of,
                    };
                    Self {
                        difference: 0.0,
                        requests: [both; 2],
                        spread: Spread::Unpaired(sizes.map(|size| factor * size)),
                        ..*self
                    }
                }
            };
            larger.bounds(level).0 >= -size
        };
        let now = self.requests.map(|share| share.of).into_iter().min()? as f64;
        let (mut few, mut enough) = ((1.0 / now).ln(), (MAX_NEEDED / now).ln());
        if !is_enough(enough.exp()) {
            return None;
        }
        while enough - few > 1e-4 {
            let middle = f64::midpoint(few, enough);
            match is_enough(middle.exp()) {
                true => enough = middle,
                false => few = middle,
            }
        }
        Some((now * enough.exp()).ceil() as usize)
    }
}

fn share(share: Share) -> Option<f64> {
    (share.of > 0).then(|| share.hits as f64 / share.of as f64)
}

/// A number for a case after a further run.
fn mixed(one: u32, other: u32) -> u32 {
    one.rotate_left(5).wrapping_mul(0x9e37_79b1) ^ other
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: (f64, f64), expected: (f64, f64)) {
        assert!(
            (found.0 - expected.0).abs() < 6e-5 && (found.1 - expected.1).abs() < 6e-5,
            "{found:?} is not {expected:?}"
        );
    }

    fn hits(runs: usize, cases: usize, hit: impl Fn(usize, usize) -> bool) -> Hits {
        let mut hits = Hits::default();
        for run in 0..runs {
            hits.add_run((0..cases).map(|case| (case, None, hit(run, case))));
        }
        hits
    }

    fn paired(a: &Hits, b: &Hits) -> RateContrast {
        RateContrast::paired(a, b).unwrap()
    }

    fn width((low, high): (f64, f64)) -> f64 {
        high - low
    }

    /// Expected: table II of Newcombe's paper on independent proportions.
    #[test]
    fn independent_proportions_match_newcombe() {
        for (a, b, expected) in [
            ((48, 80), (56, 70), (0.0524, 0.3339)),
            ((3, 10), (9, 10), (0.1705, 0.8090)),
            ((0, 10), (10, 10), (0.6075, 1.0)),
            ((0, 20), (0, 10), (-0.1611, 0.2775)),
        ] {
            let share = |(hits, of)| Share { hits, of };
            let contrast = RateContrast::of_counts(share(a), share(b)).unwrap();
            near(contrast.interval(0.95), expected);
        }
        let none = Share::default();
        assert_eq!(
            RateContrast::of_counts(none, Share { hits: 1, of: 1 }),
            None
        );
    }

    #[test]
    fn agreeing_pairs_have_a_narrower_interval() {
        let a = hits(1, 1000, |_, case| case >= 40);
        let b = hits(1, 1000, |_, case| !(20..60).contains(&case));
        let (pairs, alone) = (paired(&a, &b), RateContrast::unpaired(&a, &b).unwrap());
        assert_eq!((pairs.difference, alone.difference), (0.0, 0.0));
        assert!(width(pairs.interval(0.95)) < width(alone.interval(0.95)));
        // Without failing cases there is no agreement to use, and both intervals are equal.
        let all = hits(1, 200, |_, _| true);
        let (pairs, alone) = (
            paired(&all, &all),
            RateContrast::unpaired(&all, &all).unwrap(),
        );
        near(pairs.interval(0.95), alone.interval(0.95));
        near(pairs.bounds(0.9), (-0.014_87, 0.014_87));
        near(pairs.bounds(0.9), alone.bounds(0.9));
        assert!(!pairs.can_differ() && !alone.can_differ());
    }

    #[test]
    fn repeats_count_as_far_as_they_vary() {
        let hit = |_: usize, case: usize| !case.is_multiple_of(4);
        let other = |_: usize, case: usize| case % 4 != 1;
        let [one, five] = [1, 5].map(|runs| {
            let contrast = paired(&hits(runs, 40, hit), &hits(runs, 40, other));
            width(contrast.interval(0.95))
        });
        assert!((five / one - 1.0).abs() < 0.06, "{one} {five}");
        let varied = |offset: usize| hits(5, 40, move |run, case| (case + 7 * run) % 4 != offset);
        assert!(width(paired(&varied(0), &varied(1)).interval(0.95)) < 0.7 * one);
        // Five runs of 200 valid cases are worth 200 requests.
        let all = hits(5, 200, |_, _| true);
        near(paired(&all, &all).bounds(0.9), (-0.014_87, 0.014_87));
    }

    #[test]
    fn copies_are_worth_one_case() {
        let mut hits = Hits::default();
        hits.add_run((0..40).map(|case| (case, Some(7), true)));
        assert!(rate(&hits).unwrap().low_percent < 25.0);
    }

    #[test]
    fn one_bad_run_is_one_event() {
        let good = hits(3, 100, |_, _| true);
        let bad = hits(3, 100, |run, case| run != 1 || case >= 60);
        assert!(paired(&good, &bad).interval(0.95).0 < 0.0);
        assert!(paired(&good, &bad).interval(0.95).1 > 0.0);
        let bad = hits(3, 100, |run, case| (case + 37 * run) % 100 >= 20);
        let contrast = paired(&good, &bad);
        assert!(contrast.interval(0.999).1 < 0.0, "{contrast:?}");
        assert!(contrast.p_value().unwrap() < 1e-6);
        // A clean run of three does not end the interval at 0.
        let some = hits(3, 60, |run, case| run == 0 || case >= 3 * run);
        let (low, high) = paired(&hits(3, 60, |_, _| true), &some).bounds(0.9);
        assert!(low < -0.06 && high < 0.0, "{low} {high}");
    }

    #[test]
    fn needed_requests_rule_out_the_loss() {
        for failing in [0, 1, 5] {
            let side = |first: usize, cases: usize| {
                hits(1, cases, move |_, case| {
                    !(first..first + failing).contains(&case)
                })
            };
            for is_paired in [true, false] {
                let contrast = |cases: usize| {
                    // As many fail on both sides.
                    let (a, b) = (side(0, cases), side(10, cases));
                    match is_paired {
                        true => paired(&a, &b),
                        false => RateContrast::unpaired(&a, &b).unwrap(),
                    }
                };
                let needed = contrast(200).requests_needed(0.01, 0.9).unwrap();
                let factor = needed as f64 / 200.0;
                let larger = |factor: f64| {
                    let cases = (200.0 * factor).round() as usize;
                    let failing = (failing as f64 * factor).round() as usize;
                    let of = |first: usize| {
                        hits(1, cases, move |_, case| {
                            !(first..first + failing).contains(&case)
                        })
                    };
                    let (a, b) = (of(0), of(failing));
                    match is_paired {
                        true => paired(&a, &b).bounds(0.9).0,
                        false => RateContrast::unpaired(&a, &b).unwrap().bounds(0.9).0,
                    }
                };
                assert!(larger(1.1 * factor) >= -0.01, "{failing} {needed}");
                assert!(larger(0.9 * factor) < -0.01, "{failing} {needed}");
            }
        }
        let none = paired(&hits(1, 20, |_, _| true), &hits(1, 20, |_, _| true));
        assert_eq!(none.requests_needed(0.0, 0.9), None);
    }
}
