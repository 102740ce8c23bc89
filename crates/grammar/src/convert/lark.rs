//! Writes Lark that llguidance interprets as a context-free grammar.
//!
//! llguidance (1.9, `docs/syntax.md`, `src/lark/`) has a longest-match lexer without backtracking.
//! If no terminal matches a prefix of another terminal's match, the lexer is never ambiguous, and
//! the grammar keeps its language. So each terminal is written as a string or a single character,
//! and a string that starts with another terminal is split into characters. All rule names are in
//! lower case: `*`, `{m,n}` and groups then belong to the parser, not to the lexer.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use super::super::charset::CharSet;
use super::super::error::GrammarError;
use super::super::syntax::Expression;
use super::note::Note;
use super::plain::PlainRule;
use super::scalars::{class_ranges, is_visible, only};
use super::write::{Level, Output, RuleNames};

/// Writes the rules in order.
///
/// # Errors
/// A construct that the notation lacks, by name and line; output beyond the size limit.
pub(super) fn write(
    rules: &[PlainRule<'_>],
    name_of: &RuleNames,
    notes: &mut Vec<Note>,
) -> Result<String, GrammarError> {
    let split = overlapping(rules.iter().map(|rule| &rule.body));
    let mut writer = Writer {
        output: Output::default(),
        name_of,
        split: &split,
    };
    for rule in rules {
        writer.output.push(name_of.get(&rule.name)?)?;
        writer.output.push(": ")?;
        writer.expression(&rule.body, Level::Choice, rule)?;
        writer.output.push("\n")?;
    }
    let text = writer.output.text;
    if !split.is_empty() {
        notes.push(Note::Split(split.into_iter().collect()));
    }
    Ok(text)
}

/// The strings that start with another terminal, including characters of other split strings.
pub(super) fn overlapping<'e>(bodies: impl Iterator<Item = &'e Expression>) -> BTreeSet<String> {
    let (mut whole, mut singles) = (BTreeSet::new(), CharSet::default());
    let mut parts: Vec<&Expression> = bodies.collect();
    while let Some(part) = parts.pop() {
        match part {
            Expression::Sequence(inner) | Expression::Choice(inner) => parts.extend(inner),
            Expression::Repeat { body, .. } | Expression::Terminal(body) => parts.push(body),
            Expression::Class(set) => singles = singles.union(set),
            Expression::Text(text) => match single(text) {
                Some(scalar) => singles = singles.union(&CharSet::one(scalar)),
                None => drop(whole.insert(text.as_str())),
            },
            Expression::Reference(_) => {}
        }
    }
    let mut split = BTreeSet::new();
    let mut by_first: HashMap<char, Vec<&str>> = HashMap::new();
    let mut agenda = Vec::new();
    // In sorted order, all texts between a prefix and a text also start with the prefix.
    let mut prefixes: Vec<&str> = Vec::new();
    for &text in &whole {
        let Some(first) = text.chars().next() else {
            continue;
        };
        while prefixes
            .last()
            .is_some_and(|prefix| !text.starts_with(prefix))
        {
            prefixes.pop();
        }
        if !prefixes.is_empty() || singles.contains(first) {
            agenda.push(text);
        }
        prefixes.push(text);
        by_first.entry(first).or_default().push(text);
    }
    // The characters of a split string are terminals too.
    while let Some(text) = agenda.pop() {
        if split.insert(text.to_owned()) {
            for scalar in text.chars() {
                agenda.extend(by_first.remove(&scalar).unwrap_or_default());
            }
        }
    }
    split
}

/// The single character of a text; `None` if it has more.
fn single(text: &str) -> Option<char> {
    let mut scalars = text.chars();
    scalars.next().filter(|_| scalars.next().is_none())
}

struct Writer<'n> {
    output: Output,
    name_of: &'n RuleNames,
    split: &'n BTreeSet<String>,
}

impl Writer<'_> {
    fn expression(
        &mut self,
        expression: &Expression,
        level: Level,
        rule: &PlainRule<'_>,
    ) -> Result<(), GrammarError> {
        match expression {
            Expression::Text(text) if self.split.contains(text) => {
                let scalars: Vec<Expression> = text
                    .chars()
                    .map(|scalar| Expression::Text(scalar.to_string()))
                    .collect();
                self.list(&scalars, " ", Level::Element, level, rule)
            }
            Expression::Text(text) => self.output.push(&quoted(text)),
            Expression::Class(set) => match (only(set), class(set)) {
                (Some(scalar), _) => self.output.push(&quoted(scalar.encode_utf8(&mut [0; 4]))),
                (None, Some(class)) => self.output.push(&class),
                (None, None) => Err(rule
                    .position
                    .unsupported(format!("empty character class, in {}", rule.name))),
            },
            Expression::Reference(name) => self.output.push(self.name_of.get(name)?),
            Expression::Sequence(parts) if parts.is_empty() => self.output.push("\"\""),
            Expression::Sequence(parts) => self.list(parts, " ", Level::Element, level, rule),
            Expression::Choice(parts) => self.list(parts, " | ", Level::Choice, level, rule),
            Expression::Repeat { body, least, most } => {
                if level == Level::Atom {
                    self.output.push("(")?;
                }
                self.expression(body, Level::Atom, rule)?;
                self.output.push(&quantifier(*least, *most))?;
                if level == Level::Atom {
                    self.output.push(")")
                } else {
                    Ok(())
                }
            }
            Expression::Terminal(body) => self.expression(body, level, rule),
        }
    }

    /// Writes parts in sequence, in parentheses if the context binds tighter.
    fn list(
        &mut self,
        parts: &[Expression],
        between: &str,
        own_level: Level,
        level: Level,
        rule: &PlainRule<'_>,
    ) -> Result<(), GrammarError> {
        let grouped = level > own_level;
        if grouped {
            self.output.push("(")?;
        }
        let inner = if own_level == Level::Choice {
            Level::Sequence
        } else {
            Level::Element
        };
        for (index, part) in parts.iter().enumerate() {
            if index > 0 {
                self.output.push(between)?;
            }
            self.expression(part, inner, rule)?;
        }
        if grouped {
            self.output.push(")")
        } else {
            Ok(())
        }
    }
}

fn quantifier(least: u32, most: Option<u32>) -> String {
    match (least, most) {
        (0, Some(1)) => "?".to_owned(),
        (0, None) => "*".to_owned(),
        (1, None) => "+".to_owned(),
        (least, None) => format!("{{{least},}}"),
        (least, Some(most)) if least == most => format!("{{{least}}}"),
        (least, Some(most)) => format!("{{{least},{most}}}"),
    }
}

/// A string with JSON's escapes, as llguidance expects.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for scalar in text.chars() {
        match scalar {
            '"' | '\\' => quoted.extend(['\\', scalar]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            _ if is_visible(scalar) => quoted.push(scalar),
            _ => {
                for unit in scalar.encode_utf16(&mut [0; 2]) {
                    write!(quoted, "\\u{unit:04x}").expect("writing to a string does not fail");
                }
            }
        }
    }
    quoted.push('"');
    quoted
}

/// A class as a regular expression in Rust's syntax; `None` for an empty set.
fn class(set: &CharSet) -> Option<String> {
    let found = class_ranges(set)?;
    let mut class = String::from(if found.negated { "/[^" } else { "/[" });
    for (first, last) in found.ranges {
        in_class(first, &mut class);
        if u32::from(first) + 1 < u32::from(last) {
            class.push('-');
        }
        if first != last {
            in_class(last, &mut class);
        }
    }
    class.push_str("]/");
    Some(class)
}

fn in_class(scalar: char, class: &mut String) {
    match scalar {
        '\n' => class.push_str("\\n"),
        '\r' => class.push_str("\\r"),
        '\t' => class.push_str("\\t"),
        '\\' | '[' | ']' | '^' | '-' | '&' | '~' => class.extend(['\\', scalar]),
        _ if is_visible(scalar) && scalar != '/' => class.push(scalar),
        _ => write!(class, "\\x{{{:X}}}", u32::from(scalar))
            .expect("writing to a string does not fail"),
    }
}
