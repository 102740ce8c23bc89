//! The datasets `json` and `json-unique`: a prompt that shows a JSON Schema and requests an
//! example.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::file::read_document;
use super::prompt_variants::{PromptVariantFlags, PromptVariants};
use super::registry::{ConstraintScope, DatasetKind, Inputs, Spec};
use super::{DatasetArgs, DatasetPlan, Row, Rows, SHIPPED};
use crate::arguments::paths::InputPath;
use crate::arguments::values::{Described, described};
use crate::tokenizer::python_json::dumps;
use sobench_core::constraint::{Constraint, UNIQUE_MEMBER_PREFIX};
use sobench_core::error::{Error, Result};
use sobench_core::input::json::DuplicateKeys;
use sobench_judge::meta_schema_error;
use sobench_notices::notice::{DatasetNotice, Notice};
use sobench_pycompat::random::PythonRandom;

/// The prompt of vLLM's `benchmark_serving_structured_output.py` since 0.9, up to the schema.
const PROMPT: &str = "Generate an example of a brief user profile given the following schema: ";
const BRIEF: &str = include_str!("../../shipped/structured_schema_1.json");
/// Has the structure of the profile that the script had up to 0.7. The text was written for this
/// project.
const NESTED: &str = include_str!("../../shipped/user_profile.json");

/// Separates the random stream of `json-unique` from the choice of constrained requests: the ASCII
/// codes of `uuid`, above the 64 bits of the seed.
const UUID_STREAM: u128 = 0x7575_6964 << 64;

/// The JSON Schema of the datasets `json` and `json-unique`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JsonSchemaSource {
    /// The brief user profile of vLLM's script, with ten flat members.
    #[default]
    Brief,
    /// A nested user profile with patterns and bounds, like that of earlier versions of the script.
    Nested,
    /// A user-supplied schema.
    Path(PathBuf),
}

/// The shipped JSON Schemas.
pub const SHIPPED_SCHEMAS: [Described<JsonSchemaSource>; 2] = [
    Described(
        JsonSchemaSource::Brief,
        "brief",
        "Brief user profile of the structured-output script",
    ),
    Described(
        JsonSchemaSource::Nested,
        "nested",
        "Nested user profile, as in earlier versions of the script",
    ),
];

/// A user-supplied JSON Schema, also used by `custom`.
#[derive(Args, Clone, Debug, Default)]
pub struct JsonSchemaPathFlags {
    /// JSON Schema file for json, json-unique, and rows of custom without a constraint
    #[arg(long, value_name = "PATH", conflicts_with = "json_schema")]
    pub json_schema_path: Option<InputPath>,
}

/// The flags of `json` and `json-unique`.
#[derive(Args, Clone, Debug, Default)]
pub struct JsonFlags {
    #[command(flatten)]
    pub path: JsonSchemaPathFlags,
    /// Shipped JSON Schema for json and json-unique
    #[arg(long, value_name = "NAME", default_value = "brief", value_parser = described(&SHIPPED_SCHEMAS))]
    pub json_schema: JsonSchemaSource,
}

/// The options of `json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JsonPlan {
    pub json_schema: JsonSchemaSource,
    #[serde(skip_serializing_if = "PromptVariants::is_one")]
    pub prompt_variants: PromptVariants,
}

/// The options of `json-unique`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JsonUniquePlan(pub JsonPlan);

const SPEC: Spec = Spec {
    flags: &[JsonFlags::augment_args, PromptVariantFlags::augment_args],
    is_in_vllm_script: true,
    ..Spec::new("json", ConstraintScope::PerRun)
};

impl DatasetKind for JsonPlan {
    const SPEC: Spec = SPEC;

    fn new(flags: &DatasetArgs) -> Result<Self> {
        let user_schema = flags
            .json
            .path
            .json_schema_path
            .clone()
            .map(|path| JsonSchemaSource::Path(path.into()));
        Ok(Self {
            json_schema: user_schema.unwrap_or_else(|| flags.json.json_schema.clone()),
            prompt_variants: PromptVariants::new(flags)?,
        })
    }

    /// One row with the schema for each wording of the prompt.
    fn rows(&self, plan: &DatasetPlan, _inputs: &Inputs<'_>) -> Result<Rows> {
        let (schema, source, notice) = schema(&self.json_schema)?;
        let rows = self.prompt_variants.reword(vec![row(schema)], plan.seed);
        Ok(Rows {
            notices: notice.into_iter().collect(),
            ..Rows::generated(rows, source)
        })
    }
}

impl DatasetKind for JsonUniquePlan {
    const SPEC: Spec = Spec {
        name: "json-unique",
        ..SPEC
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        JsonPlan::new(flags).map(Self)
    }

    /// One row per request. Each schema has an additional optional member, named by a UUID drawn by
    /// the seed; the UUIDs of vLLM's script are not reproducible. In CPython:
    /// `uuid.UUID(int=r.getrandbits(128), version=4)` with `r = random.Random((0x75756964 << 64) |
    /// seed)`.
    fn rows(&self, plan: &DatasetPlan, _inputs: &Inputs<'_>) -> Result<Rows> {
        let (schema, source, notice) = schema(&self.0.json_schema)?;
        let mut random = PythonRandom::from_u128(UUID_STREAM | u128::from(plan.seed));
        let unique = |_| {
            let mut schema = schema.clone();
            let properties = schema
                .get_mut("properties")
                .and_then(Value::as_object_mut)
                .ok_or_else(|| {
                    Error::usage(format!(
                        "json-unique needs a schema with an object \"properties\": {source}"
                    ))
                    .hint("add \"properties\" to the schema, or use the dataset json")
                })?;
            properties.insert(
                format!("{UNIQUE_MEMBER_PREFIX}{}", uuid(random.getrandbits(128))),
                json!({"type": "string", "description": "An unique optional field to avoid cached schemas"}),
            );
            Ok(row(schema))
        };
        let rows = (0..plan.num_prompts)
            .map(unique)
            .collect::<Result<Vec<_>>>()?;
        let rows = self.0.prompt_variants.reword(rows, plan.seed);
        Ok(Rows {
            notices: notice.into_iter().collect(),
            ..Rows::generated(rows, source.clone())
        })
    }
}

/// Parses a JSON Schema. Only checks that it is an object or a boolean: the validity of the schema
/// is checked where it is used.
pub(super) fn parse_schema(text: &str) -> std::result::Result<Value, String> {
    let schema: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match schema {
        Value::Object(_) | Value::Bool(_) => Ok(schema),
        _ => Err("a JSON Schema is an object or a boolean".to_owned()),
    }
}

fn row(schema: Value) -> Row {
    let prompt = format!("{PROMPT}{}", dumps(&schema));
    Row::new(&prompt, Constraint::JsonSchema(Arc::new(schema)))
}

/// The schema, the name of its source, and a notice about its file.
fn schema(source: &JsonSchemaSource) -> Result<(Value, String, Option<Notice>)> {
    let shipped = |text| {
        (
            parse_schema(text).expect("a test parses the shipped schemas"),
            SHIPPED.to_owned(),
            None,
        )
    };
    match source {
        JsonSchemaSource::Brief => Ok(shipped(BRIEF)),
        JsonSchemaSource::Nested => Ok(shipped(NESTED)),
        JsonSchemaSource::Path(path) => {
            read_schema(path).map(|(schema, notice)| (schema, path.display().to_string(), notice))
        }
    }
}

/// Reads a JSON Schema file, with a notice about repeated members.
pub(super) fn read_schema(path: &Path) -> Result<(Value, Option<Notice>)> {
    let wrong = |error: String| {
        Error::usage(format!("{}: {error}", path.display()))
            .hint("give a file with one valid JSON Schema")
    };
    let text = read_document(path)?;
    let schema = parse_schema(&text).map_err(wrong)?;
    check_schema(&schema).map_err(wrong)?;
    let mut repeated = DuplicateKeys::default();
    repeated.scan(&text, |line| format!("{}, line {line}", path.display()));
    Ok((schema, DatasetNotice::repeated_members(repeated)))
}

/// Checks a schema of the user against the meta-schema of its draft.
pub fn check_schema(schema: &Value) -> std::result::Result<(), String> {
    meta_schema_error(schema).map_or(Ok(()), |error| Err(format!("broken JSON Schema: {error}")))
}

/// The 128 bits as a UUID of version 4 (RFC 9562). Six of them are overwritten.
fn uuid(bits: u128) -> String {
    let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_match_cpython() {
        for (seed, expected) in [
            (
                0,
                [
                    "340ac475-31b5-413e-8d17-87ad24882bb7",
                    "ab890aed-df15-4768-988e-01f772d9f781",
                ],
            ),
            (
                1,
                [
                    "b15a43ff-1878-43f5-94b9-ced00cf41959",
                    "2e4dde22-3efd-4e6e-9918-c6fba811e44c",
                ],
            ),
            (
                u64::MAX,
                [
                    "fa1f5b5a-f359-434a-bc94-a1a9766e408d",
                    "04b703e2-ad54-4bd5-9415-c2ad208de05f",
                ],
            ),
        ] {
            let mut random = PythonRandom::from_u128(UUID_STREAM | u128::from(seed));
            assert_eq!([(); 2].map(|()| uuid(random.getrandbits(128))), expected);
        }
    }

    #[test]
    fn only_objects_and_booleans_are_schemas() {
        for good in ["{}", "true", " false ", r#"{"type":"nonsense"}"#] {
            parse_schema(good).unwrap();
        }
        for bad in ["", "[]", "1", "null", "\"{}\"", "{} {}", "{\"a\": NaN}"] {
            parse_schema(bad).unwrap_err();
        }
    }
}
