//! What one request is in every rate and distribution.

use super::{Kind, Metric, rates};
use crate::metrics::{MetricsOptions, Sample};

/// Hits and values of one request by metric, whether or not it counts there ([`super::Among`]). Few
/// are known of each, so that they are searched.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestValues {
    /// By the metric's place in [`Metric::ALL`], ascending.
    hits: Vec<(u8, bool)>,
    values: Vec<(u8, f64)>,
}

impl RequestValues {
    /// Everything that is known of a request.
    pub fn new(sample: &Sample<'_>, options: &MetricsOptions) -> Self {
        let mut values = Self::default();
        for metric in Metric::ALL {
            match metric.kind {
                Kind::Rate { hit, .. } => values.set_hit(metric, hit(sample)),
                Kind::Distribution { value, .. } => {
                    values.set_value(metric, value(sample, options))
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

    /// Sets what is known.
    pub fn set_hit(&mut self, metric: &Metric, hit: Option<bool>) {
        set(&mut self.hits, metric, hit);
    }

    /// Sets what is known.
    pub fn set_value(&mut self, metric: &Metric, value: Option<f64>) {
        set(&mut self.values, metric, value);
    }

    /// Sets whether the request counts as correct: with its constraint in the one rate, without it
    /// in the other.
    pub fn set_correct(&mut self, correct: Option<bool>) {
        self.set_hit(&rates::CORRECT_RATE, correct);
        self.set_hit(&rates::CONTROL_RATE, correct);
    }
}

fn find<T: Copy>(known: &[(u8, T)], metric: &Metric) -> Option<T> {
    let place = metric.place();
    known
        .iter()
        .find(|(own, _)| usize::from(*own) == place)
        .map(|(_, value)| *value)
}

fn set<T>(known: &mut Vec<(u8, T)>, metric: &Metric, value: Option<T>) {
    let place = metric.place() as u8;
    known.retain(|(own, _)| *own != place);
    if let Some(value) = value {
        let at = known.partition_point(|(own, _)| *own < place);
        known.insert(at, (place, value));
    }
}
