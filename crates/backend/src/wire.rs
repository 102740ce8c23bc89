//! JSON of OpenAI-compatible responses: one event of a stream, or one whole body.
//!
//! One set of types parses completions (`choices[].text`), chat chunks (`choices[].delta`) and
//! whole chat responses (`choices[].message`). Every field is optional.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use memchr::memmem;
use sobench_core::answer::{AnsweredBy, CallForm, ToolCall};
use sobench_core::departure::{Departure, Departures};
use sobench_core::observation::{ServerTimes, Usage};
use sobench_core::printable::{NAME_CHARS, shortened};

/// The contents of one event or body.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Delta {
    /// Content text.
    pub(super) text: String,
    pub(super) text_is: TextIs,
    /// The last token, beside the whole answer ([`TextIs::Whole`]).
    pub(super) last_token: String,
    pub(super) reasoning: String,
    pub(super) refusal: String,
    /// Parts of tool calls.
    pub(super) tool_calls: Vec<ToolCall>,
    /// Whether it has generated content. The name of a tool call is content, but not text.
    pub(super) is_content: bool,
    pub(super) finish_reason: Option<String>,
    pub(super) usage: Option<Usage>,
    pub(super) server_times: Option<ServerTimes>,
    pub(super) error: Option<WireError>,
    /// Whether it has the format of an answer.
    pub(super) is_answer: bool,
    /// Whether it contains the whole answer, so that no text means an empty answer.
    pub(super) is_whole: bool,
    /// Whether it is the terminal event. Not set for kinds that end with `[DONE]`.
    pub(super) is_last: bool,
    /// The number of the event, for kinds with numbers.
    pub(super) number: Option<u64>,
    pub(super) departures: Departures,
}

impl Delta {
    /// Whether it has text other than reasoning.
    pub(super) fn has_text(&self) -> bool {
        !self.text.is_empty() || !self.refusal.is_empty() || self.has_arguments()
    }

    /// Bytes of arguments; `None` without a part of a tool call.
    pub(super) fn call_bytes(&self) -> Option<usize> {
        let has_part = |call: &ToolCall| !(call.name.is_empty() && call.arguments.is_empty());
        let bytes = || self.tool_calls.iter().map(|call| call.arguments.len());
        self.tool_calls.iter().any(has_part).then(|| bytes().sum())
    }

    /// Whether it has arguments of a tool call.
    pub(super) fn has_arguments(&self) -> bool {
        self.tool_calls
            .iter()
            .any(|call| !call.arguments.is_empty())
    }
}

/// How an event's text relates to the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TextIs {
    /// Text added since the last event.
    #[default]
    Added,
    /// The whole text so far; it is content if it differs from the known text.
    SoFar,
    /// The whole answer; `is_content` is set if it has new content.
    Whole,
    /// A repetition of the whole answer, used only if no text was received before.
    Repeated,
    /// A repetition of the last part of the answer.
    PartRepeated,
    /// Text added at the end of the answer, or a repetition of the whole answer.
    Last,
}

/// An error in the body of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WireError {
    /// The corresponding HTTP status, from its code or type.
    pub(super) status: Option<u16>,
}

/// Parses one JSON object.
pub(super) fn read(json: &str) -> Result<Delta, serde_json::Error> {
    let chunk: Chunk<'_> = serde_json::from_str(json)?;
    let mut delta = Delta {
        usage: chunk.usage.and_then(parse_usage),
        server_times: server_times(chunk.metrics, chunk.timings),
        ..Delta::default()
    };
    delta.error = error(chunk.error, chunk.object.as_ref(), chunk.code, chunk.kind);
    delta.is_answer = chunk.choices.is_some();
    if delta.error.is_none() && !delta.is_answer {
        // An error without a wrapper: `{"message":...,"code":500}`.
        let status = status_of(chunk.code, chunk.kind);
        delta.error = status.map(|status| WireError {
            status: Some(status),
        });
    }
    // Only the choice with index 0 is timed and judged.
    for choice in chunk.choices.unwrap_or_default() {
        if let Some(index) = choice.index.filter(|index| *index > 0) {
            delta
                .departures
                .add(Departure::SecondChoice, &format!("index {index}"));
            continue;
        }
        if let Some(reason) = choice.finish_reason {
            delta.finish_reason = Some(reason.0.into_owned());
        }
        add(&mut delta.text, choice.text);
        let is_delta = choice.delta.is_some();
        if let Some(message) = choice.delta.or(choice.message) {
            message.add_to(&mut delta, is_delta)?;
            if !is_delta {
                delta.departures.add(Departure::MessageForDelta, "");
            }
        }
    }
    delta.is_content |= delta.has_text() || !delta.reasoning.is_empty();
    Ok(delta)
}

/// A string that borrows from the JSON if possible. One `borrow` in a struct applies to all of its
/// fields.
#[derive(Debug, Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    usage: Option<&'a RawValue>,
    metrics: Option<&'a RawValue>,
    timings: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    object: Option<Text<'a>>,
    code: Option<&'a RawValue>,
    #[serde(rename = "type")]
    kind: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    text: Option<Text<'a>>,
    delta: Option<Message<'a>>,
    message: Option<Message<'a>>,
    finish_reason: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<Text<'a>>,
    /// The name in vLLM from 0.12 and OpenRouter.
    reasoning: Option<Text<'a>>,
    /// The name in DeepSeek, SGLang, llama.cpp and older versions of vLLM.
    reasoning_content: Option<Text<'a>>,
    refusal: Option<Text<'a>>,
    tool_calls: Option<Vec<WireCall<'a>>>,
}

#[derive(Deserialize)]
struct WireCall<'a> {
    #[serde(borrow)]
    index: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    #[serde(rename = "type")]
    kind: Option<&'a RawValue>,
    function: Option<Function<'a>>,
    custom: Option<Function<'a>>,
}

/// The call of a function, or of a custom tool.
#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(alias = "input", default, deserialize_with = "present")]
    arguments: Option<&'a RawValue>,
}

/// A member with any value, also `null`.
pub(super) fn present<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Arguments, or the input of a custom tool, as they were sent.
#[derive(Debug, Default, PartialEq)]
pub(super) struct SentArguments {
    /// Another value than a string is its JSON.
    pub(super) text: String,
    pub(super) is_null: bool,
    pub(super) is_other_value: bool,
}

impl SentArguments {
    pub(super) fn read(raw: Option<&RawValue>) -> serde_json::Result<Self> {
        let json = raw.map_or("\"\"", RawValue::get);
        Ok(match json.as_bytes()[0] {
            b'"' => Self {
                text: serde_json::from_str(json)?,
                ..Self::default()
            },
            b'n' => Self {
                is_null: true,
                ..Self::default()
            },
            _ => Self {
                text: json.to_owned(),
                is_other_value: true,
                ..Self::default()
            },
        })
    }

    /// A call with these arguments.
    pub(super) fn into_call(self, call: ToolCall, departures: &mut Departures) -> ToolCall {
        if self.is_null {
            departures.add(Departure::NullArguments, &call.name);
        }
        ToolCall {
            arguments: self.text,
            form: if self.is_other_value {
                CallForm::Object
            } else {
                call.form
            },
            ..call
        }
    }
}

impl Message<'_> {
    fn add_to(self, delta: &mut Delta, is_delta: bool) -> serde_json::Result<()> {
        add(&mut delta.text, self.content);
        add(&mut delta.refusal, self.refusal);
        match (self.reasoning, self.reasoning_content) {
            // Some servers send the same text under both names.
            (Some(text), _) if !text.0.is_empty() => add(&mut delta.reasoning, Some(text)),
            (_, text) => add(&mut delta.reasoning, text),
        }
        for (position, call) in self.tool_calls.into_iter().flatten().enumerate() {
            let is_custom = call.kind.is_some_and(|kind| kind.get() == "\"custom\"");
            let is_custom = is_custom || (call.custom.is_some() && call.function.is_none());
            let id: String = call
                .id
                .and_then(|id| serde_json::from_str(id.get()).ok())
                .unwrap_or_default();
            let (name, arguments) = match call.function.or(call.custom) {
                Some(function) => (function.name, function.arguments),
                None if id.is_empty() => continue,
                None => {
                    delta.departures.add(Departure::MissingFunction, "");
                    (None, None)
                }
            };
            // Calls of whole messages have no index, and are not joined.
            let index = match number(call.index).filter(|_| is_delta) {
                Some(index) => index,
                None => {
                    if is_delta {
                        delta.departures.add(Departure::MissingIndex, "");
                    }
                    position as u64
                }
            };
            let call = ToolCall {
                index,
                id,
                name: name.map(|name| name.0.into_owned()).unwrap_or_default(),
                form: if is_custom {
                    CallForm::Custom
                } else {
                    CallForm::Function
                },
                ..ToolCall::default()
            };
            let call = SentArguments::read(arguments)?.into_call(call, &mut delta.departures);
            delta.is_content |= !call.name.is_empty();
            delta.tool_calls.push(call);
        }
        Ok(())
    }
}

/// An optional number. An invalid one is ignored, so that the answer is kept.
pub(super) fn number(raw: Option<&RawValue>) -> Option<u64> {
    raw?.get().parse().ok()
}

pub(super) fn add(text: &mut String, more: Option<Text<'_>>) {
    if let Some(more) = more {
        text.push_str(&more.0);
    }
}

/// Times of the request: `metrics` of vLLM (`--enable-per-request-metrics`,
/// `vllm/entrypoints/generate/base/protocol.py`), whose time to the first token starts after the
/// queue; `timings` of llama.cpp. Members of other types are ignored.
fn server_times(metrics: Option<&RawValue>, timings: Option<&RawValue>) -> Option<ServerTimes> {
    let object = |raw: Option<&RawValue>| -> Option<serde_json::Value> {
        serde_json::from_str(raw?.get()).ok()
    };
    let (metrics, timings) = (object(metrics), object(timings));
    let member = |object: &Option<serde_json::Value>, name: &str| {
        let ms = object.as_ref()?.get(name)?.as_f64()?;
        // The cast saturates.
        (ms >= 0.0).then_some((ms * 1e6) as u64)
    };
    let times = ServerTimes {
        queue_ns: member(&metrics, "queue_time_ms"),
        first_token_ns: member(&metrics, "time_to_first_token_ms")
            .or_else(|| member(&timings, "prompt_ms")),
        generation_ns: member(&metrics, "generation_time_ms")
            .or_else(|| member(&timings, "predicted_ms")),
    };
    (times != ServerTimes::default()).then_some(times)
}

/// Parses a `usage` of chat completions or responses. An invalid count does not invalidate the
/// answer; it is recorded as unreadable.
pub(super) fn parse_usage(raw: &RawValue) -> Option<Usage> {
    #[derive(Deserialize)]
    struct WireUsage<'a> {
        #[serde(borrow)]
        prompt_tokens: Option<&'a RawValue>,
        completion_tokens: Option<&'a RawValue>,
        input_tokens: Option<&'a RawValue>,
        output_tokens: Option<&'a RawValue>,
        completion_tokens_details: Option<&'a RawValue>,
        output_tokens_details: Option<&'a RawValue>,
        prompt_tokens_details: Option<&'a RawValue>,
        input_tokens_details: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Details<'a> {
        #[serde(borrow, alias = "thinking_tokens")]
        reasoning_tokens: Option<&'a RawValue>,
        cached_tokens: Option<&'a RawValue>,
    }
    match members::<WireUsage<'_>>(raw) {
        // Some servers send both names.
        Some(counts) => {
            let details = counts
                .completion_tokens_details
                .or(counts.output_tokens_details);
            let usage = usage(
                counts.prompt_tokens.or(counts.input_tokens),
                counts.completion_tokens.or(counts.output_tokens),
            )?;
            let reasoning = details.and_then(members::<Details<'_>>);
            let of_prompt = counts.prompt_tokens_details.or(counts.input_tokens_details);
            let cached = of_prompt.and_then(members::<Details<'_>>);
            Some(Usage {
                reasoning_tokens: number(reasoning.and_then(|found| found.reasoning_tokens)),
                cached_tokens: number(cached.and_then(|found| found.cached_tokens)),
                ..usage
            })
        }
        None => Some(Usage {
            unreadable: true,
            ..Usage::default()
        }),
    }
}

/// The members of an object; `None` for other values. Arrays must be excluded, because serde would
/// read their elements as members.
pub(super) fn members<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    raw.get()
        .starts_with('{')
        .then(|| serde_json::from_str(raw.get()).ok())
        .flatten()
}

/// Usage from two optional counts; `None` if there are none.
pub(super) fn usage(
    prompt_tokens: Option<&RawValue>,
    completion_tokens: Option<&RawValue>,
) -> Option<Usage> {
    let mut unreadable = false;
    let mut count = |value: Option<&RawValue>| {
        let count = value?.get().parse().ok();
        unreadable |= count.is_none();
        count
    };
    let (prompt_tokens, completion_tokens) = (count(prompt_tokens), count(completion_tokens));
    let usage = Usage {
        prompt_tokens,
        completion_tokens,
        reasoning_tokens: None,
        cached_tokens: None,
        unreadable,
    };
    (usage != Usage::default()).then_some(usage)
}

#[derive(Deserialize)]
struct ErrorObject<'a> {
    #[serde(borrow)]
    code: Option<&'a RawValue>,
    #[serde(rename = "type")]
    kind: Option<&'a RawValue>,
}

/// The error of a body or event, from the members of these names.
pub(super) fn error(
    error: Option<&RawValue>,
    object: Option<&Text<'_>>,
    code: Option<&RawValue>,
    kind: Option<&RawValue>,
) -> Option<WireError> {
    match (error, object) {
        (Some(error), _) => Some(WireError {
            status: nested_status(error),
        }),
        // SGLang's errors of whole responses are not wrapped:
        // `{"object":"error","message":...,"code":400}`.
        (None, Some(object)) if object.0 == "error" => Some(WireError {
            status: status_of(code, kind),
        }),
        (None, _) => None,
    }
}

/// The status of an `error` member, which is an object (OpenAI, vLLM, SGLang, llama.cpp) or a
/// string.
pub(super) fn nested_status(error: &RawValue) -> Option<u16> {
    serde_json::from_str::<ErrorObject<'_>>(error.get())
        .ok()
        .and_then(|error| status_of(error.code, error.kind))
}

/// The model and the server that an event or a body names, on its top level or in its `response`
/// (`/v1/responses`) or `message` (`/v1/messages`); `None` without names.
pub(super) fn answered_by(json: &[u8]) -> Option<AnsweredBy> {
    /// Other types than texts do not matter.
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Names {
        model: Value,
        system_fingerprint: Value,
    }
    #[derive(Deserialize)]
    struct InResponse {
        #[serde(alias = "message")]
        response: Names,
    }
    let is_in = |name: &&str| memmem::find(json, name.as_bytes()).is_some();
    ["\"model\"", "\"system_fingerprint\""]
        .iter()
        .find(|name| is_in(name))?;
    let text = |value: &Value| shortened(value.as_str().unwrap_or_default(), NAME_CHARS);
    let named = |names: Names| AnsweredBy {
        model: text(&names.model),
        system_fingerprint: text(&names.system_fingerprint),
    };
    let top_level = serde_json::from_slice(json).ok().map(named);
    top_level.filter(|names| !names.is_empty()).or_else(|| {
        let nested: InResponse = serde_json::from_slice(json).ok()?;
        Some(named(nested.response)).filter(|names| !names.is_empty())
    })
}

/// The status of an event that is an error by its name, from its own members.
pub(super) fn bare_status(data: &[u8]) -> Option<u16> {
    let error: ErrorObject<'_> = serde_json::from_slice(data).ok()?;
    status_of(error.code, error.kind)
}

/// The status of an error: its `code` if that is a number (or a string with one), else by its
/// `type`.
pub(super) fn status_of(code: Option<&RawValue>, kind: Option<&RawValue>) -> Option<u16> {
    let code = code
        .and_then(|code| code.get().trim_matches('"').parse().ok())
        .filter(|code| (400..600).contains(code));
    code.or_else(|| match kind?.get().trim_matches('"') {
        "BadRequestError" | "BAD_REQUEST" | "invalid_request_error" | "invalid_prompt" => Some(400),
        "rate_limit_exceeded" => Some(429),
        "InternalServerError" | "server_error" => Some(500),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::answer::Answer;

    #[track_caller]
    fn check(json: &str, text: &str, reasoning: &str, is_content: bool) {
        let delta = read(json).unwrap();
        let mut answer = Answer {
            content: delta.text,
            refusal: delta.refusal,
            ..Answer::default()
        };
        delta
            .tool_calls
            .iter()
            .for_each(|call| answer.add_call(call));
        assert_eq!(
            (&*answer.text(), &*delta.reasoning, delta.is_content),
            (text, reasoning, is_content)
        );
    }

    #[test]
    fn content_detection() {
        check(
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
            "",
            "",
            false,
        );
        check(
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}"#,
            "",
            "",
            false,
        );
        check(
            r#"{"choices":[{"index":0,"delta":{"role":"assistant"}}]}"#,
            "",
            "",
            false,
        );
        check(
            r#"{"choices":[{"delta":{"role":"assistant","content":"a","tool_calls":null}}]}"#,
            "a",
            "",
            true,
        );
        check(r#"{"choices":[{"index":0,"text":" \n"}]}"#, " \n", "", true);
        check(
            r#"{"choices":[{"index":0,"text":"","finish_reason":"stop"}]}"#,
            "",
            "",
            false,
        );
        check(
            r#"{"choices":[{"delta":{"reasoning":"why"}}]}"#,
            "",
            "why",
            true,
        );
        check(
            r#"{"choices":[{"delta":{"reasoning_content":"why","content":null}}]}"#,
            "",
            "why",
            true,
        );
        check(
            r#"{"choices":[{"delta":{"reasoning":"why","reasoning_content":"why"}}]}"#,
            "",
            "why",
            true,
        );
        check(
            r#"{"choices":[{"delta":{"reasoning":"","reasoning_content":"why"}}]}"#,
            "",
            "why",
            true,
        );
        check(
            r#"{"choices":[{"delta":{"refusal":"I will not"}}]}"#,
            "I will not",
            "",
            true,
        );
        check(
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":""}}]}}]}"#,
            "",
            "",
            true,
        );
        check(
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{\"a\""}}]}}]}"#,
            "{\"a\"",
            "",
            true,
        );
        check(
            r#"{"choices":[{"message":{"role":"assistant","content":"\u00e9\ud83d\ude00"}}]}"#,
            "\u{e9}\u{1f600}",
            "",
            true,
        );
        check(
            r#"{"choices":[{"index":1,"text":"b"},{"index":0,"text":"a"}]}"#,
            "a",
            "",
            true,
        );
        check(r#"{"choices":[]}"#, "", "", false);
        check(
            r#"{"choices":null,"usage":null,"error":null,"object":"list"}"#,
            "",
            "",
            false,
        );
    }

    #[test]
    fn usage_is_read_leniently() {
        let usage = |json: &str| read(json).unwrap().usage;
        assert_eq!(
            usage(
                r#"{"choices":[],"usage":{"prompt_tokens":17,"total_tokens":25,"completion_tokens":8}}"#
            ),
            Some(Usage {
                prompt_tokens: Some(17),
                completion_tokens: Some(8),
                reasoning_tokens: None,
                cached_tokens: None,
                unreadable: false
            })
        );
        assert_eq!(
            usage(r#"{"usage":{"prompt_tokens":null,"completion_tokens":1.5}}"#),
            Some(Usage {
                prompt_tokens: None,
                completion_tokens: None,
                reasoning_tokens: None,
                cached_tokens: None,
                unreadable: true
            })
        );
        assert_eq!(usage(r#"{"choices":[],"usage":{}}"#), None);
        for (details, expected) in [
            (
                r#""completion_tokens_details":{"reasoning_tokens":5}"#,
                Some(5),
            ),
            (r#""output_tokens_details":{"reasoning_tokens":0}"#, Some(0)),
            (
                r#""completion_tokens_details":{"reasoning_tokens":-1}"#,
                None,
            ),
            (r#""completion_tokens_details":[5]"#, None),
            (r#""completion_tokens_details":null"#, None),
        ] {
            let found = usage(&format!(
                r#"{{"choices":[],"usage":{{"completion_tokens":8,{details}}}}}"#
            ));
            assert_eq!(found.unwrap().reasoning_tokens, expected, "{details}");
        }
        for details in [
            r#""prompt_tokens_details":{"cached_tokens":5}"#,
            r#""input_tokens_details":{"cached_tokens":5}"#,
        ] {
            let found = usage(&format!(r#"{{"usage":{{"prompt_tokens":8,{details}}}}}"#));
            assert_eq!(found.unwrap().cached_tokens, Some(5), "{details}");
        }
        for (parse_usage, prompt_tokens, unreadable) in [
            ("[1,2]", None, true),
            ("\"many\"", None, true),
            ("7", None, true),
            ("true", None, true),
            (
                r#"{"prompt_tokens":9223372036854775808}"#,
                Some(1 << 63),
                false,
            ),
            (r#"{"prompt_tokens":18446744073709551616}"#, None, true),
            (r#"{"prompt_tokens":1e300}"#, None, true),
            (r#"{"prompt_tokens":-1}"#, None, true),
            (r#"{"prompt_tokens":"7"}"#, None, true),
            (r#"{"prompt_tokens":[7]}"#, None, true),
            (
                r#"{"prompt_tokens":7,"prompt_tokens_details":[]}"#,
                Some(7),
                false,
            ),
            (r#"{"input_tokens":7,"prompt_tokens":7}"#, Some(7), false),
        ] {
            let expected = Some(Usage {
                prompt_tokens,
                completion_tokens: None,
                reasoning_tokens: None,
                cached_tokens: None,
                unreadable,
            });
            assert_eq!(
                usage(&format!(r#"{{"choices":[],"usage":{parse_usage}}}"#)),
                expected,
                "{parse_usage}"
            );
        }
        assert_eq!(usage(r#"{"choices":[],"usage":null}"#), None);
    }

    #[test]
    fn times_of_the_server_are_read_leniently() {
        let times = |json: &str| read(json).unwrap().server_times;
        let vllm = r#"{"choices":[],"metrics":{"time_to_first_token_ms":12.5,"generation_time_ms":80.0,"queue_time_ms":0.25,"mean_itl_ms":4.0}}"#;
        assert_eq!(
            times(vllm),
            Some(ServerTimes {
                queue_ns: Some(250_000),
                first_token_ns: Some(12_500_000),
                generation_ns: Some(80_000_000),
            })
        );
        let llama_cpp = r#"{"choices":[],"timings":{"cache_n":6,"prompt_n":1,"prompt_ms":0.206,"predicted_n":6,"predicted_ms":18.233}}"#;
        assert_eq!(
            times(llama_cpp),
            Some(ServerTimes {
                queue_ns: None,
                first_token_ns: Some(206_000),
                generation_ns: Some(18_233_000),
            })
        );
        for other in [
            r#"{"choices":[],"metrics":null,"timings":null}"#,
            r#"{"choices":[],"metrics":[1],"timings":"fast"}"#,
            r#"{"choices":[],"metrics":{"queue_time_ms":-1,"generation_time_ms":"1"}}"#,
        ] {
            assert_eq!(times(other), None, "{other}");
        }
    }

    #[test]
    fn errors_of_every_server() {
        for (json, status) in [
            (
                r#"{"error": {"message": "bad", "type": "BadRequestError", "param": null, "code": 400}}"#,
                Some(400),
            ),
            (
                r#"{"error": {"object": "error", "message": "bad", "type": "BAD_REQUEST", "code": 400}}"#,
                Some(400),
            ),
            (
                r#"{"error":{"code":500,"message":"empty grammar stack","type":"server_error"}}"#,
                Some(500),
            ),
            (
                r#"{"error":{"message":"no","type":"invalid_request_error","code":"invalid_schema"}}"#,
                Some(400),
            ),
            (r#"{"error":{"message":"no","code":"429"}}"#, Some(429)),
            (
                r#"{"error":{"message":"no","type":"InternalServerError","code":null}}"#,
                Some(500),
            ),
            (r#"{"error":{"message":"no","code":7}}"#, None),
            (
                r#"{"object":"error","message":"bad","type":"BadRequestError","param":null,"code":400}"#,
                Some(400),
            ),
            (r#"{"error":"out of memory"}"#, None),
            (r#"{"error":[1]}"#, None),
        ] {
            assert_eq!(
                read(json).unwrap().error,
                Some(WireError { status }),
                "{json}"
            );
        }
    }

    #[test]
    fn values_that_are_not_objects_are_errors() {
        for text in [
            "",
            "1",
            "[DONE]",
            "Invalid grammar. 1(9): Expected token",
            "{",
            r#"{"choices":[{"text":1}]}"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
