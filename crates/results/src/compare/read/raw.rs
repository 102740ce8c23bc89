//! A result file before interpretation: columns as numbers, everything else as JSON. Texts of answers
//! are passed over.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::baseline::Columns;
use super::outputs::{Output, OutputColumns};

/// The members of a file. Columns are parsed directly into numbers, because JSON values of a long
/// run would not fit into memory.
#[derive(Debug, Default)]
pub(super) struct Raw {
    pub(super) input_lens: Option<Numbers>,
    pub(super) output_lens: Option<Numbers>,
    pub(super) ttfts: Option<Numbers>,
    pub(super) itls: Option<NumberLists>,
    pub(super) latencies: Option<Numbers>,
    pub(super) start_times: Option<Numbers>,
    pub(super) errors: Option<Texts>,
    pub(super) outputs: Option<Outputs>,
    pub(super) requests: Option<Columns>,
    pub(super) rest: Map<String, Value>,
}

/// Columns of which no figure is made.
const IGNORED: [&str; 3] = ["generated_texts", "queue_times", "request_rates"];

/// A column of numbers; NaN for `null`.
#[derive(Debug, Default)]
pub(super) struct Numbers(Vec<f64>);

impl Numbers {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// `None` for `null`, and beyond the end.
    pub(super) fn get(&self, index: usize) -> Option<f64> {
        self.0.get(index).copied().filter(|number| !number.is_nan())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Option<f64>> {
        (0..self.len()).map(|index| self.get(index))
    }
}

/// A column of lists of numbers.
#[derive(Debug, Default)]
pub(super) struct NumberLists {
    numbers: Vec<f64>,
    /// Ends of the lists in `numbers`.
    ends: Vec<usize>,
}

impl NumberLists {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Numbers of all lists.
    pub(super) fn count(&self) -> usize {
        self.numbers.len()
    }

    pub(super) fn get(&self, index: usize) -> &[f64] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.numbers[start..self.ends[index]]
    }
}

/// A column of texts, of which most are empty.
#[derive(Debug, Default)]
pub(super) struct Texts(HashMap<usize, String>);

impl Texts {
    /// The text at an index, unless it is empty or `null`.
    pub(super) fn get(&self, index: usize) -> Option<&str> {
        self.0.get(&index).map(String::as_str)
    }
}

/// The column `outputs`.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    pub(super) rows: u32,
    pub(super) output: OutputColumns,
}

impl Raw {
    /// The length of the longest column.
    pub(super) fn longest(&self) -> usize {
        let numbers = [
            &self.input_lens,
            &self.output_lens,
            &self.ttfts,
            &self.latencies,
            &self.start_times,
        ];
        let rows = numbers.into_iter().flatten().map(Numbers::len);
        let others = [
            self.itls.as_ref().map(NumberLists::len),
            self.outputs.as_ref().map(|outputs| outputs.rows as usize),
            self.requests.as_ref().map(Columns::len),
        ];
        rows.chain(others.into_iter().flatten()).max().unwrap_or(0)
    }
}

/// Reads the elements of an array one at a time, which are added to `column` with their index.
struct Elements<T, C, A> {
    column: C,
    add: A,
    element: PhantomData<T>,
}

/// Reads an array into a column.
fn elements<'de, D, T, C, A>(deserializer: D, column: C, add: A) -> Result<C, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
    A: FnMut(&mut C, usize, T),
{
    deserializer.deserialize_seq(Elements {
        column,
        add,
        element: PhantomData,
    })
}

impl<'de, T: Deserialize<'de>, C, A: FnMut(&mut C, usize, T)> Visitor<'de> for Elements<T, C, A> {
    type Value = C;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<S: SeqAccess<'de>>(mut self, mut sequence: S) -> Result<C, S::Error> {
        let mut index = 0;
        while let Some(element) = sequence.next_element()? {
            (self.add)(&mut self.column, index, element);
            index += 1;
        }
        Ok(self.column)
    }
}

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        elements(
            deserializer,
            Self::default(),
            |column, _, number: Option<f64>| {
                column.0.push(number.unwrap_or(f64::NAN));
            },
        )
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        elements(
            deserializer,
            Self::default(),
            |column, index, text: Option<String>| {
                if let Some(text) = text.filter(|text| !text.is_empty()) {
                    column.0.insert(index, text);
                }
            },
        )
    }
}

impl<'de> Deserialize<'de> for Outputs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        elements(
            deserializer,
            Self::default(),
            |column, _, output: Output| {
                column.add(output);
            },
        )
    }
}

/// Reads a list of numbers into a column of lists.
struct NextList<'c>(&'c mut NumberLists);

impl<'de> DeserializeSeed<'de> for NextList<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let column = self.0;
        elements(deserializer, &mut *column, |column, _, number: f64| {
            column.numbers.push(number);
        })?;
        column.ends.push(column.numbers.len());
        Ok(())
    }
}

struct Lists;

impl<'de> Visitor<'de> for Lists {
    type Value = NumberLists;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of arrays")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut sequence: S) -> Result<NumberLists, S::Error> {
        let mut column = NumberLists::default();
        while sequence.next_element_seed(NextList(&mut column))?.is_some() {}
        Ok(column)
    }
}

impl<'de> Deserialize<'de> for NumberLists {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Lists)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a result object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
        let mut raw = Raw::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "input_lens" => raw.input_lens = map.next_value()?,
                "output_lens" => raw.output_lens = map.next_value()?,
                "ttfts" => raw.ttfts = map.next_value()?,
                "itls" => raw.itls = map.next_value()?,
                "latencies" => raw.latencies = map.next_value()?,
                "start_times" => raw.start_times = map.next_value()?,
                "errors" => raw.errors = map.next_value()?,
                "outputs" => raw.outputs = map.next_value()?,
                "requests" => raw.requests = map.next_value()?,
                ignored if IGNORED.contains(&ignored) => {
                    map.next_value::<IgnoredAny>()?;
                }
                _ => {
                    let value = map.next_value()?;
                    raw.rest.insert(key, value);
                }
            }
        }
        Ok(raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_numbers_and_other_members_are_kept() {
        let raw: Raw = serde_json::from_str(
            r#"{"ttfts": [0.5, null], "itls": [[0.1, 0.2], [], [0.3]], "errors": ["", null, "no"],
                "outputs": [{"generated": "a", "x": 1}], "p99": 3, "queue_times": [1]}"#,
        )
        .unwrap();
        let ttfts: Vec<_> = raw.ttfts.as_ref().unwrap().iter().collect();
        assert_eq!((ttfts, raw.longest()), (vec![Some(0.5), None], 3));
        let itls = raw.itls.as_ref().unwrap();
        assert_eq!(
            ([0, 1, 2].map(|index| itls.get(index)), itls.count()),
            ([&[0.1, 0.2][..], &[], &[0.3]], 3)
        );
        let errors = raw.errors.as_ref().unwrap();
        assert_eq!(
            [0, 1, 2, 3].map(|index| errors.get(index)),
            [None, None, Some("no"), None]
        );
        assert_eq!(raw.outputs.as_ref().unwrap().rows, 1);
        assert_eq!(raw.rest.len(), 1);
        for invalid in ["[]", "3", r#"{"ttfts": "x"}"#, r#"{"itls": [[null]]}"#] {
            assert!(serde_json::from_str::<Raw>(invalid).is_err(), "{invalid}");
        }
    }
}
