//! Decoders of event streams and whole bodies, for the JSON of any server kind.

use super::answer::{AnswerError, Decoded, Decoder, ReadSummary};
use super::event_numbers::EventNumbers;
use super::event_template::{Channel, EventTemplate};
use super::ndjson::LineDecoder;
use super::sse::{Event, EventTooLarge, SseDecoder};
use super::stream_fault::{StreamFault, has_half_surrogate};
use super::wire::{self, Delta, TextIs};
use sobench_core::answer::{self, Answer, ToolCall};
use sobench_core::departure::Departure;
use sobench_core::error_message::error_message;
use sobench_core::frames::{FrameWriter, Piece};
use sobench_core::observation::Usage;
use sobench_core::printable::{MESSAGE_CHARS, shortened};

/// Default maximum size of one event. Typical events have a few KiB at most; log probabilities of a
/// long chunk may reach 100 KiB.
pub const DEFAULT_MAX_EVENT_BYTES: usize = 4 << 20;

/// Bytes of unreadable data around the error that an outcome's message quotes. The message states
/// the cut.
pub const QUOTED_BYTES: usize = 400;

/// Maximum bytes of an error of the server that are kept whole. Of larger ones, its message is kept.
const MAX_ERROR_BYTES: usize = 4 << 10;

/// Events at the start of a stream in which the names of model and server are looked for.
const MAX_NAMING_EVENTS: u8 = 8;

/// Bytes at the start of a last text that are those of the answer: it then repeats the answer.
const REPETITION_BYTES: usize = 4;

/// How responses of a kind are decoded.
#[derive(Clone, Copy)]
pub(super) struct Wire {
    pub(super) framing: Framing,
    /// Parses the JSON of one event.
    pub(super) event: fn(&str) -> serde_json::Result<Delta>,
    /// Parses the JSON of one whole body.
    pub(super) body: fn(&str) -> serde_json::Result<Delta>,
    /// Whether the indices of calls count up from 0. Those of `/v1/responses` count other items, too.
    pub(super) counts_calls: bool,
    /// Whether the end of the body ends the answer, for kinds without a terminal event.
    pub(super) body_ends_answer: bool,
    /// Whether the finish reason of an answer with calls is `stop`, which is `tool_calls` elsewhere.
    pub(super) stop_ends_calls: bool,
    /// Whether a call without arguments has an empty object.
    pub(super) leaves_empty_objects_out: bool,
}

/// How events are separated in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// Server-sent events.
    Sse,
    /// One JSON object per line.
    Lines,
}

impl Framing {
    pub(super) fn media_type(self) -> &'static str {
        match self {
            Self::Sse => "text/event-stream",
            Self::Lines => "application/x-ndjson",
        }
    }
}

impl Wire {
    /// Server-sent events with the format of a whole body.
    pub(super) const fn sse(read: fn(&str) -> serde_json::Result<Delta>) -> Self {
        Self {
            framing: Framing::Sse,
            event: read,
            body: read,
            counts_calls: false,
            body_ends_answer: false,
            stop_ends_calls: false,
            leaves_empty_objects_out: false,
        }
    }
}

/// Responses of OpenAI-compatible completions and chat completions.
pub(super) const OPENAI: Wire = Wire {
    counts_calls: true,
    ..Wire::sse(wire::read)
};

/// The decoder of an event stream, or of one whole body.
pub(super) fn decoder(wire: Wire, stream: bool, max_event_bytes: usize) -> Box<dyn Decoder> {
    let state = State {
        wire,
        decoded: Decoded::default(),
        event_template: EventTemplate::default(),
        event_numbers: EventNumbers::default(),
        naming_events: MAX_NAMING_EVENTS,
        frames: None,
    };
    match (stream, wire.framing) {
        (false, _) => Box::new(BodyDecoder {
            body: vec![],
            state,
        }),
        (true, Framing::Sse) => Box::new(StreamDecoder {
            framer: Framer::Sse(SseDecoder::new(max_event_bytes)),
            state,
            start: vec![],
        }),
        (true, Framing::Lines) => Box::new(StreamDecoder {
            framer: Framer::Lines(LineDecoder::new(max_event_bytes)),
            state,
            start: vec![],
        }),
    }
}

/// Splits bytes into events.
enum Framer {
    Sse(SseDecoder),
    Lines(LineDecoder),
}

impl Framer {
    fn push(
        &mut self,
        bytes: &[u8],
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), EventTooLarge> {
        match self {
            Self::Sse(sse) => sse.push(bytes, on_event),
            Self::Lines(lines) => lines.push(bytes, on_event),
        }
    }

    fn finish(&mut self, on_event: &mut dyn FnMut(Event<'_>)) {
        match self {
            Self::Sse(sse) => sse.finish(on_event),
            Self::Lines(lines) => lines.finish(on_event),
        }
    }
}

struct StreamDecoder {
    framer: Framer,
    state: State,
    /// The first two bytes of the body, or those that arrived.
    start: Vec<u8>,
}

impl Decoder for StreamDecoder {
    fn keep_frames(&mut self) {
        self.state.frames = Some(FrameWriter::default());
    }

    fn push(&mut self, bytes: &[u8]) -> ReadSummary {
        let Self {
            framer,
            state,
            start,
        } = self;
        if start.len() < 2 {
            start.extend(bytes.iter().take(2 - start.len()));
        }
        let mut summary = ReadSummary::default();
        let result = framer.push(bytes, &mut |event| summary.merge(state.decode_event(event)));
        if let (Err(too_large), false) = (result, state.ended()) {
            state.unreadable(too_large.to_string());
        }
        ReadSummary {
            ended: state.ended(),
            ..summary
        }
    }

    fn finish(&mut self) -> ReadSummary {
        let Self {
            framer,
            state,
            start,
        } = self;
        let mut summary = ReadSummary {
            ended: true,
            ..ReadSummary::default()
        };
        framer.finish(&mut |event| summary.merge(state.decode_event(event)));
        if start.is_empty() || is_utf16(start) {
            let fault = if start.is_empty() {
                StreamFault::EmptyBody
            } else {
                StreamFault::Utf16
            };
            state.unreadable(fault.to_string());
        }
        state.decoded.terminated |= state.wire.body_ends_answer;
        summary
    }

    fn into_decoded(self: Box<Self>) -> Decoded {
        self.state.into_decoded()
    }
}

/// A whole body. It is decoded at its end, so all content has the instant of the end.
struct BodyDecoder {
    body: Vec<u8>,
    state: State,
}

impl Decoder for BodyDecoder {
    fn keep_frames(&mut self) {
        self.state.frames = Some(FrameWriter::default());
    }

    fn push(&mut self, bytes: &[u8]) -> ReadSummary {
        self.body.extend_from_slice(bytes);
        ReadSummary::default()
    }

    fn finish(&mut self) -> ReadSummary {
        let body = std::mem::take(&mut self.body);
        self.state.keep_frame(b"", &body);
        let summary = match read(self.state.wire.body, &body) {
            Ok(delta) if delta.error.is_none() && !delta.is_answer => self
                .state
                .unreadable(format!("the body has no answer: {}", excerpt(&body, 0))),
            Ok(mut delta) => {
                delta.departures.remove(Departure::MessageForDelta);
                self.state.add(delta, &body)
            }
            Err(error) => self.state.unreadable(error.message("body", &body)),
        };
        self.state.decoded.terminated = true;
        ReadSummary {
            ended: true,
            ..summary
        }
    }

    fn into_decoded(self: Box<Self>) -> Decoded {
        self.state.into_decoded()
    }
}

struct State {
    wire: Wire,
    decoded: Decoded,
    event_template: EventTemplate,
    event_numbers: EventNumbers,
    /// Events in which names are still looked for.
    naming_events: u8,
    frames: Option<FrameWriter>,
}

impl State {
    fn into_decoded(self) -> Decoded {
        let Self {
            mut decoded,
            event_numbers,
            wire,
            frames,
            ..
        } = self;
        if let Some(frames) = frames {
            decoded.answer.frames = frames.into_frames(&decoded.answer.content);
        }
        event_numbers.add_departures(&mut decoded.answer.departures);
        if wire.leaves_empty_objects_out && decoded.terminated {
            let calls = decoded.answer.tool_calls.iter_mut();
            calls
                .filter(|call| call.arguments.is_empty())
                .for_each(|call| "{}".clone_into(&mut call.arguments));
        }
        decoded
    }

    fn keep_frame(&mut self, name: &[u8], data: &[u8]) {
        if let Some(frames) = &mut self.frames {
            frames.add(name, data, &self.decoded.answer.content);
        }
    }

    /// Decodes one event.
    fn decode_event(&mut self, event: Event<'_>) -> ReadSummary {
        let data = event.data.trim_ascii();
        if self.ended() {
            self.keep_frame(event.name, data);
            return ReadSummary::default();
        }
        if let Some((channel, text)) = self.event_template.text(event.name, data) {
            let answer = &mut self.decoded.answer;
            if self.decoded.finish_reason.is_some() {
                answer.departures.add(Departure::TextAfterFinish, &text.0);
            }
            let arguments = matches!(channel, Channel::Call(_));
            if let Some(frames) = &mut self.frames {
                let piece = match arguments {
                    true => Piece::Arguments(self.event_template.sent(data, &text)),
                    false => Piece::Content(&text.0),
                };
                let suffix_len = self.event_template.suffix_len();
                frames.add_text(event.name, data, &piece, suffix_len, &answer.content);
            }
            let of_answer = match channel {
                Channel::Content => {
                    answer.content.push_str(&text.0);
                    answer::Channel::Content
                }
                Channel::Call(call) => {
                    answer.add_arguments(call, &text.0);
                    answer::Channel::ToolCalls
                }
            };
            self.decoded.add_chunk([(of_answer, Some(text.0.len()))]);
            self.decoded.has_content = true;
            return ReadSummary {
                arguments,
                ..ReadSummary::chunk(false, true)
            };
        }
        self.keep_frame(event.name, data);
        if data == b"[DONE]" {
            self.decoded.terminated = true;
            return ReadSummary::default();
        }
        if data.is_empty() {
            return ReadSummary::default();
        }
        match read(self.wire.event, data) {
            Ok(delta) if delta.error.is_none() && event.name == b"error" => {
                self.fail(AnswerError::Server {
                    status: wire::bare_status(data),
                    body: error_body(data),
                })
            }
            Ok(delta) => {
                // Valid JSON is valid UTF-8.
                let text = std::str::from_utf8(data).unwrap_or_default();
                let template = &mut self.event_template;
                template.learn(event.name, text, &delta, self.wire.event);
                self.add(delta, data)
            }
            // mistral.rs sends errors in the stream as plain text, which the message then quotes.
            Err(_) if event.name == b"error" => self.fail(AnswerError::Server {
                status: None,
                body: error_body(data),
            }),
            Err(error) => self.unreadable(error.message("event", data)),
        }
    }

    fn add(&mut self, mut delta: Delta, raw: &[u8]) -> ReadSummary {
        if let Some(error) = &delta.error {
            return self.fail(AnswerError::Server {
                status: error.status,
                body: error_body(raw),
            });
        }
        if let Some(left) = self.naming_events.checked_sub(1) {
            self.naming_events = left;
            if let Some(found) = wire::answered_by(raw) {
                self.decoded.answer.answered_by = found;
                self.naming_events = 0;
            }
        }
        self.event_numbers.add(delta.number);
        let departures = &mut self.decoded.answer.departures;
        departures.merge(std::mem::take(&mut delta.departures));
        let arguments = delta.has_arguments();
        let call_bytes = delta.call_bytes();
        let text_len = |answer: &Answer| answer.content.len() + answer.refusal.len();
        let known = text_len(&self.decoded.answer);
        let (is_content, has_text) = self.add_text(&mut delta);
        let decoded = &mut self.decoded;
        if is_content && decoded.finish_reason.is_some() {
            let departures = &mut decoded.answer.departures;
            departures.add(Departure::TextAfterFinish, &delta.text);
        }
        decoded.answer.reasoning.push_str(&delta.reasoning);
        // Content without text and reasoning is the name of a tool call or a list of numbers, which
        // belongs to the answer.
        let reasoning = is_content && !delta.reasoning.is_empty();
        let summary = ReadSummary {
            arguments: is_content && arguments,
            ..ReadSummary::chunk(reasoning, is_content && (has_text || !reasoning))
        };
        if is_content {
            let text_bytes = text_len(&decoded.answer).saturating_sub(known);
            let is_other = reasoning || call_bytes.is_some();
            decoded.add_chunk([
                (
                    answer::Channel::Reasoning,
                    reasoning.then_some(delta.reasoning.len()),
                ),
                (
                    answer::Channel::Content,
                    (text_bytes > 0 || !is_other).then_some(text_bytes),
                ),
                (answer::Channel::ToolCalls, call_bytes),
            ]);
        }
        decoded.has_content |= is_content;
        decoded.is_complete_answer |= delta.is_whole;
        // Some servers send an empty reason while the answer continues.
        if let Some(reason) = delta.finish_reason.filter(|reason| !reason.is_empty()) {
            let ends_calls = self.wire.stop_ends_calls
                && reason == "stop"
                && !decoded.answer.tool_calls.is_empty();
            decoded.finish(if ends_calls {
                "tool_calls".to_owned()
            } else {
                reason
            });
        }
        if is_content {
            decoded
                .chunk_tokens
                .extend(delta.usage.and_then(|usage| usage.completion_tokens));
        }
        if let Some(usage) = delta.usage {
            // Usage in every chunk is cumulative (vLLM's `continuous_usage_stats`), so the last one
            // is the total. Messages count the prompt at the start.
            let known = decoded.usage.unwrap_or_default();
            decoded.usage = Some(Usage {
                prompt_tokens: usage.prompt_tokens.or(known.prompt_tokens),
                cached_tokens: usage.cached_tokens.or(known.cached_tokens),
                ..usage
            });
        }
        // With times in every chunk (llama.cpp's `timings_per_token`), the last ones are of the
        // whole answer.
        decoded.server_times = delta.server_times.or(decoded.server_times);
        decoded.terminated |= delta.is_last;
        summary
    }

    /// Adds everything but the reasoning. Returns whether there is new content, and whether it has
    /// text.
    fn add_text(&mut self, delta: &mut Delta) -> (bool, bool) {
        let answer = &mut self.decoded.answer;
        let has_text = delta.has_text();
        match delta.text_is {
            TextIs::Added => {
                answer.content.push_str(&delta.text);
                answer.refusal.push_str(&delta.refusal);
                for call in &delta.tool_calls {
                    let known = answer.tool_calls.len();
                    if self.wire.counts_calls && call.index > known as u64 {
                        let example = format!("index {} after {known} calls", call.index);
                        answer.departures.add(Departure::UnorderedIndex, &example);
                    }
                    answer.add_call(call);
                }
                (delta.is_content, has_text)
            }
            TextIs::SoFar => {
                // The rest of a character may follow.
                let known = answer.content.trim_end_matches(char::REPLACEMENT_CHARACTER);
                if !delta.text.starts_with(known) {
                    answer.departures.add_other_text(known, &delta.text);
                }
                let grew = answer.content != delta.text;
                answer.content = std::mem::take(&mut delta.text);
                (grew || delta.is_content, grew)
            }
            // The last token of the text is in the same event.
            TextIs::Whole => {
                answer.content.push_str(&delta.last_token);
                // Tokenizers may strip white space at the ends.
                let (known, whole) = (answer.content.trim(), delta.text.trim());
                if known.is_empty() || known == whole {
                    answer.content = std::mem::take(&mut delta.text);
                } else {
                    answer.departures.add_other_text(known, whole);
                }
                (delta.is_content, has_text)
            }
            TextIs::Repeated if !answer.text().is_empty() => {
                let departures = &mut answer.departures;
                if !delta.text.is_empty() {
                    departures.add_other_text(&answer.content, &delta.text);
                }
                if !delta.tool_calls.is_empty() {
                    let arguments = |calls: &[ToolCall]| -> String {
                        calls.iter().map(|call| call.arguments.as_str()).collect()
                    };
                    let known = arguments(&answer.tool_calls);
                    departures.add_other_text(&known, &arguments(&delta.tool_calls));
                }
                (false, false)
            }
            TextIs::PartRepeated => {
                let departures = &mut answer.departures;
                if !answer.content.ends_with(&delta.text) {
                    departures.add_other_text(&answer.content, &delta.text);
                }
                for repeated in &delta.tool_calls {
                    let mut calls = answer.tool_calls.iter();
                    let known = calls.find(|call| call.index == repeated.index);
                    if let Some(call) = known.filter(|call| !call.arguments.is_empty()) {
                        departures.add_other_text(&call.arguments, &repeated.arguments);
                    }
                }
                (false, false)
            }
            TextIs::Last => {
                let is_repetition = is_repetition(&answer.content, &delta.text);
                if !is_repetition {
                    answer.content.push_str(&delta.text);
                } else {
                    let known = &answer.content;
                    answer.departures.add_other_text(known, &delta.text);
                }
                let is_content = delta.is_content && !is_repetition;
                (is_content, has_text && is_content)
            }
            TextIs::Repeated => {
                answer.content = std::mem::take(&mut delta.text);
                answer.refusal = std::mem::take(&mut delta.refusal);
                if !delta.tool_calls.is_empty() {
                    answer.tool_calls = std::mem::take(&mut delta.tool_calls);
                }
                (delta.is_content, has_text)
            }
        }
    }

    fn unreadable(&mut self, message: String) -> ReadSummary {
        self.fail(AnswerError::Unreadable { message })
    }

    /// Records the first error. SGLang sends a usage chunk and `[DONE]` after an error.
    fn fail(&mut self, error: AnswerError) -> ReadSummary {
        self.decoded.error.get_or_insert(error);
        ReadSummary::default()
    }

    fn ended(&self) -> bool {
        self.decoded.terminated || self.decoded.error.is_some()
    }
}

/// Whether the text of the last event repeats the whole answer instead of adding to it.
fn is_repetition(known: &str, text: &str) -> bool {
    let same = known
        .bytes()
        .zip(text.bytes())
        .take_while(|(one, other)| one == other);
    !known.is_empty() && !text.is_empty() && same.count() >= REPETITION_BYTES.min(text.len())
}

fn read(reader: fn(&str) -> serde_json::Result<Delta>, json: &[u8]) -> Result<Delta, ReadError> {
    let text =
        std::str::from_utf8(json).map_err(|error| ReadError::NotUtf8(error.valid_up_to()))?;
    reader(text).map_err(ReadError::NotJson)
}

/// Why an event or a body cannot be read.
enum ReadError {
    /// From this byte on.
    NotUtf8(usize),
    NotJson(serde_json::Error),
}

impl ReadError {
    /// The message on `data`, which is an event or a body.
    fn message(&self, what: &str, data: &[u8]) -> String {
        if data.trim_ascii().is_empty() {
            return StreamFault::EmptyBody.to_string();
        }
        if is_utf16(data) {
            return StreamFault::Utf16.to_string();
        }
        match self {
            Self::NotUtf8(at) => {
                let place = format!("byte {at} of the {what}: {}", excerpt(data, *at));
                StreamFault::NotUtf8.message(&place)
            }
            Self::NotJson(error) => {
                let lines = data.split_inclusive(|byte| *byte == b'\n');
                let before: usize = lines
                    .take(error.line().saturating_sub(1))
                    .map(<[u8]>::len)
                    .sum();
                let excerpt = excerpt(data, before + error.column().saturating_sub(1));
                if has_half_surrogate(data) {
                    StreamFault::HalfSurrogate.message(&excerpt)
                } else {
                    format!("unreadable {what} ({error}): {excerpt}")
                }
            }
        }
    }
}

/// Whether data is UTF-16: it starts with a byte order mark, or with an ASCII character in two
/// bytes.
fn is_utf16(data: &[u8]) -> bool {
    match data {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => true,
        [first, second, ..] => (*first == 0) != (*second == 0),
        _ => false,
    }
}

/// The data around byte `at` as text: at most [`QUOTED_BYTES`], with the size of the whole.
fn excerpt(data: &[u8], at: usize) -> String {
    let start = at.saturating_sub(QUOTED_BYTES / 2).min(data.len());
    let start = start.min(data.len().saturating_sub(QUOTED_BYTES));
    let end = data.len().min(start + QUOTED_BYTES);
    let text = String::from_utf8_lossy(&data[start..end]);
    let text = text.trim_matches(char::REPLACEMENT_CHARACTER);
    let ellipsis = |is_cut: bool| if is_cut { "…" } else { "" };
    let (before, after) = (ellipsis(start > 0), ellipsis(end < data.len()));
    match end - start < data.len() {
        true => format!("{before}{text}{after} ({} bytes in all)", data.len()),
        false => String::from_utf8_lossy(data).into_owned(),
    }
}

/// The body of an error: whole, or its message if it is large.
fn error_body(raw: &[u8]) -> String {
    let body = String::from_utf8_lossy(raw);
    if raw.len() <= MAX_ERROR_BYTES {
        return body.into_owned();
    }
    shortened(&error_message(&body), MESSAGE_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::observation::Outcome;

    fn decode(stream: bool, limit: usize, pieces: &[&[u8]]) -> (Vec<ReadSummary>, Decoded) {
        let mut decoder = decoder(OPENAI, stream, limit);
        let mut summary: Vec<_> = pieces.iter().map(|piece| decoder.push(piece)).collect();
        summary.push(decoder.finish());
        (summary, decoder.into_decoded())
    }

    #[test]
    fn chunks_of_one_read_are_counted_together() {
        let event = "data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\n";
        let (summary, answer) = decode(
            true,
            1 << 10,
            &[
                &event.repeat(3).into_bytes(),
                b"data: [DONE]\n\n",
                event.as_bytes(),
            ],
        );
        assert_eq!(
            summary
                .iter()
                .map(|summary| (summary.content_chunks, summary.ended))
                .collect::<Vec<_>>(),
            [(3, false), (0, true), (0, true), (0, true)]
        );
        assert_eq!(
            (answer.answer.content.as_str(), answer.outcome()),
            ("aaa", Outcome::Completed)
        );
    }

    #[test]
    fn reasoning_and_answer_are_distinguished_per_chunk() {
        for (delta, chunks, reasoning, answer) in [
            (r#"{"role":"assistant","content":""}"#, 0, false, false),
            (r#"{"reasoning":"hm","content":null}"#, 1, true, false),
            (r#"{"reasoning_content":"hm","content":""}"#, 1, true, false),
            (r#"{"content":"a"}"#, 1, false, true),
            (r#"{"reasoning":"m","content":"a"}"#, 1, true, true),
            (
                r#"{"tool_calls":[{"function":{"name":"f"}}]}"#,
                1,
                false,
                true,
            ),
        ] {
            let event = format!("data: {{\"choices\":[{{\"delta\":{delta}}}]}}\n\n");
            let (summary, _) = decode(true, 1 << 10, &[event.as_bytes()]);
            assert_eq!(
                (
                    summary[0].content_chunks,
                    summary[0].reasoning,
                    summary[0].answer
                ),
                (chunks, reasoning, answer),
                "{delta}"
            );
        }
        let body = br#"{"choices":[{"message":{"reasoning":"hm","content":""},"finish_reason":"length"}]}"#;
        let (summary, answer) = decode(false, 0, &[body]);
        assert_eq!(
            (
                summary[1].content_chunks,
                summary[1].reasoning,
                summary[1].answer
            ),
            (1, true, false)
        );
        assert_eq!(
            (
                answer.answer.reasoning.as_str(),
                answer.answer.content.as_str(),
                answer.outcome()
            ),
            ("hm", "", Outcome::Truncated)
        );
    }

    #[test]
    fn chunks_have_their_bytes_by_channel() {
        use answer::Channel::{Content, Reasoning, ToolCalls};
        let event = |delta: &str| format!("data: {{\"choices\":[{{\"delta\":{delta}}}]}}\n\n");
        let call =
            |function: &str| event(&format!(r#"{{"tool_calls":[{{"function":{function}}}]}}"#));
        let stream = [
            event(r#"{"role":"assistant","content":""}"#),
            event(r#"{"reasoning":"hm"}"#),
            event(r#"{"reasoning":"m","content":"ab"}"#),
            event(r#"{"content":"c"}"#),
            event(r#"{"content":"dé"}"#),
            call(r#"{"name":"f","arguments":""}"#),
            call(r#"{"arguments":"{}"}"#),
            call(r#"{"arguments":"]"}"#),
            event(r#"{"content":"e","tool_calls":[{"function":{"arguments":"12"}}]}"#),
        ]
        .concat();
        let (_, decoded) = decode(true, 1 << 12, &[stream.as_bytes()]);
        let found: Vec<_> = decoded
            .parts
            .iter()
            .map(|part| (part.chunk, part.channel, part.bytes))
            .collect();
        assert_eq!(
            found,
            [
                (0, Reasoning, 2),
                (1, Reasoning, 1),
                (1, Content, 2),
                (2, Content, 1),
                (3, Content, 3),
                (4, ToolCalls, 0),
                (5, ToolCalls, 2),
                (6, ToolCalls, 1),
                (7, Content, 1),
                (7, ToolCalls, 2),
            ]
        );
    }

    #[test]
    fn counts_in_chunks_are_kept_for_the_chunks_with_content() {
        let event = |text: &str, count: u64| {
            format!(
                "data: {{\"choices\":[{{\"text\":\"{text}\"}}],\"usage\":{{\"prompt_tokens\":5,\"completion_tokens\":{count}}}}}\n\n"
            )
        };
        let stream = [event("", 0), event("a", 1), event("bcd", 4), event("", 5)].concat();
        let (_, answer) = decode(true, 1 << 10, &[stream.as_bytes()]);
        assert_eq!(
            (answer.chunk_tokens, answer.usage.unwrap().completion_tokens),
            (vec![1, 4], Some(5))
        );
    }

    #[test]
    fn an_event_past_the_limit_ends_the_answer() {
        let event = format!(
            "data: {{\"choices\":[{{\"text\":\"{}\"}}]}}\n\n",
            "a".repeat(100)
        );
        let (summary, answer) = decode(true, 64, &[event.as_bytes()]);
        assert!(summary[0].ended);
        assert_eq!(
            answer.outcome(),
            Outcome::StreamError {
                message: "the event exceeds 64 bytes".to_owned()
            }
        );
    }

    #[test]
    fn excerpts_are_around_the_error() {
        assert_eq!(excerpt("\u{e9}".as_bytes(), 0), "\u{e9}");
        let long = format!("{}!{}", "a".repeat(2000), "\u{e9}".repeat(2000));
        let quoted = excerpt(long.as_bytes(), 2000);
        assert!(
            quoted.starts_with("…aaa")
                && quoted.contains("a!\u{e9}")
                && quoted.ends_with("\u{e9}… (6001 bytes in all)"),
            "{quoted}"
        );
        assert!(quoted.len() < QUOTED_BYTES + 40, "{}", quoted.len());
        let event = format!("data: {{\"choices\":[{}]x\n\n", "1,".repeat(2000));
        let (_, answer) = decode(true, 1 << 20, &[event.as_bytes()]);
        let Outcome::StreamError { message } = answer.outcome() else {
            panic!("{answer:?}");
        };
        assert!(
            message.len() < 600 && message.contains("in all"),
            "{message}"
        );
    }

    #[test]
    fn a_large_error_keeps_its_message() {
        let event = format!(
            "data: {{\"error\":{{\"message\":\"engine died\",\"code\":500}},\"request\":\"{}\"}}\n\n",
            "a".repeat(2 * MAX_ERROR_BYTES)
        );
        let (_, answer) = decode(true, 1 << 20, &[event.as_bytes()]);
        assert!(
            matches!(answer.outcome(), Outcome::ServerError { body, .. } if body == "engine died"),
            "{answer:?}"
        );
    }

    #[test]
    fn bodies_of_another_encoding_and_empty_ones_are_named() {
        let utf16 = |text: &str| -> Vec<u8> {
            let units = text.encode_utf16().flat_map(u16::to_le_bytes);
            [0xff, 0xfe].into_iter().chain(units).collect()
        };
        let event = r#"data: {"choices":[]}"#;
        let latin1 = b"data: {\"choices\":[{\"text\":\"\xe9\"}]}\n\n";
        for (stream, data, fault) in [
            (true, &b""[..], StreamFault::EmptyBody),
            (false, b" ", StreamFault::EmptyBody),
            (true, &utf16(event)[..], StreamFault::Utf16),
            (true, &utf16(event)[2..], StreamFault::Utf16),
            (false, &utf16("{}")[..], StreamFault::Utf16),
            (true, latin1, StreamFault::NotUtf8),
        ] {
            let (_, answer) = decode(stream, 1 << 10, &[data]);
            let Outcome::StreamError { message } = answer.outcome() else {
                panic!("{answer:?}");
            };
            assert_eq!(
                StreamFault::from_message(&message),
                Some(fault),
                "{message}"
            );
        }
    }

    #[test]
    fn the_names_of_model_and_server_are_read_once() {
        let chat = r#"{"model":"a","system_fingerprint":"f","choices":[{"index":0,"delta":{"content":"x"}}]}"#;
        let text = chat.replace(r#""delta":{"content":"x"}"#, r#""text":"x""#);
        let unnamed = r#"{"model":"","system_fingerprint":null,"choices":[]}"#;
        let other = chat.replace(r#":"a""#, r#":"b""#);
        let odd = r#"{"model":5,"system_fingerprint":"f","choices":[{"index":0,"text":"x"}]}"#;
        let quoted = r#"{"choices":[{"index":0,"text":"\"model\""}]}"#;
        let late = vec![unnamed; usize::from(MAX_NAMING_EVENTS)];
        let response =
            r#"{"type":"response.created","response":{"model":"a","tools":[{"model":"b"}]}}"#;
        let generated = r#"{"model":"a","response":"x","done":false}"#;
        let kinds = |kind: crate::ServerKind| kind.spec().wire;
        let responses = kinds(crate::ServerKind::OpenaiResponses);
        let ollama = kinds(crate::ServerKind::Ollama);
        for (wire, events, expected) in [
            (OPENAI, &[chat, chat][..], ["a", "f"]),
            (OPENAI, &[&text, &text], ["a", "f"]),
            (OPENAI, &[unnamed, chat], ["a", "f"]),
            (OPENAI, &[chat, &other], ["a", "f"]),
            (OPENAI, &[odd], ["", "f"]),
            (OPENAI, &[quoted], ["", ""]),
            (OPENAI, &[&late[..], &[chat]].concat(), ["", ""]),
            (responses, &[response], ["a", ""]),
            (ollama, &[generated], ["a", ""]),
        ] {
            let mut decoder = decoder(wire, true, 1 << 20);
            for event in events {
                let framed = match wire.framing {
                    Framing::Sse => format!("data: {event}\n\n"),
                    Framing::Lines => format!("{event}\n"),
                };
                decoder.push(framed.as_bytes());
            }
            let names = decoder.into_decoded().answer.answered_by;
            assert_eq!(
                [&names.model, &names.system_fingerprint],
                expected,
                "{events:?}"
            );
        }
        let message = chat.replace("delta", "message");
        let responded = r#"{"object":"response","model":"a","status":"completed","output":[]}"#;
        for (wire, body, expected) in [
            (OPENAI, &*message, ["a", "f"]),
            (OPENAI, &text, ["a", "f"]),
            (responses, responded, ["a", ""]),
        ] {
            let mut decoder = decoder(wire, false, 1 << 20);
            decoder.push(body.as_bytes());
            decoder.finish();
            let names = decoder.into_decoded().answer.answered_by;
            assert_eq!(
                [&names.model, &names.system_fingerprint],
                expected,
                "{body}"
            );
        }
    }

    #[test]
    fn whole_bodies_have_one_chunk_at_the_end() {
        let body = br#"{"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}"#;
        let (summary, answer) = decode(false, 0, &[&body[..40], &body[40..]]);
        assert_eq!(
            summary
                .iter()
                .map(|summary| summary.content_chunks)
                .collect::<Vec<_>>(),
            [0, 0, 1]
        );
        assert_eq!(
            (answer.answer.content.as_str(), answer.outcome()),
            ("hi", Outcome::Truncated)
        );
        assert_eq!(answer.usage.unwrap().completion_tokens, Some(1));
        for (body, name) in [
            (r#"{"error":{"message":"no","code":400}}"#, "rejected"),
            (r#"{"object":"list","data":[]}"#, "stream_error"),
            (r#"{"choices":[]}"#, "stream_error"),
            ("<html>", "stream_error"),
            ("\u{0}", "stream_error"),
            ("", "stream_error"),
        ] {
            assert_eq!(
                decode(false, 0, &[body.as_bytes()]).1.outcome().name(),
                name,
                "{body}"
            );
        }
    }
}
