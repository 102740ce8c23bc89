//! Walks through an engine's own masks to an end, at random or by a short path.

use super::EngineResult;
use sobench_engine::{Matcher, TokenId, TokenMask, Vocabulary};
use sobench_pycompat::random::PythonRandom;

/// Tokens that complete most texts, in order of preference: closing tokens, complete values, then
/// continuations.
const CLOSING: [&[u8]; 16] = [
    b"\"", b"}", b"]", b"\"}", b"\"]", b"1", b"0", b"true", b"null", b"\"\"", b"[]", b"{}", b":",
    b"\":", b"\n", b",",
];

/// Every n-th random step takes a closing token if possible, since complete texts are more useful
/// than long ones.
const CLOSING_EVERY: usize = 3;

/// How the next token is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WalkStrategy {
    /// A closing token, or a random one if none is allowed.
    Shortest,
    /// A random token, and every third time a closing one.
    Random,
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WalkEnd {
    /// The end was reached.
    Complete,
    /// Nothing is allowed.
    DeadEnd,
    /// The step limit was reached.
    Unfinished,
}

/// The tokens of a walk, without those committed before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Walk {
    pub(super) tokens: Vec<TokenId>,
    pub(super) end: WalkEnd,
}

/// The closing tokens of a vocabulary.
pub(crate) struct WalkGuide {
    /// The tokens of [`CLOSING`] that exist in the vocabulary.
    closing: Vec<TokenId>,
}

impl WalkGuide {
    pub(crate) fn new(vocabulary: &Vocabulary) -> Self {
        let all = || (0..vocabulary.len()).filter_map(|id| TokenId::try_from(id).ok());
        let token_of = |bytes: &[u8]| all().find(|id| vocabulary.bytes(*id) == bytes);
        Self {
            closing: CLOSING.iter().filter_map(|bytes| token_of(bytes)).collect(),
        }
    }

    /// Walks at most `steps` masks and leaves the matcher at the end of the walk.
    ///
    /// # Errors
    /// An error of the library.
    pub(super) fn walk(
        &self,
        matcher: &mut dyn Matcher,
        vocabulary: &Vocabulary,
        strategy: WalkStrategy,
        random: &mut PythonRandom,
        steps: usize,
    ) -> EngineResult<Walk> {
        let mut mask = TokenMask::new(vocabulary.len());
        let mut tokens = Vec::new();
        for step in 0..steps {
            matcher.mask(&mut mask)?;
            let others = mask.count() - usize::from(mask.allows(vocabulary.eos()));
            if mask.allows(vocabulary.eos())
                && (others == 0 || strategy == WalkStrategy::Shortest || random.choice(2) == 0)
            {
                return Ok(Walk {
                    tokens,
                    end: WalkEnd::Complete,
                });
            }
            if others == 0 {
                return Ok(Walk {
                    tokens,
                    end: WalkEnd::DeadEnd,
                });
            }
            let closes =
                strategy == WalkStrategy::Shortest || step % CLOSING_EVERY == CLOSING_EVERY - 1;
            let closing = closes
                .then(|| {
                    self.closing
                        .iter()
                        .copied()
                        .find(|token| mask.allows(*token))
                })
                .flatten();
            let token =
                closing.unwrap_or_else(|| random_token(&mask, vocabulary.eos(), others, random));
            matcher.commit(token)?;
            tokens.push(token);
        }
        Ok(Walk {
            tokens,
            end: WalkEnd::Unfinished,
        })
    }
}

/// A random token other than the end, of which there are `others`.
fn random_token(
    mask: &TokenMask,
    eos: TokenId,
    others: usize,
    random: &mut PythonRandom,
) -> TokenId {
    let place = random.choice(others);
    mask.iter()
        .filter(|token| *token != eos)
        .nth(place)
        .expect("the index is below the number of tokens")
}
