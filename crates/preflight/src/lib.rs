//! Preflight: tests whether a server enforces constraints. Sends a few requests whose constrained
//! answer no model gives by chance, and classifies the result for each kind of constraint and each
//! dialect.
//!
//! [`constraint_probe`] creates the requests, [`runner`] sends them, [`classify`] judges the
//! answers, and [`gate`] decides whether a run may start. The requests are few and small (one per
//! cell; two if the first answer was truncated) and use no constraint of a run. They are sent one
//! after the other, so that the request that crashes a server is known. [`tool_calls`] and
//! [`reasoning`] and [`wire`] are the tests that have no dialects. [`features`] is a test of its own, of keywords.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod classify;
pub mod constraint_probe;
pub mod envelope;
pub mod features;
pub mod gate;
pub mod instances;
pub mod reasoning;
pub mod runner;
pub mod tool_calls;
pub mod wire;
mod wire_requests;

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use sobench_backend::identify::Server;
use sobench_backend::{ConstraintDialect, Product, ServerKind};
use sobench_core::constraint::GrammarDialect;
pub use sobench_notices::enforcement::{Cause, Class, Finding, ProbeKind, ServerFacts, Spelling};
use sobench_notices::notice::{Notice, as_sentences};

pub use classify::Control;
pub use reasoning::{ReasoningPreflight, ReasoningResult, ReasoningVerdict};
pub use runner::{Extent, PreflightSettings, run};
pub use tool_calls::{ToolCell, ToolPreflight, ToolQuestion};
pub use wire::{WirePreflight, WireResult, WireVerdict};

/// Maximum characters of an answer or error message that a finding keeps; a note marks the cut.
pub const MAX_KEPT_CHARS: usize = 2000;

/// The results for one server.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Preflight {
    pub record: PreflightConditions,
    #[serde(rename = "server")]
    pub facts: ServerFacts,
    /// The result of the same prompt without a constraint.
    pub control: Control,
    /// In the order of the requests.
    pub cells: Vec<Cell>,
    /// Dialects that were not tested, because another one enforces everything or the server does
    /// not have them.
    #[serde(skip)]
    pub untested: Vec<ConstraintDialect>,
    /// The formatting of JSON; `None` if no dialect enforces a schema, or the request failed.
    pub spelling: Option<Spelling>,
    /// `None` if [`ProbeKind::Tool`] was not tested.
    #[serde(skip)]
    pub tool_calls: Option<ToolPreflight>,
    /// `None` if [`ProbeKind::Reasoning`] was not tested.
    #[serde(skip)]
    pub reasoning: Option<ReasoningPreflight>,
    /// `None` if [`ProbeKind::Wire`] was not tested.
    #[serde(skip)]
    pub wire: Option<WirePreflight>,
    /// Generating requests sent, including the control.
    pub requests: usize,
    /// Notices for the reader.
    #[serde(serialize_with = "as_sentences")]
    #[schemars(with = "Vec<String>")]
    pub notices: Vec<Notice>,
}

/// The conditions of a preflight.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct PreflightConditions {
    pub backend: ServerKind,
    pub base_url: String,
    /// The path that requests were sent to.
    #[serde(rename = "endpoint")]
    pub path: String,
    /// The model name in requests.
    pub model: String,
    pub seed: u64,
    /// Maximum tokens of a first answer.
    pub output_len: u32,
    /// The prompt of every request: the first one of several that the model answers without a
    /// constraint.
    pub prompt: String,
    pub stream: bool,
    /// The kinds to test.
    pub kinds: Vec<ProbeKind>,
    /// The dialects to test, that of `auto` first.
    #[serde(rename = "constraint_dialects")]
    pub dialects: Vec<ConstraintDialect>,
    /// The default notation of grammars in runs.
    #[serde(rename = "grammar_dialect")]
    pub notation: GrammarDialect,
}

/// The result of one kind in one dialect.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Cell {
    pub kind: ProbeKind,
    /// The notation of a grammar; `None` for other kinds.
    #[serde(rename = "grammar_dialect")]
    pub notation: Option<GrammarDialect>,
    #[serde(rename = "constraint_dialect")]
    pub dialect: ConstraintDialect,
    /// Whether it was tested a second time, with a higher token limit.
    pub asked_again: bool,
    #[serde(flatten)]
    pub finding: Finding,
}

/// A result, for progress.
#[derive(Clone, Copy, Debug)]
pub enum Tested<'a> {
    Cell(&'a Cell),
    ToolCall(&'a ToolCell),
    Reasoning(&'a ReasoningResult),
    Wire(&'a WireResult),
}

/// The dialect that works best, and how to use it.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Recommendation {
    #[serde(rename = "constraint_dialect")]
    pub dialect: ConstraintDialect,
    /// The notation of grammars, if it differs from the default of runs.
    #[serde(rename = "grammar_dialect")]
    pub notation: Option<GrammarDialect>,
    /// The tested kinds that it enforces.
    pub enforced: Vec<ProbeKind>,
    /// The tested kinds that it does not enforce.
    pub missing: Vec<ProbeKind>,
}

impl Preflight {
    /// The cell of a kind in a dialect. If there are two notations, the one that works. `None` if
    /// it was not tested.
    pub fn verdict_for(&self, kind: ProbeKind, dialect: ConstraintDialect) -> Option<&Cell> {
        let mut cells = self
            .cells
            .iter()
            .filter(|cell| cell.kind == kind && cell.dialect == dialect)
            .peekable();
        let first = cells.peek().copied();
        cells
            .find(|cell| cell.finding.class == Class::Enforced)
            .or(first)
    }

    /// The dialect that enforces most of the tested kinds; of equal ones that with the fewest
    /// silent losses, then that of `auto`. `None` if no dialect enforces any.
    pub fn recommendation(&self) -> Option<Recommendation> {
        let recommendation_for = |dialect: ConstraintDialect| {
            let is_enforced =
                |kind: &ProbeKind| self.class_of(*kind, dialect) == Some(Class::Enforced);
            let (enforced, missing) = self.text_kinds().partition(is_enforced);
            Recommendation {
                dialect,
                notation: self.notation_for(dialect),
                enforced,
                missing,
            }
        };
        let silent_losses = |candidate: &Recommendation| {
            candidate
                .missing
                .iter()
                .filter(|kind| self.loses_silently(**kind, candidate.dialect))
                .count()
        };
        let candidates = self
            .record
            .dialects
            .iter()
            .map(|dialect| recommendation_for(*dialect))
            .filter(|candidate| !candidate.enforced.is_empty());
        // The sort is stable, so the first of equal ones is used.
        let mut candidates: Vec<Recommendation> = candidates.collect();
        candidates.sort_by_key(|candidate| {
            (
                std::cmp::Reverse(candidate.enforced.len()),
                silent_losses(candidate),
            )
        });
        candidates.into_iter().next()
    }

    /// Whether some dialect enforces every tested kind that it carries, and carries at least one;
    /// and whether the other kinds passed, if they were tested.
    pub fn passed(&self) -> bool {
        let carries_all = |dialect: &ConstraintDialect| {
            let classes = self
                .text_kinds()
                .filter_map(|kind| self.class_of(kind, *dialect));
            let mut carried = classes
                .filter(|class| *class != Class::NotCarried)
                .peekable();
            carried.peek().is_some() && carried.all(|class| class == Class::Enforced)
        };
        let of_text = if self.has_other_kinds() && self.text_kinds().next().is_none() {
            true
        } else {
            self.record.dialects.iter().any(carries_all)
        };
        of_text
            && self.tool_calls.as_ref().is_none_or(ToolPreflight::passed)
            && self
                .reasoning
                .as_ref()
                .is_none_or(ReasoningPreflight::passed)
            && self.wire.as_ref().is_none_or(WirePreflight::passed)
    }

    /// Whether something was tested that is no constraint on text.
    pub fn has_other_kinds(&self) -> bool {
        self.tool_calls.is_some() || self.reasoning.is_some() || self.wire.is_some()
    }

    /// The tested kinds that dialects carry.
    pub fn text_kinds(&self) -> impl Iterator<Item = ProbeKind> {
        let kinds = self.record.kinds.iter().copied();
        kinds.filter(|kind| kind.is_of_text())
    }

    /// Tested dialects that only other servers read: the identified product does not have them,
    /// they are the native dialect of another one, and none of their constraints had an effect.
    pub fn foreign_dialects(&self) -> Vec<ConstraintDialect> {
        let has_effect = |dialect: &ConstraintDialect| {
            let mut cells = self.cells.iter().filter(|cell| cell.dialect == *dialect);
            cells.any(|cell| cell.finding.class.has_effect())
        };
        let is_hidden = |dialect: &ConstraintDialect| {
            is_foreign(self.facts.product, *dialect) && !has_effect(dialect)
        };
        let dialects = self.record.dialects.iter().copied();
        dialects.filter(is_hidden).collect()
    }

    /// Cells in which the server silently dropped the constraint.
    pub fn silent_losses(&self) -> impl Iterator<Item = &Cell> {
        self.cells
            .iter()
            .filter(|cell| cell.finding.class.is_silent_loss())
    }

    fn class_of(&self, kind: ProbeKind, dialect: ConstraintDialect) -> Option<Class> {
        self.verdict_for(kind, dialect)
            .map(|cell| cell.finding.class)
    }

    fn loses_silently(&self, kind: ProbeKind, dialect: ConstraintDialect) -> bool {
        self.class_of(kind, dialect)
            .is_some_and(Class::is_silent_loss)
    }

    fn notation_for(&self, dialect: ConstraintDialect) -> Option<GrammarDialect> {
        let cell = self
            .verdict_for(ProbeKind::GRAMMAR, dialect)
            .filter(|cell| cell.finding.class == Class::Enforced)?;
        cell.notation
            .filter(|notation| *notation != self.record.notation)
    }
}

impl fmt::Display for Tested<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cell(cell) => write!(
                f,
                "{} in {}: {}",
                cell.label(),
                cell.dialect,
                cell.finding.class.name()
            ),
            Self::ToolCall(cell) => {
                write!(f, "{}: {}", cell.label(), cell.finding.class.name())
            }
            Self::Wire(result) => write!(f, "{}: {}", result.name, result.verdict.name()),
            Self::Reasoning(result) => write!(f, "{}: {}", result.label(), result.verdict),
        }
    }
}

impl Cell {
    /// The kind, with the notation of a grammar.
    pub fn label(&self) -> String {
        label(self.kind, self.notation)
    }
}

impl Recommendation {
    /// The flags to use it in a run.
    pub fn flags(&self) -> String {
        let notation = self
            .notation
            .map(|notation| format!(" --grammar-dialect {notation}"))
            .unwrap_or_default();
        format!("--constraint-dialect {}{notation}", self.dialect)
    }
}

/// The kinds of servers of a product; none for the embedded server, which reads several dialects.
fn kinds_of(product: Option<Product>) -> impl Iterator<Item = ServerKind> {
    let kinds = ServerKind::ALL.into_iter();
    kinds.filter(move |kind| product.is_some() && kind.product() == product)
}

/// Whether it is known which dialects the server reads.
fn is_known(product: Option<Product>) -> bool {
    kinds_of(product).next().is_some()
}

/// Whether only other servers than this product read the dialect: it does not have it, and another
/// one has it as its native dialect.
fn is_foreign(product: Option<Product>, dialect: ConstraintDialect) -> bool {
    let is_native = |kind: ServerKind| {
        let version = None;
        Server::Kind { kind, version }.constraint_dialect(kind) == dialect
    };
    let is_native_of_another = || {
        let mut others = ServerKind::ALL
            .into_iter()
            .filter(|kind| kind.product() != product);
        others.any(|kind| kind.product().is_some() && is_native(kind))
    };
    is_known(product)
        && !kinds_of(product).any(|kind| kind.dialects().contains(&dialect))
        && is_native_of_another()
}

/// The name of a server in tables: its product, with its engine if that is not part of the name.
pub fn server_label(facts: &ServerFacts, backend: ServerKind) -> String {
    let product = facts.product.map_or(backend.name(), Product::label);
    match facts
        .engine
        .as_ref()
        .filter(|engine| !engine.contains(product))
    {
        Some(engine) => format!("{product}, {engine}"),
        None => product.to_owned(),
    }
}

/// The label of a row: the kind, with the notation of a grammar.
pub fn label(kind: ProbeKind, notation: Option<GrammarDialect>) -> String {
    notation.map_or_else(
        || kind.name().to_owned(),
        |notation| format!("{kind} ({notation})"),
    )
}

#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used)]
pub mod testing;
#[cfg(test)]
mod tests;
