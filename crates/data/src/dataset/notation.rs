//! Converts grammars to the notation that the server reads. A grammar that is already in that
//! notation is sent unchanged. Answers are judged by the grammar that is sent.

use std::collections::HashMap;
use std::sync::Arc;

use super::{DatasetPlan, Rows};
use sobench_core::constraint::{Constraint, GrammarDialect, GrammarSpelling};
use sobench_core::error::{Error, Result};
use sobench_grammar::{Converted, GrammarError, convert, join_alternatives};
use sobench_notices::notice::{ConvertedRow, DatasetNotice, Notice};

/// A grammar in the notation in which it is sent.
#[derive(Debug)]
pub(super) struct SentGrammar {
    pub(super) dialect: GrammarDialect,
    pub(super) text: String,
    /// The original notation, if it was another one.
    pub(super) converted_from: Option<GrammarDialect>,
    pub(super) notices: Vec<Notice>,
}

impl SentGrammar {
    fn as_written(dialect: GrammarDialect, text: impl Into<String>) -> Self {
        Self {
            dialect,
            text: text.into(),
            converted_from: None,
            notices: Vec::new(),
        }
    }
}

/// The shipped grammar. It exists in every notation. For llama.cpp, which does not accept
/// underscores in names, the EBNF names are rewritten.
///
/// # Errors
/// Internal error if the shipped text cannot be converted.
pub(super) fn shipped(plan: &DatasetPlan, text: &str) -> Result<SentGrammar> {
    let ebnf = GrammarDialect::Ebnf;
    if plan.grammar_dialect != ebnf || plan.grammar_spelling != GrammarSpelling::Portable {
        return Ok(SentGrammar::as_written(plan.grammar_dialect, text));
    }
    let renamed = convert(ebnf, ebnf, text).map_err(|error| {
        Error::internal(format!(
            "cannot rename the rules of the shipped grammar: {error}"
        ))
    })?;
    let notice = DatasetNotice::GrammarRespelt {
        notes: notes(&renamed),
    };
    Ok(SentGrammar {
        notices: vec![notice.into()],
        ..SentGrammar::as_written(ebnf, renamed.text)
    })
}

/// The user's grammar, when it is the only one of the run.
///
/// # Errors
/// The grammar needs a conversion that fails.
pub(super) fn convert_single(
    plan: &DatasetPlan,
    dialect: GrammarDialect,
    text: String,
    name: &str,
) -> Result<SentGrammar> {
    let target = plan.grammar_dialect;
    if dialect == target {
        return Ok(match joined(plan, &text) {
            Some(joined) => SentGrammar {
                notices: vec![DatasetNotice::AlternativesJoined { grammars: 1 }.into()],
                ..SentGrammar::as_written(dialect, joined)
            },
            None => SentGrammar::as_written(dialect, text),
        });
    }
    if plan.grammar_spelling == GrammarSpelling::AsWritten {
        let notice = DatasetNotice::GrammarNotConverted {
            name: name.to_owned(),
            notation: dialect,
            expected: target,
        };
        return Ok(SentGrammar {
            notices: vec![notice.into()],
            ..SentGrammar::as_written(dialect, text)
        });
    }
    let converted = convert(dialect, target, &text).map_err(|error| {
        Error::usage(format!(
            "{name} is {dialect}, and cannot be converted to {target}: {error}"
        ))
        .hint(format!(
            "rewrite it in {target}, or use --grammar-dialect {dialect} to send it unchanged"
        ))
    })?;
    let notice = DatasetNotice::GrammarConverted {
        name: name.to_owned(),
        notation: dialect,
        converted_to: target,
        notes: notes(&converted),
    };
    Ok(SentGrammar {
        dialect: target,
        text: converted.text,
        converted_from: Some(dialect),
        notices: vec![notice.into()],
    })
}

/// The changes of a conversion, and the grammar that is sent.
type Sent = (Vec<String>, Arc<Constraint>);

/// Converts the grammars of rows. A grammar that cannot be converted is sent unchanged: the
/// server's refusal is a result.
pub(super) fn convert_rows(plan: &DatasetPlan, mut rows: Rows) -> Rows {
    if plan.grammar_spelling == GrammarSpelling::AsWritten {
        return rows;
    }
    let target = plan.grammar_dialect;
    // Rows with the same grammar share what is made of it.
    let mut known: HashMap<Arc<str>, std::result::Result<Sent, GrammarError>> = HashMap::new();
    let mut known_joined: HashMap<Arc<str>, Option<Arc<Constraint>>> = HashMap::new();
    let grammar = |text: String| {
        Arc::new(Constraint::Grammar {
            dialect: target,
            text: text.into(),
        })
    };
    let (mut done, mut failed) = (CountAndFirst::new(), CountAndFirst::new());
    let mut joined_rows = 0;
    for row in &mut rows.rows {
        let constraint = row.constraint.as_deref();
        let Some((dialect, text)) = constraint.and_then(Constraint::grammar) else {
            continue;
        };
        let text = Arc::clone(text);
        if dialect == target {
            let joined = known_joined
                .entry(Arc::clone(&text))
                .or_insert_with(|| joined(plan, &text).map(grammar));
            if let Some(joined) = joined {
                row.constraint = Some(Arc::clone(joined));
                joined_rows += 1;
            }
            continue;
        }
        match known.entry(Arc::clone(&text)).or_insert_with(|| {
            let converted = convert(dialect, target, &text)?;
            Ok((notes(&converted), grammar(converted.text)))
        }) {
            Ok((notes, sent)) => {
                done.add(|| ConvertedRow {
                    name: row.name.clone(),
                    notation: dialect,
                    notes: notes.clone(),
                });
                row.constraint = Some(Arc::clone(sent));
                rows.converted_from = Some(dialect);
            }
            Err(error) => failed.add(|| (row.name.clone(), error.to_string())),
        }
    }
    if joined_rows > 0 {
        let grammars = joined_rows;
        rows.notices
            .push(DatasetNotice::AlternativesJoined { grammars }.into());
    }
    if let Some(first) = done.first {
        rows.notices.push(
            DatasetNotice::RowGrammarsConverted {
                converted_to: target,
                rows: done.count,
                first,
            }
            .into(),
        );
    }
    if let Some((first_row, why)) = failed.first {
        rows.notices.push(
            DatasetNotice::RowGrammarsNotConverted {
                expected: target,
                rows: failed.count,
                first_row,
                why,
            }
            .into(),
        );
    }
    rows
}

/// An EBNF grammar as llama.cpp reads it, if it has to be changed.
fn joined(plan: &DatasetPlan, text: &str) -> Option<String> {
    let is_for_llama_cpp = plan.grammar_dialect == GrammarDialect::Ebnf
        && plan.grammar_spelling == GrammarSpelling::Portable;
    is_for_llama_cpp.then(|| join_alternatives(text)).flatten()
}

/// A count of items, and the first item.
struct CountAndFirst<T> {
    count: usize,
    first: Option<T>,
}

impl<T> CountAndFirst<T> {
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

/// Descriptions of the changes of a conversion.
fn notes(converted: &Converted) -> Vec<String> {
    converted.notes.iter().map(ToString::to_string).collect()
}
