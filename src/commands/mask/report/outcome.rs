//! What a row says of a schema, and of each instance, in one word. Knows neither durations nor how
//! words are shown.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use sobench_mask::row::{
    DeclineClass, InstanceOutcome, InstanceRow, Row, Spelling, Stage, StopCause, Stopped,
};

/// A closed list of words that things are counted by.
pub trait Class: Copy + Ord + 'static {
    /// Every word, from the best to the worst.
    const ALL: &'static [Self];

    /// The word in keys and columns of files, and those that a person reads.
    fn words(self) -> (&'static str, &'static str);

    /// The word in keys and columns of files.
    fn name(self) -> &'static str {
        self.words().0
    }

    /// The words that a person reads.
    fn title(self) -> &'static str {
        self.words().1
    }
}

/// What became of a schema under one engine in one spelling, from the best to the worst: the worst
/// instance decides. The first two say nothing about the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaOutcome {
    /// It compiled, and the corpus has no instance of it.
    NoInstance,
    /// Nothing could be judged: labels and evaluator disagree, neither knows, or our own evaluator
    /// was stopped.
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

/// What became of one instance in one spelling, from the best to the worst. The first two blame
/// nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
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

/// How often each word was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts<K: Ord>(BTreeMap<K, u64>);

impl SchemaOutcome {
    /// What `row` says of its schema in `spelling`; text that is no JSON has one spelling and
    /// counts in each. `order` are the spellings in the order in which they were walked. What our
    /// evaluator cut short passes nothing, and a fault that was found before stays one.
    pub fn of(row: &Row, spelling: Spelling, order: &[Spelling]) -> Self {
        let declined = row.declined.as_ref().map(|it| Self::of_decline(it.class));
        let stop = stop_in(row, spelling, order);
        let stopped = stop.and_then(Self::of_stop);
        let instances =
            instances_in(row, spelling).filter_map(|it| InstanceClass::of(&it.outcome).of_schema());
        let worst = instances.chain(declined).chain(stopped).max();
        if stop.is_some() && worst.is_none_or(|it| it == Self::Pass) {
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

    /// A fault that was not declared: a wrong mask, or an engine that did not come to an end.
    pub fn is_fault(self) -> bool {
        self > Self::Pass && !self.is_declined()
    }

    /// The engine said that it cannot.
    pub fn is_declined(self) -> bool {
        matches!(
            self,
            Self::DeclinedUnsupported | Self::DeclinedInvalid | Self::DeclinedTooLarge
        )
    }

    pub(super) fn of_decline(class: DeclineClass) -> Self {
        match class {
            DeclineClass::Unsupported => Self::DeclinedUnsupported,
            DeclineClass::Invalid => Self::DeclinedInvalid,
            DeclineClass::TooLarge => Self::DeclinedTooLarge,
        }
    }

    /// `None` where our own evaluator was stopped: that is no engine's fault.
    pub(super) fn of_stop(stopped: &Stopped) -> Option<Self> {
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
    /// The outcome without its details.
    pub fn of(outcome: &InstanceOutcome) -> Self {
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

    /// What the instance says of its schema, if it may say anything.
    fn of_schema(self) -> Option<SchemaOutcome> {
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
        .filter(move |it| counts_in(it.spelling, spelling))
}

/// Whether what is written in `written` counts in `spelling`: text that is no JSON has no other
/// spelling.
pub(super) fn counts_in(written: Spelling, spelling: Spelling) -> bool {
    written == spelling || written == Spelling::Verbatim
}

/// What kept the row from being walked to its end in `spelling`. A stop leaves the spellings alone
/// that were through before it; our evaluator stands where the last instance stood.
pub(super) fn stop_in<'a>(
    row: &'a Row,
    spelling: Spelling,
    order: &[Spelling],
) -> Option<&'a Stopped> {
    let place = |spelling: Spelling| order.iter().position(|it| *it == spelling).unwrap_or(0);
    let reaches = |at: Spelling| counts_in(at, spelling) || place(at) <= place(spelling);
    row.stopped.as_ref().filter(|stopped| match stopped.stage {
        Stage::Compile | Stage::FirstMask | Stage::Cached => true,
        Stage::Oracle => row.instances.last().is_none_or(|it| reaches(it.spelling)),
        Stage::Instance { spelling: at, .. } => reaches(at),
    })
}

impl<K: Ord> Default for Counts<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Class> Counts<K> {
    /// Counts one more.
    pub fn add(&mut self, class: K) {
        *self.0.entry(class).or_default() += 1;
    }

    /// How many of one word.
    pub fn get(&self, class: K) -> u64 {
        self.0.get(&class).copied().unwrap_or_default()
    }

    /// How many of the words that `wanted` names.
    pub fn sum(&self, wanted: impl Fn(K) -> bool) -> u64 {
        self.0
            .iter()
            .filter(|(class, _)| wanted(**class))
            .map(|(_, count)| count)
            .sum()
    }

    /// How many in all.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }
}

impl<K: Class> Serialize for Counts<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(K::ALL.iter().map(|class| (class.name(), self.get(*class))))
    }
}

impl Class for SchemaOutcome {
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

    fn words(self) -> (&'static str, &'static str) {
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

impl Class for InstanceClass {
    const ALL: &'static [Self] = &[
        Self::Disputed,
        Self::NotJudged,
        Self::Pass,
        Self::RejectsValid,
        Self::DeadEnd,
        Self::Failed,
        Self::AcceptsInvalid,
    ];

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Disputed => ("disputed", "disputed: label against evaluator"),
            Self::NotJudged => SchemaOutcome::NotJudged.words(),
            _ => self.of_schema().map_or(("", ""), SchemaOutcome::words),
        }
    }
}
