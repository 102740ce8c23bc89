//! Compares the function calls of an answer with a reference, by the rules of the Berkeley
//! Function-Calling Leaderboard (`ast_checker`).
//!
//! The reference is `{"ground_truth": [{function: {parameter: [allowed value, ...]}}, ...]}`. A
//! call is correct if its function is in the reference, all its parameters are in the reference,
//! and each has an allowed value of the function's type. A parameter may be absent if the empty
//! string is among its values and the function does not require it. Strings are compared without
//! case, spaces and the characters `,./-_*^`, and with `'` as `"`. Several calls may be in any
//! order, each once.

mod arguments;

use serde_json::{Value, json};

use sobench_core::answer::{Answer, ToolCall};
use sobench_core::constraint::Constraint;
use sobench_core::observation::Outcome;
use sobench_core::tools::{ToolChoice, ToolSet};

/// Maximum number of calls of a reference. Longer references are ignored.
pub const MAX_CALLS: usize = 1000;

/// Whether an answer makes the calls of the reference. Rejected, truncated and failed requests made
/// no correct call. Cancelled requests, and those that failed in the client, are not scored.
///
/// If the request offers tools, the calls are the tool calls of the answer, and without a call in
/// the reference an answer without calls is correct. Otherwise the text of the answer has the calls
/// as JSON.
pub fn is_correct(
    reference: Option<&str>,
    outcome: &Outcome,
    constraint: Option<&Constraint>,
    answer: &Answer,
) -> Option<bool> {
    let expected = expected_calls(reference?)?;
    let is_completed = *outcome == Outcome::Completed;
    outcome
        .has_result()
        .then(|| is_completed && makes_calls(&expected, constraint, answer))
}

/// Whether a complete answer makes exactly the expected calls; see [`is_correct`].
pub(crate) fn makes_calls(
    expected: &[Value],
    constraint: Option<&Constraint>,
    answer: &Answer,
) -> bool {
    match constraint.and_then(Constraint::tools) {
        Some(tools) => makes_tool_calls(expected, &Functions::Tools(tools), &answer.tool_calls),
        None => has_expected_calls(expected, constraint, &answer.text()),
    }
}

/// The calls of a reference. `None` if it has another format.
pub fn expected_calls(reference: &str) -> Option<Vec<Value>> {
    let reference: Value = serde_json::from_str(reference).ok()?;
    match reference {
        Value::Object(mut members) => match members.remove("ground_truth")? {
            Value::Array(calls) if calls.len() <= MAX_CALLS => Some(calls),
            _ => None,
        },
        _ => None,
    }
}

/// Whether the request makes a call due: by its choice, else by the reference. `None` if neither
/// says it.
pub fn is_due(reference: Option<&str>, tools: &ToolSet) -> Option<bool> {
    match &tools.choice {
        ToolChoice::None => Some(false),
        choice if choice.requires_call() => Some(true),
        _ => Some(!expected_calls(reference?)?.is_empty()),
    }
}

/// Whether tool calls are those of the reference.
fn makes_tool_calls(expected: &[Value], functions: &Functions<'_>, calls: &[ToolCall]) -> bool {
    if calls.len() != expected.len() {
        return false;
    }
    let read = |call: &ToolCall| {
        let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
        Some(json!({"name": call.name, "arguments": arguments}))
    };
    let calls: Option<Vec<Value>> = calls.iter().map(read).collect();
    calls
        .is_some_and(|calls| can_assign_all(expected, functions, &calls.iter().collect::<Vec<_>>()))
}

/// Whether an answer in JSON makes the calls of the reference. `constraint` has the functions. `None`
/// if the reference has another format. An answer without calls is incorrect.
pub fn matches_reference(
    reference: &str,
    constraint: Option<&Constraint>,
    answer: &str,
) -> Option<bool> {
    Some(has_expected_calls(
        &expected_calls(reference)?,
        constraint,
        answer,
    ))
}

fn has_expected_calls(expected: &[Value], constraint: Option<&Constraint>, answer: &str) -> bool {
    let Ok(answer) = serde_json::from_str::<Value>(answer.trim()) else {
        return false;
    };
    let calls_made = match &answer {
        Value::Array(calls) => calls.iter().collect(),
        call => vec![call],
    };
    let functions = Functions::new(constraint);
    calls_made.len() == expected.len() && can_assign_all(expected, &functions, &calls_made)
}

/// Whether a text is JSON with a call: an object with the member `name`, alone or in a list.
pub fn has_calls(text: &str) -> bool {
    let is_call = |value: &Value| value.get("name").is_some_and(Value::is_string);
    match serde_json::from_str::<Value>(text.trim()) {
        Ok(Value::Array(calls)) => calls.iter().any(is_call),
        Ok(value) => is_call(&value),
        Err(_) => false,
    }
}

/// Whether every call can be assigned to its own reference call. A call may match several, so
/// assignments are revised (Kuhn's augmenting paths).
fn can_assign_all(expected: &[Value], functions: &Functions<'_>, calls_made: &[&Value]) -> bool {
    let matches: Vec<Vec<bool>> = calls_made
        .iter()
        .map(|call| {
            expected
                .iter()
                .map(|reference| call_matches(reference, functions, call))
                .collect()
        })
        .collect();
    let mut assigned_to = vec![None; expected.len()];
    (0..calls_made.len()).all(|call| {
        assign(
            call,
            &matches,
            &mut assigned_to,
            &mut vec![false; expected.len()],
        )
    })
}

fn assign(
    call: usize,
    matches: &[Vec<bool>],
    assigned_to: &mut [Option<usize>],
    is_visited: &mut [bool],
) -> bool {
    for reference_index in 0..assigned_to.len() {
        if !matches[call][reference_index] || is_visited[reference_index] {
            continue;
        }
        is_visited[reference_index] = true;
        if assigned_to[reference_index]
            .is_none_or(|previous| assign(previous, matches, assigned_to, is_visited))
        {
            assigned_to[reference_index] = Some(call);
            return true;
        }
    }
    false
}

fn call_matches(expected: &Value, functions: &Functions<'_>, call: &Value) -> bool {
    let arguments = call.get("arguments").and_then(Value::as_object);
    let name = call.get("name").and_then(Value::as_str);
    let allowed = name.and_then(|name| expected.get(name)?.as_object());
    allowed.zip(arguments).is_some_and(|(allowed, arguments)| {
        let parameters = name.and_then(|name| functions.parameters(name));
        arguments::are_allowed(allowed, parameters, arguments)
    })
}

/// The functions that a request offers.
enum Functions<'a> {
    Tools(&'a ToolSet),
    /// The schema of an answer in JSON: a call, or a list of calls.
    Schema(&'a Value),
    Unknown,
}

impl<'a> Functions<'a> {
    fn new(constraint: Option<&'a Constraint>) -> Self {
        let tools = constraint.and_then(Constraint::tools).map(Self::Tools);
        let schema = || Some(Self::Schema(constraint?.schema()?));
        tools.or_else(schema).unwrap_or(Self::Unknown)
    }

    /// The schema of the function's arguments, if it is known.
    fn parameters(&self, name: &str) -> Option<&'a Value> {
        match self {
            Self::Tools(tools) => tools.tool(name)?.parameters(),
            Self::Schema(schema) => {
                let call = schema.get("items").unwrap_or(schema);
                let branches = call.get("anyOf").and_then(Value::as_array);
                let mut branches = branches
                    .map_or(std::slice::from_ref(call), Vec::as_slice)
                    .iter();
                let of_branch = |branch: &'a Value| branch.get("properties");
                branches.find_map(|branch| {
                    let properties = of_branch(branch)?;
                    let is_named = properties.get("name")?.get("const")? == name;
                    properties.get("arguments").filter(|_| is_named)
                })
            }
            Self::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AREA: &str = r#"{"ground_truth": [{"area": {"base": [10], "height": [5, 5.5], "unit": ["units", ""]}}]}"#;
    const TWO: &str = r#"{"ground_truth": [{"go": {"to": ["Paris", "New York, NY"]}}, {"go": {"to": ["Paris"]}}]}"#;
    const DEEP: &str =
        r#"{"ground_truth": [{"f": {"where": [{"x": [[1, 2]], "y": ["a", ""]}], "on": [true]}}]}"#;

    #[track_caller]
    fn check(reference: &str, answer: &str, expected: Option<bool>) {
        assert_eq!(
            matches_reference(reference, None, answer),
            expected,
            "{answer}"
        );
    }

    #[test]
    fn a_call_is_correct_if_every_value_is_allowed() {
        for (answer, expected) in [
            (
                r#"{"name": "area", "arguments": {"base": 10, "height": 5}}"#,
                true,
            ),
            (
                r#" {"name": "area", "arguments": {"base": 10.0, "height": 5.5, "unit": "Units."}} "#,
                true,
            ),
            (
                r#"[{"name": "area", "arguments": {"base": 10, "height": 5}}]"#,
                true,
            ),
            (
                r#"{"name": "area", "arguments": {"base": 10, "height": 6}}"#,
                false,
            ),
            (
                r#"{"name": "area", "arguments": {"base": "10", "height": 5}}"#,
                false,
            ),
            (r#"{"name": "area", "arguments": {"base": 10}}"#, false),
            (
                r#"{"name": "area", "arguments": {"base": 10, "height": 5, "depth": 1}}"#,
                false,
            ),
            (
                r#"{"name": "Area", "arguments": {"base": 10, "height": 5}}"#,
                false,
            ),
            (r#"{"name": "area"}"#, false),
            ("I cannot", false),
            ("", false),
            ("[]", false),
        ] {
            check(AREA, answer, Some(expected));
        }
    }

    #[test]
    fn calls_match_in_any_order_each_once() {
        let call = |to: &str| format!(r#"{{"name": "go", "arguments": {{"to": "{to}"}}}}"#);
        for (calls, expected) in [
            (["new york ny", "paris"], true),
            (["paris", "New York, NY"], true),
            (["Paris", "Paris"], true),
            (["New York NY", "New York NY"], false),
        ] {
            check(
                TWO,
                &format!("[{}]", calls.map(call).join(",")),
                Some(expected),
            );
        }
        check(TWO, &call("Paris"), Some(false));

        // Testing every order would not terminate in reasonable time.
        let reference = format!(
            r#"{{"ground_truth": [{}, {{"go": {{"to": ["Rome"]}}}}]}}"#,
            [r#"{"go": {"to": ["Paris"]}}"#; 200].join(",")
        );
        let calls = [call("Paris").as_str(); 201].join(",");
        check(&reference, &format!("[{calls}]"), Some(false));
    }

    #[test]
    fn nested_values_are_compared() {
        let call = |arguments: &str| format!(r#"{{"name": "f", "arguments": {arguments}}}"#);
        check(
            DEEP,
            &call(r#"{"where": {"x": [1, 2.0]}, "on": true}"#),
            Some(true),
        );
        check(
            DEEP,
            &call(r#"{"where": {"x": [1, 2], "y": "A"}, "on": true}"#),
            Some(true),
        );
        check(
            DEEP,
            &call(r#"{"where": {"x": [2, 1]}, "on": true}"#),
            Some(false),
        );
        check(
            DEEP,
            &call(r#"{"where": {"x": [1, 2]}, "on": "true"}"#),
            Some(false),
        );
    }

    #[test]
    fn tool_calls_are_compared_and_abstention_is_right() {
        let tools = r#"{"tools":{"tools":[{"type":"function","function":{"name":"area"}}]}}"#;
        let tools: Constraint = serde_json::from_str(tools).unwrap();
        let call = |name: &str, arguments: &str| ToolCall {
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            ..ToolCall::default()
        };
        let right = call("area", r#"{"base": 10, "height": 5}"#);
        let none = r#"{"ground_truth": []}"#;
        for (reference, calls, expected) in [
            (AREA, vec![right.clone()], true),
            (AREA, vec![right.clone(), right.clone()], false),
            (
                AREA,
                vec![call("area", r#"{"base": 10, "height": 6}"#)],
                false,
            ),
            (AREA, vec![call("area", r#"{"base": 10"#)], false),
            (AREA, vec![], false),
            (none, vec![], true),
            (none, vec![right], false),
        ] {
            let answer = Answer {
                tool_calls: calls,
                ..Answer::from_text("Let me see".to_owned())
            };
            let is_correct = |outcome| is_correct(Some(reference), &outcome, Some(&tools), &answer);
            assert_eq!(is_correct(Outcome::Completed), Some(expected));
            assert_eq!(is_correct(Outcome::Truncated), Some(false));
            assert_eq!(is_correct(Outcome::Cancelled), None);
        }
        let text = Answer::from_text("{}".to_owned());
        assert_eq!(
            is_correct(Some("{}"), &Outcome::Completed, Some(&tools), &text),
            None
        );
    }

    #[test]
    fn the_choice_or_the_reference_makes_a_call_due() {
        let none = r#"{"ground_truth": []}"#;
        for (choice, reference, expected) in [
            ("auto", Some(AREA), Some(true)),
            ("auto", Some(none), Some(false)),
            ("auto", Some("{}"), None),
            ("auto", None, None),
            ("required", None, Some(true)),
            ("required", Some(none), Some(true)),
            ("none", Some(AREA), Some(false)),
        ] {
            let set = json!({
                "tools": [{"type": "function", "function": {"name": "area"}}],
                "tool_choice": choice,
            });
            let set: ToolSet = serde_json::from_value(set).unwrap();
            assert_eq!(is_due(reference, &set), expected, "{choice} {reference:?}");
        }
    }

    #[test]
    fn references_of_another_format_are_ignored() {
        let many = format!(
            r#"{{"ground_truth": [{}]}}"#,
            ["{}"; MAX_CALLS + 1].join(",")
        );
        for reference in [
            many.as_str(),
            "",
            "{}",
            r#"{"name": "x"}"#,
            r#"{"ground_truth": 1}"#,
        ] {
            check(reference, "{}", None);
        }
    }
}
