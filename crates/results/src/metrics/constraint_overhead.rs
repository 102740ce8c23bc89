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
#[schemars(transform = with_older)]
pub struct Added {
    /// Mean of the differences between constrained requests and their controls.
    pub ms: f64,
    /// Mean of these controls.
    pub control_ms: f64,
    /// Bounds of the 95 % interval; `None` with fewer than ten pairs or [`MIN_RUNS`] repeats.
    pub low_ms: Option<f64>,
    pub high_ms: Option<f64>,
    /// Number of pairs of a constrained request and its control, both with a value; of constrained
    /// requests, if the arms have different cases.
    pub pairs: usize,
    /// The same figure for each repeat, in order.
    pub repeats_ms: Vec<f64>,
}

/// Files of older versions have the time in percent as well, and not that of the controls.
fn with_older(schema: &mut Schema) {
    let properties = schema.get_mut("properties");
    let properties = properties.and_then(serde_json::Value::as_object_mut);
    properties.map(|known| known.insert("percent".to_owned(), true.into()));
    let required = schema
        .get_mut("required")
        .and_then(serde_json::Value::as_array_mut);
    required
        .into_iter()
        .for_each(|names| names.retain(|name| name != "control_ms"));
}

impl Added {
    /// Whether there are enough pairs to show the figure.
    pub fn has_enough_pairs(&self) -> bool {
        self.pairs >= MIN_VALUES
    }

    /// Computes the figure from the mean of each run with the constraint and without it, in ms, and
    /// the number of requests, or pairs, behind them; `None` without runs. The interval is wider by
    /// `doubt_ms`, what the clients may have added to the means, which has none if it is unknown.
    pub fn new(
        constrained: &[f64],
        control: &[f64],
        pairs: usize,
        doubt_ms: Option<f64>,
    ) -> Option<Self> {
        let has_interval = pairs >= MIN_VALUES && constrained.len().min(control.len()) >= MIN_RUNS;
        let ratio = RunRatio::new(control, constrained).filter(|_| has_interval);
        let base = mean(control)?;
        let bounds = ratio.zip(doubt_ms).map(|(ratio, doubt_ms)| {
            let (low, high) = ratio.interval(LEVEL);
            (base * low - doubt_ms, base * high + doubt_ms)
        });
        let runs = constrained.iter().zip(control);
        Some(Self {
            ms: mean(constrained)? - base,
            control_ms: base,
            low_ms: bounds.map(|(low, _)| low),
            high_ms: bounds.map(|(_, high)| high),
            pairs,
            repeats_ms: runs
                .map(|(constrained, control)| constrained - control)
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_time_has_students_interval_over_repeats() {
        // Logarithms of 1.1, 1.2 and 1.3: mean 0.1800, squares 0.01396 around it; controls do not vary.
        // Pooled with 4 degrees: an error of 0.04824 and Student's factor 2.776.
        let added = |doubt_ms| Added::new(&[11.0, 12.0, 13.0], &[10.0; 3], 132, doubt_ms);
        let found = added(Some(0.0)).unwrap();
        assert_eq!(
            (found.ms, &found.repeats_ms[..]),
            (2.0, &[1.0, 2.0, 3.0][..])
        );
        let (low, high) = (found.low_ms.unwrap(), found.high_ms.unwrap());
        assert!(
            (low - 0.4715).abs() < 1e-3 && (high - 3.688).abs() < 1e-3,
            "{found:?}"
        );
        let doubted = added(Some(0.3)).unwrap();
        assert!((doubted.low_ms.unwrap() - (low - 0.3)).abs() < 1e-9);
        assert_eq!(added(None).unwrap().low_ms, None);
    }

    #[test]
    fn few_repeats_or_pairs_have_no_interval() {
        for (runs, pairs) in [(2, 88), (3, 9)] {
            let [with, without] = [12.0, 10.0].map(|ms| vec![ms; runs]);
            let found = Added::new(&with, &without, pairs, Some(0.0)).unwrap();
            assert_eq!(found.low_ms, None, "{runs} runs, {pairs} pairs");
        }
        assert_eq!(Added::new(&[], &[], 0, Some(0.0)), None);
    }
}
