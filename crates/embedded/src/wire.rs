//! Serialises answers in OpenAI's format, with vLLM's additions.

use serde::Serialize;

use super::deltas::{Delta, WholeAnswer, WholeCall};
use super::endpoint::Endpoint;
use super::generation::FinishReason;

/// The common members of all responses to one request.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) endpoint: Endpoint,
    /// With the endpoint's prefix: `cmpl-`, `chatcmpl-`, `resp_` or `msg_`.
    pub(super) id: String,
    /// Unix seconds.
    pub(super) created: u64,
    pub(super) model: String,
    /// States on every answer that it is synthetic.
    pub(super) fingerprint: String,
    pub(super) prompt_tokens: u32,
    /// Those of them in the prefix cache; `None` without one.
    pub(super) cached_tokens: Option<u32>,
}

/// The last event of every stream.
pub(super) const DONE: &[u8] = b"data: [DONE]\n\n";

#[derive(Serialize)]
struct Answer<'a, C: Serialize> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: C,
    system_fingerprint: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
}

/// Token counts, in vLLM's order.
#[derive(Clone, Copy, Debug, Serialize)]
struct Usage {
    prompt_tokens: u32,
    total_tokens: u32,
    completion_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_tokens_details: Option<TokenDetails>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens_details: Option<PromptTokenDetails>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct PromptTokenDetails {
    cached_tokens: u32,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct TokenDetails {
    pub(super) reasoning_tokens: u32,
}

/// Generated tokens of an answer so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TokenCounts {
    pub(super) tokens: u32,
    /// `None` in a server without reasoning.
    pub(super) reasoning: Option<u32>,
}

/// The end of an answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AnswerEnd<'a> {
    pub(super) finish: Option<FinishReason>,
    /// The stop string that ended the answer, if any.
    pub(super) stop: Option<&'a str>,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    #[serde(flatten)]
    payload: Payload<'a>,
    logprobs: Option<()>,
    finish_reason: Option<&'static str>,
    stop_reason: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Payload<'a> {
    Text(&'a str),
    Delta(Message<'a>),
    Message(Message<'a>),
}

/// A message, or a part of one.
#[derive(Default, Serialize)]
struct Message<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Content::is_absent")]
    content: Content<'a>,
    /// `null` in a whole message.
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<Option<&'a str>>,
    /// The name in vLLM from 0.12 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<&'a str>,
    /// The name in older versions of vLLM and in other servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
}

/// The content of a message. A message with calls only has `null`.
#[derive(Clone, Copy, Default, Serialize)]
#[serde(untagged)]
enum Content<'a> {
    #[default]
    Absent,
    Null,
    Text(&'a str),
}

impl Content<'_> {
    fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

/// A call, or a part of one.
#[derive(Serialize)]
struct Call<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(flatten)]
    called: Called<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Called<'a> {
    Function {
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'a str>,
        arguments: &'a str,
    },
    Custom {
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'a str>,
        input: &'a str,
    },
}

impl<'a> Called<'a> {
    fn new(is_custom: bool, name: Option<&'a str>, text: &'a str) -> Self {
        if is_custom {
            Self::Custom { name, input: text }
        } else {
            Self::Function {
                name,
                arguments: text,
            }
        }
    }
}

fn call_kind(is_custom: bool) -> &'static str {
    if is_custom { "custom" } else { "function" }
}

impl<'a> From<&'a Delta> for Message<'a> {
    fn from(delta: &'a Delta) -> Self {
        match delta {
            Delta::Reasoning(text) => Self {
                reasoning: Some(text),
                reasoning_content: Some(text),
                ..Self::default()
            },
            Delta::Content(text) => Self {
                content: Content::Text(text),
                ..Self::default()
            },
            Delta::CallStart {
                index,
                id,
                name,
                is_custom,
            } => Self {
                tool_calls: vec![Call {
                    index: Some(*index),
                    id: Some(id),
                    kind: Some(call_kind(*is_custom)),
                    called: Called::new(*is_custom, Some(name), ""),
                }],
                ..Self::default()
            },
            Delta::Arguments {
                index,
                is_custom,
                text,
            } => Self {
                tool_calls: vec![Call {
                    index: Some(*index),
                    id: None,
                    kind: None,
                    called: Called::new(*is_custom, None, text),
                }],
                ..Self::default()
            },
        }
    }
}

impl<'a> From<&'a WholeAnswer> for Message<'a> {
    fn from(answer: &'a WholeAnswer) -> Self {
        let call = |call: &'a WholeCall| Call {
            index: None,
            id: Some(&call.id),
            kind: Some(call_kind(call.is_custom)),
            called: Called::new(call.is_custom, Some(&call.name), &call.arguments),
        };
        let reasoning = Some(answer.reasoning.as_str()).filter(|text| !text.is_empty());
        let is_only_calls = answer.content.is_empty() && !answer.calls.is_empty();
        Self {
            role: Some("assistant"),
            content: if is_only_calls {
                Content::Null
            } else {
                Content::Text(&answer.content)
            },
            refusal: Some(None),
            reasoning,
            reasoning_content: reasoning,
            tool_calls: answer.calls.iter().map(call).collect(),
        }
    }
}

impl Head {
    /// The first event of a chat stream. A completions stream has none.
    pub(super) fn opening(&self, usage: Option<TokenCounts>) -> Option<Vec<u8>> {
        let message = Payload::Delta(Message {
            role: Some("assistant"),
            content: Content::Text(""),
            ..Message::default()
        });
        let usage = usage.map(|counts| self.usage(counts));
        let choice = choice(message, AnswerEnd::default());
        (self.endpoint == Endpoint::Chat).then(|| self.event([choice], usage))
    }

    /// The event of a part of the answer. Without one, the text is empty.
    pub(super) fn chunk(
        &self,
        delta: Option<&Delta>,
        end: AnswerEnd<'_>,
        usage: Option<TokenCounts>,
    ) -> Vec<u8> {
        let empty = Delta::Content(String::new());
        let delta = delta.unwrap_or(&empty);
        let payload = match (self.endpoint, delta) {
            (Endpoint::Completions, Delta::Content(text)) => Payload::Text(text),
            (Endpoint::Completions, _) => Payload::Text(""),
            _ => Payload::Delta(delta.into()),
        };
        self.event(
            [choice(payload, end)],
            usage.map(|counts| self.usage(counts)),
        )
    }

    /// The event with the usage and without choices.
    pub(super) fn usage_chunk(&self, counts: TokenCounts) -> Vec<u8> {
        self.event::<[(); 0]>([], Some(self.usage(counts)))
    }

    /// A complete answer in one body.
    pub(super) fn complete(
        &self,
        answer: &WholeAnswer,
        end: AnswerEnd<'_>,
        usage: Option<TokenCounts>,
    ) -> Vec<u8> {
        let end = AnswerEnd {
            finish: end.finish.or(Some(FinishReason::Stop)),
            ..end
        };
        let (object, payload) = match self.endpoint {
            Endpoint::Completions => ("text_completion", Payload::Text(&answer.content)),
            _ => ("chat.completion", Payload::Message(answer.into())),
        };
        json(&self.answer(
            object,
            [choice(payload, end)],
            usage.map(|counts| self.usage(counts)),
        ))
    }

    fn usage(&self, counts: TokenCounts) -> Usage {
        let TokenCounts { tokens, reasoning } = counts;
        Usage {
            prompt_tokens: self.prompt_tokens,
            total_tokens: self.prompt_tokens.saturating_add(tokens),
            completion_tokens: tokens,
            completion_tokens_details: reasoning
                .map(|reasoning_tokens| TokenDetails { reasoning_tokens }),
            prompt_tokens_details: self
                .cached_tokens
                .map(|cached_tokens| PromptTokenDetails { cached_tokens }),
        }
    }

    fn event<C: Serialize>(&self, choices: C, usage: Option<Usage>) -> Vec<u8> {
        let object = match self.endpoint {
            Endpoint::Completions => "text_completion",
            _ => "chat.completion.chunk",
        };
        event(&self.answer(object, choices, usage))
    }

    fn answer<C: Serialize>(
        &self,
        object: &'static str,
        choices: C,
        usage: Option<Usage>,
    ) -> Answer<'_, C> {
        let Self {
            id,
            created,
            model,
            fingerprint,
            ..
        } = self;
        Answer {
            id,
            object,
            created: *created,
            model,
            choices,
            system_fingerprint: fingerprint,
            usage,
        }
    }
}

/// A JSON value as a server-sent event.
pub(super) fn event(value: &impl Serialize) -> Vec<u8> {
    [b"data: ".as_slice(), &json(value), b"\n\n"].concat()
}

fn choice<'a>(payload: Payload<'a>, end: AnswerEnd<'a>) -> Choice<'a> {
    Choice {
        index: 0,
        payload,
        logprobs: None,
        finish_reason: end.finish.map(FinishReason::name),
        stop_reason: end.stop,
    }
}

pub(super) fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("answers hold only strings and integers")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(endpoint: Endpoint) -> Head {
        let (id, model, fingerprint) = ("x-1".into(), "m".into(), "f".into());
        Head {
            endpoint,
            id,
            created: 7,
            model,
            fingerprint,
            prompt_tokens: 3,
            cached_tokens: None,
        }
    }

    const COUNTS: TokenCounts = TokenCounts {
        tokens: 2,
        reasoning: None,
    };

    fn content(text: &str) -> WholeAnswer {
        WholeAnswer {
            content: text.to_owned(),
            ..WholeAnswer::default()
        }
    }

    fn check(bytes: &[u8], expected: &str) {
        assert_eq!(String::from_utf8_lossy(bytes), expected);
    }

    #[test]
    fn completions() {
        let head = head(Endpoint::Completions);
        assert_eq!(head.opening(Some(COUNTS)), None);
        check(
            &head.chunk(
                Some(&Delta::Content("a\"".into())),
                AnswerEnd::default(),
                None,
            ),
            "data: {\"id\":\"x-1\",\"object\":\"text_completion\",\"created\":7,\"model\":\"m\",\"choices\":[{\"index\":0,\
             \"text\":\"a\\\"\",\"logprobs\":null,\"finish_reason\":null,\"stop_reason\":null}],\"system_fingerprint\":\"f\"}\n\n",
        );
        check(
            &head.usage_chunk(COUNTS),
            "data: {\"id\":\"x-1\",\"object\":\"text_completion\",\"created\":7,\"model\":\"m\",\"choices\":[],\
             \"system_fingerprint\":\"f\",\"usage\":{\"prompt_tokens\":3,\"total_tokens\":5,\"completion_tokens\":2}}\n\n",
        );
        check(
            &head.complete(
                &content("a"),
                AnswerEnd {
                    finish: Some(FinishReason::Length),
                    stop: None,
                },
                Some(COUNTS),
            ),
            "{\"id\":\"x-1\",\"object\":\"text_completion\",\"created\":7,\"model\":\"m\",\"choices\":[{\"index\":0,\"text\":\"a\",\
             \"logprobs\":null,\"finish_reason\":\"length\",\"stop_reason\":null}],\"system_fingerprint\":\"f\",\
             \"usage\":{\"prompt_tokens\":3,\"total_tokens\":5,\"completion_tokens\":2}}",
        );
    }

    #[test]
    fn chat() {
        let head = head(Endpoint::Chat);
        check(
            &head.opening(None).unwrap(),
            "data: {\"id\":\"x-1\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m\",\"choices\":[{\"index\":0,\
             \"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null,\"stop_reason\":null}],\
             \"system_fingerprint\":\"f\"}\n\n",
        );
        check(
            &head.chunk(
                None,
                AnswerEnd {
                    finish: Some(FinishReason::Stop),
                    stop: None,
                },
                Some(TokenCounts {
                    tokens: 4,
                    reasoning: None,
                }),
            ),
            "data: {\"id\":\"x-1\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m\",\"choices\":[{\"index\":0,\
             \"delta\":{\"content\":\"\"},\"logprobs\":null,\"finish_reason\":\"stop\",\"stop_reason\":null}],\
             \"system_fingerprint\":\"f\",\"usage\":{\"prompt_tokens\":3,\"total_tokens\":7,\"completion_tokens\":4}}\n\n",
        );
        check(
            &head.complete(
                &content("a"),
                AnswerEnd {
                    finish: Some(FinishReason::Stop),
                    stop: Some("\n"),
                },
                Some(COUNTS),
            ),
            "{\"id\":\"x-1\",\"object\":\"chat.completion\",\"created\":7,\"model\":\"m\",\"choices\":[{\"index\":0,\
             \"message\":{\"role\":\"assistant\",\"content\":\"a\",\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"stop\",\
             \"stop_reason\":\"\\n\"}],\"system_fingerprint\":\"f\",\
             \"usage\":{\"prompt_tokens\":3,\"total_tokens\":5,\"completion_tokens\":2}}",
        );
    }

    fn delta(delta: &Delta) -> String {
        let chunk = head(Endpoint::Chat).chunk(Some(delta), AnswerEnd::default(), None);
        let chunk = String::from_utf8(chunk).unwrap();
        let start = chunk.find("\"delta\":").unwrap() + 8;
        chunk[start..chunk.find(",\"logprobs\"").unwrap()].to_owned()
    }

    #[test]
    fn channels_of_chat_deltas() {
        assert_eq!(
            delta(&Delta::Reasoning("a".into())),
            r#"{"reasoning":"a","reasoning_content":"a"}"#
        );
        let start = |is_custom| Delta::CallStart {
            index: 1,
            id: "c".into(),
            name: "f".into(),
            is_custom,
        };
        assert_eq!(
            delta(&start(false)),
            r#"{"tool_calls":[{"index":1,"id":"c","type":"function","function":{"name":"f","arguments":""}}]}"#
        );
        assert_eq!(
            delta(&start(true)),
            r#"{"tool_calls":[{"index":1,"id":"c","type":"custom","custom":{"name":"f","input":""}}]}"#
        );
        let arguments = Delta::Arguments {
            index: 0,
            is_custom: false,
            text: "{".into(),
        };
        assert_eq!(
            delta(&arguments),
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}"#
        );
    }

    #[test]
    fn whole_messages_have_all_channels() {
        let call = WholeCall {
            id: "c".into(),
            name: "f".into(),
            arguments: "{}".into(),
            is_custom: false,
        };
        let answer = WholeAnswer {
            reasoning: "Hm".into(),
            content: String::new(),
            calls: vec![call],
        };
        let end = AnswerEnd {
            finish: Some(FinishReason::ToolCalls),
            stop: None,
        };
        let counts = TokenCounts {
            tokens: 5,
            reasoning: Some(2),
        };
        let body = head(Endpoint::Chat).complete(&answer, end, Some(counts));
        let body = String::from_utf8(body).unwrap();
        for part in [
            r#""message":{"role":"assistant","content":null,"refusal":null,"reasoning":"Hm","reasoning_content":"Hm","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}"#,
            r#""finish_reason":"tool_calls""#,
            r#""completion_tokens":5,"completion_tokens_details":{"reasoning_tokens":2}"#,
        ] {
            assert!(body.contains(part), "{body}");
        }
    }
}
