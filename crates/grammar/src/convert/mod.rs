//! Converts grammars between Lark and EBNF/GBNF, keeping the language.
//!
//! Servers support EBNF/GBNF or Lark; a grammar in the other notation is converted. The conversion
//! keeps the set of texts that [`super::compile`] recognises. Constructs that shape parse trees are
//! dropped with a note; constructs that the other notation lacks are refused with name and line.
//! The result is compiled as a check.
//!
//! Lark to EBNF: terminals become rules; regular expressions become classes, groups and repetition
//! (look-around, back-references, lazy repetition, anchors and word boundaries are refused);
//! `%ignore` becomes a rule after every terminal; case-insensitive strings become classes; direct
//! left recursion becomes repetition. Templates, special tokens, `%json`, terminal arithmetic and
//! other constructs that [`super::compile`] refuses are refused with the same errors.
//!
//! EBNF to Lark: see [`lark`]. A grammar can also be converted to its own notation, which gives a
//! portable form: the EBNF of vLLM's script has `_` in names, which llama.cpp does not support.

mod ebnf;
mod lark;
mod lark_notes;
mod names;
mod note;
mod plain;
mod recursion;
mod scalars;
mod simplify;
mod write;

pub use note::{Dropped, Note};

use super::error::GrammarError;
use super::syntax::{Expression, Grammar, RuleKind};
use names::Names;
use plain::{Plain, PlainRule};
use sobench_core::constraint::GrammarDialect;
use write::RuleNames;

/// A converted grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// The grammar with one rule per line, the start rule first.
    pub text: String,
    /// Changes other than spelling, in order.
    pub notes: Vec<Note>,
}

/// Converts a grammar from one notation to another.
///
/// # Errors
/// See [`GrammarError`]: a grammar that does not compile, a construct that the other notation
/// lacks, a limit ([`super::MAX_GRAMMAR_BYTES`] for both texts, [`super::MAX_CONVERTED_PARTS`]).
pub fn convert(
    from: GrammarDialect,
    to: GrammarDialect,
    text: &str,
) -> Result<Converted, GrammarError> {
    let grammar = super::read(from, text)?;
    let mut notes = Vec::new();
    if from == GrammarDialect::Lark {
        notes = lark_notes::notes_of(text)?;
        notes.extend(is_lexer_ambiguous(&grammar).then_some(Note::OverlappingTerminals));
    }
    let plain = Plain::new(grammar, &mut notes)?;
    let mut rules = match to {
        GrammarDialect::Ebnf => recursion::rewrite(&plain, &mut notes)?,
        GrammarDialect::Lark => plain.rules,
    };
    for rule in &mut rules {
        let body = std::mem::replace(&mut rule.body, Expression::empty());
        rule.body = simplify::simplify(body);
    }
    let mut names = Names::new(to);
    let name_of = assign_names(&rules, from, &mut names, &mut notes);
    let text = match to {
        GrammarDialect::Ebnf => ebnf::write(&rules, &name_of, &mut names)?,
        GrammarDialect::Lark => lark::write(&rules, &name_of, &mut notes)?,
    };
    // A result that this crate cannot compile would not work in a server either.
    super::compile(to, &text)?;
    Ok(Converted { text, notes })
}

/// Assigns names to the rules; the first becomes the start rule.
fn assign_names(
    rules: &[PlainRule<'_>],
    from: GrammarDialect,
    names: &mut Names,
    notes: &mut Vec<Note>,
) -> RuleNames {
    let mut name_of = RuleNames::default();
    let mut renamed = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let name = if index == 0 {
            names.start().to_owned()
        } else {
            names.unique_name(&rule.name)
        };
        let is_start = index == 0 && rule.name == Names::new(from).start();
        if name != rule.name && !is_start && !plain::is_generated(&rule.name) {
            renamed.push((rule.name.clone(), name.clone()));
        }
        name_of.0.insert(rule.name.clone(), name);
    }
    if !renamed.is_empty() {
        notes.push(Note::Renamed(renamed));
    }
    name_of
}

/// Whether a lexer could tokenise ambiguously: some terminal is more than a string or a character,
/// or starts with another terminal.
fn is_lexer_ambiguous(grammar: &Grammar<'_>) -> bool {
    let terminals = grammar
        .rules
        .iter()
        .filter(|rule| rule.kind == RuleKind::Terminal)
        .map(|rule| &rule.body);
    let rules = grammar
        .rules
        .iter()
        .filter(|rule| rule.kind == RuleKind::Rule)
        .map(|rule| &rule.body);
    let mut lexemes: Vec<&Expression> = terminals.chain(&grammar.ignored).collect();
    let mut parts: Vec<&Expression> = rules.collect();
    while let Some(part) = parts.pop() {
        match part {
            Expression::Sequence(inner) | Expression::Choice(inner) => parts.extend(inner),
            Expression::Repeat { body, .. } => parts.push(body),
            Expression::Terminal(_) | Expression::Text(_) | Expression::Class(_) => {
                lexemes.push(part);
            }
            Expression::Reference(_) => {}
        }
    }
    let mut fixed = Vec::new();
    while let Some(lexeme) = lexemes.pop() {
        match lexeme {
            Expression::Terminal(body) => lexemes.push(body),
            Expression::Choice(parts) => lexemes.extend(parts),
            Expression::Text(_) | Expression::Class(_) => fixed.push(lexeme),
            _ => return true,
        }
    }
    !lark::overlapping(fixed.into_iter()).is_empty()
}

#[cfg(test)]
mod equivalence_tests;
#[cfg(test)]
mod tests;
