//! The dataset `grammar`: a small subset of SQL, or a user-supplied grammar.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::file::read_document;
use super::prompt_variants::{PromptVariantFlags, PromptVariants};
use super::registry::{ConstraintScope, DatasetKind, Inputs, Spec};
use super::{DatasetArgs, DatasetPlan, Row, Rows, SHIPPED, notation};
use crate::arguments::paths::InputPath;
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::error::{Error, Result};

/// The prompt of vLLM's script, including the blanks of its indentation. It requests columns that
/// the grammar does not have.
const PROMPT: &str =
    "Generate an SQL query to show the 'username'             and 'email' from the 'users' table.";
/// The grammar of the script, byte for byte.
const EBNF: &str = include_str!("../../shipped/sql.ebnf");
const LARK: &str = include_str!("../../shipped/sql.lark");
const PEST: &str = include_str!("../../shipped/sql.pest");

/// The flags of `grammar`.
#[derive(Args, Clone, Debug, Default)]
pub struct GrammarFlags {
    /// Grammar file for the grammar dataset (.lark, .ebnf or .gbnf); converted if the server reads
    /// only the other notation
    #[arg(long, value_name = "PATH")]
    pub grammar_path: Option<InputPath>,
    /// Pest grammar that judges the answers in place of the general recogniser
    #[arg(long, value_name = "PATH")]
    pub grammar_oracle: Option<InputPath>,
}

/// The options of `grammar`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GrammarPlan {
    /// A user-supplied grammar.
    pub grammar_path: Option<PathBuf>,
    /// A pest grammar that judges the answers.
    pub grammar_oracle: Option<PathBuf>,
    #[serde(skip_serializing_if = "PromptVariants::is_one")]
    pub prompt_variants: PromptVariants,
}

impl DatasetKind for GrammarPlan {
    const SPEC: Spec = Spec {
        flags: &[GrammarFlags::augment_args, PromptVariantFlags::augment_args],
        has_grammars: true,
        is_in_vllm_script: true,
        ..Spec::new("grammar", ConstraintScope::PerRun)
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        let GrammarFlags {
            grammar_path,
            grammar_oracle,
        } = flags.grammar.clone();
        Ok(Self {
            grammar_path: grammar_path.map(Into::into),
            grammar_oracle: grammar_oracle.map(Into::into),
            prompt_variants: PromptVariants::new(flags)?,
        })
    }

    /// One row for each wording of the prompt: the shipped grammar in the notation that the server reads, or the user's grammar,
    /// converted if needed.
    fn rows(&self, plan: &DatasetPlan, _inputs: &Inputs<'_>) -> Result<Rows> {
        let (sent, source) = match &self.grammar_path {
            None => (
                notation::shipped(plan, shipped(plan.grammar_dialect))?,
                SHIPPED.to_owned(),
            ),
            Some(path) => {
                let text = not_blank(path)?;
                let name = path.display().to_string();
                (
                    notation::convert_single(plan, dialect_of(path, &text), text, &name)?,
                    name,
                )
            }
        };
        let oracle = match (&self.grammar_oracle, &self.grammar_path) {
            (Some(path), _) => Some(not_blank(path)?),
            (None, None) => Some(PEST.to_owned()),
            (None, Some(_)) => None,
        };
        let mut row = Row::new(
            PROMPT,
            Constraint::Grammar {
                dialect: sent.dialect,
                text: sent.text.into(),
            },
        );
        row.grammar_oracle = oracle.map(Arc::from);
        Ok(Rows {
            notices: sent.notices,
            converted_from: sent.converted_from,
            ..Rows::generated(self.prompt_variants.reword(vec![row], plan.seed), source)
        })
    }

    fn has_own_constraint(&self) -> bool {
        self.grammar_path.is_some()
    }
}

fn shipped(dialect: GrammarDialect) -> &'static str {
    match dialect {
        GrammarDialect::Lark => LARK,
        GrammarDialect::Ebnf => EBNF,
    }
}

fn dialect_of(path: &Path, text: &str) -> GrammarDialect {
    let extension = path
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "lark" => GrammarDialect::Lark,
        "ebnf" | "gbnf" => GrammarDialect::Ebnf,
        _ => GrammarDialect::detect(text),
    }
}

fn not_blank(path: &Path) -> Result<String> {
    let text = read_document(path)?;
    if text.trim().is_empty() {
        return Err(
            Error::usage(format!("the grammar is blank: {}", path.display()))
                .hint("give a file that contains a grammar"),
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialects_are_detected_by_extension_then_by_content() {
        for (name, text, expected) in [
            ("a.lark", "root ::= \"a\"", GrammarDialect::Lark),
            ("a.ebnf", "start: \"a\"", GrammarDialect::Ebnf),
            ("a.GBNF", "start: \"a\"", GrammarDialect::Ebnf),
            ("a.txt", "# comment\n  root ::= \"a\"", GrammarDialect::Ebnf),
            ("a", "root\n  ::= \"a\"", GrammarDialect::Ebnf),
            ("a", "start: \"root ::= a\"", GrammarDialect::Lark),
            ("a.txt", "start: \"a\"", GrammarDialect::Lark),
        ] {
            assert_eq!(
                dialect_of(Path::new(name), text),
                expected,
                "{name}: {text}"
            );
        }
    }
}
