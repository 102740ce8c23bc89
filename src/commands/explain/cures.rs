//! Changes of a part after which a server takes it, each of them tried.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::cause::{Cause, Place, Stop, Target};
use super::failure::Seen;
use super::input::Part;
use sobench_core::constraint::Constraint;
use sobench_core::schema_part::pointer_token;
use sobench_judge::{Evaluator, JudgeSettings};
use sobench_preflight::instances::{instances, type_of_keyword};
use sobench_reduce::elements;
use sobench_reduce::schema::is_annotation;

/// A change that was tried.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub(super) struct Cure {
    /// In words: `"maxLength": 1999`.
    pub(super) change: String,
    pub(super) effect: Effect,
    /// The number of instances, valid and invalid, of which none is judged in another way; `None` if one
    /// is, or for equivalent changes.
    pub(super) same_instances: Option<usize>,
    /// The whole part after it.
    #[serde(skip)]
    pub(super) part: Part,
}

/// What a change does to the answers that are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Effect {
    /// By a rule that holds for every schema ([`rewritten`]).
    Equivalent,
    Looser,
    Stricter,
    /// Neither of these.
    Different,
}

impl Cure {
    pub(super) fn is_removal(&self) -> bool {
        self.change.starts_with("remove ")
    }
}

impl Effect {
    fn word(self) -> &'static str {
        match self {
            Self::Equivalent => "equivalent",
            Self::Looser => "looser",
            Self::Stricter => "stricter",
            Self::Different => "other answers",
        }
    }
}

impl std::fmt::Display for Cure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}", self.change, self.effect.word())?;
        if let Some(number) = self.same_instances {
            write!(f, "; no difference in {number} instances")?;
        }
        write!(f, ")")
    }
}

/// Keywords that are left out with their last schema.
const LISTS: [&str; 6] = [
    "properties",
    "patternProperties",
    "anyOf",
    "oneOf",
    "allOf",
    "prefixItems",
];

/// The changes that the server takes, the least one first.
///
/// # Errors
/// No more requests may be sent.
pub(super) fn tried(
    target: &mut impl Target,
    part: &Part,
    cause: &Cause,
) -> Result<Vec<Cure>, Stop> {
    let mut cures = Vec::new();
    for mut cure in candidates(part, cause) {
        // Another failure may be left, with a cause of its own.
        match target.send(&cure.part, true)? {
            Seen::Failed(failure) if failure.is_same(&cause.failure) => {}
            _ => {
                if cure.effect != Effect::Equivalent {
                    cure.same_instances = same_instances(part, &cure.part);
                }
                cures.push(cure);
            }
        }
    }
    Ok(cures)
}

/// The number of instances of both parts, if each is judged in the same way by both.
fn same_instances(before: &Part, after: &Part) -> Option<usize> {
    let (before, after) = (before.schemas(), after.schemas());
    if before.len() != after.len() {
        return None;
    }
    let mut changed = before
        .iter()
        .zip(&after)
        .filter(|(before, after)| before != after);
    let ((_, before), (_, after)) = changed.next()?;
    let mut texts: Vec<String> = Vec::new();
    for found in [instances(before), instances(after)] {
        texts.extend(found.valid);
        texts.extend(found.temptable.into_iter().map(|each| each.violating));
        texts.extend(found.all_at_once.map(|(text, _)| text));
    }
    let mut evaluator = Evaluator::new(JudgeSettings::default());
    let [before, after] = [*before, *after]
        .map(|schema| evaluator.compile(&Constraint::JsonSchema(schema.clone().into())));
    let is_same = |text: &String| before.accepts(text) == after.accepts(text);
    (!texts.is_empty() && texts.iter().all(is_same)).then_some(texts.len())
}

/// Changes of a keyword that a server does not keep, in the schema or in the parameters of a tool.
pub(super) fn of_keyword(
    part: &Part,
    tool: Option<&str>,
    owner: &str,
    name: &str,
    keywords: &Map<String, Value>,
) -> Vec<Cure> {
    let mut changes: Vec<(String, Effect, Map<String, Value>)> = rewritten(name, keywords)
        .into_iter()
        .map(|(change, changed)| (change, Effect::Equivalent, changed))
        .collect();
    if let Some(kind) = type_of_keyword(name)
        && !kind.is_empty()
        && !keywords.contains_key("type")
    {
        let mut changed = keywords.clone();
        changed.insert("type".to_owned(), kind.into());
        changes.push((
            format!("add \"type\": \"{kind}\""),
            Effect::Stricter,
            changed,
        ));
    }
    let cure = |(change, effect, changed)| {
        Some(Cure {
            change,
            effect,
            same_instances: None,
            part: with_keywords(part, tool, owner, changed)?,
        })
    };
    changes.into_iter().filter_map(cure).collect()
}

fn candidates(part: &Part, cause: &Cause) -> Vec<Cure> {
    let mut found = Vec::new();
    let Some(place) = cause.places.last() else {
        return found;
    };
    let name = keyword_of(place).map(str::to_owned);
    let schema = part.schema(place.tool.as_deref());
    if let (Some(name), Some(schema)) = (&name, schema)
        && let Some(Value::Object(keywords)) = schema.pointer(&place.pointer)
    {
        let mut push = |change: String, effect: Effect, keywords: Map<String, Value>| {
            let part = with_keywords(part, place.tool.as_deref(), &place.pointer, keywords);
            found.extend(part.map(|part| Cure {
                change,
                effect,
                same_instances: None,
                part,
            }));
        };
        if let Some(limit) = cause.limit.as_ref().filter(|limit| limit.of == *name) {
            let mut changed = keywords.clone();
            changed.insert(name.clone(), limit.accepted_at.into());
            let effect = match name.starts_with("min") {
                true => Effect::Looser,
                false => Effect::Stricter,
            };
            push(
                format!("\"{name}\": {}", limit.accepted_at),
                effect,
                changed,
            );
        }
        for (change, changed) in rewritten(name, keywords) {
            push(change, Effect::Equivalent, changed);
        }
    }
    found.extend(
        cause
            .places
            .iter()
            .rev()
            .filter_map(|place| removal(part, place)),
    );
    found
}

/// The part without one of the places of its cause.
fn removal(part: &Part, place: &Place) -> Option<Cure> {
    let name = keyword_of(place);
    let change = match (name, &place.tool) {
        (Some("name"), Some(_)) => "remove the tool".to_owned(),
        (Some(name), _) => format!("remove {name}"),
        (None, _) => format!("remove {}", place.pointer),
    };
    Some(Cure {
        change,
        effect: match name {
            Some(name) if is_annotation(name) => Effect::Equivalent,
            _ => effect_of_removal(&place.pointer, name.is_some()),
        },
        same_instances: None,
        part: without_place(part, place)?,
    })
}

/// The keyword of a place.
pub(super) fn keyword_of(place: &Place) -> Option<&str> {
    let keyword = place.keyword.as_deref()?.strip_prefix('"')?;
    keyword.split_once("\":").map(|(name, _)| name)
}

/// What it does to the answers if a keyword, or the whole subschema at a place, is left out.
fn effect_of_removal(pointer: &str, is_keyword: bool) -> Effect {
    let owner = pointer.rsplit('/').nth(1).unwrap_or_default();
    let is_inverted = ["/oneOf/", "/not/", "/if/"]
        .iter()
        .any(|name| format!("{pointer}/").contains(name));
    match (is_keyword, owner) {
        _ if is_inverted => Effect::Different,
        (false, "anyOf") => Effect::Stricter,
        _ => Effect::Looser,
    }
}

/// The part with other keywords in a subschema.
fn with_keywords(
    part: &Part,
    tool: Option<&str>,
    at: &str,
    keywords: Map<String, Value>,
) -> Option<Part> {
    match part {
        Part::Schema(schema) => {
            let mut schema = schema.clone();
            *schema.pointer_mut(at)? = Value::Object(keywords);
            Some(Part::Schema(schema))
        }
        Part::Tools(tools) => {
            let mut tools = tools.clone();
            let mut of_name = tools.iter_mut();
            let tool = of_name.find(|value| value["function"]["name"].as_str() == tool)?;
            *tool.pointer_mut(&format!("/function/parameters{at}"))? = Value::Object(keywords);
            Some(Part::Tools(tools))
        }
        Part::Text(_) => None,
    }
}

/// Other ways to say a keyword, which allow the same answers.
fn rewritten(name: &str, keywords: &Map<String, Value>) -> Vec<(String, Map<String, Value>)> {
    let Some(value) = keywords.get(name) else {
        return Vec::new();
    };
    let with = |other: &str, value: Value| {
        let mut changed = keywords.clone();
        changed.shift_remove(name);
        let has_it = changed.contains_key(other);
        let change = format!("{name} as \"{other}\": {value}");
        changed.insert(other.to_owned(), value);
        (!has_it).then_some((change, changed))
    };
    let is_integer = keywords.get("type").is_some_and(|kind| kind == "integer");
    let bound = |by: i64| -> Option<Value> {
        let bound = value.as_i64().filter(|_| is_integer)?;
        bound.checked_add(by).map(Value::from)
    };
    let rewritten = match name {
        "const" => with("enum", json!([value])),
        "enum" => match value.as_array().map(Vec::as_slice) {
            Some([only]) => with("const", only.clone()),
            _ => None,
        },
        "exclusiveMinimum" => bound(1).and_then(|bound| with("minimum", bound)),
        "exclusiveMaximum" => bound(-1).and_then(|bound| with("maximum", bound)),
        "type" => {
            let kinds = value.as_array().filter(|_| keywords.len() == 1);
            kinds.and_then(|kinds| {
                let each = kinds.iter().map(|kind| json!({"type": kind}));
                with("anyOf", each.collect())
            })
        }
        "allOf" => match value.as_array().map(Vec::as_slice) {
            Some([Value::Object(only)]) if keywords.len() == 1 => {
                Some(("allOf of one as its content".to_owned(), only.clone()))
            }
            _ => None,
        },
        _ => None,
    };
    rewritten.into_iter().collect()
}

/// The part without a place; `None` if it cannot be left out. A list of which nothing is left goes
/// with it.
pub(super) fn without_place(part: &Part, place: &Place) -> Option<Part> {
    let pointer = match keyword_of(place) {
        Some(name) => format!("{}/{}", place.pointer, pointer_token(name)),
        None => place.pointer.clone(),
    };
    let without = |value: &Value, pointer: &str| -> Option<Value> {
        let less = elements::without(value, pointer)?;
        let (list, _) = pointer.rsplit_once('/')?;
        let is_empty = |list: &Value| *list == json!({}) || *list == json!([]);
        let is_list = list
            .rsplit('/')
            .next()
            .is_some_and(|name| LISTS.contains(&name));
        match is_list && less.pointer(list).is_some_and(is_empty) {
            true => elements::without(&less, list),
            false => Some(less),
        }
    };
    match (part, &place.tool) {
        (Part::Schema(schema), _) => without(schema, &pointer).map(Part::Schema),
        (Part::Tools(tools), Some(name)) => {
            let is_named = |tool: &Value| tool["function"]["name"] == name.as_str();
            let mut tools = tools.clone();
            let at = tools.iter().position(is_named)?;
            let of_tool = tools[at].clone();
            let changed = match pointer.strip_prefix("/function") {
                Some("/name") => None,
                Some(_) => without(&of_tool, &pointer),
                None => without(&of_tool, &format!("/function/parameters{pointer}")),
            };
            match changed {
                Some(changed) => tools[at] = changed,
                None => drop(tools.remove(at)),
            }
            (!tools.is_empty()).then_some(Part::Tools(tools))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_rewritten_by_rules_that_hold_always() {
        for (name, keywords, expected) in [
            (
                "const",
                json!({"const": 1, "title": "t"}),
                Some(json!({"title": "t", "enum": [1]})),
            ),
            ("enum", json!({"enum": ["a"]}), Some(json!({"const": "a"}))),
            ("enum", json!({"enum": ["a", "b"]}), None),
            (
                "exclusiveMinimum",
                json!({"type": "integer", "exclusiveMinimum": 3}),
                Some(json!({"type": "integer", "minimum": 4})),
            ),
            (
                "exclusiveMinimum",
                json!({"type": "number", "exclusiveMinimum": 3}),
                None,
            ),
            (
                "exclusiveMaximum",
                json!({"type": "integer", "exclusiveMaximum": 3, "maximum": 9}),
                None,
            ),
            (
                "type",
                json!({"type": ["string", "null"]}),
                Some(json!({"anyOf": [{"type": "string"}, {"type": "null"}]})),
            ),
            (
                "type",
                json!({"type": ["string", "null"], "maxLength": 2}),
                None,
            ),
            (
                "allOf",
                json!({"allOf": [{"minimum": 1}]}),
                Some(json!({"minimum": 1})),
            ),
        ] {
            let found = rewritten(name, keywords.as_object().unwrap());
            let found = found
                .first()
                .map(|(_, keywords)| Value::Object(keywords.clone()));
            assert_eq!(found, expected, "{name}");
        }
    }
}
