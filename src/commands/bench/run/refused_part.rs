//! Finds the part of a refused constraint that the server refuses alone: a tool of a list, and a
//! keyword of a schema. Sends the request with half of the parts, with half of those, and so on.

use std::sync::Arc;

use serde_json::Value;

use super::sending::Sending;
use sobench_backend::refused_keyword;
use sobench_core::case::Case;
use sobench_core::constraint::Constraint;
use sobench_core::error::Result;
use sobench_core::printable::{NAME_CHARS, printable};
use sobench_core::schema_keywords::{LITERAL_KEYWORDS, NAME_MAPS};
use sobench_core::schema_part::pointer_token;
use sobench_core::tools::{ToolChoice, ToolInput, ToolSet};
use sobench_notices::notice::RefusedPart;

/// Maximum output tokens of a request, which needs no whole answer.
const MAX_OUTPUT_TOKENS: u32 = 16;

/// Keywords without which a schema is another one, or that have no effect. They are always sent.
const SKELETON: [&str; 8] = [
    "type",
    "properties",
    "required",
    "items",
    "description",
    "title",
    "$defs",
    "definitions",
];

/// The number of requests sent, and the part that the server refuses. `None` where its message
/// names a keyword, and where no single part is the cause.
///
/// # Errors
/// A request cannot be sent.
pub(super) async fn find(
    sending: &Sending<'_>,
    case: &Case,
    message: &str,
) -> Result<(usize, Option<RefusedPart>)> {
    let mut search = Search {
        sending,
        case,
        requests: 0,
    };
    let constraint = case.constraint.as_deref();
    let constraint = constraint.filter(|own| refused_keyword(message, own).is_none());
    let part = if let Some(schema) = constraint.and_then(Constraint::schema) {
        let of_schema = |schema: Value| Constraint::JsonSchema(Arc::new(schema));
        search.keyword(schema, &of_schema).await?
    } else if let Some(tools) = constraint.and_then(Constraint::tools) {
        search.tool(tools).await?
    } else {
        None
    };
    Ok((search.requests, part))
}

struct Search<'a, 's> {
    sending: &'a Sending<'s>,
    /// The refused request.
    case: &'a Case,
    requests: usize,
}

impl Search<'_, '_> {
    /// Whether the server refuses the request with this constraint.
    async fn is_refused(&mut self, constraint: Constraint) -> Result<bool> {
        let case = Case {
            constraint: Some(Arc::new(constraint)),
            output_len: self.case.output_len.min(MAX_OUTPUT_TOKENS),
            ..self.case.clone()
        };
        let label = format!("trial-part-{}", self.requests);
        self.requests += 1;
        let seen = self.sending.send(&case, &label).await?;
        Ok(seen.outcome.content_refusal().is_some())
    }

    /// The part that is refused without the others.
    async fn halve<T: Clone>(
        &mut self,
        mut parts: Vec<T>,
        with: &dyn Fn(&[T]) -> Constraint,
    ) -> Result<Option<T>> {
        while parts.len() > 1 {
            let second = parts.split_off(parts.len() / 2);
            if !self.is_refused(with(&parts)).await? {
                parts = second;
            }
        }
        let is_cause = !parts.is_empty() && self.is_refused(with(&parts)).await?;
        Ok(parts.pop().filter(|_| is_cause))
    }

    async fn tool(&mut self, tools: &ToolSet) -> Result<Option<RefusedPart>> {
        let all: Vec<usize> = (0..tools.tools.len()).collect();
        let with = |kept: &[usize]| Constraint::Tools(Arc::new(subset(tools, kept)));
        let Some(found) = self.halve(all.clone(), &with).await? else {
            return Ok(None);
        };
        let name = Some(tools.tools[found].name.clone());
        if let ToolInput::Function {
            parameters: Some(schema),
            strict,
        } = &tools.tools[found].input
        {
            let with_schema = |schema: Value| {
                let mut one = subset(tools, &[found]);
                one.tools[0].input = ToolInput::Function {
                    parameters: Some(schema),
                    strict: *strict,
                };
                Constraint::Tools(Arc::new(one))
            };
            if let Some(part) = self.keyword(schema, &with_schema).await? {
                return Ok(Some(RefusedPart { tool: name, ..part }));
            }
        }
        // A server may refuse every list of tools.
        let others: Vec<usize> = all.into_iter().filter(|tool| *tool != found).collect();
        let is_cause = !others.is_empty() && !self.is_refused(with(&others)).await?;
        Ok(is_cause.then(|| RefusedPart {
            tool: name,
            ..RefusedPart::default()
        }))
    }

    /// The keyword that is refused without the others: first of those with a plain value, then of
    /// those with schemas in them.
    async fn keyword(
        &mut self,
        schema: &Value,
        constraint: &dyn Fn(Value) -> Constraint,
    ) -> Result<Option<RefusedPart>> {
        let (mut plain, mut nested) = (Vec::new(), Vec::new());
        add_keywords(schema, &[], &mut plain, &mut nested);
        for keywords in [plain, nested] {
            let with = |kept: &[Vec<String>]| {
                let removed = keywords.iter().filter(|path| !kept.contains(path));
                constraint(removed.fold(schema.clone(), |schema, path| {
                    with_value(schema, path, None)
                }))
            };
            if keywords.is_empty() || self.is_refused(with(&[])).await? {
                continue;
            }
            let Some(path) = self.halve(keywords.clone(), &with).await? else {
                return Ok(None);
            };
            let accepted = self.limit(schema, &path, constraint).await?;
            return Ok(Some(RefusedPart {
                accepted,
                ..part(schema, &path)
            }));
        }
        Ok(None)
    }

    /// The highest value of a keyword that the server accepts, if its value is too high.
    async fn limit(
        &mut self,
        schema: &Value,
        path: &[String],
        constraint: &dyn Fn(Value) -> Constraint,
    ) -> Result<Option<u64>> {
        let value = schema.pointer(&pointer(path)).and_then(Value::as_u64);
        let (mut accepted, mut refused) = (0, value.unwrap_or(0));
        while refused - accepted > 1 {
            let middle = accepted + (refused - accepted) / 2;
            let changed = with_value(schema.clone(), path, Some(middle.into()));
            if self.is_refused(constraint(changed)).await? {
                refused = middle;
            } else {
                accepted = middle;
            }
        }
        Ok((accepted > 0).then_some(accepted))
    }
}

/// The tools with these indices. A choice of one tool may name another one.
fn subset(tools: &ToolSet, kept: &[usize]) -> ToolSet {
    let choice = match &tools.choice {
        ToolChoice::Named(_) | ToolChoice::Allowed { .. } => ToolChoice::Required,
        choice => choice.clone(),
    };
    ToolSet {
        tools: kept.iter().map(|tool| tools.tools[*tool].clone()).collect(),
        choice,
        ..tools.clone()
    }
}

/// Adds the paths of all keywords that may be removed.
fn add_keywords(
    schema: &Value,
    path: &[String],
    plain: &mut Vec<Vec<String>>,
    nested: &mut Vec<Vec<String>>,
) {
    let below = |step: &str| [path, &[step.to_owned()]].concat();
    match schema {
        Value::Array(schemas) => {
            for (index, schema) in schemas.iter().enumerate() {
                add_keywords(schema, &below(&index.to_string()), plain, nested);
            }
        }
        Value::Object(members) => {
            for (keyword, value) in members {
                let path = below(keyword);
                let is_plain = LITERAL_KEYWORDS.contains(&keyword.as_str())
                    || !(value.is_object() || value.is_array());
                if !SKELETON.contains(&keyword.as_str()) {
                    let kind = if is_plain { &mut *plain } else { &mut *nested };
                    kind.push(path.clone());
                }
                match value {
                    Value::Object(named) if NAME_MAPS.contains(&keyword.as_str()) => {
                        for (name, schema) in named {
                            let path = [&path[..], std::slice::from_ref(name)].concat();
                            add_keywords(schema, &path, plain, nested);
                        }
                    }
                    _ if is_plain => {}
                    _ => add_keywords(value, &path, plain, nested),
                }
            }
        }
        _ => {}
    }
}

/// The JSON Pointer (RFC 6901) of a path.
fn pointer(path: &[String]) -> String {
    path.iter()
        .map(|step| format!("/{}", pointer_token(step)))
        .collect()
}

/// The schema with another value at `path`, or without the keyword.
fn with_value(mut schema: Value, path: &[String], value: Option<Value>) -> Value {
    let Some((keyword, parent)) = path.split_last() else {
        return schema;
    };
    let parent = schema.pointer_mut(&pointer(parent));
    if let Some(members) = parent.and_then(Value::as_object_mut) {
        match value {
            Some(value) => members.insert(keyword.clone(), value),
            None => members.shift_remove(keyword),
        };
    }
    schema
}

/// The keyword at `path`, with its value and the names on its way.
fn part(schema: &Value, path: &[String]) -> RefusedPart {
    let (keyword, steps) = path
        .split_last()
        .map_or(("", path), |(last, steps)| (last.as_str(), steps));
    let value = schema.pointer(&pointer(path));
    let value = value.map_or_else(String::new, Value::to_string);
    let mut names = Vec::new();
    let mut is_name = false;
    for step in steps {
        let is_map = !is_name && NAME_MAPS.contains(&step.as_str());
        if !is_map && (is_name || step != "items") {
            names.push(printable(step, NAME_CHARS));
        }
        is_name = is_map;
    }
    RefusedPart {
        tool: None,
        keyword: Some((
            printable(keyword, NAME_CHARS),
            printable(&value, NAME_CHARS),
        )),
        accepted: None,
        path: names.join("/"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(schema: &Value) -> [Vec<String>; 2] {
        let (mut plain, mut nested) = (Vec::new(), Vec::new());
        add_keywords(schema, &[], &mut plain, &mut nested);
        [plain, nested].map(|paths| paths.iter().map(|path| path.join("/")).collect())
    }

    #[test]
    fn keywords_are_found_at_any_depth_and_removed_alone() {
        let schema = json!({
            "type": "object",
            "properties": {
                "maxLength": {"type": "string", "maxLength": 9, "enum": [{"pattern": "x"}]},
                "list": {"type": "array", "maxItems": 5, "items": {"anyOf": [{"minimum": 1}, {"$ref": "#"}]}},
            },
            "required": ["list"],
            "additionalProperties": false,
        });
        let [plain, nested] = paths(&schema);
        assert_eq!(
            plain,
            [
                "properties/maxLength/maxLength",
                "properties/maxLength/enum",
                "properties/list/maxItems",
                "properties/list/items/anyOf/0/minimum",
                "properties/list/items/anyOf/1/$ref",
                "additionalProperties",
            ]
        );
        assert_eq!(nested, ["properties/list/items/anyOf"]);
        let path: Vec<String> = plain[3].split('/').map(str::to_owned).collect();
        let mut expected = schema.clone();
        expected["properties"]["list"]["items"]["anyOf"][0] = json!({});
        assert_eq!(with_value(schema.clone(), &path, None), expected);
        let found = part(&schema, &path);
        assert_eq!(found.to_string(), "the keyword minimum (1) at list/anyOf/0");
    }
}
