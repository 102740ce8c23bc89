//! Durations in a row, and their slope over the token position.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use sobench_statistics::durations::{Durations, MAX_DURATION_NS};

/// Sums for the least-squares line through (position, ns). Sums of several rows can be added.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Slope {
    pub n: f64,
    pub sum_position: f64,
    pub sum_ns: f64,
    pub sum_position_squared: f64,
    pub sum_product: f64,
}

impl Slope {
    /// Adds a duration at a token's position.
    pub fn record(&mut self, position: usize, ns: u64) {
        let (position, ns) = (position as f64, ns as f64);
        self.n += 1.0;
        self.sum_position += position;
        self.sum_ns += ns;
        self.sum_position_squared += position * position;
        self.sum_product += position * ns;
    }

    /// Adds other sums.
    pub fn merge(&mut self, other: &Self) {
        self.n += other.n;
        self.sum_position += other.sum_position;
        self.sum_ns += other.sum_ns;
        self.sum_position_squared += other.sum_position_squared;
        self.sum_product += other.sum_product;
    }

    /// Additional nanoseconds per mask for each preceding token; `None` if all positions are equal.
    pub fn ns_per_position(&self) -> Option<f64> {
        let spread = self.n * self.sum_position_squared - self.sum_position * self.sum_position;
        (spread > 0.0)
            .then(|| (self.n * self.sum_product - self.sum_position * self.sum_ns) / spread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slope_of_collinear_points_is_exact() {
        let (mut first, mut second) = (Slope::default(), Slope::default());
        for position in 0..10 {
            first.record(position, 100 + 7 * position as u64);
            second.record(position + 10, 170 + 7 * position as u64);
        }
        first.merge(&second);
        assert!((first.ns_per_position().unwrap() - 7.0).abs() < 1e-9);
        assert_eq!(Slope::default().ns_per_position(), None);
    }
}
