//! Witnesses: proofs with all data needed to recheck them, one JSON line each.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::finding::{Contradiction, Finding, Proof};
use super::mask_checks::ConstraintContext;
use super::oracles::Judgement;
use super::sorted_vocabulary::SortedVocabulary;
use super::{EngineResult, consistency, dead_end, rollback};
use sobench_core::constraint::Constraint;
use sobench_engine::{
    Engine, EngineName, EnginePolicy, Grammar, Matcher, TokenId, TokenMask, Vocabulary,
};
use sobench_pycompat::random::PythonRandom;

/// Version of the file format; readers reject others.
pub const VERSION: u32 = 1;

/// One proof with its engine, constraint and vocabulary.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Witness {
    /// [`VERSION`].
    pub sobench_witness: u32,
    pub engine: EngineName,
    /// The library and its version at the time of the finding.
    pub found_with: String,
    pub policy: EnginePolicy,
    /// The vocabulary, as accepted by `--tokenizer`.
    pub tokenizer: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eos_token: Option<String>,
    /// Number of schemas with a similar finding, and the first such entry.
    pub schemas: u64,
    pub entry: String,
    /// A description of the error.
    pub why: String,
    pub constraint: Constraint,
    /// The bytes of the prefix and of the token as lossy text, for readers.
    pub prefix_text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_text: Option<String>,
    pub finding: Finding,
}

/// The status of a rechecked witness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WitnessStatus {
    Holds,
    /// The engine is correct here now, or the finding cannot be reached, for this reason.
    Gone {
        why: String,
    },
    /// The check is impossible: the engine does not compile the constraint, or failed.
    Unknown {
        why: String,
    },
}

impl WitnessStatus {
    fn gone(why: &str) -> Self {
        Self::Gone {
            why: why.to_owned(),
        }
    }

    /// `Holds`, or `Gone` with this reason.
    fn holds_if(holds: bool, why: &str) -> Self {
        if holds { Self::Holds } else { Self::gone(why) }
    }
}

/// Rechecks a finding with an engine, including the compile.
pub(super) fn check(
    engine: &dyn Engine,
    constraint: &Arc<Constraint>,
    finding: &Finding,
    vocabulary: &Vocabulary,
    sorted: &SortedVocabulary,
) -> WitnessStatus {
    let mut context = ConstraintContext::new(vocabulary, sorted, constraint);
    check_fallibly(engine, constraint, finding, &mut context).unwrap_or_else(|error| {
        WitnessStatus::Unknown {
            why: format!("the engine failed: {error}"),
        }
    })
}

fn check_fallibly(
    engine: &dyn Engine,
    constraint: &Constraint,
    finding: &Finding,
    context: &mut ConstraintContext<'_>,
) -> EngineResult<WitnessStatus> {
    let grammar = match engine.compile(constraint) {
        Ok(grammar) => grammar,
        Err(error) => {
            return Ok(WitnessStatus::Unknown {
                why: format!("the engine does not compile it: {error}"),
            });
        }
    };
    let mut matcher = grammar.matcher()?;
    if !commits_allowed(&mut *matcher, &finding.prefix, context.vocabulary)? {
        return Ok(WitnessStatus::gone("the prefix is no longer accepted"));
    }
    let mut mask = TokenMask::new(context.vocabulary.len());
    matcher.mask(&mut mask)?;
    let prefix = context.vocabulary.decode(&finding.prefix);
    let may_end = mask.allows(context.vocabulary.eos());
    Ok(match (finding.proof, finding.token) {
        (Proof::RefusesToken | Proof::DiffersStrict, Some(token)) => {
            match check_text(finding, &prefix, token, context) {
                Ok(()) => WitnessStatus::holds_if(!mask.allows(token), "the token is allowed"),
                Err(why) => WitnessStatus::gone(why),
            }
        }
        (Proof::RefusesEnd, _) => match context.oracles.judge_bytes(&prefix) {
            Judgement::Matches => WitnessStatus::holds_if(!may_end, "the end is allowed"),
            _ => WitnessStatus::gone("the oracles do not agree that the text matches"),
        },
        (Proof::AllowsEnd, _) => match context.oracles.judge_bytes(&prefix) {
            Judgement::Violates { .. } => {
                WitnessStatus::holds_if(may_end, "the end is not allowed")
            }
            _ => WitnessStatus::gone(
                "the oracles do not agree that the text violates the constraint",
            ),
        },
        (Proof::AllowsToken, Some(token)) => {
            let bytes = context.vocabulary.bytes(token);
            match context.syntax.refuses(&[&prefix, bytes].concat()) {
                Some(true) => {
                    WitnessStatus::holds_if(mask.allows(token), "the token is not allowed")
                }
                _ if bytes.is_empty() => {
                    WitnessStatus::holds_if(mask.allows(token), "the token is not allowed")
                }
                _ => WitnessStatus::gone("a text of the syntax continues with the token"),
            }
        }
        (Proof::DiffersLoose, Some(token)) => {
            check_accepted_text(&mut *matcher, finding, token, context)?
        }
        (Proof::DeadEnd, _) => {
            let is_dead = dead_end::is_dead(&mut *matcher, context.vocabulary)?;
            WitnessStatus::holds_if(is_dead, "an end can be reached, or the search is too large")
        }
        (Proof::Rollback, _) => check_rollback(&*grammar, finding, context.vocabulary)?,
        // Witnesses of older versions.
        (Proof::Contradicts, _) if finding.contradiction == Some(Contradiction::Rollback) => {
            check_rollback(&*grammar, finding, context.vocabulary)?
        }
        (Proof::Contradicts, _) => {
            let (found, _) = consistency::check_matcher(
                &mut *matcher,
                context.vocabulary,
                &mut PythonRandom::new(0),
            )?;
            let (later, _) = consistency::check_repeated(
                engine,
                constraint,
                &*grammar,
                context.vocabulary,
                (&finding.prefix, &mask),
                true,
            )?;
            let is_there = found
                .iter()
                .chain(&later)
                .any(|(contradiction, _)| Some(*contradiction) == finding.contradiction);
            WitnessStatus::holds_if(is_there, "the engine does not contradict itself here")
        }
        (_, None) => WitnessStatus::Unknown {
            why: "the witness names no token".to_owned(),
        },
    })
}

fn check_rollback(
    grammar: &dyn Grammar,
    finding: &Finding,
    vocabulary: &Vocabulary,
) -> EngineResult<WitnessStatus> {
    let tokens = finding.rolled_back();
    let wrong = rollback::check_rollback(grammar, vocabulary, &finding.prefix, &tokens)?;
    Ok(WitnessStatus::holds_if(
        wrong.is_some() && wrong == finding.contradiction,
        "the rollback restores the state, or is refused",
    ))
}

/// Commits tokens; returns whether the masks allow all of them.
fn commits_allowed(
    matcher: &mut dyn Matcher,
    tokens: &[TokenId],
    vocabulary: &Vocabulary,
) -> EngineResult<bool> {
    let mut mask = TokenMask::new(vocabulary.len());
    for token in tokens {
        matcher.mask(&mut mask)?;
        if !mask.allows(*token) {
            return Ok(false);
        }
        matcher.commit(*token)?;
    }
    Ok(true)
}

/// Checks that the finding's text matches and starts with prefix and token.
fn check_text(
    finding: &Finding,
    prefix: &[u8],
    token: TokenId,
    context: &mut ConstraintContext<'_>,
) -> Result<(), &'static str> {
    let Some(text) = &finding.text else {
        return Err("the witness has no text");
    };
    let start = [prefix, context.vocabulary.bytes(token)].concat();
    if !text.as_bytes().starts_with(&start) {
        return Err("the text does not start with prefix and token");
    }
    match context.oracles.judge(text) {
        Judgement::Matches => Ok(()),
        _ => Err("the oracles do not agree that the text matches"),
    }
}

/// Checks that token and tail are accepted to an end, and that the text violates the constraint.
fn check_accepted_text(
    matcher: &mut dyn Matcher,
    finding: &Finding,
    token: TokenId,
    context: &mut ConstraintContext<'_>,
) -> EngineResult<WitnessStatus> {
    let tokens: Vec<TokenId> = [token]
        .into_iter()
        .chain(finding.tail.iter().copied())
        .collect();
    if !commits_allowed(matcher, &tokens, context.vocabulary)? || !matcher.is_accepting()? {
        return Ok(WitnessStatus::gone("the text is no longer accepted"));
    }
    let all: Vec<TokenId> = finding.prefix.iter().copied().chain(tokens).collect();
    Ok(
        match context
            .oracles
            .judge_bytes(&context.vocabulary.decode(&all))
        {
            Judgement::Violates { .. } => WitnessStatus::Holds,
            _ => WitnessStatus::gone(
                "the oracles do not agree that the text violates the constraint",
            ),
        },
    )
}
