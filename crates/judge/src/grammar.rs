//! Judges grammars: the answer must be a sentence. A handwritten oracle decides if there is one,
//! otherwise the general recognizer.

use sobench_core::constraint::GrammarDialect;
use sobench_core::verdict::{NotScored, Reason, Verdict};
use sobench_grammar::{GrammarError, Membership, PestOracle, Recogniser};

/// Decides membership.
pub(super) enum GrammarJudge {
    Oracle(PestOracle),
    Recogniser(Box<Recogniser>),
}

impl GrammarJudge {
    /// Compiles the oracle if there is one, otherwise the grammar. The error is the reason why
    /// answers cannot be scored.
    pub(super) fn compile(
        dialect: GrammarDialect,
        text: &str,
        oracle: Option<&str>,
    ) -> Result<Self, NotScored> {
        match oracle {
            Some(oracle) => PestOracle::compile(oracle)
                .map(Self::Oracle)
                .map_err(|error| not_scorable("grammar oracle", &error)),
            None => {
                let compiled = sobench_grammar::compile(dialect, text)
                    .map_err(|error| not_scorable("grammar", &error))?;
                Ok(Self::Recogniser(Box::new(compiled)))
            }
        }
    }

    /// Why no continuation of `text` can be a sentence, if that is certain. An oracle does not show
    /// it: another alternative of it may match a longer text.
    pub(super) fn final_violation(&self, text: &str) -> Option<Reason> {
        let Self::Recogniser(recogniser) = self else {
            return None;
        };
        match recogniser.recognise(text) {
            Membership::NotMember { byte } if byte < text.len() => Some(Reason::Grammar { byte }),
            _ => None,
        }
    }

    /// Whether `text` is a sentence.
    pub(super) fn judge(&self, text: &str) -> Verdict {
        let membership = match self {
            Self::Oracle(oracle) => oracle.recognise(text),
            Self::Recogniser(recogniser) => recogniser.recognise(text),
        };
        match membership {
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
