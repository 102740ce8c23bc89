//! Checks before a run that all requests can be sent as requested.

use std::collections::HashSet;

use serde_json::Value;

use super::body_layout::BodyLayout;
use super::{BodySettings, ConstraintDialect, ServerKind, Unsendable, adapter};
use sobench_core::case::{Arm, Case, Prompt};
use sobench_core::constraint::ConstraintKind;
use sobench_core::error::{Error, Result};

/// Rejects a run whose requests would not be what the user requested.
///
/// # Errors
/// Usage errors: a constraint that the dialect cannot carry; constraints that this server kind has
/// no field for, if there are no others (otherwise such a case is not sent, and has an outcome of
/// its own); a parameter without a field; chat messages for a completions backend; an
/// `--extra-body` that changes or adds a constraint, requests several choices (`usage` counts the
/// tokens of all, but one is timed), sets fields that the report states (model, prompt, length,
/// streaming), or constrains requests of the control arm.
pub fn check(kind: ServerKind, cases: &[Case], options: &BodySettings) -> Result<()> {
    check_extra_body(kind, cases, options)?;
    let adapter = adapter(kind);
    let constrained = || cases.iter().filter(|case| case.arm.sends_constraint());
    let has_supported = constrained().any(|case| unsupported(kind, case).is_none());
    let mut seen = HashSet::new();
    for case in cases
        .iter()
        .filter(|case| !has_supported || unsupported(kind, case).is_none())
    {
        if !seen.insert(case.body_key()) {
            continue;
        }
        adapter
            .encode(case, options)
            .map_err(|unsendable| unsendable.into_error(case))?;
    }
    Ok(())
}

/// The reason not to send a case whose constraint has no field in any dialect of this server kind,
/// or whose tools have none.
pub fn unsupported(kind: ServerKind, case: &Case) -> Option<Unsendable> {
    if matches!(case.prompt, Prompt::Body(_)) {
        return None;
    }
    let constraint = case.constraint.as_deref()?;
    let is_carried = match constraint.tools() {
        _ if case.arm == Arm::Free => true,
        Some(tools) => {
            let form = kind.spec().tools;
            if let Some(member) = form.and_then(|form| tools.unsendable_member(form)) {
                return Some(ConstraintDialect::no_tool_field(kind, member));
            }
            form.is_some()
        }
        None => {
            let constraint_kind = ConstraintKind::from_constraint(constraint);
            let mut dialects = kind.dialects().iter();
            !case.arm.sends_constraint() || dialects.any(|dialect| dialect.carries(constraint_kind))
        }
    };
    (!is_carried).then(|| ConstraintDialect::no_field(kind, constraint))
}

fn check_extra_body(kind: ServerKind, cases: &[Case], options: &BodySettings) -> Result<()> {
    let Some(extra) = &options.extra_body else {
        return Ok(());
    };
    let layout = &kind.spec().body;
    let has_control = cases
        .iter()
        .any(|case| !case.arm.sends_constraint() && case.constraint.is_some());
    let has_constrained = cases.iter().any(|case| case.arm.sends_constraint());
    for (field, value) in extra {
        if layout.nested_in == Some(field.as_str()) && !value.is_object() {
            return Err(Error::usage(format!(
                "--extra-body replaces the object that holds the parameters: {field} = {value}"
            ))
            .hint("give an object, whose members are merged with those that sobench sends"));
        }
        let members = value
            .as_object()
            .filter(|_| layout.nested_in == Some(field.as_str()));
        for (name, value) in members.into_iter().flatten() {
            check_field(layout, name, value)?;
        }
        if members.is_none() {
            check_field(layout, field, value)?;
        }
        if !has_control || !ConstraintDialect::constrains(field, value) {
            continue;
        }
        if has_constrained {
            return Err(Error::usage(format!(
                "--extra-body also constrains the control requests: {field}"
            ))
            .hint(
                "remove the field, or constrain every request: with --guided-decoding-ratio 1.0, or \
                 without the arms free and prompt of --arms",
            ));
        }
        // Without constraints of the dataset, tools are part of the workload.
        if field != "tool_choice" {
            return Err(Error::usage(format!(
                "--extra-body constrains requests that are sent without a constraint: {field}"
            ))
            .hint("remove the field, or remove --no-guided-decoding to send the constraint of the dataset"));
        }
    }
    Ok(())
}

fn check_field(layout: &BodyLayout, field: &str, value: &Value) -> Result<()> {
    if matches!(field, "n" | "best_of") && value.as_u64() != Some(1) {
        return Err(Error::usage(format!(
            "--extra-body requests several choices: {field} = {value}"
        ))
        .hint(
            "remove the field and raise --num-prompts; one answer per request is timed and judged",
        ));
    }
    if layout.is_set_by_sobench(field) {
        return Err(Error::usage(format!("--extra-body sets a field that sobench sets: {field} = {value}"))
            .hint("remove the field, and use --disable-stream, --model, --dataset or --output-len instead"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{Sampling, ThinkingSwitch};
    use sobench_core::case::Message;
    use sobench_core::constraint::Constraint;

    fn case(constraint: Option<Constraint>, arm: Arm) -> Case {
        Case {
            arm,
            ..Case::new(
                "t-0",
                Prompt::Text("Say it".into()),
                constraint.map(Arc::new),
                16,
            )
        }
    }

    fn regex(arm: Arm) -> Case {
        case(Some(Constraint::Regex("a+".into())), arm)
    }

    fn options(dialect: ConstraintDialect, extra: Value) -> BodySettings {
        BodySettings {
            model: "m".to_owned(),
            stream: true,
            sampling: Sampling::default(),
            ignore_eos: false,
            dialect,
            guided_decoding_backend: None,
            thinking: None,
            max_tokens_only: false,
            extra_body: match extra {
                Value::Object(fields) => Some(fields),
                _ => None,
            },
        }
    }

    fn body(kind: ServerKind, case: &Case, options: &BodySettings) -> String {
        String::from_utf8(adapter(kind).encode(case, options).unwrap().to_vec()).unwrap()
    }

    #[test]
    fn bodies_equal_those_of_vllms_client() {
        let structured = options(ConstraintDialect::StructuredOutputs, Value::Null);
        assert_eq!(
            body(ServerKind::Vllm, &regex(Arm::Constrained), &structured),
            r#"{"model":"m","prompt":"Say it","repetition_penalty":1.0,"max_tokens":16,"stream":true,"stream_options":{"include_usage":true},"structured_outputs":{"regex":"a+"}}"#
        );
        assert_eq!(
            body(ServerKind::OpenaiChat, &regex(Arm::Control), &structured),
            r#"{"model":"m","messages":[{"role":"user","content":"Say it"}],"max_completion_tokens":16,"stream":true,"stream_options":{"include_usage":true}}"#
        );
        let mut plain = options(ConstraintDialect::ResponseFormat, Value::Null);
        plain.stream = false;
        assert_eq!(
            body(ServerKind::Openai, &case(None, Arm::Free), &plain),
            r#"{"model":"m","prompt":"Say it","max_tokens":16,"stream":false}"#
        );
    }

    #[test]
    fn messages_are_sent_unchanged() {
        let mut chat = case(None, Arm::Free);
        let parts = json!([{"type": "text", "text": "hi"}]);
        chat.prompt = Prompt::Messages([Message::new("system", parts)].into());
        let options = options(ConstraintDialect::StructuredOutputs, Value::Null);
        assert!(
            body(ServerKind::OpenaiChat, &chat, &options).contains(
                r#""messages":[{"role":"system","content":[{"type":"text","text":"hi"}]}]"#
            )
        );
        let error = check(ServerKind::Vllm, &[chat], &options).unwrap_err();
        assert_eq!(
            error.what,
            "the vllm backend takes text, not chat messages: case \"t-0\""
        );
    }

    #[test]
    fn later_fields_win_and_given_sampling_is_sent() {
        let mut options = options(
            ConstraintDialect::StructuredOutputs,
            json!({"top_k": 7, "max_tokens": 4, "x": null}),
        );
        options.ignore_eos = true;
        options.sampling = Sampling {
            temperature: Some(0.0),
            top_k: Some(40),
            repetition_penalty: Some(1.1),
            seed: Some(5),
            ..Sampling::default()
        };
        assert_eq!(
            body(ServerKind::Vllm, &case(None, Arm::Free), &options),
            r#"{"model":"m","prompt":"Say it","repetition_penalty":1.1,"max_tokens":4,"stream":true,"stream_options":{"include_usage":true},"ignore_eos":true,"temperature":0.0,"top_k":7,"seed":5,"x":null}"#
        );
        options.sampling.top_p = Some(f64::NAN);
        assert!(check(ServerKind::Vllm, &[case(None, Arm::Free)], &options).is_err());
    }

    #[test]
    fn extra_body_adds_options_to_the_constraint() {
        let extra = json!({"structured_outputs": {"disable_any_whitespace": true}});
        assert!(
            body(
                ServerKind::Vllm,
                &regex(Arm::Constrained),
                &options(ConstraintDialect::StructuredOutputs, extra)
            )
            .ends_with(r#""structured_outputs":{"regex":"a+","disable_any_whitespace":true}}"#)
        );
        let extra = json!({"response_format": {"json_schema": {"strict": false}}});
        let schema = case(
            Some(Constraint::JsonSchema(Arc::new(json!({"type": "array"})))),
            Arm::Constrained,
        );
        assert!(
            body(
                ServerKind::OpenaiChat,
                &schema,
                &options(ConstraintDialect::ResponseFormat, extra)
            )
            .ends_with(
                r#""json_schema":{"name":"answer","schema":{"type":"array"},"strict":false}}}"#
            )
        );
    }

    #[track_caller]
    fn check_rejected(dialect: ConstraintDialect, cases: &[Case], extra: Value, what: &str) {
        let error = check(ServerKind::Vllm, cases, &options(dialect, extra)).unwrap_err();
        assert_eq!(error.what, what);
        assert_eq!(error.exit_code(), 2);
        assert!(error.hint.is_some());
    }

    #[test]
    fn conflicting_extra_bodies_are_rejected() {
        use ConstraintDialect::{Guided, ResponseFormat, StructuredOutputs};
        let constrained = [regex(Arm::Constrained)];
        let mixed = [regex(Arm::Constrained), regex(Arm::Control)];
        check_rejected(
            ResponseFormat,
            &constrained,
            Value::Null,
            "the response-format dialect cannot carry a regex constraint: case \"t-0\"",
        );
        check_rejected(
            StructuredOutputs,
            &constrained,
            json!({"structured_outputs": {"regex": "b"}}),
            "--extra-body changes a field of the constraint: /structured_outputs/regex: case \"t-0\"",
        );
        check_rejected(
            Guided,
            &constrained,
            json!({"guided_regex": null}),
            "--extra-body changes a field of the constraint: /guided_regex: case \"t-0\"",
        );
        check_rejected(
            StructuredOutputs,
            &constrained,
            json!({"structured_outputs": "off"}),
            "--extra-body changes a field of the constraint: /structured_outputs/regex: case \"t-0\"",
        );
        check_rejected(
            Guided,
            &mixed,
            json!({"guided_json": {}}),
            "--extra-body also constrains the control requests: guided_json",
        );
        check_rejected(
            Guided,
            &constrained,
            json!({"n": 4}),
            "--extra-body requests several choices: n = 4",
        );
        check_rejected(
            Guided,
            &constrained,
            json!({"stream": true}),
            "--extra-body sets a field that sobench sets: stream = true",
        );
        check_rejected(
            Guided,
            &[case(None, Arm::Constrained)],
            Value::Null,
            "a constrained case has no constraint: case \"t-0\"",
        );
        assert!(check(ServerKind::Vllm, &mixed, &options(Guided, json!({"n": 1}))).is_ok());
    }

    #[test]
    fn tools_are_accepted_in_a_run_without_constraints() {
        use ConstraintDialect::ResponseFormat;
        let tools = || json!({"tools": [{"type": "function"}], "tool_choice": "required"});
        let unconstrained = [regex(Arm::Control)];
        let accepted =
            |cases: &[Case], extra| check(ServerKind::Vllm, cases, &options(ResponseFormat, extra));
        assert!(accepted(&unconstrained, tools()).is_ok());
        let mixed = [regex(Arm::Constrained), regex(Arm::Control)];
        assert!(accepted(&mixed, tools()).is_err());
        let error = accepted(&unconstrained, json!({"response_format": {}})).unwrap_err();
        assert!(
            error
                .hint
                .is_some_and(|hint| hint.contains("--no-guided-decoding")),
            "{}",
            error.what
        );
    }

    #[test]
    fn thinking_is_on_in_its_arm_and_off_in_the_others() {
        let extra = json!({"chat_template_kwargs": {"language": "en"}});
        let mut options = options(ConstraintDialect::ResponseFormat, extra);
        let schema = || Constraint::JsonSchema(Arc::new(json!({"type": "array"})));
        let switch = |options: &BodySettings, arm: Arm| -> Value {
            let case = case(Some(schema()), arm);
            let body = body(ServerKind::OpenaiChat, &case, options);
            serde_json::from_str::<Value>(&body).unwrap()["chat_template_kwargs"].clone()
        };
        assert_eq!(
            switch(&options, Arm::ThinkConstraint),
            json!({"language": "en"})
        );
        options.thinking = ServerKind::OpenaiChat.thinking_switches().first().copied();
        for arm in Arm::ALL {
            let is_on = arm == Arm::ThinkConstraint;
            let expected = json!({"language": "en", "enable_thinking": is_on, "thinking": is_on});
            assert_eq!(switch(&options, arm), expected, "{arm:?}");
        }
        options.thinking = Some(ThinkingSwitch::ReasoningEffort);
        options.extra_body = None;
        let think = case(Some(schema()), Arm::ThinkConstraint);
        assert!(
            body(ServerKind::OpenaiChat, &think, &options)
                .ends_with(r#","reasoning_effort":"medium"}"#)
        );
    }

    #[test]
    fn declarations_for_scorers_are_not_sent() {
        let options = options(ConstraintDialect::StructuredOutputs, Value::Null);
        let schema = json!({"items": {"type": "string", "x-sobench-score": "date"}});
        let case = case(
            Some(Constraint::JsonSchema(Arc::new(schema))),
            Arm::ConstraintOnly,
        );
        assert!(
            body(ServerKind::Vllm, &case, &options)
                .ends_with(r#""structured_outputs":{"json":{"items":{"type":"string"}}}}"#)
        );
    }

    #[test]
    fn white_space_is_asked_for_in_the_schema() {
        let options = options(ConstraintDialect::StructuredOutputs, Value::Null);
        let schema = |schema: Value| Some(Constraint::JsonSchema(Arc::new(schema)));
        for (arm, is_allowed) in [(Arm::Compact, "false"), (Arm::Flexible, "true")] {
            let case = case(schema(json!({"type": "array"})), arm);
            let expected = format!(
                r#""json":{{"type":"array","x-guidance":{{"whitespace_flexible":{is_allowed}}}}}}}}}"#
            );
            let sent = body(ServerKind::Vllm, &case, &options);
            assert!(sent.ends_with(&expected), "{sent}");
        }
        for constraint in [
            schema(json!(true)),
            schema(json!({"x-guidance": 1})),
            Some(Constraint::Regex("a".into())),
        ] {
            let case = case(constraint, Arm::Compact);
            let error = check(ServerKind::Vllm, &[case], &options).unwrap_err();
            assert!(error.what.contains("need a JSON Schema"), "{error}");
        }
    }

    fn tools(arm: Arm) -> Case {
        let set = json!({"tools": [{"type": "function", "function": {"name": "f"}}]});
        case(serde_json::from_value(json!({"tools": set})).unwrap(), arm)
    }

    #[test]
    fn tools_are_sent_in_both_arms_and_not_changed() {
        let options = |extra| options(ConstraintDialect::StructuredOutputs, extra);
        for arm in [Arm::Constrained, Arm::Control] {
            let case = tools(arm);
            assert!(unsupported(ServerKind::OpenaiChat, &case).is_none());
            let error = unsupported(ServerKind::Vllm, &case).unwrap();
            assert_eq!(
                error.what,
                "unsupported by this server kind: the vllm backend has no field for a tools constraint"
            );
            assert!(check(ServerKind::Tgi, &[case], &options(Value::Null)).is_err());
        }
        let choice = json!({"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "required"});
        let choice = serde_json::from_value(json!({"tools": choice})).unwrap();
        let required = case(choice, Arm::Constrained);
        assert_eq!(
            unsupported(ServerKind::Ollama, &required).unwrap().what,
            "unsupported by this server kind: the ollama backend has no field for tool_choice"
        );
        assert!(unsupported(ServerKind::Ollama, &tools(Arm::Constrained)).is_none());
        for (extra, pointer) in [
            (json!({"tools": []}), "/tools"),
            (json!({"parallel_tool_calls": true}), "/parallel_tool_calls"),
        ] {
            let error = check(
                ServerKind::OpenaiChat,
                &[tools(Arm::Constrained)],
                &options(extra),
            )
            .unwrap_err();
            assert_eq!(
                error.what,
                format!("--extra-body changes a field of the constraint: {pointer}: case \"t-0\"")
            );
        }
    }

    #[test]
    fn nested_parameters_are_checked_too() {
        let check = |extra: Value, cases: &[Case]| {
            check(
                ServerKind::Sglang,
                cases,
                &options(ConstraintDialect::Sglang, extra),
            )
            .map_err(|error| error.what)
        };
        let constrained = [regex(Arm::Constrained)];
        let mixed = [regex(Arm::Constrained), regex(Arm::Control)];
        for (extra, cases, what) in [
            (
                json!({"sampling_params": {"n": 2}}),
                &constrained[..],
                "--extra-body requests several choices: n = 2",
            ),
            (
                json!({"sampling_params": {"max_new_tokens": 2}}),
                &constrained,
                "--extra-body sets a field that sobench sets: max_new_tokens = 2",
            ),
            (
                json!({"text": "x"}),
                &constrained,
                "--extra-body sets a field that sobench sets: text = \"x\"",
            ),
            (
                json!({"sampling_params": 1}),
                &constrained,
                "--extra-body replaces the object that holds the parameters: sampling_params = 1",
            ),
            (
                json!({"sampling_params": {"ebnf": "x"}}),
                &constrained,
                "--extra-body adds a second constraint: ebnf: case \"t-0\"",
            ),
            (
                json!({"sampling_params": {"regex": "x"}}),
                &constrained,
                "--extra-body changes a field of the constraint: /sampling_params/regex: case \"t-0\"",
            ),
            (
                json!({"sampling_params": {"regex": "x"}}),
                &mixed,
                "--extra-body also constrains the control requests: sampling_params",
            ),
        ] {
            assert_eq!(check(extra, cases), Err(what.to_owned()));
        }
        assert_eq!(
            check(json!({"sampling_params": {"stop": ["x"]}}), &mixed),
            Ok(())
        );
        let extra = json!({"sampling_params": {"stop": ["x"]}});
        let body = body(
            ServerKind::Sglang,
            &constrained[0],
            &options(ConstraintDialect::Sglang, extra),
        );
        assert_eq!(
            body,
            r#"{"text":"Say it","sampling_params":{"max_new_tokens":16,"regex":"a+","stop":["x"]},"stream":true}"#
        );
    }

    #[test]
    fn a_parameter_without_a_field_is_rejected() {
        let free = [case(None, Arm::Free)];
        let mut options = options(ConstraintDialect::TgiGrammar, Value::Null);
        options.sampling.min_p = Some(0.1);
        let error = check(ServerKind::Tgi, &free, &options).unwrap_err();
        assert_eq!(
            error.what,
            "the tgi backend has no field for min_p: case \"t-0\""
        );
        options.sampling.min_p = None;
        options.ignore_eos = true;
        let error = check(ServerKind::Ollama, &free, &options).unwrap_err();
        assert_eq!(
            error.what,
            "the ollama backend has no field for ignore_eos: case \"t-0\""
        );
        options.ignore_eos = false;
        for (temperature, parameters) in [
            (Some(0.0), r#""details":true,"do_sample":false}"#),
            (
                Some(1.0),
                r#""details":true,"do_sample":true,"temperature":1.0,"top_p":0.5}"#,
            ),
            (None, r#""details":true,"top_p":0.5}"#),
        ] {
            options.sampling = Sampling {
                temperature,
                top_p: Some(0.5),
                ..Sampling::default()
            };
            assert!(
                body(ServerKind::Tgi, &free[0], &options).contains(parameters),
                "{temperature:?}"
            );
        }
    }
}
