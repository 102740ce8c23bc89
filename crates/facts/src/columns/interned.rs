//! Columns of values that many requests share.

use std::hash::Hash;

use indexmap::IndexSet;

use super::{Column, Dense};
use crate::client_reads::ClientReads;
use sobench_core::answer::AnsweredBy;
use sobench_core::departure::Departures;
use sobench_core::observation::Outcome;
use sobench_core::verdict::{NotScored, Reason, Verdict};

/// Maximum number of distinct values that are stored with their texts. Beyond it, texts are dropped;
/// the run log still has them.
pub(crate) const MAX_WITH_TEXTS: usize = 1 << 16;

/// In place of a dropped text.
pub(crate) const DROPPED_TEXT: &str = "…";

/// A value that many requests share.
pub trait Distinct: Clone + Eq + Hash {
    /// Removes texts that make nearly every value distinct.
    fn drop_texts(&mut self) {}
}

/// Each distinct value once, and the number of its value for each row. Rows without one have none.
#[derive(Clone, Debug)]
pub struct Maybe<T> {
    values: IndexSet<T>,
    numbers: Dense<Option<u32>, u32>,
}

impl<T> Default for Maybe<T> {
    fn default() -> Self {
        Self {
            values: IndexSet::new(),
            numbers: Dense::default(),
        }
    }
}

impl<T: Distinct> Maybe<T> {
    fn number(&mut self, mut value: T) -> u32 {
        if self.values.len() >= MAX_WITH_TEXTS {
            value.drop_texts();
        }
        self.values.insert_full(value).0 as u32
    }
}

impl<T: Distinct + 'static> Column for Maybe<T> {
    type Value = Option<T>;
    type Shown<'a> = Option<&'a T>;

    fn set(&mut self, row: u32, value: Option<T>) {
        let number = value.map(|value| self.number(value));
        self.numbers.set(row, number);
    }

    fn get(&self, row: u32) -> Option<&T> {
        self.values.get_index(self.numbers.get(row)? as usize)
    }

    fn value(&self, row: u32) -> Option<T> {
        self.get(row).cloned()
    }

    fn reserve(&mut self, rows: usize) {
        self.numbers.reserve(rows);
    }
}

/// As [`Maybe`], for texts.
#[derive(Clone, Debug, Default)]
pub struct Texts(Maybe<String>);

impl Column for Texts {
    type Value = Option<String>;
    type Shown<'a> = Option<&'a str>;

    fn set(&mut self, row: u32, value: Option<String>) {
        self.0.set(row, value);
    }

    fn get(&self, row: u32) -> Option<&str> {
        self.0.get(row).map(String::as_str)
    }

    fn value(&self, row: u32) -> Option<String> {
        self.0.value(row)
    }

    fn reserve(&mut self, rows: usize) {
        self.0.reserve(rows);
    }
}

/// As [`Maybe`], for a value that every row has once it is set. Before that it is `cancelled`.
#[derive(Clone, Debug)]
pub struct Interned<T>(Maybe<T>);

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self(Maybe::default())
    }
}

/// The value of a request that did not happen.
pub trait OfCancelled: 'static {
    const CANCELLED: &'static Self;
}

impl OfCancelled for Outcome {
    const CANCELLED: &'static Self = &Self::Cancelled;
}

impl OfCancelled for Verdict {
    const CANCELLED: &'static Self = &Self::NotScored {
        why: NotScored::Cancelled,
    };
}

impl<T: Distinct + OfCancelled> Column for Interned<T> {
    type Value = T;
    type Shown<'a> = &'a T;

    fn set(&mut self, row: u32, value: T) {
        self.0.set(row, Some(value));
    }

    fn get(&self, row: u32) -> &T {
        self.0.get(row).unwrap_or(T::CANCELLED)
    }

    fn value(&self, row: u32) -> T {
        self.get(row).clone()
    }

    fn reserve(&mut self, rows: usize) {
        self.0.reserve(rows);
    }
}

impl<T: Distinct + 'static> Interned<T> {
    /// Whether the value of a row was set.
    pub(crate) fn is_set(&self, row: u32) -> bool {
        self.0.get(row).is_some()
    }
}

impl Distinct for String {}

impl Distinct for AnsweredBy {}

impl Distinct for ClientReads {}

impl Distinct for Departures {
    fn drop_texts(&mut self) {
        self.drop_examples();
    }
}

impl Distinct for Outcome {
    fn drop_texts(&mut self) {
        if let Self::Rejected { body: text, .. }
        | Self::ServerError { body: text, .. }
        | Self::StreamError { message: text }
        | Self::Transport { message: text, .. }
        | Self::Refused { message: text }
        | Self::Unsupported { what: text } = self
        {
            DROPPED_TEXT.clone_into(text);
        }
    }
}

impl Distinct for Verdict {
    fn drop_texts(&mut self) {
        if let Self::Invalid {
            reason: Reason::NotJson { message: text, .. } | Reason::Schema { message: text, .. },
        }
        | Self::NotScored {
            why: NotScored::Limit { what: text } | NotScored::Unsupported { what: text },
        } = self
        {
            DROPPED_TEXT.clone_into(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_stored_once() {
        let mut column = Maybe::default();
        for row in 0..100 {
            column.set(row, (row % 4 > 0).then(|| format!("no {}", row % 4)));
        }
        assert_eq!(column.values.len(), 3);
        assert_eq!(
            (column.get(4), column.get(5)),
            (None, Some(&"no 1".to_owned()))
        );
        assert_eq!(column.get(1000), None);
    }

    #[test]
    fn texts_are_dropped_above_the_limit() {
        let mut column = Interned::default();
        let verdict = |row: u32| Verdict::Invalid {
            reason: Reason::NotJson {
                message: format!("odd {row}"),
                byte: 1,
            },
        };
        let last = MAX_WITH_TEXTS as u32 + 1;
        (0..=last).for_each(|row| column.set(row, verdict(row)));
        assert_eq!(column.value(5), verdict(5));
        let dropped = Verdict::Invalid {
            reason: Reason::NotJson {
                message: DROPPED_TEXT.to_owned(),
                byte: 1,
            },
        };
        assert_eq!(
            (column.value(last - 1), column.value(last)),
            (dropped.clone(), dropped)
        );
        assert_eq!(column.0.values.len(), MAX_WITH_TEXTS + 1);
    }
}
