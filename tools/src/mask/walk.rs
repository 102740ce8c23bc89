//! Walks a matcher along a text, token by token, and measures masks and commits.
//!
//! Each duration covers exactly one call into the engine. Results are judged after the walk.

use super::clock::measure;
use super::protocol::Samples;
use super::row::InstanceOutcome;
use sobench_engine::{EngineError, Grammar, Matcher, TokenId, TokenMask, Vocabulary};

/// The result of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trace {
    pub(super) samples: Samples,
    /// Number of allowed tokens of each mask.
    pub(super) allowed: Vec<usize>,
    /// Byte offsets at which the end was allowed before the end of the text.
    pub(super) ends: Vec<usize>,
    pub(super) halt: Halt,
    /// Committed bytes of the text.
    pub(super) byte: usize,
}

/// Why a walk ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// The end is allowed at the end of the text.
    Accepted,
    /// The end is not allowed at the end of the text.
    EndRefused,
    /// The next token is not allowed.
    TokenRefused(TokenId),
    /// Nothing is allowed.
    DeadEnd,
    /// The engine returned an error. This includes a token that its mask allows and its commit
    /// refuses.
    Failed { message: String },
    /// The library panicked.
    Crashed { message: String },
}

/// Label and verdict of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Labels {
    pub(super) label: Option<bool>,
    pub(super) judged: Option<bool>,
}

/// Walks along `tokens` with a new matcher.
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

/// The result of a second walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SecondWalk {
    pub(super) samples: Samples,
    /// The difference from the first walk.
    pub(super) mismatch: Option<WalkMismatch>,
}

/// A difference between the second and the first walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WalkMismatch {
    /// [`Halt::Failed`] or [`Halt::Crashed`].
    pub(super) halt: Halt,
    /// Committed bytes of the text before the difference.
    pub(super) byte: usize,
}

/// Repeats the walk as far as `trace` went, with a new matcher of the same grammar. Every mask must
/// allow the same number of tokens.
pub(super) fn second_walk(
    grammar: &dyn Grammar,
    vocabulary: &Vocabulary,
    tokens: &[TokenId],
    trace: &Trace,
    mask: &mut TokenMask,
) -> SecondWalk {
    let (masks, commits) = (trace.samples.mask.len(), trace.samples.commit.len());
    let mut samples = Samples {
        mask: Vec::with_capacity(masks),
        commit: Vec::with_capacity(commits),
    };
    let halt = second_steps(
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
    SecondWalk {
        samples,
        mismatch: halt.map(|halt| WalkMismatch { halt, byte }),
    }
}

fn second_steps(
    grammar: &dyn Grammar,
    commits: &[TokenId],
    allowed: &[usize],
    mask: &mut TokenMask,
    samples: &mut Samples,
) -> std::result::Result<(), Halt> {
    // Without a matcher in the first walk, there is nothing to repeat.
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
                message: format!(
                    "the mask allowed {cold} tokens on the first walk and {warm} on the second"
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
        let message = error.to_string();
        match error {
            EngineError::Crashed { .. } | EngineError::Busy { .. } => Self::Crashed { message },
            EngineError::Unsupported { .. }
            | EngineError::Invalid { .. }
            | EngineError::TooLarge { .. } => Self::Failed { message },
        }
    }
}

impl Labels {
    /// Whether the instance matches its constraint, if label and verdict agree or only one exists.
    fn expected_validity(self) -> Option<bool> {
        match (self.label, self.judged) {
            (Some(label), Some(judged)) if label != judged => None,
            (label, judged) => label.or(judged),
        }
    }

    fn disagree(self) -> bool {
        self.expected_validity().is_none() && self.label.is_some()
    }
}

impl WalkMismatch {
    /// The outcome of an instance whose first walk ended with `first`; `None` if the first walk
    /// failed itself.
    pub(super) fn outcome(self, first: &Halt) -> Option<InstanceOutcome> {
        let (Halt::Failed { message } | Halt::Crashed { message }) = self.halt else {
            return None;
        };
        let is_first_failure = matches!(first, Halt::Failed { .. });
        (!is_first_failure).then(|| InstanceOutcome::Failed {
            byte: self.byte,
            message: format!("on the second walk: {message}"),
        })
    }
}

/// The outcome of a walk along a text. `wrong_end` is a byte offset at which the end was wrongly
/// allowed.
///
/// A dead end is an error for invalid texts too, since a model can never end its answer there. It
/// is no error before the first byte: the constraint may match nothing.
pub(super) fn outcome(
    trace: &Trace,
    labels: Labels,
    wrong_end: Option<usize>,
    vocabulary: &Vocabulary,
) -> InstanceOutcome {
    let byte = trace.byte;
    if let Halt::Failed { message } | Halt::Crashed { message } = &trace.halt {
        return InstanceOutcome::Failed {
            byte,
            message: message.clone(),
        };
    }
    let accepted = trace.halt == Halt::Accepted;
    if labels.disagree() {
        return InstanceOutcome::Disputed { accepted };
    }
    let Some(is_valid) = labels.expected_validity() else {
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
