//! Parses Lark grammars: llguidance's variant and the core of stock Lark.
//!
//! Constructs that only shape parse trees (aliases, `?`, `!`, capture names) or only choose among
//! derivations (priorities) are dropped, because they do not change the language. Constructs that
//! change the language and are not context-free are refused.

use std::collections::HashSet;

use pest::Parser as _;
use pest::iterators::{Pair, Pairs};
use pest_derive::Parser;

use super::charset::CharSet;
use super::ebnf::times;
use super::error::{GrammarError, Position, from_pest};
use super::syntax::{Expression, Grammar, Rule as GrammarRule, RuleKind};
use super::{escape, lark_common, limits, regex};

/// The start rule.
const START: &str = "start";

#[derive(Parser)]
#[grammar = "shipped/lark.pest"]
struct Lark;

/// Parses a grammar.
///
/// # Errors
/// A syntax error, a duplicate name, an unsupported construct, nesting beyond the limit.
pub(super) fn read(text: &str) -> Result<Grammar<'_>, GrammarError> {
    let mut pairs = parse(text)?;
    let mut grammar = Grammar {
        rules: Vec::new(),
        start: START,
        ignored: Vec::new(),
    };
    for pair in pairs
        .next()
        .expect("a parse of the grammar rule yields it")
        .into_inner()
    {
        match pair.as_rule() {
            Rule::definition => grammar.rules.push(definition(pair)?),
            Rule::ignore => {
                grammar
                    .ignored
                    .push(expansions(only_child(pair), RuleKind::Terminal, 0)?);
            }
            Rule::import => import(pair, &mut grammar.rules)?,
            Rule::llguidance => options(&pair)?,
            Rule::EOI => {}
            _ => return Err(refuse(&pair)),
        }
    }
    let mut names = HashSet::new();
    match grammar
        .rules
        .iter()
        .find(|rule| !names.insert(rule.name.as_str()))
    {
        Some(twice) => Err(twice
            .position
            .syntax(format!("defined twice: {}", twice.name))),
        None => Ok(grammar),
    }
}

/// Parses a text to the pairs of the meta-grammar.
pub(super) fn parse(text: &str) -> Result<Pairs<'_, Rule>, GrammarError> {
    limits::set_pest_call_limit();
    Lark::parse(Rule::grammar, text).map_err(|error| from_pest(&error, name_of))
}

fn definition(pair: Pair<'_, Rule>) -> Result<GrammarRule<'_>, GrammarError> {
    let position = Position::start_of(&pair);
    let (mut name, mut kind, mut body) = (String::new(), RuleKind::Rule, Expression::empty());
    for part in pair.into_inner() {
        match part.as_rule() {
            // Modifiers shape parse trees; priorities choose among derivations.
            Rule::modifiers | Rule::priority => {}
            Rule::rule_name => name = part.as_str().to_owned(),
            Rule::terminal_name => (name, kind) = (part.as_str().to_owned(), RuleKind::Terminal),
            Rule::attributes => attributes(part)?,
            Rule::expansions => body = expansions(part, kind, 0)?,
            _ => return Err(refuse(&part)),
        }
    }
    Ok(GrammarRule {
        name,
        kind,
        body,
        position,
    })
}

/// Attributes of a rule: `capture` names the match; all others change the language or need a
/// tokenizer.
fn attributes(pair: Pair<'_, Rule>) -> Result<(), GrammarError> {
    for attribute in pair.into_inner() {
        let position = Position::start_of(&attribute);
        let name = attribute
            .into_inner()
            .next()
            .expect("an attribute has a name");
        if name.as_str() != "capture" {
            return Err(position.unsupported(format!("attribute [{}]", name.as_str())));
        }
    }
    Ok(())
}

fn expansions(
    pair: Pair<'_, Rule>,
    kind: RuleKind,
    depth: usize,
) -> Result<Expression, GrammarError> {
    if depth > limits::MAX_NESTING {
        return Err(GrammarError::Limit {
            what: limits::nesting(),
        });
    }
    let alternatives: Result<Vec<_>, _> = pair
        .into_inner()
        .map(|part| alternative(part, kind, depth))
        .collect();
    Ok(Expression::choice(alternatives?))
}

fn alternative(
    pair: Pair<'_, Rule>,
    kind: RuleKind,
    depth: usize,
) -> Result<Expression, GrammarError> {
    let mut parts = Vec::new();
    for part in pair.into_inner() {
        match part.as_rule() {
            Rule::expression => parts.push(expression(part, kind, depth)?),
            Rule::alias => {}
            _ => return Err(refuse(&part)),
        }
    }
    Ok(Expression::sequence(parts))
}

fn expression(
    pair: Pair<'_, Rule>,
    kind: RuleKind,
    depth: usize,
) -> Result<Expression, GrammarError> {
    let mut found = Expression::empty();
    for part in pair.into_inner() {
        found = match part.as_rule() {
            Rule::group => expansions(only_child(part), kind, depth + 1)?,
            Rule::maybe => expansions(only_child(part), kind, depth + 1)?.repeat(0, Some(1)),
            Rule::rule_name if kind == RuleKind::Terminal => {
                return Err(Position::start_of(&part)
                    .unsupported(format!("rule inside a terminal: {}", part.as_str())));
            }
            Rule::rule_name | Rule::terminal_name => {
                Expression::Reference(part.as_str().to_owned())
            }
            Rule::text => Expression::Terminal(Box::new(text(&part)?)),
            Rule::pattern => Expression::Terminal(Box::new(pattern(&part)?)),
            Rule::range => Expression::Terminal(Box::new(range(part)?)),
            Rule::operator => match part.as_str() {
                "?" => found.repeat(0, Some(1)),
                "*" => found.repeat(0, None),
                _ => found.repeat(1, None),
            },
            Rule::tilde | Rule::braces => counted(found, part)?,
            _ => return Err(refuse(&part)),
        };
    }
    Ok(found)
}

fn text(pair: &Pair<'_, Rule>) -> Result<Expression, GrammarError> {
    let (quoted, any_case) = match pair.as_str().strip_suffix('i') {
        Some(quoted) => (quoted, true),
        None => (pair.as_str(), false),
    };
    let text = escape::lark_text(&quoted[1..quoted.len() - 1], Position::start_of(pair))?;
    if any_case {
        regex::read(&regex_syntax::escape(&text), "i", Position::start_of(pair))
    } else {
        Ok(Expression::Text(text))
    }
}

fn pattern(pair: &Pair<'_, Rule>) -> Result<Expression, GrammarError> {
    let (pattern, flags) = pair.as_str()[1..]
        .rsplit_once('/')
        .expect("a pattern ends with a slash");
    if flags.contains('l') {
        return Err(Position::start_of(pair).unsupported("flag l of a regular expression"));
    }
    regex::read(pattern, flags, Position::start_of(pair))
}

fn range(pair: Pair<'_, Rule>) -> Result<Expression, GrammarError> {
    let position = Position::start_of(&pair);
    let mut ends = Vec::new();
    for part in pair.into_inner() {
        let Expression::Text(text) = text(&part)? else {
            return Err(position.syntax("flags on a character range"));
        };
        let mut scalars = text.chars();
        match (scalars.next(), scalars.next()) {
            (Some(scalar), None) => ends.push(u32::from(scalar)),
            _ => return Err(position.syntax(format!("a range needs single characters: {text}"))),
        }
    }
    if ends[1] < ends[0] {
        return Err(position.syntax("reversed character range"));
    }
    Ok(Expression::Class(CharSet::new([(ends[0], ends[1])])))
}

fn counted(found: Expression, pair: Pair<'_, Rule>) -> Result<Expression, GrammarError> {
    let position = Position::start_of(&pair);
    let tilde = pair.as_rule() == Rule::tilde;
    let (mut least, mut most, mut open) = (None, None, false);
    for part in pair.into_inner() {
        match part.as_rule() {
            Rule::comma => open = true,
            Rule::most => most = Some(times(part.as_str())?),
            _ if least.is_none() => least = Some(times(part.as_str())?),
            _ => most = Some(times(part.as_str())?),
        }
    }
    let least = least.unwrap_or(0);
    if most.is_none() && (tilde || !open) {
        most = Some(least);
    }
    if most.is_some_and(|most| most < least) {
        return Err(position.syntax("reversed repetition bounds"));
    }
    Ok(found.repeat(least, most))
}

/// Adds the terminals of an `%import`.
fn import<'t>(pair: Pair<'t, Rule>, rules: &mut Vec<GrammarRule<'t>>) -> Result<(), GrammarError> {
    let position = Position::start_of(&pair);
    let mut parts = pair.into_inner();
    let path = parts.next().expect("an import has a path").as_str();
    let (module, single) = path.rsplit_once('.').unwrap_or(("", path));
    let mut wanted = Vec::new();
    let module = match parts.next() {
        None => {
            wanted.push((single.to_owned(), single.to_owned()));
            module
        }
        Some(alias) if alias.as_rule() == Rule::import_alias => {
            wanted.push((single.to_owned(), only_child(alias).as_str().to_owned()));
            module
        }
        Some(list) => {
            wanted.extend(
                list.into_inner()
                    .map(|name| (name.as_str().to_owned(), name.as_str().to_owned())),
            );
            path
        }
    };
    for (original, name) in wanted {
        let found = if module == "common" {
            lark_common::pattern(&original)
        } else {
            None
        };
        let Some(pattern) = found else {
            return Err(position.unsupported(format!("%import {module}.{original}")));
        };
        if name.contains(|letter: char| letter.is_ascii_lowercase()) {
            return Err(position.syntax(format!("a terminal needs an upper-case name: {name}")));
        }
        rules.push(GrammarRule {
            name,
            kind: RuleKind::Terminal,
            body: regex::read(&pattern, "", position)?,
            position,
        });
    }
    Ok(())
}

/// `%llguidance {}` has no effect; any option in it changes how the engine reads the grammar.
fn options(pair: &Pair<'_, Rule>) -> Result<(), GrammarError> {
    let braced = pair.as_str().trim_start_matches("%llguidance").trim();
    if braced[1..braced.len() - 1].trim().is_empty() {
        return Ok(());
    }
    Err(Position::start_of(pair).unsupported("options in %llguidance"))
}

fn refuse(pair: &Pair<'_, Rule>) -> GrammarError {
    let text = pair.as_str();
    let construct = match pair.as_rule() {
        Rule::special_token => format!("special token {text}"),
        Rule::sub_grammar => format!("sub-grammar {text}"),
        Rule::json => "%json".to_owned(),
        Rule::regex_extension => "%regex".to_owned(),
        Rule::nested => "%lark".to_owned(),
        Rule::negation => "negated terminal ~".to_owned(),
        Rule::intersection => "intersection &".to_owned(),
        Rule::condition => "condition %if".to_owned(),
        Rule::parametric | Rule::parametric_use => "parametric rule ::".to_owned(),
        Rule::template | Rule::template_use => "template {...}".to_owned(),
        Rule::directive => text
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned(),
        other => name_of(&other),
    };
    Position::start_of(pair).unsupported(construct)
}

fn only_child(pair: Pair<'_, Rule>) -> Pair<'_, Rule> {
    pair.into_inner()
        .next()
        .expect("the meta-grammar requires a child here")
}

fn name_of(rule: &Rule) -> String {
    match rule {
        Rule::EOI => "end of text".to_owned(),
        Rule::text => "string".to_owned(),
        Rule::pattern => "regular expression".to_owned(),
        Rule::expression => "string, regular expression, group or name".to_owned(),
        other => format!("{other:?}").replace('_', " "),
    }
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
            "start: \"a\"",
            "// comment\n\nstart: a | B // more\n  | \"c\"i -> name\n\n  # between\n  | /x\\/y/i\n?a: \"b\"\n!_c: \"d\"\nB: \"e\"..\"f\"\n",
            "start: (\"a\" | \"b\"\n | \"c\")* [\"d\" \"e\"] \"f\"? \"g\"+",
            "start: \"a\"~3 \"b\" ~ 1..4 \"c\"{2} \"d\"{2,} \"e\"{,3} \"f\"{1,2}",
            "start:\nb: |",
            "start.2: A\nA.-1: /x/ | \"y\"",
            "start: a->alias\na: \"x\"",
            "start[capture]: \"a\"\nb[capture=\"n\"]: \"b\"",
            "%llguidance {}\nstart: WS\n%import common.WS\n%ignore WS",
            "%import common (INT, _EXP)\n%import common.CNAME -> NAME\nstart: INT NAME _EXP",
            "start: \"\\u00e9\\x41\\n\\\"\\\\\"\r\nb: \"c\"\r\n",
            "start: a-b_1\na-b_1: \"x\"",
        ] {
            assert_eq!(message(text), "read", "{text}");
        }
    }

    #[test]
    fn unsupported_constructs_are_refused_by_name() {
        for (text, construct) in [
            ("start: <|tool|>", "special token <|tool|> (line 1)"),
            ("start: @sub", "sub-grammar @sub (line 1)"),
            (
                "start: \"a\"\nb: %json {\n \"type\": \"object\", \"x\": \"}\"\n}",
                "%json (line 2)",
            ),
            (
                "start: %regex { \"substring_words\": \"a b\" }",
                "%regex (line 1)",
            ),
            ("start: %lark {\n start: \"a\"\n}", "%lark (line 1)"),
            ("start: A\nA: /x/ & ~/y/", "intersection & (line 2)"),
            ("start: A\nA: ~/y/", "negated terminal ~ (line 2)"),
            (
                "start: perm::0\nperm::_: \"a\" %if bit_clear(0)",
                "parametric rule :: (line 1)",
            ),
            (
                "start: \"a\" %if is_ones([0:3]) | \"b\"",
                "condition %if (line 1)",
            ),
            ("start: sep{\"a\", \",\"}", "template {...} (line 1)"),
            (
                "start: \"a\"\nsep{x, y}: x (y x)*",
                "template {...} (line 2)",
            ),
            ("start[lazy]: /.*/", "attribute [lazy] (line 1)"),
            (
                "start[capture, stop=\"\\n\"]: /.*/",
                "attribute [stop] (line 1)",
            ),
            ("start[suffix=/x/]: /.*/", "attribute [suffix] (line 1)"),
            (
                "start[max_tokens=10, temperature=0.5]: /.*/",
                "attribute [max_tokens] (line 1)",
            ),
            ("%declare A\nstart: A", "%declare (line 1)"),
            (
                "%override start: \"a\"\n  | \"b\"\nstart: \"a\"",
                "%override (line 1)",
            ),
            (
                "%import common.FOO\nstart: FOO",
                "%import common.FOO (line 1)",
            ),
            (
                "%import python (NAME)\nstart: NAME",
                "%import python.NAME (line 1)",
            ),
            (
                "%llguidance {\"allow_initial_skip\": true}\nstart: \"a\"",
                "options in %llguidance (line 1)",
            ),
            (
                "start: A\nb: \"x\"\nA: b",
                "rule inside a terminal: b (line 3)",
            ),
            ("start: /a/l", "flag l of a regular expression (line 1)"),
            (
                "start: /a(?!b)/",
                "look-around in a regular expression (line 1)",
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
            ("start: (\"a\"", "line 1, column 12"),
            ("start: \"a\"\nroot ::= \"c\"", "line 2, column 7"),
            ("start: \"a", "line 1, column 8"),
            ("start: \"a\"\n\"b\"", "line 2, column 1"),
            ("start: \"a\"\nstart: \"b\"", "line 2, column 1"),
            ("start: A\nA: \"b\"..\"a\"", "line 2, column 4"),
            ("start: \"ab\"..\"c\"", "line 1, column 8"),
            ("start: \"a\"{3,1}", "line 1, column 11"),
            ("start: \"\\q\"", "line 1, column 8"),
            ("start: /[/", "line 1, column 8"),
            ("start: 'a'", "line 1, column 8"),
            ("Start: \"a\"", "line 1, column 1"),
            ("start: \"a\"*+", "line 1, column 12"),
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
        let nested = |depth: usize| {
            format!(
                "start: {}\"a\"{}",
                "([".repeat(depth / 2),
                "])".repeat(depth / 2)
            )
        };
        assert_eq!(message(&nested(limits::MAX_NESTING)), "read");
        for text in [
            nested(limits::MAX_NESTING + 2),
            nested(50_000),
            "start: ".to_owned() + &"(".repeat(100_000),
        ] {
            assert_eq!(
                message(&text),
                "grammar beyond the limit: nested groups: 128"
            );
        }
        let braces = format!("start: %json {}", "{".repeat(100_000));
        assert_eq!(
            message(&braces),
            "grammar beyond the limit: nested groups: 128"
        );
    }
}
