//! Axes of charts: where they begin and end, and what stands at their ticks. Knows no chart.

/// A logarithmic axis of durations.
pub(super) struct Axis {
    /// In ns, with their names; at least two.
    ticks: Vec<(f64, String)>,
}

const UNITS: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];

impl Axis {
    /// A tick a decade.
    pub(super) fn microsecond_to_ten_seconds() -> Self {
        Self { ticks: (3..=10).map(|power| tick(10_f64.powi(power))).collect() }
    }

    pub(super) fn ticks(&self) -> &[(f64, String)] {
        &self.ticks
    }

    /// What is longer is not on it.
    pub(super) fn end_ns(&self) -> f64 {
        self.ticks.last().map_or(1.0, |(ns, _)| *ns)
    }

    /// Which part of its length lies before a duration (0 to 1); what is shorter than the axis stands at its beginning.
    pub(super) fn part_of(&self, ns: f64) -> f64 {
        let (first, last) = (self.ticks.first().map_or(1.0, |(ns, _)| *ns).log10(), self.end_ns().log10());
        (ns.max(1.0).log10().clamp(first, last) - first) / (last - first)
    }
}

fn tick(ns: f64) -> (f64, String) {
    let (unit, name) = UNITS.into_iter().find(|(unit, _)| ns >= *unit).unwrap_or((1.0, "ns"));
    (ns, format!("{} {name}", (ns / unit).round()))
}
