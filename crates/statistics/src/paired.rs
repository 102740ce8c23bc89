//! Differences of two proportions over the same items: McNemar's exact test, Newcombe's interval,
//! and the number of items that a difference needs.

use std::cmp::Ordering;
use std::ops::AddAssign;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Wilson;
use super::distributions::{
    binomial_at_most, binomial_probability, binomial_quantile, normal_at_most, proportion_at_most,
    t_score, z_score,
};

/// Significance level of the two-sided test.
pub const SIGNIFICANCE: f64 = 0.05;

/// A test for which sizes are planned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TestPlan {
    /// The probability that it finds an effect of one direction by chance.
    pub error: f64,
    /// The probability that it finds the effect.
    pub power: f64,
}

impl TestPlan {
    /// A difference of two arms of one model, in both directions.
    pub const DIFFERENCE: Self = Self {
        error: SIGNIFICANCE / 2.0,
        power: 0.8,
    };
    /// A loss between two servers.
    pub const LOSS: Self = Self {
        error: 0.05,
        power: 0.95,
    };
}

/// Fewest discordant pairs of which McNemar's exact test can give p < 0.05: all on one side, with
/// p = 2 / 2^6.
pub const MIN_DISCORDANT: usize = 6;

/// Expected number of discordant pairs above which power is computed from the normal approximation.
const MAX_EXACT_PAIRS: f64 = 20_000.0;

/// Largest planned number of items.
const MAX_ITEMS: usize = 1 << 40;

/// Counts of cases on both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Pairs {
    pub both: usize,
    pub only_a: usize,
    pub only_b: usize,
    pub neither: usize,
}

impl AddAssign for Pairs {
    fn add_assign(&mut self, other: Self) {
        self.both += other.both;
        self.only_a += other.only_a;
        self.only_b += other.only_b;
        self.neither += other.neither;
    }
}

impl Pairs {
    /// Adds a case.
    pub fn add(&mut self, a: bool, b: bool) {
        let count = match (a, b) {
            (true, true) => &mut self.both,
            (true, false) => &mut self.only_a,
            (false, true) => &mut self.only_b,
            (false, false) => &mut self.neither,
        };
        *count += 1;
    }

    /// Every pair of a trial of the first side with one of the second: `(hits, trials)` of a case on
    /// each side.
    pub fn of_trials((a, of_a): (usize, usize), (b, of_b): (usize, usize)) -> Self {
        Self {
            both: a * b,
            only_a: a * (of_b - b),
            only_b: (of_a - a) * b,
            neither: (of_a - a) * (of_b - b),
        }
    }

    /// Number of pairs.
    pub fn total(&self) -> usize {
        self.both + self.only_a + self.only_b + self.neither
    }

    /// Number of pairs that differ.
    pub fn discordant(&self) -> usize {
        self.only_a + self.only_b
    }

    /// Second minus first share, -1 to 1; `None` without pairs.
    pub fn difference(&self) -> Option<f64> {
        (self.total() > 0).then(|| (self.only_b as f64 - self.only_a as f64) / self.total() as f64)
    }

    /// The interval of the difference of paired proportions: Newcombe, "Improved confidence
    /// intervals for the difference between binomial proportions based on paired data" (Statistics
    /// in Medicine 17, 1998), method 10.
    pub fn interval(&self, level: f64) -> Option<(f64, f64)> {
        self.interval_of_size(self.total() as f64, z_score(level))
    }

    /// Tango's score statistic for the difference `null`, for pairs that are worth `size` independent
    /// ones ("Equivalence test and confidence interval for the difference in proportions for the
    /// paired-sample design", Statistics in Medicine 17, 1998).
    fn score(&self, size: f64, null: f64) -> f64 {
        let n = self.total() as f64;
        let [a, b] = [self.only_a, self.only_b].map(|count| count as f64 * size / n);
        // The share of `only_a` that is most likely under the null.
        let (second, first) = (2.0 * size, (2.0 * size - b + a) * null - a - b);
        let zeroth = -a * null * (1.0 - null);
        let root = (first * first - 4.0 * second * zeroth).max(0.0).sqrt();
        let share = (root - first) / (2.0 * second);
        let variance = size * (2.0 * share + null * (1.0 - null));
        let distance = b - a - size * null;
        if variance > 0.0 {
            distance / variance.sqrt()
        } else if distance == 0.0 {
            0.0
        } else {
            f64::INFINITY.copysign(distance)
        }
    }

    /// The interval of the differences that Tango's test does not reject.
    fn score_interval_of_size(&self, size: f64, z: f64) -> Option<(f64, f64)> {
        let difference = self.difference()?;
        // The statistic falls as the difference rises.
        let bound = |outer: f64, is_rejected: &dyn Fn(f64) -> bool| {
            let (mut inside, mut outside) = (difference, outer);
            if !is_rejected(outside) {
                return outside;
            }
            for _ in 0..60 {
                let middle = (inside + outside) / 2.0;
                match is_rejected(middle) {
                    true => outside = middle,
                    false => inside = middle,
                }
            }
            inside
        };
        Some((
            bound(-1.0, &|null| self.score(size, null) > z),
            bound(1.0, &|null| self.score(size, null) < -z),
        ))
    }

    /// The same interval for pairs that are worth `size` independent ones, with the quantile `z`.
    fn interval_of_size(&self, size: f64, z: f64) -> Option<(f64, f64)> {
        let difference = self.difference()?;
        let n = self.total() as f64;
        let scaled = |count: usize| count as f64 * size / n;
        let [both, a, b, neither] = [self.both, self.only_a, self.only_b, self.neither].map(scaled);
        let first = Wilson::from_share((self.both + self.only_a) as f64 / n, size, z);
        let second = Wilson::from_share((self.both + self.only_b) as f64 / n, size, z);
        let margins = (both + a) * (b + neither) * (both + b) * (a + neither);
        let agreement = both * neither - a * b;
        let corrected = if agreement > 0.0 {
            (agreement - size / 2.0).max(0.0)
        } else {
            agreement
        };
        let phi = if margins > 0.0 {
            corrected / margins.sqrt()
        } else {
            0.0
        };
        let half = |x: f64, y: f64| (x * x - 2.0 * phi * x * y + y * y).max(0.0).sqrt();
        Some((
            difference - half(second.down(), first.up()),
            difference + half(second.up(), first.down()),
        ))
    }
}

/// Pairs of items, some of which are copies of one item.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct PairedSample {
    #[serde(flatten)]
    pub pairs: Pairs,
    /// Number of different items: of clusters of copies.
    pub clusters: usize,
    /// Clusters in which more pairs are right only in the first arm, and only in the second.
    pub clusters_a: usize,
    pub clusters_b: usize,
    /// The number of independent pairs that all pairs are worth: their number divided by the design
    /// effect of the difference (Rao and Scott, "A simple method for the analysis of clustered
    /// binary data", Biometrics 48, 1992), at least 1. The number of clusters if no pair differs.
    pub effective: f64,
}

impl PairedSample {
    /// From the pairs of each cluster; empty clusters are left out.
    pub fn from_clusters(clusters: &[Pairs]) -> Self {
        let mut sample = Self::default();
        for pairs in clusters.iter().filter(|pairs| pairs.total() > 0) {
            sample.pairs += *pairs;
            sample.clusters += 1;
            sample.clusters_a += usize::from(pairs.only_a > pairs.only_b);
            sample.clusters_b += usize::from(pairs.only_b > pairs.only_a);
        }
        sample.effective = sample.effective_size(clusters);
        sample
    }

    /// Whether no pair is a copy of another.
    pub fn are_single(&self) -> bool {
        self.clusters == self.pairs.total()
    }

    /// Whether the counts fit together, in a sample from a file.
    pub fn is_consistent(&self) -> bool {
        let Pairs {
            both,
            only_a,
            only_b,
            neither,
        } = self.pairs;
        let total = [both, only_a, only_b, neither]
            .into_iter()
            .try_fold(0_usize, usize::checked_add);
        let clusters = self.clusters_a.checked_add(self.clusters_b);
        total.zip(clusters).is_some_and(|(total, differing)| {
            (1..=total).contains(&self.clusters)
                && differing <= self.clusters
                && (1.0..=total as f64).contains(&self.effective)
        })
    }

    fn effective_size(&self, clusters: &[Pairs]) -> f64 {
        let (pairs, count) = (self.pairs.total() as f64, self.clusters as f64);
        let Some(difference) = self.pairs.difference().filter(|_| !self.are_single()) else {
            return pairs;
        };
        let single = self.pairs.discordant() as f64 / pairs - difference * difference;
        if count < 2.0 || single <= 0.0 {
            return count;
        }
        let squares: f64 = clusters
            .iter()
            .map(|pairs| {
                let gain = pairs.only_b as f64 - pairs.only_a as f64;
                (gain - pairs.total() as f64 * difference).powi(2)
            })
            .sum();
        let clustered = count / (count - 1.0) * squares / (pairs * pairs);
        pairs / (clustered / (single / pairs)).max(1.0)
    }

    /// The two-sided p-value of McNemar's exact test. With copies: of the sign test over clusters,
    /// each with the sign of its own difference.
    pub fn p_value(&self) -> f64 {
        sign_test(self.clusters_a, self.clusters_b)
    }

    /// Newcombe's interval of the difference ([`Pairs::interval`]). With copies: for the effective
    /// number of pairs, and with the quantile of Student's t distribution with clusters - 1 degrees
    /// of freedom.
    pub fn interval(&self, level: f64) -> Option<(f64, f64)> {
        self.pairs
            .interval_of_size(self.effective, self.quantile(level))
    }

    /// An interval each of whose ends has at most its error probability, for one-sided decisions:
    /// Newcombe's and Tango's together. If few pairs differ, a bound of Newcombe's interval errs up
    /// to five times as often as it should, and the other bound of Tango's twice as often. If no
    /// pair differs in one direction, the difference in the other is at most the share of its pairs,
    /// which has an exact bound.
    pub fn one_sided_bounds(&self, level: f64) -> Option<(f64, f64)> {
        let z = self.quantile(level);
        let (mut low, mut high) = self.pairs.interval_of_size(self.effective, z)?;
        let (score_low, score_high) = self.pairs.score_interval_of_size(self.effective, z)?;
        (low, high) = (low.min(score_low), high.max(score_high));
        let exact = |count: usize| {
            let share = count as f64 / self.pairs.total() as f64;
            proportion_at_most(share, self.effective, (1.0 - level) / 2.0)
        };
        if self.pairs.only_b == 0 {
            low = low.min(-exact(self.pairs.only_a));
        }
        if self.pairs.only_a == 0 {
            high = high.max(exact(self.pairs.only_b));
        }
        Some((low, high))
    }

    /// A sample of `factor` times as many pairs that agree as often, without a difference.
    pub fn without_difference(&self, factor: f64) -> Self {
        let differing = self.pairs.discordant();
        Self {
            pairs: Pairs {
                both: 2 * self.pairs.both,
                only_a: differing,
                only_b: differing,
                neither: 2 * self.pairs.neither,
            },
            clusters: 2 * self.clusters,
            effective: factor * self.effective,
            ..*self
        }
    }

    fn quantile(&self, level: f64) -> f64 {
        if self.are_single() {
            return z_score(level);
        }
        t_score(level, self.clusters.saturating_sub(1).max(1))
    }

    /// Whether the difference is significant: the sign of it if its interval of 95 % excludes 0 and
    /// p is at most [`SIGNIFICANCE`].
    pub fn sign(&self) -> Option<Ordering> {
        let (low, high) = self.interval(1.0 - SIGNIFICANCE)?;
        match self.p_value() <= SIGNIFICANCE {
            true if low > 0.0 => Some(Ordering::Greater),
            true if high < 0.0 => Some(Ordering::Less),
            _ => None,
        }
    }
}

/// The two-sided p-value of McNemar's exact test (1947): the binomial test of the pairs that differ. No mid-p correction, so it
/// is conservative.
pub fn sign_test(first: usize, second: usize) -> f64 {
    (2.0 * binomial_at_most(first.min(second), first + second, 0.5)).min(1.0)
}

/// The smallest p-value that the test can have with this number of pairs that differ.
pub fn smallest_p(discordant: usize) -> f64 {
    2.0_f64.powi(1 - discordant.min(1000) as i32).min(1.0)
}

/// The probability that McNemar's exact test of `items` pairs finds an effect in its direction, with
/// this one-sided error. `discordant` is the share of pairs that differ, `effect` the difference
/// of the shares, above 0 and at most `discordant`.
///
/// The sum over the binomial number of discordant pairs: Duffy, "Asymptotic and exact power for the
/// McNemar test and its analogue with R controls per case" (Biometrics 40, 1984). With many pairs
/// the normal approximation of Connor, "Sample size for testing differences in proportions for the
/// paired-sample design" (Biometrics 43, 1987).
pub fn mcnemar_power(items: usize, discordant: f64, effect: f64, error: f64) -> f64 {
    let discordant = discordant.clamp(f64::MIN_POSITIVE, 1.0);
    let effect = effect.clamp(0.0, discordant);
    let n = items as f64;
    if n * discordant > MAX_EXACT_PAIRS {
        let spread = (discordant - effect * effect).max(f64::MIN_POSITIVE).sqrt();
        let needed = z_score(1.0 - 2.0 * error) * discordant.sqrt();
        return normal_at_most((effect * n.sqrt() - needed) / spread);
    }
    // Of the discordant pairs, the share against the effect.
    let against = (1.0 - effect / discordant) / 2.0;
    let spread = 6.0 * (n * discordant * (1.0 - discordant)).sqrt() + 1.0;
    let from = (n * discordant - spread).max(1.0) as usize;
    let to = ((n * discordant + spread) as usize).min(items);
    (from..=to)
        .map(|pairs| {
            // Fewer than this many against the effect are significant.
            let significant = binomial_quantile(error, pairs, 0.5);
            let rejected = significant
                .checked_sub(1)
                .map_or(0.0, |most| binomial_at_most(most, pairs, against));
            binomial_probability(pairs, items, discordant) * rejected
        })
        .sum()
}

/// The smallest number of items with which the test finds an effect ([`mcnemar_power`]). `None` if
/// the effect is not above 0 or needs too many items.
pub fn items_needed(discordant: f64, effect: f64, plan: TestPlan) -> Option<usize> {
    let is_possible = effect > 0.0 && discordant <= 1.0 && effect <= 1.0;
    let discordant = discordant.max(effect);
    let is_enough =
        |items: usize| mcnemar_power(items, discordant, effect, plan.error) >= plan.power;
    let mut enough = 1;
    while is_possible && enough < MAX_ITEMS && !is_enough(enough) {
        enough *= 2;
    }
    if !is_possible || !is_enough(enough) {
        return None;
    }
    let mut too_few = enough / 2;
    while enough - too_few > 1 {
        let middle = too_few + (enough - too_few) / 2;
        match is_enough(middle) {
            true => enough = middle,
            false => too_few = middle,
        }
    }
    Some(enough)
}

/// The pairs that find this loss ([`TestPlan::LOSS`]) if, beside it, the share `noise` differs by chance
/// in each direction.
pub fn pairs_needed(loss: f64, noise: f64) -> Option<usize> {
    items_needed(loss + 2.0 * noise, loss, TestPlan::LOSS)
}

/// The smallest effect that the test finds in `items` pairs of which the share `discordant` differs,
/// or more if the effect is larger. `None` if there are too few items for any.
pub fn smallest_visible_effect(items: usize, discordant: f64, plan: TestPlan) -> Option<f64> {
    let is_visible = |effect: f64| {
        let discordant = discordant.max(effect).min(1.0);
        mcnemar_power(items, discordant, effect, plan.error) >= plan.power
    };
    if !is_visible(1.0) {
        return None;
    }
    let (mut hidden, mut visible) = (0.0, 1.0);
    while visible - hidden > 1e-4 {
        let middle = (hidden + visible) / 2.0;
        match is_visible(middle) {
            true => visible = middle,
            false => hidden = middle,
        }
    }
    Some(visible)
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

    /// Expected: Newcombe's paper on paired data, example 36, 12, 2, 0 (with the sides exchanged).
    #[test]
    fn paired_proportions_match_newcombe() {
        let pairs = Pairs {
            both: 36,
            only_a: 2,
            only_b: 12,
            neither: 0,
        };
        near(pairs.interval(0.95).unwrap(), (0.0569, 0.3404));
    }

    /// Expected: the equation of Tango's paper, solved in Python.
    #[test]
    fn score_intervals_match_tango() {
        let sample = |both, only_a, only_b, neither| {
            let pairs = Pairs {
                both,
                only_a,
                only_b,
                neither,
            };
            pairs.score_interval_of_size(pairs.total() as f64, z_score(0.95))
        };
        near(sample(36, 2, 12, 0).unwrap(), (0.061_11, 0.344_71));
        near(sample(43, 1, 0, 0).unwrap(), (-0.118_08, 0.059_39));
        near(sample(0, 10, 0, 0).unwrap(), (-1.0, -0.444_93));
    }

    /// Expected: SciPy's `binomtest(k, n).pvalue`.
    #[test]
    fn mcnemar_matches_the_binomial_test() {
        for (only_a, only_b, expected) in [
            (0, 0, 1.0),
            (1, 0, 1.0),
            (5, 5, 1.0),
            (10, 1, 0.011_718_75),
            (0, 6, 0.031_25),
            (1200, 1000, 2.181_7e-5),
        ] {
            let found = sign_test(only_a, only_b);
            assert!(
                (found / expected - 1.0).abs() < 1e-3,
                "{only_a} {only_b}: {found}"
            );
        }
    }

    #[test]
    fn fewer_discordant_pairs_than_the_minimum_are_never_significant() {
        assert!(sign_test(0, MIN_DISCORDANT - 1) > SIGNIFICANCE);
        assert!(sign_test(0, MIN_DISCORDANT) < SIGNIFICANCE);
    }

    /// Expected: the rule of three, exactly: 1 - 0.05^(1/n).
    #[test]
    fn samples_without_a_differing_pair_have_an_exact_bound() {
        for (both, expected) in [(600, 0.004_980_4), (200, 0.014_867_1)] {
            let pairs = Pairs {
                both,
                ..Pairs::default()
            };
            let sample = PairedSample {
                pairs,
                clusters: both,
                effective: both as f64,
                ..PairedSample::default()
            };
            let (low, high) = sample.one_sided_bounds(0.9).unwrap();
            near((low, high), (-expected, expected));
            let larger = sample.without_difference(3.0).one_sided_bounds(0.9);
            assert!((3.0 * larger.unwrap().0 - low).abs() < 1e-4);
        }
    }

    #[test]
    fn trials_of_a_case_make_every_pair() {
        let pairs = Pairs::of_trials((2, 3), (1, 4));
        let expected = Pairs {
            both: 2,
            only_a: 6,
            only_b: 1,
            neither: 3,
        };
        assert_eq!(pairs, expected);
    }

    #[test]
    fn clusters_of_one_pair_are_pairs() {
        let mut total = Pairs::default();
        let mut single = Vec::new();
        for index in 0..40 {
            let (a, b) = (index % 3 > 0, index % 5 > 0);
            total.add(a, b);
            let mut pairs = Pairs::default();
            pairs.add(a, b);
            single.push(pairs);
        }
        let clustered = PairedSample::from_clusters(&single);
        assert_eq!(clustered.pairs, total);
        assert_eq!(clustered.interval(0.95), total.interval(0.95));
        assert_eq!(clustered.p_value(), sign_test(total.only_a, total.only_b));
        assert_eq!(clustered.effective, 40.0);
        assert!(clustered.is_consistent());
        let too_large = PairedSample {
            effective: 41.0,
            ..clustered
        };
        assert!(!too_large.is_consistent() && !PairedSample::default().is_consistent());
    }

    #[test]
    fn equal_copies_are_worth_one_pair() {
        let single = |a, b| {
            let mut pairs = Pairs::default();
            pairs.add(a, b);
            pairs
        };
        let items: Vec<Pairs> = (0..30)
            .map(|index| single(index % 3 > 0, index % 5 > 0))
            .collect();
        let times_ten = |pairs: &Pairs| Pairs {
            both: 10 * pairs.both,
            only_a: 10 * pairs.only_a,
            only_b: 10 * pairs.only_b,
            neither: 10 * pairs.neither,
        };
        let copied: Vec<Pairs> = items.iter().map(times_ten).collect();
        let copied = PairedSample::from_clusters(&copied);
        let single = PairedSample::from_clusters(&items);
        assert_eq!(copied.p_value(), single.p_value());
        // The variance between clusters has 29 degrees of freedom, that of pairs 30.
        assert!((copied.effective - 29.0).abs() < 1e-9);
        let ((low, high), (single_low, single_high)) = (
            copied.interval(0.95).unwrap(),
            single.interval(0.95).unwrap(),
        );
        assert!(low < single_low && single_high < high);
        assert!(high - low < 1.1 * (single_high - single_low));
        let all = PairedSample::from_clusters(&[Pairs {
            both: 5,
            ..Pairs::default()
        }]);
        assert_eq!((all.effective, all.p_value(), all.sign()), (1.0, 1.0, None));
    }

    /// Expected: the sum over all outcomes in Python, with exact binomial coefficients.
    #[test]
    fn power_is_the_share_of_significant_outcomes() {
        let plan = TestPlan::DIFFERENCE;
        for (items, discordant, effect, expected) in [
            (275, 0.09, 0.05, 0.756_099_083),
            (100, 0.3, 0.15, 0.746_596_740),
            (40, 0.2, 0.1, 0.172_364_542),
            (12, 1.0, 1.0, 1.0),
        ] {
            let found = mcnemar_power(items, discordant, effect, plan.error);
            assert!((found - expected).abs() < 1e-5, "{items}: {found}");
        }
        // The normal approximation continues the exact power.
        let [below, above] =
            [199_000, 201_000].map(|items| mcnemar_power(items, 0.1, 0.002, plan.error));
        assert!((above - below).abs() < 0.01, "{below} {above}");
    }

    #[test]
    fn sizes_and_effects_fit_together() {
        let plan = TestPlan::DIFFERENCE;
        for (discordant, effect) in [(0.09, 0.05), (0.3, 0.05), (0.1, 0.1), (0.2, 0.03)] {
            let items = items_needed(discordant, effect, plan).unwrap();
            assert!(mcnemar_power(items, discordant, effect, plan.error) >= plan.power);
            assert!(mcnemar_power(items - 1, discordant, effect, plan.error) < plan.power);
            let visible = smallest_visible_effect(items, discordant, plan).unwrap();
            assert!((visible - effect).abs() < 2e-3, "{visible} {effect}");
        }
        assert_eq!(items_needed(0.1, 0.0, plan), None);
        assert_eq!(smallest_visible_effect(5, 0.1, plan), None);
        assert!(smallest_visible_effect(10, 0.0, plan).unwrap() > 0.5);
    }

    /// Expected: five losses and no gain are significant, and SciPy's `binom.sf(4, n, loss)` is 0.95.
    #[test]
    fn losses_one_way_need_five_of_them() {
        for (loss, expected) in [(0.005, 1829), (0.01, 913), (0.02, 456)] {
            let found = pairs_needed(loss, 0.0).unwrap();
            assert_eq!(found, expected, "{loss}");
        }
        assert!(pairs_needed(0.005, 0.01).unwrap() > 5000);
    }
}
