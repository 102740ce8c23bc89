//! The cost of constraints: added milliseconds ([`Added`]), with a confidence interval.
//!
//! The same cases are sent on the same schedule with and without their constraint, so values come
//! in pairs. The added time is the mean of their differences. The interval is that of all times over
//! at least three runs ([`RunRatio`]), of the means with and without the constraint.

use schemars::{JsonSchema, Schema};
use serde::Serialize;

use sobench_statistics::contrast::{MIN_RUNS, MIN_VALUES, RunRatio};
use sobench_statistics::mean;

/// The level of the interval.
const LEVEL: f64 = 0.95;

/// The time that the constraint adds to a request, in ms.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[schemars(transform = with_percent)]
pub struct Added {
    /// Mean of the differences between constrained requests and their controls.
    pub ms: f64,
    /// Bounds of the 95 % interval; `None` with fewer than ten pairs or [`MIN_RUNS`] repeats.
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
    pub fn new(repeats: &[Vec<(f64, f64)>]) -> Option<Self> {
        let repeats: Vec<&Vec<(f64, f64)>> =
            repeats.iter().filter(|pairs| !pairs.is_empty()).collect();
        let means = |value: fn(&(f64, f64)) -> f64| -> Vec<f64> {
            let values = repeats.iter().map(|pairs| pairs.iter().map(value));
            values
                .filter_map(|values| mean(&values.collect::<Vec<_>>()))
                .collect()
        };
        let [constrained, control] = [means(|pair| pair.0), means(|pair| pair.1)];
        let repeats_ms: Vec<f64> = means(|pair| pair.0 - pair.1);
        let pairs = repeats.iter().map(|pairs| pairs.len()).sum();
        let has_interval = pairs >= MIN_VALUES && repeats.len() >= MIN_RUNS;
        let ratio = RunRatio::new(&control, &constrained).filter(|_| has_interval);
        let base = mean(&control)?;
        let bounds = ratio.map(|ratio| ratio.interval(LEVEL));
        Some(Self {
            ms: mean(&repeats_ms)?,
            low_ms: bounds.map(|(low, _)| base * low),
            high_ms: bounds.map(|(_, high)| base * high),
            pairs,
            repeats_ms,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs with controls around 10 ms and constrained values `factor` times as large.
    fn pairs(n: usize, factor: f64) -> Vec<(f64, f64)> {
        let control = |index: usize| 9.0 + 2.0 * (index % 11) as f64 / 10.0;
        let pair = |index| (control(index) * factor, control(index));
        (0..n).map(pair).collect()
    }

    fn repeats(factors: &[f64]) -> Vec<Vec<(f64, f64)>> {
        factors.iter().map(|factor| pairs(44, *factor)).collect()
    }

    #[test]
    fn added_time_has_students_interval_over_repeats() {
        // Logarithms of 1.1, 1.2 and 1.3: mean 0.1800, squares 0.01396 around it; controls do not vary.
        // Pooled with 4 degrees: an error of 0.04824 and Student's factor 2.776.
        let found = Added::new(&repeats(&[1.1, 1.2, 1.3])).unwrap();
        assert!((found.ms - 2.0).abs() < 1e-9 && found.pairs == 132);
        let (low, high) = (found.low_ms.unwrap(), found.high_ms.unwrap());
        assert!(
            (low - 0.4715).abs() < 1e-3 && (high - 3.688).abs() < 1e-3,
            "{found:?}"
        );
        let equal = Added::new(&repeats(&[1.2; 3])).unwrap();
        assert!((equal.low_ms.unwrap() - 2.0).abs() < 1e-9, "{equal:?}");
    }

    #[test]
    fn few_repeats_or_pairs_have_no_interval() {
        let two = Added::new(&repeats(&[1.2; 2])).unwrap();
        assert_eq!((two.low_ms, two.repeats_ms.len()), (None, 2));
        let few = Added::new(&vec![pairs(3, 1.2); 3]).unwrap();
        assert_eq!((few.low_ms, few.pairs), (None, 9));
        let [one, two] = [pairs(50, 1.1), pairs(50, 1.3)];
        assert_eq!(Added::new(&[one, vec![], two]).unwrap().low_ms, None);
        assert_eq!(Added::new(&[vec![]]), None);
    }
}
