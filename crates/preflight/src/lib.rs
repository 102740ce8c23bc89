//! Does the constraint bite? Asks a server a few questions whose constrained answer no model gives
//! by chance, and says for each kind of constraint and each dialect what became of it.
//!
//! [`question`] draws, [`ask`] sends, [`classify`] judges; [`gate`] decides whether a run may
//! begin. Everything but `ask`, `target` and `command` is pure. The questions are small and few
//! (one a cell; two where the first was cut), use no constraint of any run, and go out one after
//! the other, so that a server that dies of one is known by it.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod ask;
pub mod classify;
pub mod envelope;
pub mod features;
pub mod gate;
pub mod question;

use serde::Serialize;

use sobench_backend::{ConstraintDialect, ServerKind};
use sobench_core::constraint::GrammarDialect;
pub use sobench_notices::enforcement::{Cause, Class, Finding, Kind, ServerFacts, Spelling};
use sobench_notices::notice::Notice;

pub use ask::{Extent, Options, run};
pub use classify::Control;

/// Characters of an answer, or of a server's words, that a finding keeps; what is cut is said.
pub const MAX_KEPT_CHARS: usize = 2000;

/// Everything that was found out about a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Preflight {
    pub about: PreflightConditions,
    pub facts: ServerFacts,
    /// The same prompt without a constraint.
    pub control: Control,
    /// In the order asked.
    pub cells: Vec<Cell>,
    /// How JSON is spelt; `None` where no dialect enforces a schema, or the question failed.
    pub spelling: Option<Spelling>,
    /// Generating requests sent, the control among them.
    pub requests: usize,
    /// What the reader has to know besides, a sentence each.
    pub notices: Vec<Notice>,
}

/// Under which conditions it was asked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PreflightConditions {
    pub backend: ServerKind,
    pub base_url: String,
    /// The path that requests were sent to.
    #[serde(rename = "endpoint")]
    pub path: String,
    /// The name that requests asked for.
    pub model: String,
    pub seed: u64,
    /// The most tokens of a first answer.
    pub output_len: u32,
    pub stream: bool,
    /// The kinds that were to be asked.
    pub kinds: Vec<Kind>,
    /// The dialects that were to be asked, the one that `auto` means first.
    #[serde(rename = "constraint_dialects")]
    pub dialects: Vec<ConstraintDialect>,
    /// The notation in which runs send grammars unless told otherwise.
    #[serde(rename = "grammar_dialect")]
    pub notation: GrammarDialect,
}

/// One kind in one dialect.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    pub kind: Kind,
    /// The notation of a grammar; `None` for every other kind.
    #[serde(rename = "grammar_dialect")]
    pub notation: Option<GrammarDialect>,
    #[serde(rename = "constraint_dialect")]
    pub dialect: ConstraintDialect,
    /// Whether it was asked a second time, with more room for the answer.
    pub asked_again: bool,
    #[serde(flatten)]
    pub finding: Finding,
}

/// The dialect that works best, and how to use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recommendation {
    pub dialect: ConstraintDialect,
    /// The notation to send grammars in, where it is not the one that runs send anyway.
    pub notation: Option<GrammarDialect>,
    /// The asked kinds that it enforces.
    pub enforced: Vec<Kind>,
    /// The asked kinds that it does not.
    pub missing: Vec<Kind>,
}

impl Preflight {
    /// What came of a kind in a dialect: the cell of the notation that works, where there are two;
    /// `None` where it was not asked.
    pub fn verdict_for(&self, kind: Kind, dialect: ConstraintDialect) -> Option<&Cell> {
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

    /// The dialect that enforces most of the asked kinds, of equals the one that loses none in
    /// silence, then the one that `auto` means. `None` where no dialect enforces any.
    pub fn recommendation(&self) -> Option<Recommendation> {
        let of_dialect = |dialect: ConstraintDialect| {
            let is_enforced = |kind: &Kind| self.class_of(*kind, dialect) == Some(Class::Enforced);
            let (enforced, missing) = self.about.kinds.iter().copied().partition(is_enforced);
            Recommendation {
                dialect,
                notation: self.notation_for(dialect),
                enforced,
                missing,
            }
        };
        let silent = |it: &Recommendation| {
            it.missing
                .iter()
                .filter(|kind| self.loses_silently(**kind, it.dialect))
                .count()
        };
        let offers = self
            .about
            .dialects
            .iter()
            .map(|dialect| of_dialect(*dialect))
            .filter(|offer| !offer.enforced.is_empty());
        // Of equals the first: a sort keeps their order.
        let mut offers: Vec<Recommendation> = offers.collect();
        offers.sort_by_key(|offer| (std::cmp::Reverse(offer.enforced.len()), silent(offer)));
        offers.into_iter().next()
    }

    /// Whether some dialect enforces every asked kind that it carries, and carries one at least.
    pub fn passed(&self) -> bool {
        self.about.dialects.iter().any(|dialect| {
            let classes = self
                .about
                .kinds
                .iter()
                .filter_map(|kind| self.class_of(*kind, *dialect));
            let mut carried = classes
                .filter(|class| *class != Class::NotCarried)
                .peekable();
            carried.peek().is_some() && carried.all(|class| class == Class::Enforced)
        })
    }

    /// Cells in which the server dropped the constraint and answered as if all were well.
    pub fn silent_losses(&self) -> impl Iterator<Item = &Cell> {
        self.cells
            .iter()
            .filter(|cell| cell.finding.class.is_silent_loss())
    }

    fn class_of(&self, kind: Kind, dialect: ConstraintDialect) -> Option<Class> {
        self.verdict_for(kind, dialect)
            .map(|cell| cell.finding.class)
    }

    fn loses_silently(&self, kind: Kind, dialect: ConstraintDialect) -> bool {
        self.class_of(kind, dialect)
            .is_some_and(Class::is_silent_loss)
    }

    fn notation_for(&self, dialect: ConstraintDialect) -> Option<GrammarDialect> {
        let cell = self
            .verdict_for(Kind::Grammar, dialect)
            .filter(|cell| cell.finding.class == Class::Enforced)?;
        cell.notation
            .filter(|notation| *notation != self.about.notation)
    }
}

impl Cell {
    /// The kind, with the notation where it is a grammar.
    pub fn label(&self) -> String {
        label(self.kind, self.notation)
    }
}

impl Recommendation {
    /// The flags that a run takes to use it.
    pub fn flags(&self) -> String {
        let notation = self
            .notation
            .map(|notation| format!(" --grammar-dialect {notation}"))
            .unwrap_or_default();
        format!("--constraint-dialect {}{notation}", self.dialect)
    }
}

/// A row's name: the kind, with the notation where it is a grammar.
pub fn label(kind: Kind, notation: Option<GrammarDialect>) -> String {
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
