//! Latency of single tokens, if the server counts the tokens of each chunk.

use sobench_facts::latency::chunk_gaps_ms;

/// The gap before each token after the first chunk, in milliseconds. The tokens of a chunk share
/// the time since the preceding chunk evenly. The time of a chunk without tokens (such as bytes
/// that were held back) is added to the next chunk with tokens. `None` if a chunk has no count, or
/// counts decrease.
///
/// The count is the server's `usage` in the chunk: vLLM's `continuous_usage_stats`, SGLang's
/// `meta_info`.
pub fn token_gaps_ms(chunks_ns: &[u64], counts: &[u64]) -> Option<Vec<f64>> {
    spread_over_tokens(&chunk_gaps_ms(chunks_ns).collect::<Vec<_>>(), counts)
}

/// The same, from the gaps between the chunks.
pub(super) fn spread_over_tokens(gaps_ms: &[f64], counts: &[u64]) -> Option<Vec<f64>> {
    if counts.is_empty() || counts.len() != gaps_ms.len() + 1 || !counts.is_sorted() {
        return None;
    }
    // An implausible count must not exhaust memory.
    if counts
        .last()
        .zip(counts.first())
        .is_some_and(|(last, first)| last - first > MAX_TOKENS_PER_CHUNK * counts.len() as u64)
    {
        return None;
    }
    let mut gaps = Vec::new();
    let mut since_last_ms = 0.0;
    for (pair, gap_ms) in counts.windows(2).zip(gaps_ms) {
        let tokens = pair[1] - pair[0];
        since_last_ms += gap_ms;
        if tokens > 0 {
            gaps.extend((0..tokens).map(|_| since_last_ms / tokens as f64));
            since_last_ms = 0.0;
        }
    }
    Some(gaps)
}

/// Maximum plausible number of tokens per chunk, on average over an answer.
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
    fn tokens_of_a_chunk_share_its_time() {
        check(&[10, 20, 50], &[1, 2, 3], Some(&[10.0, 30.0]));
        check(&[10, 20, 50], &[1, 2, 5], Some(&[10.0, 10.0, 10.0, 10.0]));
        check(&[10, 20, 50], &[4, 4, 6], Some(&[20.0, 20.0]));
        check(&[10, 20], &[3, 3], Some(&[]));
        check(&[10], &[3], Some(&[]));
    }

    #[test]
    fn missing_or_invalid_counts_give_no_gaps() {
        check(&[10, 20, 50], &[], None);
        check(&[10, 20, 50], &[1, 2], None);
        check(&[10, 20, 50], &[1, 3, 2], None);
        check(&[], &[], None);
        check(&[10, 20], &[1, u64::MAX], None);
    }
}
