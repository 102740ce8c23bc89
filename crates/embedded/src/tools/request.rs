//! Reads the tools of a request.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::request::present;
use sobench_core::tools::{ToolForm, ToolInput, ToolSet};

/// The tools of a request, if it has any. Functions of the responses endpoint are strict unless
/// they say otherwise, as in OpenAI's API.
///
/// # Errors
/// Status 400 that names the field.
pub(crate) fn read(
    fields: &Map<String, Value>,
    form: ToolForm,
) -> Result<Option<Arc<ToolSet>>, Failure> {
    let choice = present(fields, "tool_choice");
    let is_empty = |tools: &Value| tools.as_array().is_some_and(Vec::is_empty);
    if present(fields, "tools").is_none_or(is_empty) {
        return match choice {
            Some(choice) if choice != "none" && choice != "auto" => {
                let message = "When using `tool_choice`, `tools` must be set.";
                Err(Failure::bad_request(message).about("tool_choice"))
            }
            _ => Ok(None),
        };
    }
    let mut tools = ToolSet::from_members(fields).map_err(|error| {
        let field = ["tool_choice", "parallel_tool_calls"]
            .into_iter()
            .find(|field| !error.what.starts_with("tools") && error.what.contains(field));
        let message = match error.hint {
            Some(hint) => format!("{}; {hint}", error.what),
            None => error.what,
        };
        Failure::bad_request(message).about(field.unwrap_or("tools"))
    })?;
    if form == ToolForm::Responses {
        for tool in &mut tools.tools {
            if let ToolInput::Function { strict, .. } = &mut tool.input {
                strict.get_or_insert(true);
            }
        }
    }
    Ok(Some(Arc::new(tools)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn param(fields: &Value) -> Option<&'static str> {
        let failure = read(fields.as_object().unwrap(), ToolForm::Chat).unwrap_err();
        assert_eq!(failure.status.as_u16(), 400);
        failure.param
    }

    #[test]
    fn errors_name_the_field() {
        let tool = |name: &str| json!({"type": "function", "function": {"name": name}});
        for (fields, field) in [
            (json!({"tools": [{}]}), "tools"),
            (
                json!({"tools": [{"type": "function", "function": {}}]}),
                "tools",
            ),
            (json!({"tools": [tool("a"), tool("a")]}), "tools"),
            (
                json!({"tools": [tool("tool_choice"), tool("tool_choice")]}),
                "tools",
            ),
            (
                json!({"tools": [tool("a")], "tool_choice": "any"}),
                "tool_choice",
            ),
            (
                json!({"tools": [tool("a")], "tool_choice": tool("b")}),
                "tool_choice",
            ),
            (json!({"tool_choice": "required"}), "tool_choice"),
            (
                json!({"tools": [tool("a")], "parallel_tool_calls": 1}),
                "parallel_tool_calls",
            ),
        ] {
            assert_eq!(param(&fields), Some(field), "{fields}");
        }
        let many: Vec<Value> = (0..=10_000)
            .map(|index| tool(&format!("t{index}")))
            .collect();
        assert_eq!(param(&json!({ "tools": many })), Some("tools"));
    }

    #[test]
    fn requests_without_tools_have_none() {
        for fields in [
            json!({}),
            json!({"tools": [], "tool_choice": "none"}),
            json!({"tools": null, "tool_choice": "auto"}),
        ] {
            assert_eq!(read(fields.as_object().unwrap(), ToolForm::Chat), Ok(None));
        }
    }

    #[test]
    fn functions_of_responses_are_strict() {
        let fields = json!({"tools": [{"type": "function", "name": "f"},
            {"type": "function", "name": "g", "strict": false}]});
        let read = |form| read(fields.as_object().unwrap(), form).unwrap().unwrap();
        let strict = |form| {
            let tools = read(form);
            tools
                .tools
                .iter()
                .map(sobench_core::tools::Tool::is_strict)
                .collect::<Vec<_>>()
        };
        assert_eq!(strict(ToolForm::Responses), [true, false]);
        assert_eq!(strict(ToolForm::Chat), [false, false]);
    }
}
