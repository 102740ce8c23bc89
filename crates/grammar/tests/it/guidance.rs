//! llguidance as an oracle of Lark grammars. Also included by the engines' tests.

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::ApproximateTokEnv;
use llguidance::{Matcher, ParserFactory};

/// llguidance over a vocabulary of single bytes: a recogniser of the Lark that it reads, greedy
/// lexer and all.
pub(crate) struct Engine(ParserFactory);

impl Engine {
    pub(crate) fn new() -> Self {
        let mut factory = ParserFactory::new_simple(&ApproximateTokEnv::single_byte_env())
            .expect("a vocabulary of bytes suits every engine");
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
