//! Whether an answer is the call that a reference asks for, by the rules of the Berkeley
//! Function-Calling Leaderboard (`ast_checker`). Knows no schema and no dataset.
//!
//! The reference is `{"ground_truth": [{function: {parameter: [allowed value, ...]}}, ...]}`. A
//! call is right if it names the function, has no parameter that the reference lacks, and the value
//! of each is an allowed one; a parameter may be absent where the empty text is among its values.
//! Texts are compared without case, blanks and the marks `,./-_*^`, and with `'` as `"`; numbers by
//! value. Several calls may come in any order, each once.

use serde_json::{Map, Value};

use sobench_core::observation::{Outcome, TransportCause};

/// The most calls of one reference; one with more says nothing.
pub const MAX_CALLS: usize = 1000;

/// Whether an answer makes the calls of the reference: requests that were refused, cut or failed
/// made no call, and those that the user cancelled, or that this machine had no connection for, are
/// not scored.
pub fn is_right(reference: Option<&str>, outcome: &Outcome, text: &str) -> Option<bool> {
    let reference = reference?;
    match outcome {
        Outcome::Cancelled
        | Outcome::Transport {
            cause: TransportCause::Local,
            ..
        } => None,
        Outcome::Completed => agrees(reference, text),
        _ => agrees(reference, ""),
    }
}

/// Whether the answer makes the calls of the reference; `None` where the reference is none of this
/// kind. An answer that is no call is not the right one.
pub fn agrees(reference: &str, answer: &str) -> Option<bool> {
    let reference: Value = serde_json::from_str(reference).ok()?;
    let expected = reference
        .get("ground_truth")?
        .as_array()
        .filter(|calls| calls.len() <= MAX_CALLS)?;
    let Ok(answer) = serde_json::from_str::<Value>(answer.trim()) else {
        return Some(false);
    };
    let made = match &answer {
        Value::Array(calls) => calls.iter().collect(),
        call => vec![call],
    };
    Some(made.len() == expected.len() && pair_up(expected, &made))
}

/// Whether every call has a reference of its own: a call may fit several, so that one that is taken
/// may have to give way (Kuhn's augmenting paths).
fn pair_up(expected: &[Value], made: &[&Value]) -> bool {
    let fits: Vec<Vec<bool>> = made
        .iter()
        .map(|call| expected.iter().map(|it| is_call(it, call)).collect())
        .collect();
    let mut taken_by = vec![None; expected.len()];
    (0..made.len())
        .all(|call| find_place(call, &fits, &mut taken_by, &mut vec![false; expected.len()]))
}

fn find_place(
    call: usize,
    fits: &[Vec<bool>],
    taken_by: &mut [Option<usize>],
    is_tried: &mut [bool],
) -> bool {
    for place in 0..taken_by.len() {
        if !fits[call][place] || is_tried[place] {
            continue;
        }
        is_tried[place] = true;
        if taken_by[place].is_none_or(|other| find_place(other, fits, taken_by, is_tried)) {
            taken_by[place] = Some(call);
            return true;
        }
    }
    false
}

fn is_call(expected: &Value, call: &Value) -> bool {
    let arguments = call.get("arguments").and_then(Value::as_object);
    let named = call
        .get("name")
        .and_then(Value::as_str)
        .and_then(|name| expected.get(name)?.as_object());
    named
        .zip(arguments)
        .is_some_and(|(allowed, arguments)| members_fit(allowed, arguments))
}

/// Whether every member has an allowed value, and those that are not there may be absent.
fn members_fit(allowed: &Map<String, Value>, members: &Map<String, Value>) -> bool {
    let is_known = members
        .iter()
        .all(|(name, value)| allowed.get(name).is_some_and(|values| fits(values, value)));
    let may_be_absent = |values: &Value| {
        values
            .as_array()
            .is_some_and(|values| values.iter().any(|value| value == ""))
    };
    is_known
        && allowed
            .iter()
            .all(|(name, values)| members.contains_key(name) || may_be_absent(values))
}

fn fits(allowed: &Value, value: &Value) -> bool {
    match allowed {
        Value::Array(values) => values.iter().any(|allowed| is_same(allowed, value)),
        single => is_same(single, value),
    }
}

fn is_same(expected: &Value, value: &Value) -> bool {
    match (expected, value) {
        (Value::String(expected), Value::String(text)) => plain(expected) == plain(text),
        (Value::Number(expected), Value::Number(number)) => expected.as_f64() == number.as_f64(),
        (Value::Array(expected), Value::Array(items)) => {
            expected.len() == items.len()
                && expected
                    .iter()
                    .zip(items)
                    .all(|(expected, item)| is_same(expected, item))
        }
        // Within a reference, the values of an object are lists of allowed ones as well.
        (Value::Object(expected), Value::Object(members)) => members_fit(expected, members),
        (expected, value) => expected == value,
    }
}

/// A text as it is compared (`standardize_string`).
fn plain(text: &str) -> String {
    let kept = text
        .chars()
        .filter(|letter| !matches!(letter, ' ' | ',' | '.' | '/' | '-' | '_' | '*' | '^'));
    kept.flat_map(char::to_lowercase)
        .map(|letter| if letter == '\'' { '"' } else { letter })
        .collect()
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
        assert_eq!(agrees(reference, answer), expected, "{answer}");
    }

    #[test]
    fn a_call_is_right_if_every_value_is_allowed() {
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
    fn several_calls_come_in_any_order_each_once() {
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

        // Trying out every order would take for ever.
        let reference = format!(
            r#"{{"ground_truth": [{}, {{"go": {{"to": ["Rome"]}}}}]}}"#,
            [r#"{"go": {"to": ["Paris"]}}"#; 200].join(",")
        );
        let calls = [call("Paris").as_str(); 201].join(",");
        check(&reference, &format!("[{calls}]"), Some(false));
    }

    #[test]
    fn lists_and_objects_are_looked_into() {
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
    fn other_references_say_nothing() {
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
