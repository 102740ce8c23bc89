//! OpenAI's transcriptions endpoint: a form with an audio file, answered by its text.
//!
//! Source: vLLM's client (`async_request_openai_audio`) and `TranscriptionRequest`, OpenAI's
//! reference "Create transcription" and "Transcription streaming events"; not tested against a
//! server. The form is that of vLLM's client: the language is `en` unless `--extra-body` sets
//! another one, and the stream options, an object elsewhere, are separate fields. vLLM streams
//! chunks in the format of chat completions. OpenAI streams typed events, the last of which repeats
//! the whole text, without `[DONE]`. A whole response is `{text, usage}`; vLLM's usage is in
//! seconds, not tokens, and is then ignored. `/v1/audio/translations` takes the same form.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::openai::COMPLETIONS;
use super::{Input, KindSpec, ServerKind};
use crate::body_layout::BodyLayout;
use crate::decode::Wire;
use crate::wire::{self, Delta, Text, TextIs};
use crate::{Adapter, BodySettings, Unsendable, body};
use sobench_core::audio::Clip;
use sobench_core::case::{Case, Prompt};

/// The boundary between the parts of a form, a fixed random string. A file that contains it is
/// rejected.
const BOUNDARY: &str = "sobench-7c1f6a52e09d4b83a5d7f04e3c9821b6";
const CONTENT_TYPE: &str = "multipart/form-data; boundary=sobench-7c1f6a52e09d4b83a5d7f04e3c9821b6";

pub(super) const SPEC: KindSpec = KindSpec {
    name: "openai-audio",
    path: "/v1/audio/transcriptions",
    path_words: &["transcriptions", "translations"],
    input: Input::Audio,
    takes_constraints: false,
    // vLLM's `TranscriptionRequest` has every parameter; its stream options are separate fields.
    body: BodyLayout {
        prompt: "file",
        length: "max_completion_tokens",
        has_stream_options: false,
        has_ignore_eos: false,
        ..BodyLayout::COMPLETIONS
    },
    wire: Wire::sse(read),
    adapter: |_| Box::new(AudioAdapter::default()),
    ..COMPLETIONS
};

#[derive(Default)]
struct AudioAdapter {
    /// Encoded bodies by form fields and clip, so that requests for one file share its bytes.
    encoded: Mutex<HashMap<(Vec<u8>, String), Bytes>>,
}

impl Adapter for AudioAdapter {
    fn kind(&self) -> ServerKind {
        ServerKind::OpenaiAudio
    }

    fn encode(&self, case: &Case, options: &BodySettings) -> Result<Bytes, Unsendable> {
        let Prompt::Audio(clip) = &case.prompt else {
            return Err(body::wrong_prompt_type(self.kind(), "sound", &case.prompt));
        };
        let model = options.model_of(case);
        let mut fields =
            json!({"model": model, "max_completion_tokens": case.output_len, "language": "en"});
        if options.stream {
            fields["stream_include_usage"] = json!(true);
            fields["stream_continuous_usage_stats"] = json!(true);
        }
        let parts = field_parts(&body::assemble(self.kind(), fields, case, options)?);
        let mut encoded = self.encoded.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (parts, format!("{} {}", clip.sha256(), clip.name()));
        if let Some(body) = encoded.get(&key) {
            return Ok(body.clone());
        }
        let body = form(&key.0, clip)?;
        encoded.insert(key, body.clone());
        Ok(body)
    }

    fn content_type(&self) -> &'static str {
        CONTENT_TYPE
    }
}

/// The parts of a form (RFC 7578) that are not files. Each item of a list is a field of the same
/// name; `null` is omitted.
fn field_parts(body: &Value) -> Vec<u8> {
    let mut parts = Vec::new();
    for (name, value) in body.as_object().into_iter().flatten() {
        let values = match value {
            Value::Null => &[][..],
            Value::Array(values) => values,
            one => std::slice::from_ref(one),
        };
        for value in values {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            let head = format!(
                "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{}\"\r\n\r\n",
                quoted(name)
            );
            parts.extend(head.as_bytes());
            parts.extend(text.as_bytes());
            parts.extend(b"\r\n");
        }
    }
    parts
}

/// The form: the file, then the fields.
fn form(fields: &[u8], clip: &Clip) -> Result<Bytes, Unsendable> {
    let head = format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{}\"\r\nContent-Type: {}\r\n\r\n",
        quoted(clip.name()),
        clip.media_type()
    );
    if memmem::find(clip.bytes(), BOUNDARY.as_bytes()).is_some() {
        return Err(Unsendable::new(
            format!("the file contains the form boundary: {}", clip.name()),
            "use another audio file",
        ));
    }
    let mut form =
        Vec::with_capacity(head.len() + clip.bytes().len() + fields.len() + BOUNDARY.len() + 8);
    form.extend(head.as_bytes());
    form.extend(clip.bytes());
    form.extend(b"\r\n");
    form.extend(fields);
    form.extend(format!("--{BOUNDARY}--\r\n").as_bytes());
    Ok(Bytes::from(form))
}

/// A name quoted for a form (HTML standard, "multipart/form-data encoding algorithm").
fn quoted(name: &str) -> String {
    name.replace('"', "%22")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    /// Text in typed events.
    delta: Option<&'a RawValue>,
    text: Option<Text<'a>>,
    usage: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

fn read(json: &str) -> serde_json::Result<Delta> {
    let event: Event<'_> = serde_json::from_str(json)?;
    let kind = event.kind.map_or("", |kind| kind.get().trim_matches('"'));
    let mut delta = match (kind, event.text) {
        _ if event.error.is_some() => return wire::read(json),
        ("transcript.text.delta", _) => {
            let text: Option<Text<'_>> = event
                .delta
                .map(|delta| serde_json::from_str(delta.get()))
                .transpose()?;
            Delta {
                text: text.map(|text| text.0.into_owned()).unwrap_or_default(),
                ..Delta::default()
            }
        }
        ("transcript.text.done", Some(text)) => Delta {
            text: text.0.into_owned(),
            text_is: TextIs::Repeated,
            is_whole: true,
            is_last: true,
            ..Delta::default()
        },
        // Speaker and time, which repeat earlier text.
        ("transcript.text.segment", _) => return Ok(Delta::default()),
        (_, Some(text)) => Delta {
            text: text.0.into_owned(),
            is_answer: true,
            is_whole: true,
            ..Delta::default()
        },
        (_, None) => return wire::read(json),
    };
    delta.is_content = !delta.text.is_empty();
    delta.usage = event.usage.and_then(wire::parse_usage);
    Ok(delta)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn forms_quote_names_and_repeat_lists() {
        let body = json!({"a": "x\r\ny", "b\"c": [1, "z"], "d": true, "e": null, "f": 0.5});
        let parts = String::from_utf8(field_parts(&body))
            .unwrap()
            .replace(BOUNDARY, "B");
        let part = |name: &str, value: &str| {
            format!("--B\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let expected = [
            part("a", "x\r\ny"),
            part("b%22c", "1"),
            part("b%22c", "z"),
            part("d", "true"),
            part("f", "0.5"),
        ];
        assert_eq!(parts, expected.concat());
        assert!(CONTENT_TYPE.ends_with(BOUNDARY));
    }

    #[test]
    fn a_file_with_the_boundary_is_rejected() {
        let clip = |bytes: &str| Clip::new("a\"b.wav", bytes.as_bytes().to_vec());
        let form =
            |bytes: &str| super::form(b"", &clip(bytes)).map_err(|unsendable| unsendable.what);
        let sound = form("sound").unwrap();
        assert!(
            memmem::find(
                &sound,
                b"filename=\"a%22b.wav\"\r\nContent-Type: audio/wav\r\n\r\nsound\r\n--"
            )
            .is_some()
        );
        let what = form(&format!("so{BOUNDARY}und")).unwrap_err();
        assert_eq!(what, "the file contains the form boundary: a\"b.wav");
    }

    #[test]
    fn answers_of_both_formats() {
        for (json, text, is_content, is_last) in [
            (
                r#"{"type":"transcript.text.delta","delta":" wonder"}"#,
                " wonder",
                true,
                false,
            ),
            (
                r#"{"type":"transcript.text.done","text":"wonder","usage":{"type":"tokens","input_tokens":3,"output_tokens":1}}"#,
                "wonder",
                true,
                true,
            ),
            (
                r#"{"type":"transcript.text.done","text":""}"#,
                "",
                false,
                true,
            ),
            (
                r#"{"type":"transcript.text.segment","id":"s","start":0,"end":1,"text":"wonder","speaker":"A"}"#,
                "",
                false,
                false,
            ),
            (
                r#"{"object":"transcription.chunk","choices":[{"delta":{"content":" we"}}],"usage":null}"#,
                " we",
                true,
                false,
            ),
            (
                r#"{"text":"we","usage":{"type":"duration","seconds":5}}"#,
                "we",
                true,
                false,
            ),
        ] {
            let delta = read(json).unwrap();
            assert_eq!(
                (&*delta.text, delta.is_content, delta.is_last),
                (text, is_content, is_last),
                "{json}"
            );
        }
        let usage =
            read(r#"{"text":"a","usage":{"type":"tokens","input_tokens":3,"output_tokens":1}}"#)
                .unwrap()
                .usage
                .unwrap();
        assert_eq!(
            (usage.prompt_tokens, usage.completion_tokens),
            (Some(3), Some(1))
        );
        assert_eq!(
            read(r#"{"text":"a","usage":{"type":"duration","seconds":5}}"#)
                .unwrap()
                .usage,
            None
        );
    }

    #[test]
    fn empty_text_is_an_answer_and_no_text_is_none() {
        let outcome = |body: &str| {
            let mut decoder = AudioAdapter::default().decoder(false, 0);
            decoder.push(body.as_bytes());
            decoder.finish();
            decoder.into_decoded().outcome().name()
        };
        for (body, name) in [
            (
                r#"{"text":"","usage":{"type":"duration","seconds":1}}"#,
                "completed",
            ),
            (
                r#"{"usage":{"type":"duration","seconds":1}}"#,
                "stream_error",
            ),
            (
                r#"{"error":{"message":"Maximum file size exceeded","code":400},"text":"a"}"#,
                "rejected",
            ),
        ] {
            assert_eq!(outcome(body), name, "{body}");
        }
    }
}
