//! The values of one request in all rates and distributions.

use super::{Metric, MetricKind};
use sobench_core::observation::Outcome;
use sobench_facts::Sample;
use sobench_facts::columns::{Bits, Column, Dense};
use sobench_plan::metrics::MetricsSettings;

/// Hits and values of one request by metric, including metrics in which it does not count
/// ([`super::Figure::counts`]).
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
    pub fn new(sample: &Sample<'_>, options: &MetricsSettings) -> Self {
        let mut values = Self::default();
        let is_abandoned = *sample.outcome() == Outcome::Abandoned;
        for (index, metric) in Metric::ALL.iter().enumerate() {
            match metric.kind {
                MetricKind::Rate(_) if is_abandoned => {}
                MetricKind::Rate(hit) => values.set_bit(index, hit(sample)),
                MetricKind::Distribution { value, .. } => {
                    let value = value(sample, options);
                    values
                        .values
                        .extend(value.map(|value| (index as u8, value)));
                }
                MetricKind::Pooled(_) | MetricKind::PerSecond(_) | MetricKind::Total(_) => {}
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
}

/// The hits and values of requests: a column for each metric of which one is known.
#[derive(Clone, Debug, Default)]
pub struct ValueColumns {
    /// By the metric's index, up to the last one that is known; empty for the others.
    hits: Vec<Bits<Option<bool>>>,
    values: Vec<Dense<Option<f64>, f64>>,
    /// Of a column.
    capacity: usize,
}

impl Column for ValueColumns {
    type Value = RequestValues;
    type Shown<'a> = RequestValues;

    fn set(&mut self, row: u32, value: RequestValues) {
        let mut known = value.known;
        while known != 0 {
            let index = known.trailing_zeros() as usize;
            let hit = value.hits & (1 << index) != 0;
            at(&mut self.hits, index).set(row, Some(hit));
            known &= known - 1;
        }
        for (index, value) in value.values {
            let column = at(&mut self.values, index.into());
            if column.packed().is_empty() {
                column.reserve(self.capacity);
            }
            column.set(row, Some(value));
        }
    }

    fn get(&self, row: u32) -> RequestValues {
        let mut values = RequestValues::default();
        for (index, column) in self.hits.iter().enumerate() {
            values.set_bit(index, column.get(row));
        }
        let known = self.values.iter().zip(0..);
        let value = |(column, index): (&Dense<_, _>, u8)| Some((index, column.get(row)?));
        values.values = known.filter_map(value).collect();
        values
    }

    fn value(&self, row: u32) -> RequestValues {
        self.get(row)
    }

    fn reserve(&mut self, rows: usize) {
        self.capacity = rows;
    }
}

impl ValueColumns {
    /// Whether each row is a hit of a rate.
    pub fn hits(&self, metric: &Metric) -> Option<&Bits<Option<bool>>> {
        self.hits.get(metric.index())
    }

    /// The value of each row in a distribution; `None` if no row has one.
    pub fn values(&self, metric: &Metric) -> Option<&Dense<Option<f64>, f64>> {
        let column = self.values.get(metric.index());
        column.filter(|column| !column.packed().is_empty())
    }

    /// Gives the columns with a value this many rows.
    pub fn fill(&mut self, rows: usize) {
        let known = self.values.iter_mut();
        known
            .filter(|column| !column.packed().is_empty())
            .for_each(|column| column.fill(rows));
    }
}

/// The column at an index, which may be new.
fn at<C: Default>(columns: &mut Vec<C>, index: usize) -> &mut C {
    if columns.len() <= index {
        columns.resize_with(index + 1, C::default);
    }
    &mut columns[index]
}
