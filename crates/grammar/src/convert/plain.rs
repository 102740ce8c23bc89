//! A grammar with everything in it that a notation without terminals and without `%ignore` can say.
//! Knows no notation.

use std::collections::HashMap;

use super::super::error::{GrammarError, Place};
use super::super::syntax::{Expression, Grammar, RuleKind};
use super::super::{cfg, tables};
use super::note::Note;

/// What stands in the source for ignored text, and the sentence with ignored text before it. No
/// source has such names.
const IGNORED: &str = "%ignore";
const SENTENCE: &str = "%sentence";

/// A grammar whose every rule is reached and derives something. No [`Expression::Terminal`] is in
/// it.
#[derive(Debug)]
pub(super) struct Plain<'t> {
    /// The first one is the rule that sentences are derived from.
    pub(super) rules: Vec<PlainRule<'t>>,
    /// Where in `rules` each name is.
    pub(super) index: HashMap<String, usize>,
}

/// A rule that a sentence needs.
#[derive(Clone, Debug)]
pub(super) struct PlainRule<'t> {
    /// As in the source, or one that no source has.
    pub(super) name: String,
    pub(super) place: Place<'t>,
    pub(super) body: Expression,
    /// Whether it derives the empty text.
    pub(super) nullable: bool,
}

impl<'t> Plain<'t> {
    /// Takes a grammar apart.
    ///
    /// # Errors
    /// What keeps it from being recognised, see [`cfg::build`]; a rule in use that derives no text
    /// at all.
    pub(super) fn of(grammar: Grammar<'t>, notes: &mut Vec<Note>) -> Result<Self, GrammarError> {
        let cfg = cfg::build(&grammar)?;
        // The builder numbers the named rules first, in their order.
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
        let weave = Weave {
            kinds: &kinds,
            ignored: ignored.is_some(),
        };
        let (place, start_nullable) = (grammar.rules[start].place, nullable[start]);
        let mut rules = Vec::with_capacity(grammar.rules.len() + 2);
        let mut dead = Vec::new();
        for (rule, index) in grammar.rules.into_iter().zip(0..) {
            let body = weave.expression(rule.body, rule.kind);
            rules.push(PlainRule {
                name: rule.name,
                place: rule.place,
                body,
                nullable: nullable[index],
            });
            dead.push(!productive[index]);
        }
        let start = match ignored {
            None => start,
            Some(ignored) => {
                let ignored = weave.expression(ignored, RuleKind::Terminal);
                let sentence =
                    Expression::Sequence(vec![reference(IGNORED), reference(&rules[start].name)]);
                rules.push(PlainRule {
                    name: SENTENCE.to_owned(),
                    place,
                    body: sentence,
                    nullable: start_nullable,
                });
                rules.push(PlainRule {
                    name: IGNORED.to_owned(),
                    place,
                    body: ignored,
                    nullable: true,
                });
                dead.extend([false, false]);
                notes.push(Note::IgnoredWoven);
                rules.len() - 2
            }
        };
        reached_from(start, rules, &dead, notes)
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

/// Whether a name is one that no source has.
pub(super) fn is_made_up(name: &str) -> bool {
    name.contains(['%', ' '])
}

/// The rule of this name.
pub(super) fn reference(name: &str) -> Expression {
    Expression::Reference(name.to_owned())
}

/// Keeps the rules that the start reaches, the start first and the others in their order.
fn reached_from<'t>(
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
                .place
                .unsupported(format!("rule that no text satisfies: {}", rule.name)));
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

/// Every name that an expression refers to.
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

/// Puts ignored text where it may stand, which is after every terminal of a rule.
struct Weave<'k> {
    kinds: &'k HashMap<String, RuleKind>,
    ignored: bool,
}

impl Weave<'_> {
    /// Recursion is bounded by the nesting that the readers allow.
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
