//! Formats numbers for table cells: three significant digits, thousands separators, `n/a` for
//! unknown values.

pub(super) use sobench_core::printable::thousands as count;
use sobench_results::metrics::distribution::{Bound, Distribution};

/// The cell of an unknown value.
pub(super) const UNKNOWN: &str = "n/a";

/// The unit of a row of durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Us,
    Ms,
}

impl Unit {
    fn ns(self) -> f64 {
        match self {
            Self::Us => 1e3,
            Self::Ms => 1e6,
        }
    }

    /// A duration without its unit.
    pub(super) fn format_ns(self, ns: Option<f64>) -> String {
        ns.map_or_else(|| UNKNOWN.to_owned(), |ns| decimal(ns / self.ns()))
    }

    /// A percentile, marked with `*` if there are too few values.
    pub(super) fn percentile(self, distribution: &Distribution, percent: f64) -> String {
        let mark = if distribution.has_enough_for(percent) || distribution.n() == 0 {
            ""
        } else {
            "*"
        };
        format!("{}{mark}", self.bound(distribution.percentile(percent)))
    }

    /// A value, or its known lower bound.
    pub(super) fn bound(self, bound: Option<Bound>) -> String {
        match bound {
            Some(Bound::At(ns)) => self.format_ns(Some(ns as f64)),
            Some(Bound::Above(ns)) => format!(">{}", self.format_ns(Some(ns as f64))),
            None => UNKNOWN.to_owned(),
        }
    }
}

/// At least three significant digits.
pub(super) fn decimal(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => {
            let sign = if value < 0.0 { "-" } else { "" };
            format!("{sign}{}", count(size.round() as u64))
        }
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.9995 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A share (0 to 1) in percent. Rounding never turns a positive share into 0 or a partial share
/// into 100.
pub(super) fn percent(share: Option<f64>) -> String {
    match share {
        None => UNKNOWN.to_owned(),
        Some(share) if share > 0.0 && share < 0.000_005 => "<0.001".to_owned(),
        Some(share) if share < 0.01 => format!("{:.3}", 100.0 * share),
        Some(share) if share < 1.0 && share > 0.9999 => ">99.99".to_owned(),
        Some(share) => format!("{:.2}", 100.0 * share),
    }
}

/// A size in the largest binary unit with a non-zero integer part.
pub(super) fn bytes(value: Option<u64>) -> String {
    let Some(value) = value else {
        return UNKNOWN.to_owned();
    };
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut size, mut unit) = (value as f64, 0);
    while size >= 1024.0 && unit + 1 < units.len() {
        size /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{value} B")
    } else {
        format!("{} {}", decimal(size), units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_have_three_significant_digits_and_thousands_separators() {
        for (value, expected) in [
            (0.0, "0.00"),
            (0.000_4, "0.000"),
            (0.123_4, "0.123"),
            (0.999_9, "1.00"),
            (1.0, "1.00"),
            (9.994, "9.99"),
            (9.996, "10.0"),
            (99.94, "99.9"),
            (99.96, "100"),
            (1_234_567.8, "1,234,568"),
            (-12.34, "-12.3"),
            (-1_234.0, "-1,234"),
        ] {
            assert_eq!(decimal(value), expected, "{value}");
        }
        assert_eq!(
            (count(0), count(999), count(1_000), count(1_000_000)),
            ("0".into(), "999".into(), "1,000".into(), "1,000,000".into())
        );
    }

    #[test]
    fn percent_never_rounds_to_zero_or_all() {
        for (share, expected) in [
            (None, "n/a"),
            (Some(0.0), "0.000"),
            (Some(0.000_000_1), "<0.001"),
            (Some(0.000_1), "0.010"),
            (Some(0.25), "25.00"),
            (Some(0.999_999), ">99.99"),
            (Some(1.0), "100.00"),
        ] {
            assert_eq!(percent(share), expected);
        }
    }

    #[test]
    fn sizes_have_units_and_bounds_are_marked() {
        for (size, expected) in [
            (None, "n/a"),
            (Some(12), "12 B"),
            (Some(1536), "1.50 KiB"),
            (Some(3 << 30), "3.00 GiB"),
            (Some(u64::MAX), "16,777,216 TiB"),
        ] {
            assert_eq!(bytes(size), expected);
        }
        assert_eq!(
            Unit::Ms.bound(Some(Bound::Above(60_000_000_000))),
            ">60,000"
        );
        let mut few = Distribution::default();
        assert_eq!(Unit::Us.percentile(&few, 99.0), "n/a");
        few.record(1_500);
        assert_eq!(Unit::Us.percentile(&few, 99.0), "1.50*");
    }
}
