//! Random draws, and values whose text has several spellings: dates and amounts of money.

use serde_json::Value;

use sobench_pycompat::random::PythonRandom;

/// Draws from a sequence.
pub(super) struct Draws(pub(super) PythonRandom);

impl Draws {
    /// A number from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    pub(super) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.0.choice(items.len())]
    }

    /// Different items, in random order.
    pub(super) fn sample<T: Copy>(&mut self, items: &[T], count: usize) -> Vec<T> {
        let chosen = self.0.sample(items.len(), count);
        chosen.into_iter().map(|index| items[index]).collect()
    }

    pub(super) fn is_likely(&mut self, percent: u64) -> bool {
        self.0.below(100) < percent
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        self.0.shuffle(items);
    }

    pub(super) fn date(&mut self, first_year: u64, last_year: u64) -> Date {
        Date {
            year: self.between(first_year, last_year),
            month: self.between(1, 12),
            day: self.between(1, 28),
        }
    }

    /// A date in one of its spellings.
    pub(super) fn spelled(&mut self, date: Date) -> String {
        let spellings = date.spellings();
        spellings[self.0.choice(spellings.len())].clone()
    }

    /// An amount in one of its spellings, with its currency.
    pub(super) fn spelled_amount(&mut self, amount: Amount) -> String {
        let spellings = amount.spellings();
        spellings[self.0.choice(spellings.len())].clone()
    }

    /// A time of the day, `10:15:02`, after 24-hour clock `from`.
    pub(super) fn time(&mut self, hour: u64) -> String {
        let (minute, second) = (self.between(0, 59), self.between(0, 59));
        format!("{hour:02}:{minute:02}:{second:02}")
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A day. Its number is at most 28, so that every month has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Date {
    pub(super) year: u64,
    pub(super) month: u64,
    pub(super) day: u64,
}

impl Date {
    pub(super) fn iso(self) -> String {
        let Self { year, month, day } = self;
        format!("{year}-{month:02}-{day:02}")
    }

    /// The spellings in documents. None of them can be read as another day.
    pub(super) fn spellings(self) -> [String; 6] {
        let Self { year, month, day } = self;
        let name = MONTHS[(month as usize - 1) % MONTHS.len()];
        let short = &name[..3];
        let suffix = match day {
            1 | 21 => "st",
            2 | 22 => "nd",
            3 | 23 => "rd",
            _ => "th",
        };
        [
            format!("{day} {name} {year}"),
            format!("{name} {day}, {year}"),
            self.iso(),
            format!("{day} {short} {year}"),
            format!("{short} {day}, {year}"),
            format!("the {day}{suffix} of {name} {year}"),
        ]
    }

    /// The day some weeks later.
    pub(super) fn later(self, months: u64, day: u64) -> Self {
        let all = self.month - 1 + months;
        Self {
            year: self.year + all / 12,
            month: all % 12 + 1,
            day,
        }
    }
}

/// A currency: code, symbol before the number, and name after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Currency {
    pub(super) code: &'static str,
    pub(super) symbol: &'static str,
    pub(super) name: &'static str,
}

pub(super) const CURRENCIES: [Currency; 4] = [
    Currency {
        code: "EUR",
        symbol: "€",
        name: "euros",
    },
    Currency {
        code: "USD",
        symbol: "US$",
        name: "US dollars",
    },
    Currency {
        code: "GBP",
        symbol: "£",
        name: "pounds sterling",
    },
    Currency {
        code: "CHF",
        symbol: "CHF ",
        name: "Swiss francs",
    },
];

/// An amount of money, in hundredths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) cents: u64,
    pub(super) currency: Currency,
}

impl Amount {
    pub(super) fn value(self) -> Value {
        (self.cents as f64 / 100.0).into()
    }

    fn spellings(self) -> [String; 4] {
        let Currency { code, symbol, name } = self.currency;
        let plain = format!("{}.{:02}", self.cents / 100, self.cents % 100);
        let grouped = grouped(self.cents);
        [
            format!("{symbol}{grouped}"),
            format!("{grouped} {code}"),
            format!("{code} {plain}"),
            format!("{plain} {name}"),
        ]
    }
}

/// Hundredths with separators of thousands: `1,234.50`.
pub(super) fn grouped(cents: u64) -> String {
    let whole = (cents / 100).to_string();
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{grouped}.{:02}", cents % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_are_of_the_same_day_and_amount() {
        let date = Date {
            year: 2025,
            month: 11,
            day: 22,
        };
        assert_eq!(
            date.spellings(),
            [
                "22 November 2025",
                "November 22, 2025",
                "2025-11-22",
                "22 Nov 2025",
                "Nov 22, 2025",
                "the 22nd of November 2025"
            ]
        );
        assert_eq!(date.later(3, 5).iso(), "2026-02-05");
        let amount = Amount {
            cents: 1_234_550,
            currency: CURRENCIES[0],
        };
        assert_eq!(
            amount.spellings(),
            [
                "€12,345.50",
                "12,345.50 EUR",
                "EUR 12345.50",
                "12345.50 euros"
            ]
        );
        assert_eq!(grouped(99), "0.99");
        assert_eq!(grouped(123_456_700), "1,234,567.00");
    }
}
