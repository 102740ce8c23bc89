//! llguidance as an oracle for Lark grammars. Also included by the tests of the engines.

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::ApproximateTokEnv;
use llguidance::{Matcher, ParserFactory};

/// llguidance with a vocabulary of single bytes: a recogniser for Lark, including the greedy lexer.
pub(crate) struct Engine(ParserFactory);

impl Engine {
    pub(crate) fn new() -> Self {
        let mut factory = ParserFactory::new_simple(&ApproximateTokEnv::single_byte_env())
            .expect("a byte vocabulary is valid");
        factory.quiet();
        Self(factory)
    }

    pub(crate) fn matcher(&self, lark: &str) -> Result<Matcher, String> {
        let grammar = TopLevelGrammar::from_lark(lark.to_owned());
        self.0
            .create_parser(grammar)
            .map(|parser| Matcher::new(Ok(parser)))
            .map_err(|error| error.to_string())
    }
}

pub(crate) fn engine_accepts(matcher: &Matcher, text: &str) -> bool {
    let mut matcher = matcher.deep_clone();
    let tokens: Vec<u32> = text.bytes().map(u32::from).collect();
    matches!(matcher.try_consume_tokens(&tokens), Ok(taken) if taken == tokens.len())
        && matcher.is_accepting().unwrap_or(false)
}
