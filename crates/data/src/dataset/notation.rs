//! Grammars in the notation that a server reads: which text is sent where its author wrote another
//! one.
//!
//! What the user wrote in the notation that is read is never touched. Answers are judged by the
//! text that is sent.

use std::collections::HashMap;
use std::sync::Arc;

use super::{DatasetPlan, Rows};
use sobench_core::constraint::{Constraint, GrammarDialect, GrammarSpelling};
use sobench_core::error::{Error, Result};
use sobench_grammar::{Converted, GrammarError, convert};
use sobench_notices::notice::{ConvertedRow, DatasetNotice, Notice};

/// A grammar as it is sent.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) dialect: GrammarDialect,
    pub(super) text: String,
    /// What it was written in, where that is another notation.
    pub(super) converted_from: Option<GrammarDialect>,
    pub(super) notices: Vec<Notice>,
}

impl Sent {
    fn as_written(dialect: GrammarDialect, text: impl Into<String>) -> Self {
        Self {
            dialect,
            text: text.into(),
            converted_from: None,
            notices: Vec::new(),
        }
    }
}

/// The shipped grammar, which is there in every notation, but in EBNF with names that llama.cpp
/// does not read.
///
/// # Errors
/// None that the shipped text gives cause for.
pub(super) fn shipped(plan: &DatasetPlan, text: &str) -> Result<Sent> {
    let ebnf = GrammarDialect::Ebnf;
    if plan.grammar_dialect != ebnf || plan.grammar_spelling != GrammarSpelling::Portable {
        return Ok(Sent::as_written(plan.grammar_dialect, text));
    }
    let respelt = convert(ebnf, ebnf, text).map_err(|error| {
        Error::internal(format!("the shipped grammar cannot be respelt: {error}"))
    })?;
    let notice = DatasetNotice::GrammarRespelt {
        notes: notes(&respelt),
    };
    Ok(Sent {
        notices: vec![notice.into()],
        ..Sent::as_written(ebnf, respelt.text)
    })
}

/// The user's own grammar, the only one of the run.
///
/// # Errors
/// It has to be converted and cannot be.
pub(super) fn own(
    plan: &DatasetPlan,
    dialect: GrammarDialect,
    text: String,
    name: &str,
) -> Result<Sent> {
    let wanted = plan.grammar_dialect;
    if dialect == wanted {
        return Ok(Sent::as_written(dialect, text));
    }
    if plan.grammar_spelling == GrammarSpelling::AsWritten {
        let notice = DatasetNotice::GrammarNotConverted {
            name: name.to_owned(),
            notation: dialect,
            expected: wanted,
        };
        return Ok(Sent {
            notices: vec![notice.into()],
            ..Sent::as_written(dialect, text)
        });
    }
    let converted = convert(dialect, wanted, &text).map_err(|error| {
        Error::usage(format!(
            "{name} is {dialect}, and cannot be converted to {wanted}: {error}"
        ))
        .hint(format!(
            "write it in {wanted}, or send it as it is with --grammar-dialect {dialect}"
        ))
    })?;
    let notice = DatasetNotice::GrammarConverted {
        name: name.to_owned(),
        notation: dialect,
        converted_to: wanted,
        notes: notes(&converted),
    };
    Ok(Sent {
        dialect: wanted,
        text: converted.text,
        converted_from: Some(dialect),
        notices: vec![notice.into()],
    })
}

/// Rows with grammars of their own. A grammar that cannot be converted is sent as it is: that the
/// server refuses it is a result.
pub(super) fn translated(plan: &DatasetPlan, mut rows: Rows) -> Rows {
    if plan.grammar_spelling == GrammarSpelling::AsWritten {
        return rows;
    }
    let wanted = plan.grammar_dialect;
    let mut known: HashMap<Arc<str>, std::result::Result<Converted, GrammarError>> = HashMap::new();
    let (mut done, mut failed) = (Counted::new(), Counted::new());
    for row in &mut rows.rows {
        let Some(Constraint::Grammar { dialect, text }) = row.constraint.as_deref() else {
            continue;
        };
        let (dialect, text) = (*dialect, Arc::clone(text));
        if dialect == wanted {
            continue;
        }
        match known
            .entry(Arc::clone(&text))
            .or_insert_with(|| convert(dialect, wanted, &text))
        {
            Ok(converted) => {
                done.add(|| ConvertedRow {
                    name: row.name.clone(),
                    notation: dialect,
                    notes: notes(converted),
                });
                row.constraint = Some(Arc::new(Constraint::Grammar {
                    dialect: wanted,
                    text: converted.text.as_str().into(),
                }));
                rows.converted_from = Some(dialect);
            }
            Err(error) => failed.add(|| (row.name.clone(), error.to_string())),
        }
    }
    if let Some(first) = done.first {
        rows.notices.push(
            DatasetNotice::RowGrammarsConverted {
                converted_to: wanted,
                rows: done.count,
                first,
            }
            .into(),
        );
    }
    if let Some((first_row, why)) = failed.first {
        rows.notices.push(
            DatasetNotice::RowGrammarsNotConverted {
                expected: wanted,
                rows: failed.count,
                first_row,
                why,
            }
            .into(),
        );
    }
    rows
}

/// How many, and the first.
struct Counted<T> {
    count: usize,
    first: Option<T>,
}

impl<T> Counted<T> {
    fn new() -> Self {
        Self {
            count: 0,
            first: None,
        }
    }

    fn add(&mut self, first: impl FnOnce() -> T) {
        self.count += 1;
        self.first.get_or_insert_with(first);
    }
}

/// What a conversion changed.
fn notes(converted: &Converted) -> Vec<String> {
    converted.notes.iter().map(ToString::to_string).collect()
}
