//! Request bodies: fields that all kinds share, and the precedence of fields.
//!
//! Precedence as in `vllm bench serve`: payload < `ignore_eos` < sampling < `--extra-body`, whose
//! top-level fields replace others completely. Two fields are merged member by member instead: the
//! field that carries the constraint, so that an additional option
//! (`structured_outputs.disable_any_whitespace`) does not silently drop it; and the member that
//! holds all parameters of a kind (`sampling_params`, `parameters`, `options`), so that an
//! additional parameter does not drop the token limit.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::body_layout::BodyLayout;
use super::dialect::ConstraintFields;
use super::{BodySettings, ConstraintDialect, Sampling, ServerKind, Unsendable};
use sobench_core::case::{Arm, Case, Prompt};
use sobench_core::constraint::{Constraint, ConstraintKind};
use sobench_core::recorded::{NO_LIMIT, RecordedBody, without_constraint};

/// The member of a schema with options of llguidance.
const OPTIONS_MEMBER: &str = "x-guidance";

/// The text of a prompt, for kinds that do not take chat messages.
pub(super) fn text(kind: ServerKind, case: &Case) -> Result<&str, Unsendable> {
    match &case.prompt {
        Prompt::Text(text) => Ok(text),
        Prompt::Messages(_) => Err(Unsendable::new(
            format!("the {kind} backend takes text, not chat messages"),
            "give a tokenizer with a chat template, or use --backend openai-chat",
        )),
        other => Err(wrong_prompt_type(kind, "text", other)),
    }
}

/// The error for a prompt of the wrong type, which the plan normally prevents.
pub(super) fn wrong_prompt_type(
    kind: ServerKind,
    constraint_value: &str,
    prompt: &Prompt,
) -> Unsendable {
    let what = format!(
        "the {kind} backend takes {constraint_value}, not {}",
        prompt.kind()
    );
    Unsendable::new(what, "use a dataset and a --backend that fit together")
}

/// The messages of a prompt; a text becomes one user message.
pub(super) fn messages(kind: ServerKind, case: &Case) -> Result<Value, Unsendable> {
    match &case.prompt {
        Prompt::Text(text) => Ok(json!([{"role": "user", "content": text}])),
        Prompt::Messages(messages) => Ok(json!(messages)),
        other => Err(wrong_prompt_type(kind, "chat messages", other)),
    }
}

/// A recorded body as it is, but for the model and the members that flags set. Without the
/// constraint in the control arm.
pub(super) fn recorded(
    kind: ServerKind,
    text: &str,
    case: &Case,
    options: &BodySettings,
) -> Result<Bytes, Unsendable> {
    let broken = |error: serde_json::Error| {
        let what = format!("a recorded body is not a JSON object: {error}");
        Unsendable::new(what, "correct the row")
    };
    let text = match case.arm {
        Arm::Constrained | Arm::Free => Cow::Borrowed(text),
        Arm::Control => Cow::Owned(without_constraint(text).map_err(broken)?),
        arm => {
            let what = format!("a recorded body has no arm {}", arm.flag());
            return Err(Unsendable::new(
                what,
                "use the arms prompt and prompt+constraint",
            ));
        }
    };
    let body = RecordedBody::parse(&text).map_err(broken)?;
    let layout = &kind.spec().body;
    if !body.has(layout.prompt) {
        let what = format!(
            "the {kind} backend takes bodies with {:?}, which this one lacks",
            layout.prompt
        );
        let hint = "use the --backend of its endpoint: openai for prompt, openai-chat or anthropic for messages, openai-responses for input; split a file with several";
        return Err(Unsendable::new(what, hint));
    }
    let mut set = Map::new();
    if body.has("model") {
        set.insert("model".to_owned(), options.model_of(case).into());
    }
    let (name, output_len) = body.limit().unwrap_or_else(|| {
        let name = kind.limit_field(options.max_tokens_only);
        (name, NO_LIMIT)
    });
    if case.output_len != output_len {
        set.insert(name.to_owned(), case.output_len.into());
    }
    if !options.stream && body.asks_for_stream() {
        set.insert("stream".to_owned(), false.into());
        if body.has("stream_options") {
            set.insert("stream_options".to_owned(), Value::Null);
        }
    }
    let mut parameters = json!({});
    add_parameters(kind, layout, &mut parameters, options)?;
    let parameters = parameters.as_object().into_iter().flatten();
    // The extra body comes last, as in other bodies.
    let later = parameters.chain(options.extra_body.iter().flatten());
    set.extend(later.map(|(name, value)| (name.clone(), value.clone())));
    Ok(Bytes::from(body.with_members(&set)))
}

/// Adds the shared fields to `body`, an object, and encodes it as JSON.
pub(super) fn finish(
    kind: ServerKind,
    body: Value,
    case: &Case,
    options: &BodySettings,
) -> Result<Bytes, Unsendable> {
    let body = assemble(kind, body, case, options)?;
    let bytes =
        serde_json::to_vec(&body).expect("a JSON value has only string keys and writes to memory");
    Ok(Bytes::from(bytes))
}

/// Adds the shared fields to `body`, an object.
pub(super) fn assemble(
    kind: ServerKind,
    mut body: Value,
    case: &Case,
    options: &BodySettings,
) -> Result<Value, Unsendable> {
    let layout = &kind.spec().body;
    if layout.has_stream_field {
        body["stream"] = Value::Bool(options.stream);
    }
    if options.stream && layout.has_stream_options {
        body["stream_options"] = json!({"include_usage": true});
    }
    add_parameters(kind, layout, &mut body, options)?;
    let constraint_fields = constraint_fields(kind, case, options)?;
    if let Some(constraint_fields) = &constraint_fields {
        merge(&mut body, &constraint_fields.fields);
    }
    let mut extra = Cow::Borrowed(&options.extra_body);
    if let Some(switch) = options.thinking {
        let thinks = case.arm == Arm::ThinkConstraint;
        switch.add_to(extra.to_mut().get_or_insert_default(), thinks);
    }
    for (name, value) in extra.iter().flatten() {
        let holds_constraint = constraint_fields
            .as_ref()
            .is_some_and(|constraint_fields| constraint_fields.fields.get(name).is_some());
        if holds_constraint || layout.nested_in == Some(name.as_str()) {
            merge(&mut body[name], value);
        } else {
            body[name] = value.clone();
        }
    }
    if let Some(constraint_fields) = constraint_fields {
        reject_second_constraint(&body, constraint_fields)?;
    }
    Ok(body)
}

/// The constraint's fields, if this case sends one. Tools are part of the prompt, so the control arm
/// has them too.
fn constraint_fields(
    kind: ServerKind,
    case: &Case,
    options: &BodySettings,
) -> Result<Option<ConstraintFields>, Unsendable> {
    if let Some(constraint) = case.constraint.as_deref()
        && let Some(tools) = constraint.tools()
        && case.arm != Arm::Free
    {
        let form = kind.spec().tools;
        let form = form.ok_or_else(|| ConstraintDialect::no_field(kind, constraint))?;
        if let Some(member) = tools.unsendable_member(form) {
            return Err(ConstraintDialect::no_tool_field(kind, member));
        }
        return Ok(Some(match case.arm {
            Arm::Control => ConstraintFields::tools(&tools.without_enforcement(form), form),
            _ => ConstraintFields::tools(tools, form),
        }));
    }
    match &case.constraint {
        _ if !case.arm.sends_constraint() => Ok(None),
        Some(constraint) => {
            let spelled = match case.arm.allows_white_space() {
                Some(allowed) => Some(with_white_space(constraint, allowed)?),
                None => None,
            };
            let sent = spelled.as_ref().unwrap_or(constraint);
            let engine = options.guided_decoding_backend.as_deref();
            options.dialect.carry(kind, sent, engine).map(Some)
        }
        None => Err(Unsendable::new(
            "a constrained case has no constraint",
            "give the row a constraint, or remove it from the constrained arm",
        )),
    }
}

/// The schema with the member that allows or forbids white space between tokens of JSON, by
/// [llguidance](https://github.com/guidance-ai/llguidance/blob/main/docs/json_schema.md).
fn with_white_space(constraint: &Constraint, is_allowed: bool) -> Result<Constraint, Unsendable> {
    let unsendable = |what: &str| {
        Unsendable::new(
            format!("the arms compact and flexible need a JSON Schema; {what}"),
            "use a dataset whose constraints are all JSON Schemas, or leave the arms out",
        )
    };
    let Some(schema) = constraint.schema() else {
        return Err(unsendable(&format!("this is a {}", constraint.kind())));
    };
    let mut schema = Value::clone(schema);
    let members = schema.as_object_mut();
    let members = members.ok_or_else(|| unsendable("this one is only true or false"))?;
    match members.entry(OPTIONS_MEMBER).or_insert_with(|| json!({})) {
        Value::Object(options) => {
            options.insert("whitespace_flexible".to_owned(), is_allowed.into())
        }
        _ => return Err(unsendable("this one has another x-guidance")),
    };
    Ok(Constraint::JsonSchema(schema.into()))
}

/// Adds `ignore_eos` and the sampling parameters where the kind expects them.
fn add_parameters(
    kind: ServerKind,
    layout: &BodyLayout,
    body: &mut Value,
    options: &BodySettings,
) -> Result<(), Unsendable> {
    let no_field = |name: &str| {
        let hint = format!("remove {name}, or send it with --extra-body under the server's name");
        Unsendable::new(format!("the {kind} backend has no field for {name}"), hint)
    };
    let mut add = |name: &str, value: Value| match layout.nested_in {
        None => body[name] = value,
        Some(nested_in) => body[nested_in][name] = value,
    };
    if options.ignore_eos {
        if !layout.has_ignore_eos {
            return Err(no_field("ignore_eos"));
        }
        add("ignore_eos", Value::Bool(true));
    }
    for (name, value) in given_parameters(&options.sampling)? {
        add(
            layout.sampling_field(name).ok_or_else(|| no_field(name))?,
            value,
        );
    }
    Ok(())
}

/// The sampling parameters that were given.
fn given_parameters(sampling: &Sampling) -> Result<Vec<(&'static str, Value)>, Unsendable> {
    let mut given_parameters = vec![];
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
                "give a finite number; JSON has no infinity and no NaN",
            ));
        }
        given_parameters.push((name, Value::from(value)));
    }
    for (name, value) in [("top_k", sampling.top_k), ("seed", sampling.seed)] {
        given_parameters.extend(value.map(|value| (name, Value::from(value))));
    }
    Ok(given_parameters)
}

/// Merges objects member by member and replaces other values.
pub(super) fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

/// Rejects a body with another constraint than the case's, because answers are judged by that one.
fn reject_second_constraint(
    body: &Value,
    constraint_fields: ConstraintFields,
) -> Result<(), Unsendable> {
    let kinds = body["structured_outputs"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str());
    let second_kind = kinds
        .filter(|name| ConstraintKind::of_text().any(|kind| kind.name() == *name))
        .nth(1)
        .map(|_| "structured_outputs");
    let ConstraintFields {
        fields: constraint_value,
        pinned,
    } = constraint_fields;
    let second_field = body
        .as_object()
        .into_iter()
        .flatten()
        .find_map(|(name, value)| second_constraint(name, value, constraint_value.get(name)));
    let changed = || {
        pinned
            .into_iter()
            .find(|pointer| body.pointer(pointer) != constraint_value.pointer(pointer))
    };
    let conflict = match second_field.or(second_kind) {
        Some(field) => format!("adds a second constraint: {field}"),
        None => match changed() {
            Some(pointer) => format!("changes a field of the constraint: {pointer}"),
            None => return Ok(()),
        },
    };
    let hint = "remove the member from --extra-body; the dataset sets the constraint";
    Err(Unsendable::new(format!("--extra-body {conflict}"), hint))
}

/// The name of a second constraint: the field itself, or a member of the field that holds
/// parameters.
fn second_constraint<'a>(
    name: &'a str,
    value: &'a Value,
    constraint_value: Option<&Value>,
) -> Option<&'a str> {
    if constraint_value.is_none() {
        return ConstraintDialect::constrains(name, value).then_some(name);
    }
    if ConstraintDialect::is_constraint_field(name) {
        return None;
    }
    let is_wanted = |member: &str| {
        constraint_value.is_some_and(|constraint_value| constraint_value.get(member).is_some())
    };
    let members = value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(member, _)| member.as_str());
    members
        .filter(|member| ConstraintDialect::is_constraint_field(member))
        .find(|member| !is_wanted(member))
}
