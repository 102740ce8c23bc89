//! A slow and correct reference engine for tests: it checks every token of a small vocabulary,
//! character by character, against a handwritten grammar of the constraint. Optionally with one
//! mask bug.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_engine::{Engine, EngineError, Grammar, Matcher, TokenId, TokenMask, Vocabulary};
use sobench_grammar::{self as grammar, Membership, Recogniser};

/// A language with cached masks and prefix checks.
pub(super) struct Language {
    recogniser: Recogniser,
    vocabulary: Arc<Vocabulary>,
    viable: Mutex<HashMap<Vec<u8>, bool>>,
    masks: Mutex<HashMap<Vec<u8>, TokenMask>>,
}

impl Language {
    /// The language of a grammar in EBNF.
    pub(super) fn new(grammar: &str, vocabulary: &Arc<Vocabulary>) -> Self {
        let recogniser = grammar::compile(GrammarDialect::Ebnf, grammar).unwrap();
        let vocabulary = Arc::clone(vocabulary);
        Self {
            recogniser,
            vocabulary,
            viable: Mutex::default(),
            masks: Mutex::default(),
        }
    }

    fn is_viable(&self, bytes: &[u8]) -> bool {
        let known = self.viable.lock().unwrap().get(bytes).copied();
        known.unwrap_or_else(|| {
            // The grammars of the tests are ASCII: half a character is no prefix.
            let viable =
                std::str::from_utf8(bytes).is_ok_and(|text| self.recogniser.is_prefix(text));
            self.viable.lock().unwrap().insert(bytes.to_vec(), viable);
            viable
        })
    }

    fn is_complete(&self, bytes: &[u8]) -> bool {
        std::str::from_utf8(bytes)
            .is_ok_and(|text| self.recogniser.recognise(text) == Membership::Member)
    }

    fn takes(&self, before: &[u8], token: TokenId) -> bool {
        let bytes = self.vocabulary.bytes(token);
        !bytes.is_empty()
            && (1..=bytes.len()).all(|end| self.is_viable(&[before, &bytes[..end]].concat()))
    }

    pub(super) fn mask(&self, before: &[u8]) -> TokenMask {
        if let Some(mask) = self.masks.lock().unwrap().get(before) {
            return mask.clone();
        }
        let mut mask = TokenMask::new(self.vocabulary.len());
        (0..self.vocabulary.len() as TokenId)
            .filter(|token| self.takes(before, *token))
            .for_each(|token| mask.allow(token));
        if self.is_complete(before) {
            mask.allow(self.vocabulary.eos());
        }
        self.masks
            .lock()
            .unwrap()
            .insert(before.to_vec(), mask.clone());
        mask
    }
}

/// One wrong bit in one mask: after exactly these bytes, this token is wrongly allowed or refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bug {
    pub(super) before: Vec<u8>,
    pub(super) token: TokenId,
}

/// An error of rollback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RollbackBug {
    /// Rollback of at least this many tokens leaves the first of them.
    Short(usize),
    /// After rollback of at least this many tokens, the text may not end.
    LostEnd(usize),
    /// After rollback of at least this many tokens, commit refuses every token.
    Refuses(usize),
    /// Rollback of more tokens is refused, which is no error.
    Limit(usize),
}

/// The engine of one language, optionally with a bug.
#[derive(Clone)]
pub(super) struct Reference {
    pub(super) language: Arc<Language>,
    pub(super) bug: Option<Bug>,
    pub(super) rollback_bug: Option<RollbackBug>,
}

impl Engine for Reference {
    fn name(&self) -> &'static str {
        "reference"
    }
    fn version(&self) -> &'static str {
        "reference 1"
    }
    fn settings(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
    fn compile(&self, _: &Constraint) -> Result<Arc<dyn Grammar>, EngineError> {
        Ok(Arc::new(self.clone()))
    }
    fn grammar_dialects(&self) -> &'static [GrammarDialect] {
        &[]
    }
}

impl Grammar for Reference {
    fn matcher(&self) -> Result<Box<dyn Matcher>, EngineError> {
        Ok(Box::new(ReferenceMatcher {
            engine: self.clone(),
            tokens: Vec::new(),
            is_ended: false,
            lost_end: false,
            refuses: false,
        }))
    }
}

#[derive(Clone)]
struct ReferenceMatcher {
    engine: Reference,
    /// Without the end token.
    tokens: Vec<TokenId>,
    is_ended: bool,
    lost_end: bool,
    refuses: bool,
}

impl ReferenceMatcher {
    /// The effective bytes, and whether the bug applies now: a token that a bug adds is accepted
    /// and ignored.
    fn read(&self) -> (Vec<u8>, bool) {
        let vocabulary = &self.engine.language.vocabulary;
        let (mut bytes, mut written) = (Vec::new(), Vec::new());
        for token in &self.tokens {
            let is_added = self
                .engine
                .bug
                .as_ref()
                .is_some_and(|bug| bug.before == written && bug.token == *token)
                && !self.engine.language.mask(&bytes).allows(*token);
            if !is_added {
                bytes.extend_from_slice(vocabulary.bytes(*token));
            }
            written.extend_from_slice(vocabulary.bytes(*token));
        }
        let is_there = self
            .engine
            .bug
            .as_ref()
            .is_some_and(|bug| bug.before == written);
        (bytes, is_there)
    }

    fn masked(&self) -> TokenMask {
        if self.is_ended {
            let mut only = TokenMask::new(self.engine.language.vocabulary.len());
            only.allow(self.engine.language.vocabulary.eos());
            return only;
        }
        let (bytes, is_there) = self.read();
        let mask = self.engine.language.mask(&bytes);
        let Some(bug) = self.engine.bug.as_ref().filter(|_| is_there) else {
            return mask;
        };
        let mut only = TokenMask::new(self.engine.language.vocabulary.len());
        only.allow(bug.token);
        if mask.allows(bug.token) {
            return mask.difference(&only);
        }
        let mut mask = mask;
        mask.allow(bug.token);
        mask
    }
}

impl Matcher for ReferenceMatcher {
    fn mask(&mut self, mask: &mut TokenMask) -> Result<(), EngineError> {
        *mask = self.masked();
        Ok(())
    }
    fn commit(&mut self, token: TokenId) -> Result<(), EngineError> {
        let is_refused = self.is_ended || self.refuses || !self.masked().allows(token);
        if !is_refused && token == self.engine.language.vocabulary.eos() {
            self.is_ended = true;
            return Ok(());
        }
        if is_refused {
            return Err(EngineError::Invalid {
                message: format!("not {token}"),
            });
        }
        self.tokens.push(token);
        Ok(())
    }
    fn is_accepting(&mut self) -> Result<bool, EngineError> {
        let eos = self.engine.language.vocabulary.eos();
        Ok(!self.lost_end && self.masked().allows(eos))
    }
    fn forced_tokens(&mut self) -> Vec<TokenId> {
        Vec::new()
    }
    fn rollback(&mut self, tokens: usize) -> Result<(), EngineError> {
        let inner = tokens - usize::from(self.is_ended && tokens > 0);
        let left = self.tokens.len().saturating_sub(inner);
        let left = match self.engine.rollback_bug {
            Some(RollbackBug::Limit(limit)) if tokens > limit => {
                return Err(EngineError::Invalid {
                    message: format!("at most {limit} tokens, not {tokens}"),
                });
            }
            Some(RollbackBug::Short(least)) if tokens >= least => left + 1,
            Some(RollbackBug::LostEnd(least)) if tokens >= least => {
                self.lost_end = true;
                left
            }
            Some(RollbackBug::Refuses(least)) if tokens >= least => {
                self.refuses = true;
                left
            }
            _ => left,
        };
        self.is_ended &= tokens == 0;
        self.tokens.truncate(left);
        Ok(())
    }
    fn fork(&self) -> Box<dyn Matcher> {
        Box::new(self.clone())
    }
}
