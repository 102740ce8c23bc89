//! Reads the constraint of a request from `structured_outputs`, `response_format` or `guided_*`; at
//! the responses endpoint, from `structured_outputs` or `text.format`; at the messages endpoint, from
//! `structured_outputs` or `output_config.format`.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::endpoint::Endpoint;
use super::failure::Failure;
use super::request::{present, wrong};
use sobench_core::constraint::{AlwaysTrue, Constraint, ConstraintKind, GrammarDialect};

/// Members of `structured_outputs` that would change the meaning of a constraint. Accepted only
/// with values that have no effect.
const STRUCTURED_OPTIONS: &[&str] = &[
    "disable_any_whitespace",
    "disable_additional_properties",
    "disable_fallback",
    "whitespace_pattern",
];

/// Treatment of the `guided_*` fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GuidedFields {
    /// They set the constraint, as in vLLM up to 0.11.
    #[default]
    Honour,
    /// They are ignored without an error, as in vLLM from 0.12 on.
    Ignore,
}

/// The constraints that a server accepts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules<'a> {
    /// The name of the server's engine.
    pub(super) engine: &'a str,
    /// Whether JSON may contain white space between its tokens.
    pub(super) any_whitespace: bool,
    pub(super) guided_fields: GuidedFields,
}

/// Reads the constraint of a request, if it has one. A request may name only the server's engine or
/// `auto`, as in vLLM since its V1 engine, which sets the engine per server and not per request.
///
/// # Errors
/// Status 400 for two constraints, a malformed one, or another engine.
pub(super) fn read(
    fields: &Map<String, Value>,
    endpoint: Endpoint,
    rules: &Rules<'_>,
) -> Result<Option<Constraint>, Failure> {
    let mut found = Vec::new();
    if let Some(value) = present(fields, "structured_outputs") {
        let members = value
            .as_object()
            .ok_or_else(|| wrong("structured_outputs", "an object"))?;
        found.push(structured_outputs(members, rules)?);
    }
    match endpoint {
        Endpoint::Responses => found.extend(text_format(fields)?),
        Endpoint::Messages => found.extend(output_format(fields)?),
        Endpoint::Completions | Endpoint::Chat => {
            if rules.guided_fields == GuidedFields::Honour {
                found.extend(guided(fields, rules)?);
            }
            if let Some(constraint) = response_format(fields)? {
                // It replaces an earlier constraint of the same kind, as in vLLM.
                found.retain(|earlier| earlier.kind() != constraint.kind());
                found.push(constraint);
            }
        }
    }
    let first = found.pop();
    if found.is_empty() {
        Ok(first)
    } else {
        Err(too_many())
    }
}

fn guided(fields: &Map<String, Value>, rules: &Rules<'_>) -> Result<Vec<Constraint>, Failure> {
    if let Some(value) = present(fields, "guided_decoding_backend") {
        check_engine(value, "guided_decoding_backend", rules)?;
    }
    if present(fields, "guided_whitespace_pattern").is_some() {
        let message = "the embedded server does not implement guided_whitespace_pattern";
        return Err(Failure::bad_request(message).about("guided_whitespace_pattern"));
    }
    let mut found = Vec::new();
    for (name, member) in [
        ("guided_json", "json"),
        ("guided_regex", "regex"),
        ("guided_choice", "choice"),
        ("guided_grammar", "grammar"),
    ] {
        if let Some(value) = present(fields, name) {
            found.push(constraint(member, value)?);
        }
    }
    Ok(found)
}

fn check_engine(value: &Value, param: &'static str, rules: &Rules<'_>) -> Result<(), Failure> {
    let engine = rules.engine;
    let name = value
        .as_str()
        .ok_or_else(|| wrong(param, "the name of an engine"))?;
    if name != engine && name != "auto" {
        let message = format!(
            "request-level selection of a structured output backend is not supported: this server uses {engine}; {param} \
             must be {engine} or auto, not {name}"
        );
        return Err(Failure::bad_request(message).about(param));
    }
    Ok(())
}

fn structured_outputs(
    members: &Map<String, Value>,
    rules: &Rules<'_>,
) -> Result<Constraint, Failure> {
    let mut found = None;
    for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
        if name == "backend" || name == "_backend" {
            check_engine(value, "structured_outputs", rules)?;
        } else if STRUCTURED_OPTIONS.contains(&name.as_str()) {
            let is_compact = name == "disable_any_whitespace" && !rules.any_whitespace;
            if value != &Value::Bool(false) && !(is_compact && value == &Value::Bool(true)) {
                let message =
                    format!("the embedded server does not implement structured_outputs.{name}");
                return Err(Failure::bad_request(message).about("structured_outputs"));
            }
        } else if found.replace(constraint(name, value)?).is_some() {
            return Err(too_many());
        }
    }
    found.ok_or_else(|| {
        let kinds = "json, regex, choice, grammar, json_object, structural_tag";
        wrong(
            "structured_outputs",
            &format!("an object with one of {kinds}"),
        )
    })
}

/// Reads a constraint by its member's name in `structured_outputs`.
fn constraint(name: &str, value: &Value) -> Result<Constraint, Failure> {
    let bad = |message: String| Failure::bad_request(message).about("structured_outputs");
    let text = || {
        value
            .as_str()
            .ok_or_else(|| bad(format!("{name} must be a string")))
    };
    // vLLM accepts JSON both directly and as a string.
    let parsed = || match value {
        Value::String(text) => {
            serde_json::from_str(text).map_err(|error| bad(format!("{name} is not JSON: {error}")))
        }
        other => Ok(other.clone()),
    };
    Ok(match ConstraintKind::from_name(name) {
        Some(ConstraintKind::JsonSchema) => Constraint::JsonSchema(Arc::new(parsed()?)),
        Some(ConstraintKind::JsonObject) if value == &Value::Bool(true) => {
            Constraint::JsonObject(AlwaysTrue)
        }
        Some(ConstraintKind::JsonObject) => return Err(bad("json_object must be true".into())),
        Some(ConstraintKind::Regex) if text()?.contains('\0') => {
            return Err(bad("regex must not contain NUL".into()));
        }
        Some(ConstraintKind::Regex) => Constraint::Regex(text()?.into()),
        Some(ConstraintKind::Choice) => {
            let text = |choice: &Value| choice.as_str().map(str::to_owned);
            let strings = value
                .as_array()
                .and_then(|choices| choices.iter().map(text).collect::<Option<Vec<_>>>());
            let strings = strings.ok_or_else(|| bad("choice must be a list of strings".into()))?;
            if strings.is_empty() {
                return Err(bad("choice must have at least one string".into()));
            }
            Constraint::Choice(strings.into())
        }
        Some(ConstraintKind::Grammar) => {
            let text = text()?;
            if text.trim().is_empty() {
                return Err(bad("grammar must not be empty".into()));
            }
            Constraint::Grammar {
                dialect: GrammarDialect::detect(text),
                text: text.into(),
            }
        }
        Some(ConstraintKind::StructuralTag) => Constraint::StructuralTag(Arc::new(parsed()?)),
        Some(ConstraintKind::Tools) | None => {
            return Err(bad(format!("unknown member of structured_outputs: {name}")));
        }
    })
}

fn response_format(fields: &Map<String, Value>) -> Result<Option<Constraint>, Failure> {
    let Some(value) = present(fields, "response_format") else {
        return Ok(None);
    };
    let wrong = |must_be| wrong("response_format", must_be);
    match value.get("type").and_then(Value::as_str) {
        None => Err(wrong("an object with a type")),
        Some("structural_tag") => Ok(Some(Constraint::StructuralTag(Arc::new(value.clone())))),
        Some(_) => read_format(
            value,
            "/json_schema/schema",
            wrong("an object with json_schema.schema"),
            wrong("of type text, json_object, json_schema or structural_tag"),
        ),
    }
}

fn text_format(fields: &Map<String, Value>) -> Result<Option<Constraint>, Failure> {
    let wrong = |must_be| wrong("text", must_be);
    let value = match present(fields, "text") {
        None => None,
        Some(Value::Object(text)) => present(text, "format"),
        Some(_) => return Err(wrong("an object")),
    };
    value.map_or(Ok(None), |value| {
        read_format(
            value,
            "/schema",
            wrong("an object whose format has a schema"),
            wrong("an object whose format is of type text, json_object or json_schema"),
        )
    })
}

fn output_format(fields: &Map<String, Value>) -> Result<Option<Constraint>, Failure> {
    let wrong = |must_be| wrong("output_config", must_be);
    let format = match present(fields, "output_config") {
        None => None,
        Some(Value::Object(config)) => present(config, "format"),
        Some(_) => return Err(wrong("an object")),
    };
    let Some(format) = format else {
        return Ok(None);
    };
    if format.get("type").and_then(Value::as_str) != Some("json_schema") {
        return Err(wrong("an object whose format is of type json_schema"));
    }
    let schema = format.get("schema").filter(|schema| schema.is_object());
    let schema = schema.ok_or_else(|| wrong("an object whose format has an object as schema"))?;
    Ok(Some(Constraint::JsonSchema(Arc::new(schema.clone()))))
}

/// The constraint of a format, with its schema at this pointer, and the errors for a format without
/// schema and of another type.
fn read_format(
    value: &Value,
    schema: &str,
    no_schema: Failure,
    other_type: Failure,
) -> Result<Option<Constraint>, Failure> {
    match value.get("type").and_then(Value::as_str) {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(Constraint::JsonObject(AlwaysTrue))),
        Some("json_schema") => {
            let schema = value.pointer(schema).filter(|schema| !schema.is_null());
            let schema = schema.ok_or(no_schema)?;
            Ok(Some(Constraint::JsonSchema(Arc::new(schema.clone()))))
        }
        _ => Err(other_type),
    }
}

fn too_many() -> Failure {
    Failure::bad_request(
        "a request may have only one constraint: one member of structured_outputs, one guided_*, or one format",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::RULES;

    fn read_with(fields: &Value, rules: &Rules<'_>) -> Result<Option<Constraint>, Failure> {
        read(fields.as_object().unwrap(), Endpoint::Completions, rules)
    }

    fn read_all(fields: &Value) -> Result<Option<Constraint>, Failure> {
        read_with(fields, &RULES)
    }

    #[test]
    fn all_notations_of_a_constraint_are_equivalent() {
        let schema = || Some(Constraint::JsonSchema(Arc::new(json!({"type": "object"}))));
        let object = || Some(Constraint::JsonObject(AlwaysTrue));
        let regex = || Some(Constraint::Regex("a".into()));
        let choice = || Some(Constraint::Choice(["a".to_owned(), "b".to_owned()].into()));
        let lark = || {
            Some(Constraint::Grammar {
                dialect: GrammarDialect::Lark,
                text: "start: \"a\"".into(),
            })
        };
        let ebnf = || {
            Some(Constraint::Grammar {
                dialect: GrammarDialect::Ebnf,
                text: "root ::= \"a\"".into(),
            })
        };
        for (fields, expected) in [
            (json!({}), None),
            (
                json!({"structured_outputs": null, "response_format": {"type": "text"}}),
                None,
            ),
            (
                json!({"structured_outputs": {"json": {"type": "object"}, "regex": null, "disable_fallback": false}}),
                schema(),
            ),
            (
                json!({"structured_outputs": {"json": "{\"type\": \"object\"}"}}),
                schema(),
            ),
            (
                json!({"guided_json": {"type": "object"}, "guided_decoding_backend": "guidance"}),
                schema(),
            ),
            (
                json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}}),
                schema(),
            ),
            (
                json!({"structured_outputs": {"json_object": true}}),
                object(),
            ),
            (
                json!({"response_format": {"type": "json_object"}}),
                object(),
            ),
            (json!({"structured_outputs": {"regex": "a"}}), regex()),
            (
                json!({"guided_regex": "a", "guided_decoding_backend": "auto"}),
                regex(),
            ),
            (
                json!({"structured_outputs": {"regex": "a", "_backend": "guidance"}}),
                regex(),
            ),
            (
                json!({"structured_outputs": {"json": {}}, "response_format": {"type": "json_schema", "json_schema":
                    {"schema": {"type": "object"}}}}),
                schema(),
            ),
            (
                json!({"structured_outputs": {"choice": ["a", "b"]}}),
                choice(),
            ),
            (json!({"guided_choice": ["a", "b"]}), choice()),
            (
                json!({"structured_outputs": {"grammar": "start: \"a\""}}),
                lark(),
            ),
            (json!({"guided_grammar": "root ::= \"a\""}), ebnf()),
        ] {
            assert_eq!(read_all(&fields).unwrap(), expected, "{fields}");
        }
    }

    #[test]
    fn errors_name_the_problem() {
        for (fields, message) in [
            (json!({"structured_outputs": {}}), "an object with one of"),
            (json!({"structured_outputs": []}), "an object"),
            (
                json!({"structured_outputs": {"json": {}, "regex": "a"}}),
                "only one constraint",
            ),
            (
                json!({"structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}}),
                "only one constraint",
            ),
            (json!({"structured_outputs": {"rexeg": "a"}}), "rexeg"),
            (json!({"structured_outputs": {"json": "{"}}), "not JSON"),
            (
                json!({"structured_outputs": {"json_object": false}}),
                "must be true",
            ),
            (
                json!({"structured_outputs": {"choice": [1]}}),
                "list of strings",
            ),
            (json!({"structured_outputs": {"grammar": " \n"}}), "empty"),
            (
                json!({"structured_outputs": {"regex": "a", "whitespace_pattern": " "}}),
                "whitespace_pattern",
            ),
            (json!({"response_format": {"type": "yaml"}}), "of type"),
            (
                json!({"response_format": {"type": "json_schema"}}),
                "json_schema.schema",
            ),
            (json!({"structured_outputs": {"regex": "a\u{0}"}}), "NUL"),
            (
                json!({"structured_outputs": {"choice": []}}),
                "at least one",
            ),
            (
                json!({"structured_outputs": {"regex": "a", "disable_any_whitespace": true}}),
                "disable_any_whitespace",
            ),
            (
                json!({"structured_outputs": {"regex": "a", "_backend": "outlines"}}),
                "outlines",
            ),
            (
                json!({"guided_json": {}, "guided_decoding_backend": "xgrammar"}),
                "guidance",
            ),
            (
                json!({"guided_json": {}, "guided_decoding_backend": 1}),
                "name of an engine",
            ),
            (
                json!({"guided_json": {}, "guided_whitespace_pattern": " "}),
                "guided_whitespace_pattern",
            ),
        ] {
            let failure = read_all(&fields).unwrap_err();
            assert_eq!(failure.status.as_u16(), 400);
            assert!(
                failure.message.contains(message),
                "{fields}: {}",
                failure.message
            );
        }
    }

    #[test]
    fn constraints_follow_the_servers_rules() {
        let compact = Rules {
            any_whitespace: false,
            ..RULES
        };
        let fields = json!({"structured_outputs": {"regex": "a", "disable_any_whitespace": true}});
        assert!(read_with(&fields, &compact).unwrap().is_some());
        let newer = Rules {
            guided_fields: GuidedFields::Ignore,
            ..RULES
        };
        let fields =
            json!({"guided_json": {}, "guided_regex": "(", "guided_decoding_backend": "xgrammar"});
        assert_eq!(read_with(&fields, &newer), Ok(None), "as in vLLM 0.12");
    }
}
