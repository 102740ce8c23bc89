//! Axes of charts: ranges, ticks and tick labels.

/// An axis from its first tick to its last.
pub struct Axis {
    /// Values with labels, ascending; at least two. Durations are in ns.
    ticks: Vec<(f64, String)>,
    scale: Scale,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scale {
    Linear,
    /// All ticks are above 0.
    Logarithmic,
}

/// Maximum number of ticks, so that labels do not overlap.
const TICKS_MAX: usize = 8;

/// Maximum number of steps of a linear axis that starts at a round number.
const LINEAR_STEPS: usize = 5;

const UNITS: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];

impl Axis {
    /// From 1 us to 10 s with one tick per decade.
    pub fn microsecond_to_ten_seconds() -> Self {
        Self {
            ticks: (3..=10).map(|power| tick(10_f64.powi(power))).collect(),
            scale: Scale::Logarithmic,
        }
    }

    /// A logarithmic axis of durations, from the round number at or below `low_ns` to the one at or
    /// above `high_ns`. Round numbers are 1, 2 and 5 times a power of ten, or only powers of ten if
    /// there would be too many ticks.
    pub fn around(low_ns: u64, high_ns: u64) -> Self {
        let rounds = rounds_around(low_ns.max(1) as f64, high_ns.max(2) as f64, 0);
        Self {
            ticks: rounds.into_iter().map(tick).collect(),
            scale: Scale::Logarithmic,
        }
    }

    /// A logarithmic axis of numbers above 0, with round ends as in [`Self::around`].
    pub fn logarithmic(low: f64, high: f64) -> Self {
        let (low, high) = (low.max(1e-6), high.max(2e-6));
        let number = |value: f64| {
            let decimals = (-value.log10().floor()).clamp(0.0, 6.0) as usize;
            (value, format!("{value:.decimals$}"))
        };
        Self {
            ticks: rounds_around(low, high, -6)
                .into_iter()
                .map(number)
                .collect(),
            scale: Scale::Logarithmic,
        }
    }

    /// A linear axis of numbers, from the round number at or below `low` to the one at or above
    /// `high`; from 0 to 1 if both are 0.
    pub fn linear(low: f64, high: f64) -> Self {
        let high = if low == 0.0 && high == 0.0 { 1.0 } else { high };
        // Of equal values, the axis shows the neighbourhood.
        let span = (high - low).max(low.abs().max(high.abs()) * 1e-3).max(1e-6);
        let step = round_step(span, LINEAR_STEPS);
        let (first, last) = ((low / step).floor(), (high / step).ceil());
        let last = last.max(first + 1.0);
        let decimals = (-(step * (1.0 + 1e-9)).log10().floor()).clamp(0.0, 9.0) as usize;
        let count = (last - first).clamp(1.0, 100.0) as usize;
        let number = |place: usize| {
            let value = (first + place as f64) * step;
            // Without `+ 0.0`, a small negative value is shown as `-0`.
            (value, format!("{:.decimals$}", value + 0.0))
        };
        Self {
            ticks: (0..=count).map(number).collect(),
            scale: Scale::Linear,
        }
    }

    /// Names at the numbers 0, 1, 2 ... The first and the last are half a step from the ends.
    pub fn categories(names: impl IntoIterator<Item = String>) -> Self {
        let mut ticks = vec![(-0.5, String::new())];
        ticks.extend(
            names
                .into_iter()
                .enumerate()
                .map(|(index, name)| (index as f64, name)),
        );
        ticks.push((ticks.len() as f64 - 1.5, String::new()));
        Self {
            ticks,
            scale: Scale::Linear,
        }
    }

    pub(crate) fn ticks(&self) -> &[(f64, String)] {
        &self.ticks
    }

    /// The end of the axis.
    pub(crate) fn end(&self) -> f64 {
        self.ticks.last().map_or(1.0, |(value, _)| *value)
    }

    /// Position of a value on the axis (0 to 1); values beyond its ends are at its ends.
    pub(crate) fn position(&self, value: f64) -> f64 {
        let first = self.ticks.first().map_or(0.0, |(value, _)| *value);
        let along = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic => value.log10(),
        };
        let (start, end) = (along(first), along(self.end()));
        (along(value.max(first).min(self.end())) - start) / (end - start)
    }
}

/// Round numbers from the one at or below `low` to the one at or above `high`, from
/// `10^least_power` on.
fn rounds_around(low: f64, high: f64, least_power: i32) -> Vec<f64> {
    let within = |steps: &[f64]| -> Vec<f64> {
        let rounds: Vec<f64> = (least_power..20)
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
    if fine.len() > TICKS_MAX {
        within(&[1.0])
    } else {
        fine
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
    fn axes_of_numbers_start_where_the_data_start() {
        let names = |axis: &Axis| {
            let names: Vec<&str> = axis.ticks().iter().map(|(_, name)| name.as_str()).collect();
            names.join(" ")
        };
        for (low, high, expected) in [
            (-0.13, 0.41, "-0.2 0.0 0.2 0.4 0.6"),
            (93.2, 100.0, "92 94 96 98 100"),
            (0.0, 0.0, "0.0 0.2 0.4 0.6 0.8 1.0"),
            (5.0, 5.0, "5.000 5.001"),
            (1_203.0, 2_950.0, "1000 1500 2000 2500 3000"),
        ] {
            let axis = Axis::linear(low, high);
            assert_eq!(names(&axis), expected, "{low} {high}");
            assert!((axis.position(axis.end()) - 1.0).abs() < 1e-9);
        }
        let axis = Axis::logarithmic(0.03, 4.0);
        assert_eq!(names(&axis), "0.02 0.05 0.1 0.2 0.5 1 2 5");
        assert!(axis.position(0.001).abs() < 1e-9 && axis.position(0.02).abs() < 1e-9);
        let axis = Axis::categories(["a", "b"].map(str::to_owned));
        assert!(
            (axis.position(0.0) - 0.25).abs() < 1e-9 && (axis.position(1.0) - 0.75).abs() < 1e-9
        );
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
