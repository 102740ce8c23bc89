//! The transcriptions endpoint: a form with a file of sound, answered by its text.
//!
//! Source: vLLM's client (`async_request_openai_audio`) and `TranscriptionRequest`, OpenAI's
//! reference "Create transcription" and "Transcription streaming events"; read, not run. The form
//! is the one of vLLM's client: the language is `en` unless `--extra-body` says something else, and
//! the options of streams, which are an object elsewhere, are fields of their own. vLLM streams
//! chunks in the shape of chat completions, OpenAI typed events of which the last one repeats the
//! whole text; there is no `[DONE]` then. A whole answer is `{text, usage}`: vLLM's usage is of
//! seconds, not of tokens, and then says nothing here. `/v1/audio/translations` takes the same
//! form.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::openai::COMPLETIONS;
use super::{Input, KindSpec, ServerKind};
use crate::decode::Wire;
use crate::shape::Shape;
use crate::wire::{self, Delta, Text, TextIs};
use crate::{Adapter, RequestOptions, Unsendable, body};
use sobench_core::case::{Case, Prompt};
use sobench_core::sound::Clip;

/// What stands between the parts of a form. Made by chance once; a file that has it in it is
/// refused.
const BOUNDARY: &str = "sobench-7c1f6a52e09d4b83a5d7f04e3c9821b6";
const CONTENT_TYPE: &str = "multipart/form-data; boundary=sobench-7c1f6a52e09d4b83a5d7f04e3c9821b6";

pub(super) const SPEC: KindSpec = KindSpec {
    name: "openai-audio",
    path: "/v1/audio/transcriptions",
    path_words: &["transcriptions", "translations"],
    input: Input::Audio,
    takes_constraints: false,
    // vLLM's `TranscriptionRequest` has every parameter; its options of streams are fields of their
    // own.
    body: Shape {
        prompt: "file",
        length: "max_completion_tokens",
        asks_usage: false,
        ignores_eos: false,
        ..Shape::COMPLETIONS
    },
    wire: Wire::sse(read),
    adapter: |_| Box::new(Audio::default()),
    ..COMPLETIONS
};

#[derive(Default)]
struct Audio {
    /// Bodies made so far, by the form's fields and the clip: a thousand requests about one file
    /// share its bytes.
    made: Mutex<HashMap<(Vec<u8>, String), Bytes>>,
}

impl Adapter for Audio {
    fn kind(&self) -> ServerKind {
        ServerKind::OpenaiAudio
    }

    fn encode(&self, case: &Case, options: &RequestOptions) -> Result<Bytes, Unsendable> {
        let Prompt::Audio(clip) = &case.prompt else {
            return Err(body::no_such_prompt(self.kind(), "sound", &case.prompt));
        };
        let model = options.model_of(case);
        let mut fields =
            json!({"model": model, "max_completion_tokens": case.output_len, "language": "en"});
        if options.stream {
            fields["stream_include_usage"] = json!(true);
            fields["stream_continuous_usage_stats"] = json!(true);
        }
        let parts = field_parts(&body::assemble(self.kind(), fields, case, options)?);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (parts, format!("{} {}", clip.sha256(), clip.name()));
        if let Some(body) = made.get(&key) {
            return Ok(body.clone());
        }
        let body = form(&key.0, clip)?;
        made.insert(key, body.clone());
        Ok(body)
    }

    fn content_type(&self) -> &'static str {
        CONTENT_TYPE
    }
}

/// The parts of a form (RFC 7578) that are not files. Of a list every member is a field of the same
/// name; `null` is no field.
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

/// The whole form: the file, then the fields.
fn form(fields: &[u8], clip: &Clip) -> Result<Bytes, Unsendable> {
    let head = format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{}\"\r\nContent-Type: {}\r\n\r\n",
        quoted(clip.name()),
        clip.media_type()
    );
    if memmem::find(clip.bytes(), BOUNDARY.as_bytes()).is_some() {
        return Err(Unsendable::new(
            format!(
                "the file has the text in it that separates the parts of a form: {}",
                clip.name()
            ),
            "a file of sound has no such text by chance: use another one",
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

/// A name as forms quote it (the HTML standard, "multipart/form-data encoding algorithm").
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
        // Who said it and when, which repeats text that came before.
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
    delta.usage = event.usage.and_then(wire::stated);
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
    fn a_file_with_the_boundary_in_it_is_refused() {
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
        assert_eq!(
            what,
            "the file has the text in it that separates the parts of a form: a\"b.wav"
        );
    }

    #[test]
    fn answers_of_both_shapes() {
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
    fn silence_is_an_answer_and_nothing_is_none() {
        let outcome = |body: &str| {
            let mut decoder = Audio::default().decoder(false, 0);
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
