//! The model name in the trial's answer: a member `model` of the body or of an event, as OpenAI's
//! API has it.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde_json::Value;

use sobench_backend::{
    Adapter, Decoded, Decoder, ReadSummary, RequestOptions, ServerKind, Unsendable,
};
use sobench_core::case::Case;
use sobench_core::printable::printable;
use sobench_notices::notice::{BenchNotice, Notice};

/// Bytes of an answer that are searched for the model; a stream has it in its first event.
const MAX_LOOKED_AT_BYTES: usize = 64 << 10;

/// Characters of a model name in a notice.
const MAX_NAME_CHARS: usize = 200;

/// An adapter that keeps the first bytes of the last answer.
pub(super) struct CapturingAdapter {
    inner: Arc<dyn Adapter>,
    received: Arc<Mutex<Vec<u8>>>,
}

impl CapturingAdapter {
    pub(super) fn new(inner: Arc<dyn Adapter>) -> Self {
        Self {
            inner,
            received: Arc::default(),
        }
    }

    /// Notice where the last answer names another model than `asked`.
    pub(super) fn notice(&self, asked: &str) -> Option<Notice> {
        let named = named_model(&self.received.lock().unwrap_or_else(PoisonError::into_inner))?;
        let [named, asked] = [named.as_str(), asked].map(|name| printable(name, MAX_NAME_CHARS));
        (named != asked).then(|| {
            BenchNotice::ModelMismatch {
                answered: named,
                requested: asked,
            }
            .into()
        })
    }
}

impl Adapter for CapturingAdapter {
    fn kind(&self) -> ServerKind {
        self.inner.kind()
    }

    fn encode(&self, case: &Case, options: &RequestOptions) -> Result<Bytes, Unsendable> {
        self.inner.encode(case, options)
    }

    fn decoder(&self, stream: bool, max_event_bytes: usize) -> Box<dyn Decoder> {
        self.received
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        Box::new(CapturingDecoder {
            inner: self.inner.decoder(stream, max_event_bytes),
            received: Arc::clone(&self.received),
        })
    }

    fn content_type(&self) -> &'static str {
        self.inner.content_type()
    }

    fn stream_media_type(&self) -> &'static str {
        self.inner.stream_media_type()
    }
}

struct CapturingDecoder {
    inner: Box<dyn Decoder>,
    received: Arc<Mutex<Vec<u8>>>,
}

impl Decoder for CapturingDecoder {
    fn push(&mut self, bytes: &[u8]) -> ReadSummary {
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_LOOKED_AT_BYTES.saturating_sub(received.len());
        received.extend_from_slice(&bytes[..bytes.len().min(room)]);
        drop(received);
        self.inner.push(bytes)
    }

    fn finish(&mut self) -> ReadSummary {
        self.inner.finish()
    }

    fn into_decoded(self: Box<Self>) -> Decoded {
        self.inner.into_decoded()
    }
}

/// The model of a body: of the whole, or of the first line or event with one.
fn named_model(body: &[u8]) -> Option<String> {
    let model = |json: &[u8]| {
        let value: Value = serde_json::from_slice(json).ok()?;
        // Events of the responses endpoint contain the response, which has the model.
        let model = value
            .get("model")
            .or_else(|| value.get("response")?.get("model"))?;
        Some(model.as_str()?.to_owned()).filter(|name| !name.is_empty())
    };
    let lines = || {
        body.split(|byte| *byte == b'\n')
            .map(|line| line.strip_prefix(b"data:").unwrap_or(line))
    };
    model(body).or_else(|| lines().find_map(model))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_backend::adapter;

    #[test]
    fn an_answer_of_another_model_has_a_notice() {
        for (kind, reads, asked, expected) in [
            (
                ServerKind::Vllm,
                &["data: {\"model\":\"a\",\"choi", "ces\":[]}\n\n"][..],
                "a",
                None,
            ),
            (
                ServerKind::Vllm,
                &[": hi\ndata: {\"model\":", "\"b\"}\r\n\r\ndata: [DONE]\n\n"],
                "a",
                Some("b"),
            ),
            (
                ServerKind::OpenaiResponses,
                &["event: x\ndata: {\"response\":{\"model\":\"b\"}}\n\n"],
                "a",
                Some("b"),
            ),
            (
                ServerKind::Ollama,
                &["{\"model\":\"b\",\"done\":false}\n{\"model\":\"a\"}\n"],
                "a",
                Some("b"),
            ),
            (
                ServerKind::Tgi,
                &["data: {\"token\":{\"text\":\"model\"}}\n\n"],
                "a",
                None,
            ),
            (
                ServerKind::Vllm,
                &[
                    "data: {\"model\":\"\"}\n\n",
                    "data: {\"model\":null}\n\n",
                    "\u{1}",
                ],
                "a",
                None,
            ),
        ] {
            let capturing = CapturingAdapter::new(Arc::from(adapter(kind)));
            let mut decoder = capturing.decoder(true, 1 << 20);
            reads.iter().for_each(|read| {
                decoder.push(read.as_bytes());
            });
            let notice = capturing.notice(asked);
            assert_eq!(notice.is_some(), expected.is_some(), "{reads:?}");
            assert!(expected.is_none_or(|name| {
                notice.unwrap().to_string().contains(&format!(
                    "names the model {name}; the requested model is {asked}"
                ))
            }));
        }
        let whole = CapturingAdapter::new(Arc::from(adapter(ServerKind::OpenaiChat)));
        let mut decoder = whole.decoder(false, 1 << 20);
        decoder.push(b"{\n \"model\": \"b\"\n}");
        assert!(whole.notice("a").is_some());
        whole.decoder(false, 1 << 20);
        assert_eq!(whole.notice("a"), None, "the last answer counts");
    }
}
