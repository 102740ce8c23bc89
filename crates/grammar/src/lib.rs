//! Parses Lark and EBNF/GBNF grammars and decides membership of texts in their languages.
//!
//! A pest meta-grammar of the notation (`grammars/meta/`) parses a grammar, which is then converted
//! to a context-free grammar over Unicode scalars and recognised by an Earley chart. The recogniser
//! decides **membership in the context-free language, as a set of texts**: all derivations count,
//! regardless of the order of alternatives.
//!
//! Differences from engines:
//! - A *PEG* (pest) commits to the first alternative and to the longest repetition. [`PestOracle`] runs a pest grammar that the
//!   author of a case supplied; it never decides for a Lark or EBNF grammar.
//! - A *lexer* (Lark's, and llguidance's for Lark) takes the longest terminal without backtracking: for it,
//!   `start: WORD "END"` with `WORD: /[a-zA-Z]+/` has no sentence, but here `fooEND` is one. All its sentences are sentences
//!   here, so no valid answer is judged invalid because of this.
//! - `%ignore X` allows `X` before, after and between terminals, any number of times, but not inside one.
//! - Terminals use the syntax of Rust's regular expressions, as in llguidance: `\d` and `\w` are Unicode classes, `.` excludes
//!   line feeds.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod cfg;
mod charset;
mod classes;
mod convert;
mod earley;
mod ebnf;
mod error;
mod escape;
mod lark;
mod lark_common;
mod limits;
pub mod pattern;
mod pest_oracle;
mod regex;
mod syntax;
mod tables;

pub use convert::{Converted, Dropped, Note, convert};
pub use ebnf::join_alternatives;
pub use error::GrammarError;
pub use limits::{
    MAX_CHART_ITEMS, MAX_CONVERTED_PARTS, MAX_GRAMMAR_BYTES, MAX_LOOKAHEAD_BITS, MAX_NESTING,
    MAX_ORACLE_BYTES, MAX_ORACLE_NESTING, MAX_ORACLE_OPERATORS, MAX_PEST_CALLS,
    MAX_PORTABLE_REPETITIONS, MAX_QUANTIFIERS, MAX_REPETITIONS, MAX_STEPS, MAX_SYMBOLS,
    MAX_UNICODE_CLASSES,
};
pub use pest_oracle::PestOracle;

use sobench_core::constraint::GrammarDialect;

/// A compiled grammar, for any number of texts and threads.
#[derive(Debug)]
pub struct Recogniser {
    tables: tables::Tables,
}

/// Whether a text is a sentence of a grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Membership {
    /// A sentence.
    Member,
    /// Not a sentence: no sentence continues with the character at this byte, or with the end of
    /// the text (then the text's length).
    NotMember { byte: usize },
    /// The decision would exceed a named limit.
    Limit { what: String },
}

/// The prefixes of a text that are sentences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefixes {
    /// Their lengths in bytes, ascending.
    pub ends: Vec<usize>,
    /// The byte up to which the text is the start of a sentence: the text's length if more text may
    /// complete one.
    pub read: usize,
    /// Steps taken.
    pub steps: u64,
}

/// Compiles a grammar.
///
/// # Errors
/// See [`GrammarError`]: a syntax error, an undefined rule, no start rule (`start` in Lark, `root`
/// in EBNF), a construct that is not context-free membership, a limit.
pub fn compile(dialect: GrammarDialect, text: &str) -> Result<Recogniser, GrammarError> {
    let tables = tables::Tables::new(&cfg::build(&read(dialect, text)?)?)?;
    Ok(Recogniser { tables })
}

/// Parses a grammar in either notation.
fn read(dialect: GrammarDialect, text: &str) -> Result<syntax::Grammar<'_>, GrammarError> {
    if text.len() > MAX_GRAMMAR_BYTES {
        return Err(GrammarError::Limit {
            what: format!("bytes of the grammar: {MAX_GRAMMAR_BYTES}"),
        });
    }
    let classes = text
        .as_bytes()
        .windows(2)
        .filter(|pair| pair[0] == b'\\' && b"wWdDsSpP".contains(&pair[1]))
        .count();
    if dialect == GrammarDialect::Lark && classes > MAX_UNICODE_CLASSES {
        return Err(GrammarError::Limit {
            what: format!("Unicode classes: {MAX_UNICODE_CLASSES}"),
        });
    }
    match dialect {
        GrammarDialect::Lark => lark::read(text),
        GrammarDialect::Ebnf => ebnf::read(text),
    }
}

impl Recogniser {
    /// Whether `text` is a sentence of the grammar.
    pub fn recognise(&self, text: &str) -> Membership {
        membership(earley::recognise(&self.tables, text), text.len())
    }

    /// The prefixes of `text` that are sentences, found in at most `max_steps` steps. The error
    /// names a limit.
    pub fn prefixes(&self, text: &str, max_steps: u64) -> Result<Prefixes, String> {
        match earley::prefixes(&self.tables, text, max_steps.min(MAX_STEPS)) {
            Ok(earley::Prefixes { ends, read, steps }) => Ok(Prefixes { ends, read, steps }),
            Err(resource) => Err(limit_name(resource)),
        }
    }

    /// Whether the text is a prefix of a sentence (or a sentence). False at a limit, which
    /// [`Self::recognise`] reports.
    pub fn is_prefix(&self, text: &str) -> bool {
        matches!(
            earley::recognise(&self.tables, text),
            earley::Recognition::Sentence | earley::Recognition::Prefix
        )
    }
}

fn membership(recognition: earley::Recognition, length: usize) -> Membership {
    match recognition {
        earley::Recognition::Sentence => Membership::Member,
        earley::Recognition::Prefix => Membership::NotMember { byte: length },
        earley::Recognition::Dead { byte } => Membership::NotMember { byte },
        earley::Recognition::OutOf(resource) => Membership::Limit {
            what: limit_name(resource),
        },
    }
}

fn limit_name(resource: earley::Resource) -> String {
    match resource {
        earley::Resource::Items => format!("items of the chart: {MAX_CHART_ITEMS}"),
        earley::Resource::Steps => format!("steps of the recogniser: {MAX_STEPS}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts with the byte from which they are not in the language; `None` for sentences.
    fn check(dialect: GrammarDialect, grammar: &str, texts: &[(&str, Option<usize>)]) {
        let recogniser = compile(dialect, grammar).unwrap();
        for &(text, byte) in texts {
            let expected = byte.map_or(Membership::Member, |byte| Membership::NotMember { byte });
            assert_eq!(
                recogniser.recognise(text),
                expected,
                "{grammar} on {text:?}"
            );
            assert_eq!(
                recogniser.is_prefix(text),
                byte.is_none_or(|byte| byte == text.len()),
                "{grammar} on {text:?}"
            );
        }
    }

    #[test]
    fn errors_count_bytes_and_classes_match_scalars() {
        let grammar = "root ::= [é-ü] \"日本\" .{2} [^x]?";
        check(
            GrammarDialect::Ebnf,
            grammar,
            &[
                ("ê日本ab", None),
                ("ê日本😀\n\u{0}", None),
                ("ê日x", Some(5)),
                ("ê日本", Some(8)),
                ("e日", Some(0)),
                ("ê日本abx", Some(10)),
            ],
        );
    }

    #[test]
    fn counted_repetitions_are_exact() {
        for (least, most) in [
            (0, 0),
            (0, 1),
            (2, 2),
            (0, 6),
            (3, 11),
            (5, 8),
            (1, 7),
            (4, 4),
            (0, 16),
            (9, 31),
        ] {
            let recogniser = compile(
                GrammarDialect::Ebnf,
                &format!("root ::= \"ab\"{{{least},{most}}}"),
            )
            .unwrap();
            let open = compile(
                GrammarDialect::Ebnf,
                &format!("root ::= \"ab\"{{{least},}}"),
            )
            .unwrap();
            for count in 0..40 {
                let text = "ab".repeat(count);
                assert_eq!(
                    recogniser.recognise(&text) == Membership::Member,
                    (least..=most).contains(&count),
                    "{least} {most} {count}"
                );
                assert_eq!(
                    open.recognise(&text) == Membership::Member,
                    count >= least,
                    "{least} {count}"
                );
            }
        }
        let large = compile(GrammarDialect::Ebnf, "root ::= [a-z]{0,65536}").unwrap();
        assert_eq!(large.recognise(&"q".repeat(65_536)), Membership::Member);
        assert_eq!(
            large.recognise(&"q".repeat(65_537)),
            Membership::NotMember { byte: 65_536 }
        );
    }

    #[test]
    fn all_sentences_at_the_start_of_a_text_are_found() {
        for (grammar, text, ends, read) in [
            ("root ::= [a-z]+", "abc1", &[1, 2, 3][..], 3),
            ("root ::= \"a\"*", "aa", &[0, 1, 2], 2),
            ("root ::= \"(\" root \")\" | \"\"", "(())", &[0, 4], 4),
            ("root ::= \"é\" \"b\"?", "éc", &[2], 2),
            ("root ::= \"a\" root", "aaa", &[], 0),
            ("root ::= \"abc\"", "ab", &[], 2),
            ("root ::= \"abc\"", "abd", &[], 2),
        ] {
            let found = compile(GrammarDialect::Ebnf, grammar)
                .unwrap()
                .prefixes(text, 1000)
                .unwrap();
            assert_eq!((&found.ends[..], found.read), (ends, read), "{grammar}");
        }
        let grammar = compile(GrammarDialect::Ebnf, "root ::= \"a\"*").unwrap();
        assert!(grammar.prefixes(&"a".repeat(1000), 10).is_err());
    }

    #[test]
    fn ignored_text_is_allowed_between_terminals_and_not_inside() {
        let grammar = "start: \"let\" NAME (\"=\" /[0-9]+/)? | empty \"!\"~2\nempty:\nNAME: LETTER+\nLETTER: \"a\"..\"z\"\n%ignore \" \"\n%ignore /#[^#]*#/";
        check(
            GrammarDialect::Lark,
            grammar,
            &[
                ("letx=12", None),
                ("  let x = 12  ", None),
                ("#c#let#a##b# x #d#", None),
                ("le t x", Some(2)),
                ("let x = 1 2", Some(10)),
                ("let x y", Some(6)),
                (" ! # # !", None),
                ("let", Some(3)),
                ("#", Some(1)),
            ],
        );
    }

    #[test]
    fn an_empty_language_has_no_member() {
        for grammar in [
            "root ::= root \"a\"",
            "root ::= \"a\" b\nb ::= b | [^\\x00-\\U0010FFFF]",
        ] {
            check(GrammarDialect::Ebnf, grammar, &[("a", Some(0))]);
            assert_eq!(
                compile(GrammarDialect::Ebnf, grammar)
                    .unwrap()
                    .recognise(""),
                Membership::NotMember { byte: 0 }
            );
            assert!(
                !compile(GrammarDialect::Ebnf, grammar)
                    .unwrap()
                    .is_prefix("")
            );
        }
    }

    #[test]
    fn undefined_names_and_recursive_terminals_are_refused() {
        let (lark, ebnf) = (GrammarDialect::Lark, GrammarDialect::Ebnf);
        for (dialect, grammar, message) in [
            (ebnf, "foo ::= \"a\"", "no start rule in the grammar"),
            (lark, "foo: \"a\"", "no start rule in the grammar"),
            (ebnf, "", "no start rule in the grammar"),
            (
                ebnf,
                "root ::= \"a\" | missing",
                "undefined rule in the grammar: missing",
            ),
            (
                lark,
                "start: \"a\"\nb: MISSING",
                "undefined rule in the grammar: MISSING",
            ),
            (
                lark,
                "start: X\nU: A\nX: \"x\"\nA: \"a\" B\nB: A?",
                "unsupported in a grammar: recursive terminal: A (line 4)",
            ),
            (
                ebnf,
                &" ".repeat(MAX_GRAMMAR_BYTES + 1),
                "grammar beyond the limit: bytes of the grammar: 262144",
            ),
        ] {
            assert_eq!(compile(dialect, grammar).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn recognisers_are_send_and_sync() {
        fn shared<T: Send + Sync>() {}
        shared::<Recogniser>();
        shared::<PestOracle>();
    }

    #[test]
    fn large_and_hostile_input_is_bounded() {
        let list = compile(
            GrammarDialect::Ebnf,
            "root ::= item root | item\nitem ::= [a-z]+ \",\"",
        )
        .unwrap();
        assert_eq!(list.recognise(&"ab,".repeat(33_334)), Membership::Member);
        assert_eq!(
            list.recognise(&"ab,".repeat(33_334)[..100_001]),
            Membership::NotMember { byte: 100_001 }
        );
        for resource in [earley::Resource::Items, earley::Resource::Steps] {
            assert!(matches!(
                membership(earley::Recognition::OutOf(resource), 7),
                Membership::Limit { .. }
            ));
        }
        let words: Vec<String> = (0..9_000).map(|word| format!("\"w{word}\"")).collect();
        let choice = compile(
            GrammarDialect::Ebnf,
            &format!("root ::= {}", words.join(" | ")),
        )
        .unwrap();
        assert_eq!(choice.recognise("w8999"), Membership::Member);
        assert_eq!(choice.recognise("w9000"), Membership::NotMember { byte: 4 });
        let chain: String = (0..9_000)
            .map(|rule| format!("r{rule} ::= r{} | \"{}\"\n", rule + 1, rule % 10))
            .collect();
        let chain = compile(
            GrammarDialect::Ebnf,
            &format!("root ::= r0\n{chain}r9000 ::= \"z\""),
        )
        .unwrap();
        assert_eq!(chain.recognise("z"), Membership::Member);
        assert_eq!(chain.recognise("y"), Membership::NotMember { byte: 0 });
    }
}
