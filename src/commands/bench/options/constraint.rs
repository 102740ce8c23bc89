//! The constraint flags: the constrained share, the dialect and the preflight.

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::commands::flags::checks::grammar_notation;
use sobench_backend::ConstraintDialect;
use sobench_core::constraint::GrammarDialect;
use sobench_core::error::{Error, Result};
use sobench_engine::{EngineName, SERVER_ONLY_ENGINES};
use sobench_notices::enforcement::UnenforcedPolicy;

/// The constraint flags.
#[derive(Args, Clone, Debug)]
pub struct ConstraintArgs {
    /// Share of the requests that are sent with their constraint [default: 1.0]. The others are the
    /// control arm
    #[arg(
        long,
        visible_alias = "structured-output-ratio",
        value_name = "RATIO",
        allow_negative_numbers = true
    )]
    pub guided_decoding_ratio: Option<f64>,
    /// Send all requests without their constraint (ratio 0)
    #[arg(
        long,
        visible_alias = "no-structured-output",
        conflicts_with = "guided_decoding_ratio"
    )]
    pub no_guided_decoding: bool,
    /// Decoding engine of the embedded server; several are compared. On other servers, the name is
    /// sent in the guided dialect and otherwise only recorded (lm-format-enforcer and llama.cpp:
    /// other servers only)
    #[arg(long, visible_alias = "structured-output-backend", value_name = "ENGINE", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(EngineName::ALL.map(EngineName::name).into_iter().chain(SERVER_ONLY_ENGINES)))]
    pub guided_decoding_backend: Vec<String>,
    /// Print the engine that auto selects for each distinct constraint, and the reason (embedded
    /// server only)
    #[arg(long)]
    pub explain: bool,
    /// Request field that carries the constraint
    #[arg(long, value_name = "DIALECT", default_value = "auto",
          value_parser = PossibleValuesParser::new(std::iter::once("auto").chain(ConstraintDialect::ALL.map(ConstraintDialect::name))))]
    pub constraint_dialect: String,
    /// Measure even if the server ignores the constraint; every output then has a warning
    #[arg(long)]
    pub allow_unenforced: bool,
    /// Skip the test of whether the server enforces constraints; makes --allow-unenforced redundant
    #[arg(long)]
    pub skip_preflight: bool,
    /// Notation of the sent grammars; grammars in another notation are converted
    #[arg(long, value_name = "DIALECT", default_value = "auto", value_parser = ["auto", "lark", "ebnf"])]
    pub grammar_dialect: String,
    /// Ignore the keyword `format` when answers are judged by a JSON Schema
    #[arg(long)]
    pub no_format_assertion: bool,
}

impl ConstraintArgs {
    /// The requested decoding engine; the first of several.
    pub fn engine(&self) -> Option<&str> {
        self.guided_decoding_backend.first().map(String::as_str)
    }

    /// The requested dialect; `None` for `auto`.
    pub fn dialect(&self) -> Option<ConstraintDialect> {
        self.constraint_dialect.parse().ok()
    }

    /// The requested notation; `None` for `auto`.
    pub fn grammar_notation(&self) -> Option<GrammarDialect> {
        grammar_notation(&self.grammar_dialect)
    }
}

/// The reaction to a server that ignores the constraint; `None` skips the preflight.
pub(crate) fn preflight(flags: &ConstraintArgs) -> Option<UnenforcedPolicy> {
    match (flags.skip_preflight, flags.allow_unenforced) {
        (true, _) => None,
        (false, true) => Some(UnenforcedPolicy::Allow),
        (false, false) => Some(UnenforcedPolicy::Refuse),
    }
}

/// The share of constrained requests.
///
/// # Errors
/// The ratio is not between 0 and 1.
pub(crate) fn constrained_ratio(constraint: &ConstraintArgs) -> Result<f64> {
    let ratio = if constraint.no_guided_decoding {
        0.0
    } else {
        constraint.guided_decoding_ratio.unwrap_or(1.0)
    };
    if (0.0..=1.0).contains(&ratio) {
        return Ok(ratio);
    }
    Err(Error::usage(format!(
        "--guided-decoding-ratio is not between 0 and 1: {ratio}"
    ))
    .hint("give a number from 0 to 1; 1 constrains every request"))
}
