//! Which requests are constrained, and how the constraint travels.

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::commands::flags::checks::grammar_notation;
use sobench_backend::ConstraintDialect;
use sobench_core::constraint::GrammarDialect;
use sobench_core::error::{Error, Result};
use sobench_engine::{EngineName, SERVER_ONLY};
use sobench_notices::enforcement::Unenforced;

/// Which requests are constrained, and how the constraint travels.
#[derive(Args, Clone, Debug)]
pub struct ConstraintArgs {
    /// Share of the requests that carry their constraint [default: 1.0]; the rest are the control
    /// arm
    #[arg(
        long,
        visible_alias = "structured-output-ratio",
        value_name = "RATIO",
        allow_negative_numbers = true
    )]
    pub guided_decoding_ratio: Option<f64>,
    /// Send no constraint at all (ratio 0)
    #[arg(
        long,
        visible_alias = "no-structured-output",
        conflicts_with = "guided_decoding_ratio"
    )]
    pub no_guided_decoding: bool,
    /// Decoding engine: chosen on the embedded engine (lm-format-enforcer and llama.cpp are server
    /// only), sent in the guided dialect, otherwise recorded as declared. Several are held side by
    /// side
    #[arg(long, visible_alias = "structured-output-backend", value_name = "ENGINE", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(EngineName::ALL.map(EngineName::name).into_iter().chain(SERVER_ONLY)))]
    pub guided_decoding_backend: Vec<String>,
    /// Say which engine auto sends each distinct constraint to, and why (embedded engine)
    #[arg(long)]
    pub explain: bool,
    /// How the constraint is put into the request
    #[arg(long, value_name = "DIALECT", default_value = "auto",
          value_parser = PossibleValuesParser::new(std::iter::once("auto").chain(ConstraintDialect::ALL.map(ConstraintDialect::name))))]
    pub constraint_dialect: String,
    /// Measure although the server drops the constraint, and say so in every output
    #[arg(long)]
    pub allow_unenforced: bool,
    /// Do not ask the server beforehand whether it applies constraints
    #[arg(long, conflicts_with = "allow_unenforced")]
    pub skip_preflight: bool,
    /// Notation that grammars are sent in; one of the other notation is converted
    #[arg(long, value_name = "DIALECT", default_value = "auto", value_parser = ["auto", "lark", "ebnf"])]
    pub grammar_dialect: String,
    /// Do not assert `format` when judging answers by a JSON Schema
    #[arg(long)]
    pub no_format_assertion: bool,
}

impl ConstraintArgs {
    /// The decoding engine asked for, where it is one.
    pub fn engine(&self) -> Option<&str> {
        self.guided_decoding_backend.first().map(String::as_str)
    }

    /// The dialect asked for; `None` for `auto`.
    pub fn dialect(&self) -> Option<ConstraintDialect> {
        self.constraint_dialect.parse().ok()
    }

    /// The notation asked for; `None` for `auto`.
    pub fn grammar_notation(&self) -> Option<GrammarDialect> {
        grammar_notation(&self.grammar_dialect)
    }
}

/// What to do about a server that drops the constraint; `None` does not ask it.
pub(crate) fn preflight(flags: &ConstraintArgs) -> Option<Unenforced> {
    match (flags.skip_preflight, flags.allow_unenforced) {
        (true, _) => None,
        (false, true) => Some(Unenforced::Allow),
        (false, false) => Some(Unenforced::Refuse),
    }
}

/// The share of the requests that carry their constraint.
///
/// # Errors
/// It is no share.
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
    .hint("1.0 constrains every request"))
}
