//! Reduces a grammar to rules without terminals and without `%ignore`.

use std::collections::HashMap;

use super::super::error::{GrammarError, Position};
use super::super::syntax::{Expression, Grammar, RuleKind};
use super::super::{cfg, tables};
use super::note::Note;

/// Names of the rules for ignored text, and for a sentence with leading ignored text. They cannot
/// occur in a source.
const IGNORED: &str = "%ignore";
const SENTENCE: &str = "%sentence";

/// A grammar whose rules are all reachable and productive, without [`Expression::Terminal`].
#[derive(Debug)]
pub(super) struct Plain<'t> {
    /// The rules; the first is the start rule.
    pub(super) rules: Vec<PlainRule<'t>>,
    /// Index in `rules` by name.
    pub(super) index: HashMap<String, usize>,
}

/// A reachable rule.
#[derive(Clone, Debug)]
pub(super) struct PlainRule<'t> {
    /// The name in the source, or a generated name.
    pub(super) name: String,
    pub(super) position: Position<'t>,
    pub(super) body: Expression,
    /// Whether it derives the empty text.
    pub(super) nullable: bool,
}

impl<'t> Plain<'t> {
    /// Reduces a grammar.
    ///
    /// # Errors
    /// Errors of [`cfg::build`]; a reachable rule that derives no text.
    pub(super) fn new(grammar: Grammar<'t>, notes: &mut Vec<Note>) -> Result<Self, GrammarError> {
        let cfg = cfg::build(&grammar)?;
        // The builder numbers named rules first, in order.
        let (nullable, productive) = (tables::nullable(&cfg), tables::productive(&cfg));
        let kinds: HashMap<String, RuleKind> = grammar
            .rules
            .iter()
            .map(|rule| (rule.name.clone(), rule.kind))
            .collect();
        let start = grammar
            .rules
            .iter()
            .position(|rule| rule.name == grammar.start)
            .ok_or(GrammarError::NoStartRule)?;
        let ignored = (!grammar.ignored.is_empty())
            .then(|| Expression::choice(grammar.ignored).repeat(0, None));
        let inserter = IgnoreInserter {
            kinds: &kinds,
            ignored: ignored.is_some(),
        };
        let (position, start_nullable) = (grammar.rules[start].position, nullable[start]);
        let mut rules = Vec::with_capacity(grammar.rules.len() + 2);
        let mut dead = Vec::new();
        for (rule, index) in grammar.rules.into_iter().zip(0..) {
            let body = inserter.expression(rule.body, rule.kind);
            rules.push(PlainRule {
                name: rule.name,
                position: rule.position,
                body,
                nullable: nullable[index],
            });
            dead.push(!productive[index]);
        }
        let start = match ignored {
            None => start,
            Some(ignored) => {
                let ignored = inserter.expression(ignored, RuleKind::Terminal);
                let sentence =
                    Expression::Sequence(vec![reference(IGNORED), reference(&rules[start].name)]);
                rules.push(PlainRule {
                    name: SENTENCE.to_owned(),
                    position,
                    body: sentence,
                    nullable: start_nullable,
                });
                rules.push(PlainRule {
                    name: IGNORED.to_owned(),
                    position,
                    body: ignored,
                    nullable: true,
                });
                dead.extend([false, false]);
                notes.push(Note::IgnoreAsRule);
                rules.len() - 2
            }
        };
        reachable_from(start, rules, &dead, notes)
    }

    /// Whether an expression derives the empty text.
    pub(super) fn nullable(&self, expression: &Expression) -> bool {
        match expression {
            Expression::Text(text) => text.is_empty(),
            Expression::Class(_) => false,
            Expression::Sequence(parts) => parts.iter().all(|part| self.nullable(part)),
            Expression::Choice(parts) => parts.iter().any(|part| self.nullable(part)),
            Expression::Repeat { body, least, .. } => *least == 0 || self.nullable(body),
            Expression::Terminal(body) => self.nullable(body),
            Expression::Reference(name) => self
                .index
                .get(name)
                .is_some_and(|&index| self.rules[index].nullable),
        }
    }
}

/// Whether a name was generated and cannot occur in a source.
pub(super) fn is_generated(name: &str) -> bool {
    name.contains(['%', ' '])
}

/// A reference to a rule.
pub(super) fn reference(name: &str) -> Expression {
    Expression::Reference(name.to_owned())
}

/// Keeps the rules that are reachable from the start; the start rule comes first.
fn reachable_from<'t>(
    start: usize,
    rules: Vec<PlainRule<'t>>,
    dead: &[bool],
    notes: &mut Vec<Note>,
) -> Result<Plain<'t>, GrammarError> {
    let numbers: HashMap<&str, usize> = rules
        .iter()
        .zip(0..)
        .map(|(rule, number)| (rule.name.as_str(), number))
        .collect();
    let mut reached = vec![false; rules.len()];
    reached[start] = true;
    let mut agenda = vec![start];
    while let Some(number) = agenda.pop() {
        if dead[number] {
            let rule = &rules[number];
            return Err(rule
                .position
                .unsupported(format!("rule that derives no text: {}", rule.name)));
        }
        for name in references(&rules[number].body) {
            let Some(&next) = numbers.get(name) else {
                return Err(GrammarError::UndefinedRule {
                    name: name.to_owned(),
                });
            };
            if !reached[next] {
                reached[next] = true;
                agenda.push(next);
            }
        }
    }
    let mut kept = Vec::new();
    let mut unreached = Vec::new();
    let mut first = None;
    for (number, rule) in rules.into_iter().enumerate() {
        match reached[number] {
            true if number == start => first = Some(rule),
            true => kept.push(rule),
            false => unreached.push(rule.name),
        }
    }
    if !unreached.is_empty() {
        notes.push(Note::Unreached(unreached));
    }
    let rules: Vec<PlainRule<'_>> = first.into_iter().chain(kept).collect();
    let index = rules
        .iter()
        .zip(0..)
        .map(|(rule, number)| (rule.name.clone(), number))
        .collect();
    Ok(Plain { rules, index })
}

/// All names that an expression refers to.
pub(super) fn references(expression: &Expression) -> Vec<&str> {
    let (mut parts, mut found) = (vec![expression], Vec::new());
    while let Some(part) = parts.pop() {
        match part {
            Expression::Sequence(inner) | Expression::Choice(inner) => parts.extend(inner),
            Expression::Repeat { body, .. } | Expression::Terminal(body) => parts.push(body),
            Expression::Reference(name) => found.push(name.as_str()),
            Expression::Text(_) | Expression::Class(_) => {}
        }
    }
    found
}

/// Inserts ignored text after each terminal of a rule.
struct IgnoreInserter<'k> {
    kinds: &'k HashMap<String, RuleKind>,
    ignored: bool,
}

impl IgnoreInserter<'_> {
    /// The recursion is bounded by the parsers' nesting limit.
    fn expression(&self, expression: Expression, kind: RuleKind) -> Expression {
        let all = |parts: Vec<Expression>| {
            parts
                .into_iter()
                .map(|part| self.expression(part, kind))
                .collect()
        };
        match expression {
            Expression::Sequence(parts) => Expression::Sequence(all(parts)),
            Expression::Choice(parts) => Expression::Choice(all(parts)),
            Expression::Repeat { body, least, most } => {
                self.expression(*body, kind).repeat(least, most)
            }
            Expression::Terminal(body) => {
                self.followed(self.expression(*body, RuleKind::Terminal), kind)
            }
            Expression::Reference(name) => {
                let is_terminal = self.kinds.get(&name) == Some(&RuleKind::Terminal);
                let reference = Expression::Reference(name);
                if is_terminal {
                    self.followed(reference, kind)
                } else {
                    reference
                }
            }
            plain @ (Expression::Text(_) | Expression::Class(_)) => plain,
        }
    }

    fn followed(&self, terminal: Expression, kind: RuleKind) -> Expression {
        if self.ignored && kind == RuleKind::Rule {
            Expression::Sequence(vec![terminal, reference(IGNORED)])
        } else {
            terminal
        }
    }
}
