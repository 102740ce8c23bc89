//! Request bodies: what all kinds share, and the order in which later fields win over earlier ones. Knows no endpoint.
//!
//! Precedence as in `vllm bench serve`: payload < `ignore_eos` < sampling < `--extra-body`, whose top-level fields replace ours
//! as a whole. The one exception is the field that carries the constraint: it is merged member by member, so that an option
//! beside the constraint (`structured_outputs.disable_any_whitespace`) does not silently drop it.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::dialect::Carried;
use super::{ConstraintDialect, RequestOptions, Sampling, Unsendable};
use crate::case::{Arm, Case};
use crate::constraint::Constraint;

/// The members of a request body, in the order in which they are written.
pub(super) type Fields = Map<String, Value>;

/// Puts everything that is not the endpoint's own on top of `fields` and writes the body.
pub(super) fn finish(mut fields: Fields, case: &Case, options: &RequestOptions) -> Result<Bytes, Unsendable> {
    fields.insert("stream".to_owned(), Value::Bool(options.stream));
    if options.stream {
        fields.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    if options.ignore_eos {
        fields.insert("ignore_eos".to_owned(), Value::Bool(true));
    }
    add_sampling(&mut fields, &options.sampling)?;
    let carried = carried(case, options)?;
    let constraint_fields: Vec<String> = carried.iter().flat_map(|carried| carried.fields.keys().cloned()).collect();
    if let Some(carried) = &carried {
        fields.extend(carried.fields.clone());
    }
    for (name, value) in options.extra_body.iter().flatten() {
        if constraint_fields.contains(name) {
            merge(fields.entry(name).or_insert(Value::Null), value);
        } else {
            fields.insert(name.clone(), value.clone());
        }
    }
    let body = Value::Object(fields);
    if let Some(carried) = carried {
        refuse_clash(&body, carried)?;
    }
    let bytes = serde_json::to_vec(&body).expect("a JSON value has only string keys and writes to memory");
    Ok(Bytes::from(bytes))
}

/// The constraint's fields, where this case sends one.
fn carried(case: &Case, options: &RequestOptions) -> Result<Option<Carried>, Unsendable> {
    match (&case.constraint, case.arm) {
        (Some(constraint), Arm::Constrained) => {
            options.dialect.carry(constraint, options.guided_decoding_backend.as_deref()).map(Some)
        }
        (None, Arm::Constrained) => Err(Unsendable {
            what: "a constrained case has no constraint".to_owned(),
            hint: "give the row a constraint, or leave it out of the constrained arm".to_owned(),
        }),
        (_, Arm::Control | Arm::Free) => Ok(None),
    }
}

/// Only what was given is sent.
fn add_sampling(fields: &mut Fields, sampling: &Sampling) -> Result<(), Unsendable> {
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
        fields.insert(name.to_owned(), Value::from(value));
    }
    for (name, value) in [("top_k", sampling.top_k), ("seed", sampling.seed)] {
        if let Some(value) = value {
            fields.insert(name.to_owned(), Value::from(value));
        }
    }
    Ok(())
}

/// Objects are merged member by member; anything else is replaced.
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
    let names = || body.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let kinds = body["structured_outputs"].as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let second_field = names().find(|name| ConstraintDialect::is_constraint_field(name) && !carried.fields.contains_key(*name));
    let second_kind = kinds.filter(|name| Constraint::KINDS.contains(name)).nth(1).map(|_| "structured_outputs");
    if let Some(field) = second_field.or(second_kind) {
        return Err(Unsendable {
            what: format!("--extra-body adds a second constraint: {field}"),
            hint: "take the member out of --extra-body; the constraint is the dataset's".to_owned(),
        });
    }
    let wanted = Value::Object(carried.fields);
    match carried.pinned.into_iter().find(|pointer| body.pointer(pointer) != wanted.pointer(pointer)) {
        None => Ok(()),
        Some(pointer) => Err(Unsendable {
            what: format!("--extra-body changes what the constraint sets: {pointer}"),
            hint: "take the member out of --extra-body; the constraint is the dataset's".to_owned(),
        }),
    }
}
