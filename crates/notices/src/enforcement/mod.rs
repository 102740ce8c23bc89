//! Results of a preflight: whether a server enforces constraints. The run record keeps them.

mod class;
mod kind;
mod server_facts;
mod server_pages;
mod spelling;
mod summary;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::class::{Cause, Class, Finding};
pub use self::kind::ProbeKind;
pub use self::server_facts::ServerFacts;
pub use self::server_pages::Page;
pub use self::spelling::{MemberOrder, NonAscii, Spelling, WhiteSpace};
use sobench_backend::ConstraintDialect;

/// Whether the constraints of a run were enforced before the run.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Enforcement {
    pub state: State,
    /// Number of generating preflight requests. They are not part of any figure.
    pub requests: usize,
    /// The source of the dialect.
    pub dialect: DialectChoice,
    /// The result for each kind, in the dialect of the run and in the dialects tried before it.
    pub findings: Vec<KindResult>,
    /// The first constrained request, where it determines the server's engine.
    pub first_constrained: Option<FirstConstrained>,
    /// The first constrained answers of the run, if they show that the constraint is not enforced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early: Option<EarlyBreach>,
    /// Identification of the server; `None` if it was not requested.
    pub server: Option<ServerFacts>,
    /// The JSON formatting of the server; `None` if it was not requested.
    pub spelling: Option<Spelling>,
}

/// Constrained answers at the start of a run that mostly break their constraint, where preflight
/// could not prove enforcement.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize, thiserror::Error)]
#[error(
    "{broken} of the first {answers} constrained answers break their constraint (first {first_request}: {reason})"
)]
pub struct EarlyBreach {
    /// Answers that were judged.
    pub answers: usize,
    /// Those that break their constraint.
    pub broken: usize,
    /// The id of the first request whose answer does.
    pub first_request: String,
    /// How it does.
    pub reason: String,
}

/// The overall result of a preflight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// No preflight: it was disabled, nothing is constrained, or the server is the embedded one.
    #[default]
    #[serde(rename = "not_asked")]
    NotChecked,
    /// Every constraint kind of the run is enforced.
    Enforced,
    /// The server silently drops a constraint, and the user allowed the run.
    NotEnforced,
    /// At least one kind is neither proved to be enforced nor to be ignored.
    Unproven,
}

/// The source of the dialect of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DialectChoice {
    /// The user named it.
    #[default]
    Named,
    /// Suggested by the identification of the server.
    Suggested,
    /// Proved by preflight requests.
    Proved,
}

/// The result for one kind of constraint in one dialect.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct KindResult {
    pub kind: ProbeKind,
    /// `None` for tool calls, which every server reads from the same fields.
    #[serde(rename = "constraint_dialect")]
    pub dialect: Option<ConstraintDialect>,
    pub class: Class,
    #[serde(rename = "words")]
    pub reason: String,
}

/// The first constrained request of a server.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct FirstConstrained {
    pub case_id: String,
    /// The engine that vLLM's rule selects; `None` if unknown.
    pub engine: Option<String>,
    /// The reason for the engine, or why it is unknown.
    pub why: String,
}

/// The policy for a constraint that the server silently drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnenforcedPolicy {
    /// Refuse to run: the figures would describe unconstrained text.
    Refuse,
    /// Run, and mark every output (`--allow-unenforced`).
    Allow,
}
