//! Answers of every server kind: the same answer however its bytes are cut, and never more text
//! than bytes.
//!
//! Bytes: the server kind, whether it streams, how many sizes of pieces follow, the sizes, the
//! body.

use sobench_backend::{DEFAULT_MAX_EVENT_BYTES, Decoded, Fed, ServerKind, adapter};

use super::draw::{Draw, pieces};

/// A byte that is no UTF-8 becomes U+FFFD, which is three.
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
        "{kind:?} made text up: {whole:?}"
    );
    // That it has one, and no panic, is all that is asked.
    let _ = whole.outcome();
}

/// As the client reads: no further once the answer has ended.
fn decoded(kind: ServerKind, stream: bool, pieces: &[&[u8]]) -> (Decoded, Fed) {
    let mut decoder = adapter(kind).decoder(stream, DEFAULT_MAX_EVENT_BYTES);
    let mut fed = Fed::default();
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
