//! EBNF parser: any grammar is compiled or refused, with consistent results.
//!
//! Bytes: a grammar, a NUL, a text.

use sobench_core::constraint::GrammarDialect;

use super::draw::Draw;
use super::notation;

pub(crate) fn check(bytes: &[u8]) {
    let (grammar, text) = Draw::new(bytes).two_texts();
    notation::check(GrammarDialect::Ebnf, &grammar, &text);
}
