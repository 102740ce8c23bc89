//! The values of one request in all rates and distributions.

use super::{Kind, Metric, rates};
use crate::metrics::{MetricsOptions, Sample};
use sobench_core::observation::Outcome;

/// Hits and values of one request by metric, including metrics in which it does not count
/// ([`super::Population`]). The lists are short, so they are searched.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestValues {
    /// By the metric's index in [`Metric::ALL`], ascending.
    hits: Vec<(u8, bool)>,
    values: Vec<(u8, f64)>,
}

impl RequestValues {
    /// Computes the hits and values of a request.
    pub fn new(sample: &Sample<'_>, options: &MetricsOptions) -> Self {
        let mut values = Self::default();
        let is_abandoned = *sample.outcome() == Outcome::Abandoned;
        for metric in Metric::ALL {
            match metric.kind {
                Kind::Rate { .. } if is_abandoned => {}
                Kind::Rate { hit, .. } => values.set_hit(metric, hit(sample)),
                Kind::Distribution { value, .. } => {
                    values.set_value(metric, value(sample, options));
                }
                Kind::Pooled(_) | Kind::PerSecond(_) | Kind::Total(_) => {}
            }
        }
        values
    }

    /// Whether the request is a hit of a rate.
    pub fn hit(&self, metric: &Metric) -> Option<bool> {
        find(&self.hits, metric)
    }

    /// The value of the request in a distribution.
    pub fn value(&self, metric: &Metric) -> Option<f64> {
        find(&self.values, metric)
    }

    /// Sets or removes a hit.
    pub fn set_hit(&mut self, metric: &Metric, hit: Option<bool>) {
        set(&mut self.hits, metric, hit);
    }

    /// Sets or removes a value.
    pub fn set_value(&mut self, metric: &Metric, value: Option<f64>) {
        set(&mut self.values, metric, value);
    }

    /// Sets whether the answer is correct, for the correct rate and the control rate.
    pub fn set_correct(&mut self, correct: Option<bool>) {
        self.set_hit(&rates::CORRECT_RATE, correct);
        self.set_hit(&rates::CONTROL_RATE, correct);
    }
}

fn find<T: Copy>(known: &[(u8, T)], metric: &Metric) -> Option<T> {
    let index = metric.index();
    known
        .iter()
        .find(|(own, _)| usize::from(*own) == index)
        .map(|(_, value)| *value)
}

fn set<T>(known: &mut Vec<(u8, T)>, metric: &Metric, value: Option<T>) {
    let index = metric.index() as u8;
    known.retain(|(own, _)| *own != index);
    if let Some(value) = value {
        let at = known.partition_point(|(own, _)| *own < index);
        known.insert(at, (index, value));
    }
}
