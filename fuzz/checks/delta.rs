//! Stream decoders of all server kinds: the answer does not depend on how the bytes are split, and
//! is not larger than the bytes.
//!
//! Bytes: the server kind, whether to stream, the number of piece sizes, the sizes, the body.

use sobench_backend::{DEFAULT_MAX_EVENT_BYTES, Decoded, ReadSummary, ServerKind, adapter};

use super::draw::{Draw, pieces};

/// An invalid UTF-8 byte becomes U+FFFD, which has three bytes.
const MAX_GROWTH: usize = 3;

pub(crate) fn check(bytes: &[u8]) {
    let mut draw = Draw::new(bytes);
    let kind = ServerKind::ALL[draw.below(ServerKind::ALL.len())];
    let stream = draw.below(2) == 0;
    let sizes: Vec<u8> = (0..draw.below(8)).map(|_| draw.below(256) as u8).collect();
    let body = draw.rest();
    let (whole, at_once) = decoded(kind, stream, &[body]);
    let (cut, in_pieces) = decoded(kind, stream, &pieces(body, &sizes));
    assert_eq!(cut, whole, "{kind:?} cut {sizes:?}");
    assert_eq!(in_pieces.ended, at_once.ended, "{kind:?} cut {sizes:?}");
    assert_eq!(
        in_pieces.content_chunks, at_once.content_chunks,
        "{kind:?} cut {sizes:?}"
    );
    assert!(
        whole.answer.len() <= MAX_GROWTH * body.len(),
        "{kind:?} invented text: {whole:?}"
    );
    // Must not panic.
    let _ = whole.outcome();
}

/// Decodes as the client does: stops when the answer has ended.
fn decoded(kind: ServerKind, stream: bool, pieces: &[&[u8]]) -> (Decoded, ReadSummary) {
    let mut decoder = adapter(kind).decoder(stream, DEFAULT_MAX_EVENT_BYTES);
    let mut fed = ReadSummary::default();
    for piece in pieces {
        fed.merge(decoder.push(piece));
        if fed.ended {
            break;
        }
    }
    if !fed.ended {
        fed.merge(decoder.finish());
    }
    (decoder.into_decoded(), fed)
}
