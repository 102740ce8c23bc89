//! Whether a server enforces constraints, as data: what a preflight found out, and what a run
//! record keeps of it.

mod class;
mod kind;
mod pages;
mod server_facts;
mod spelling;
mod words;

use serde::{Deserialize, Serialize};

pub use self::class::{Cause, Class, Finding};
pub use self::kind::Kind;
pub use self::pages::Page;
pub use self::server_facts::ServerFacts;
pub use self::spelling::{MemberOrder, NonAscii, Spelling, WhiteSpace};
use sobench_backend::ConstraintDialect;

/// Whether the constraints were seen to hold before the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Enforcement {
    pub state: State,
    /// Generating requests that the questions took; in no figure.
    pub requests: usize,
    /// Where the dialect is from.
    pub dialect: DialectChoice,
    /// What came of each kind, in the dialect of the run and in those that were tried before it.
    pub findings: Vec<Held>,
    /// The constrained request that came first, where that decides about the server's engine.
    pub first_constrained: Option<FirstConstrained>,
    /// What the server says of itself; `None` where it was not asked.
    pub server: Option<ServerFacts>,
    /// How JSON is spelt; `None` where it was not asked.
    pub spelling: Option<Spelling>,
}

/// What came of asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nobody asked: it was not wanted, nothing is constrained, or the server is our own.
    #[default]
    NotAsked,
    /// Every kind of the run is enforced.
    Enforced,
    /// A constraint is dropped without a word, and the user wanted to measure all the same.
    NotEnforced,
    /// Neither was proved of every kind.
    Unproven,
}

/// Where the dialect of a run is from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DialectChoice {
    /// The user.
    #[default]
    Named,
    /// What the server says of itself.
    Suggested,
    /// The questions.
    Proved,
}

/// What came of one kind in one dialect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Held {
    pub kind: Kind,
    #[serde(rename = "constraint_dialect")]
    pub dialect: ConstraintDialect,
    pub class: Class,
    pub words: String,
}

/// The constrained request that a server saw first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstConstrained {
    pub case_id: String,
    /// Where vLLM's rule sends it; `None` where that is not known.
    pub engine: Option<String>,
    /// Why, or why it is not known.
    pub why: String,
}

/// What a run does about a constraint that its server drops without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unenforced {
    /// It does not start: the figures would be those of plain text.
    Refuse,
    /// It starts, and every output says so (`--allow-unenforced`).
    Allow,
}
