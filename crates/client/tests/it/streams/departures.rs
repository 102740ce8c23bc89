//! Streams and bodies that depart from the API: each has a name, and an answer that is judged.

use sobench_backend::{ServerKind, adapter};
use sobench_core::departure::{Departure, Departures};
use sobench_core::observation::{Observation, Outcome, Timing};

use Departure::{
    LostEvents, MessageForDelta, MissingIndex, NullArguments, ObjectArguments, OtherFinalText,
    RepeatedEvents, SecondChoice, SwappedEvents, TextAfterFinish, TruncatedContext,
};

/// Decodes events, or one body without a stream.
fn decode(backend: &str, events: &[&str]) -> Observation {
    let kind: ServerKind = backend.trim_end_matches(" whole").parse().unwrap();
    let is_stream = !backend.ends_with(" whole");
    let mut decoder = adapter(kind).decoder(is_stream, 1 << 16);
    for event in events {
        let framed = format!("data: {event}\n\n");
        decoder.push(if is_stream {
            framed.as_bytes()
        } else {
            event.as_bytes()
        });
    }
    decoder.finish();
    let decoded = decoder.into_decoded();
    Observation {
        case_index: 0,
        outcome: decoded.outcome(),
        timing: Timing::default(),
        answer: decoded.answer,
        finish_reason: decoded.finish_reason,
        usage: None,
    }
}

const CHAT_END: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
const CHAT_A: &str = r#"{"choices":[{"delta":{"content":"a"}}]}"#;

#[test]
fn departures_of_streams_and_bodies() {
    let response = |number: u64, text: &str| {
        format!(
            r#"{{"type":"response.output_text.delta","sequence_number":{number},"delta":"{text}"}}"#
        )
    };
    let completed = |number: u64, text: &str| {
        format!(
            r#"{{"type":"response.completed","sequence_number":{number},"response":{{"status":"completed","output":[{{"type":"message","content":[{{"type":"output_text","text":"{text}"}}]}}]}}}}"#
        )
    };
    let done = |text: &str| format!(r#"{{"type":"response.output_text.done","text":"{text}"}}"#);
    let call_delta =
        r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{}"}"#;
    let call_added = r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"a","name":"f","arguments":""}}"#;
    let call_done = r#"{"type":"response.function_call_arguments.done","output_index":0,"arguments":"{\"a\":1}"}"#;
    let ended = r#"{"type":"response.completed","response":{"status":"completed","output":[]}}"#;
    let [one, two, three] = [response(0, "a"), response(1, "b"), response(2, "c")];
    let (all, part) = (completed(3, "abc"), done("abc"));
    let chat_call =
        |call: &str| format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{call}]}}}}]}}"#);
    let no_index = chat_call(r#"{"id":"a","function":{"name":"f","arguments":"{}"}}"#);
    let object = chat_call(r#"{"index":0,"id":"a","function":{"name":"f","arguments":{"a":1}}}"#);
    let null = chat_call(r#"{"index":0,"id":"a","function":{"name":"f","arguments":null}}"#);
    let text = chat_call(r#"{"index":0,"function":{"arguments":"{}"}}"#);
    let body = |arguments: &str| {
        format!(
            r#"{{"choices":[{{"message":{{"tool_calls":[{{"id":"a","function":{{"name":"f","arguments":{arguments}}}}}]}},"finish_reason":"tool_calls"}}]}}"#
        )
    };
    let (body_null, body_object) = (body("null"), body("[1]"));
    let tgi = |whole: &str| {
        format!(
            r#"{{"token":{{"text":"b","special":false}},"generated_text":"{whole}","details":{{"finish_reason":"eos_token","generated_tokens":2}}}}"#
        )
    };
    let tgi_a = r#"{"token":{"text":" a","special":false},"generated_text":null}"#;
    let (tgi_same, tgi_other) = (tgi("ab"), tgi("axb"));
    let llama = |members: &str| format!(r#"{{"stop":true,"stop_type":"eos",{members}}}"#);
    let llama_text = r#"{"content":"{\"a\": 1}","stop":false}"#;
    let llama_empty = llama(r#""content":"","truncated":true"#);
    let llama_same = llama(r#""content":"{\"a\": 1}""#);
    let llama_other = llama(r#""content":"{\"a\": 2}""#);
    let llama_more = llama(r#""content":"\n""#);
    let sglang = |text: &str, reason: &str| {
        format!(
            r#"{{"text":"{text}","meta_info":{{"completion_tokens":2,"finish_reason":{reason}}}}}"#
        )
    };
    let (sglang_ab, sglang_cut) = (sglang("ab", "null"), sglang("ab\u{FFFD}", "null"));
    let (sglang_rest, sglang_other) = (
        sglang("abé", r#"{"type":"stop"}"#),
        sglang("xb", r#"{"type":"stop"}"#),
    );
    let message = r#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}"#;
    let second = r#"{"choices":[{"index":1,"delta":{"content":"x"}}]}"#;
    let with_finish = r#"{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}"#;
    let rows: &[(&str, &[&str], &[Departure], &str)] = &[
        ("openai-chat", &[CHAT_A, CHAT_END], &[], "a"),
        (
            "openai-chat",
            &[CHAT_A, CHAT_A, CHAT_END, CHAT_A],
            &[TextAfterFinish],
            "aaa",
        ),
        (
            "openai-chat",
            &[with_finish, CHAT_A],
            &[TextAfterFinish],
            "aa",
        ),
        ("openai-chat", &[message], &[MessageForDelta], "a"),
        ("openai-chat whole", &[message], &[], "a"),
        (
            "openai-chat",
            &[CHAT_A, second, CHAT_END],
            &[SecondChoice],
            "a",
        ),
        ("openai-chat", &[&no_index, CHAT_END], &[MissingIndex], "{}"),
        (
            "openai-chat",
            &[&object, CHAT_END],
            &[ObjectArguments],
            r#"{"a":1}"#,
        ),
        ("openai-chat", &[&null, CHAT_END], &[NullArguments], ""),
        ("openai-chat", &[&null, &text, CHAT_END], &[], "{}"),
        ("openai-chat whole", &[&body_null], &[NullArguments], ""),
        (
            "openai-chat whole",
            &[&body_object],
            &[ObjectArguments],
            "[1]",
        ),
        (
            "openai-responses",
            &[&one, &two, &three, &part, &all],
            &[],
            "abc",
        ),
        (
            "openai-responses",
            &[&one, &three, &all],
            &[LostEvents, OtherFinalText],
            "ac",
        ),
        (
            "openai-responses",
            &[&one, &two, &two, &three, &all],
            &[RepeatedEvents, OtherFinalText],
            "abbc",
        ),
        (
            "openai-responses",
            &[&one, &three, &two, &all],
            &[SwappedEvents, OtherFinalText],
            "acb",
        ),
        (
            "openai-responses",
            &[&one, &done("abc"), ended],
            &[OtherFinalText],
            "a",
        ),
        ("openai-responses", &[&all], &[], "abc"),
        (
            "openai-responses",
            &[call_added, call_delta, call_done, ended],
            &[OtherFinalText],
            "{}",
        ),
        ("tgi", &[tgi_a, &tgi_same], &[], "ab"),
        ("tgi", &[tgi_a, &tgi_other], &[OtherFinalText], " ab"),
        (
            "llama.cpp",
            &[llama_text, &llama_empty],
            &[TruncatedContext],
            r#"{"a": 1}"#,
        ),
        ("llama.cpp", &[llama_text, &llama_same], &[], r#"{"a": 1}"#),
        ("llama.cpp", &[llama_text, &llama_more], &[], "{\"a\": 1}\n"),
        (
            "llama.cpp",
            &[llama_text, &llama_other],
            &[OtherFinalText],
            r#"{"a": 1}"#,
        ),
        ("llama.cpp whole", &[&llama_other], &[], r#"{"a": 2}"#),
        (
            "sglang",
            &[&sglang_ab, &sglang_cut, &sglang_rest],
            &[],
            "abé",
        ),
        (
            "sglang",
            &[&sglang_ab, &sglang_other],
            &[OtherFinalText],
            "xb",
        ),
    ];
    for (backend, events, expected, text) in rows {
        let observation = decode(backend, events);
        let found = Departures::of_answer(&observation, None);
        let found: Vec<Departure> = found.iter().map(|(departure, _)| departure).collect();
        assert_eq!(
            (
                &found[..],
                &*observation.answer.text(),
                &observation.outcome
            ),
            (*expected, *text, &Outcome::Completed),
            "{backend} {events:?}"
        );
    }
}
