//! Reads Lark and EBNF/GBNF and decides membership. Pure: no clock, no network, no environment.
//!
//! A grammar is read by a pest meta-grammar of its dialect (`grammars/meta/`), turned into a
//! context-free grammar over Unicode scalars, and recognised by an Earley chart. What is decided is
//! **membership in the context-free language, as a set of texts**: every reading counts, whichever
//! alternative stands first.
//!
//! Where that differs from what an engine does:
//! - A *PEG* (pest) commits to the first alternative and to the longest repetition. [`PestOracle`] runs one where its author
//!   wrote one; it never decides for a Lark or EBNF grammar.
//! - A *lexer* (Lark's, and llguidance's for Lark) takes the longest terminal and never gives it back: for it,
//!   `start: WORD "END"` with `WORD: /[a-zA-Z]+/` has no sentence, and here `fooEND` is one. Its sentences are all sentences
//!   here, so an answer is never called wrong because of it.
//! - `%ignore X` lets `X` stand before, after and between terminals, any number of times, and never inside one.
//! - A terminal is read as Rust's regular-expression syntax, as in llguidance: `\d` and `\w` are Unicode's, `.` is not a line
//!   feed.

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
pub use error::GrammarError;
pub use limits::{
    MAX_CHART_ITEMS, MAX_CONVERTED_PARTS, MAX_GRAMMAR_BYTES, MAX_LOOKAHEAD_BITS, MAX_NESTING,
    MAX_ORACLE_BYTES, MAX_ORACLE_NESTING, MAX_ORACLE_OPERATORS, MAX_PEST_CALLS,
    MAX_PORTABLE_REPETITIONS, MAX_QUANTIFIERS, MAX_REPETITIONS, MAX_STEPS, MAX_SYMBOLS,
    MAX_UNICODE_CLASSES,
};
pub use pest_oracle::PestOracle;

use sobench_core::constraint::GrammarDialect;

/// A grammar ready to judge any number of texts, from any thread.
#[derive(Debug)]
pub struct Recogniser {
    tables: tables::Tables,
}

/// Whether a text is a sentence of a grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Membership {
    /// A sentence.
    Member,
    /// Not a sentence: the character that begins at this byte continues none; the text's length
    /// where it stopped too early.
    NotMember { byte: usize },
    /// Deciding would have passed a named limit.
    Limit { what: String },
}

/// Turns a grammar text into a recogniser.
///
/// # Errors
/// See [`GrammarError`]: text that is not of the dialect, a rule that is used and not defined, no
/// start rule (`start` in Lark, `root` in EBNF), a construct that membership in a context-free
/// language cannot decide, a limit.
pub fn compile(dialect: GrammarDialect, text: &str) -> Result<Recogniser, GrammarError> {
    let tables = tables::Tables::new(&cfg::build(&read(dialect, text)?)?)?;
    Ok(Recogniser { tables })
}

/// What a text says, whatever dialect it is written in.
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
            what: format!("classes of Unicode: {MAX_UNICODE_CLASSES}"),
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
        membership(earley::read(&self.tables, text), text.len())
    }

    /// Whether some sentence of the grammar begins with `text` (a sentence begins with itself). No
    /// where a limit was passed: [`Self::recognise`] tells the two apart.
    pub fn is_prefix(&self, text: &str) -> bool {
        matches!(
            earley::read(&self.tables, text),
            earley::Found::Sentence | earley::Found::Beginning
        )
    }
}

fn membership(found: earley::Found, length: usize) -> Membership {
    match found {
        earley::Found::Sentence => Membership::Member,
        earley::Found::Beginning => Membership::NotMember { byte: length },
        earley::Found::Dead { byte } => Membership::NotMember { byte },
        earley::Found::OutOf(earley::Resource::Items) => Membership::Limit {
            what: format!("items of the chart: {MAX_CHART_ITEMS}"),
        },
        earley::Found::OutOf(earley::Resource::Steps) => Membership::Limit {
            what: format!("steps of the recogniser: {MAX_STEPS}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts with the byte where they leave the language, none for sentences.
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
    fn bytes_count_bytes_and_classes_count_scalars() {
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
    fn counts_are_exact() {
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
    fn ignored_text_stands_between_terminals_and_not_inside() {
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
    fn nothing_is_a_sentence_of_a_language_without_sentences() {
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
    fn names_have_to_be_defined_and_terminals_have_to_end() {
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
                "unsupported in a grammar: terminal that refers to itself: A (line 4)",
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
    fn a_recogniser_serves_many_threads() {
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
                membership(earley::Found::OutOf(resource), 7),
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
