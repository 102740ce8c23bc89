//! Outcomes by keyword tag, every engine beside the others. Knows no durations.

use std::collections::{BTreeMap, BTreeSet};

use super::outcome::{Counts, SchemaOutcome};

/// The most different tags that are told apart; what carries further ones is counted.
const MAX_TAGS: usize = 10_000;

/// Outcomes of the schemas that carry a tag, by tag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tags {
    engines: usize,
    by_tag: BTreeMap<String, Vec<Counts<SchemaOutcome>>>,
    rows_left_out: u64,
}

/// One tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagCounts<'a> {
    pub tag: &'a str,
    /// In the order of the engines; the unit is the schema.
    pub engines: &'a [Counts<SchemaOutcome>],
}

impl Tags {
    /// No tags yet, for so many engines.
    pub fn new(engines: usize) -> Self {
        Self {
            engines,
            ..Self::default()
        }
    }

    /// Adds a row of the engine at `place`; a tag that a row names twice counts once.
    pub fn add(&mut self, place: usize, tags: &[String], outcome: SchemaOutcome) {
        for tag in tags.iter().collect::<BTreeSet<_>>() {
            if self.by_tag.len() >= MAX_TAGS && !self.by_tag.contains_key(tag) {
                self.rows_left_out += 1;
                continue;
            }
            let engines = self
                .by_tag
                .entry(tag.clone())
                .or_insert_with(|| vec![Counts::default(); self.engines]);
            engines[place].add(outcome);
        }
    }

    /// Tags with the most faults first, then those that were declined most, then by name.
    pub fn sorted(&self) -> Vec<TagCounts<'_>> {
        let mut sorted: Vec<TagCounts<'_>> = self
            .by_tag
            .iter()
            .map(|(tag, engines)| TagCounts { tag, engines })
            .collect();
        sorted.sort_by_key(|it| {
            std::cmp::Reverse((
                it.sum(SchemaOutcome::is_fault),
                it.sum(SchemaOutcome::is_declined),
            ))
        });
        sorted
    }

    /// Tags of rows that were too many to tell apart.
    pub fn rows_left_out(&self) -> u64 {
        self.rows_left_out
    }
}

impl TagCounts<'_> {
    /// Schemas that carry the tag, as the engine that saw the most of them counts.
    pub fn schemas(&self) -> u64 {
        self.engines
            .iter()
            .map(Counts::total)
            .max()
            .unwrap_or_default()
    }

    /// Over all engines: schemas with an outcome that `wanted` names.
    fn sum(&self, wanted: impl Fn(SchemaOutcome) -> bool + Copy) -> u64 {
        self.engines.iter().map(|it| it.sum(wanted)).sum()
    }
}
