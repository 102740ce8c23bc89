//! Runs a pest grammar as an oracle.
//!
//! A PEG is not a context-free grammar: it commits to the first matching alternative and to the
//! longest repetition. An oracle defines its own language, not that of a grammar in another
//! notation.

use pest::error::{ErrorVariant, InputLocation};
use pest::iterators::Pairs;
use pest_meta::ast::RuleType;
use pest_meta::parser::{self, Rule};
use pest_meta::{optimizer, validator};
use pest_vm::Vm;

use super::error::{CALL_LIMIT, STACK_LIMIT, from_pest};
use super::{GrammarError, Membership, limits};

/// The entry rule if it exists; else the first rule.
const ENTRY: &str = "start";

/// A compiled pest grammar.
pub struct PestOracle {
    vm: Vm,
    entry: String,
}

impl std::fmt::Debug for PestOracle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PestOracle")
            .field("entry", &self.entry)
            .finish_non_exhaustive()
    }
}

impl PestOracle {
    /// Compiles a pest grammar.
    ///
    /// # Errors
    /// A syntax error; rules whose matching would not end (left recursion, repetition of nullable
    /// expressions); no rules; a limit.
    pub fn compile(text: &str) -> Result<Self, GrammarError> {
        if text.len() > limits::MAX_ORACLE_BYTES {
            return Err(GrammarError::Limit {
                what: format!("bytes of the pest grammar: {}", limits::MAX_ORACLE_BYTES),
            });
        }
        limits::set_pest_call_limit();
        let pairs = parser::parse(Rule::grammar_rules, text).map_err(|error| refuse(&error))?;
        refuse_deep_rules(&pairs)?;
        validator::validate_pairs(pairs.clone()).map_err(|errors| first(&errors))?;
        let rules = parser::consume_rules(pairs).map_err(|errors| first(&errors))?;
        let entry = match rules
            .iter()
            .find(|rule| rule.name == ENTRY)
            .or(rules.first())
        {
            Some(rule) => rule.name.clone(),
            None => return Err(GrammarError::NoStartRule),
        };
        let mut rules = optimizer::optimize(rules);
        for rule in &mut rules {
            // A silent entry rule would not report its end.
            if rule.name == entry && rule.ty == RuleType::Silent {
                rule.ty = RuleType::Normal;
            }
        }
        Ok(Self {
            vm: Vm::new(rules),
            entry,
        })
    }

    /// Whether the entry rule matches all of `text`, with or without `SOI` and `EOI` in the rule.
    ///
    /// The byte of [`Membership::NotMember`] is where pest reports the failure or where the match
    /// ended. It is only a hint: another alternative may match more.
    pub fn recognise(&self, text: &str) -> Membership {
        limits::set_pest_call_limit();
        match self.vm.parse(&self.entry, text) {
            Ok(mut pairs) => match pairs.next().map_or(0, |pair| pair.as_span().end()) {
                end if end == text.len() => Membership::Member,
                end => Membership::NotMember { byte: end },
            },
            Err(error) => match (&error.variant, &error.location) {
                (ErrorVariant::CustomError { message }, _) if message == CALL_LIMIT => {
                    Membership::Limit {
                        what: format!("calls of pest: {}", limits::MAX_PEST_CALLS),
                    }
                }
                (ErrorVariant::CustomError { message }, _) if message == STACK_LIMIT => {
                    Membership::Limit {
                        what: "stack of pest".to_owned(),
                    }
                }
                (_, InputLocation::Pos(byte) | InputLocation::Span((byte, _))) => {
                    Membership::NotMember { byte: *byte }
                }
            },
        }
    }
}

/// pest's validator and optimiser recurse without a stack guard; the guard only covers parsing.
fn refuse_deep_rules(pairs: &Pairs<'_, Rule>) -> Result<(), GrammarError> {
    let (mut nesting, mut operators) = (0_usize, 0_usize);
    for token in pairs.clone().tokens() {
        match token {
            pest::Token::Start {
                rule: Rule::grammar_rule,
                ..
            } => (nesting, operators) = (0, 0),
            pest::Token::Start {
                rule: Rule::opening_paren,
                ..
            } => nesting += 1,
            pest::Token::Start {
                rule: Rule::closing_paren,
                ..
            } => nesting = nesting.saturating_sub(1),
            pest::Token::Start { rule, .. } if is_operator(rule) => operators += 1,
            _ => {}
        }
        if nesting > limits::MAX_ORACLE_NESTING {
            return Err(GrammarError::Limit {
                what: format!(
                    "nesting of the pest grammar: {}",
                    limits::MAX_ORACLE_NESTING
                ),
            });
        }
        if operators > limits::MAX_ORACLE_OPERATORS {
            return Err(GrammarError::Limit {
                what: format!(
                    "operators in one pest rule: {}",
                    limits::MAX_ORACLE_OPERATORS
                ),
            });
        }
    }
    Ok(())
}

fn is_operator(rule: Rule) -> bool {
    matches!(
        rule,
        Rule::sequence_operator
            | Rule::choice_operator
            | Rule::positive_predicate_operator
            | Rule::negative_predicate_operator
            | Rule::optional_operator
            | Rule::repeat_operator
            | Rule::repeat_once_operator
            | Rule::repeat_exact
            | Rule::repeat_min
            | Rule::repeat_max
            | Rule::repeat_min_max
    )
}

fn first(errors: &[pest::error::Error<Rule>]) -> GrammarError {
    errors.first().map_or(GrammarError::NoStartRule, refuse)
}

fn refuse(error: &pest::error::Error<Rule>) -> GrammarError {
    from_pest(error, parser::rename_meta_rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(grammar: &str, text: &str, expected: &Membership) {
        assert_eq!(
            PestOracle::compile(grammar).unwrap().recognise(text),
            *expected,
            "{grammar} on {text:?}"
        );
    }
    fn message(grammar: &str) -> String {
        PestOracle::compile(grammar).unwrap_err().to_string()
    }

    #[test]
    fn complete_texts_match_with_or_without_soi_and_eoi() {
        for grammar in [
            "start = { \"a\"+ }",
            "start = { SOI ~ \"a\"+ ~ EOI }",
            "start = _{ \"a\"+ }",
            "other = { \"b\" } start = ${ \"a\"+ }",
            "first = !{ \"a\"+ } second = { \"b\" }",
            "start = _{ list } list = _{ \"a\" ~ list? }",
        ] {
            check(grammar, "aaa", &Membership::Member);
            check(grammar, "aab", &Membership::NotMember { byte: 2 });
            check(grammar, "", &Membership::NotMember { byte: 0 });
        }
        // Inside an atomic rule, pest reports the start of the rule.
        check("start = @{ \"a\"+ ~ EOI }", "aaa", &Membership::Member);
        check(
            "start = @{ \"a\"+ ~ EOI }",
            "aab",
            &Membership::NotMember { byte: 0 },
        );
        check(
            "start = { \"a\" ~ \"b\" } WHITESPACE = _{ \" \" }",
            "a  b",
            &Membership::Member,
        );
        check(
            "start = { \"a\" ~ \"b\" } WHITESPACE = _{ \" \" }",
            "a b ",
            &Membership::NotMember { byte: 3 },
        );
    }

    #[test]
    fn non_terminating_grammars_are_refused_with_their_position() {
        for (grammar, message_start) in [
            (
                "e = { e ~ \"+\" ~ \"1\" | \"1\" }",
                "grammar syntax at line 1, column 7: rule e is left-recursive",
            ),
            (
                "start = { (\"a\"*)* }",
                "grammar syntax at line 1, column 11: expression inside repetition",
            ),
            (
                "start = { \"a\" ~ }",
                "grammar syntax at line 1, column 17: expected",
            ),
            (
                "start = {\n missing }",
                "grammar syntax at line 2, column 2: rule missing is undefined",
            ),
            ("", "no start rule in the grammar"),
        ] {
            let error = message(grammar);
            assert!(error.starts_with(message_start), "{error}");
        }
    }

    #[test]
    fn limits_stop_hostile_grammars_and_texts() {
        let deep = format!(
            "start = {{ {}\"a\"{} }}",
            "(".repeat(5_000),
            ")".repeat(5_000)
        );
        assert!(message(&deep).starts_with("grammar beyond the limit: "));
        let long = format!("start = {{ \"a\"{} }}", " ~ \"a\"".repeat(5_000));
        assert!(message(&long).starts_with("grammar beyond the limit: operators"));
        let widest = format!(
            "start = {{ \"a\"{} }}",
            " | \"b\"".repeat(limits::MAX_ORACLE_OPERATORS)
        );
        check(&widest, "b", &Membership::Member);
        // A right-recursive rule recurses for each character: pest's guard stops it before the
        // stack overflows.
        let recursive = PestOracle::compile("start = { \"a\" ~ start | \"a\" }").unwrap();
        let Membership::Limit { what } = recursive.recognise(&"a".repeat(1_000_000)) else {
            panic!("a million levels should exceed the stack");
        };
        assert_eq!(what, "stack of pest");
    }
}
