//! The constraint flags: the constrained share, the dialect and the preflight.

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::commands::flags::checks::grammar_notation;
use sobench_backend::{ConstraintDialect, ServerKind};
use sobench_core::case::Arm;
use sobench_core::constraint::GrammarDialect;
use sobench_core::error::{Error, Result};
use sobench_core::scorer::Scorer;
use sobench_data::dataset::DatasetName;
use sobench_engine::{EngineName, SERVER_ONLY_ENGINES};
use sobench_notices::enforcement::UnenforcedPolicy;

/// The values of `--arms`, in the order of help and messages.
const ARM_FLAGS: [&str; 7] = [
    Arm::Free.flag(),
    Arm::Control.flag(),
    Arm::Constrained.flag(),
    Arm::ConstraintOnly.flag(),
    Arm::ThinkConstraint.flag(),
    Arm::Compact.flag(),
    Arm::Flexible.flag(),
];

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
    /// Send each item once in each of these arms, to measure the effect of the constraint on the
    /// accuracy: free (no schema), prompt (schema in the prompt), prompt+constraint, constraint
    /// (schema not in the prompt), think+constraint, compact and flexible (white space in JSON
    /// forbidden or allowed; engine guidance only). --num-prompts counts items [default of extract,
    /// last_letters, shuffled_objects, gsm8k, mmlu and sob: prompt,prompt+constraint,constraint]
    #[arg(
        long,
        value_name = "ARM,...",
        value_delimiter = ',',
        conflicts_with_all = ["guided_decoding_ratio", "no_guided_decoding", "mix"],
        value_parser = PossibleValuesParser::new(ARM_FLAGS)
    )]
    pub arms: Vec<String>,
    /// Scorer that compares answers with the references of the dataset, in place of the dataset's
    /// own
    #[arg(
        long,
        value_name = "SCORER",
        conflicts_with = "mix",
        value_parser = PossibleValuesParser::new(Scorer::ALL.map(Scorer::name))
    )]
    pub score: Option<String>,
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

    /// The scorer that replaces the dataset's own.
    pub fn scorer(&self) -> Option<Scorer> {
        Scorer::from_name(self.score.as_deref()?)
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

/// The arms in which each item of the dataset is sent; empty for one request for each row.
///
/// # Errors
/// The kind of server has no field that turns thinking on and off, or the engine has none for white
/// space.
pub(crate) fn arms(
    flags: &ConstraintArgs,
    backend: ServerKind,
    dataset: DatasetName,
    has_map: bool,
) -> Result<Vec<Arm>> {
    let is_flag = |name: &str| Arm::ALL.into_iter().find(|arm| arm.flag() == name);
    let named: Vec<Arm> = flags.arms.iter().filter_map(|name| is_flag(name)).collect();
    if named.contains(&Arm::ThinkConstraint) && backend.thinking_switches().is_empty() {
        return Err(Error::usage(format!(
            "--backend {backend} has no field that turns thinking on and off: --arms {}",
            Arm::ThinkConstraint.flag()
        ))
        .hint("use --backend openai-chat, openai-responses or ollama, or leave the arm out"));
    }
    let spelled = named.iter().find(|arm| arm.allows_white_space().is_some());
    if let Some(arm) = spelled.filter(|_| flags.engine() != Some(EngineName::Guidance.name())) {
        return Err(Error::usage(format!(
            "only the engine guidance takes the white space of a request: --arms {}",
            arm.flag()
        ))
        .hint("add --guided-decoding-backend guidance if the server has it; for others, compare two servers that are started with and without white space"));
    }
    let has_ratio = flags.guided_decoding_ratio.is_some() || flags.no_guided_decoding;
    if named.is_empty() && !has_ratio {
        if has_map {
            return Ok(vec![Arm::Control, Arm::Constrained]);
        }
        return Ok(dataset.default_arms().to_vec());
    }
    Ok(named)
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
