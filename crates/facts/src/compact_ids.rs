//! Ids of cases in 8 bytes: most ids of a run differ in their last number only.

use indexmap::IndexSet;

use crate::columns::{Column, Dense, Pack};

/// In place of a name or a number.
const NONE: u32 = u32::MAX;

/// The ids of a run, as texts without their last numbers.
#[derive(Clone, Debug, Default)]
struct CompactIds(IndexSet<String>);

/// An id of a run; equal for equal ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CompactId {
    /// The index of its text without the last number.
    pub name: u32,
    /// `u32::MAX` if it does not end in a number.
    pub number: u32,
}

impl CompactId {
    /// In place of an id.
    const MISSING: Self = Self {
        name: NONE,
        number: NONE,
    };
}

impl Pack<Self> for CompactId {
    const MISSING: Self = Self::MISSING;
    fn pack(self) -> Self {
        self
    }
    fn unpack(packed: Self) -> Self {
        packed
    }
}

/// The id of each row.
#[derive(Clone, Debug, Default)]
pub struct Ids {
    known: CompactIds,
    id: Dense<CompactId>,
}

impl Column for Ids {
    type Value = Option<String>;
    type Shown<'a> = Option<String>;

    fn set(&mut self, row: u32, id: Option<String>) {
        let id = id.map(|id| self.known.add(&id));
        self.id.set(row, id.unwrap_or(CompactId::MISSING));
    }

    fn get(&self, row: u32) -> Option<String> {
        self.known.text(self.id.get(row))
    }

    fn value(&self, row: u32) -> Option<String> {
        self.get(row)
    }

    fn reserve(&mut self, rows: usize) {
        self.id.reserve(rows);
    }
}

impl Ids {
    /// The id of a row among these; `None` without one.
    pub fn compact(&self, row: u32) -> Option<CompactId> {
        Some(self.id.get(row)).filter(|id| *id != CompactId::MISSING)
    }

    /// The texts of ids without their last numbers, by [`CompactId::name`].
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.known.0.iter().map(String::as_str)
    }
}

impl CompactIds {
    /// Adds an id.
    fn add(&mut self, id: &str) -> CompactId {
        let (name, number) = split(id);
        let known = self.0.get_index_of(name);
        let name = known.unwrap_or_else(|| self.0.insert_full(name.to_owned()).0);
        CompactId {
            name: name as u32,
            number: number.unwrap_or(NONE),
        }
    }

    /// The text of an id; `None` for [`CompactId::MISSING`].
    fn text(&self, id: CompactId) -> Option<String> {
        let name = self.0.get_index(id.name as usize)?;
        Some(match id.number {
            NONE => name.clone(),
            number => format!("{name}{number}"),
        })
    }
}

/// An id without its last number, and that number. An id with zeros before the number, or with a
/// number that does not fit, is kept as it is.
fn split(id: &str) -> (&str, Option<u32>) {
    let name = id.trim_end_matches(|last: char| last.is_ascii_digit());
    let digits = &id[name.len()..];
    let number = digits
        .parse()
        .ok()
        .filter(|number| *number != NONE && (digits == "0" || !digits.starts_with('0')));
    match number {
        Some(number) => (name, Some(number)),
        None => (id, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_back_as_they_were_added() {
        let mut ids = CompactIds::default();
        let texts = [
            "json-1",
            "json-2",
            "json-02",
            "json-0",
            "7",
            "",
            "a99999999999",
            "4294967295",
        ];
        let added = texts.map(|text| ids.add(text));
        assert_eq!(added.map(|id| ids.text(id).unwrap()), texts);
        assert_eq!(texts.map(|text| ids.add(text)), added);
        assert_eq!(added[0].name, added[1].name);
        assert_eq!(ids.text(CompactId::MISSING), None);
    }
}
