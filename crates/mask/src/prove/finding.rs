//! What was proved against an engine, and what a proof consists of: plain data. Knows no engine and
//! no corpus.

use serde::{Deserialize, Serialize};

use sobench_engine::{Departure, EngineName, TokenId};

/// What is proved, by the name of its rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Proof {
    /// Too strict: a text that matches goes on with a token that is not allowed.
    #[serde(rename = "P1")]
    RefusesToken,
    /// Too strict: a text that matches may not end.
    #[serde(rename = "P2")]
    RefusesEnd,
    /// Too loose: the end is allowed after a text that does not match.
    #[serde(rename = "P3")]
    AllowsEnd,
    /// Too loose: a token is allowed with which no text of the syntax goes on.
    #[serde(rename = "P4")]
    AllowsToken,
    /// A token that one engine allows and another does not, closed by a text that the first engine
    /// let through to its end: if the text matches, the other engine is too strict.
    #[serde(rename = "P5-strict")]
    DiffersStrict,
    /// As [`Proof::DiffersStrict`]; if the text does not match, the engine that let it through is
    /// too loose.
    #[serde(rename = "P5-loose")]
    DiffersLoose,
    /// Nothing is allowed, not even the end, or only what leads there.
    #[serde(rename = "P6")]
    DeadEnd,
    /// The engine contradicts itself.
    #[serde(rename = "P7")]
    Contradicts,
}

impl Proof {
    /// Every proof, in the order of reports.
    pub const ALL: [Self; 8] = [
        Self::RefusesToken,
        Self::RefusesEnd,
        Self::AllowsEnd,
        Self::AllowsToken,
        Self::DiffersStrict,
        Self::DiffersLoose,
        Self::DeadEnd,
        Self::Contradicts,
    ];

    /// The name in tables and files.
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// What it says, in a few words.
    pub fn says(self) -> &'static str {
        self.words().1
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::RefusesToken => ("P1", "too strict: refuses a token of a valid text"),
            Self::RefusesEnd => ("P2", "too strict: refuses the end of a valid text"),
            Self::AllowsEnd => ("P3", "too loose: allows the end of an invalid text"),
            Self::AllowsToken => ("P4", "too loose: allows a token that no text goes on with"),
            Self::DiffersStrict => (
                "P5-strict",
                "too strict: refuses a valid text of another engine",
            ),
            Self::DiffersLoose => (
                "P5-loose",
                "too loose: lets an invalid text through that another engine refuses",
            ),
            Self::DeadEnd => ("P6", "dead end: no end can be reached"),
            Self::Contradicts => ("P7", "contradicts itself"),
        }
    }
}

/// One proof, without the constraint and the engine that it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub proof: Proof,
    /// What had been committed.
    pub prefix: Vec<TokenId>,
    /// The token that is wrongly allowed or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenId>,
    /// The whole text that the proof rests on: one that matches and begins with prefix and token,
    /// or one that was let through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The tokens by which the rest of the text was let through after prefix and token.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tail: Vec<TokenId>,
    /// The engine that it is held against, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<EngineName>,
    /// In which way the engine contradicts itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradiction: Option<Contradiction>,
    /// What the text breaks: a keyword of its schema, or another reason in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaks: Option<String>,
    pub origin: Origin,
    pub reading: Reading,
    /// What an error is about that is gone with this undone, which the engine's documentation
    /// declares nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Departure>,
}

/// What experiments say of a finding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Why {
    pub(super) reading: Reading,
    /// As [`Finding::cause`].
    pub(super) cause: Option<Departure>,
}

impl From<Reading> for Why {
    fn from(reading: Reading) -> Self {
        Self {
            reading,
            cause: None,
        }
    }
}

impl Finding {
    /// The finding, as it has to be taken.
    pub(super) fn taken(self, why: Why) -> Self {
        Self {
            reading: why.reading,
            cause: why.cause,
            ..self
        }
    }

    /// What is wrong, in a sentence without its end.
    pub fn why(&self) -> String {
        let breaks = self
            .breaks
            .as_deref()
            .map(|how| format!(" ({how})"))
            .unwrap_or_default();
        match self.proof {
            Proof::RefusesToken | Proof::DiffersStrict => {
                "the token is not allowed, and the text, which matches, goes on with it".to_owned()
            }
            Proof::RefusesEnd => "the text may not end, and it matches".to_owned(),
            Proof::AllowsEnd => format!("the text may end, and it does not match{breaks}"),
            Proof::AllowsToken => "the token is allowed, and no text goes on with it".to_owned(),
            Proof::DiffersLoose => {
                format!("the text is let through to its end, and it does not match{breaks}")
            }
            Proof::DeadEnd => "from here no end can be reached".to_owned(),
            Proof::Contradicts => self
                .contradiction
                .map_or("the engine contradicts itself", Contradiction::says)
                .to_owned(),
        }
    }

    /// A finding of which no more is known than its place, read as an error.
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
            reading: Reading::Error,
            cause: None,
        }
    }
}

/// How a finding is to be taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// Nothing that the engine's documentation says explains it.
    #[default]
    Error,
    /// With these departures undone, which the engine's documentation declares, it is gone.
    Declared(Vec<Departure>),
    /// It may be a declared departure; it could not be told.
    Unclear,
}

impl Reading {
    /// The departures by name, none for an error.
    pub fn name(&self) -> Option<String> {
        match self {
            Self::Error => None,
            Self::Declared(departures) => Some(
                departures
                    .iter()
                    .map(|it| it.name())
                    .collect::<Vec<_>>()
                    .join(" + "),
            ),
            Self::Unclear => Some("unclear".to_owned()),
        }
    }
}

/// How an engine contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contradiction {
    /// A token that the mask allows is not taken.
    AllowedNotTaken,
    /// A token that the mask does not allow is taken.
    TakenNotAllowed,
    /// The mask allows the end and the matcher does not accept, or the other way round.
    EndAndAccepting,
    /// Another mask after a token was taken back.
    Rollback,
    /// A fork has another mask.
    Fork,
    /// A refused token left another mask behind.
    RefusedTokenMoves,
    /// The same tokens on a new matcher of the same compiled constraint lead to another mask.
    Cached,
    /// The same tokens on the constraint compiled once more lead to another mask.
    Compiled,
    /// The same tokens, taken while other matchers were masked in between, lead to another mask.
    Batch,
}

impl Contradiction {
    /// What is wrong, in a sentence without its end.
    pub fn says(self) -> &'static str {
        match self {
            Self::AllowedNotTaken => "a token that the mask allows is not taken",
            Self::TakenNotAllowed => "a token that the mask does not allow is taken",
            Self::EndAndAccepting => {
                "the mask and the matcher do not agree on whether the text may end"
            }
            Self::Rollback => "the mask is another one after a token was taken and taken back",
            Self::Fork => "a fork has another mask",
            Self::RefusedTokenMoves => "a token that was refused left another mask behind",
            Self::Cached => {
                "the same tokens on a new matcher of the same compiled constraint lead to another mask"
            }
            Self::Compiled => {
                "the same tokens on the constraint compiled once more lead to another mask"
            }
            Self::Batch => {
                "the same tokens lead to another mask while a second matcher is masked in between"
            }
        }
    }
}

/// Where a prefix comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// An instance of the corpus, as it stands there.
    Instance(usize),
    /// An instance of the corpus, rewritten so that it still matches.
    Mutant(usize, Mutation),
    /// A walk through this engine's own masks, by the number of its seed.
    Walk(u64),
    /// A text that another engine's walk came to, or the shortest that an automaton knows.
    Other,
}

/// How a text was rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mutation {
    /// Other white space between tokens.
    WhiteSpace,
    /// Members in another order.
    Order,
    /// Characters of strings escaped: `\u0061`, `\/`.
    Escapes,
    /// Numbers spelt otherwise: 1, 1.0, 1e0, -0.
    Numbers,
    /// An optional member less.
    Fewer,
    /// A member more that the schema does not name.
    Extra,
    /// A member twice.
    Duplicate,
}
