//! Converts a parsed grammar to a context-free grammar over Unicode scalars.
//!
//! Groups, options and repetitions become rules. `e*` becomes a left-recursive list, which an
//! Earley chart stores in constant space per character. Counted repetition uses doubling: `e{8}` is
//! `f f` where `f` is `e{4}`, and "up to 11" is "up to 7, or 8 and up to 3 more". So `{m,n}` costs
//! the logarithm of `n`, and each count has one derivation.

use std::collections::HashMap;

use super::charset::CharSet;
use super::error::GrammarError;
use super::limits;
use super::syntax::{Expression, Grammar, RuleKind};

/// A context-free grammar. Rules and sets are numbered from 0.
#[derive(Debug, Default)]
pub(super) struct Cfg {
    /// The alternatives of each rule.
    pub(super) rules: Vec<Vec<Vec<Symbol>>>,
    /// The sets of scalars that symbols refer to, without duplicates.
    pub(super) sets: Vec<CharSet>,
    /// The start rule; no rule refers to it.
    pub(super) start: u32,
}

/// A symbol of a production.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Symbol {
    /// A reference to a rule.
    Rule(u32),
    /// One scalar of a set.
    Set(u32),
}

/// Converts a grammar.
///
/// # Errors
/// An undefined name, no start rule, a recursive terminal, too many symbols.
pub(super) fn build(grammar: &Grammar<'_>) -> Result<Cfg, GrammarError> {
    let mut builder = Builder::default();
    refuse_recursive_terminals(grammar)?;
    for rule in &grammar.rules {
        let number = builder.rule();
        builder.named.insert(&rule.name, (number, rule.kind));
    }
    let Some(&(root, _)) = builder.named.get(grammar.start) else {
        return Err(GrammarError::NoStartRule);
    };
    if !grammar.ignored.is_empty() {
        let choice = Expression::choice(grammar.ignored.clone()).repeat(0, None);
        let mut symbols = Vec::new();
        builder.lower(&choice, RuleKind::Terminal, &mut symbols)?;
        builder.ignored = symbols.first().copied();
    }
    for rule in &grammar.rules {
        let number = builder.named[rule.name.as_str()].0;
        builder.define(number, &rule.body, rule.kind)?;
    }
    let start = builder.rule();
    let sentence = builder
        .ignored
        .into_iter()
        .chain([Symbol::Rule(root)])
        .collect();
    builder.produce(start, sentence)?;
    builder.cfg.start = start;
    Ok(builder.cfg)
}

#[derive(Default)]
struct Builder<'g> {
    cfg: Cfg,
    named: HashMap<&'g str, (u32, RuleKind)>,
    set_numbers: HashMap<CharSet, u32>,
    /// Rules for `body` repeated a power of two times, by `(body, exponent)`.
    powers: HashMap<(Symbol, u32), Symbol>,
    /// Rules for `body` at most this many times.
    at_most: HashMap<(Symbol, u32), Symbol>,
    /// Ignored text, any number of times.
    ignored: Option<Symbol>,
    symbols: usize,
}

impl Builder<'_> {
    fn rule(&mut self) -> u32 {
        self.cfg.rules.push(Vec::new());
        number(self.cfg.rules.len() - 1)
    }

    fn produce(&mut self, rule: u32, symbols: Vec<Symbol>) -> Result<(), GrammarError> {
        self.symbols += symbols.len() + 1;
        if self.symbols > limits::MAX_SYMBOLS {
            return Err(GrammarError::Limit {
                what: format!("symbols of the grammar: {}", limits::MAX_SYMBOLS),
            });
        }
        self.cfg.rules[rule as usize].push(symbols);
        Ok(())
    }

    fn set(&mut self, set: &CharSet) -> Symbol {
        if let Some(&known) = self.set_numbers.get(set) {
            return Symbol::Set(known);
        }
        self.cfg.sets.push(set.clone());
        let new = number(self.cfg.sets.len() - 1);
        self.set_numbers.insert(set.clone(), new);
        Symbol::Set(new)
    }

    /// Defines a rule; alternatives of a single scalar are merged into one set.
    fn define(&mut self, rule: u32, body: &Expression, kind: RuleKind) -> Result<(), GrammarError> {
        let alternatives = match body {
            Expression::Choice(alternatives) => alternatives.as_slice(),
            single => std::slice::from_ref(single),
        };
        let mut scalars = CharSet::default();
        for alternative in alternatives {
            if let Some(set) = single_scalar(
                alternative,
                kind == RuleKind::Terminal || self.ignored.is_none(),
            ) {
                scalars = scalars.union(&set);
                continue;
            }
            let mut symbols = Vec::new();
            self.lower(alternative, kind, &mut symbols)?;
            self.produce(rule, symbols)?;
        }
        if !scalars.is_empty() {
            let set = self.set(&scalars);
            self.produce(rule, vec![set])?;
        }
        Ok(())
    }

    /// Appends symbols that derive `expression` to `symbols`. The recursion is bounded by the
    /// parsers' nesting limit.
    fn lower(
        &mut self,
        expression: &Expression,
        kind: RuleKind,
        symbols: &mut Vec<Symbol>,
    ) -> Result<(), GrammarError> {
        match expression {
            Expression::Text(text) => {
                for scalar in text.chars() {
                    symbols.push(self.set(&CharSet::one(scalar)));
                }
            }
            Expression::Class(set) => symbols.push(self.set(set)),
            Expression::Sequence(parts) => {
                for part in parts {
                    self.lower(part, kind, symbols)?;
                }
            }
            Expression::Choice(_) => {
                let rule = self.rule();
                self.define(rule, expression, kind)?;
                symbols.push(Symbol::Rule(rule));
            }
            Expression::Repeat { body, least, most } => {
                let body = self.single(body, kind)?;
                self.repeat(body, *least, *most, symbols)?;
            }
            Expression::Terminal(body) => {
                self.lower(body, RuleKind::Terminal, symbols)?;
                if kind == RuleKind::Rule {
                    symbols.extend(self.ignored);
                }
            }
            Expression::Reference(name) => {
                let Some(&(rule, referred)) = self.named.get(name.as_str()) else {
                    return Err(GrammarError::UndefinedRule { name: name.clone() });
                };
                symbols.push(Symbol::Rule(rule));
                if kind == RuleKind::Rule && referred == RuleKind::Terminal {
                    symbols.extend(self.ignored);
                }
            }
        }
        Ok(())
    }

    /// One symbol that derives what `expression` does.
    fn single(&mut self, expression: &Expression, kind: RuleKind) -> Result<Symbol, GrammarError> {
        let mut symbols = Vec::new();
        self.lower(expression, kind, &mut symbols)?;
        if let [symbol] = symbols[..] {
            return Ok(symbol);
        }
        let rule = self.rule();
        self.produce(rule, symbols)?;
        Ok(Symbol::Rule(rule))
    }

    fn repeat(
        &mut self,
        body: Symbol,
        least: u32,
        most: Option<u32>,
        symbols: &mut Vec<Symbol>,
    ) -> Result<(), GrammarError> {
        match most {
            None => {
                let list = self.rule();
                let first = if least == 1 { vec![body] } else { Vec::new() };
                self.produce(list, first)?;
                self.produce(list, vec![Symbol::Rule(list), body])?;
                if least > 1 {
                    self.exactly(body, least, symbols)?;
                }
                symbols.push(Symbol::Rule(list));
            }
            Some(most) => {
                self.exactly(body, least, symbols)?;
                if most > least {
                    symbols.push(self.up_to(body, most - least)?);
                }
            }
        }
        Ok(())
    }

    /// `body` exactly `times` times, as a sum of powers of two.
    fn exactly(
        &mut self,
        body: Symbol,
        times: u32,
        symbols: &mut Vec<Symbol>,
    ) -> Result<(), GrammarError> {
        for bit in (0..u32::BITS).rev().filter(|bit| times >> bit & 1 == 1) {
            symbols.push(self.power(body, bit)?);
        }
        Ok(())
    }

    /// `body` 2^`exponent` times.
    fn power(&mut self, body: Symbol, exponent: u32) -> Result<Symbol, GrammarError> {
        let mut power = body;
        for step in 1..=exponent {
            power = match self.powers.get(&(body, step)) {
                Some(&known) => known,
                None => {
                    let rule = self.rule();
                    self.produce(rule, vec![power, power])?;
                    self.powers.insert((body, step), Symbol::Rule(rule));
                    Symbol::Rule(rule)
                }
            };
        }
        Ok(power)
    }

    /// `body` at most `times` times; `times` is not 0. With `half` the largest power of two in it:
    /// fewer than `half` times, or `half` times and up to the rest. The recursion halves `times`,
    /// so it is at most 32 deep.
    fn up_to(&mut self, body: Symbol, times: u32) -> Result<Symbol, GrammarError> {
        if let Some(&known) = self.at_most.get(&(body, times)) {
            return Ok(known);
        }
        let exponent = times.ilog2();
        let half = 1 << exponent;
        let fewer = if half > 1 {
            vec![self.up_to(body, half - 1)?]
        } else {
            Vec::new()
        };
        let mut more = vec![self.power(body, exponent)?];
        if times > half {
            more.push(self.up_to(body, times - half)?);
        }
        let rule = self.rule();
        self.produce(rule, fewer)?;
        self.produce(rule, more)?;
        self.at_most.insert((body, times), Symbol::Rule(rule));
        Ok(Symbol::Rule(rule))
    }
}

/// The set of an alternative that matches exactly one scalar, if no text is ignored after it.
fn single_scalar(expression: &Expression, bare: bool) -> Option<CharSet> {
    match expression {
        Expression::Class(set) => Some(set.clone()),
        Expression::Text(text) => {
            let mut scalars = text.chars();
            match (scalars.next(), scalars.next()) {
                (Some(scalar), None) => Some(CharSet::one(scalar)),
                _ => None,
            }
        }
        Expression::Terminal(body) if bare => single_scalar(body, bare),
        _ => None,
    }
}

/// Refuses recursive terminals: in Lark, terminals are regular.
fn refuse_recursive_terminals(grammar: &Grammar<'_>) -> Result<(), GrammarError> {
    let terminals: HashMap<&str, usize> = (grammar.rules.iter().enumerate())
        .filter(|(_, rule)| rule.kind == RuleKind::Terminal)
        .map(|(index, rule)| (rule.name.as_str(), index))
        .collect();
    let mut uses: Vec<Vec<usize>> = vec![Vec::new(); grammar.rules.len()];
    let mut used_by = uses.clone();
    for &index in terminals.values() {
        let mut parts = vec![&grammar.rules[index].body];
        while let Some(part) = parts.pop() {
            match part {
                Expression::Sequence(inner) | Expression::Choice(inner) => parts.extend(inner),
                Expression::Repeat { body, .. } | Expression::Terminal(body) => parts.push(body),
                Expression::Reference(name) => {
                    if let Some(&referred) = terminals.get(name.as_str()) {
                        uses[index].push(referred);
                        used_by[referred].push(index);
                    }
                }
                Expression::Text(_) | Expression::Class(_) => {}
            }
        }
    }
    let mut suspects = vec![true; grammar.rules.len()];
    remove_leaves(&uses, &used_by, &mut suspects);
    remove_leaves(&used_by, &uses, &mut suspects);
    match suspects.iter().position(|&suspect| suspect) {
        Some(index) => {
            let rule = &grammar.rules[index];
            Err(rule
                .position
                .unsupported(format!("recursive terminal: {}", rule.name)))
        }
        None => Ok(()),
    }
}

/// Repeatedly removes nodes without an edge to a remaining node. Nodes on cycles remain.
pub(super) fn remove_leaves(edges: &[Vec<usize>], reversed: &[Vec<usize>], remaining: &mut [bool]) {
    let mut left: Vec<usize> = edges
        .iter()
        .map(|to| to.iter().filter(|&&to| remaining[to]).count())
        .collect();
    let mut leaves: Vec<usize> = (0..edges.len())
        .filter(|&index| remaining[index] && left[index] == 0)
        .collect();
    while let Some(leaf) = leaves.pop() {
        remaining[leaf] = false;
        for &from in &reversed[leaf] {
            left[from] -= 1;
            if left[from] == 0 && remaining[from] {
                leaves.push(from);
            }
        }
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("limits keep grammars far below 2^32 parts")
}
