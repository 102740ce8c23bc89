//! A proof that anyone can check again: everything it rests on, in one line of JSON, and the
//! checking. Knows no corpus and no report.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::along::Ground;
use super::finding::{Finding, Proof};
use super::judges::Judged;
use super::sorted::Sorted;
use super::{EngineResult, consistency, dead_end};
use sobench_core::constraint::Constraint;
use sobench_engine::{Engine, EngineName, EnginePolicy, Matcher, TokenId, TokenMask, Vocabulary};
use sobench_pycompat::random::PythonRandom;

/// The version of the file's format; a reader refuses others.
pub const VERSION: u32 = 1;

/// One proof with all that it is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Witness {
    /// [`VERSION`].
    pub sobench_witness: u32,
    pub engine: EngineName,
    /// The library and its version, when it was found.
    pub found_with: String,
    pub policy: EnginePolicy,
    /// The vocabulary by the name that `--tokenizer` takes.
    pub tokenizer: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eos_token: Option<String>,
    /// How often there is one like it, and the first entry that led to it.
    pub schemas: u64,
    pub entry: String,
    /// What is wrong, in one sentence.
    pub why: String,
    pub constraint: Constraint,
    /// The bytes of the prefix and of the token, as text where they are text: for people.
    pub prefix_text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_text: Option<String>,
    pub finding: Finding,
}

/// Whether a proof still holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    Holds,
    /// The engine does what is right here, or what is said cannot be reached any more, for this
    /// reason.
    Gone {
        why: String,
    },
    /// It cannot be told: the engine will not compile the constraint, or gave out.
    Unknown {
        why: String,
    },
}

impl Standing {
    fn gone(why: &str) -> Self {
        Self::Gone {
            why: why.to_owned(),
        }
    }

    /// `Holds` where it does, else gone for this reason.
    fn of(holds: bool, why: &str) -> Self {
        if holds { Self::Holds } else { Self::gone(why) }
    }
}

/// Checks a finding against an engine anew, from the compile on.
pub(super) fn check(
    engine: &dyn Engine,
    constraint: &Arc<Constraint>,
    finding: &Finding,
    vocabulary: &Vocabulary,
    sorted: &Sorted,
) -> Standing {
    let mut ground = Ground::new(vocabulary, sorted, constraint);
    standing(engine, constraint, finding, &mut ground).unwrap_or_else(|error| Standing::Unknown {
        why: format!("the engine gave out: {error}"),
    })
}

fn standing(
    engine: &dyn Engine,
    constraint: &Constraint,
    finding: &Finding,
    ground: &mut Ground<'_>,
) -> EngineResult<Standing> {
    let grammar = match engine.compile(constraint) {
        Ok(grammar) => grammar,
        Err(error) => {
            return Ok(Standing::Unknown {
                why: format!("the engine does not compile it: {error}"),
            });
        }
    };
    let mut matcher = grammar.matcher()?;
    if !lets_through(&mut *matcher, &finding.prefix, ground.vocabulary)? {
        return Ok(Standing::gone("the prefix is not let through any more"));
    }
    let mut mask = TokenMask::new(ground.vocabulary.len());
    matcher.mask(&mut mask)?;
    let prefix = ground.vocabulary.decode(&finding.prefix);
    let may_end = mask.allows(ground.vocabulary.eos());
    Ok(match (finding.proof, finding.token) {
        (Proof::RefusesToken | Proof::DiffersStrict, Some(token)) => {
            match proven_text(finding, &prefix, token, ground) {
                Ok(()) => Standing::of(!mask.allows(token), "the token is allowed"),
                Err(why) => Standing::gone(why),
            }
        }
        (Proof::RefusesEnd, _) => match ground.judges.judge_bytes(&prefix) {
            Judged::Matches => Standing::of(!may_end, "the end is allowed"),
            _ => Standing::gone("the oracles do not say that the text matches"),
        },
        (Proof::AllowsEnd, _) => match ground.judges.judge_bytes(&prefix) {
            Judged::Breaks { .. } => Standing::of(may_end, "the end is not allowed"),
            _ => Standing::gone("the oracles do not say that the text breaks the constraint"),
        },
        (Proof::AllowsToken, Some(token)) => {
            let bytes = ground.vocabulary.bytes(token);
            match ground.syntax.refuses(&[&prefix, bytes].concat()) {
                Some(true) => Standing::of(mask.allows(token), "the token is not allowed"),
                _ if bytes.is_empty() => {
                    Standing::of(mask.allows(token), "the token is not allowed")
                }
                _ => Standing::gone("a text of the syntax goes on so"),
            }
        }
        (Proof::DiffersLoose, Some(token)) => loose(&mut *matcher, finding, token, ground)?,
        (Proof::DeadEnd, _) => {
            let is_dead = dead_end::is_dead(&mut *matcher, ground.vocabulary)?;
            Standing::of(
                is_dead,
                "an end can be reached, or it is too far to search for one",
            )
        }
        (Proof::Contradicts, _) => {
            let (found, _) =
                consistency::here(&mut *matcher, ground.vocabulary, &mut PythonRandom::new(0))?;
            let (later, _) = consistency::again(
                engine,
                constraint,
                &*grammar,
                ground.vocabulary,
                (&finding.prefix, &mask),
                true,
            )?;
            let is_there = found
                .iter()
                .chain(&later)
                .any(|(contradiction, _)| Some(*contradiction) == finding.contradiction);
            Standing::of(is_there, "the engine does not contradict itself here")
        }
        (_, None) => Standing::Unknown {
            why: "the witness names no token".to_owned(),
        },
    })
}

/// Takes tokens that the masks allow.
fn lets_through(
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

/// Whether the finding's text matches, and begins with prefix and token.
fn proven_text(
    finding: &Finding,
    prefix: &[u8],
    token: TokenId,
    ground: &mut Ground<'_>,
) -> Result<(), &'static str> {
    let Some(text) = &finding.text else {
        return Err("the witness has no text");
    };
    let begins = [prefix, ground.vocabulary.bytes(token)].concat();
    if !text.as_bytes().starts_with(&begins) {
        return Err("the text does not begin with prefix and token");
    }
    match ground.judges.judge(text) {
        Judged::Matches => Ok(()),
        _ => Err("the oracles do not say that the text matches"),
    }
}

/// Whether token and tail are let through to an end, and what was written breaks the constraint.
fn loose(
    matcher: &mut dyn Matcher,
    finding: &Finding,
    token: TokenId,
    ground: &mut Ground<'_>,
) -> EngineResult<Standing> {
    let tokens: Vec<TokenId> = [token]
        .into_iter()
        .chain(finding.tail.iter().copied())
        .collect();
    if !lets_through(matcher, &tokens, ground.vocabulary)? || !matcher.is_accepting()? {
        return Ok(Standing::gone("the text is not let through any more"));
    }
    let all: Vec<TokenId> = finding.prefix.iter().copied().chain(tokens).collect();
    Ok(
        match ground.judges.judge_bytes(&ground.vocabulary.decode(&all)) {
            Judged::Breaks { .. } => Standing::Holds,
            _ => Standing::gone("the oracles do not say that the text breaks the constraint"),
        },
    )
}
