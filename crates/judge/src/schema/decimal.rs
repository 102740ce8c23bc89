//! Exact comparison and divisibility of JSON numbers of any size.

use std::cmp::Ordering;

/// Bytes of an integer that surely has less than 64 bits.
const MAX_SHORT_BYTES: usize = 18;

/// A number as `digits * 10^exponent`. Zero has no digits and no sign.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    /// Digits without leading and trailing zeros.
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    /// Parses a JSON number. Exponents beyond 64 bits are saturated.
    pub(super) fn parse(number: &str) -> Self {
        let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
        let is_negative_exponent = exponent.starts_with('-');
        let mut exponent = exponent.parse().unwrap_or(if is_negative_exponent {
            i64::MIN / 2
        } else {
            i64::MAX / 2
        });
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        exponent = i64::saturating_sub(exponent, fraction.len() as i64);
        let all = whole
            .bytes()
            .chain(fraction.bytes())
            .filter(u8::is_ascii_digit)
            .map(|digit| digit - b'0');
        let mut digits: Vec<u8> = all.skip_while(|digit| *digit == 0).collect();
        let significant = digits
            .iter()
            .rposition(|digit| *digit != 0)
            .map_or(0, |last| last + 1);
        exponent = exponent.saturating_add((digits.len() - significant) as i64);
        digits.truncate(significant);
        if digits.is_empty() {
            exponent = 0;
        }
        Self {
            negative: number.starts_with('-') && !digits.is_empty(),
            digits,
            exponent,
        }
    }

    /// Compares by value.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.compare_absolute(other),
            (true, true) => other.compare_absolute(self),
        }
    }

    /// Compares absolute values: first the position of the first digit, then the digits, which have
    /// no trailing zeros.
    fn compare_absolute(&self, other: &Self) -> Ordering {
        match (self.digits.is_empty(), other.digits.is_empty()) {
            (false, false) => {
                let magnitude =
                    |number: &Self| number.exponent.saturating_add(number.digits.len() as i64);
                magnitude(self)
                    .cmp(&magnitude(other))
                    .then_with(|| self.digits.cmp(&other.digits))
            }
            (is_zero, other_is_zero) => other_is_zero.cmp(&is_zero),
        }
    }

    /// Canonical text of a number: equal for equal numbers, different for others.
    ///
    /// Exponents beyond 64 bits are not distinguished; JSON readers do not distinguish them either.
    pub(super) fn canonical_text(number: &str) -> String {
        let Self {
            negative,
            digits,
            exponent,
        } = Self::parse(number);
        let sign = if negative { "-" } else { "" };
        let digits: String = digits
            .iter()
            .map(|digit| char::from(b'0' + digit))
            .collect();
        format!("{sign}{digits}e{exponent}")
    }

    /// The digits as a number, if it fits. The divisor of [`Self::is_multiple_of`] must fit.
    pub(super) fn mantissa(&self) -> Option<u64> {
        let step = |number: u64, digit: &u8| number.checked_mul(10)?.checked_add(u64::from(*digit));
        self.digits.iter().try_fold(0, step)
    }

    /// Whether this number is an integer times `mantissa * 10^exponent`, where `mantissa` is not 0.
    ///
    /// `digits` has no trailing zero, so a missing power of ten cannot come from them. Otherwise,
    /// `digits * 10^shift` is divided by the mantissa by long division.
    pub(super) fn is_multiple_of(&self, mantissa: u64, exponent: i64) -> bool {
        if self.digits.is_empty() {
            return true;
        }
        let Ok(shift) = u64::try_from(self.exponent.saturating_sub(exponent)) else {
            return false;
        };
        let modulus = u128::from(mantissa);
        let digits = self.digits.iter().fold(0, |remainder, digit| {
            (remainder * 10 + u128::from(*digit)) % modulus
        });
        (digits * power_of_ten(shift, modulus)).is_multiple_of(modulus)
    }

    pub(super) fn exponent(&self) -> i64 {
        self.exponent
    }

    /// Whether it is less than zero.
    pub(super) fn is_negative(&self) -> bool {
        self.negative
    }

    /// Digits without leading and trailing zeros.
    pub(super) fn digits(&self) -> &[u8] {
        &self.digits
    }
}

/// A number that others are compared with.
pub(super) struct Bound {
    number: Decimal,
    /// The number, if it is a short integer. Two of them are compared without a [`Decimal`].
    short: Option<i64>,
}

impl Bound {
    pub(super) fn new(number: &str) -> Self {
        Self {
            number: Decimal::parse(number),
            short: short_integer(number),
        }
    }

    /// The order of `number` to this one.
    pub(super) fn compare(&self, number: &str) -> Ordering {
        match (short_integer(number), self.short) {
            (Some(number), Some(bound)) => number.cmp(&bound),
            _ => Decimal::parse(number).compare(&self.number),
        }
    }
}

/// A number that is written as an integer of few digits.
fn short_integer(number: &str) -> Option<i64> {
    if number.len() <= MAX_SHORT_BYTES {
        number.parse().ok()
    } else {
        None
    }
}

/// `10^power` modulo `modulus`, which is below 2^64, by repeated squaring.
fn power_of_ten(mut power: u64, modulus: u128) -> u128 {
    let (mut result, mut square) = (1 % modulus, 10 % modulus);
    while power > 0 {
        if !power.is_multiple_of(2) {
            result = result * square % modulus;
        }
        square = square * square % modulus;
        power /= 2;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(number: &str, divisor: &str, expected: bool) {
        let divisor = Decimal::parse(divisor);
        let mantissa = divisor.mantissa().unwrap();
        assert_eq!(
            Decimal::parse(number).is_multiple_of(mantissa, divisor.exponent()),
            expected,
            "{number} by {divisor:?}"
        );
    }

    #[test]
    fn numbers_are_compared_exactly() {
        let ordered = [
            "-1e99999999999999999999",
            "-1e30",
            "-10.5",
            "-10",
            "-9.99",
            "-1e-400",
            "0",
            "1e-400",
            "0.1",
            "0.10000000000000000001",
            "0.2",
            "2",
            "10",
            "11",
            "100",
            "9007199254740992.9",
            "9007199254740993",
            "1e30",
            "1e99999999999999999999",
        ];
        for (index, left) in ordered.iter().enumerate() {
            for (other_index, other) in ordered.iter().enumerate() {
                assert_eq!(
                    Bound::new(other).compare(left),
                    index.cmp(&other_index),
                    "{left} {other}"
                );
            }
        }
        for (left, other) in [
            ("0", "-0.00"),
            ("1", "1.0"),
            ("10", "1e1"),
            ("-25", "-0.25E+2"),
            ("0e5", "0"),
            ("-0", "0"),
            ("-7", "-7"),
        ] {
            assert_eq!(
                Bound::new(other).compare(left),
                Ordering::Equal,
                "{left} {other}"
            );
        }
    }

    #[test]
    fn divisibility_is_exact() {
        for (number, divisor, expected) in [
            ("19.99", "0.01", true),
            ("19.990000000000000001", "0.01", false),
            ("2.0000000000000000000000001", "2", false),
            ("0.3", "0.1", true),
            ("-0.055", "0.01", false),
            ("-0", "7", true),
            ("0.000", "7", true),
            ("4.5", "1.5", true),
            ("7", "1.5", false),
            ("0.001", "0.01", false),
            ("300000000000000000000000000001", "3", false),
            ("300000000000000000000000000000", "3", true),
            ("1e400", "7", false),
            ("7e400", "7", true),
            ("1e400", "0.5", true),
            ("1e400", "1e400", true),
            ("1e400", "1e401", false),
            ("1e-400", "1", false),
            ("1e999999999999999999999", "1024", true),
            ("1e-999999999999999999999", "0.1", false),
            ("12391239123", "1e-8", true),
            ("18446744073709551615", "18446744073709551615", true),
            ("36893488147419103230", "18446744073709551615", true),
            ("36893488147419103231", "18446744073709551615", false),
        ] {
            check(number, divisor, expected);
        }
    }

    #[test]
    fn numbers_are_normalized() {
        assert_eq!(
            Decimal::parse("0.0250e3"),
            Decimal {
                negative: false,
                digits: vec![2, 5],
                exponent: 0
            }
        );
        assert_eq!(
            Decimal::parse("-1200"),
            Decimal {
                negative: true,
                digits: vec![1, 2],
                exponent: 2
            }
        );
        assert_eq!(Decimal::parse("99999999999999999999").mantissa(), None);
    }
}
