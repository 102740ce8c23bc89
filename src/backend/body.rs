//! Request bodies: what all kinds share, and the order in which later fields win over earlier ones.
//!
//! Precedence as in `vllm bench serve`: payload < `ignore_eos` < sampling < `--extra-body`, whose top-level fields replace ours
//! as a whole. Two exceptions are merged member by member: the field that carries the constraint, so that an option beside the
//! constraint (`structured_outputs.disable_any_whitespace`) does not silently drop it; and the member that holds all parameters
//! of a kind (`sampling_params`, `parameters`, `options`), so that one more does not drop the token limit.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::dialect::Carried;
use super::shape::Shape;
use super::{ConstraintDialect, RequestOptions, Sampling, ServerKind, Unsendable};
use crate::case::{Arm, Case, Prompt};
use crate::constraint::Constraint;

/// The members of a request body, in the order in which they are written.
pub(super) type Fields = Map<String, Value>;

/// The text of a prompt, for kinds that take no chat messages.
pub(super) fn text(kind: ServerKind, case: &Case) -> Result<&str, Unsendable> {
    match &case.prompt {
        Prompt::Text(text) => Ok(text),
        Prompt::Messages(_) => Err(Unsendable {
            what: format!("the {kind} backend takes text, not chat messages"),
            hint: "name a tokenizer with a chat template, or use --backend openai-chat".to_owned(),
        }),
        other => Err(no_such_prompt(kind, "text", other)),
    }
}

/// A prompt that the plan does not let come this far.
pub(super) fn no_such_prompt(kind: ServerKind, wanted: &str, prompt: &Prompt) -> Unsendable {
    Unsendable {
        what: format!("the {kind} backend takes {wanted}, not {}", prompt.kind()),
        hint: "use a dataset and a --backend that go together".to_owned(),
    }
}

/// The messages of a prompt; a text becomes one message of the user.
pub(super) fn messages(kind: ServerKind, case: &Case) -> Result<Value, Unsendable> {
    match &case.prompt {
        Prompt::Text(text) => Ok(json!([{"role": "user", "content": text}])),
        Prompt::Messages(messages) => Ok(json!(messages)),
        other => Err(no_such_prompt(kind, "chat messages", other)),
    }
}

/// Puts everything that is not the endpoint's own on top of `fields` and writes the body as JSON.
pub(super) fn finish(kind: ServerKind, fields: Fields, case: &Case, options: &RequestOptions) -> Result<Bytes, Unsendable> {
    let body = assemble(kind, fields, case, options)?;
    let bytes = serde_json::to_vec(&body).expect("a JSON value has only string keys and writes to memory");
    Ok(Bytes::from(bytes))
}

/// Puts everything that is not the endpoint's own on top of `fields`.
pub(super) fn assemble(kind: ServerKind, mut fields: Fields, case: &Case, options: &RequestOptions) -> Result<Value, Unsendable> {
    let shape = &kind.spec().body;
    if shape.says_stream {
        fields.insert("stream".to_owned(), Value::Bool(options.stream));
    }
    if options.stream && shape.asks_usage {
        fields.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    add_parameters(kind, shape, &mut fields, options)?;
    let carried = carried(kind, case, options)?;
    if let Some(carried) = &carried {
        for (name, value) in &carried.fields {
            merge(fields.entry(name).or_insert(Value::Null), value);
        }
    }
    for (name, value) in options.extra_body.iter().flatten() {
        let carries = carried.as_ref().is_some_and(|carried| carried.fields.contains_key(name));
        if carries || shape.nest == Some(name.as_str()) {
            merge(fields.entry(name).or_insert(Value::Null), value);
        } else {
            fields.insert(name.clone(), value.clone());
        }
    }
    let body = Value::Object(fields);
    if let Some(carried) = carried {
        refuse_clash(&body, carried)?;
    }
    Ok(body)
}

/// The constraint's fields, where this case sends one.
fn carried(kind: ServerKind, case: &Case, options: &RequestOptions) -> Result<Option<Carried>, Unsendable> {
    match (&case.constraint, case.arm) {
        (Some(constraint), Arm::Constrained) => {
            options.dialect.carry(kind, constraint, options.guided_decoding_backend.as_deref()).map(Some)
        }
        (None, Arm::Constrained) => Err(Unsendable {
            what: "a constrained case has no constraint".to_owned(),
            hint: "give the row a constraint, or leave it out of the constrained arm".to_owned(),
        }),
        (_, Arm::Control | Arm::Free) => Ok(None),
    }
}

/// `ignore_eos` and sampling, where the kind keeps them.
fn add_parameters(kind: ServerKind, shape: &Shape, fields: &mut Fields, options: &RequestOptions) -> Result<(), Unsendable> {
    let no_field = |name: &str| Unsendable {
        what: format!("the {kind} backend has no field for {name}"),
        hint: format!("leave {name} out; if the server takes it under some name, --extra-body can carry it"),
    };
    let mut add = |name: &str, value: Value| match shape.nest {
        None => fields.insert(name.to_owned(), value),
        Some(nest) => {
            merge(fields.entry(nest).or_insert(Value::Null), &json!({name: value}));
            None
        }
    };
    if options.ignore_eos {
        if !shape.ignores_eos {
            return Err(no_field("ignore_eos"));
        }
        add("ignore_eos", Value::Bool(true));
    }
    for (name, value) in given(&options.sampling)? {
        add(shape.sampling_field(name).ok_or_else(|| no_field(name))?, value);
    }
    Ok(())
}

/// Only what was given is sent.
fn given(sampling: &Sampling) -> Result<Vec<(&'static str, Value)>, Unsendable> {
    let mut given = vec![];
    for (name, value) in [
        ("temperature", sampling.temperature),
        ("top_p", sampling.top_p),
        ("min_p", sampling.min_p),
        ("frequency_penalty", sampling.frequency_penalty),
        ("presence_penalty", sampling.presence_penalty),
        ("repetition_penalty", sampling.repetition_penalty),
    ] {
        let Some(value) = value else { continue };
        if !value.is_finite() {
            let hint = "JSON has no infinity and no NaN: give a finite number".to_owned();
            return Err(Unsendable { what: format!("{name} is not a finite number: {value}"), hint });
        }
        given.push((name, Value::from(value)));
    }
    for (name, value) in [("top_k", sampling.top_k), ("seed", sampling.seed)] {
        given.extend(value.map(|value| (name, Value::from(value))));
    }
    Ok(given)
}

/// Objects are merged member by member; anything else is replaced. An absent member takes the value whole.
fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

/// Refuses a body whose constraint is not the case's alone: servers take one constraint, and answers are judged by one.
fn refuse_clash(body: &Value, carried: Carried) -> Result<(), Unsendable> {
    let kinds = body["structured_outputs"].as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let second_kind = kinds.filter(|name| Constraint::KINDS.contains(name)).nth(1).map(|_| "structured_outputs");
    let wanted = Value::Object(carried.fields);
    let second_field = body.as_object().into_iter().flatten().find_map(|(name, value)| second(name, value, wanted.get(name)));
    if let Some(field) = second_field.or(second_kind) {
        return Err(Unsendable {
            what: format!("--extra-body adds a second constraint: {field}"),
            hint: "take the member out of --extra-body; the constraint is the dataset's".to_owned(),
        });
    }
    match carried.pinned.into_iter().find(|pointer| body.pointer(pointer) != wanted.pointer(pointer)) {
        None => Ok(()),
        Some(pointer) => Err(Unsendable {
            what: format!("--extra-body changes what the constraint sets: {pointer}"),
            hint: "take the member out of --extra-body; the constraint is the dataset's".to_owned(),
        }),
    }
}

/// The name of a constraint that the case does not ask for: the field itself, or a member of the field that holds parameters.
fn second<'a>(name: &'a str, value: &'a Value, wanted: Option<&Value>) -> Option<&'a str> {
    if wanted.is_none() {
        return ConstraintDialect::constrains(name, value).then_some(name);
    }
    if ConstraintDialect::is_constraint_field(name) {
        return None;
    }
    let is_wanted = |member: &str| wanted.is_some_and(|wanted| wanted.get(member).is_some());
    let members = value.as_object().into_iter().flatten().map(|(member, _)| member.as_str());
    members.filter(|member| ConstraintDialect::is_constraint_field(member)).find(|member| !is_wanted(member))
}
