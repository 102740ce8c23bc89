//! Walks a matcher along a text, token by token, with a clock in hand, and says what that shows.
//! Knows no corpus and no process.
//!
//! Between the two instants of a duration there is one call into the engine and nothing else.
//! Whatever has to be judged of a walk is judged after it.

use super::clock::measure;
use super::protocol::Samples;
use super::row::InstanceOutcome;
use sobench_engine::{EngineError, Grammar, Matcher, TokenId, TokenMask, Vocabulary};

/// What a walk came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trace {
    pub(super) samples: Samples,
    /// How many tokens each mask allows.
    pub(super) allowed: Vec<usize>,
    /// Bytes of the text after which the end was allowed, though the text goes on.
    pub(super) ends: Vec<usize>,
    pub(super) halt: Halt,
    /// Bytes of the text that were committed.
    pub(super) byte: usize,
}

/// Why a walk went no further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// The text is over, and the end is allowed.
    Accepted,
    /// The text is over, and the end is not allowed.
    EndRefused,
    /// The next token is not allowed.
    TokenRefused(TokenId),
    /// Nothing is allowed.
    DeadEnd,
    /// The engine said so, in its words; a token that its mask allows and it does not take is among
    /// these.
    Failed { words: String },
    /// The library panicked.
    Crashed { words: String },
}

/// What the corpus and our evaluator say of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Labels {
    pub(super) label: Option<bool>,
    pub(super) judged: Option<bool>,
}

/// Walks along `tokens` on a new matcher.
pub(super) fn walk(
    grammar: &dyn Grammar,
    vocabulary: &Vocabulary,
    tokens: &[TokenId],
    mask: &mut TokenMask,
) -> Trace {
    let samples = Samples {
        mask: Vec::with_capacity(tokens.len() + 1),
        commit: Vec::with_capacity(tokens.len()),
    };
    let mut trace = Trace {
        samples,
        allowed: Vec::with_capacity(tokens.len() + 1),
        ends: Vec::new(),
        halt: Halt::Accepted,
        byte: 0,
    };
    trace.halt = match grammar.matcher() {
        Ok(mut matcher) => steps(&mut *matcher, vocabulary, tokens, mask, &mut trace),
        Err(error) => Halt::from(error),
    };
    trace
}

fn steps(
    matcher: &mut dyn Matcher,
    vocabulary: &Vocabulary,
    tokens: &[TokenId],
    mask: &mut TokenMask,
    trace: &mut Trace,
) -> Halt {
    let mut rest = tokens.iter().copied();
    loop {
        let (masked, ns) = measure(|| matcher.mask(mask));
        if let Err(error) = masked {
            return error.into();
        }
        trace.samples.mask.push(ns);
        trace.allowed.push(mask.count());
        let may_end = mask.allows(vocabulary.eos());
        let Some(token) = rest.next() else {
            return if may_end {
                Halt::Accepted
            } else {
                refused(mask, Halt::EndRefused)
            };
        };
        if may_end {
            trace.ends.push(trace.byte);
        }
        if !mask.allows(token) {
            return refused(mask, Halt::TokenRefused(token));
        }
        let (committed, ns) = measure(|| matcher.commit(token));
        if let Err(error) = committed {
            return error.into();
        }
        trace.samples.commit.push(ns);
        trace.byte += vocabulary.bytes(token).len();
    }
}

fn refused(mask: &TokenMask, halt: Halt) -> Halt {
    if mask.count() == 0 {
        Halt::DeadEnd
    } else {
        halt
    }
}

/// What a second walk came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Again {
    pub(super) samples: Samples,
    /// What was not as on the first walk.
    pub(super) fault: Option<Fault>,
}

/// How a second walk over the same tokens differs from the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// [`Halt::Failed`] or [`Halt::Crashed`].
    pub(super) halt: Halt,
    /// Bytes of the text that were committed before.
    pub(super) byte: usize,
}

/// Walks again as far as `trace` went, on a new matcher of the same grammar, which has to allow as
/// many tokens everywhere.
pub(super) fn again(
    grammar: &dyn Grammar,
    vocabulary: &Vocabulary,
    tokens: &[TokenId],
    trace: &Trace,
    mask: &mut TokenMask,
) -> Again {
    let (masks, commits) = (trace.samples.mask.len(), trace.samples.commit.len());
    let mut samples = Samples {
        mask: Vec::with_capacity(masks),
        commit: Vec::with_capacity(commits),
    };
    let halt = steps_again(
        grammar,
        &tokens[..commits],
        &trace.allowed,
        mask,
        &mut samples,
    )
    .err();
    let byte = tokens[..samples.commit.len()]
        .iter()
        .map(|token| vocabulary.bytes(*token).len())
        .sum();
    Again {
        samples,
        fault: halt.map(|halt| Fault { halt, byte }),
    }
}

fn steps_again(
    grammar: &dyn Grammar,
    commits: &[TokenId],
    allowed: &[usize],
    mask: &mut TokenMask,
    samples: &mut Samples,
) -> std::result::Result<(), Halt> {
    // Where the first walk had no matcher, there is nothing to repeat.
    if allowed.is_empty() {
        return Ok(());
    }
    let mut matcher = grammar.matcher()?;
    let mut rest = commits.iter().copied();
    for &cold in allowed {
        let (masked, ns) = measure(|| matcher.mask(mask));
        masked?;
        samples.mask.push(ns);
        let warm = mask.count();
        if warm != cold {
            return Err(Halt::Failed {
                words: format!(
                    "the first walk's mask allowed {cold} tokens here, the second's {warm}"
                ),
            });
        }
        let Some(token) = rest.next() else { break };
        let (committed, ns) = measure(|| matcher.commit(token));
        committed?;
        samples.commit.push(ns);
    }
    Ok(())
}

impl From<EngineError> for Halt {
    fn from(error: EngineError) -> Self {
        let words = error.to_string();
        match error {
            EngineError::Crashed { .. } | EngineError::Busy { .. } => Self::Crashed { words },
            EngineError::Unsupported { .. }
            | EngineError::Invalid { .. }
            | EngineError::TooLarge { .. } => Self::Failed { words },
        }
    }
}

impl Labels {
    /// Whether the instance matches its constraint, if both say the same or only one says anything.
    fn truth(self) -> Option<bool> {
        match (self.label, self.judged) {
            (Some(label), Some(judged)) if label != judged => None,
            (label, judged) => label.or(judged),
        }
    }

    fn disagree(self) -> bool {
        self.truth().is_none() && self.label.is_some()
    }
}

impl Fault {
    /// The outcome of an instance whose first walk halted like this: a failure of that one is told
    /// instead.
    pub(super) fn outcome(self, first: &Halt) -> Option<InstanceOutcome> {
        let (Halt::Failed { words } | Halt::Crashed { words }) = self.halt else {
            return None;
        };
        let is_told = matches!(first, Halt::Failed { .. });
        (!is_told).then(|| InstanceOutcome::Failed {
            byte: self.byte,
            words: format!("on the second walk: {words}"),
        })
    }
}

/// What a walk along a text shows. `wrong_end` is a byte after which the end was allowed wrongly.
///
/// A dead end counts for invalid texts too, since it keeps a model from ever ending, except before
/// the first byte: there may be nothing that matches.
pub(super) fn outcome(
    trace: &Trace,
    labels: Labels,
    wrong_end: Option<usize>,
    vocabulary: &Vocabulary,
) -> InstanceOutcome {
    let byte = trace.byte;
    if let Halt::Failed { words } | Halt::Crashed { words } = &trace.halt {
        return InstanceOutcome::Failed {
            byte,
            words: words.clone(),
        };
    }
    let accepted = trace.halt == Halt::Accepted;
    if labels.disagree() {
        return InstanceOutcome::Disputed { accepted };
    }
    let Some(is_valid) = labels.truth() else {
        return InstanceOutcome::NotJudged { accepted };
    };
    if let Some(byte) = wrong_end {
        return InstanceOutcome::AcceptsInvalid { byte };
    }
    let token =
        |token: TokenId| Some(String::from_utf8_lossy(vocabulary.bytes(token)).into_owned());
    match (&trace.halt, is_valid) {
        (Halt::Accepted, true) => InstanceOutcome::Pass,
        (Halt::Accepted, false) => InstanceOutcome::AcceptsInvalid { byte },
        (Halt::DeadEnd, false) if byte == 0 => InstanceOutcome::Pass,
        (Halt::DeadEnd, _) => InstanceOutcome::DeadEnd { byte },
        (Halt::TokenRefused(refused), true) => InstanceOutcome::RejectsValid {
            byte,
            token: token(*refused),
        },
        (Halt::EndRefused, true) => InstanceOutcome::RejectsValid { byte, token: None },
        (_, _) => InstanceOutcome::Pass,
    }
}

#[cfg(test)]
mod tests;
