//! Invalid streams in the format of every server kind with its own decoder: events in the wrong
//! order, two ends, invalid counts. Checks that no content is lost, that the result does not depend
//! on how the bytes are split, and that no decoder panics.

use serde_json::{Value, json};
use sobench_backend::{Decoded, ServerKind, adapter};
use sobench_core::observation::CountChecks;

/// Large enough for the events of every kind.
const LIMIT_BYTES: usize = 1 << 16;

/// An event of a server.
#[derive(Clone, Copy, Debug)]
enum ServerEvent {
    Text(&'static str),
    /// The finish reason, as OpenAI names it.
    End(&'static str),
    /// The finish reason `stop`, and this text as the count of output tokens.
    EndCounting(&'static str),
    /// A count before anything else.
    Count(&'static str),
    Done,
}

use ServerEvent::{Count, Done, End, EndCounting, Text};

/// How a server kind encodes events.
struct Dialect {
    kind: ServerKind,
    /// Whether the event with the finish reason is the last one that is read.
    end_is_last: bool,
    /// Whether it has finish reasons.
    has_end: bool,
    /// One event's JSON: the text that is added, all the text so far, the finish reason, a count.
    event: fn(&str, &str, Option<&str>, Option<&str>) -> Value,
}

/// Placeholder for a count that is replaced in the JSON text, because a `Value` cannot hold every
/// number.
const COUNT: &str = "THE COUNT";

fn counted(count: Option<&str>) -> Value {
    count.map_or(Value::Null, |_| Value::from(COUNT))
}

fn completions(text: &str, _: &str, end: Option<&str>, count: Option<&str>) -> Value {
    json!({"choices": [{"index": 0, "text": text, "finish_reason": end}],
           "usage": count.map(|_| json!({"prompt_tokens": 3, "completion_tokens": COUNT}))})
}

fn chat(text: &str, _: &str, end: Option<&str>, count: Option<&str>) -> Value {
    json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": end}],
           "usage": count.map(|_| json!({"prompt_tokens": 3, "completion_tokens": COUNT}))})
}

fn responses(text: &str, so_far: &str, end: Option<&str>, count: Option<&str>) -> Value {
    if end.is_none() && count.is_none() {
        return json!({"type": "response.output_text.delta", "delta": text});
    }
    let (kind, status) = match end {
        Some("length") => ("response.incomplete", "incomplete"),
        Some(_) => ("response.completed", "completed"),
        None => ("response.in_progress", "in_progress"),
    };
    let output = json!([{"type": "message", "content": [{"type": "output_text", "text": so_far}]}]);
    json!({"type": kind, "response": {"status": status, "output": output, "incomplete_details": {"reason": "max_output_tokens"},
           "usage": count.map(|_| json!({"input_tokens": 3, "output_tokens": COUNT}))}})
}

fn sglang(_: &str, so_far: &str, end: Option<&str>, count: Option<&str>) -> Value {
    let mut meta = json!({"finish_reason": end.map(|end| json!({"type": end}))});
    if count.is_some() {
        meta["completion_tokens"] = counted(count);
    }
    json!({"text": so_far, "meta_info": meta})
}

fn llama_cpp(text: &str, _: &str, end: Option<&str>, count: Option<&str>) -> Value {
    let stop_type = end.map(|end| if end == "length" { "limit" } else { "eos" });
    json!({"content": text, "stop": end.is_some(), "stop_type": stop_type, "tokens_predicted": counted(count)})
}

fn tgi(text: &str, so_far: &str, end: Option<&str>, count: Option<&str>) -> Value {
    let reason = end.map(|end| if end == "stop" { "eos_token" } else { end });
    json!({"token": {"text": text, "special": text.is_empty()}, "generated_text": end.map(|_| so_far),
           "details": {"finish_reason": reason, "generated_tokens": counted(count)}})
}

fn triton(text: &str, _: &str, _: Option<&str>, _: Option<&str>) -> Value {
    json!({"text_output": text})
}

fn ollama(text: &str, _: &str, end: Option<&str>, count: Option<&str>) -> Value {
    json!({"message": {"content": text}, "done": end.is_some(), "done_reason": end, "eval_count": counted(count)})
}

const DIALECTS: [Dialect; 8] = [
    Dialect {
        kind: ServerKind::Openai,
        end_is_last: false,
        has_end: true,
        event: completions,
    },
    Dialect {
        kind: ServerKind::OpenaiChat,
        end_is_last: false,
        has_end: true,
        event: chat,
    },
    Dialect {
        kind: ServerKind::OpenaiResponses,
        end_is_last: true,
        has_end: true,
        event: responses,
    },
    Dialect {
        kind: ServerKind::Sglang,
        end_is_last: false,
        has_end: true,
        event: sglang,
    },
    Dialect {
        kind: ServerKind::LlamaCpp,
        end_is_last: true,
        has_end: true,
        event: llama_cpp,
    },
    Dialect {
        kind: ServerKind::Tgi,
        end_is_last: true,
        has_end: true,
        event: tgi,
    },
    Dialect {
        kind: ServerKind::TensorrtLlm,
        end_is_last: false,
        has_end: false,
        event: triton,
    },
    Dialect {
        kind: ServerKind::Ollama,
        end_is_last: true,
        has_end: true,
        event: ollama,
    },
];

impl Dialect {
    fn stream(&self, events: &[ServerEvent]) -> Vec<u8> {
        let mut so_far = String::new();
        let mut stream = String::new();
        for event in events {
            let (text, end, count) = match event {
                Text(text) => (*text, None, None),
                End(reason) => ("", Some(*reason), None),
                EndCounting(count) => ("", Some("stop"), Some(*count)),
                Count(count) => ("", None, Some(*count)),
                Done => ("", None, None),
            };
            so_far.push_str(text);
            let data = match event {
                Done => "[DONE]".to_owned(),
                _ => (self.event)(text, &so_far, end, count)
                    .to_string()
                    .replace(&format!("{COUNT:?}"), count.unwrap_or("null")),
            };
            stream += &match self.kind {
                ServerKind::Ollama => format!("{data}\n"),
                _ => format!("data: {data}\n\n"),
            };
        }
        stream.into_bytes()
    }

    /// The decoded stream, which must not depend on how it is split, and the number of chunks with
    /// content.
    fn read(&self, events: &[ServerEvent]) -> (Decoded, usize) {
        let stream = self.stream(events);
        let in_pieces = |size: usize| {
            let mut decoder = adapter(self.kind).decoder(true, LIMIT_BYTES);
            let mut chunks: usize = stream
                .chunks(size)
                .map(|piece| decoder.push(piece).content_chunks)
                .sum();
            chunks += decoder.finish().content_chunks;
            (decoder.into_decoded(), chunks)
        };
        let whole = in_pieces(stream.len().max(1));
        assert_eq!(in_pieces(1), whole, "{} {events:?}", self.kind);
        whole
    }

    #[track_caller]
    fn check(&self, events: &[ServerEvent], name: &str, text: &str) {
        let (answer, chunks) = self.read(events);
        let read = (answer.outcome().name(), &*answer.answer.text(), chunks);
        assert_eq!(
            read,
            (name, text, text.len()),
            "{} {events:?}: {:?}",
            self.kind,
            answer.outcome()
        );
    }
}

#[test]
fn events_in_the_wrong_order() {
    for dialect in &DIALECTS {
        let (ends, last) = (dialect.has_end, dialect.end_is_last);
        dialect.check(
            &[Text("a"), Text("b"), End("stop"), Done],
            "completed",
            "ab",
        );
        // The count comes first.
        dialect.check(
            &[Count("2"), Text("a"), Text("b"), End("stop"), Done],
            "completed",
            "ab",
        );
        // Content after the finish reason counts, if that event is not the last.
        dialect.check(
            &[Text("a"), End("stop"), Text("b"), Done],
            "completed",
            if last { "a" } else { "ab" },
        );
        // The end first, and content after it.
        dialect.check(&[Done, Text("a"), End("stop")], "stream_error", "");
        dialect.check(
            &[Text("a"), End("stop"), Done, Text("b"), End("length")],
            "completed",
            "a",
        );
        dialect.check(&[Done, Done], "stream_error", "");
        // Incomplete: only a kind without a terminal event cannot detect this.
        dialect.check(
            &[Text("a")],
            if ends { "stream_error" } else { "completed" },
            "a",
        );
        dialect.check(&[], "stream_error", "");
    }
}

#[test]
fn a_role_after_content_changes_nothing() {
    let chat = &DIALECTS[1];
    let role = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
    let stream = [
        chat.stream(&[Text("a"), Text("b")]),
        role.to_vec(),
        chat.stream(&[Text("c"), End("stop"), Done]),
    ]
    .concat();
    let mut decoder = adapter(chat.kind).decoder(true, LIMIT_BYTES);
    assert_eq!(decoder.push(&stream).content_chunks, 3);
    let answer = decoder.into_decoded();
    assert_eq!(
        (answer.outcome().name(), &*answer.answer.text()),
        ("completed", "abc")
    );
}

#[test]
fn two_finish_reasons() {
    for dialect in DIALECTS.iter().filter(|dialect| dialect.has_end) {
        let contradicted = if dialect.end_is_last {
            "completed"
        } else {
            "stream_error"
        };
        dialect.check(
            &[Text("a"), End("stop"), End("length"), Done],
            contradicted,
            "a",
        );
        dialect.check(
            &[Text("a"), End("stop"), End("stop"), Done],
            "completed",
            "a",
        );
        let contradicted = if dialect.end_is_last {
            "truncated"
        } else {
            "stream_error"
        };
        dialect.check(
            &[Text("a"), End("length"), End("stop"), Done],
            contradicted,
            "a",
        );
    }
    let (answer, _) = DIALECTS[0].read(&[Text("a"), End("stop"), End("length"), Done]);
    let expected =
        "StreamError { message: \"two finish reasons: \\\"stop\\\", then \\\"length\\\"\" }";
    assert_eq!(format!("{:?}", answer.outcome()), expected);
}

#[test]
fn an_empty_finish_reason_counts_as_none() {
    for dialect in [&DIALECTS[0], &DIALECTS[1]] {
        let stream = String::from_utf8(dialect.stream(&[Text("a"), Text("b"), Text("c")])).unwrap();
        let stream = stream.replace("\"finish_reason\":null", "\"finish_reason\":\"\"");
        assert!(stream.contains("\"finish_reason\":\"\""), "{stream}");
        let mut decoder = adapter(dialect.kind).decoder(true, LIMIT_BYTES);
        assert_eq!(decoder.push(stream.as_bytes()).content_chunks, 3);
        decoder.finish();
        let answer = decoder.into_decoded();
        assert_eq!(
            (answer.outcome().name(), answer.finish_reason),
            ("stream_error", None),
            "incomplete"
        );
    }
}

#[test]
fn invalid_counts_keep_the_answer() {
    let most = Some(u64::MAX);
    for (count, read, unreadable) in [
        ("2", Some(2), false),
        ("null", None, false),
        ("0", Some(0), false),
        ("9223372036854775808", Some(1 << 63), false),
        ("18446744073709551615", most, false),
        ("18446744073709551616", None, true),
        ("-1", None, true),
        ("1.5", None, true),
        ("1e300", None, true),
        ("1e99999", None, true),
        ("\"2\"", None, true),
        ("\"many\"", None, true),
        ("[2]", None, true),
        ("{}", None, true),
        ("true", None, true),
    ] {
        for dialect in DIALECTS.iter().filter(|dialect| dialect.has_end) {
            let events = [Text("a"), Text("b"), EndCounting(count), Done];
            dialect.check(&events, "completed", "ab");
            let (answer, _) = dialect.read(&events);
            let usage = answer.usage.unwrap_or_default();
            let checks = CountChecks {
                chunks: 2,
                has_prompt: true,
                has_other_choices: false,
            };
            assert_eq!(
                (usage.completion_tokens, usage.unreadable),
                (read, unreadable),
                "{} {count}",
                dialect.kind
            );
            assert_eq!(
                answer.usage.is_none_or(|usage| {
                    !usage.unreadable && usage.plausible(checks, None) == usage
                }),
                matches!(count, "2" | "null"),
                "{} {count}",
                dialect.kind
            );
        }
    }
}

#[test]
fn usage_that_is_not_an_object_keeps_the_answer() {
    for usage in ["[]", "[1,2]", "\"none\"", "7", "false"] {
        let openai = format!(
            "data: {{\"choices\":[{{\"text\":\"a\",\"finish_reason\":\"stop\"}}],\"usage\":{usage}}}\n\ndata: [DONE]\n\n"
        );
        let responses = format!(
            "data: {{\"type\":\"response.completed\",\"response\":{{\"status\":\"completed\",\"output\":[{{\"content\":[{{\"text\":\"a\"}}]}}],\
             \"usage\":{usage}}}}}\n\n"
        );
        for (kind, stream) in [
            (ServerKind::Openai, openai),
            (ServerKind::OpenaiResponses, responses),
        ] {
            let mut decoder = adapter(kind).decoder(true, LIMIT_BYTES);
            decoder.push(stream.as_bytes());
            let answer = decoder.into_decoded();
            assert_eq!(
                (answer.outcome().name(), &*answer.answer.text()),
                ("completed", "a"),
                "{kind} {usage}"
            );
            assert!(
                answer
                    .usage
                    .is_some_and(|usage| usage.unreadable && usage.completion_tokens.is_none()),
                "{kind} {usage}"
            );
        }
    }
}
