//! Request bodies: what all kinds share, and the order in which later fields win over earlier ones.
//!
//! Precedence as in `vllm bench serve`: payload < `ignore_eos` < sampling < `--extra-body`, whose
//! top-level fields replace ours as a whole. Two exceptions are merged member by member: the field
//! that carries the constraint, so that an option beside the constraint
//! (`structured_outputs.disable_any_whitespace`) does not silently drop it; and the member that
//! holds all parameters of a kind (`sampling_params`, `parameters`, `options`), so that one more
//! does not drop the token limit.

use bytes::Bytes;
use serde_json::{Value, json};

use super::dialect::Carried;
use super::shape::Shape;
use super::{ConstraintDialect, RequestOptions, Sampling, ServerKind, Unsendable};
use sobench_core::case::{Arm, Case, Prompt};
use sobench_core::constraint::Constraint;

/// The text of a prompt, for kinds that take no chat messages.
pub(super) fn text(kind: ServerKind, case: &Case) -> Result<&str, Unsendable> {
    match &case.prompt {
        Prompt::Text(text) => Ok(text),
        Prompt::Messages(_) => Err(Unsendable::new(
            format!("the {kind} backend takes text, not chat messages"),
            "name a tokenizer with a chat template, or use --backend openai-chat",
        )),
        other => Err(no_such_prompt(kind, "text", other)),
    }
}

/// A prompt that the plan does not let come this far.
pub(super) fn no_such_prompt(kind: ServerKind, wanted: &str, prompt: &Prompt) -> Unsendable {
    let what = format!("the {kind} backend takes {wanted}, not {}", prompt.kind());
    Unsendable::new(what, "use a dataset and a --backend that go together")
}

/// The messages of a prompt; a text becomes one message of the user.
pub(super) fn messages(kind: ServerKind, case: &Case) -> Result<Value, Unsendable> {
    match &case.prompt {
        Prompt::Text(text) => Ok(json!([{"role": "user", "content": text}])),
        Prompt::Messages(messages) => Ok(json!(messages)),
        other => Err(no_such_prompt(kind, "chat messages", other)),
    }
}

/// Puts everything that is not the endpoint's own on top of `body`, an object, and writes it as
/// JSON.
pub(super) fn finish(
    kind: ServerKind,
    body: Value,
    case: &Case,
    options: &RequestOptions,
) -> Result<Bytes, Unsendable> {
    let body = assemble(kind, body, case, options)?;
    let bytes =
        serde_json::to_vec(&body).expect("a JSON value has only string keys and writes to memory");
    Ok(Bytes::from(bytes))
}

/// Puts everything that is not the endpoint's own on top of `body`, an object.
pub(super) fn assemble(
    kind: ServerKind,
    mut body: Value,
    case: &Case,
    options: &RequestOptions,
) -> Result<Value, Unsendable> {
    let shape = &kind.spec().body;
    if shape.says_stream {
        body["stream"] = Value::Bool(options.stream);
    }
    if options.stream && shape.asks_usage {
        body["stream_options"] = json!({"include_usage": true});
    }
    add_parameters(kind, shape, &mut body, options)?;
    let carried = carried(kind, case, options)?;
    if let Some(carried) = &carried {
        merge(&mut body, &carried.fields);
    }
    for (name, value) in options.extra_body.iter().flatten() {
        let carries = carried
            .as_ref()
            .is_some_and(|carried| carried.fields.get(name).is_some());
        if carries || shape.nest == Some(name.as_str()) {
            merge(&mut body[name], value);
        } else {
            body[name] = value.clone();
        }
    }
    if let Some(carried) = carried {
        refuse_clash(&body, carried)?;
    }
    Ok(body)
}

/// The constraint's fields, where this case sends one.
fn carried(
    kind: ServerKind,
    case: &Case,
    options: &RequestOptions,
) -> Result<Option<Carried>, Unsendable> {
    match (&case.constraint, case.arm) {
        (Some(constraint), Arm::Constrained) => options
            .dialect
            .carry(kind, constraint, options.guided_decoding_backend.as_deref())
            .map(Some),
        (None, Arm::Constrained) => Err(Unsendable::new(
            "a constrained case has no constraint",
            "give the row a constraint, or leave it out of the constrained arm",
        )),
        (_, Arm::Control | Arm::Free) => Ok(None),
    }
}

/// `ignore_eos` and sampling, where the kind keeps them.
fn add_parameters(
    kind: ServerKind,
    shape: &Shape,
    body: &mut Value,
    options: &RequestOptions,
) -> Result<(), Unsendable> {
    let no_field = |name: &str| {
        let hint = format!(
            "leave {name} out; if the server takes it under some name, --extra-body can carry it"
        );
        Unsendable::new(format!("the {kind} backend has no field for {name}"), hint)
    };
    let mut add = |name: &str, value: Value| match shape.nest {
        None => body[name] = value,
        Some(nest) => body[nest][name] = value,
    };
    if options.ignore_eos {
        if !shape.ignores_eos {
            return Err(no_field("ignore_eos"));
        }
        add("ignore_eos", Value::Bool(true));
    }
    for (name, value) in given(&options.sampling)? {
        add(
            shape.sampling_field(name).ok_or_else(|| no_field(name))?,
            value,
        );
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
            let what = format!("{name} is not a finite number: {value}");
            return Err(Unsendable::new(
                what,
                "JSON has no infinity and no NaN: give a finite number",
            ));
        }
        given.push((name, Value::from(value)));
    }
    for (name, value) in [("top_k", sampling.top_k), ("seed", sampling.seed)] {
        given.extend(value.map(|value| (name, Value::from(value))));
    }
    Ok(given)
}

/// Objects are merged member by member; anything else is replaced. An absent member takes the value
/// whole.
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

/// Refuses a body whose constraint is not the case's alone: servers take one constraint, and
/// answers are judged by one.
fn refuse_clash(body: &Value, carried: Carried) -> Result<(), Unsendable> {
    let kinds = body["structured_outputs"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str());
    let second_kind = kinds
        .filter(|name| Constraint::KINDS.contains(name))
        .nth(1)
        .map(|_| "structured_outputs");
    let Carried {
        fields: wanted,
        pinned,
    } = carried;
    let second_field = body
        .as_object()
        .into_iter()
        .flatten()
        .find_map(|(name, value)| second(name, value, wanted.get(name)));
    let changed = || {
        pinned
            .into_iter()
            .find(|pointer| body.pointer(pointer) != wanted.pointer(pointer))
    };
    let clash = match second_field.or(second_kind) {
        Some(field) => format!("adds a second constraint: {field}"),
        None => match changed() {
            Some(pointer) => format!("changes what the constraint sets: {pointer}"),
            None => return Ok(()),
        },
    };
    let hint = "take the member out of --extra-body; the constraint is the dataset's";
    Err(Unsendable::new(format!("--extra-body {clash}"), hint))
}

/// The name of a constraint that the case does not ask for: the field itself, or a member of the
/// field that holds parameters.
fn second<'a>(name: &'a str, value: &'a Value, wanted: Option<&Value>) -> Option<&'a str> {
    if wanted.is_none() {
        return ConstraintDialect::constrains(name, value).then_some(name);
    }
    if ConstraintDialect::is_constraint_field(name) {
        return None;
    }
    let is_wanted = |member: &str| wanted.is_some_and(|wanted| wanted.get(member).is_some());
    let members = value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(member, _)| member.as_str());
    members
        .filter(|member| ConstraintDialect::is_constraint_field(member))
        .find(|member| !is_wanted(member))
}
