//! The values of one request in all rates and distributions.

use super::{Kind, Metric, rates};
use sobench_core::observation::Outcome;
use sobench_facts::Sample;
use sobench_plan::metrics::MetricsOptions;

/// Hits and values of one request by metric, including metrics in which it does not count
/// ([`super::Population`]).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestValues {
    /// Bits by the metric's index in [`Metric::ALL`]: whether the hit is known, and whether it is one.
    known: u64,
    hits: u64,
    /// By the metric's index, ascending. The list is short, so it is searched.
    values: Vec<(u8, f64)>,
}

impl RequestValues {
    /// Computes the hits and values of a request.
    pub fn new(sample: &Sample<'_>, options: &MetricsOptions) -> Self {
        let mut values = Self::default();
        let is_abandoned = *sample.outcome() == Outcome::Abandoned;
        for (index, metric) in Metric::ALL.iter().enumerate() {
            match metric.kind {
                Kind::Rate { .. } if is_abandoned => {}
                Kind::Rate { hit, .. } => values.set_bit(index, hit(sample)),
                Kind::Distribution { value, .. } => {
                    let value = value(sample, options);
                    values
                        .values
                        .extend(value.map(|value| (index as u8, value)));
                }
                Kind::Pooled(_) | Kind::PerSecond(_) | Kind::Total(_) => {}
            }
        }
        values
    }

    /// Whether the request is a hit of a rate.
    pub fn hit(&self, metric: &Metric) -> Option<bool> {
        let bit = 1_u64.checked_shl(metric.index() as u32)?;
        (self.known & bit != 0).then_some(self.hits & bit != 0)
    }

    /// The value of the request in a distribution.
    pub fn value(&self, metric: &Metric) -> Option<f64> {
        let index = metric.index();
        let mut known = self.values.iter();
        known
            .find(|(own, _)| usize::from(*own) == index)
            .map(|(_, value)| *value)
    }

    /// Bits of the rates whose hit is known, by the metric's index.
    pub(crate) fn known_hits(&self) -> u64 {
        self.known
    }

    /// Bits of the rates of which the request is a hit, by the metric's index.
    pub(crate) fn hits(&self) -> u64 {
        self.hits
    }

    /// Values with the metric's index.
    pub(crate) fn values(&self) -> impl Iterator<Item = (u8, f64)> {
        self.values.iter().copied()
    }

    /// Sets or removes a hit.
    pub fn set_hit(&mut self, metric: &Metric, hit: Option<bool>) {
        self.set_bit(metric.index(), hit);
    }

    fn set_bit(&mut self, index: usize, hit: Option<bool>) {
        let bit = 1_u64.checked_shl(index as u32).unwrap_or_default();
        self.known &= !bit;
        self.hits &= !bit;
        if let Some(hit) = hit {
            self.known |= bit;
            self.hits |= if hit { bit } else { 0 };
        }
    }

    /// Sets or removes a value.
    pub fn set_value(&mut self, metric: &Metric, value: Option<f64>) {
        let index = metric.index() as u8;
        self.values.retain(|(own, _)| *own != index);
        if let Some(value) = value {
            let at = self.values.partition_point(|(own, _)| *own < index);
            self.values.insert(at, (index, value));
        }
    }

    /// Sets whether the answer is correct, for the correct rate and the control rate.
    pub fn set_correct(&mut self, correct: Option<bool>) {
        self.set_hit(&rates::CORRECT_RATE, correct);
        self.set_hit(&rates::CONTROL_RATE, correct);
    }
}
