//! Rewrites a grammar into one that needs no reader to cope with left recursion or with repetition
//! of the empty text, and that has the same sentences. Knows no notation.
//!
//! llama.cpp refuses left recursion ("unsupported grammar, left recursion detected"), and its
//! `(x?)*` becomes a rule that is left recursive behind something empty. Here `a ::= a x | y`
//! becomes `a ::= y x*`, and what is repeated is never empty: in `e*` the repeated part is what `e`
//! derives but for the empty text. Left recursion through other rules is refused by name.

use std::collections::{HashMap, HashSet, VecDeque};

use super::super::cfg::take_away_leaves;
use super::super::error::GrammarError;
use super::super::limits;
use super::super::syntax::Expression;
use super::note::Note;
use super::plain::{Plain, PlainRule, references};

/// What the name of a rule gets behind it that derives all of it but the empty text. No source has
/// blanks in names.
const FILLED: &str = " filled";

/// Rewrites every rule.
///
/// # Errors
/// Left recursion that is not direct; more parts added than the limit.
pub(super) fn shape<'t>(
    plain: &Plain<'t>,
    notes: &mut Vec<Note>,
) -> Result<Vec<PlainRule<'t>>, GrammarError> {
    let mut shaper = Shaper {
        plain,
        twins: Vec::new(),
        known: HashSet::new(),
        parts: 0,
        emptied: false,
    };
    let (mut recursive, mut emptied) = (Vec::new(), Vec::new());
    let mut shaped = Vec::with_capacity(plain.rules.len());
    let mut next_twin = 0;
    for rule in &plain.rules {
        let mut family = VecDeque::from([rule.clone()]);
        while let Some(member) = family.pop_front() {
            shaper.emptied = false;
            let (body, was_recursive) = shaper.without_left_recursion(&member)?;
            if was_recursive && recursive.last() != Some(&rule.name) {
                recursive.push(rule.name.clone());
            }
            if shaper.emptied && emptied.last() != Some(&rule.name) {
                emptied.push(rule.name.clone());
            }
            shaped.push(PlainRule { body, ..member });
            while let Some(name) = shaper.twins.get(next_twin).cloned() {
                next_twin += 1;
                family.push_back(shaper.twin(&name)?);
            }
        }
    }
    refuse_left_recursion(plain, &shaped)?;
    if !recursive.is_empty() {
        notes.push(Note::LeftRecursion(recursive));
    }
    if !emptied.is_empty() {
        notes.push(Note::EmptyRepetition(emptied));
    }
    Ok(still_reached(shaped))
}

/// Leaves out the rules that only their twins are needed of.
fn still_reached(rules: Vec<PlainRule<'_>>) -> Vec<PlainRule<'_>> {
    let numbers: HashMap<&str, usize> = rules
        .iter()
        .zip(0..)
        .map(|(rule, number)| (rule.name.as_str(), number))
        .collect();
    let mut reached = vec![false; rules.len()];
    let mut agenda = vec![0];
    while let Some(number) = agenda.pop() {
        if !std::mem::replace(&mut reached[number], true) {
            agenda.extend(
                references(&rules[number].body)
                    .into_iter()
                    .filter_map(|name| numbers.get(name)),
            );
        }
    }
    rules
        .into_iter()
        .zip(reached)
        .filter_map(|(rule, reached)| reached.then_some(rule))
        .collect()
}

struct Shaper<'p, 't> {
    plain: &'p Plain<'t>,
    /// The rules whose filled twins are in use, in the order of their first use.
    twins: Vec<String>,
    known: HashSet<String>,
    /// Parts made so far.
    parts: usize,
    /// Whether the rule at hand repeated what may be empty.
    emptied: bool,
}

impl<'t> Shaper<'_, 't> {
    /// The body of a rule, with repetition in the place of direct left recursion; whether there was
    /// any.
    fn without_left_recursion(
        &mut self,
        rule: &PlainRule<'t>,
    ) -> Result<(Expression, bool), GrammarError> {
        let Split { tail, rest } = split(&rule.body, &rule.name);
        let Some(tail) = tail else {
            return Ok((self.filled(&rule.body)?, false));
        };
        let Some(rest) = rest else {
            return Err(rule
                .place
                .unsupported(format!("rule that no text satisfies: {}", rule.name)));
        };
        let rest = self.filled(&rest)?;
        // A tail of nothing says that the rule is itself.
        Ok(match self.not_empty(&tail)? {
            None => (rest, true),
            Some(step) => (
                Expression::Sequence(vec![rest, repeated(self.filled(&step)?, 0, None)]),
                true,
            ),
        })
    }

    /// The rule that derives what the rule of this name does, but for the empty text.
    fn twin(&mut self, name: &str) -> Result<PlainRule<'t>, GrammarError> {
        let plain = self.plain;
        let rule = &plain.rules[plain.index[name]];
        let body = self.not_empty(&beginning_with_twin(&rule.body, name))?;
        let body = body.ok_or_else(|| {
            rule.place
                .unsupported(format!("repetition of nothing but the empty text: {name}"))
        })?;
        Ok(PlainRule {
            name: name.to_owned() + FILLED,
            place: rule.place,
            body,
            nullable: false,
        })
    }

    /// The same texts, without repetition of what may be empty.
    fn filled(&mut self, expression: &Expression) -> Result<Expression, GrammarError> {
        self.spend(1)?;
        Ok(match expression {
            Expression::Sequence(parts) => Expression::Sequence(self.all_filled(parts)?),
            Expression::Choice(parts) => Expression::Choice(self.all_filled(parts)?),
            Expression::Repeat { most: Some(0), .. } => Expression::empty(),
            Expression::Repeat {
                body,
                most: Some(1),
                ..
            } if self.plain.nullable(body) => self.filled(body)?,
            Expression::Repeat { body, most, .. } if self.plain.nullable(body) => {
                self.emptied = true;
                match self.not_empty(body)? {
                    Some(body) => repeated(self.filled(&body)?, 0, *most),
                    None => Expression::empty(),
                }
            }
            Expression::Repeat { body, least, most } => repeated(self.filled(body)?, *least, *most),
            Expression::Terminal(body) => self.filled(body)?,
            Expression::Text(_) | Expression::Class(_) | Expression::Reference(_) => {
                expression.clone()
            }
        })
    }

    fn all_filled(&mut self, parts: &[Expression]) -> Result<Vec<Expression>, GrammarError> {
        parts.iter().map(|part| self.filled(part)).collect()
    }

    /// What an expression derives but for the empty text; `None` where that is nothing.
    fn not_empty(&mut self, expression: &Expression) -> Result<Option<Expression>, GrammarError> {
        self.spend(1)?;
        if !self.plain.nullable(expression) {
            return self.copy(expression).map(Some);
        }
        Ok(match expression {
            // The first part that is not empty, and all behind it.
            Expression::Sequence(parts) => {
                let mut alternatives = Vec::new();
                for (index, part) in parts.iter().enumerate() {
                    if let Some(first) = self.not_empty(part)? {
                        let mut sequence = vec![first];
                        for behind in &parts[index + 1..] {
                            sequence.push(self.copy(behind)?);
                        }
                        alternatives.push(Expression::sequence(sequence));
                    }
                }
                some_choice(alternatives)
            }
            Expression::Choice(parts) => {
                let mut alternatives = Vec::new();
                for part in parts {
                    alternatives.extend(self.not_empty(part)?);
                }
                some_choice(alternatives)
            }
            Expression::Repeat { most: Some(0), .. } => None,
            Expression::Repeat { body, most, .. } => {
                self.not_empty(body)?.map(|body| body.repeat(1, *most))
            }
            Expression::Terminal(body) => self.not_empty(body)?,
            Expression::Reference(name) => {
                if self.known.insert(name.clone()) {
                    self.twins.push(name.clone());
                }
                Some(Expression::Reference(name.clone() + FILLED))
            }
            Expression::Text(_) | Expression::Class(_) => None,
        })
    }

    /// A copy, paid for.
    fn copy(&mut self, expression: &Expression) -> Result<Expression, GrammarError> {
        self.spend(size(expression))?;
        Ok(expression.clone())
    }

    fn spend(&mut self, parts: usize) -> Result<(), GrammarError> {
        self.parts += parts;
        // What the source has is paid for by its own limit.
        if self.parts > limits::MAX_CONVERTED_PARTS + limits::MAX_GRAMMAR_BYTES {
            return Err(GrammarError::Limit {
                what: format!(
                    "parts of the converted grammar: {}",
                    limits::MAX_CONVERTED_PARTS
                ),
            });
        }
        Ok(())
    }
}

/// A body in which the rule, where it comes first, is its twin or nothing: so that the twin's left
/// recursion is direct.
fn beginning_with_twin(body: &Expression, name: &str) -> Expression {
    match body {
        Expression::Reference(referred) if referred == name => Expression::Choice(vec![
            Expression::Reference(name.to_owned() + FILLED),
            Expression::empty(),
        ]),
        Expression::Choice(parts) => Expression::Choice(
            parts
                .iter()
                .map(|part| beginning_with_twin(part, name))
                .collect(),
        ),
        Expression::Sequence(parts) => {
            let mut parts = parts.clone();
            if let Some(first) = parts.first_mut() {
                *first = beginning_with_twin(first, name);
            }
            Expression::Sequence(parts)
        }
        Expression::Repeat {
            body,
            least: 0,
            most: Some(1),
        } => beginning_with_twin(body, name).repeat(0, Some(1)),
        _ => body.clone(),
    }
}

/// Repetition, where `(x+)*` is `x*`: it has one reading for each text and not many.
fn repeated(body: Expression, least: u32, most: Option<u32>) -> Expression {
    match (body, most) {
        (
            Expression::Repeat {
                body: inner,
                least: 0 | 1,
                most: None,
            },
            None,
        ) if least < 2 => inner.repeat(least, None),
        (body, most) => body.repeat(least, most),
    }
}

fn some_choice(alternatives: Vec<Expression>) -> Option<Expression> {
    (!alternatives.is_empty()).then(|| Expression::choice(alternatives))
}

fn size(expression: &Expression) -> usize {
    let (mut parts, mut count) = (vec![expression], 0);
    while let Some(part) = parts.pop() {
        count += 1;
        match part {
            Expression::Sequence(inner) | Expression::Choice(inner) => parts.extend(inner),
            Expression::Repeat { body, .. } | Expression::Terminal(body) => parts.push(body),
            Expression::Text(_) | Expression::Class(_) | Expression::Reference(_) => {}
        }
    }
    count
}

/// An expression as what begins with a rule and what does not.
struct Split {
    /// What follows the rule where it comes first; `None` where it never does.
    tail: Option<Expression>,
    /// What does not begin with it, if there is anything.
    rest: Option<Expression>,
}

impl Split {
    /// An expression that does not begin with the rule.
    fn untouched(expression: &Expression) -> Self {
        Self {
            tail: None,
            rest: Some(expression.clone()),
        }
    }
}

/// Sorts the alternatives of a body by whether they begin with the rule of this name.
fn split(body: &Expression, name: &str) -> Split {
    match body {
        Expression::Reference(referred) if referred == name => Split {
            tail: Some(Expression::empty()),
            rest: None,
        },
        Expression::Choice(parts) => {
            let (mut tails, mut rest) = (Vec::new(), Vec::new());
            for part in parts {
                let found = split(part, name);
                tails.extend(found.tail);
                rest.extend(found.rest);
            }
            Split {
                tail: some_choice(tails),
                rest: some_choice(rest),
            }
        }
        Expression::Sequence(parts) => {
            let Some((first, behind)) = parts.split_first() else {
                return Split::untouched(body);
            };
            let found = split(first, name);
            if found.tail.is_none() {
                return Split::untouched(body);
            }
            let with = |head: Expression| {
                Expression::Sequence(
                    std::iter::once(head)
                        .chain(behind.iter().cloned())
                        .collect(),
                )
            };
            Split {
                tail: found.tail.map(with),
                rest: found.rest.map(with),
            }
        }
        Expression::Repeat {
            body: inner,
            least: 0,
            most: Some(1),
        } => {
            let found = split(inner, name);
            if found.tail.is_none() {
                return Split::untouched(body);
            }
            Split {
                tail: found.tail,
                rest: some_choice(
                    found
                        .rest
                        .into_iter()
                        .chain([Expression::empty()])
                        .collect(),
                ),
            }
        }
        _ => Split::untouched(body),
    }
}

/// Left recursion that is left is named, with the way that it takes.
fn refuse_left_recursion(plain: &Plain<'_>, rules: &[PlainRule<'_>]) -> Result<(), GrammarError> {
    let numbers: HashMap<&str, usize> = rules
        .iter()
        .zip(0..)
        .map(|(rule, number)| (rule.name.as_str(), number))
        .collect();
    let mut heads: Vec<Vec<usize>> = vec![Vec::new(); rules.len()];
    let mut heads_of: Vec<Vec<usize>> = heads.clone();
    for (number, rule) in rules.iter().enumerate() {
        let mut names = Vec::new();
        collect_heads(plain, &rule.body, &mut names);
        let mut begun: Vec<usize> = names
            .into_iter()
            .filter_map(|name| numbers.get(name).copied())
            .collect();
        begun.sort_unstable();
        begun.dedup();
        for &head in &begun {
            heads_of[head].push(number);
        }
        heads[number] = begun;
    }
    let mut suspects = vec![true; rules.len()];
    take_away_leaves(&heads, &heads_of, &mut suspects);
    let Some(first) = suspects.iter().position(|&suspect| suspect) else {
        return Ok(());
    };
    // Every suspect begins with another one, so that following them comes back to one that was
    // passed.
    let mut way = vec![first];
    let mut passed = HashMap::from([(first, 0)]);
    let cycle = loop {
        let last = way[way.len() - 1];
        let Some(&next) = heads[last].iter().find(|&&head| suspects[head]) else {
            break &way[..];
        };
        if let Some(&begin) = passed.get(&next) {
            way.push(next);
            break &way[begin..];
        }
        passed.insert(next, way.len());
        way.push(next);
    };
    let names: Vec<&str> = cycle
        .iter()
        .map(|&number| rules[number].name.trim_end_matches(FILLED))
        .take(MAX_WAY)
        .collect();
    let alone = cycle.iter().all(|&number| number == cycle[0]);
    let what = if alone {
        "left recursion that is not at the head of an alternative"
    } else {
        "left recursion through other rules"
    };
    Err(rules[cycle[0]]
        .place
        .unsupported(format!("{what}: {}", names.join(" -> "))))
}

/// How many rules of a way an error names.
const MAX_WAY: usize = 8;

/// The rules that a sentence of this expression can begin with. Only what is shaped can be asked:
/// bodies of repetitions are not empty.
fn collect_heads<'e>(plain: &Plain<'_>, expression: &'e Expression, names: &mut Vec<&'e str>) {
    match expression {
        Expression::Reference(name) => names.push(name),
        Expression::Sequence(parts) => {
            for part in parts {
                collect_heads(plain, part, names);
                if !plain.nullable(part) {
                    break;
                }
            }
        }
        Expression::Choice(parts) => parts
            .iter()
            .for_each(|part| collect_heads(plain, part, names)),
        Expression::Repeat { body, .. } | Expression::Terminal(body) => {
            collect_heads(plain, body, names)
        }
        Expression::Text(_) | Expression::Class(_) => {}
    }
}
