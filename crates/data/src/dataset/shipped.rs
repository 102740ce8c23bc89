//! The rows that ship with sobench, in the format of `custom`.

use serde_json::{Map, Value};

use super::registry::ConstraintScope;
use super::{DatasetArgs, DatasetName, DatasetPlan, Source, load, suite, tools};
use crate::tokenizer::Tokenizer;
use sobench_core::case::{Case, Prompt};
use sobench_core::error::{Error, Result};

/// The shipped rows of a dataset: those of `suite` or `tools` with these tags, or the first request
/// of a dataset with one constraint. Empty for datasets that generate or read their rows.
///
/// # Errors
/// No row has the tags.
pub fn shipped_rows(name: DatasetName, filter: &[String]) -> Result<Vec<Map<String, Value>>> {
    match name.spec().constrained {
        _ if name == DatasetName::Suite => {
            let lines = suite::matching_lines(filter)?.into_iter();
            lines
                .map(|line| serde_json::from_str(line).map_err(|error| unreadable(&error)))
                .collect()
        }
        _ if name == DatasetName::Tools => tools::shipped_rows(filter),
        ConstraintScope::PerRun => {
            let source = Source::new(name, &DatasetArgs::default())?;
            let plan = DatasetPlan::with_defaults(source, 1, name.default_output_len());
            let cases = load(&plan, &Tokenizer::embedded())?.cases;
            cases.iter().map(as_row).collect()
        }
        ConstraintScope::PerRow | ConstraintScope::Unconstrained => Ok(Vec::new()),
    }
}

/// A request as a row of `custom`.
fn as_row(case: &Case) -> Result<Map<String, Value>> {
    let mut row = Map::new();
    if let Prompt::Text(prompt) = &case.prompt {
        row.insert("prompt".to_owned(), Value::from(&**prompt));
    }
    let constraint = serde_json::to_value(&case.constraint).map_err(|error| unreadable(&error))?;
    row.extend(constraint.as_object().cloned().unwrap_or_default());
    if let Some(oracle) = &case.grammar_oracle {
        row.insert("grammar_oracle".to_owned(), Value::from(&**oracle));
    }
    Ok(row)
}

fn unreadable(error: &serde_json::Error) -> Error {
    Error::internal(format!("a shipped row is not readable: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::custom;

    #[test]
    fn shipped_rows_are_rows_of_custom() {
        for name in DatasetName::ALL {
            let rows = shipped_rows(name, &[]).unwrap();
            let expected = match name {
                DatasetName::Suite => 60,
                DatasetName::Tools => 120,
                DatasetName::Json
                | DatasetName::JsonUnique
                | DatasetName::Grammar
                | DatasetName::Regex
                | DatasetName::Choice => 1,
                _ => 0,
            };
            assert_eq!(rows.len(), expected, "{name}");
            for row in rows {
                let line = Value::from(row.clone()).to_string();
                let read = custom::row(&line, "row", &mut Default::default()).unwrap();
                let constraint = serde_json::to_value(&read.constraint).unwrap();
                let (kind, value) = constraint.as_object().unwrap().iter().next().unwrap();
                match value {
                    Value::Object(set) if kind == "tools" => {
                        for (member, value) in set {
                            assert_eq!(row.get(member), Some(value), "{name}");
                        }
                    }
                    value => assert_eq!(row.get(kind), Some(value), "{name}"),
                }
                let has_oracle = matches!(kind.as_str(), "grammar");
                assert_eq!(read.grammar_oracle.is_some(), has_oracle, "{name}");
            }
        }
    }
}
