//! Walks through an engine's own masks, from where a matcher stands to an end: at random, or by the
//! shortest way that is known. Knows no constraint and no oracle.

use super::EngineResult;
use sobench_engine::{Matcher, TokenId, TokenMask, Vocabulary};
use sobench_pycompat::random::PythonRandom;

/// Tokens that bring most texts to an end, the most welcome first: what closes, then what is a
/// whole value, then what goes on.
const CLOSING: [&[u8]; 16] = [
    b"\"", b"}", b"]", b"\"}", b"\"]", b"1", b"0", b"true", b"null", b"\"\"", b"[]", b"{}", b":",
    b"\":", b"\n", b",",
];

/// Of so many steps at random one is a closing one, where there is one: texts that end are worth
/// more than long ones.
const CLOSING_EVERY: usize = 3;

/// Which token is taken where several may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// What closes; at random where nothing does.
    Shortest,
    /// Any token, and every third time one that closes.
    Random,
}

/// Where a walk came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The end is allowed, and was taken.
    Whole,
    /// Nothing is allowed.
    Dead,
    /// The steps were used up.
    Unfinished,
}

/// The tokens of a walk, without those that were committed before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Walk {
    pub(super) tokens: Vec<TokenId>,
    pub(super) end: End,
}

/// What every walk over a vocabulary is guided by.
pub(crate) struct Guide {
    /// The tokens of [`CLOSING`], those that there are.
    closing: Vec<TokenId>,
}

impl Guide {
    pub(crate) fn new(vocabulary: &Vocabulary) -> Self {
        let all = || (0..vocabulary.len()).filter_map(|id| TokenId::try_from(id).ok());
        let of = |bytes: &[u8]| all().find(|id| vocabulary.bytes(*id) == bytes);
        Self {
            closing: CLOSING.iter().filter_map(|bytes| of(bytes)).collect(),
        }
    }

    /// Walks on in at most `steps` masks. The matcher is left at the end of the walk.
    ///
    /// # Errors
    /// The library's own.
    pub(super) fn walk(
        &self,
        matcher: &mut dyn Matcher,
        vocabulary: &Vocabulary,
        manner: Manner,
        random: &mut PythonRandom,
        steps: usize,
    ) -> EngineResult<Walk> {
        let mut mask = TokenMask::new(vocabulary.len());
        let mut tokens = Vec::new();
        for step in 0..steps {
            matcher.mask(&mut mask)?;
            let others = mask.count() - usize::from(mask.allows(vocabulary.eos()));
            if mask.allows(vocabulary.eos())
                && (others == 0 || manner == Manner::Shortest || random.choice(2) == 0)
            {
                return Ok(Walk {
                    tokens,
                    end: End::Whole,
                });
            }
            if others == 0 {
                return Ok(Walk {
                    tokens,
                    end: End::Dead,
                });
            }
            let closes = manner == Manner::Shortest || step % CLOSING_EVERY == CLOSING_EVERY - 1;
            let closing = closes
                .then(|| {
                    self.closing
                        .iter()
                        .copied()
                        .find(|token| mask.allows(*token))
                })
                .flatten();
            let token = closing.unwrap_or_else(|| drawn(&mask, vocabulary.eos(), others, random));
            matcher.commit(token)?;
            tokens.push(token);
        }
        Ok(Walk {
            tokens,
            end: End::Unfinished,
        })
    }
}

/// One of the tokens that are no end, of which there are `others`.
fn drawn(mask: &TokenMask, eos: TokenId, others: usize, random: &mut PythonRandom) -> TokenId {
    let place = random.choice(others);
    mask.iter()
        .filter(|token| *token != eos)
        .nth(place)
        .expect("a place among those that were counted")
}
