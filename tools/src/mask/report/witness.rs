//! Examples for manual inspection: the first wrong masks of an engine, and disputed instances.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::outcome::InstanceClass;
use super::reason::cut;
use crate::mask::row::{InstanceOutcome, InstanceRow, Row, Spelling};
use sobench_engine::EngineName;

/// Maximum wrong masks per kind and engine, one per schema.
pub const MAX_WITNESSES: usize = 20;

/// Maximum listed disputed instances; all are counted.
pub const MAX_DISPUTED: usize = 100_000;

/// Maximum length of a token or a library's message.
const MESSAGE_MAX_CHARS: usize = 400;

/// A wrong mask with its location.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Witness {
    pub class: InstanceClass,
    pub entry_index: usize,
    pub entry: String,
    /// Index of the instance in its entry, from 0.
    pub instance: usize,
    pub spelling: Spelling,
    /// Bytes of the text before the wrong mask.
    pub byte: usize,
    /// The end of the text before the wrong mask, if recorded.
    pub before: Option<String>,
    /// The token that was masked out; absent for the end and for other errors.
    pub token: Option<String>,
    /// The library's message, if it failed.
    #[serde(rename = "words")]
    pub message: Option<String>,
}

/// The first wrong masks of one engine, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(into = "Vec<Witness>")]
pub struct Witnesses(BTreeMap<InstanceClass, Vec<Witness>>);

/// An instance whose label and verdict differ.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Disputed {
    pub entry_index: usize,
    pub entry: String,
    pub instance: usize,
    pub label: Option<bool>,
    pub judged: Option<bool>,
    /// Engines that accepted or rejected it, in the first spelling.
    pub accepted_by: Vec<EngineName>,
    pub rejected_by: Vec<EngineName>,
}

/// All disputed instances; the unit of the count is the instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(into = "DisputedList")]
pub struct Disputes {
    listed: BTreeMap<(usize, usize), Disputed>,
    /// Instances beyond the limit.
    beyond: BTreeSet<(usize, usize)>,
}

/// [`Disputes`] in files.
#[derive(JsonSchema, Serialize)]
struct DisputedList {
    instances: usize,
    listed: Vec<Disputed>,
}

impl Witnesses {
    /// Adds the wrong masks among `instances` that are the first of their kind in their schema.
    pub fn add<'a>(&mut self, row: &Row, instances: impl Iterator<Item = &'a InstanceRow>) {
        for instance in instances {
            let Some(witness) = witness(row, instance) else {
                continue;
            };
            let kept = self.0.entry(witness.class).or_default();
            if kept.len() < MAX_WITNESSES
                && kept.last().is_none_or(|kept| kept.entry_index != row.index)
            {
                kept.push(witness);
            }
        }
    }

    /// Worst kind first, then in corpus order.
    pub fn iter(&self) -> impl Iterator<Item = &Witness> {
        self.0.values().rev().flatten()
    }
}

impl From<Witnesses> for Vec<Witness> {
    fn from(witnesses: Witnesses) -> Self {
        witnesses.0.into_values().rev().flatten().collect()
    }
}

impl Disputes {
    /// Adds the disputed instances among `instances`.
    pub fn add<'a>(&mut self, row: &Row, instances: impl Iterator<Item = &'a InstanceRow>) {
        for instance in instances {
            let InstanceOutcome::Disputed { accepted } = instance.outcome else {
                continue;
            };
            let key = (row.index, instance.index);
            if self.listed.len() >= MAX_DISPUTED && !self.listed.contains_key(&key) {
                self.beyond.insert(key);
                continue;
            }
            let disputed = self.listed.entry(key).or_insert_with(|| Disputed {
                entry_index: row.index,
                entry: row.entry.clone(),
                instance: instance.index,
                label: instance.label,
                judged: instance.judged,
                accepted_by: Vec::new(),
                rejected_by: Vec::new(),
            });
            if accepted {
                &mut disputed.accepted_by
            } else {
                &mut disputed.rejected_by
            }
            .push(row.engine);
        }
    }

    /// The total count.
    pub fn total(&self) -> usize {
        self.listed.len() + self.beyond.len()
    }

    /// In corpus order, at most [`MAX_DISPUTED`].
    pub fn iter(&self) -> impl Iterator<Item = &Disputed> {
        self.listed.values()
    }
}

impl From<Disputes> for DisputedList {
    fn from(disputes: Disputes) -> Self {
        Self {
            instances: disputes.total(),
            listed: disputes.listed.into_values().collect(),
        }
    }
}

fn witness(row: &Row, instance: &InstanceRow) -> Option<Witness> {
    let cut = |text: &str| cut(text, MESSAGE_MAX_CHARS);
    let (byte, token, message) = match &instance.outcome {
        InstanceOutcome::RejectsValid { byte, token } => (*byte, token.as_deref().map(cut), None),
        InstanceOutcome::AcceptsInvalid { byte } | InstanceOutcome::DeadEnd { byte } => {
            (*byte, None, None)
        }
        InstanceOutcome::Failed { byte, message } => (*byte, None, Some(cut(message))),
        InstanceOutcome::Pass
        | InstanceOutcome::Disputed { .. }
        | InstanceOutcome::NotJudged { .. } => return None,
    };
    Some(Witness {
        class: InstanceClass::from_outcome(&instance.outcome),
        entry_index: row.index,
        entry: row.entry.clone(),
        instance: instance.index,
        spelling: instance.spelling,
        byte,
        before: instance.before.clone(),
        token,
        message,
    })
}
