//! Decodes every stream of `fixtures/streams`, split in several ways, by the decoder alone and
//! through a socket, and compares the result with `expected.json`. The streams imitate the output
//! of real servers (see the notes in the file) and what the standard allows.

use std::io::Write;
use std::path::Path;

use serde::Deserialize;
use sobench_backend::{Decoded, ServerKind, adapter};
use sobench_core::answer::{Answer, ToolCall};
use sobench_core::observation::{Outcome, Usage};
use sobench_testkit::scripted::{ScriptedServer, Then, chunk};

use super::{check_order, observe, options};

/// One row of `expected.json`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    file: String,
    backend: String,
    /// The source of the format.
    note: String,
    outcome: String,
    /// The status of an error response.
    status: Option<u16>,
    /// A part of the outcome's message.
    says: Option<String>,
    text: String,
    reasoning: String,
    finish_reason: Option<String>,
    usage: Option<Usage>,
    content_chunks: usize,
}

impl Expected {
    fn kind(&self) -> ServerKind {
        self.backend.parse().unwrap()
    }

    #[track_caller]
    fn check_outcome(&self, outcome: &Outcome, how: &str) {
        let file = &self.file;
        assert_eq!(
            outcome.name(),
            self.outcome,
            "{file} {how} ({}): {outcome:?}",
            self.note
        );
        let (status, message) = match outcome {
            Outcome::Rejected { status, body, .. } | Outcome::ServerError { status, body, .. } => {
                (Some(*status), body.as_str())
            }
            Outcome::StreamError { message } => (None, message.as_str()),
            _ => (None, ""),
        };
        assert_eq!(status, self.status, "{file} {how}");
        assert!(
            message.contains(self.says.as_deref().unwrap_or_default()),
            "{file} {how}: {message}"
        );
    }
}

fn folder() -> &'static Path {
    Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/streams"
    ))
}

fn fixtures() -> Vec<(Expected, Vec<u8>)> {
    let rows = std::fs::read_to_string(folder().join("expected.json")).unwrap();
    let rows: Vec<Expected> = serde_json::from_str(&rows).unwrap();
    rows.into_iter()
        .map(|row| (row.clone(), std::fs::read(folder().join(row.file)).unwrap()))
        .collect()
}

fn decode<'a>(kind: ServerKind, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Decoded, usize) {
    let mut decoder = adapter(kind).decoder(true, 1 << 16);
    let mut chunks = 0;
    for piece in pieces {
        chunks += decoder.push(piece).content_chunks;
    }
    chunks += decoder.finish().content_chunks;
    (decoder.into_decoded(), chunks)
}

#[test]
fn every_stream_has_an_expectation_and_vice_versa() {
    let mut listed: Vec<_> = fixtures().into_iter().map(|(row, _)| row.file).collect();
    let mut present: Vec<_> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".sse") || name.ends_with(".ndjson"))
        .collect();
    listed.sort();
    present.sort();
    assert_eq!(listed, present);
}

#[test]
fn streams_decode_alike_for_every_split() {
    for (row, bytes) in fixtures() {
        let (answer, chunks) = decode(row.kind(), [bytes.as_slice()]);
        row.check_outcome(&answer.outcome(), "whole");
        assert_eq!(
            (&*answer.answer.text(), &answer.answer.reasoning),
            (row.text.as_str(), &row.reasoning),
            "{}",
            row.file
        );
        assert_eq!(
            (&answer.finish_reason, &answer.usage),
            (&row.finish_reason, &row.usage),
            "{}",
            row.file
        );
        assert_eq!(chunks, row.content_chunks, "{}", row.file);
        let whole = (answer, chunks);
        for cut in 0..=bytes.len() {
            assert_eq!(
                decode(row.kind(), [&bytes[..cut], &bytes[cut..]]),
                whole,
                "{} cut at {cut}",
                row.file
            );
        }
        // A fixed linear congruence (Knuth's MMIX constants) for pieces of 1 to 32 bytes, the same
        // on every machine.
        let mut state = 1_u64;
        for _ in 0..20 {
            let mut rest = bytes.as_slice();
            let mut pieces = vec![];
            while !rest.is_empty() {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let (piece, more) = rest.split_at(rest.len().min(1 + (state >> 59) as usize));
                pieces.push(piece);
                rest = more;
            }
            assert_eq!(
                decode(row.kind(), pieces),
                whole,
                "{} in random pieces",
                row.file
            );
        }
        assert_eq!(
            decode(row.kind(), bytes.chunks(1)),
            whole,
            "{} byte by byte",
            row.file
        );
    }
}

#[test]
fn channels_are_kept_apart() {
    let call = |id: &str, name: &str, arguments: &str| ToolCall {
        index: 0,
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
        ..ToolCall::default()
    };
    for (file, refusal, tool_calls) in [
        (
            "vllm-chat-tool-call.sse",
            "",
            vec![call("call-5eed", "rec", "{\"age\": 7}")],
        ),
        (
            "trtllm-serve-tool-call.sse",
            "",
            vec![call("call_1", "answer", "{\"a\": 1}")],
        ),
        (
            "responses-tool-call.sse",
            "",
            vec![call("call_1", "answer", "{\"a\": 1}")],
        ),
        ("responses-refusal.sse", "I will not", vec![]),
    ] {
        let (row, bytes) = fixtures()
            .into_iter()
            .find(|(row, _)| row.file == file)
            .unwrap();
        let (decoded, _) = decode(row.kind(), [bytes.as_slice()]);
        let expected = Answer {
            refusal: refusal.to_owned(),
            tool_calls,
            answered_by: decoded.answer.answered_by.clone(),
            ..Answer::default()
        };
        assert_eq!(decoded.answer, expected, "{file}");
    }
}

/// How the bytes are sent.
#[derive(Clone, Copy, Debug)]
enum Framing {
    /// With chunked transfer coding, in chunks of this many bytes.
    Chunked(usize),
    /// With a content length, in writes of this many bytes.
    Length(usize),
    /// Until the connection closes.
    UntilClosed,
}

async fn check_over_a_socket(row: &Expected, bytes: &[u8], framing: Framing) {
    let sent = bytes.to_vec();
    let media_type = adapter(row.kind()).stream_media_type();
    let server = ScriptedServer::new(move |_, stream| {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {media_type}; charset=utf-8\r\n");
        match framing {
            Framing::Chunked(size) => {
                let pieces: Vec<u8> = sent.chunks(size).flat_map(chunk).collect();
                let head = format!("{head}transfer-encoding: chunked\r\n\r\n");
                stream
                    .write_all(&[head.as_bytes(), &pieces, b"0\r\n\r\n"].concat())
                    .unwrap();
                return Then::Keep;
            }
            Framing::Length(size) => {
                stream
                    .write_all(format!("{head}content-length: {}\r\n\r\n", sent.len()).as_bytes())
                    .unwrap();
                for piece in sent.chunks(size) {
                    stream.write_all(piece).unwrap();
                }
            }
            Framing::UntilClosed => stream
                .write_all(&[head.as_bytes(), b"\r\n", &sent].concat())
                .unwrap(),
        }
        Then::Close
    });
    let observation = observe(options(&server.base_url, row.kind()), row.kind(), true).await;
    row.check_outcome(&observation.outcome, &format!("{framing:?}"));
    check_order(&observation);
    assert_eq!(
        (&*observation.answer.text(), &observation.answer.reasoning),
        (row.text.as_str(), &row.reasoning),
        "{} {framing:?}",
        row.file
    );
    assert_eq!(
        observation.timing.chunks_ns.len(),
        row.content_chunks,
        "{} {framing:?}",
        row.file
    );
    assert!(observation.timing.streamed, "{} {framing:?}", row.file);
    assert_eq!(
        (&observation.finish_reason, &observation.usage),
        (&row.finish_reason, &row.usage),
        "{} {framing:?}",
        row.file
    );
    assert_eq!(server.requests().len(), 1, "nothing is ever sent twice");
}

#[tokio::test]
async fn streams_decode_alike_through_a_socket() {
    for (row, bytes) in fixtures() {
        for framing in [
            Framing::Chunked(4096),
            Framing::Chunked(7),
            Framing::Length(13),
            Framing::UntilClosed,
        ] {
            check_over_a_socket(&row, &bytes, framing).await;
        }
    }
}
