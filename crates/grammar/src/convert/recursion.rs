//! Removes direct left recursion and repetition of nullable expressions, keeping the language.
//!
//! llama.cpp refuses left recursion ("unsupported grammar, left recursion detected"), and converts
//! `(x?)*` to a rule that is left recursive after an empty part. Here `a ::= a x | y` becomes `a
//! ::= y x*`, and in `e*` the repeated expression derives the texts of `e` except the empty one.
//! Indirect left recursion is refused by name.

use std::collections::{HashMap, HashSet, VecDeque};

use super::super::cfg::remove_leaves;
use super::super::error::GrammarError;
use super::super::limits;
use super::super::syntax::Expression;
use super::note::Note;
use super::plain::{Plain, PlainRule, references};

/// Suffix of rules that derive the texts of another rule except the empty one. Names in a source
/// have no blanks.
const NON_EMPTY_SUFFIX: &str = " filled";

/// Rewrites every rule.
///
/// # Errors
/// Indirect left recursion; too many added parts.
pub(super) fn rewrite<'t>(
    plain: &Plain<'t>,
    notes: &mut Vec<Note>,
) -> Result<Vec<PlainRule<'t>>, GrammarError> {
    let mut rewriter = Rewriter {
        plain,
        non_empty_rules: Vec::new(),
        requested: HashSet::new(),
        parts: 0,
        had_empty_repetition: false,
    };
    let (mut recursive, mut had_empty_repetition) = (Vec::new(), Vec::new());
    let mut rewritten = Vec::with_capacity(plain.rules.len());
    let mut next_non_empty = 0;
    for rule in &plain.rules {
        let mut variants = VecDeque::from([rule.clone()]);
        while let Some(member) = variants.pop_front() {
            rewriter.had_empty_repetition = false;
            let (body, was_recursive) = rewriter.without_left_recursion(&member)?;
            if was_recursive && recursive.last() != Some(&rule.name) {
                recursive.push(rule.name.clone());
            }
            if rewriter.had_empty_repetition && had_empty_repetition.last() != Some(&rule.name) {
                had_empty_repetition.push(rule.name.clone());
            }
            rewritten.push(PlainRule { body, ..member });
            while let Some(name) = rewriter.non_empty_rules.get(next_non_empty).cloned() {
                next_non_empty += 1;
                variants.push_back(rewriter.non_empty_rule(&name)?);
            }
        }
    }
    refuse_left_recursion(plain, &rewritten)?;
    if !recursive.is_empty() {
        notes.push(Note::LeftRecursion(recursive));
    }
    if !had_empty_repetition.is_empty() {
        notes.push(Note::EmptyRepetition(had_empty_repetition));
    }
    Ok(reachable_rules(rewritten))
}

/// Drops rules of which only the non-empty variants are used.
fn reachable_rules(rules: Vec<PlainRule<'_>>) -> Vec<PlainRule<'_>> {
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

struct Rewriter<'p, 't> {
    plain: &'p Plain<'t>,
    /// Rules whose non-empty variants are in use, in order of first use.
    non_empty_rules: Vec<String>,
    requested: HashSet<String>,
    /// Number of parts made so far.
    parts: usize,
    /// Whether the current rule repeated a nullable expression.
    had_empty_repetition: bool,
}

impl<'t> Rewriter<'_, 't> {
    /// The body of a rule with direct left recursion replaced by repetition, and whether there was
    /// any.
    fn without_left_recursion(
        &mut self,
        rule: &PlainRule<'t>,
    ) -> Result<(Expression, bool), GrammarError> {
        let Split { tail, rest } = split(&rule.body, &rule.name);
        let Some(tail) = tail else {
            return Ok((self.without_empty_repetition(&rule.body)?, false));
        };
        let Some(rest) = rest else {
            return Err(rule
                .position
                .unsupported(format!("rule that derives no text: {}", rule.name)));
        };
        let rest = self.without_empty_repetition(&rest)?;
        // An empty tail is a rule that refers to itself.
        Ok(match self.non_empty(&tail)? {
            None => (rest, true),
            Some(step) => (
                Expression::Sequence(vec![
                    rest,
                    repeated(self.without_empty_repetition(&step)?, 0, None),
                ]),
                true,
            ),
        })
    }

    /// The rule that derives the texts of this rule except the empty one.
    fn non_empty_rule(&mut self, name: &str) -> Result<PlainRule<'t>, GrammarError> {
        let plain = self.plain;
        let rule = &plain.rules[plain.index[name]];
        let body = self.non_empty(&with_non_empty_head(&rule.body, name))?;
        let body = body.ok_or_else(|| {
            rule.position
                .unsupported(format!("repetition of the empty text: {name}"))
        })?;
        Ok(PlainRule {
            name: name.to_owned() + NON_EMPTY_SUFFIX,
            position: rule.position,
            body,
            nullable: false,
        })
    }

    /// The same language without repetition of nullable expressions.
    fn without_empty_repetition(
        &mut self,
        expression: &Expression,
    ) -> Result<Expression, GrammarError> {
        self.count_parts(1)?;
        Ok(match expression {
            Expression::Sequence(parts) => {
                Expression::Sequence(self.all_without_empty_repetition(parts)?)
            }
            Expression::Choice(parts) => {
                Expression::Choice(self.all_without_empty_repetition(parts)?)
            }
            Expression::Repeat { most: Some(0), .. } => Expression::empty(),
            Expression::Repeat {
                body,
                most: Some(1),
                ..
            } if self.plain.nullable(body) => self.without_empty_repetition(body)?,
            Expression::Repeat { body, most, .. } if self.plain.nullable(body) => {
                self.had_empty_repetition = true;
                match self.non_empty(body)? {
                    Some(body) => repeated(self.without_empty_repetition(&body)?, 0, *most),
                    None => Expression::empty(),
                }
            }
            Expression::Repeat { body, least, most } => {
                repeated(self.without_empty_repetition(body)?, *least, *most)
            }
            Expression::Terminal(body) => self.without_empty_repetition(body)?,
            Expression::Text(_) | Expression::Class(_) | Expression::Reference(_) => {
                expression.clone()
            }
        })
    }

    fn all_without_empty_repetition(
        &mut self,
        parts: &[Expression],
    ) -> Result<Vec<Expression>, GrammarError> {
        parts
            .iter()
            .map(|part| self.without_empty_repetition(part))
            .collect()
    }

    /// An expression for all texts except the empty one; `None` if there are none.
    fn non_empty(&mut self, expression: &Expression) -> Result<Option<Expression>, GrammarError> {
        self.count_parts(1)?;
        if !self.plain.nullable(expression) {
            return self.copy(expression).map(Some);
        }
        Ok(match expression {
            // The first non-empty part and all later parts.
            Expression::Sequence(parts) => {
                let mut alternatives = Vec::new();
                for (index, part) in parts.iter().enumerate() {
                    if let Some(first) = self.non_empty(part)? {
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
                    alternatives.extend(self.non_empty(part)?);
                }
                some_choice(alternatives)
            }
            Expression::Repeat { most: Some(0), .. } => None,
            Expression::Repeat { body, most, .. } => {
                self.non_empty(body)?.map(|body| body.repeat(1, *most))
            }
            Expression::Terminal(body) => self.non_empty(body)?,
            Expression::Reference(name) => {
                if self.requested.insert(name.clone()) {
                    self.non_empty_rules.push(name.clone());
                }
                Some(Expression::Reference(name.clone() + NON_EMPTY_SUFFIX))
            }
            Expression::Text(_) | Expression::Class(_) => None,
        })
    }

    /// A copy that counts against the limit.
    fn copy(&mut self, expression: &Expression) -> Result<Expression, GrammarError> {
        self.count_parts(size(expression))?;
        Ok(expression.clone())
    }

    fn count_parts(&mut self, parts: usize) -> Result<(), GrammarError> {
        self.parts += parts;
        // The size of the source has its own limit.
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

/// The body with a leading reference to the rule replaced by its non-empty variant or nothing, so
/// that the left recursion of the variant is direct.
fn with_non_empty_head(body: &Expression, name: &str) -> Expression {
    match body {
        Expression::Reference(referred) if referred == name => Expression::Choice(vec![
            Expression::Reference(name.to_owned() + NON_EMPTY_SUFFIX),
            Expression::empty(),
        ]),
        Expression::Choice(parts) => Expression::Choice(
            parts
                .iter()
                .map(|part| with_non_empty_head(part, name))
                .collect(),
        ),
        Expression::Sequence(parts) => {
            let mut parts = parts.clone();
            if let Some(first) = parts.first_mut() {
                *first = with_non_empty_head(first, name);
            }
            Expression::Sequence(parts)
        }
        Expression::Repeat {
            body,
            least: 0,
            most: Some(1),
        } => with_non_empty_head(body, name).repeat(0, Some(1)),
        _ => body.clone(),
    }
}

/// A repetition, with `(x+)*` simplified to `x*`, which has only one derivation for each text.
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

/// An expression split by whether alternatives start with a rule.
struct Split {
    /// What follows a leading reference to the rule; `None` if there is none.
    tail: Option<Expression>,
    /// The alternatives that do not start with the rule.
    rest: Option<Expression>,
}

impl Split {
    /// An expression that does not start with the rule.
    fn without_tail(expression: &Expression) -> Self {
        Self {
            tail: None,
            rest: Some(expression.clone()),
        }
    }
}

/// Splits the alternatives of a body by whether they start with this rule.
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
                return Split::without_tail(body);
            };
            let found = split(first, name);
            if found.tail.is_none() {
                return Split::without_tail(body);
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
                return Split::without_tail(body);
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
        _ => Split::without_tail(body),
    }
}

/// Refuses remaining left recursion, and names its cycle.
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
        let mut started: Vec<usize> = names
            .into_iter()
            .filter_map(|name| numbers.get(name).copied())
            .collect();
        started.sort_unstable();
        started.dedup();
        for &head in &started {
            heads_of[head].push(number);
        }
        heads[number] = started;
    }
    let mut suspects = vec![true; rules.len()];
    remove_leaves(&heads, &heads_of, &mut suspects);
    let Some(first) = suspects.iter().position(|&suspect| suspect) else {
        return Ok(());
    };
    // Each suspect starts with another one, so following them leads to a cycle.
    let mut path = vec![first];
    let mut visited = HashMap::from([(first, 0)]);
    let cycle = loop {
        let last = path[path.len() - 1];
        let Some(&next) = heads[last].iter().find(|&&head| suspects[head]) else {
            break &path[..];
        };
        if let Some(&start) = visited.get(&next) {
            path.push(next);
            break &path[start..];
        }
        visited.insert(next, path.len());
        path.push(next);
    };
    let names: Vec<&str> = cycle
        .iter()
        .map(|&number| rules[number].name.trim_end_matches(NON_EMPTY_SUFFIX))
        .take(MAX_CYCLE_NAMES)
        .collect();
    let is_self_loop = cycle.iter().all(|&number| number == cycle[0]);
    let what = if is_self_loop {
        "left recursion that is not at the start of an alternative"
    } else {
        "indirect left recursion"
    };
    Err(rules[cycle[0]]
        .position
        .unsupported(format!("{what}: {}", names.join(" -> "))))
}

/// Maximum number of rules of a cycle in an error.
const MAX_CYCLE_NAMES: usize = 8;

/// The rules that this rewritten expression can start with. Bodies of repetitions are not nullable
/// after the rewrite.
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
            collect_heads(plain, body, names);
        }
        Expression::Text(_) | Expression::Class(_) => {}
    }
}
