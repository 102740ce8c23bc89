//! Parses EBNF grammars of xgrammar and GBNF grammars of llama.cpp.
//!
//! Constructs of one engine only have that engine's meaning. Texts that the two engines interpret
//! differently are refused as unsupported.

use std::collections::HashSet;

use pest::Parser as _;
use pest::iterators::Pair;
use pest_derive::Parser;

use super::charset::CharSet;
use super::error::{GrammarError, Position, from_pest};
use super::syntax::{Expression, Grammar, Rule as GrammarRule, RuleKind};
use super::{escape, limits};

/// The start rule.
const START: &str = "root";

#[derive(Parser)]
#[grammar = "shipped/ebnf.pest"]
struct Ebnf;

/// Parses a grammar.
///
/// # Errors
/// A syntax error, a duplicate rule, an unsupported construct, nesting beyond the limit.
pub(super) fn read(text: &str) -> Result<Grammar<'_>, GrammarError> {
    limits::set_pest_call_limit();
    let mut pairs = Ebnf::parse(Rule::grammar, text).map_err(|error| from_pest(&error, name_of))?;
    let mut rules: Vec<GrammarRule<'_>> = Vec::new();
    let mut names = HashSet::new();
    for pair in pairs
        .next()
        .expect("a parse of the grammar rule yields it")
        .into_inner()
    {
        if pair.as_rule() == Rule::definition {
            let rule = definition(pair)?;
            if !names.insert(rule.name.clone()) {
                return Err(rule
                    .position
                    .syntax(format!("rule defined twice: {}", rule.name)));
            }
            rules.push(rule);
        }
    }
    Ok(Grammar {
        rules,
        start: START,
        ignored: Vec::new(),
    })
}

fn definition(pair: Pair<'_, Rule>) -> Result<GrammarRule<'_>, GrammarError> {
    let position = Position::start_of(&pair);
    if !position.line_so_far().trim().is_empty() {
        return Err(position.syntax("a definition must start on a new line"));
    }
    let mut parts = pair.into_inner();
    let name = parts
        .next()
        .expect("a definition has a name")
        .as_str()
        .to_owned();
    let mut body = None;
    for part in parts {
        match part.as_rule() {
            Rule::choices if part.as_str().trim().is_empty() => {
                return Err(position.syntax(format!("rule without a body: {name}")));
            }
            Rule::choices => body = Some(choices(part, 0)?),
            _ => return Err(refuse(&part)),
        }
    }
    let body = body.expect("a definition has a body");
    Ok(GrammarRule {
        name,
        kind: RuleKind::Rule,
        body,
        position,
    })
}

fn choices(pair: Pair<'_, Rule>, depth: usize) -> Result<Expression, GrammarError> {
    if depth > limits::MAX_NESTING {
        return Err(GrammarError::Limit {
            what: limits::nesting(),
        });
    }
    let mut alternatives = Vec::new();
    for sequence in pair.into_inner() {
        let elements: Result<Vec<_>, _> = sequence
            .into_inner()
            .map(|part| element(part, depth))
            .collect();
        alternatives.push(Expression::sequence(elements?));
    }
    Ok(Expression::choice(alternatives))
}

fn element(pair: Pair<'_, Rule>, depth: usize) -> Result<Expression, GrammarError> {
    let mut parts = pair.into_inner();
    let atom = parts.next().expect("an element has an atom");
    let mut expression = match atom.as_rule() {
        Rule::group => choices(
            atom.into_inner().next().expect("a group has choices"),
            depth + 1,
        )?,
        Rule::text => Expression::Text(escape::ebnf_text(
            inner(atom.as_str()),
            Position::start_of(&atom),
        )?),
        Rule::class => Expression::Class(escape::ebnf_class(
            inner(atom.as_str()),
            Position::start_of(&atom),
        )?),
        Rule::any => Expression::Class(CharSet::all()),
        Rule::name => Expression::Reference(atom.as_str().to_owned()),
        _ => return Err(refuse(&atom)),
    };
    for (position, quantifier) in parts.enumerate() {
        if position == limits::MAX_QUANTIFIERS {
            return Err(GrammarError::Limit {
                what: format!("quantifiers in a row: {}", limits::MAX_QUANTIFIERS),
            });
        }
        let quantifier = quantifier
            .into_inner()
            .next()
            .expect("a quantifier is of some kind");
        expression = match quantifier.as_rule() {
            Rule::optional => expression.repeat(0, Some(1)),
            Rule::star => expression.repeat(0, None),
            Rule::plus => expression.repeat(1, None),
            _ => counted(expression, quantifier)?,
        };
    }
    Ok(expression)
}

fn counted(expression: Expression, range: Pair<'_, Rule>) -> Result<Expression, GrammarError> {
    let position = Position::start_of(&range);
    let (mut least, mut most, mut open) = (0, None, false);
    for part in range.into_inner() {
        match part.as_rule() {
            Rule::least => least = times(part.as_str())?,
            Rule::comma => open = true,
            _ => most = Some(times(part.as_str())?),
        }
    }
    if !open {
        most = Some(least);
    }
    if most.is_some_and(|most| most < least) {
        return Err(position.syntax("reversed repetition bounds"));
    }
    Ok(expression.repeat(least, most))
}

/// A number of repetitions.
pub(super) fn times(digits: &str) -> Result<u32, GrammarError> {
    match digits.parse() {
        Ok(times) if times <= limits::MAX_REPETITIONS => Ok(times),
        _ => Err(GrammarError::Limit {
            what: format!("repetitions: {}", limits::MAX_REPETITIONS),
        }),
    }
}

fn refuse(pair: &Pair<'_, Rule>) -> GrammarError {
    let construct = match pair.as_rule() {
        Rule::look_ahead => "look-ahead (=...)".to_owned(),
        Rule::token => format!("token {}", pair.as_str()),
        Rule::macro_call => {
            pair.as_str()
                .split('(')
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned()
                + "(...)"
        }
        Rule::attributes => format!("rule attributes {}", pair.as_str()),
        other => name_of(&other),
    };
    Position::start_of(pair).unsupported(construct)
}

/// The text between one-byte delimiters.
fn inner(quoted: &str) -> &str {
    &quoted[1..quoted.len() - 1]
}

fn name_of(rule: &Rule) -> String {
    match rule {
        Rule::EOI => "end of text".to_owned(),
        Rule::element => "string, class, group or name".to_owned(),
        Rule::quantifier => "quantifier".to_owned(),
        other => format!("{other:?}").replace('_', " "),
    }
}

/// Joins alternatives that start on a line of their own to the line before, which llama.cpp requires.
/// Comments and empty lines between them are dropped. `None` if there is no such line.
pub fn join_alternatives(text: &str) -> Option<String> {
    let mut joined = String::with_capacity(text.len());
    // The end of what `joined` has besides comments, and what ends an open literal or class.
    let (mut code_end, mut closing, mut is_changed) = (0, None, false);
    for line in text.split_inclusive('\n') {
        let alternative = line.trim_start();
        if closing.is_none() && code_end > 0 && alternative.starts_with('|') {
            is_changed = true;
            joined.truncate(code_end);
            joined.push(' ');
            joined.push_str(alternative);
        } else {
            joined.push_str(line);
        }
        let start = joined.len() - alternative.len();
        let mut characters = alternative.char_indices();
        while let Some((at, character)) = characters.next() {
            match (closing, character) {
                (None, '#') => break,
                (Some(_), '\\') => drop(characters.next()),
                (Some(end), _) if character == end => closing = None,
                (None, '"') => closing = Some('"'),
                (None, '[') => closing = Some(']'),
                _ => {}
            }
            if closing.is_some() || !character.is_whitespace() {
                code_end = start + at + character.len_utf8();
            }
        }
    }
    is_changed.then_some(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        read(text)
            .map(|_| "read".to_owned())
            .unwrap_or_else(|error| error.to_string())
    }

    #[test]
    fn grammars_that_engines_accept_are_parsed() {
        for text in [
            "root ::= \"a\"",
            "\n  # leading comment\nroot ::= a | # after a bar\n  b\na ::= \"x\"\nb ::= [^\\n\"]+\n",
            "root ::= (\n \"a\"\n | b-1 ) # in a group\nb-1 ::= \"b\"",
            "root ::= x\n  | y_2\nx ::= \"1\"\ny_2 ::= \"2\"",
            "root ::= \"\"",
            "root ::= ()",
            "root ::= | \"a\"",
            "root ::= \"a\" |\n",
            "root ::= .{2} . [a-z]{1,} \"x\"{3,7} a.b*\na.b ::= \"q\"",
            "root ::= \"a\"*?",
            "0 ::= \"a\"\nroot ::= 0",
            "root::=\"a\"\r\nb::=root",
        ] {
            assert_eq!(message(text), "read", "{text}");
        }
    }

    #[test]
    fn unsupported_constructs_are_refused_by_name() {
        for (text, construct) in [
            ("root ::= <think> \"a\"", "token <think> (line 1)"),
            ("root ::= !<[12]>", "token !<[12]> (line 1)"),
            (
                "root ::= \"a\"\nx ::= TagDispatch((\"<f>\", root), stop_eos=true)",
                "TagDispatch(...) (line 2)",
            ),
            ("root ::= Token (1, 2)", "Token(...) (line 1)"),
            ("root ::= \"a\" (=\"b\")", "look-ahead (=...) (line 1)"),
            (
                "root[max_tokens=3] ::= \"a\"",
                "rule attributes [max_tokens=3] (line 1)",
            ),
            (
                "root ::= [\\x411]",
                "\\xHH followed by a hex digit, which engines interpret differently (line 1)",
            ),
            (
                "root ::= []",
                "empty character class, which engines interpret differently (line 1)",
            ),
        ] {
            assert_eq!(
                message(text),
                format!("unsupported in a grammar: {construct}"),
                "{text}"
            );
        }
    }

    #[test]
    fn errors_have_line_and_column() {
        for (text, position) in [
            ("root ::= (\"a\"", "line 1, column 14"),
            ("root ::= \"a\"\nb : \"c\"", "line 2, column 3"),
            ("root ::= \"a", "line 1, column 10"),
            ("root ::= \"a\" x ::= \"b\"", "line 1, column 14"),
            ("root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1"),
            ("root ::=", "line 1, column 1"),
            ("root ::= a{,3}", "line 1, column 12"),
            ("root ::= a{3,1}", "line 1, column 11"),
            ("root ::= [z-a]", "line 1, column 10"),
            ("root ::= \"\\q\"", "line 1, column 10"),
            ("root ::= * \"a\"", "line 1, column 10"),
            ("start: \"a\"", "line 1, column 6"),
        ] {
            let error = message(text);
            assert!(
                error.starts_with(&format!("grammar syntax at {position}: ")),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn deep_nesting_reaches_a_limit() {
        let nested =
            |depth: usize| format!("root ::= {}\"a\"{}", "(".repeat(depth), ")".repeat(depth));
        assert_eq!(message(&nested(limits::MAX_NESTING)), "read");
        for text in [
            nested(limits::MAX_NESTING + 1),
            nested(50_000),
            "root ::= ".to_owned() + &"(".repeat(100_000),
        ] {
            assert_eq!(
                message(&text),
                "grammar beyond the limit: nested groups: 128"
            );
        }
        let quantified = |count: usize| format!("root ::= \"a\"{}", "*?".repeat(count / 2));
        assert_eq!(message(&quantified(limits::MAX_QUANTIFIERS)), "read");
        assert_eq!(
            message(&quantified(100_000)),
            "grammar beyond the limit: quantifiers in a row: 8"
        );
        assert!(message("root ::= \"a\"{99999999}").contains("repetitions"));
    }

    #[test]
    fn alternatives_on_lines_of_their_own_are_joined() {
        for (text, expected) in [
            (
                "root ::= a # first\n\n  # then\n  | \"b\" # last\n  | c\na ::= \"x\"\n",
                "root ::= a | \"b\" | c\na ::= \"x\"\n",
            ),
            (
                "root ::= \"\\\"#\"\n| [\\]#]\n| b",
                "root ::= \"\\\"#\" | [\\]#] | b",
            ),
        ] {
            assert_eq!(join_alternatives(text).as_deref(), Some(expected));
        }
        for text in ["root ::= a |\n b", "root ::= \"a\n| b\"", "| b", ""] {
            assert_eq!(join_alternatives(text), None, "{text:?}");
        }
    }
}
