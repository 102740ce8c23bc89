//! Grammars: the answer is a sentence. An oracle decides where its author wrote one, the general
//! recogniser otherwise.

use sobench_core::constraint::GrammarDialect;
use sobench_core::verdict::{NotScored, Reason, Verdict};
use sobench_grammar::{self as grammar, GrammarError, Membership, PestOracle, Recogniser};

/// What decides about membership.
pub(super) enum GrammarJudge {
    Oracle(PestOracle),
    Recogniser(Box<Recogniser>),
}

impl GrammarJudge {
    /// Prepares the oracle if there is one, else the grammar itself; where that is impossible, says
    /// why there will be no verdict.
    pub(super) fn compile(
        dialect: GrammarDialect,
        text: &str,
        oracle: Option<&str>,
    ) -> Result<Self, NotScored> {
        match oracle {
            Some(oracle) => PestOracle::compile(oracle)
                .map(Self::Oracle)
                .map_err(|error| unusable("grammar oracle", &error)),
            None => {
                let compiled =
                    grammar::compile(dialect, text).map_err(|error| unusable("grammar", &error))?;
                Ok(Self::Recogniser(Box::new(compiled)))
            }
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

fn unusable(part: &str, error: &GrammarError) -> NotScored {
    let what = format!("{part}: {error}");
    match error {
        GrammarError::Limit { .. } => NotScored::Limit { what },
        _ => NotScored::Unsupported { what },
    }
}
