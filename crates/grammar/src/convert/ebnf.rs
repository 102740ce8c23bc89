//! Writes EBNF/GBNF that llama.cpp and xgrammar interpret alike.
//!
//! Based on llama.cpp's `src/llama-grammar.cpp`, xgrammar's `cpp/grammar_parser.cc` (as in the
//! crate xgrammar 0.6.0) and its Rust port (xgrammar-rs 0.2.8). The output is the common subset:
//!
//! | construct | llama.cpp | xgrammar | written |
//! |---|---|---|---|
//! | names | letters, digits, `-` | letters, digits, `-`, `_`, `.`; no digit first; `true` and `false` are booleans | lower case, digits, `-`, a letter first |
//! | line ends | end a rule, except in parentheses and after `\|` | ignored | one rule per line |
//! | comments | `#` | `#` | none |
//! | empty text | `""`, `()`, nothing | `""`, `()` | `""`, only as an alternative |
//! | escapes | `\n \r \t \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH`, lately `\-` | those, C's, and in classes those of regular expressions | `\n \r \t \\ \" \[ \] \uHHHH \UHHHHHHHH` |
//! | `\x` | two hex digits | all following hex digits | `\u` instead |
//! | line end in a string or class | literal | refused | escaped |
//! | NUL in a string | matches no token | a character | refused by name |
//! | `.` | any character | part of a name | a class |
//! | `-` in a class | literal at either end | literal at either end | at the end |
//! | consecutive quantifiers | allowed | refused | in parentheses |
//! | `{m,n}` | below 2,000, multiplied by the rules of the group; from 2,000 on refused or treated as unbounded | any | up to 1,999; a counted group becomes a rule |
//! | left recursion | refused | supported | rewritten, see [`super::recursion`] |
//! | `(=...)`, tokens, macros, rule attributes | tokens | all of them | none |

use std::collections::VecDeque;
use std::fmt::Write as _;

use super::super::charset::CharSet;
use super::super::error::{GrammarError, Position};
use super::super::limits;
use super::super::syntax::Expression;
use super::names::Names;
use super::plain::PlainRule;
use super::scalars::{class_ranges, is_visible, only};
use super::write::{Level, Output, RuleNames};

/// Maximum number of rules that llama.cpp may make of a repeated group; larger groups become rules.
/// llama.cpp multiplies the rules of the group by the count, and refuses from 2,000 on.
const MAX_GROUP_RULES: u64 = 100;

/// Writes the rules in order.
///
/// # Errors
/// A construct that the notation lacks, by name and line; output beyond the size limit.
pub(super) fn write(
    rules: &[PlainRule<'_>],
    name_of: &RuleNames,
    names: &mut Names,
) -> Result<String, GrammarError> {
    let mut writer = Writer {
        output: Output::default(),
        name_of,
        names,
        helpers: VecDeque::new(),
    };
    for rule in rules {
        let context = RuleContext {
            position: rule.position,
            source: &rule.name,
        };
        writer.rule(name_of.get(&rule.name)?, &rule.body, context)?;
        while let Some((name, body)) = writer.helpers.pop_front() {
            writer.rule(&name, &body, context)?;
        }
    }
    Ok(writer.output.text)
}

/// The source rule that is being written.
#[derive(Clone, Copy)]
struct RuleContext<'r> {
    position: Position<'r>,
    source: &'r str,
}

struct Writer<'n> {
    output: Output,
    name_of: &'n RuleNames,
    names: &'n mut Names,
    /// Groups that became rules and are written next.
    helpers: VecDeque<(String, Expression)>,
}

impl Writer<'_> {
    fn rule(
        &mut self,
        name: &str,
        body: &Expression,
        context: RuleContext<'_>,
    ) -> Result<(), GrammarError> {
        self.output.push(name)?;
        self.output.push(" ::= ")?;
        self.expression(body, Level::Choice, context)?;
        self.output.push("\n")
    }

    fn expression(
        &mut self,
        expression: &Expression,
        level: Level,
        context: RuleContext<'_>,
    ) -> Result<(), GrammarError> {
        match expression {
            Expression::Text(text) => self.text(text, context),
            Expression::Class(set) => self.class(set, context),
            Expression::Reference(name) => self.output.push(self.name_of.get(name)?),
            Expression::Sequence(parts) if parts.is_empty() => self.output.push("\"\""),
            Expression::Sequence(parts) => self.list(parts, " ", Level::Element, level, context),
            Expression::Choice(parts) => self.list(parts, " | ", Level::Choice, level, context),
            Expression::Repeat { body, least, most } => {
                if level == Level::Atom {
                    self.output.push("(")?;
                }
                self.repeated(body, *least, *most, context)?;
                self.output
                    .push(quantifier(*least, *most, context)?.as_str())?;
                if level == Level::Atom {
                    self.output.push(")")
                } else {
                    Ok(())
                }
            }
            Expression::Terminal(body) => self.expression(body, level, context),
        }
    }

    /// Writes parts in sequence, in parentheses if the context binds tighter.
    fn list(
        &mut self,
        parts: &[Expression],
        between: &str,
        own_level: Level,
        level: Level,
        context: RuleContext<'_>,
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
            self.expression(part, inner, context)?;
        }
        if grouped {
            self.output.push(")")
        } else {
            Ok(())
        }
    }

    /// Writes a repeated expression; a large group becomes a rule.
    fn repeated(
        &mut self,
        body: &Expression,
        least: u32,
        most: Option<u32>,
        context: RuleContext<'_>,
    ) -> Result<(), GrammarError> {
        let is_group = matches!(
            body,
            Expression::Sequence(_) | Expression::Choice(_) | Expression::Repeat { .. }
        );
        let counted = least > 1 || most.is_some_and(|most| most > 1);
        if is_group && (counted || rule_count(body) > MAX_GROUP_RULES) {
            let name = self
                .names
                .unique_name(&format!("{} part", self.name_of.get(context.source)?));
            self.output.push(&name)?;
            self.helpers.push_back((name, body.clone()));
            return Ok(());
        }
        self.expression(body, Level::Atom, context)
    }

    fn text(&mut self, text: &str, context: RuleContext<'_>) -> Result<(), GrammarError> {
        let mut quoted = String::with_capacity(text.len() + 2);
        quoted.push('"');
        for scalar in text.chars() {
            match scalar {
                '"' | '\\' => quoted.extend(['\\', scalar]),
                '\0' => {
                    return Err(context
                        .position
                        .unsupported("NUL in a string, which llama.cpp cannot match"));
                }
                _ => escape(scalar, &mut quoted),
            }
        }
        quoted.push('"');
        self.output.push(&quoted)
    }

    fn class(&mut self, set: &CharSet, context: RuleContext<'_>) -> Result<(), GrammarError> {
        // A single character is written as a string, except NUL, which only a class can hold.
        if let Some(scalar) = only(set).filter(|&scalar| scalar != '\0') {
            return self.text(scalar.encode_utf8(&mut [0; 4]), context);
        }
        let Some(found) = class_ranges(set) else {
            return Err(context
                .position
                .unsupported(format!("empty character class, in {}", context.source)));
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

fn quantifier(
    least: u32,
    most: Option<u32>,
    context: RuleContext<'_>,
) -> Result<String, GrammarError> {
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
        return Err(context.position.unsupported(format!(
            "more than {most} repetitions: {quantifier}, in {}",
            context.source
        )));
    }
    Ok(quantifier)
}

/// Maximum number of rules that llama.cpp makes of a group: one for each group, each optional
/// repetition and each new name.
fn rule_count(expression: &Expression) -> u64 {
    match expression {
        Expression::Text(_) | Expression::Class(_) => 0,
        Expression::Reference(_) => 1,
        Expression::Sequence(parts) | Expression::Choice(parts) => {
            1 + parts.iter().map(rule_count).fold(0, u64::saturating_add)
        }
        Expression::Repeat { body, least, most } => rule_count(body)
            .saturating_add(most.map_or(1, |most| u64::from(most.saturating_sub(*least)))),
        Expression::Terminal(body) => rule_count(body),
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
        _ if is_visible(scalar) => text.push(scalar),
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
