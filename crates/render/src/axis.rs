//! Axes of charts: ranges, ticks and tick labels.

/// A logarithmic axis of durations.
pub struct Axis {
    /// Positions in ns with labels; at least two.
    ticks: Vec<(f64, String)>,
}

/// Maximum number of ticks, so that labels do not overlap.
const TICKS_MAX: usize = 8;

const UNITS: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];

impl Axis {
    /// From 1 us to 10 s with one tick per decade.
    pub fn microsecond_to_ten_seconds() -> Self {
        Self {
            ticks: (3..=10).map(|power| tick(10_f64.powi(power))).collect(),
        }
    }

    /// From the round number at or below `low_ns` to the one at or above `high_ns`. Round numbers
    /// are 1, 2 and 5 times a power of ten, or only powers of ten if there would be too many ticks.
    pub fn around(low_ns: u64, high_ns: u64) -> Self {
        let (low, high) = (low_ns.max(1) as f64, high_ns.max(2) as f64);
        let within = |steps: &[f64]| -> Vec<f64> {
            let rounds: Vec<f64> = (0..20)
                .flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)))
                .collect();
            let first = rounds.iter().rposition(|round| *round <= low).unwrap_or(0);
            let last = rounds
                .iter()
                .position(|round| *round >= high)
                .unwrap_or(rounds.len() - 1)
                .max(first + 1)
                .min(rounds.len() - 1);
            rounds[first..=last].to_vec()
        };
        let fine = within(&[1.0, 2.0, 5.0]);
        let rounds = if fine.len() > TICKS_MAX {
            within(&[1.0])
        } else {
            fine
        };
        Self {
            ticks: rounds.into_iter().map(tick).collect(),
        }
    }

    pub(crate) fn ticks(&self) -> &[(f64, String)] {
        &self.ticks
    }

    /// The end of the axis.
    pub(crate) fn end_ns(&self) -> f64 {
        self.ticks.last().map_or(1.0, |(ns, _)| *ns)
    }

    /// Position of a duration on the axis (0 to 1); shorter durations than the axis are at 0.
    pub(crate) fn position(&self, ns: f64) -> f64 {
        let (first, last) = (
            self.ticks.first().map_or(1.0, |(ns, _)| *ns).log10(),
            self.end_ns().log10(),
        );
        (ns.max(1.0).log10().clamp(first, last) - first) / (last - first)
    }
}

fn tick(ns: f64) -> (f64, String) {
    let (unit, name) = UNITS
        .into_iter()
        .find(|(unit, _)| ns >= *unit)
        .unwrap_or((1.0, "ns"));
    (ns, format!("{} {name}", (ns / unit).round()))
}

/// A round step (1, 2 or 5 times a power of ten) for a linear axis from 0 to `high` with at most
/// `steps` steps.
pub fn round_step(high: f64, steps: usize) -> f64 {
    let least = (high / steps.max(1) as f64).max(f64::MIN_POSITIVE);
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= least * (1.0 - 1e-9))
        .unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_cover_their_values() {
        for (low, high, expected) in [
            (590_000_000, 640_000_000, "500 ms, 1 s"),
            (
                3_000_000,
                90_000_000,
                "2 ms, 5 ms, 10 ms, 20 ms, 50 ms, 100 ms",
            ),
            (
                900,
                3_000_000_000,
                "100 ns, 1 us, 10 us, 100 us, 1 ms, 10 ms, 100 ms, 1 s, 10 s",
            ),
            (5, 5, "5 ns, 10 ns"),
            (0, 0, "1 ns, 2 ns"),
            (u64::MAX, u64::MAX, "10000000000 s, 20000000000 s"),
        ] {
            let axis = Axis::around(low, high);
            assert_eq!(
                axis.ticks()
                    .iter()
                    .map(|(_, name)| name.as_str())
                    .collect::<Vec<_>>()
                    .join(", "),
                expected,
                "{low} {high}"
            );
            assert!((0.0..=1.0).contains(&axis.position(low as f64)));
        }
    }

    #[test]
    fn steps_are_round_and_limited_in_number() {
        for (high, steps, expected) in [
            (10.0, 5, 2.0),
            (11.0, 5, 5.0),
            (1.0, 10, 0.1),
            (0.0, 4, 0.0),
            (640.0, 8, 100.0),
        ] {
            let step = round_step(high, steps);
            assert!(
                (step - expected).abs() < 1e-9 && step > 0.0,
                "{high}: {step}"
            );
        }
    }
}
