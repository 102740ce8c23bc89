//! Axes of charts: ranges, ticks and tick labels.

/// An axis from its first tick to its last.
pub struct Axis {
    /// Values with labels, ascending; two to [`TICKS_MAX`]. Durations are in ns.
    ticks: Vec<(f64, String)>,
    scale: Scale,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scale {
    Linear,
    /// All ticks are above 0.
    Logarithmic,
}

/// The range of a linear axis. A series is constant if its values differ by at most
/// 0.5 % of the largest: its axis has them in the middle, because a range that is as
/// narrow as the values would show noise as a difference.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// Around the values; if they are constant, from 0 to a round number beyond twice the value.
    Data,
    /// The same, and always from 0.
    FromZero,
    /// The same, with whole numbers.
    Counts,
    /// Around the values; if they are constant, from 0 to 100.
    Percent,
}

/// Maximum number of ticks, so that labels do not overlap.
const TICKS_MAX: usize = 8;

/// Maximum number of steps of a linear axis that starts at a round number.
const LINEAR_STEPS: usize = 5;

const CONSTANT_SHARE: f64 = 0.005;

/// Values up to this multiple of the least are in the middle of a logarithmic axis.
const NARROW: f64 = 1.2;

/// Sizes that an axis can have, so that no step is infinite or 0.
const SIZES: std::ops::RangeInclusive<f64> = 1e-300..=1e300;

/// Numbers of this size and above, and steps below the other, are written with an exponent: beside
/// a chart there is no room for more digits.
const EXPONENT_FROM: f64 = 1e7;
const EXPONENT_STEP: f64 = 1e-5;

const UNITS: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];

impl Axis {
    /// From 1 us to 10 s with one tick per decade.
    pub fn microsecond_to_ten_seconds() -> Self {
        Self {
            ticks: (3..=10).map(|power| tick(10_f64.powi(power))).collect(),
            scale: Scale::Logarithmic,
        }
    }

    /// A logarithmic axis of durations in ns, from the round number at or below the least to the one
    /// at or above the largest; with the values in the middle if they are nearly constant. Round
    /// numbers are 1, 2 and 5 times a power of ten, or powers of ten alone if there would be too many
    /// ticks. `None` without a finite value.
    pub fn durations(values_ns: impl Iterator<Item = f64>) -> Option<Self> {
        Self::round(values_ns, 0, tick)
    }

    /// A logarithmic axis of numbers above 0, with ends as in [`Self::durations`].
    pub fn logarithmic(values: impl Iterator<Item = f64>) -> Option<Self> {
        Self::round(values, -6, |value| (value, label(value, value, value)))
    }

    fn round(
        values: impl Iterator<Item = f64>,
        least_power: i32,
        tick: fn(f64) -> (f64, String),
    ) -> Option<Self> {
        let (low, high) = ends(values)?;
        let (low, high) = match high <= NARROW * low {
            true => (low / 2.0, high * 2.0),
            false => (low, high),
        };
        let rounds = rounds_around(low, high, least_power);
        Some(Self {
            ticks: rounds.into_iter().map(tick).collect(),
            scale: Scale::Logarithmic,
        })
    }

    /// A linear axis of numbers, with a round number at both ends. `None` without a finite value.
    pub fn linear(values: impl Iterator<Item = f64>, range: Range) -> Option<Self> {
        let (low, high) = ends(values)?;
        let (low, high) = match range {
            Range::Percent if is_constant(low, high) => (0.0, 100.0),
            Range::FromZero | Range::Counts if !is_constant(low, high) => {
                (low.min(0.0), high.max(0.0))
            }
            _ => drawn_range(low, high),
        };
        let least = f64::from(u8::from(range == Range::Counts));
        let step = round_step(high - low, LINEAR_STEPS).max(least);
        let first = (low / step + 1e-6).floor();
        let last = (high / step - 1e-6).ceil();
        let number = |place: usize| {
            // Without `+ 0.0`, a small negative value is shown as `-0`.
            let value = (first + place as f64) * step + 0.0;
            (value, label(value, step, low.abs().max(high.abs())))
        };
        Some(Self {
            ticks: (0..=(last - first) as usize).map(number).collect(),
            scale: Scale::Linear,
        })
    }

    /// Values with their labels.
    pub fn ticks(&self) -> &[(f64, String)] {
        &self.ticks
    }

    /// The end of the axis.
    pub fn end(&self) -> f64 {
        self.ticks.last().map_or(1.0, |(value, _)| *value)
    }

    /// Position of a value on the axis (0 to 1); values beyond its ends are at its ends.
    pub fn position(&self, value: f64) -> f64 {
        let first = self.ticks.first().map_or(0.0, |(value, _)| *value);
        let along = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic => value.log10(),
        };
        let (start, end) = (along(first), along(self.end()));
        (along(value.max(first).min(self.end())) - start) / (end - start)
    }
}

/// The least and the largest finite value.
fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let largest = *SIZES.end();
    let finite = values.filter(|value| value.is_finite());
    let sized = finite.map(|value| value.clamp(-largest, largest));
    let pairs = sized.map(|value| (value, value));
    pairs.reduce(|(low, high), (value, _)| (low.min(value), high.max(value)))
}

/// The range that is drawn for values from `low` to `high`: of constant values from 0 to twice the
/// value, and from 0 to 1 of zeros.
pub fn drawn_range(low: f64, high: f64) -> (f64, f64) {
    match high {
        _ if !is_constant(low, high) => (low, high),
        _ if high.abs() <= *SIZES.start() => (0.0, 1.0),
        _ => (high.min(0.0) * 2.0, high.max(0.0) * 2.0),
    }
}

fn is_constant(low: f64, high: f64) -> bool {
    high - low <= (CONSTANT_SHARE * low.abs().max(high.abs())).max(*SIZES.start())
}

/// Round numbers from the one at or below `low` to the one at or above `high`, from
/// `10^least_power` on.
fn rounds_around(low: f64, high: f64, least_power: i32) -> Vec<f64> {
    let least = 10_f64.powi(least_power);
    let (low, high) = (low.max(least), high.max(2.0 * least));
    let within = |steps: &[f64]| -> Vec<f64> {
        let rounds: Vec<f64> = (least_power..=300)
            .flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)))
            .collect();
        let first = rounds.iter().rposition(|round| *round <= low).unwrap_or(0);
        let first = first.min(rounds.len() - 2);
        let last = rounds.iter().position(|round| *round >= high);
        let last = last.unwrap_or(rounds.len() - 1).max(first + 1);
        rounds[first..=last].to_vec()
    };
    let fine = within(&[1.0, 2.0, 5.0]);
    if fine.len() <= TICKS_MAX {
        return fine;
    }
    let decades = within(&[1.0]);
    let powers = (decades.len() - 1).div_ceil(TICKS_MAX - 1);
    let steps = (decades.len() - 1).div_ceil(powers);
    let decade = |step: usize| decades[0] * 10_f64.powi((step * powers) as i32);
    (0..=steps).map(decade).collect()
}

fn tick(ns: f64) -> (f64, String) {
    let (unit, name) = UNITS
        .into_iter()
        .find(|(unit, _)| ns >= *unit)
        .unwrap_or((1.0, "ns"));
    let number = (ns / unit).round();
    (ns, format!("{} {name}", label(number, number, number)))
}

/// The decimals that multiples of a step need.
pub fn decimals(step: f64) -> usize {
    (-power(step)).max(0.0) as usize
}

fn power(value: f64) -> f64 {
    (value.abs() * (1.0 + 1e-9)).log10().floor()
}

/// A multiple of `step` on an axis with numbers up to `largest`.
fn label(value: f64, step: f64, largest: f64) -> String {
    if value == 0.0 {
        "0".to_owned()
    } else if largest >= EXPONENT_FROM || step < EXPONENT_STEP {
        let digits = (power(value) - power(step)).max(0.0) as usize;
        format!("{value:.digits$e}")
    } else {
        format!("{value:.*}", decimals(step))
    }
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
    use sobench_testkit::random::Random;

    fn names(axis: &Axis) -> String {
        let names: Vec<&str> = axis.ticks().iter().map(|(_, name)| name.as_str()).collect();
        names.join(", ")
    }

    #[test]
    fn axes_of_durations_cover_their_values() {
        for (low, high, expected) in [
            (590e6, 640e6, "200 ms, 500 ms, 1 s, 2 s"),
            (3e6, 90e6, "2 ms, 5 ms, 10 ms, 20 ms, 50 ms, 100 ms"),
            (900.0, 2e9, "100 ns, 10 us, 1 ms, 100 ms, 10 s"),
            (5.0, 5.0, "2 ns, 5 ns, 10 ns"),
            (11e6, 11e6, "5 ms, 10 ms, 20 ms, 50 ms"),
            (0.0, 0.0, "1 ns, 2 ns"),
            (1e19, 1e19, "5e9 s, 1e10 s, 2e10 s"),
        ] {
            let axis = Axis::durations([high, low].into_iter()).unwrap();
            assert_eq!(names(&axis), expected, "{low} {high}");
        }
    }

    #[test]
    fn linear_axes_have_constant_values_in_the_middle() {
        use Range::{Counts, Data, FromZero, Percent};
        for (values, range, expected) in [
            ([-0.13, 0.41], Data, "-0.2, 0, 0.2, 0.4, 0.6"),
            ([93.2, 100.0], Percent, "92, 94, 96, 98, 100"),
            ([100.0, 100.0], Percent, "0, 20, 40, 60, 80, 100"),
            ([99.8, 100.0], Percent, "0, 20, 40, 60, 80, 100"),
            ([0.0, 0.0], FromZero, "0, 0.2, 0.4, 0.6, 0.8, 1.0"),
            ([0.0, 0.0], Counts, "0, 1"),
            ([0.0, 3.0], Counts, "0, 1, 2, 3"),
            ([5.0, 5.0], Data, "0, 2, 4, 6, 8, 10"),
            ([-5.0, -5.0], Data, "-10, -8, -6, -4, -2, 0"),
            ([820.1, 822.3], FromZero, "0, 500, 1000, 1500, 2000"),
            ([1_203.0, 2_950.0], Data, "1000, 1500, 2000, 2500, 3000"),
            ([1_203.0, 2_950.0], FromZero, "0, 1000, 2000, 3000"),
            ([1e-7, 3e-7], FromZero, "0, 1e-7, 2e-7, 3e-7"),
            ([2.0e8, 3.1e8], Data, "2.0e8, 2.5e8, 3.0e8, 3.5e8"),
            ([f64::NAN, 3.0], Data, "0, 2, 4, 6"),
        ] {
            let axis = Axis::linear(values.into_iter(), range).unwrap();
            assert_eq!(names(&axis), expected, "{values:?}");
        }
        let unknown = [f64::NAN, f64::INFINITY].into_iter();
        assert!(
            Axis::linear(unknown.clone(), Data).is_none() && Axis::durations(unknown).is_none()
        );
    }

    #[test]
    fn logarithmic_axes_of_numbers_have_decimals() {
        let axis = Axis::logarithmic([0.03, 4.0].into_iter()).unwrap();
        assert_eq!(names(&axis), "0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5");
        assert!(axis.position(0.001).abs() < 1e-9 && axis.position(0.02).abs() < 1e-9);
    }

    /// Series of one to three values: random, constant, nearly constant, negative, tiny and huge, some
    /// with values that are not finite.
    fn series(random: &mut Random) -> Vec<f64> {
        let size = 10_f64.powi(random.below(640) as i32 - 320);
        let size = if random.below(2) == 0 { size } else { 1.0 };
        let mut value = || (random.below(2_000_001) as f64 - 1e6) / 1e3 * size;
        let (first, second) = (value(), value());
        match random.below(5) {
            0 => vec![first],
            1 => vec![first, first * (1.0 + random.below(1000) as f64 * 1e-9)],
            2 => vec![f64::NAN, first, f64::INFINITY, f64::NEG_INFINITY],
            3 => vec![0.0, first],
            _ => vec![first, second, 0.5 * second],
        }
    }

    #[test]
    fn axes_of_any_values_are_readable() {
        let mut random = Random(7);
        for _ in 0..20_000 {
            let values = series(&mut random);
            let largest = 1e300_f64;
            let sized = |value: f64| value.clamp(-largest, largest);
            let finite: Vec<f64> = values
                .iter()
                .copied()
                .filter(|value| value.is_finite())
                .collect();
            let shown: Vec<f64> = finite.iter().copied().map(sized).collect();
            if finite.is_empty() {
                assert!(Axis::linear(values.into_iter(), Range::Data).is_none());
                continue;
            }
            for range in [Range::Data, Range::FromZero] {
                let axis = Axis::linear(values.iter().copied(), range).unwrap();
                check(&axis, &shown);
                let (low, high) = ends(shown.iter().copied()).unwrap();
                if is_constant(low, high) && high.abs() > 1e-290 {
                    let middle = axis.position(high);
                    assert!(
                        (0.3..=0.7).contains(&middle),
                        "{values:?}: {}",
                        names(&axis)
                    );
                }
            }
            let percents: Vec<f64> = shown.iter().map(|value| value.abs() % 100.0).collect();
            let axis = Axis::linear(percents.iter().copied(), Range::Percent).unwrap();
            check(&axis, &percents);
            let (first, last) = (axis.ticks()[0].0, axis.end());
            assert!(
                first >= 0.0 && last <= 100.0 + 1e-9,
                "{percents:?}: {}",
                names(&axis)
            );
            let sizes = || values.iter().map(|value| value.abs());
            let from = |least: f64| {
                shown
                    .iter()
                    .map(|value| value.abs().max(least))
                    .collect::<Vec<f64>>()
            };
            check(&Axis::durations(sizes()).unwrap(), &from(1.0));
            check(&Axis::logarithmic(sizes()).unwrap(), &from(1e-6));
        }
    }

    /// Few ticks, ascending, with different labels that are the numbers; all values are between them.
    fn check(axis: &Axis, shown: &[f64]) {
        let (ticks, found) = (axis.ticks(), format!("{shown:?}: {}", names(axis)));
        assert!((2..=TICKS_MAX).contains(&ticks.len()), "{found}");
        for pair in ticks.windows(2) {
            assert!(pair[0].0 < pair[1].0 && pair[0].1 != pair[1].1, "{found}");
        }
        let step = ticks[1].0 - ticks[0].0;
        for (value, name) in ticks {
            assert!(name.chars().count() <= 11 && name != "-0", "{found}");
            let read = name.parse::<f64>().unwrap_or(*value);
            assert!(
                (read - value).abs() <= 1e-6 * step.max(value.abs()),
                "{found}"
            );
        }
        let slack = 1e-5 * step;
        let is_inside = |value: &f64| *value >= ticks[0].0 - slack && *value <= axis.end() + slack;
        assert!(shown.iter().all(is_inside), "{found}");
        assert!(
            shown
                .iter()
                .all(|value| (0.0..=1.0).contains(&axis.position(*value)))
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
