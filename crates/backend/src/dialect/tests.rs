//! Tests of every dialect with every kind of constraint.

use std::sync::Arc;

use ServerKind::{
    Lmdeploy, Ollama, Openai, OpenaiChat, OpenaiResponses, TensorrtLlm, Tgi, TrtllmServe,
};

use super::*;
use sobench_core::constraint::{AlwaysTrue, GrammarDialect};

fn constraints() -> Vec<Constraint> {
    vec![
        Constraint::JsonSchema(Arc::new(serde_json::json!({"type": "object"}))),
        Constraint::JsonSchema(Arc::new(Value::Bool(true))),
        Constraint::JsonObject(AlwaysTrue),
        Constraint::Regex("a+\n".into()),
        Constraint::Choice(vec!["a".to_owned(), "b".to_owned()].into()),
        Constraint::Grammar {
            dialect: GrammarDialect::Ebnf,
            text: "root ::= \"a\"".into(),
        },
        Constraint::StructuralTag(Arc::new(
            serde_json::json!({"format": {"type": "any_text"}}),
        )),
    ]
}

/// One line per constraint: the fields, or the error.
#[track_caller]
fn check(server: ServerKind, dialect: ConstraintDialect, engine: Option<&str>, expected: &[&str]) {
    let constraints = constraints();
    assert_eq!(constraints.len(), expected.len());
    for (constraint, expected) in constraints.iter().zip(expected) {
        let carried = dialect.carry(server, constraint, engine);
        let has_place =
            carried.is_ok() || dialect.carries(ConstraintKind::from_constraint(constraint));
        assert_eq!(
            has_place,
            dialect.carries(ConstraintKind::from_constraint(constraint)),
            "{}",
            constraint.kind()
        );
        let line = match carried {
            Ok(carried) => {
                let body = carried.fields;
                for pointer in carried.pinned {
                    assert!(
                        body.pointer(pointer).is_some(),
                        "{pointer} is not in {body}"
                    );
                }
                body.to_string()
            }
            Err(unsendable) => unsendable.what,
        };
        assert_eq!(line, *expected);
    }
}

#[test]
fn structured_outputs_carry_every_kind() {
    check(
        OpenaiChat,
        ConstraintDialect::StructuredOutputs,
        Some("xgrammar"),
        &[
            r#"{"structured_outputs":{"json":{"type":"object"}}}"#,
            r#"{"structured_outputs":{"json":"true"}}"#,
            r#"{"structured_outputs":{"json_object":true}}"#,
            r#"{"structured_outputs":{"regex":"a+\n"}}"#,
            r#"{"structured_outputs":{"choice":["a","b"]}}"#,
            r#"{"structured_outputs":{"grammar":"root ::= \"a\""}}"#,
            r#"{"structured_outputs":{"structural_tag":"{\"format\":{\"type\":\"any_text\"}}"}}"#,
        ],
    );
}

#[test]
fn guided_fields_carry_every_kind_and_the_engine_if_given() {
    check(
        OpenaiChat,
        ConstraintDialect::Guided,
        None,
        &[
            r#"{"guided_json":{"type":"object"}}"#,
            r#"{"guided_json":"true"}"#,
            r#"{"response_format":{"type":"json_object"}}"#,
            r#"{"guided_regex":"a+\n"}"#,
            r#"{"guided_choice":["a","b"]}"#,
            r#"{"guided_grammar":"root ::= \"a\""}"#,
            r#"{"response_format":{"type":"structural_tag","format":{"type":"any_text"}}}"#,
        ],
    );
    let regex = Constraint::Regex("a".into());
    let carried = ConstraintDialect::Guided
        .carry(OpenaiChat, &regex, Some("outlines"))
        .unwrap();
    assert_eq!(
        carried.fields.to_string(),
        r#"{"guided_regex":"a","guided_decoding_backend":"outlines"}"#
    );
}

#[test]
fn response_format_carries_json_and_structural_tags_only() {
    check(
        OpenaiChat,
        ConstraintDialect::ResponseFormat,
        None,
        &[
            r#"{"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object"},"strict":true}}}"#,
            r#"{"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":true,"strict":true}}}"#,
            r#"{"response_format":{"type":"json_object"}}"#,
            "the response-format dialect cannot carry a regex constraint",
            "the response-format dialect cannot carry a choice constraint",
            "the response-format dialect cannot carry a grammar constraint",
            r#"{"response_format":{"type":"structural_tag","format":{"type":"any_text"}}}"#,
        ],
    );
}

#[test]
fn response_format_rejects_a_structural_tag_that_is_not_an_object() {
    let tag = Constraint::StructuralTag(Arc::new(Value::from(1)));
    let unsendable = ConstraintDialect::ResponseFormat
        .carry(OpenaiChat, &tag, None)
        .unwrap_err();
    assert!(unsendable.what.contains("structural_tag"), "{unsendable:?}");
    assert!(
        ConstraintDialect::StructuredOutputs
            .carry(OpenaiChat, &tag, None)
            .is_ok()
    );
}

#[test]
fn sglang_uses_different_fields_on_native_and_openai_endpoints() {
    check(
        ServerKind::Sglang,
        ConstraintDialect::Sglang,
        None,
        &[
            r#"{"sampling_params":{"json_schema":"{\"type\":\"object\"}"}}"#,
            r#"{"sampling_params":{"json_schema":"true"}}"#,
            r#"{"sampling_params":{"json_schema":"{\"type\":\"object\"}"}}"#,
            r#"{"sampling_params":{"regex":"a+\n"}}"#,
            r#"{"sampling_params":{"regex":"(a|b)"}}"#,
            r#"{"sampling_params":{"ebnf":"root ::= \"a\""}}"#,
            r#"{"sampling_params":{"structural_tag":"{\"format\":{\"type\":\"any_text\"}}"}}"#,
        ],
    );
    check(
        Openai,
        ConstraintDialect::Sglang,
        None,
        &[
            r#"{"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object"},"strict":true}}}"#,
            r#"{"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":true,"strict":true}}}"#,
            r#"{"response_format":{"type":"json_object"}}"#,
            r#"{"regex":"a+\n"}"#,
            r#"{"regex":"(a|b)"}"#,
            r#"{"ebnf":"root ::= \"a\""}"#,
            r#"{"response_format":{"type":"structural_tag","format":{"type":"any_text"}}}"#,
        ],
    );
}

#[test]
fn llama_cpp_reads_schemas_and_gbnf() {
    check(
        ServerKind::LlamaCpp,
        ConstraintDialect::LlamaCpp,
        None,
        &[
            r#"{"json_schema":{"type":"object"}}"#,
            "this dialect carries a JSON Schema as an object only: true",
            r#"{"json_schema":{"type":"object"}}"#,
            "unsupported by this server kind: the llama.cpp backend has no field for a regex constraint",
            r#"{"grammar":"root ::= \"a\" | \"b\""}"#,
            r#"{"grammar":"root ::= \"a\""}"#,
            "unsupported by this server kind: the llama.cpp backend has no field for a structural_tag constraint",
        ],
    );
    let lark = Constraint::Grammar {
        dialect: GrammarDialect::Lark,
        text: "start: \"a\"".into(),
    };
    let unsendable = ConstraintDialect::LlamaCpp
        .carry(OpenaiChat, &lark, None)
        .unwrap_err();
    assert_eq!(
        unsendable.what,
        "the llama-cpp dialect carries grammars in GBNF only: lark"
    );
}

#[test]
fn tgi_uses_one_object_in_two_fields() {
    check(
        Tgi,
        ConstraintDialect::TgiGrammar,
        None,
        &[
            r#"{"parameters":{"grammar":{"type":"json","value":{"type":"object"}}}}"#,
            r#"{"parameters":{"grammar":{"type":"json","value":true}}}"#,
            "unsupported by this server kind: the tgi backend has no field for a json_object constraint",
            r#"{"parameters":{"grammar":{"type":"regex","value":"a+\n"}}}"#,
            r#"{"parameters":{"grammar":{"type":"regex","value":"(a|b)"}}}"#,
            "unsupported by this server kind: the tgi backend has no field for a grammar constraint",
            "unsupported by this server kind: the tgi backend has no field for a structural_tag constraint",
        ],
    );
    let regex = Constraint::Regex("a".into());
    let carried = ConstraintDialect::TgiGrammar
        .carry(OpenaiChat, &regex, None)
        .unwrap();
    assert_eq!(
        carried.fields.to_string(),
        r#"{"response_format":{"type":"regex","value":"a"}}"#
    );
}

#[test]
fn lmdeploy_and_tensorrt_llm_have_their_own_types() {
    check(
        Lmdeploy,
        ConstraintDialect::RegexSchema,
        None,
        &[
            r#"{"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object"},"strict":true}}}"#,
            r#"{"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":true,"strict":true}}}"#,
            r#"{"response_format":{"type":"json_object"}}"#,
            r#"{"response_format":{"type":"regex_schema","regex_schema":"a+\n"}}"#,
            r#"{"response_format":{"type":"regex_schema","regex_schema":"(a|b)"}}"#,
            "unsupported by this server kind: the lmdeploy backend has no field for a grammar constraint",
            "the regex-schema dialect cannot carry a structural_tag constraint",
        ],
    );
    check(
        TrtllmServe,
        ConstraintDialect::TrtllmFormat,
        None,
        &[
            r#"{"response_format":{"type":"json","schema":{"type":"object"}}}"#,
            "this dialect carries a JSON Schema as an object only: true",
            r#"{"response_format":{"type":"json_object"}}"#,
            r#"{"response_format":{"type":"regex","regex":"a+\n"}}"#,
            r#"{"response_format":{"type":"regex","regex":"(a|b)"}}"#,
            r#"{"response_format":{"type":"ebnf","ebnf":"root ::= \"a\""}}"#,
            r#"{"response_format":{"type":"structural_tag","format":{"type":"any_text"}}}"#,
        ],
    );
    check(
        TensorrtLlm,
        ConstraintDialect::TritonGuide,
        None,
        &[
            r#"{"guided_decoding_guide_type":"json_schema","guided_decoding_guide":"{\"type\":\"object\"}"}"#,
            r#"{"guided_decoding_guide_type":"json_schema","guided_decoding_guide":"true"}"#,
            r#"{"guided_decoding_guide_type":"json_schema","guided_decoding_guide":"{\"type\":\"object\"}"}"#,
            r#"{"guided_decoding_guide_type":"regex","guided_decoding_guide":"a+\n"}"#,
            r#"{"guided_decoding_guide_type":"regex","guided_decoding_guide":"(a|b)"}"#,
            r#"{"guided_decoding_guide_type":"ebnf_grammar","guided_decoding_guide":"root ::= \"a\""}"#,
            "unsupported by this server kind: the tensorrt-llm backend has no field for a structural_tag constraint",
        ],
    );
}

/// A dialect for JSON only rejects the last four kinds.
#[track_caller]
fn check_json_only(
    server: ServerKind,
    dialect: ConstraintDialect,
    expected: [&str; 3],
    refusals: &str,
) {
    let rest =
        ["regex", "choice", "grammar", "structural_tag"].map(|kind| refusals.replace("KIND", kind));
    let expected: Vec<&str> = expected
        .into_iter()
        .chain(rest.iter().map(String::as_str))
        .collect();
    check(server, dialect, None, &expected);
}

#[test]
fn json_only_dialects() {
    check_json_only(
        Ollama,
        ConstraintDialect::OllamaFormat,
        [
            r#"{"format":{"type":"object"}}"#,
            "this dialect carries a JSON Schema as an object only: true",
            r#"{"format":"json"}"#,
        ],
        "unsupported by this server kind: the ollama backend has no field for a KIND constraint",
    );
    check_json_only(
        OpenaiResponses,
        ConstraintDialect::TextFormat,
        [
            r#"{"text":{"format":{"type":"json_schema","name":"answer","schema":{"type":"object"},"strict":true}}}"#,
            r#"{"text":{"format":{"type":"json_schema","name":"answer","schema":true,"strict":true}}}"#,
            r#"{"text":{"format":{"type":"json_object"}}}"#,
        ],
        "the text-format dialect cannot carry a KIND constraint",
    );
    let call = r#"{"tools":[{"type":"function","function":{"name":"answer","parameters":{"type":"object"},"strict":true}}],"tool_choice":{"type":"function","function":{"name":"answer"}}}"#;
    check_json_only(
        OpenaiChat,
        ConstraintDialect::ToolCall,
        [
            call,
            "this dialect carries a JSON Schema as an object only: true",
            call,
        ],
        "the tool-call dialect cannot carry a KIND constraint",
    );
    for (server, dialect) in [
        (OpenaiChat, ConstraintDialect::ToolCallNonStrict),
        (OpenaiResponses, ConstraintDialect::ToolCallNonStrict),
    ] {
        let object = Constraint::JsonObject(sobench_core::constraint::AlwaysTrue);
        let strict = ConstraintDialect::ToolCall.carry(server, &object, None);
        let strict = strict.unwrap().fields.to_string();
        let fields = dialect.carry(server, &object, None).unwrap().fields;
        assert_eq!(
            fields.to_string(),
            strict.replace(r#","strict":true"#, ""),
            "{server}"
        );
        assert!(strict.contains(r#""strict":true"#));
    }
    let call = r#"{"tools":[{"type":"function","name":"answer","parameters":{"type":"object"},"strict":true}],"tool_choice":{"type":"function","name":"answer"}}"#;
    check_json_only(
        OpenaiResponses,
        ConstraintDialect::ToolCall,
        [
            call,
            "this dialect carries a JSON Schema as an object only: true",
            call,
        ],
        "the tool-call dialect cannot carry a KIND constraint",
    );
}

#[test]
fn an_unsupported_dialect_is_rejected_with_alternatives() {
    let regex = Constraint::Regex("a".into());
    for (server, dialect, what, hint) in [
        (
            ServerKind::Sglang,
            ConstraintDialect::StructuredOutputs,
            "the sglang backend does not support the structured-outputs dialect",
            "use --constraint-dialect sglang, if",
        ),
        (
            Openai,
            ConstraintDialect::ResponseFormat,
            "the response-format dialect cannot carry a regex constraint",
            "structured-outputs or guided or sglang or trtllm-format",
        ),
        (
            ServerKind::Scalellm,
            ConstraintDialect::ResponseFormat,
            "unsupported by this server kind: the scalellm backend has no field for a regex constraint",
            "--no-guided-decoding",
        ),
        (
            ServerKind::DeepspeedMii,
            ConstraintDialect::Guided,
            "unsupported by this server kind: the deepspeed-mii backend has no field for a regex constraint",
            "--no-guided-decoding",
        ),
    ] {
        let unsendable = dialect.carry(server, &regex, None).unwrap_err();
        assert_eq!(unsendable.what, what);
        assert!(unsendable.hint.contains(hint), "{}", unsendable.hint);
    }
}

#[test]
fn constraint_fields_are_found_at_every_level() {
    for (field, value, constrains) in [
        ("regex", r#""a""#, true),
        ("tool_choice", r#""required""#, true),
        ("guided_decoding_guide", r#""a""#, true),
        ("guided_decoding_backend", r#""xgrammar""#, false),
        ("text", r#"{"format":{"type":"json_object"}}"#, true),
        ("text", r#"{"verbosity":"low"}"#, false),
        ("sampling_params", r#"{"ebnf":"root ::= []"}"#, true),
        ("sampling_params", r#"{"stop":["x"]}"#, false),
        ("parameters", r#"{"grammar":{}}"#, true),
        ("options", r#"{"num_ctx":512}"#, false),
    ] {
        let value = serde_json::from_str(value).unwrap();
        assert_eq!(
            ConstraintDialect::constrains(field, &value),
            constrains,
            "{field}: {value}"
        );
    }
}
