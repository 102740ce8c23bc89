//! SSE decoder: the events do not depend on how the bytes are split, and equal those of a simple
//! implementation of the standard.
//!
//! Bytes: the number of piece sizes, the sizes, the stream.

use sobench_backend::sse::{Event, SseDecoder};

use super::draw::{Draw, pieces};

type Events = Vec<(Vec<u8>, Vec<u8>)>;

/// Small, so that inputs reach the limit.
const LIMIT_BYTES: usize = 64;

pub(crate) fn check(bytes: &[u8]) {
    let mut draw = Draw::new(bytes);
    let sizes: Vec<u8> = (0..draw.below(8)).map(|_| draw.below(256) as u8).collect();
    let stream = draw.rest();
    for limit in [LIMIT_BYTES, usize::MAX / 2] {
        let whole = decoded(&[stream], limit);
        assert_eq!(
            decoded(&pieces(stream, &sizes), limit),
            whole,
            "cut {sizes:?} under a limit of {limit}"
        );
    }
    let (events, is_within) = decoded(&[stream], usize::MAX / 2);
    assert!(is_within, "no stream reaches this limit");
    assert_eq!(events, reference_events(stream));
}

/// The events, and whether all were within the limit.
fn decoded(pieces: &[&[u8]], limit: usize) -> (Events, bool) {
    let mut events = Events::new();
    let mut decoder = SseDecoder::new(limit);
    let mut keep = |event: Event<'_>| events.push((event.name.to_vec(), event.data.to_vec()));
    let is_within = pieces
        .iter()
        .all(|piece| decoder.push(piece, &mut keep).is_ok());
    if is_within {
        decoder.finish(&mut keep);
    }
    (events, is_within)
}

/// The standard's algorithm, line by line over the complete stream; an event at the end of the
/// stream counts without a blank line.
fn reference_events(stream: &[u8]) -> Events {
    let mut events = Events::new();
    let (mut name, mut data) = (Vec::new(), Vec::new());
    for line in lines(stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream)) {
        let colon = line
            .iter()
            .position(|byte| *byte == b':')
            .unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"" if line.is_empty() => {
                if data.pop().is_some() {
                    events.push((name.clone(), data.clone()));
                }
                name.clear();
                data.clear();
            }
            b"data" => data.extend(value.iter().copied().chain([b'\n'])),
            b"event" => name = value.to_vec(),
            _ => {}
        }
    }
    events
}

/// The lines, and an empty one at the end.
fn lines(mut rest: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        lines.push(&rest[..end]);
        rest = rest[end..]
            .strip_prefix(b"\r\n")
            .unwrap_or(&rest[end + 1..]);
    }
    lines.extend([rest, b""]);
    lines
}
