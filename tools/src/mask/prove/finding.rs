//! Findings and their proofs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use sobench_engine::{Departure, EngineName, TokenId};

/// The kind of a proof, serialised as the name of its rule.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize,
)]
pub enum Proof {
    /// Too strict: a token of a matching text is refused.
    #[serde(rename = "P1")]
    RefusesToken,
    /// Too strict: the end of a matching text is refused.
    #[serde(rename = "P2")]
    RefusesEnd,
    /// Too loose: the end is allowed after a text that does not match.
    #[serde(rename = "P3")]
    AllowsEnd,
    /// Too loose: a token is allowed that no text of the syntax continues with.
    #[serde(rename = "P4")]
    AllowsToken,
    /// One engine allows a token that another refuses, and a text completed by the first engine
    /// decides: if the text matches, the other engine is too strict.
    #[serde(rename = "P5-strict")]
    DiffersStrict,
    /// As [`Proof::DiffersStrict`]; the text does not match, so the engine that accepted it is too
    /// loose.
    #[serde(rename = "P5-loose")]
    DiffersLoose,
    /// No continuation reaches an end.
    #[serde(rename = "P6")]
    DeadEnd,
    /// The engine contradicts itself.
    #[serde(rename = "P7")]
    Contradicts,
    /// A rollback does not restore the state before its tokens.
    #[serde(rename = "P8")]
    Rollback,
}

impl Proof {
    /// Every proof, in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::RefusesToken,
        Self::RefusesEnd,
        Self::AllowsEnd,
        Self::AllowsToken,
        Self::DiffersStrict,
        Self::DiffersLoose,
        Self::DeadEnd,
        Self::Contradicts,
        Self::Rollback,
    ];

    /// The name in tables and files.
    pub fn name(self) -> &'static str {
        self.name_and_description().0
    }

    /// A short description.
    pub fn description(self) -> &'static str {
        self.name_and_description().1
    }

    fn name_and_description(self) -> (&'static str, &'static str) {
        match self {
            Self::RefusesToken => ("P1", "too strict: refuses a token of a valid text"),
            Self::RefusesEnd => ("P2", "too strict: refuses the end of a valid text"),
            Self::AllowsEnd => ("P3", "too loose: allows the end of an invalid text"),
            Self::AllowsToken => (
                "P4",
                "too loose: allows a token that no text continues with",
            ),
            Self::DiffersStrict => (
                "P5-strict",
                "too strict: refuses a valid text of another engine",
            ),
            Self::DiffersLoose => (
                "P5-loose",
                "too loose: accepts an invalid text that another engine refuses",
            ),
            Self::DeadEnd => ("P6", "dead end: no end can be reached"),
            Self::Contradicts => ("P7", "contradicts itself"),
            Self::Rollback => ("P8", "rollback does not restore the state"),
        }
    }
}

/// One proof, without its constraint and engine.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Finding {
    pub proof: Proof,
    /// The committed tokens.
    pub prefix: Vec<TokenId>,
    /// The token that is wrongly allowed or refused; for P8, the first token that is rolled back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenId>,
    /// The complete text of the proof: a matching text that starts with prefix and token, or an
    /// accepted text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The accepted tokens of the text after prefix and token; for P8, the other tokens that are
    /// rolled back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tail: Vec<TokenId>,
    /// The engine that it is compared with, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<EngineName>,
    /// How the engine contradicts itself, or what a rollback does not restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradiction: Option<Contradiction>,
    /// The rule that the text violates: a keyword of its schema, or another reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaks: Option<String>,
    pub origin: Origin,
    #[serde(rename = "reading")]
    pub interpretation: Interpretation,
    /// The undeclared departure whose undoing removes the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Departure>,
}

/// The explanation of a finding by experiments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Explanation {
    pub(super) interpretation: Interpretation,
    /// As [`Finding::cause`].
    pub(super) cause: Option<Departure>,
}

impl From<Interpretation> for Explanation {
    fn from(interpretation: Interpretation) -> Self {
        Self {
            interpretation,
            cause: None,
        }
    }
}

impl Finding {
    /// The finding with this explanation.
    pub(super) fn explained_by(self, why: Explanation) -> Self {
        Self {
            interpretation: why.interpretation,
            cause: why.cause,
            ..self
        }
    }

    /// A description of the error, without a full stop.
    pub fn summary(&self) -> String {
        let breaks = self
            .breaks
            .as_deref()
            .map(|how| format!(" ({how})"))
            .unwrap_or_default();
        match self.proof {
            Proof::RefusesToken | Proof::DiffersStrict => {
                "the token is refused, although the valid text continues with it".to_owned()
            }
            Proof::RefusesEnd => "the end is refused, although the text is valid".to_owned(),
            Proof::AllowsEnd => format!("the end is allowed, although the text is invalid{breaks}"),
            Proof::AllowsToken => {
                "the token is allowed, although no text continues with it".to_owned()
            }
            Proof::DiffersLoose => {
                format!("the text is accepted to its end, although it is invalid{breaks}")
            }
            Proof::DeadEnd => "no end can be reached from here".to_owned(),
            Proof::Contradicts | Proof::Rollback => self
                .contradiction
                .map_or("the engine contradicts itself", Contradiction::description)
                .to_owned(),
        }
    }

    /// The tokens that are rolled back (P8).
    pub fn rolled_back(&self) -> Vec<TokenId> {
        self.token.iter().chain(&self.tail).copied().collect()
    }

    /// A wrong rollback of these tokens after the prefix.
    pub(super) fn wrong_rollback(
        prefix: &[TokenId],
        tokens: &[TokenId],
        contradiction: Contradiction,
        origin: Origin,
    ) -> Self {
        Self {
            tail: tokens.get(1..).unwrap_or_default().to_vec(),
            contradiction: Some(contradiction),
            ..Self::new(Proof::Rollback, prefix, tokens.first().copied(), origin)
        }
    }

    /// A finding with only its location, interpreted as an error.
    pub fn new(proof: Proof, prefix: &[TokenId], token: Option<TokenId>, origin: Origin) -> Self {
        Self {
            proof,
            prefix: prefix.to_vec(),
            token,
            text: None,
            tail: Vec::new(),
            other: None,
            contradiction: None,
            breaks: None,
            origin,
            interpretation: Interpretation::Error,
            cause: None,
        }
    }
}

/// The interpretation of a finding.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interpretation {
    /// No declared departure explains it.
    #[default]
    Error,
    /// These departures, declared in the engine's documentation, explain it: undoing them removes
    /// it.
    Declared(Vec<Departure>),
    /// A declared departure may explain it; the experiments were inconclusive.
    Unclear,
}

impl Interpretation {
    /// The names of the departures; `None` for an error.
    pub fn name(&self) -> Option<String> {
        match self {
            Self::Error => None,
            Self::Declared(departures) => Some(
                departures
                    .iter()
                    .map(|departure| departure.name())
                    .collect::<Vec<_>>()
                    .join(" + "),
            ),
            Self::Unclear => Some("unclear".to_owned()),
        }
    }
}

/// How an engine contradicts itself (P7), or what a rollback does not restore (P8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contradiction {
    /// Commit refuses a token that the mask allows.
    AllowedNotTaken,
    /// Commit accepts a token that the mask refuses.
    TakenNotAllowed,
    /// The mask allows the end but the matcher does not accept, or the reverse.
    EndAndAccepting,
    /// The mask changes after commit and rollback of tokens.
    Rollback,
    /// The matcher accepts the end before commit and rollback of tokens and not after, or the
    /// reverse.
    RollbackEnd,
    /// A token is accepted before its rollback and refused after.
    RollbackToken,
    /// A fork has a different mask.
    Fork,
    /// A refused token changes the mask.
    RefusedTokenMoves,
    /// The same tokens lead to a different mask with a new matcher of the same compiled constraint.
    Cached,
    /// The same tokens lead to a different mask with the constraint compiled again.
    Compiled,
    /// The same tokens lead to a different mask when other matchers are masked in between.
    Batch,
}

impl Contradiction {
    /// A description of the error, without a full stop.
    pub fn description(self) -> &'static str {
        match self {
            Self::AllowedNotTaken => "a token that the mask allows is refused by commit",
            Self::TakenNotAllowed => "a token that the mask refuses is accepted by commit",
            Self::EndAndAccepting => "mask and matcher disagree on whether the text may end",
            Self::Rollback => "the mask changes after commit and rollback of tokens",
            Self::RollbackEnd => "the end changes after commit and rollback of tokens",
            Self::RollbackToken => "a token is refused after its rollback",
            Self::Fork => "a fork has a different mask",
            Self::RefusedTokenMoves => "a token that was refused changes the mask",
            Self::Cached => {
                "the same tokens lead to a different mask with a new matcher of the same compiled constraint"
            }
            Self::Compiled => {
                "the same tokens lead to a different mask with the constraint compiled again"
            }
            Self::Batch => {
                "the same tokens lead to a different mask when a second matcher is masked in between"
            }
        }
    }
}

/// The origin of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// An instance of the corpus.
    Instance(usize),
    /// An instance of the corpus, rewritten so that it still matches.
    Mutant(usize, Mutation),
    /// A walk through this engine's own masks, with this seed.
    Walk(u64),
    /// A text from another engine's walk, or the shortest completion of an automaton.
    Other,
}

/// How a text was rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mutation {
    /// Other white space between tokens.
    WhiteSpace,
    /// Members in another order.
    Order,
    /// Characters of strings escaped: `\u0061`, `\/`.
    Escapes,
    /// Numbers in another spelling: 1, 1.0, 1e0, -0.
    Numbers,
    /// A member removed.
    Fewer,
    /// An unnamed member added.
    Extra,
    /// A member repeated.
    Duplicate,
}
