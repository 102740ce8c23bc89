//! Outcomes of schemas and classes of instances.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

use crate::mask::row::{
    DeclineClass, InstanceOutcome, InstanceRow, Row, Spelling, Stage, StopCause, Stopped,
};
use sobench_core::contract::members;

/// A closed list of outcomes to count by.
pub trait OutcomeClass: Copy + Ord + 'static {
    /// Every outcome, from best to worst.
    const ALL: &'static [Self];

    /// The name in files and the title for readers.
    fn name_and_title(self) -> (&'static str, &'static str);

    /// The name in keys and columns of files.
    fn name(self) -> &'static str {
        self.name_and_title().0
    }

    /// The title for readers.
    fn title(self) -> &'static str {
        self.name_and_title().1
    }
}

/// The outcome of a schema under one engine in one spelling, from best to worst: the worst instance
/// decides. The first two do not concern the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaOutcome {
    /// It compiled, and the corpus has no instance of it.
    NoInstance,
    /// Nothing could be judged: label and evaluator disagree or are missing, or the evaluator was
    /// stopped.
    NotJudged,
    Pass,
    RejectsValid,
    DeclinedUnsupported,
    DeclinedInvalid,
    DeclinedTooLarge,
    DeadEnd,
    Failed,
    Timeout,
    OutOfMemory,
    Crash,
    AcceptsInvalid,
}

/// The class of an instance in one spelling, from best to worst. The first two do not concern the
/// engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InstanceClass {
    Disputed,
    NotJudged,
    Pass,
    RejectsValid,
    DeadEnd,
    Failed,
    AcceptsInvalid,
}

/// Counts by outcome, of every outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counts<K: Ord>(BTreeMap<K, u64>);

impl SchemaOutcome {
    /// The outcome of a row's schema in `spelling`; text instances count in every spelling. `order`
    /// lists the spellings in the order of the walks. If the evaluator was stopped, the schema
    /// cannot pass, but earlier faults remain.
    pub fn from_row(row: &Row, spelling: Spelling, order: &[Spelling]) -> Self {
        let declined = row
            .declined
            .as_ref()
            .map(|declined| Self::from_decline(declined.class));
        let stop = stop_affecting(row, spelling, order);
        let stopped = stop.and_then(Self::from_stop);
        let instances = instances_in(row, spelling)
            .filter_map(|instance| InstanceClass::from_outcome(&instance.outcome).schema_outcome());
        let worst = instances.chain(declined).chain(stopped).max();
        if stop.is_some() && worst.is_none_or(|outcome| outcome == Self::Pass) {
            return Self::NotJudged;
        }
        let nothing_to_judge = row.compile.is_some()
            && row.stopped.is_none()
            && instances_in(row, spelling).next().is_none();
        worst.unwrap_or(if nothing_to_judge {
            Self::NoInstance
        } else {
            Self::NotJudged
        })
    }

    /// An undeclared fault: a wrong mask, or an engine that did not finish.
    pub fn is_fault(self) -> bool {
        self > Self::Pass && !self.is_declined()
    }

    /// Whether the engine declined.
    pub fn is_declined(self) -> bool {
        matches!(
            self,
            Self::DeclinedUnsupported | Self::DeclinedInvalid | Self::DeclinedTooLarge
        )
    }

    pub(super) fn from_decline(class: DeclineClass) -> Self {
        match class {
            DeclineClass::Unsupported => Self::DeclinedUnsupported,
            DeclineClass::Invalid => Self::DeclinedInvalid,
            DeclineClass::TooLarge => Self::DeclinedTooLarge,
        }
    }

    /// `None` if the evaluator was stopped, which is not the engine's fault.
    pub(super) fn from_stop(stopped: &Stopped) -> Option<Self> {
        if stopped.stage == Stage::Oracle {
            return None;
        }
        Some(match stopped.cause {
            StopCause::Crash => Self::Crash,
            StopCause::OutOfMemory => Self::OutOfMemory,
            StopCause::Timeout => Self::Timeout,
        })
    }
}

impl InstanceClass {
    /// The class of an outcome.
    pub fn from_outcome(outcome: &InstanceOutcome) -> Self {
        match outcome {
            InstanceOutcome::Pass => Self::Pass,
            InstanceOutcome::RejectsValid { .. } => Self::RejectsValid,
            InstanceOutcome::AcceptsInvalid { .. } => Self::AcceptsInvalid,
            InstanceOutcome::DeadEnd { .. } => Self::DeadEnd,
            InstanceOutcome::Failed { .. } => Self::Failed,
            InstanceOutcome::Disputed { .. } => Self::Disputed,
            InstanceOutcome::NotJudged { .. } => Self::NotJudged,
        }
    }

    /// The outcome of a schema with this instance, if it was judged.
    fn schema_outcome(self) -> Option<SchemaOutcome> {
        match self {
            Self::Disputed | Self::NotJudged => None,
            Self::Pass => Some(SchemaOutcome::Pass),
            Self::RejectsValid => Some(SchemaOutcome::RejectsValid),
            Self::DeadEnd => Some(SchemaOutcome::DeadEnd),
            Self::Failed => Some(SchemaOutcome::Failed),
            Self::AcceptsInvalid => Some(SchemaOutcome::AcceptsInvalid),
        }
    }
}

/// The instances that count in `spelling`.
pub(super) fn instances_in(row: &Row, spelling: Spelling) -> impl Iterator<Item = &InstanceRow> {
    row.instances
        .iter()
        .filter(move |instance| counts_in(instance.spelling, spelling))
}

/// Whether an instance in spelling `written` counts in `spelling`: text instances count in all.
pub(super) fn counts_in(written: Spelling, spelling: Spelling) -> bool {
    written == spelling || written == Spelling::Verbatim
}

/// The stop that affects `spelling`. Spellings completed before the stop are unaffected; a stop of
/// the evaluator belongs to the spelling of the last instance.
pub(super) fn stop_affecting<'a>(
    row: &'a Row,
    spelling: Spelling,
    order: &[Spelling],
) -> Option<&'a Stopped> {
    let place = |spelling: Spelling| {
        order
            .iter()
            .position(|candidate| *candidate == spelling)
            .unwrap_or(0)
    };
    let reaches = |at: Spelling| counts_in(at, spelling) || place(at) <= place(spelling);
    row.stopped.as_ref().filter(|stopped| match stopped.stage {
        Stage::Compile | Stage::FirstMask | Stage::Cached => true,
        Stage::Oracle => row
            .instances
            .last()
            .is_none_or(|instance| reaches(instance.spelling)),
        Stage::Instance { spelling: at, .. } => reaches(at),
        // Every walk was complete.
        Stage::Drafts { .. } => false,
    })
}

impl<K: OutcomeClass> Default for Counts<K> {
    fn default() -> Self {
        Self(K::ALL.iter().map(|class| (*class, 0)).collect())
    }
}

impl<K: OutcomeClass> JsonSchema for Counts<K> {
    fn schema_name() -> Cow<'static, str> {
        "Counts".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let names = K::ALL.iter().map(|class| (class.name(), true));
        members(names, &generator.subschema_for::<u64>())
    }
}

impl<K: OutcomeClass> Counts<K> {
    /// Adds one.
    pub fn add(&mut self, class: K) {
        *self.0.entry(class).or_default() += 1;
    }

    /// The count of one outcome.
    pub fn get(&self, class: K) -> u64 {
        self.0.get(&class).copied().unwrap_or_default()
    }

    /// The sum of the outcomes that match the predicate.
    pub fn sum(&self, predicate: impl Fn(K) -> bool) -> u64 {
        self.0
            .iter()
            .filter(|(class, _)| predicate(**class))
            .map(|(_, count)| count)
            .sum()
    }

    /// The total count.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }
}

impl OutcomeClass for SchemaOutcome {
    const ALL: &'static [Self] = &[
        Self::NoInstance,
        Self::NotJudged,
        Self::Pass,
        Self::RejectsValid,
        Self::DeclinedUnsupported,
        Self::DeclinedInvalid,
        Self::DeclinedTooLarge,
        Self::DeadEnd,
        Self::Failed,
        Self::Timeout,
        Self::OutOfMemory,
        Self::Crash,
        Self::AcceptsInvalid,
    ];

    fn name_and_title(self) -> (&'static str, &'static str) {
        match self {
            Self::NoInstance => ("no_instance", "compiled, no instance"),
            Self::NotJudged => ("not_judged", "not judged"),
            Self::Pass => ("pass", "pass"),
            Self::RejectsValid => ("rejects_valid", "rejects valid"),
            Self::DeclinedUnsupported => ("declined_unsupported", "declined: unsupported"),
            Self::DeclinedInvalid => ("declined_invalid", "declined: invalid"),
            Self::DeclinedTooLarge => ("declined_too_large", "declined: too large"),
            Self::DeadEnd => ("dead_end", "dead end"),
            Self::Failed => ("failed", "failed while masking"),
            Self::Timeout => ("timeout", "timeout"),
            Self::OutOfMemory => ("out_of_memory", "out of memory"),
            Self::Crash => ("crash", "crash"),
            Self::AcceptsInvalid => ("accepts_invalid", "accepts invalid"),
        }
    }
}

impl OutcomeClass for InstanceClass {
    const ALL: &'static [Self] = &[
        Self::Disputed,
        Self::NotJudged,
        Self::Pass,
        Self::RejectsValid,
        Self::DeadEnd,
        Self::Failed,
        Self::AcceptsInvalid,
    ];

    fn name_and_title(self) -> (&'static str, &'static str) {
        match self {
            Self::Disputed => ("disputed", "disputed: label and evaluator disagree"),
            Self::NotJudged => SchemaOutcome::NotJudged.name_and_title(),
            _ => self
                .schema_outcome()
                .map_or(("", ""), SchemaOutcome::name_and_title),
        }
    }
}
