//! Judges grammars: the answer must be a sentence. A handwritten oracle decides if there is one,
//! otherwise the general recognizer.
//!
//! Starts of sentences are always decided by the recogniser: a pest grammar does not show whether a
//! longer text could match.

use sobench_core::constraint::GrammarDialect;
use sobench_core::verdict::{NotScored, Reason, Verdict};
use sobench_grammar::{GrammarError, Membership, PestOracle, Recogniser};

/// Decides membership.
pub(super) enum GrammarJudge {
    /// With the recogniser of the grammar, unless it cannot be compiled.
    Oracle(PestOracle, Option<Box<Recogniser>>),
    Recogniser(Box<Recogniser>),
}

impl GrammarJudge {
    /// Compiles the grammar, and the oracle if there is one. The error is the reason why answers
    /// cannot be scored.
    pub(super) fn compile(
        dialect: GrammarDialect,
        text: &str,
        oracle: Option<&str>,
    ) -> Result<Self, NotScored> {
        let recogniser = sobench_grammar::compile(dialect, text).map(Box::new);
        match oracle {
            Some(oracle) => PestOracle::compile(oracle)
                .map(|oracle| Self::Oracle(oracle, recogniser.ok()))
                .map_err(|error| not_scorable("grammar oracle", &error)),
            None => recogniser
                .map(Self::Recogniser)
                .map_err(|error| not_scorable("grammar", &error)),
        }
    }

    /// Why no continuation of `text` can be a sentence, if that is certain.
    pub(super) fn final_violation(&self, text: &str) -> Option<Reason> {
        let recogniser = match self {
            Self::Oracle(_, recogniser) => recogniser.as_ref()?,
            Self::Recogniser(recogniser) => recogniser,
        };
        match recogniser.recognise(text) {
            // Where the two languages differ, the oracle decides.
            Membership::NotMember { byte }
                if byte < text.len() && self.membership(text) != Membership::Member =>
            {
                Some(Reason::Grammar { byte })
            }
            _ => None,
        }
    }

    fn membership(&self, text: &str) -> Membership {
        match self {
            Self::Oracle(oracle, _) => oracle.recognise(text),
            Self::Recogniser(recogniser) => recogniser.recognise(text),
        }
    }

    /// Whether `text` is a sentence.
    pub(super) fn judge(&self, text: &str) -> Verdict {
        match self.membership(text) {
            Membership::Member => Verdict::Valid,
            Membership::NotMember { .. } if text.is_empty() => Verdict::Invalid {
                reason: Reason::Empty,
            },
            Membership::NotMember { byte } => Verdict::Invalid {
                reason: Reason::Grammar { byte },
            },
            Membership::Limit { what } => Verdict::NotScored {
                why: NotScored::Limit { what },
            },
        }
    }
}

pub(super) fn not_scorable(part: &str, error: &GrammarError) -> NotScored {
    let what = format!("{part}: {error}");
    match error {
        GrammarError::Limit { .. } => NotScored::Limit { what },
        _ => NotScored::Unsupported { what },
    }
}
