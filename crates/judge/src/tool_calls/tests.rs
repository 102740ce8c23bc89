//! Tests of the judgement of tool calls: choices, ids, arguments, leaks, cut answers, large inputs.

use serde_json::json;

use super::*;
use crate::{Evaluator, judge};
use sobench_core::observation::Outcome;

/// `get_weather(city)`, `stop()` without parameters, `count(n)` with a schema that cannot be
/// judged, and the custom tools `digits` and `note`.
fn tools(choice: &Value, parallel: Option<bool>) -> Constraint {
    let function = |name: &str, parameters: Value| json!({"type": "function", "function": {"name": name, "parameters": parameters}});
    let custom = |members: Value| json!({"type": "custom", "custom": members});
    let city = json!({
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 9}},
        "required": ["city"],
        "additionalProperties": false,
    });
    let set = json!({
        "tools": [
            function("get_weather", city),
            {"type": "function", "function": {"name": "stop"}},
            function("count", json!({"$ref": "https://example.com/schema.json"})),
            custom(json!({"name": "digits", "format": {
                "type": "grammar", "grammar": {"syntax": "regex", "definition": "[0-9]+"}}})),
            custom(json!({"name": "note"})),
        ],
        "tool_choice": choice,
        "parallel_tool_calls": parallel,
    });
    serde_json::from_value(json!({"tools": set})).unwrap()
}

fn named(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name}})
}

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        index: 0,
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        ..ToolCall::default()
    }
}

fn weather(id: &str) -> ToolCall {
    call(id, "get_weather", r#"{"city": "Paris"}"#)
}

fn with_calls(tool_calls: Vec<ToolCall>) -> Answer {
    Answer {
        tool_calls,
        ..Answer::default()
    }
}

fn verdict(
    tools: &Constraint,
    outcome: &Outcome,
    answer: &Answer,
    finish_reason: Option<&str>,
) -> Verdict {
    let mut evaluator = Evaluator::new(JudgeSettings::default());
    let tools = evaluator.compile_request(Some(tools), None, Some(Channel::Content));
    let ending = Ending {
        outcome,
        finish_reason,
    };
    judge(&tools, answer, ending)
}

/// `valid`, the name of the reason, or the name of the cause of no verdict.
fn name(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Valid => "valid",
        Verdict::Invalid { reason } => reason.name(),
        Verdict::NotScored { why } => why.name(),
    }
}

#[track_caller]
fn check(tools: &Constraint, answer: &Answer, finish_reason: Option<&str>, expected: &str) {
    let verdict = verdict(tools, &Outcome::Completed, answer, finish_reason);
    assert_eq!(name(&verdict), expected, "{verdict:?}");
}

#[test]
fn choices_decide_which_calls_are_valid() {
    let text = Answer::from_text("It is warm.".to_owned());
    let one = with_calls(vec![weather("a")]);
    let other = with_calls(vec![call("a", "stop", "{}")]);
    let allowed = |mode: &str| json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [named("stop")]}});
    for (choice, of_text, of_weather, of_stop) in [
        (json!("auto"), "valid", "valid", "valid"),
        (json!("required"), "missing_call", "valid", "valid"),
        (json!("none"), "valid", "call_under_none", "call_under_none"),
        (named("get_weather"), "missing_call", "valid", "wrong_tool"),
        (allowed("auto"), "valid", "wrong_tool", "valid"),
        (allowed("required"), "missing_call", "wrong_tool", "valid"),
    ] {
        let tools = tools(&choice, None);
        check(&tools, &text, Some("stop"), of_text);
        check(&tools, &one, Some("tool_calls"), of_weather);
        check(&tools, &other, Some("tool_calls"), of_stop);
    }
}

#[test]
fn ids_are_present_and_unique() {
    let auto = tools(&json!("auto"), None);
    for (ids, expected) in [
        (&["a", "b"][..], "valid"),
        (&["a", "a"], "duplicate_call_id"),
        (&["a", ""], "missing_call_id"),
        (&["", ""], "missing_call_id"),
    ] {
        let calls = ids.iter().map(|id| weather(id)).collect();
        check(&auto, &with_calls(calls), None, expected);
    }
}

#[test]
fn number_of_calls_is_limited_without_parallel_calls() {
    let two = with_calls(vec![weather("a"), weather("b")]);
    for (parallel, expected) in [
        (None, "valid"),
        (Some(true), "valid"),
        (Some(false), "too_many_calls"),
    ] {
        check(&tools(&json!("auto"), parallel), &two, None, expected);
    }
    check(
        &tools(&json!("auto"), Some(false)),
        &with_calls(vec![weather("a")]),
        None,
        "valid",
    );
}

#[test]
fn arguments_are_judged_by_the_schema_of_their_tool() {
    let auto = tools(&json!("auto"), None);
    for (tool, arguments, why) in [
        ("get_weather", r#"{"city": 5}"#, "breaks `type` at /city"),
        ("get_weather", "{}", "breaks `required` at the document"),
        (
            "get_weather",
            r#"{"city":"Rome","city":"Oslo"}"#,
            "member \"city\" twice",
        ),
        (
            "get_weather",
            r#"{"city":"Rome"}{"city":"Oslo"}"#,
            "second JSON document",
        ),
        ("get_weather", r#"{"city":"Rome""#, "not JSON"),
        ("get_weather", r#""Rome""#, "breaks `type` at the document"),
        ("stop", "[]", "breaks `type` at the document"),
        ("digits", "12a", "only a prefix matches"),
    ] {
        let answer = with_calls(vec![weather("a"), call("b", tool, arguments)]);
        let verdict = verdict(&auto, &Outcome::Completed, &answer, None);
        let reason = verdict.into_reason().unwrap().to_string();
        let start = format!("tool_calls[1]: arguments of {tool:?}: {why}");
        assert!(reason.starts_with(&start), "{reason}");
    }
    let empty = with_calls(vec![call("a", "get_weather", "")]);
    let object = with_calls(vec![ToolCall {
        form: CallForm::Object,
        ..call("a", "stop", "{}")
    }]);
    for (answer, expected) in [
        (empty, "tool_calls[0]: empty arguments of \"get_weather\""),
        (
            object,
            "tool_calls[0]: arguments of \"stop\" are not a string",
        ),
    ] {
        let verdict = verdict(&auto, &Outcome::Completed, &answer, None);
        assert_eq!(verdict.into_reason().unwrap().to_string(), expected);
    }
    for (tool, arguments) in [
        ("stop", "{}"),
        ("stop", r#"{"x": 1}"#),
        ("digits", "12"),
        ("note", ""),
    ] {
        let answer = with_calls(vec![call("a", tool, arguments)]);
        check(&auto, &answer, None, "valid");
    }
    let unknown = with_calls(vec![call("a", "get_time", "{}")]);
    check(&auto, &unknown, None, "unknown_tool");
}

#[test]
fn a_schema_without_a_type_still_requires_an_object() {
    let set = json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]});
    let tools: Constraint = serde_json::from_value(json!({"tools": set})).unwrap();
    for (arguments, expected) in [("{}", "valid"), ("[1]", "invalid_arguments")] {
        let answer = with_calls(vec![call("a", "f", arguments)]);
        check(&tools, &answer, None, expected);
    }
}

#[test]
fn only_calls_of_a_tool_with_a_broken_schema_are_not_scored() {
    let auto = tools(&json!("auto"), None);
    check(&auto, &with_calls(vec![weather("a")]), None, "valid");
    let broken = || call("b", "count", "{}");
    check(&auto, &with_calls(vec![broken()]), None, "unsupported");
    let faulty = with_calls(vec![broken(), call("c", "get_time", "{}")]);
    check(&auto, &faulty, None, "unknown_tool");
}

#[test]
fn markup_of_calls_in_a_text_is_a_leak() {
    let auto = tools(&json!("auto"), None);
    let markup = "<tool_call>{\"name\": \"get_weather\"";
    for (answer, channel, byte) in [
        (
            Answer::from_text(format!("Well {markup}")),
            Channel::Content,
            5,
        ),
        (
            Answer {
                reasoning: markup.to_owned(),
                ..with_calls(vec![weather("a")])
            },
            Channel::Reasoning,
            0,
        ),
    ] {
        let fault = ToolCallFault::LeakedMarkup {
            channel,
            markup: "<tool_call".to_owned(),
            byte,
        };
        let reason = Reason::ToolCall(fault);
        assert_eq!(
            verdict(&auto, &Outcome::Completed, &answer, None),
            Verdict::Invalid { reason }
        );
    }
    for (text, expected) in [
        (
            r#"{"name": "get_weather", "parameters": {"city": "Oslo"}}"#,
            "leaked_markup",
        ),
        (r#"[{"name": "stop", "arguments": {}}]"#, "leaked_markup"),
        (r#"{"name": "get_time", "arguments": {}}"#, "valid"),
        (r#"{"name": "stop"}"#, "valid"),
        ("a < b, and f(x) <= [TOOL]", "valid"),
    ] {
        check(&auto, &Answer::from_text(text.to_owned()), None, expected);
    }
    for markup in MARKUP {
        let answer = Answer::from_text(format!("a{markup}"));
        check(&auto, &answer, None, "leaked_markup");
    }
}

#[test]
fn finish_reason_fits_the_calls() {
    let one = || with_calls(vec![weather("a")]);
    let text = || Answer::from_text("Hm".to_owned());
    for (choice, answer, finish_reason, expected) in [
        (json!("auto"), one(), Some("tool_calls"), "valid"),
        (json!("auto"), one(), Some("stop"), "wrong_finish_reason"),
        (json!("auto"), one(), None, "valid"),
        (json!("auto"), text(), Some("stop"), "valid"),
        (
            json!("auto"),
            text(),
            Some("tool_calls"),
            "wrong_finish_reason",
        ),
        (named("get_weather"), one(), Some("stop"), "valid"),
        (named("get_weather"), one(), Some("tool_calls"), "valid"),
        (json!("required"), one(), Some("stop"), "valid"),
        (json!("required"), one(), Some("eos"), "wrong_finish_reason"),
    ] {
        check(&tools(&choice, None), &answer, finish_reason, expected);
    }
}

#[test]
fn empty_answers_are_invalid() {
    for (choice, expected) in [
        (json!("auto"), "empty"),
        (json!("none"), "empty"),
        (json!("required"), "missing_call"),
    ] {
        let thought = Answer {
            reasoning: "Hm".to_owned(),
            ..Answer::from_text(" \n".to_owned())
        };
        check(&tools(&choice, None), &thought, Some("stop"), expected);
    }
}

#[test]
fn cut_answers_are_truncated_unless_they_are_already_wrong() {
    for (choice, calls, expected) in [
        (json!("auto"), vec![], "truncated"),
        (json!("required"), vec![], "truncated"),
        (json!("auto"), vec![weather("a")], "truncated"),
        (
            json!("auto"),
            vec![call("a", "get_weather", r#"{"city": "Pa"#)],
            "truncated",
        ),
        (json!("auto"), vec![call("a", "get_w", "")], "truncated"),
        (
            json!("auto"),
            vec![call("", "get_weather", "")],
            "truncated",
        ),
        (json!("auto"), vec![call("a", "digits", "1")], "truncated"),
        (json!("none"), vec![weather("a")], "call_under_none"),
        (json!("auto"), vec![call("a", "get_x", "")], "unknown_tool"),
        (json!("auto"), vec![call("a", "get_w", "{")], "unknown_tool"),
        (
            json!("auto"),
            vec![call("", "get_weather", "{")],
            "missing_call_id",
        ),
        (
            json!("auto"),
            vec![call("a", "get_weather", r#"{"city": 5"#)],
            "invalid_arguments",
        ),
        (
            json!("auto"),
            vec![call("a", "get_weather", "[1")],
            "invalid_arguments",
        ),
        (
            json!("auto"),
            vec![call("a", "digits", "1a")],
            "invalid_arguments",
        ),
        (
            json!("auto"),
            vec![call("a", "get_weather", r#"{"city": "Pa"#), weather("b")],
            "invalid_arguments",
        ),
        (
            json!("auto"),
            vec![weather("a"), weather("a")],
            "duplicate_call_id",
        ),
    ] {
        let answer = with_calls(calls);
        let verdict = verdict(
            &tools(&choice, None),
            &Outcome::Truncated,
            &answer,
            Some("length"),
        );
        assert_eq!(name(&verdict), expected, "{answer:?}: {verdict:?}");
    }
}

#[test]
fn a_call_that_was_cut_in_its_markup_is_truncated() {
    let auto = tools(&json!("auto"), None);
    for (content, cut) in [
        (
            "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"ci",
            "truncated",
        ),
        (
            "<tool_call>\n{\"name\": \"stop\", \"arguments\": {}}\n</tool_ca",
            "truncated",
        ),
        (
            "<tool_call>\n{\"name\": \"stop\", \"arguments\": {}}\n</tool_call>\n",
            "leaked_markup",
        ),
        ("<tool_call>{}</tool_call>\n<tool_call>", "truncated"),
        ("<tool_call>\n<function=stop>\n</function>", "truncated"),
        (
            "<tool_call>\n<function=stop>\n</function></tool_call> and",
            "leaked_markup",
        ),
        (
            "[TOOL_CALLS][{\"name\": \"get_weather\", \"argum",
            "truncated",
        ),
        (
            "[TOOL_CALLS][{\"name\": \"stop\", \"arguments\": {}}] so",
            "leaked_markup",
        ),
        ("[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Pa", "truncated"),
        (
            "<|tool_call_begin|>functions.stop:0<|tool_call_argument_begin|>{}<|tool_call_",
            "truncated",
        ),
        (
            "<|tool_call_begin|>functions.stop:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
            "leaked_markup",
        ),
        ("functools[{\"name\": \"stop\"", "truncated"),
        ("I use <tool_call>", "truncated"),
        ("</tool_call> so", "leaked_markup"),
        (
            "{\"name\": \"get_weather\", \"parameters\": {\"ci",
            "truncated",
        ),
    ] {
        let answer = Answer::from_text(content.to_owned());
        let found = verdict(&auto, &Outcome::Truncated, &answer, Some("length"));
        assert_eq!(name(&found), cut, "{content}");
        let ended = verdict(&auto, &Outcome::Completed, &answer, Some("stop"));
        let is_plain = content.starts_with('{');
        assert_eq!(name(&ended) == "leaked_markup", !is_plain, "{content}");
    }
    let thought = |content: &str| Answer {
        reasoning: "<tool_call>{\"name\"".to_owned(),
        ..Answer::from_text(content.to_owned())
    };
    for (content, expected) in [("", "truncated"), ("It is", "leaked_markup")] {
        let found = verdict(
            &auto,
            &Outcome::Truncated,
            &thought(content),
            Some("length"),
        );
        assert_eq!(name(&found), expected, "{content:?}");
    }
}

#[test]
fn cut_calls_are_not_judged_where_whole_ones_are_not() {
    let auto = tools(&json!("auto"), None);
    for outcome in [Outcome::Completed, Outcome::Truncated] {
        let answer = with_calls(vec![call("a", "count", "{")]);
        assert_eq!(
            name(&verdict(&auto, &outcome, &answer, None)),
            "unsupported"
        );
    }
}

#[test]
fn arguments_of_five_megabytes_are_too_long() {
    let auto = tools(&json!("auto"), None);
    let long = format!(r#"{{"city": "{}"}}"#, "x".repeat(5 << 20));
    let answer = with_calls(vec![call("a", "get_weather", &long)]);
    let verdict = verdict(&auto, &Outcome::Completed, &answer, None);
    assert_eq!(
        verdict.into_reason().unwrap().to_string(),
        format!(
            "tool_calls[0]: arguments of \"get_weather\": answer of {} bytes is over the limit",
            long.len()
        )
    );
}

#[test]
fn ten_thousand_tools_and_calls_are_judged() {
    let function = |index: usize| {
        json!({"type": "function", "function": {"name": format!("t{index}"), "parameters":
            {"type": "object", "properties": {"n": {"const": index}}, "required": ["n"]}}})
    };
    let functions: Vec<Value> = (0..10_000).map(function).collect();
    let tools: Constraint = serde_json::from_value(json!({"tools": {"tools": functions}})).unwrap();
    let calls = |last: usize| {
        let one = |index: usize, n: usize| {
            call(
                &index.to_string(),
                &format!("t{index}"),
                &format!("{{\"n\": {n}}}"),
            )
        };
        let right = (0..200).map(|index| one(index, index));
        with_calls(right.chain([one(9_999, last)]).collect())
    };
    check(&tools, &calls(9_999), None, "valid");
    check(&tools, &calls(1), None, "invalid_arguments");
}
