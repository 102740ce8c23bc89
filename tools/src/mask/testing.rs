//! A fake engine for tests: its language is a list of texts, with configurable faults.

use std::sync::Arc;

use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_engine::vocabulary::shared;
use sobench_engine::{Engine, EngineError, Grammar, Matcher, TokenId, TokenMask};

/// Faults, some after a number of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quirk {
    None,
    /// Compiling panics.
    Panic,
    /// Compiling reports an unsupported feature.
    Decline,
    /// A mask returns an error.
    Fail(usize),
    /// A mask reports a panic of the library.
    Crash(usize),
    /// A mask is empty.
    DeadEnd(usize),
    /// The end is allowed wrongly.
    End(usize),
    /// A token that the mask allows is refused by commit.
    Refuse(usize),
    /// Rollback of at least this many tokens leaves the first of them.
    ShortRollback(usize),
    /// Rollback of at least this many tokens forgets whether the text may end.
    LostEnd(usize),
    /// Rollback of more tokens is refused.
    RollbackLimit(usize),
    /// A fork lacks the last token.
    WrongFork,
    /// The rest of the text is forced if there is only one.
    Forces,
    /// As [`Quirk::Forces`], in tokens of one byte.
    ForcesBytes,
}

/// An engine for choices; each choice is a sequence of canonical tokens.
pub(super) struct FakeEngine(pub(super) Quirk);

impl Engine for FakeEngine {
    fn name(&self) -> &'static str {
        "fake"
    }
    fn version(&self) -> &'static str {
        "fake 1"
    }
    fn settings(&self) -> Vec<(&'static str, String)> {
        vec![("quirk", format!("{:?}", self.0))]
    }
    fn grammar_dialects(&self) -> &'static [GrammarDialect] {
        &[]
    }
    fn compile(&self, constraint: &Constraint) -> Result<Arc<dyn Grammar>, EngineError> {
        match self.0 {
            Quirk::Panic => panic!("boom"),
            Quirk::Decline => Err(EngineError::Unsupported {
                feature: "it".into(),
                message: "no it here".into(),
            }),
            quirk => match constraint {
                Constraint::Choice(texts) => Ok(Arc::new(FakeGrammar::new(texts, quirk))),
                other => Err(EngineError::Invalid {
                    message: format!("not a choice: {}", other.kind()),
                }),
            },
        }
    }
}

#[derive(Clone)]
pub(super) struct FakeGrammar {
    texts: Arc<[Vec<TokenId>]>,
    quirk: Quirk,
}

impl FakeGrammar {
    pub(super) fn new(texts: &[impl AsRef<str>], quirk: Quirk) -> Self {
        Self {
            texts: texts
                .iter()
                .map(|text| shared().encode(text.as_ref()))
                .collect(),
            quirk,
        }
    }
}

impl Grammar for FakeGrammar {
    fn matcher(&self) -> Result<Box<dyn Matcher>, EngineError> {
        Ok(Box::new(FakeMatcher {
            grammar: self.clone(),
            taken: Vec::new(),
            lost_end: false,
        }))
    }
    fn memory_bytes(&self) -> Option<u64> {
        Some(7)
    }
}

#[derive(Clone)]
struct FakeMatcher {
    grammar: FakeGrammar,
    taken: Vec<TokenId>,
    lost_end: bool,
}

impl FakeMatcher {
    fn is_ended(&self) -> bool {
        self.taken.last() == Some(&shared().eos())
    }

    /// The next token of each matching text; `None` is the end.
    fn next(&self) -> impl Iterator<Item = Option<TokenId>> + '_ {
        let rest = |text: &'_ Vec<TokenId>| Some(text.strip_prefix(&*self.taken)?.first().copied());
        self.grammar.texts.iter().filter_map(rest)
    }
}

impl Matcher for FakeMatcher {
    fn mask(&mut self, mask: &mut TokenMask) -> Result<(), EngineError> {
        *mask = TokenMask::new(shared().len());
        let here = self.taken.len();
        match self.grammar.quirk {
            Quirk::Fail(place) if place == here => {
                return Err(EngineError::TooLarge {
                    message: "too much".into(),
                });
            }
            Quirk::Crash(place) if place == here => {
                return Err(EngineError::Crashed {
                    message: "ouch".into(),
                });
            }
            Quirk::DeadEnd(place) if place == here => return Ok(()),
            Quirk::End(place) if place == here => mask.allow(shared().eos()),
            _ => {}
        }
        if self.is_ended() {
            mask.allow(shared().eos());
        }
        self.next()
            .for_each(|token| mask.allow(token.unwrap_or_else(|| shared().eos())));
        Ok(())
    }
    fn commit(&mut self, token: TokenId) -> Result<(), EngineError> {
        let meant = (token != shared().eos()).then_some(token);
        if self.grammar.quirk == Quirk::Refuse(self.taken.len())
            || !self.next().any(|next| next == meant)
        {
            return Err(EngineError::Invalid {
                message: format!("not {token}"),
            });
        }
        self.taken.push(token);
        Ok(())
    }
    fn is_accepting(&mut self) -> Result<bool, EngineError> {
        Ok(!self.lost_end && (self.is_ended() || self.next().any(|next| next.is_none())))
    }
    fn forced_tokens(&mut self) -> Vec<TokenId> {
        let texts = self.grammar.texts.iter();
        let rests: Vec<_> = texts
            .filter_map(|text| text.strip_prefix(&*self.taken))
            .collect();
        match (self.grammar.quirk, &rests[..]) {
            (Quirk::Forces, [rest]) => rest.to_vec(),
            (Quirk::ForcesBytes, [rest]) => {
                let text = String::from_utf8(shared().decode(rest)).unwrap();
                let bytes = text.chars();
                bytes
                    .flat_map(|byte| shared().encode(&byte.to_string()))
                    .collect()
            }
            _ => Vec::new(),
        }
    }
    fn rollback(&mut self, tokens: usize) -> Result<(), EngineError> {
        let left = self.taken.len().saturating_sub(tokens);
        match self.grammar.quirk {
            Quirk::RollbackLimit(limit) if tokens > limit => {
                return Err(EngineError::Invalid {
                    message: format!("at most {limit}, not {tokens}"),
                });
            }
            Quirk::ShortRollback(least) if tokens >= least => self.taken.truncate(left + 1),
            Quirk::LostEnd(least) if tokens >= least => {
                self.lost_end = true;
                self.taken.truncate(left);
            }
            _ => self.taken.truncate(left),
        }
        Ok(())
    }
    fn fork(&self) -> Box<dyn Matcher> {
        let mut fork = self.clone();
        if self.grammar.quirk == Quirk::WrongFork {
            fork.taken.pop();
        }
        Box::new(fork)
    }
}
