//! The difference of two contenders in one figure, with an interval at any level.

use std::collections::BTreeMap;

use sobench_results::compare::contrast::{self, Hits};
use sobench_statistics::distributions::t_score;
use sobench_statistics::{Rate, mean};

/// Minimum number of repeats of each contender for times and throughput. One or two runs do not
/// show how much runs vary.
pub const MIN_REPEATS: usize = 3;

/// The values of a figure in one run: by case, or one for the whole run.
pub(super) type RunValues = BTreeMap<usize, f64>;

/// The hits of a rate in one run, by case, each with a hash of the request and its answer.
pub(super) type RunHits = BTreeMap<usize, (bool, u64)>;

/// The difference of two contenders, first minus second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Contrast {
    /// The figure of each contender.
    pub(super) levels: [f64; 2],
    pub(super) difference: f64,
    /// What the clients may have added to the difference, or taken from it.
    doubt: f64,
    spread: Spread,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Spread {
    /// Means: standard errors with their degrees of freedom, and the resolution of the figure. The
    /// interval is the widest.
    Means {
        errors: [Option<(f64, usize)>; 2],
        resolution: f64,
    },
    /// Shares, 0 to 1; second minus first.
    Shares(contrast::Contrast),
}

impl Contrast {
    /// The difference of means over the cases that every run has: Student's two-sample interval of
    /// the runs' means with pooled variance, as for `sobench compare`, and at least the interval of
    /// the differences of the cases. `None` without common cases, or below [`MIN_REPEATS`].
    pub(super) fn of_means(
        first: &[RunValues],
        second: &[RunValues],
        resolution: f64,
    ) -> Option<Self> {
        if first.len() < MIN_REPEATS || second.len() < MIN_REPEATS {
            return None;
        }
        let cases = common_cases(first.iter().chain(second));
        let run_means = |runs: &[RunValues]| -> Option<Vec<f64>> {
            runs.iter()
                .map(|run| mean(&cases.iter().map(|case| run[case]).collect::<Vec<_>>()))
                .collect()
        };
        let (a, b) = (run_means(first)?, run_means(second)?);
        let levels = [mean(&a)?, mean(&b)?];
        let degrees = a.len() + b.len() - 2;
        let variance = (squares(&a) + squares(&b)) / degrees as f64;
        let per_run = 1.0 / a.len() as f64 + 1.0 / b.len() as f64;
        let case_mean = |runs: &[RunValues], case: &usize| {
            runs.iter().map(|run| run[case]).sum::<f64>() / runs.len() as f64
        };
        let differences: Vec<f64> = cases
            .iter()
            .map(|case| case_mean(first, case) - case_mean(second, case))
            .collect();
        let count = differences.len();
        let of_cases = (count > 1).then(|| {
            let error = (squares(&differences) / ((count - 1) * count) as f64).sqrt();
            (error, count - 1)
        });
        Some(Self {
            levels,
            difference: levels[0] - levels[1],
            doubt: 0.0,
            spread: Spread::Means {
                errors: [Some(((variance * per_run).sqrt(), degrees)), of_cases],
                resolution,
            },
        })
    }

    /// The difference of shares over the cases that both contenders have, as for `sobench compare`
    /// ([`contrast::Contrast`]). Copies are one case. `None` without common cases.
    pub(super) fn of_shares(first: &[RunHits], second: &[RunHits]) -> Option<Self> {
        let copies = copies(first.iter().chain(second));
        let [a, b] = [first, second].map(hits);
        let found = contrast::Contrast::paired(&a, &b, |case| copies[&case])?;
        let levels = found.paired_shares()?;
        Some(Self {
            levels,
            difference: -found.difference,
            doubt: 0.0,
            spread: Spread::Shares(found),
        })
    }

    /// With what the clients may have added.
    pub(super) fn with_doubt(self, doubt: f64) -> Self {
        Self { doubt, ..self }
    }

    /// The interval of the difference.
    pub(super) fn interval(&self, level: f64) -> (f64, f64) {
        match self.spread {
            Spread::Means { errors, resolution } => {
                let half = errors
                    .iter()
                    .flatten()
                    .map(|(error, degrees)| t_score(level, *degrees) * error)
                    .fold(resolution, f64::max)
                    + self.doubt;
                (self.difference - half, self.difference + half)
            }
            Spread::Shares(contrast) => {
                let (low, high) = contrast.interval(level);
                (-high, -low)
            }
        }
    }

    /// Whether the interval excludes 0.
    pub(super) fn differs(&self, level: f64) -> bool {
        let (low, high) = self.interval(level);
        low > 0.0 || high < 0.0
    }
}

/// The share of hits over several runs, with the 95 % interval of its effective number of trials:
/// the unit is the case, as for [`Contrast::of_shares`]. `None` without hits.
pub(super) fn rate(runs: &[RunHits]) -> Option<Rate> {
    let copies = copies(runs.iter());
    contrast::rate(&hits(runs), |case| copies[&case])
}

fn hits(runs: &[RunHits]) -> Hits {
    let mut hits = Hits::default();
    for run in runs {
        hits.add_run(run.iter().map(|(case, (hit, _))| (*case, *hit)));
    }
    hits
}

/// A hash of each case that is equal for copies: the same request with the same answers in every run.
fn copies<'r>(runs: impl Iterator<Item = &'r RunHits>) -> BTreeMap<usize, u64> {
    let mut copies = BTreeMap::new();
    for (case, (_, copy)) in runs.flatten() {
        let hash: &mut u64 = copies.entry(*case).or_default();
        *hash = hash.rotate_left(5).wrapping_mul(31) ^ copy;
    }
    copies
}

/// Sum of squared deviations from the mean.
fn squares(values: &[f64]) -> f64 {
    let center = mean(values).unwrap_or(0.0);
    values.iter().map(|value| (value - center).powi(2)).sum()
}

/// The cases that every run has.
fn common_cases<'a>(runs: impl Iterator<Item = &'a RunValues>) -> Vec<usize> {
    let runs: Vec<&RunValues> = runs.collect();
    let is_common = |case: &usize| runs.iter().all(|run| run.contains_key(case));
    let cases = runs.first().map(|run| run.keys().copied());
    cases.into_iter().flatten().filter(is_common).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(values: &[f64]) -> Vec<RunValues> {
        values
            .iter()
            .map(|value| BTreeMap::from([(0, *value)]))
            .collect()
    }

    fn hits(repeats: usize, cases: usize, hit: impl Fn(usize, usize) -> bool) -> Vec<RunHits> {
        let run = |repeat| {
            (0..cases)
                .map(|case| (case, (hit(repeat, case), case as u64 * 7919)))
                .collect()
        };
        (0..repeats).map(run).collect()
    }

    #[test]
    fn means_have_students_two_sample_interval() {
        // Variances 1, a standard error of sqrt(2/3), and Student's factor 2.776 of 4 degrees.
        let found = Contrast::of_means(&runs(&[9.0, 10.0, 11.0]), &runs(&[4.0, 5.0, 6.0]), 0.0);
        let found = found.unwrap();
        let (low, high) = found.interval(0.95);
        assert!(
            (low - 2.733).abs() < 1e-3 && (high - 7.267).abs() < 1e-3,
            "{low} {high}"
        );
        // SciPy's `ttest_ind` gives p = 0.003_60.
        assert!(found.differs(1.0 - 0.003_65) && !found.differs(1.0 - 0.003_55));
        assert!(found.with_doubt(2.0).differs(0.95) && !found.with_doubt(2.8).differs(0.95));
    }

    #[test]
    fn means_need_three_runs_and_common_cases() {
        let (two, three) = (runs(&[1.0, 2.0]), runs(&[1.0, 2.0, 3.0]));
        assert_eq!(Contrast::of_means(&two, &three, 0.0), None);
        let other = vec![BTreeMap::from([(1, 1.0)]); 3];
        assert_eq!(Contrast::of_means(&other, &three, 0.0), None);
    }

    #[test]
    fn differences_without_variance_count_from_the_resolution_on() {
        let contrast = |first: f64| Contrast::of_means(&runs(&[first; 3]), &runs(&[5.0; 3]), 0.01);
        for (first, differs) in [(5.0, false), (5.009, false), (5.02, true)] {
            assert_eq!(contrast(first).unwrap().differs(0.999), differs, "{first}");
        }
    }

    #[test]
    fn cases_that_disagree_widen_the_interval() {
        let run = |sign: f64| -> RunValues {
            (0..20)
                .map(|case| (case, 10.0 + if case % 2 == 0 { sign } else { -sign }))
                .collect()
        };
        let found = Contrast::of_means(&vec![run(1.0); 3], &vec![run(-1.0); 3], 0.0).unwrap();
        // Differences of 2 and -2: a standard error of 2 * sqrt(20/19/20), factor 2.093.
        assert!((found.interval(0.95).1 - 0.9605).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn paired_shares_match_newcombe() {
        // His example 36, 12, 2, 0, first minus second: 0.0569 to 0.3404.
        let first = hits(1, 50, |_, case| case < 48);
        let second = hits(1, 50, |_, case| !(36..48).contains(&case));
        let (low, high) = Contrast::of_shares(&first, &second).unwrap().interval(0.95);
        assert!(
            (low - 0.0569).abs() < 6e-5 && (high - 0.3404).abs() < 6e-5,
            "{low} {high}"
        );
    }

    #[test]
    fn repeats_and_copies_of_a_case_are_no_evidence() {
        let width = |first: &[RunHits], second: &[RunHits]| {
            let (low, high) = Contrast::of_shares(first, second).unwrap().interval(0.95);
            high - low
        };
        let hit = |_: usize, case: usize| !case.is_multiple_of(4);
        let one = width(&hits(1, 40, hit), &hits(1, 40, |_, case| case % 4 != 1));
        let five = width(&hits(5, 40, hit), &hits(5, 40, |_, case| case % 4 != 1));
        // The variance between 40 cases has 39 degrees of freedom, and Student's factor.
        assert!((five / one - 1.0).abs() < 0.06, "{one} {five}");
        // Repeats with other hits are evidence.
        let varied =
            |offset: usize| hits(5, 40, move |repeat, case| (case + 7 * repeat) % 4 != offset);
        assert!(width(&varied(0), &varied(1)) < 0.7 * one);
        // Forty copies of one request are one.
        let copies = |hit: bool| vec![(0..40).map(|case| (case, (hit, 1))).collect::<RunHits>()];
        let contrast = Contrast::of_shares(&copies(true), &copies(false)).unwrap();
        assert!(!contrast.differs(0.95), "{contrast:?}");
    }

    #[test]
    fn one_bad_run_is_one_event() {
        let good = hits(3, 100, |_, _| true);
        let bad = hits(3, 100, |repeat, case| repeat != 1 || case >= 60);
        assert!(!Contrast::of_shares(&good, &bad).unwrap().differs(0.95));
        // Three bad runs are not.
        let bad = hits(3, 100, |_, case| case >= 20);
        assert!(Contrast::of_shares(&good, &bad).unwrap().differs(0.999));
        assert_eq!(Contrast::of_shares(&good, &[]), None);
    }
}
