//! The cost of constraints: added milliseconds ([`Added`]), with a confidence interval.
//!
//! The same cases are sent on the same schedule with and without their constraint, so values come
//! in pairs. The added time is the mean of their differences. The interval is a two-stage bootstrap
//! (Davison and Hinkley, "Bootstrap Methods and their Application", section 3.8): repeats are
//! resampled, and pairs within each. Resamples of few repeats vary too little, so the interval is at
//! least Student's interval over the added times of the repeats. Below three repeats there is no
//! interval: one repeat shows no variation between runs, and with two Student's factor is 12.7.

use schemars::{JsonSchema, Schema};
use serde::Serialize;

use super::mean_difference::{
    MAX_DRAWS, MIN_VALUES, RESAMPLES, percentile_interval, squared_error,
};
use sobench_pycompat::random::NumpyRandom;
use sobench_statistics::bootstrap::RandomSource;
use sobench_statistics::distributions::student_t_975;
use sobench_statistics::{Z_95, mean};

/// Minimum number of repeats for an interval.
pub const MIN_REPEATS: usize = 3;

/// The time that the constraint adds to a request, in ms.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[schemars(transform = with_percent)]
pub struct Added {
    /// Mean of the differences between constrained requests and their controls.
    pub ms: f64,
    /// Bounds of the 95 % interval; `None` with fewer than ten pairs or [`MIN_REPEATS`] repeats.
    pub low_ms: Option<f64>,
    pub high_ms: Option<f64>,
    /// Number of pairs of a constrained request and its control, both with a value.
    pub pairs: usize,
    /// The same figure for each repeat, in order.
    pub repeats_ms: Vec<f64>,
}

/// Files of older versions have the time in percent as well.
fn with_percent(schema: &mut Schema) {
    let properties = schema.get_mut("properties");
    let properties = properties.and_then(serde_json::Value::as_object_mut);
    properties.map(|known| known.insert("percent".to_owned(), true.into()));
}

impl Added {
    /// Whether there are enough pairs to show the figure.
    pub fn has_enough_pairs(&self) -> bool {
        self.pairs >= MIN_VALUES
    }

    /// Computes the figure from the pairs (constrained, control) of each repeat, in ms; `None`
    /// without pairs.
    pub fn new(repeats: &[Vec<(f64, f64)>], seed: u64) -> Option<Self> {
        let differences = |pairs: &Vec<(f64, f64)>| -> Vec<f64> {
            pairs.iter().map(|(one, other)| one - other).collect()
        };
        let by_repeat: Vec<Vec<f64>> = repeats
            .iter()
            .filter(|pairs| !pairs.is_empty())
            .map(differences)
            .collect();
        let all = by_repeat.concat();
        let ms = mean(&all)?;
        let repeats_ms: Vec<f64> = by_repeat.iter().filter_map(|repeat| mean(repeat)).collect();
        let has_interval = all.len() >= MIN_VALUES && repeats_ms.len() >= MIN_REPEATS;
        let bounds = has_interval.then(|| {
            let (low, high) = if all.len().saturating_mul(RESAMPLES) > MAX_DRAWS {
                let half = Z_95 * squared_error(&all).sqrt();
                let (low, high) = percentile_interval(seed, |random| {
                    drawn_mean(random, repeats_ms.len(), |_, repeat| repeats_ms[repeat])
                });
                (low - half, high + half)
            } else {
                percentile_interval(seed, |random| {
                    drawn_mean(random, by_repeat.len(), |random, repeat| {
                        let values = &by_repeat[repeat];
                        drawn_mean(random, values.len(), |_, index| values[index])
                    })
                })
            };
            let degrees = repeats_ms.len() - 1;
            let center = mean(&repeats_ms).unwrap_or(ms);
            let half = student_t_975(degrees) * squared_error(&repeats_ms).sqrt();
            (low.min(center - half), high.max(center + half))
        });
        let (low_ms, high_ms) = bounds.unzip();
        Some(Self {
            ms,
            low_ms,
            high_ms,
            pairs: all.len(),
            repeats_ms,
        })
    }
}

/// The mean of the values of `count` random indices below `count`.
fn drawn_mean(
    random: &mut NumpyRandom,
    count: usize,
    value: impl Fn(&mut NumpyRandom, usize) -> f64,
) -> f64 {
    let draw = |random: &mut NumpyRandom| {
        let index = random.below(count);
        value(random, index)
    };
    (0..count).map(|_| draw(random)).sum::<f64>() / count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs with controls around 10 and constrained values of about `factor` times the control.
    fn pairs(n: usize, factor: f64) -> Vec<(f64, f64)> {
        (0..n)
            .map(|index| {
                let control = 9.0 + 2.0 * (index % 11) as f64 / 10.0;
                (
                    control * factor + if index.is_multiple_of(2) { 0.5 } else { -0.5 },
                    control,
                )
            })
            .collect()
    }

    fn repeats(n: usize, factors: &[f64]) -> Vec<Vec<(f64, f64)>> {
        factors.iter().map(|factor| pairs(n, *factor)).collect()
    }

    #[test]
    fn added_time_is_absolute_and_has_an_interval_over_pairs_and_repeats() {
        // Controls average 10 over each 11 pairs, so a factor of 1.2 adds 2 ms.
        let found = Added::new(&repeats(44, &[1.2; 3]), 0).unwrap();
        let (low, high) = (found.low_ms.unwrap(), found.high_ms.unwrap());
        assert!(
            (found.ms - 2.0).abs() < 1e-9 && found.pairs == 132,
            "{found:?}"
        );
        assert!(
            low < 2.0 && 2.0 < high && (0.05..0.4).contains(&(high - low)),
            "{found:?}"
        );
        assert_eq!(
            Added::new(&repeats(44, &[1.2; 3]), 0).unwrap(),
            found,
            "the same seed gives the same interval"
        );
        // Repeats add 1, 2 and 3 ms: a standard error of 0.577 and Student's factor 4.303.
        for n in [44, 20_009] {
            let found = Added::new(&repeats(n, &[1.1, 1.2, 1.3]), 0).unwrap();
            let (low, high) = (found.low_ms.unwrap(), found.high_ms.unwrap());
            assert!(
                low < -0.48 && high > 4.48 && (found.ms - 2.0).abs() < 0.01,
                "{found:?}"
            );
        }
    }

    #[test]
    fn added_time_needs_three_repeats_for_an_interval_and_no_size_of_control() {
        let two = Added::new(&repeats(44, &[1.2; 2]), 0).unwrap();
        assert_eq!(
            (two.low_ms, two.high_ms, two.repeats_ms.len()),
            (None, None, 2)
        );
        let instant = Added::new(&vec![vec![(1.5, 0.001); 20]; 3], 0).unwrap();
        assert!((instant.ms - 1.499).abs() < 1e-9);
        assert!(
            instant.high_ms.unwrap() - instant.low_ms.unwrap() < 1e-9,
            "all pairs are equal: {instant:?}"
        );
        assert_eq!(Added::new(&[vec![]], 0), None);
    }

    #[test]
    fn both_methods_give_similar_intervals() {
        let width = |n| {
            let found = Added::new(&repeats(n, &[1.2; 3]), 0).unwrap();
            found.high_ms.unwrap() - found.low_ms.unwrap()
        };
        let (width, expected) = (width(6_700), width(67) / 10.0);
        assert!(
            (width / expected - 1.0).abs() < 0.1,
            "{width} and {expected}"
        );
    }

    #[test]
    fn few_pairs_have_no_interval_and_repeats_without_pairs_do_not_count() {
        let few = Added::new(&repeats(3, &[1.2; 3]), 0).unwrap();
        assert_eq!((few.low_ms, few.pairs), (None, 9));
        let [one, two] = [pairs(50, 1.1), pairs(50, 1.3)];
        assert_eq!(Added::new(&[one, vec![], two], 0).unwrap().low_ms, None);
    }
}
