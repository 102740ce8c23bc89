//! Writes EBNF/GBNF that llama.cpp and xgrammar read alike. Knows the notation, not where the
//! grammar is from.
//!
//! Read in llama.cpp's `src/llama-grammar.cpp`, in xgrammar's `cpp/grammar_parser.cc` (that of the
//! crate xgrammar 0.6.0) and in its port to Rust (xgrammar-rs 0.2.8). What is written is the common
//! subset:
//!
//! | construct | llama.cpp | xgrammar | written |
//! |---|---|---|---|
//! | names | letters, digits, `-` | letters, digits, `-`, `_`, `.`; no digit first; `true` and `false` are booleans | lower case, digits, `-`, a letter first |
//! | line ends | end a rule, but in parentheses and after `\|` | say nothing | one rule a line, nothing broken |
//! | comments | `#` | `#` | none |
//! | empty text | `""`, `()`, nothing at all | `""`, `()` | `""`, only as an alternative |
//! | escapes | `\n \r \t \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH`, lately `\-` | those, C's, and in classes those of regular expressions | `\n \r \t \\ \" \[ \] \uHHHH \UHHHHHHHH` |
//! | `\x` | two hex digits | as many as there are | `\u` instead |
//! | line end in a string or class | as it is | refused | escaped |
//! | NUL in a string | what no token can match | a character | refused by name |
//! | `.` | any character | part of a name | a class |
//! | `-` in a class | itself at either end | itself at either end | at the end |
//! | quantifiers behind each other | allowed | refused | in parentheses |
//! | `{m,n}` | below 2,000, times what the group in it is made of; from 2,000 on refused, or taken for unbounded | any | up to 1,999; a group that is counted is a rule of its own |
//! | left recursion | refused | read | rewritten, see [`super::shape`] |
//! | `(=...)`, tokens, macros, rule attributes | tokens | all of them | none |

use std::collections::VecDeque;
use std::fmt::Write as _;

use super::super::charset::CharSet;
use super::super::error::{GrammarError, Place};
use super::super::limits;
use super::super::syntax::Expression;
use super::names::Names;
use super::plain::PlainRule;
use super::scalars::{listing, only, shows};
use super::write::{Level, NameOf, Output};

/// How many rules llama.cpp may make of a group that is repeated, before it is given a rule of its
/// own: it multiplies the rules of the group by the count, and refuses from 2,000 on.
const MAX_GROUP_RULES: u64 = 100;

/// Writes the rules in their order.
///
/// # Errors
/// What the notation cannot say, by name and line; more text than is read.
pub(super) fn write(
    rules: &[PlainRule<'_>],
    name_of: &NameOf,
    names: &mut Names,
) -> Result<String, GrammarError> {
    let mut writer = Writer {
        output: Output::default(),
        name_of,
        names,
        helpers: VecDeque::new(),
    };
    for rule in rules {
        let at = At {
            place: rule.place,
            source: &rule.name,
        };
        writer.rule(name_of.get(&rule.name)?, &rule.body, at)?;
        while let Some((name, body)) = writer.helpers.pop_front() {
            writer.rule(&name, &body, at)?;
        }
    }
    Ok(writer.output.text)
}

/// The rule of the source that is being written.
#[derive(Clone, Copy)]
struct At<'r> {
    place: Place<'r>,
    source: &'r str,
}

struct Writer<'n> {
    output: Output,
    name_of: &'n NameOf,
    names: &'n mut Names,
    /// Groups that became rules, to be written next.
    helpers: VecDeque<(String, Expression)>,
}

impl Writer<'_> {
    fn rule(&mut self, name: &str, body: &Expression, at: At<'_>) -> Result<(), GrammarError> {
        self.output.push(name)?;
        self.output.push(" ::= ")?;
        self.expression(body, Level::Choice, at)?;
        self.output.push("\n")
    }

    fn expression(
        &mut self,
        expression: &Expression,
        level: Level,
        at: At<'_>,
    ) -> Result<(), GrammarError> {
        match expression {
            Expression::Text(text) => self.text(text, at),
            Expression::Class(set) => self.class(set, at),
            Expression::Reference(name) => self.output.push(self.name_of.get(name)?),
            Expression::Sequence(parts) if parts.is_empty() => self.output.push("\"\""),
            Expression::Sequence(parts) => self.list(parts, " ", Level::Element, level, at),
            Expression::Choice(parts) => self.list(parts, " | ", Level::Choice, level, at),
            Expression::Repeat { body, least, most } => {
                if level == Level::Atom {
                    self.output.push("(")?;
                }
                self.repeated(body, *least, *most, at)?;
                self.output.push(quantifier(*least, *most, at)?.as_str())?;
                if level == Level::Atom {
                    self.output.push(")")
                } else {
                    Ok(())
                }
            }
            Expression::Terminal(body) => self.expression(body, level, at),
        }
    }

    /// Parts one behind the other, in parentheses where they stand inside something that binds
    /// closer.
    fn list(
        &mut self,
        parts: &[Expression],
        between: &str,
        own: Level,
        level: Level,
        at: At<'_>,
    ) -> Result<(), GrammarError> {
        let grouped = level > own;
        if grouped {
            self.output.push("(")?;
        }
        let inner = if own == Level::Choice {
            Level::Sequence
        } else {
            Level::Element
        };
        for (index, part) in parts.iter().enumerate() {
            if index > 0 {
                self.output.push(between)?;
            }
            self.expression(part, inner, at)?;
        }
        if grouped {
            self.output.push(")")
        } else {
            Ok(())
        }
    }

    /// What is repeated; a group that llama.cpp would count too often becomes a rule.
    fn repeated(
        &mut self,
        body: &Expression,
        least: u32,
        most: Option<u32>,
        at: At<'_>,
    ) -> Result<(), GrammarError> {
        let is_group = matches!(
            body,
            Expression::Sequence(_) | Expression::Choice(_) | Expression::Repeat { .. }
        );
        let counted = least > 1 || most.is_some_and(|most| most > 1);
        if is_group && (counted || rules_of(body) > MAX_GROUP_RULES) {
            let name = self
                .names
                .give(&format!("{} part", self.name_of.get(at.source)?));
            self.output.push(&name)?;
            self.helpers.push_back((name, body.clone()));
            return Ok(());
        }
        self.expression(body, Level::Atom, at)
    }

    fn text(&mut self, text: &str, at: At<'_>) -> Result<(), GrammarError> {
        let mut quoted = String::with_capacity(text.len() + 2);
        quoted.push('"');
        for scalar in text.chars() {
            match scalar {
                '"' | '\\' => quoted.extend(['\\', scalar]),
                '\0' => {
                    return Err(at
                        .place
                        .unsupported("NUL in a string, which no token of llama.cpp can match"));
                }
                _ => escape(scalar, &mut quoted),
            }
        }
        quoted.push('"');
        self.output.push(&quoted)
    }

    fn class(&mut self, set: &CharSet, at: At<'_>) -> Result<(), GrammarError> {
        // A single character is a string, but NUL, which only a class can hold.
        if let Some(scalar) = only(set).filter(|&scalar| scalar != '\0') {
            return self.text(scalar.encode_utf8(&mut [0; 4]), at);
        }
        let Some(found) = listing(set) else {
            return Err(at.place.unsupported(format!(
                "character class without a character, in {}",
                at.source
            )));
        };
        let mut class = String::from(if found.negated { "[^" } else { "[" });
        let mut dash = false;
        for (first, last) in found.ranges {
            if first == last && first == '-' {
                dash = true;
                continue;
            }
            in_class(first, &mut class);
            if u32::from(first) + 1 < u32::from(last) {
                class.push('-');
            }
            if first != last {
                in_class(last, &mut class);
            }
        }
        if dash {
            class.push('-');
        }
        class.push(']');
        self.output.push(&class)
    }
}

fn quantifier(least: u32, most: Option<u32>, at: At<'_>) -> Result<String, GrammarError> {
    let quantifier = match (least, most) {
        (0, Some(1)) => "?".to_owned(),
        (0, None) => "*".to_owned(),
        (1, None) => "+".to_owned(),
        (least, None) => format!("{{{least},}}"),
        (least, Some(most)) if least == most => format!("{{{least}}}"),
        (least, Some(most)) => format!("{{{least},{most}}}"),
    };
    if most.unwrap_or(least) > limits::MAX_PORTABLE_REPETITIONS {
        let most = limits::MAX_PORTABLE_REPETITIONS;
        return Err(at.place.unsupported(format!(
            "repetition more than {most} times: {quantifier}, in {}",
            at.source
        )));
    }
    Ok(quantifier)
}

/// The most rules that llama.cpp makes of a group: one for each group and for each time that may be
/// left out, and one for each name that it has not seen yet.
fn rules_of(expression: &Expression) -> u64 {
    match expression {
        Expression::Text(_) | Expression::Class(_) => 0,
        Expression::Reference(_) => 1,
        Expression::Sequence(parts) | Expression::Choice(parts) => {
            1 + parts.iter().map(rules_of).fold(0, u64::saturating_add)
        }
        Expression::Repeat { body, least, most } => rules_of(body)
            .saturating_add(most.map_or(1, |most| u64::from(most.saturating_sub(*least)))),
        Expression::Terminal(body) => rules_of(body),
    }
}

fn in_class(scalar: char, class: &mut String) {
    match scalar {
        '\\' | '[' | ']' => class.extend(['\\', scalar]),
        '^' | '-' => by_number(scalar, class),
        _ => escape(scalar, class),
    }
}

fn escape(scalar: char, text: &mut String) {
    match scalar {
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\t' => text.push_str("\\t"),
        _ if shows(scalar) => text.push(scalar),
        _ => by_number(scalar, text),
    }
}

fn by_number(scalar: char, text: &mut String) {
    let number = u32::from(scalar);
    let written = if number > 0xFFFF {
        write!(text, "\\U{number:08X}")
    } else {
        write!(text, "\\u{number:04X}")
    };
    written.expect("writing to a string does not fail");
}
