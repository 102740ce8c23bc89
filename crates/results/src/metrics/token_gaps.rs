//! The time of each token, where the server says how many came in each chunk. Knows no average:
//! where it does not say, there is nothing.

use super::latency::chunk_gaps_ms;

/// The gap before each token after the first chunk, in milliseconds: a chunk of several tokens had
/// them made one after the other, and each is given its even part of the time since the chunk
/// before. Text that comes without a token of its own (bytes that were held back) adds its time to
/// the next that has one. `None` where some chunk has no count, or counts fall.
///
/// The count is the server's `usage` in the chunk: vLLM's `continuous_usage_stats`, SGLang's
/// `meta_info`.
pub fn token_gaps_ms(chunks_ns: &[u64], counts: &[u64]) -> Option<Vec<f64>> {
    if counts.is_empty() || counts.len() != chunks_ns.len() || !counts.is_sorted() {
        return None;
    }
    // No server makes tokens by the million in one chunk; a broken count must cost an answer and
    // not the memory.
    if counts
        .last()
        .zip(counts.first())
        .is_some_and(|(last, first)| last - first > MAX_TOKENS_PER_CHUNK * counts.len() as u64)
    {
        return None;
    }
    let mut gaps = Vec::new();
    let mut since_last_ms = 0.0;
    for (pair, gap_ms) in counts.windows(2).zip(chunk_gaps_ms(chunks_ns)) {
        let tokens = pair[1] - pair[0];
        since_last_ms += gap_ms;
        if tokens > 0 {
            gaps.extend((0..tokens).map(|_| since_last_ms / tokens as f64));
            since_last_ms = 0.0;
        }
    }
    Some(gaps)
}

/// More tokens a chunk than this, over an answer, are no count.
const MAX_TOKENS_PER_CHUNK: u64 = 1 << 14;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(chunks_ms: &[u64], counts: &[u64], expected: Option<&[f64]>) {
        let chunks_ns: Vec<u64> = chunks_ms.iter().map(|at| at * 1_000_000).collect();
        assert_eq!(
            token_gaps_ms(&chunks_ns, counts).as_deref(),
            expected,
            "{counts:?} at {chunks_ms:?}"
        );
    }

    #[test]
    fn a_chunks_tokens_share_its_time() {
        check(&[10, 20, 50], &[1, 2, 3], Some(&[10.0, 30.0]));
        check(&[10, 20, 50], &[1, 2, 5], Some(&[10.0, 10.0, 10.0, 10.0]));
        check(&[10, 20, 50], &[4, 4, 6], Some(&[20.0, 20.0]));
        check(&[10, 20], &[3, 3], Some(&[]));
        check(&[10], &[3], Some(&[]));
    }

    #[test]
    fn without_a_count_for_every_chunk_there_is_nothing() {
        check(&[10, 20, 50], &[], None);
        check(&[10, 20, 50], &[1, 2], None);
        check(&[10, 20, 50], &[1, 3, 2], None);
        check(&[], &[], None);
        check(&[10, 20], &[1, u64::MAX], None);
    }
}
