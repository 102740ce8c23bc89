//! Direct use of the engine libraries, as in their documentation.

use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::{Matcher as LlMatcher, ParserFactory};
use outlines_core::index::Index;
use serde_json::json;
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_engine::{EngineName, TokenId, Vocabulary};
use toktrie::{TokEnv, TokRxInfo, TokTrie, TokenizerEnv};
use xgrammar_port::{GrammarCompiler, GrammarMatcher, TokenizerInfo, VocabType};

use crate::{Start, Stepper};

/// Compiles a constraint with the library's API; `None` if it has none for this kind.
type Library = Box<dyn Fn(&Constraint) -> Option<Start>>;

/// All libraries by engine. Vocabulary tables are built here, once per library.
pub(crate) fn libraries(vocabulary: &Arc<Vocabulary>) -> Vec<(EngineName, Library)> {
    vec![
        (EngineName::Guidance, llguidance(vocabulary)),
        (EngineName::Xgrammar, xgrammar(vocabulary)),
        (EngineName::Outlines, outlines(vocabulary)),
    ]
}

struct Tokenizer {
    trie: TokTrie,
    vocabulary: Arc<Vocabulary>,
}

impl TokenizerEnv for Tokenizer {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }
    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.trie
            .tokenize_with_greedy_fallback(bytes, |text| self.vocabulary.encode(text))
    }
}

fn llguidance(vocabulary: &Arc<Vocabulary>) -> Library {
    let mut token_bytes: Vec<Vec<u8>> = (0..)
        .take(vocabulary.len())
        .map(|id| vocabulary.bytes(id).to_vec())
        .collect();
    for (id, name) in vocabulary.special() {
        token_bytes[*id as usize] = [&[TokTrie::SPECIAL_TOKEN_MARKER], name.as_bytes()].concat();
    }
    let trie = TokTrie::from(
        &TokRxInfo::new(token_bytes.len() as u32, vocabulary.eos()),
        &token_bytes,
    );
    let env: TokEnv = Arc::new(Tokenizer {
        trie,
        vocabulary: Arc::clone(vocabulary),
    });
    let mut factory = ParserFactory::new_simple(&env).unwrap();
    factory.quiet();
    Box::new(move |constraint| {
        let grammar = match constraint {
            Constraint::JsonSchema(schema) => TopLevelGrammar::from_json_schema((**schema).clone()),
            Constraint::JsonObject(_) => {
                TopLevelGrammar::from_json_schema(json!({"type": "object"}))
            }
            Constraint::Regex(regex) => TopLevelGrammar::from_regex(regex),
            Constraint::Grammar {
                dialect: GrammarDialect::Lark,
                text,
            } => TopLevelGrammar::from_lark(text.to_string()),
            _ => return None,
        };
        let matcher = LlMatcher::new(factory.create_parser(grammar));
        // A plain clone shares the lexer, as in the adapter for answers to one constraint.
        Some(Box::new(move || Box::new(Guidance(matcher.clone()))))
    })
}

struct Guidance(LlMatcher);

impl Stepper for Guidance {
    fn mask(&mut self) {
        std::hint::black_box(self.0.compute_mask_or_eos().unwrap());
    }
    fn commit(&mut self, token: TokenId) {
        assert_eq!(self.0.try_consume_tokens(&[token]).unwrap(), 1);
    }
}

fn xgrammar(vocabulary: &Arc<Vocabulary>) -> Library {
    let token_bytes: Vec<Vec<u8>> = (0..)
        .take(vocabulary.len())
        .map(|id| vocabulary.bytes(id).to_vec())
        .collect();
    let stop = Some(vec![vocabulary.eos() as i32]);
    let info = TokenizerInfo::new_from_bytes(
        &token_bytes,
        VocabType::Raw,
        Some(token_bytes.len() as i32),
        stop,
        false,
    )
    .unwrap();
    let compiler = GrammarCompiler::new(info, 1, false, -1);
    let mask_words = vocabulary.len().div_ceil(32);
    Box::new(move |constraint| {
        let schema = |text: &str| {
            compiler
                .compile_json_schema(text, true, None, None, true, None)
                .ok()
        };
        let compiled = match constraint {
            Constraint::JsonSchema(value) => schema(&value.to_string())?,
            Constraint::JsonObject(_) => schema(r#"{"type": "object"}"#)?,
            Constraint::Regex(regex) => compiler.compile_regex(regex).ok()?,
            _ => return None,
        };
        Some(Box::new(move || {
            let matcher = GrammarMatcher::from_compiled_grammar(&compiled, false);
            Box::new(Xgrammar {
                matcher,
                row: vec![0; mask_words],
            })
        }))
    })
}

struct Xgrammar {
    matcher: GrammarMatcher,
    row: Vec<i32>,
}

impl Stepper for Xgrammar {
    fn mask(&mut self) {
        let shape = [self.row.len() as i64];
        self.matcher
            .fill_next_token_bitmask(&mut self.row, &shape, 0)
            .unwrap();
        std::hint::black_box(&self.row);
    }
    fn commit(&mut self, token: TokenId) {
        assert!(self.matcher.accept_token(token as i32));
    }
}

fn outlines(vocabulary: &Arc<Vocabulary>) -> Library {
    let mut token_bytes = outlines_core::vocabulary::Vocabulary::new(vocabulary.eos());
    for id in (0..)
        .take(vocabulary.len())
        .filter(|&id| !vocabulary.bytes(id).is_empty())
    {
        token_bytes
            .try_insert(vocabulary.bytes(id).to_vec(), id)
            .unwrap();
    }
    let mask_words = vocabulary.len().div_ceil(32);
    Box::new(move |constraint| {
        let regex = match constraint {
            Constraint::JsonSchema(schema) => {
                outlines_core::json_schema::regex_from_value(schema, None, None).ok()?
            }
            Constraint::Regex(regex) => regex.to_string(),
            _ => return None,
        };
        let index = Arc::new(Index::new(&regex, &token_bytes).ok()?);
        Some(Box::new(move || {
            let index = Arc::clone(&index);
            Box::new(Outlines {
                state: index.initial_state(),
                index,
                row: vec![0; mask_words],
            })
        }))
    })
}

struct Outlines {
    index: Arc<Index>,
    state: u32,
    row: Vec<u32>,
}

impl Stepper for Outlines {
    fn mask(&mut self) {
        self.row.fill(0);
        for &token in self
            .index
            .allowed_tokens_iter(&self.state)
            .into_iter()
            .flatten()
        {
            self.row[token as usize / 32] |= 1 << (token % 32);
        }
        std::hint::black_box(&self.row);
    }
    fn commit(&mut self, token: TokenId) {
        self.state = self.index.next_state(&self.state, &token).unwrap();
    }
}
