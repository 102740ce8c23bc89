//! Serialises answers in OpenAI's format, with vLLM's additions.

use serde::Serialize;

use super::generation::{FinishReason, Piece};
use super::request::Endpoint;

/// The common members of all responses to one request.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) endpoint: Endpoint,
    /// With the endpoint's prefix, `cmpl-` or `chatcmpl-`.
    pub(super) id: String,
    /// Unix seconds.
    pub(super) created: u64,
    pub(super) model: String,
    /// States on every answer that it is synthetic.
    pub(super) fingerprint: String,
    pub(super) prompt_tokens: u32,
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
    Delta(Delta<'a>),
    Message(Delta<'a>),
}

#[derive(Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    content: &'a str,
}

impl Head {
    /// The first event of a chat stream. A completions stream has none.
    pub(super) fn opening(&self, continuous_usage: bool) -> Option<Vec<u8>> {
        let delta = Payload::Delta(Delta {
            role: Some("assistant"),
            content: "",
        });
        let usage = continuous_usage.then(|| self.usage(0));
        (self.endpoint == Endpoint::Chat).then(|| self.event([choice(delta, None, None)], usage))
    }

    /// The event of a piece of text. `tokens` is the number of tokens up to and including it.
    pub(super) fn chunk(&self, piece: &Piece, tokens: u32, continuous_usage: bool) -> Vec<u8> {
        let payload = match self.endpoint {
            Endpoint::Completions => Payload::Text(&piece.text),
            Endpoint::Chat => Payload::Delta(Delta {
                role: None,
                content: &piece.text,
            }),
        };
        self.event(
            [choice(payload, piece.finish, piece.stop.as_deref())],
            continuous_usage.then(|| self.usage(tokens)),
        )
    }

    /// The event with the usage and without choices.
    pub(super) fn usage_chunk(&self, tokens: u32) -> Vec<u8> {
        self.event::<[(); 0]>([], Some(self.usage(tokens)))
    }

    /// A complete answer in one body.
    pub(super) fn complete(&self, piece: &Piece, tokens: u32, with_usage: bool) -> Vec<u8> {
        let (text, finish) = (
            piece.text.as_str(),
            piece.finish.unwrap_or(FinishReason::Stop),
        );
        let (object, payload) = match self.endpoint {
            Endpoint::Completions => ("text_completion", Payload::Text(text)),
            Endpoint::Chat => (
                "chat.completion",
                Payload::Message(Delta {
                    role: Some("assistant"),
                    content: text,
                }),
            ),
        };
        json(&self.answer(
            object,
            [choice(payload, Some(finish), piece.stop.as_deref())],
            with_usage.then(|| self.usage(tokens)),
        ))
    }

    fn usage(&self, completion_tokens: u32) -> Usage {
        let total_tokens = self.prompt_tokens.saturating_add(completion_tokens);
        Usage {
            prompt_tokens: self.prompt_tokens,
            total_tokens,
            completion_tokens,
        }
    }

    fn event<C: Serialize>(&self, choices: C, usage: Option<Usage>) -> Vec<u8> {
        let object = match self.endpoint {
            Endpoint::Completions => "text_completion",
            Endpoint::Chat => "chat.completion.chunk",
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

fn choice<'a>(
    payload: Payload<'a>,
    finish: Option<FinishReason>,
    stop_reason: Option<&'a str>,
) -> Choice<'a> {
    Choice {
        index: 0,
        payload,
        logprobs: None,
        finish_reason: finish.map(FinishReason::name),
        stop_reason,
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
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
        }
    }

    fn check(bytes: &[u8], expected: &str) {
        assert_eq!(String::from_utf8_lossy(bytes), expected);
    }

    #[test]
    fn completions() {
        let head = head(Endpoint::Completions);
        assert_eq!(head.opening(true), None);
        check(
            &head.chunk(
                &Piece {
                    text: "a\"".into(),
                    finish: None,
                    stop: None,
                },
                1,
                false,
            ),
            "data: {\"id\":\"x-1\",\"object\":\"text_completion\",\"created\":7,\"model\":\"m\",\"choices\":[{\"index\":0,\
             \"text\":\"a\\\"\",\"logprobs\":null,\"finish_reason\":null,\"stop_reason\":null}],\"system_fingerprint\":\"f\"}\n\n",
        );
        check(
            &head.usage_chunk(2),
            "data: {\"id\":\"x-1\",\"object\":\"text_completion\",\"created\":7,\"model\":\"m\",\"choices\":[],\
             \"system_fingerprint\":\"f\",\"usage\":{\"prompt_tokens\":3,\"total_tokens\":5,\"completion_tokens\":2}}\n\n",
        );
        check(
            &head.complete(
                &Piece {
                    text: "a".into(),
                    finish: Some(FinishReason::Length),
                    stop: None,
                },
                2,
                true,
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
            &head.opening(false).unwrap(),
            "data: {\"id\":\"x-1\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m\",\"choices\":[{\"index\":0,\
             \"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null,\"stop_reason\":null}],\
             \"system_fingerprint\":\"f\"}\n\n",
        );
        check(
            &head.chunk(
                &Piece {
                    text: String::new(),
                    finish: Some(FinishReason::Stop),
                    stop: None,
                },
                4,
                true,
            ),
            "data: {\"id\":\"x-1\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m\",\"choices\":[{\"index\":0,\
             \"delta\":{\"content\":\"\"},\"logprobs\":null,\"finish_reason\":\"stop\",\"stop_reason\":null}],\
             \"system_fingerprint\":\"f\",\"usage\":{\"prompt_tokens\":3,\"total_tokens\":7,\"completion_tokens\":4}}\n\n",
        );
        check(
            &head.complete(
                &Piece {
                    text: "a".into(),
                    finish: Some(FinishReason::Stop),
                    stop: Some("\n".into()),
                },
                2,
                true,
            ),
            "{\"id\":\"x-1\",\"object\":\"chat.completion\",\"created\":7,\"model\":\"m\",\"choices\":[{\"index\":0,\
             \"message\":{\"role\":\"assistant\",\"content\":\"a\"},\"logprobs\":null,\"finish_reason\":\"stop\",\
             \"stop_reason\":\"\\n\"}],\"system_fingerprint\":\"f\",\
             \"usage\":{\"prompt_tokens\":3,\"total_tokens\":5,\"completion_tokens\":2}}",
        );
    }
}
