//! Numbers in which a text ends: the values that more characters can make of them.
//!
//! Without an exponent, a number that is not zero can become as small and as large as an exponent
//! makes it, but keeps its first digits. An integer keeps them all, except zeros at its end.

use std::cmp::Ordering;

use super::decimal::{Bound, Decimal};

/// The start of a number.
#[derive(Debug)]
pub(super) struct UnfinishedNumber {
    is_negative: bool,
    /// As written, without the sign.
    mantissa: String,
    /// The digits without leading zeros; empty while the number is zero.
    digits: Vec<u8>,
    /// What is written after the `e`.
    exponent: Option<String>,
}

impl UnfinishedNumber {
    pub(super) fn parse(text: &str) -> Self {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent.to_owned())),
            None => (text, None),
        };
        let digits = mantissa.bytes().filter(u8::is_ascii_digit);
        Self {
            is_negative: text.starts_with('-'),
            mantissa: mantissa.trim_start_matches('-').to_owned(),
            digits: digits
                .map(|digit| digit - b'0')
                .skip_while(|digit| *digit == 0)
                .collect(),
            exponent,
        }
    }

    /// Whether it may become a number on this side of the bound, or the bound itself unless that is
    /// excluded.
    pub(super) fn may_satisfy(
        &self,
        side: Ordering,
        bound: &Bound,
        is_exclusive: bool,
        is_integer: bool,
    ) -> bool {
        let (extreme, is_reached) = if (side == Ordering::Greater) == self.is_negative {
            self.least_magnitude(is_integer)
        } else {
            match self.greatest_magnitude() {
                Some(greatest) => (greatest, true),
                None => return true,
            }
        };
        let sign = if self.is_negative { "-" } else { "" };
        match bound.compare(&format!("{sign}{extreme}")) {
            Ordering::Equal => is_reached && !is_exclusive,
            order => order == side,
        }
    }

    /// Whether it may become a number that equals `target`.
    pub(super) fn may_equal(&self, target: &str) -> bool {
        let target = Decimal::parse(target);
        let is_zero = target.digits().is_empty();
        let same_sign = target.is_negative() == self.is_negative;
        match (self.digits.is_empty(), &self.exponent) {
            (true, Some(_)) => is_zero,
            (true, None) => is_zero || same_sign,
            (false, Some(_)) => same_sign && self.significant_digits() == target.digits(),
            (false, None) => {
                let zeros = std::iter::repeat(&0);
                let mut both = self.digits.iter().zip(target.digits().iter().chain(zeros));
                same_sign && both.all(|(written, due)| written == due)
            }
        }
    }

    /// The digits without zeros at the end.
    fn significant_digits(&self) -> &[u8] {
        let last = self.digits.iter().rposition(|digit| *digit != 0);
        &self.digits[..last.map_or(0, |last| last + 1)]
    }

    /// A bound below the magnitudes that it may have, and whether it may be that small.
    fn least_magnitude(&self, is_integer: bool) -> (String, bool) {
        if self.digits.is_empty() {
            return ("0".to_owned(), true);
        }
        match self.exponent.as_deref() {
            Some(exponent) if !exponent.is_empty() && !exponent.starts_with('-') => {
                (self.with_exponent(exponent), true)
            }
            _ if is_integer => {
                let digits = self.significant_digits().iter();
                (digits.map(|digit| char::from(b'0' + digit)).collect(), true)
            }
            _ => ("0".to_owned(), false),
        }
    }

    /// A bound above the magnitudes that it may have; `None` if there is none.
    fn greatest_magnitude(&self) -> Option<String> {
        let exponent = self.exponent.as_deref()?;
        if self.digits.is_empty() {
            return Some("0".to_owned());
        }
        exponent
            .starts_with('-')
            .then(|| self.with_exponent(exponent))
    }

    fn with_exponent(&self, exponent: &str) -> String {
        let has_digits = exponent.bytes().any(|byte| byte.is_ascii_digit());
        let exponent = if has_digits { exponent } else { "0" };
        format!("{}e{exponent}", self.mantissa)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What may follow the start of a number.
    const ENDS: [&str; 16] = [
        "", "0", "9", "05", ".5", ".0", "e0", "e1", "e-1", "e-9", "e9", "1e-2", "00e-2", ".25e2",
        "-3", "+2",
    ];

    #[test]
    fn whatever_a_start_becomes_is_possible() {
        let starts = [
            "-", "0", "-0", "7", "70", "123", "-15", "0.", "0.05", "12.5", "1e", "3e-", "3e+",
            "3e2", "25e-3", "-2e-1", "0e", "-0.0e-",
        ];
        let numbers: Vec<String> = starts
            .iter()
            .flat_map(|start| ENDS.iter().map(move |end| format!("{start}{end}")))
            .filter(|text| serde_json::from_str::<serde_json::Number>(text).is_ok())
            .collect();
        assert!(numbers.len() > 100, "{}", numbers.len());
        for start in starts {
            let unfinished = UnfinishedNumber::parse(start);
            for number in numbers.iter().filter(|number| number.starts_with(start)) {
                assert!(unfinished.may_equal(number), "{start} {number}");
                let is_integer = Decimal::parse(number).exponent() >= 0;
                for side in [Ordering::Greater, Ordering::Less] {
                    let bound = Bound::new(number);
                    assert!(
                        unfinished.may_satisfy(side, &bound, false, is_integer),
                        "{start} {number}"
                    );
                }
            }
        }
    }

    #[test]
    fn impossible_values_are_known() {
        for (start, target) in [
            ("7", "6"),
            ("70", "71"),
            ("-7", "7"),
            ("5", "0"),
            ("1.5e", "16"),
            ("0e", "1"),
            ("-", "3"),
        ] {
            assert!(
                !UnfinishedNumber::parse(start).may_equal(target),
                "{start} {target}"
            );
        }
        let (least, most) = (Ordering::Greater, Ordering::Less);
        for (start, side, bound, is_exclusive, is_integer) in [
            ("123", most, "99", false, true),
            ("-5", least, "0", false, false),
            ("-", least, "1", false, false),
            ("-0", least, "0", true, true),
            ("5", most, "0", false, false),
            ("5", most, "-1", false, false),
            ("2e3", most, "1999", false, false),
            ("2e-3", least, "1", false, false),
            ("-2e3", least, "-1999", false, false),
            ("12.5", most, "124", false, true),
        ] {
            let unfinished = UnfinishedNumber::parse(start);
            let bound = Bound::new(bound);
            assert!(
                !unfinished.may_satisfy(side, &bound, is_exclusive, is_integer),
                "{start}"
            );
        }
        let hundred = UnfinishedNumber::parse("100");
        assert!(
            hundred.may_satisfy(most, &Bound::new("1"), false, true),
            "100e-2"
        );
        let five = UnfinishedNumber::parse("5");
        assert!(
            five.may_satisfy(most, &Bound::new("0.1"), false, false),
            "5e-2"
        );
    }
}
