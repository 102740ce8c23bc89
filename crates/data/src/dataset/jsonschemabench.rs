//! The dataset `jsonschemabench`: `epfl-dlab/JSONSchemaBench`, or files in its format.
//!
//! The columns are `json_schema` (the text of a schema) and `unique_id`. The corpus has no prompts,
//! so they are generated. Each row is tagged with its configuration. A schema that occurs in two
//! configurations, by its id, is used once.

use std::collections::HashSet;
use std::sync::Arc;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::flags::{HubLengthFlags, OrderFlags, PartFlags, PathFlags, ShortfallFlags};
use super::json::parse_schema;
use super::registry::{ConstraintScope, DOCUMENT_OUTPUT_LEN, DatasetKind, Inputs, Spec};
use super::table::{self, Selection};
use super::{DatasetArgs, DatasetPlan, Order, Row, Rows, RowsKind, Shortfall, schema_prompt};
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};
use sobench_core::input::json::DuplicateKeys;

const REPOSITORY: &str = "epfl-dlab/JSONSchemaBench";
const SCHEMA: &str = "json_schema";
const ID: &str = "unique_id";

/// The options of `jsonschemabench`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JsonschemabenchPlan {
    /// A local path, or a repository of the Hub, `owner/name`.
    pub dataset_path: Option<String>,
    /// A configuration of the repository. `None` uses all.
    pub subset: Option<String>,
    /// `None` means `train`.
    pub split: Option<String>,
    pub order: Order,
    pub shortfall: Shortfall,
}

impl DatasetKind for JsonschemabenchPlan {
    const SPEC: Spec = Spec {
        flags: &[
            PathFlags::augment_args,
            OrderFlags::augment_args,
            ShortfallFlags::augment_args,
            PartFlags::augment_args,
            HubLengthFlags::augment_args,
        ],
        output_len: DOCUMENT_OUTPUT_LEN,
        own_output_len: |flags| flags.rows.hf.length.output_len(),
        ..Spec::new("jsonschemabench", ConstraintScope::PerRow)
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        let PartFlags {
            hf_subset,
            hf_split,
        } = flags.rows.hf.part.clone();
        Ok(Self {
            dataset_path: flags.path.path(),
            subset: hf_subset,
            split: hf_split,
            order: flags.rows.order.order(),
            shortfall: flags.rows.shortfall.shortfall(),
        })
    }

    /// All rows of the split, of one configuration or all.
    fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
        let selection = Selection {
            subset: self.subset.clone(),
            split: self.split.clone(),
            allows_several_subsets: true,
        };
        let found = table::find(
            self.dataset_path.as_deref().unwrap_or(REPOSITORY),
            &selection,
            inputs.hub,
        )?;
        let (mut rows, mut unreadable, mut seen_ids) = (Vec::new(), Vec::new(), HashSet::new());
        let mut repeated = DuplicateKeys::default();
        for (name, file) in &found.files {
            let columns = table::columns(file)?;
            if !columns.iter().any(|column| column == SCHEMA) {
                return Err(Error::usage(format!(
                    "no column {SCHEMA} in {}: {}",
                    file.display(),
                    columns.join(", ")
                ))
                .hint("give files in JSONSchemaBench's format, or use --dataset custom"));
            }
            let folder = table::subset_of(name);
            let folder = folder.rsplit('/').next().unwrap_or(folder);
            let subset = self.subset.clone().or_else(|| {
                (!folder.is_empty() && name != &found.source).then(|| folder.to_owned())
            });
            for named in table::read(file, &[SCHEMA, ID], &mut repeated, inputs.progress)? {
                let (location, members) = named?;
                let id = members.get(ID).and_then(Value::as_str);
                if id.is_some_and(|id| !seen_ids.insert(id.to_owned())) {
                    continue;
                }
                match row(&members, &location) {
                    Ok(row) => rows.push(Row {
                        tags: subset.iter().cloned().collect(),
                        ..row
                    }),
                    Err(error) => unreadable.push(format!("{location}: {error}")),
                }
            }
        }
        self.order.apply(plan.seed, &mut rows);
        found.into_rows(
            rows,
            RowsKind::Sampled(self.shortfall),
            repeated,
            &unreadable,
        )
    }

    fn path(&self) -> Option<&str> {
        self.dataset_path.as_deref()
    }
}

fn row(members: &Map<String, Value>, location: &str) -> std::result::Result<Row, String> {
    let schema = match members.get(SCHEMA) {
        Some(Value::String(text)) => parse_schema(text),
        Some(schema @ Value::Object(_)) => Ok(schema.clone()),
        _ => Err("not a string".to_owned()),
    };
    let schema = schema.map_err(|error| format!("{SCHEMA}: {error}"))?;
    let name = match members.get(ID).and_then(Value::as_str) {
        Some(id) => format!("{location} ({id})"),
        None => location.to_owned(),
    };
    Ok(Row {
        name,
        ..Row::new(
            &schema_prompt::prompt(&schema),
            Constraint::JsonSchema(Arc::new(schema)),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::{plan, rows, tokenizer};
    use crate::dataset::{DatasetName, Source};
    use sobench_core::case::Prompt;

    const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/datasets");

    fn plan_with(path: &str, subset: Option<&str>) -> DatasetPlan {
        let source = Source::Jsonschemabench(JsonschemabenchPlan {
            dataset_path: Some(format!("{FIXTURES}/{path}")),
            subset: subset.map(str::to_owned),
            order: Order::AsStored,
            ..JsonschemabenchPlan::default()
        });
        DatasetPlan {
            source,
            ..plan(DatasetName::Jsonschemabench)
        }
    }

    fn read(plan: &DatasetPlan) -> Result<Rows> {
        rows(plan, &tokenizer())
    }

    #[test]
    fn reads_all_configurations_or_the_selected_one() {
        let all = read(&plan_with("jsonschemabench", None)).unwrap();
        let tags: Vec<&str> = all.rows.iter().map(|row| row.tags[0].as_str()).collect();
        assert_eq!(tags, ["Github_easy", "Github_easy", "Kubernetes"]);
        assert!(
            all.notices[0]
                .to_string()
                .starts_with("1 unreadable rows are skipped; the first: "),
            "{:?}",
            all.notices
        );
        assert!(
            all.notices[0]
                .to_string()
                .ends_with("/Kubernetes/train-00000-of-00001.parquet, row index 1: json_schema: EOF while parsing an object at line 1 column 1")
        );
        assert!(
            all.rows[1].name.ends_with("row index 1 (Github_easy---1)"),
            "{}",
            all.rows[1].name
        );
        let Prompt::Text(prompt) = &all.rows[1].prompt else {
            panic!("expected a text")
        };
        assert!(prompt.ends_with("{\"type\": \"boolean\"}"), "{prompt}");
        let schema = serde_json::json!({"type": "boolean"});
        assert_eq!(
            all.rows[1].constraint.as_deref(),
            Some(&Constraint::JsonSchema(schema.into()))
        );

        let one = read(&plan_with("jsonschemabench", Some("Github_easy"))).unwrap();
        assert_eq!((one.rows.len(), one.notices.len()), (2, 0));
        let file = read(&plan_with(
            "jsonschemabench/Kubernetes/train-00000-of-00001.parquet",
            None,
        ))
        .unwrap();
        assert_eq!((file.rows.len(), file.rows[0].tags.len()), (1, 0));
    }

    #[test]
    fn other_formats_are_refused() {
        for (plan, message) in [
            (
                plan_with("jsonschemabench", Some("Nowhere")),
                "no file of the split train of Nowhere",
            ),
            (plan_with("custom.jsonl", None), "no column json_schema in"),
        ] {
            let error = read(&plan).unwrap_err();
            assert!(error.what.contains(message), "{error}");
        }
    }
}
