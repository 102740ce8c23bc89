//! Turns a grammar of one notation into one of the other, with the same sentences. Knows how
//! notations are read and written, not who asks for which.
//!
//! A server reads EBNF/GBNF or Lark; where a grammar exists in the other one only, it is converted.
//! What is kept is what [`super::compile`] decides by: the set of texts that are sentences. What
//! shapes trees is left out and noted; what cannot be said in the other notation is refused by name
//! and line, never guessed. The result is read again before it is handed out.
//!
//! Lark to EBNF: terminals become rules, regular expressions become classes, groups and repetition
//! (look-around, back-references, lazy repetition, anchors and word boundaries are refused),
//! `%ignore` becomes a rule after every terminal, strings that ignore case become classes, direct
//! left recursion becomes repetition. Templates, special tokens, `%json`, terminal arithmetic and
//! every other thing that [`super::compile`] refuses is refused here in the same words.
//!
//! EBNF to Lark: see [`lark`]. A notation can also be converted to itself, which gives its portable
//! spelling: the EBNF that vLLM's script sends has `_` in names, which llama.cpp does not read.

mod ebnf;
mod lark;
mod names;
mod note;
mod plain;
mod remarks;
mod scalars;
mod shape;
mod simple;
mod write;

pub use note::{Dropped, Note};

use super::error::GrammarError;
use super::syntax::{Expression, Grammar, RuleKind};
use names::Names;
use plain::{Plain, PlainRule};
use sobench_core::constraint::GrammarDialect;
use write::NameOf;

/// A grammar in another notation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// The grammar, one rule a line, the start rule first.
    pub text: String,
    /// What was done beside spelling, in the order in which it was done.
    pub notes: Vec<Note>,
}

/// Converts a grammar from one notation to the other.
///
/// # Errors
/// See [`GrammarError`]: what keeps the text from being compiled, a construct that the other
/// notation does not have, a limit ([`super::MAX_GRAMMAR_BYTES`] for either text,
/// [`super::MAX_CONVERTED_PARTS`]).
pub fn convert(
    from: GrammarDialect,
    to: GrammarDialect,
    text: &str,
) -> Result<Converted, GrammarError> {
    let grammar = super::read(from, text)?;
    let mut notes = Vec::new();
    if from == GrammarDialect::Lark {
        notes = remarks::of(text)?;
        notes.extend(lexer_matters(&grammar).then_some(Note::LexerLeftOut));
    }
    let plain = Plain::of(grammar, &mut notes)?;
    let mut rules = match to {
        GrammarDialect::Ebnf => shape::shape(&plain, &mut notes)?,
        GrammarDialect::Lark => plain.rules,
    };
    for rule in &mut rules {
        let body = std::mem::replace(&mut rule.body, Expression::empty());
        rule.body = simple::simple(body);
    }
    let mut names = Names::new(to);
    let name_of = name(&rules, from, &mut names, &mut notes);
    let text = match to {
        GrammarDialect::Ebnf => ebnf::write(&rules, &name_of, &mut names)?,
        GrammarDialect::Lark => lark::write(&rules, &name_of, &mut notes)?,
    };
    // What we cannot read again, a server will not read either.
    super::compile(to, &text)?;
    Ok(Converted { text, notes })
}

/// Names the rules, the first one as the start of the notation.
fn name(
    rules: &[PlainRule<'_>],
    from: GrammarDialect,
    names: &mut Names,
    notes: &mut Vec<Note>,
) -> NameOf {
    let mut name_of = NameOf::default();
    let mut renamed = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let name = if index == 0 {
            names.start().to_owned()
        } else {
            names.give(&rule.name)
        };
        let is_start = index == 0 && rule.name == Names::new(from).start();
        if name != rule.name && !is_start && !plain::is_made_up(&rule.name) {
            renamed.push((rule.name.clone(), name.clone()));
        }
        name_of.0.insert(rule.name.clone(), name);
    }
    if !renamed.is_empty() {
        notes.push(Note::Renamed(renamed));
    }
    name_of
}

/// Whether a lexer would have a choice to make: some terminal is more than a string or a character,
/// or begins with another one.
fn lexer_matters(grammar: &Grammar<'_>) -> bool {
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
                lexemes.push(part)
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
mod same;
#[cfg(test)]
mod tests;
