//! Compact exact encoding of chunk times: gaps as LEB128 integers.

use sobench_core::observation::Timing;

/// The encoded gaps of one request.
pub(super) struct EncodedGaps<'b> {
    /// Starts with this request; the bytes of other requests follow.
    pub(super) bytes: &'b [u8],
    /// The reference time of the first gap.
    pub(super) from_ns: u64,
    pub(super) chunks: usize,
}

/// Appends the chunks of a request: the number of chunks with token counts, the gaps, and the
/// tokens. Appends nothing for a request without chunks.
pub(super) fn append(bytes: &mut Vec<u8>, timing: &Timing) {
    if timing.chunks_ns.is_empty() {
        return;
    }
    put(bytes, timing.chunk_tokens.len() as u64);
    put_steps(bytes, timing.sent_ns.unwrap_or(0), &timing.chunks_ns);
    put_steps(bytes, 0, &timing.chunk_tokens);
}

impl EncodedGaps<'_> {
    /// Decodes the times of chunks, and the cumulative tokens of each.
    pub(super) fn read(mut self) -> (Vec<u64>, Vec<u64>) {
        let counts = take(&mut self.bytes) as usize;
        let times = take_steps(&mut self.bytes, self.from_ns, self.chunks);
        (times, take_steps(&mut self.bytes, 0, counts))
    }
}

/// Signed differences of successive numbers, with the sign in the lowest bit ("zigzag").
fn put_steps(bytes: &mut Vec<u8>, from: u64, numbers: &[u64]) {
    let mut before = from;
    for number in numbers {
        let step = number.wrapping_sub(before).cast_signed();
        put(bytes, ((step << 1) ^ (step >> 63)).cast_unsigned());
        before = *number;
    }
}

fn take_steps(bytes: &mut &[u8], from: u64, count: usize) -> Vec<u64> {
    let mut at = from;
    let step = |_| {
        let zigzag = take(bytes);
        at = at.wrapping_add((zigzag >> 1) ^ (zigzag & 1).wrapping_neg());
        at
    };
    (0..count).map(step).collect()
}

/// Appends a LEB128 integer.
pub(super) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Reads a LEB128 integer; 0 at the end of the bytes.
pub(super) fn take(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 || shift > 63 {
            break;
        }
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_round_trip() {
        let all = [
            (Some(5), vec![7, 9, 9, 1 << 40], vec![1, 2, 2, 9]),
            (None, vec![0], vec![]),
            (Some(10), vec![3, u64::MAX, 0], vec![u64::MAX]),
            (Some(1), vec![], vec![]),
        ];
        let mut bytes = Vec::new();
        let mut offsets = Vec::new();
        for (sent_ns, chunks_ns, chunk_tokens) in all.clone() {
            offsets.push(bytes.len());
            append(
                &mut bytes,
                &Timing {
                    sent_ns,
                    chunks_ns,
                    chunk_tokens,
                    ..Timing::default()
                },
            );
        }
        for ((sent_ns, times, tokens), offset) in all
            .into_iter()
            .zip(offsets)
            .filter(|((_, times, _), _)| !times.is_empty())
        {
            let kept = EncodedGaps {
                bytes: &bytes[offset..],
                from_ns: sent_ns.unwrap_or(0),
                chunks: times.len(),
            };
            assert_eq!(kept.read(), (times, tokens));
        }
        assert!(bytes.len() < 60, "{}", bytes.len());
    }
}
