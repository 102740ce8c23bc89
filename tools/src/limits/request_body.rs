//! Request bodies of steps. A schema is spliced into the body as text, because JSON libraries recurse
//! over nested values.

use bytes::Bytes;
use serde_json::{Value, json};

use super::ladder::Payload;
use sobench_backend::{Adapter, BodySettings, Unsendable};
use sobench_core::case::{Case, Prompt};
use sobench_core::constraint::Constraint;

/// The text of the schema in whose place the schema of a step is written.
const PLACEHOLDER: &str = "sobench-schema-of-this-step";

/// The body of a request with this constraint, or without any. `None` if the server kind sends
/// schemas in another form, so that the text of a schema has no place.
///
/// # Errors
/// The server kind has no field for the constraint.
pub(super) fn encode(
    adapter: &dyn Adapter,
    options: &BodySettings,
    prompt: &str,
    output_len: u32,
    payload: Option<Payload>,
) -> Result<Option<Bytes>, Unsendable> {
    let case = |constraint: Option<Constraint>| {
        Case::new(
            "limits",
            Prompt::Text(prompt.into()),
            constraint.map(Into::into),
            output_len,
        )
    };
    match payload {
        None => adapter.encode(&case(None), options).map(Some),
        Some(Payload::Constraint(constraint)) => {
            adapter.encode(&case(Some(constraint)), options).map(Some)
        }
        Some(Payload::SchemaText(schema)) => {
            let placeholder = json!({"const": PLACEHOLDER});
            let with_placeholder = case(Some(Constraint::JsonSchema(placeholder.clone().into())));
            let body = adapter.encode(&with_placeholder, options)?;
            Ok(splice(&body, &placeholder, &schema))
        }
    }
}

/// Replaces the placeholder in a body, where it is a value or the content of a string.
fn splice(body: &[u8], placeholder: &Value, schema: &str) -> Option<Bytes> {
    let body = std::str::from_utf8(body).ok()?;
    let written = placeholder.to_string();
    let replace = |found: &str, by: &str| {
        let mut parts = body.split(found);
        let (before, after) = (parts.next()?, parts.next()?);
        parts
            .next()
            .is_none()
            .then(|| [before, by, after].concat().into())
    };
    replace(&written, schema).or_else(|| replace(&in_string(&written), &in_string(schema)))
}

/// A text as the content of a JSON string.
fn in_string(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ladder::LadderKind;
    use sobench_backend::{ConstraintDialect, Sampling, ServerKind, adapter};
    use sobench_core::constraint::GrammarDialect;

    fn options(dialect: ConstraintDialect) -> BodySettings {
        BodySettings {
            model: "m".to_owned(),
            stream: true,
            sampling: Sampling::default(),
            ignore_eos: false,
            dialect,
            guided_decoding_backend: None,
            thinking: None,
            max_tokens_only: false,
            extra_body: None,
        }
    }

    #[test]
    fn every_kind_of_server_carries_the_text_of_a_schema_unchanged() {
        let mut carried = 0;
        for kind in ServerKind::ALL {
            for dialect in kind.dialects().iter().copied() {
                let encode = |payload| {
                    super::encode(&*adapter(kind), &options(dialect), "p", 8, Some(payload))
                };
                let schema = r#"{"const":"a \"b\""}"#;
                let value: Value = serde_json::from_str(schema).unwrap();
                let Ok(spliced) = encode(Payload::SchemaText(schema.to_owned())) else {
                    continue;
                };
                let Some(spliced) = spliced else { continue };
                let whole = encode(Payload::Constraint(Constraint::JsonSchema(value.into())));
                assert_eq!(spliced, whole.unwrap().unwrap(), "{kind} {dialect}");
                carried += 1;
            }
        }
        assert!(carried > 10, "{carried}");
    }

    #[test]
    fn a_deep_schema_does_not_exhaust_the_stack() {
        let spec = LadderKind::NestingDepth.spec();
        let deepest = *spec.sizes.last().unwrap();
        let payload = (spec.build)(deepest, "n", GrammarDialect::Lark);
        let body = encode(
            &*adapter(ServerKind::Vllm),
            &options(ConstraintDialect::StructuredOutputs),
            "p",
            8,
            Some(payload),
        );
        let body = body.unwrap().unwrap();
        let body = std::str::from_utf8(&body).unwrap();
        assert_eq!(body.matches("\"properties\"").count() as u64, deepest);
    }
}
