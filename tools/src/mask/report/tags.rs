//! Outcomes by keyword tag, for all engines.

use std::collections::{BTreeMap, BTreeSet};

use super::outcome::{Counts, SchemaOutcome};

/// Maximum distinct tags; rows with further tags are counted.
const MAX_TAGS: usize = 10_000;

/// Outcomes of the schemas with a tag, by tag.
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
    /// An empty collection for `engines` engines.
    pub fn new(engines: usize) -> Self {
        Self {
            engines,
            ..Self::default()
        }
    }

    /// Adds a row of the engine at `place`; a repeated tag counts once.
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

    /// Tags with the most faults first, then by declines, then by name.
    pub fn sorted(&self) -> Vec<TagCounts<'_>> {
        let mut sorted: Vec<TagCounts<'_>> = self
            .by_tag
            .iter()
            .map(|(tag, engines)| TagCounts { tag, engines })
            .collect();
        sorted.sort_by_key(|tag| {
            std::cmp::Reverse((
                tag.sum(SchemaOutcome::is_fault),
                tag.sum(SchemaOutcome::is_declined),
            ))
        });
        sorted
    }

    /// Tags of rows beyond the limit.
    pub fn rows_left_out(&self) -> u64 {
        self.rows_left_out
    }
}

impl TagCounts<'_> {
    /// Schemas with the tag, as counted by the engine with the most rows.
    pub fn schemas(&self) -> u64 {
        self.engines
            .iter()
            .map(Counts::total)
            .max()
            .unwrap_or_default()
    }

    /// Schemas of all engines with an outcome that matches the predicate.
    fn sum(&self, predicate: impl Fn(SchemaOutcome) -> bool + Copy) -> u64 {
        self.engines
            .iter()
            .map(|counts| counts.sum(predicate))
            .sum()
    }
}
