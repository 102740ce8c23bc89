//! Times of chunks, in little memory: gaps as LEB128 integers, up to a limit, beyond which they are
//! read from the run log again ([`ChunkSource`]).

use std::fmt;
use std::sync::Arc;

use crate::columns::{Bits, Column, Copied, Dense};
use sobench_core::observation::{Timing, spread_slack};

/// Maximum size of chunk times in memory if they can be read again: some ten million chunks.
const MAX_GAP_BYTES: usize = 32 << 20;

/// Maximum number of chunk entries of slack in memory; further requests have their largest one only.
const MAX_SLACK_ENTRIES: usize = 1 << 20;

/// Times of chunks in nanoseconds since the start, and the cumulative tokens of each chunk if the
/// server counts them.
pub type ChunksAndTokens = (Vec<u64>, Vec<u64>);

/// Reads chunks that are not in memory.
pub trait ChunkSource: fmt::Debug + Send + Sync {
    /// The chunks of request `case_index` with the line at `offset`; `None` if they cannot be read.
    fn chunks(&self, case_index: usize, offset: u64) -> Option<ChunksAndTokens>;
}

/// The times of the chunks of all requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkTimes {
    bytes: Vec<u8>,
    /// Offsets in `bytes`; missing for chunks that have to be read from `source`.
    starts: Dense<Option<u32>, u32>,
    source: Option<Arc<dyn ChunkSource>>,
}

impl ChunkTimes {
    /// Chunks beyond the memory limit are read from `source`; without it, all are kept in memory.
    pub(crate) fn new(source: Option<Arc<dyn ChunkSource>>) -> Self {
        Self {
            source,
            ..Self::default()
        }
    }

    /// Makes room for rows.
    pub(crate) fn reserve(&mut self, rows: usize) {
        self.starts.reserve(rows);
    }

    /// Keeps the chunks of a row.
    pub(crate) fn set(&mut self, row: u32, timing: &Timing) {
        if self.source.is_some() && self.bytes.len() >= MAX_GAP_BYTES {
            return;
        }
        let start = u32::try_from(self.bytes.len()).ok();
        if start.is_some() && !timing.chunks_ns.is_empty() {
            self.starts.set(row, start);
            append(&mut self.bytes, timing);
        }
    }

    /// The chunks of a row, of which there are this many.
    pub(crate) fn get(
        &self,
        row: u32,
        chunks: u64,
        sent_ns: Option<u64>,
        line: (usize, u64),
    ) -> ChunksAndTokens {
        if chunks == 0 {
            return ChunksAndTokens::default();
        }
        if let Some(start) = self.starts.get(row) {
            let kept = EncodedGaps {
                bytes: &self.bytes[start as usize..],
                from_ns: sent_ns.unwrap_or(0),
                chunks: chunks as usize,
            };
            return kept.read();
        }
        let source = self.source.as_ref();
        let (case_index, offset) = line;
        source
            .and_then(|source| source.chunks(case_index, offset))
            .unwrap_or_default()
    }
}

/// By how much chunks can have arrived earlier than recorded, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArrivalSlack {
    /// Of the first and the last chunk, and of the first chunk of the answer.
    pub first_ns: u64,
    pub last_ns: u64,
    pub answer_ns: u64,
    pub(crate) chunks: ChunkSlack,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChunkSlack {
    /// [`Timing::arrival_slack_ns`].
    Each(Vec<(usize, u64)>),
    /// The largest one, for every chunk.
    Largest(u64),
}

impl Default for ChunkSlack {
    fn default() -> Self {
        Self::Each(Vec::new())
    }
}

impl ArrivalSlack {
    /// Whether no chunk has slack.
    pub fn is_none(&self) -> bool {
        self.chunks == ChunkSlack::default()
    }

    /// Appends it to bytes.
    fn append(&self, bytes: &mut Vec<u8>) {
        let mut put = |number: u64| put(bytes, number);
        [self.first_ns, self.last_ns, self.answer_ns]
            .into_iter()
            .for_each(&mut put);
        match &self.chunks {
            ChunkSlack::Largest(slack_ns) => {
                put(0);
                put(*slack_ns);
            }
            ChunkSlack::Each(entries) => {
                put(1 + entries.len() as u64);
                for (chunk, slack_ns) in entries {
                    put(*chunk as u64);
                    put(*slack_ns);
                }
            }
        }
    }

    /// Reads it from the start of bytes.
    fn read(mut bytes: &[u8]) -> Self {
        let mut take = || take(&mut bytes);
        let [first_ns, last_ns, answer_ns] = [take(), take(), take()];
        let chunks = match take() {
            0 => ChunkSlack::Largest(take()),
            more => ChunkSlack::Each((1..more).map(|_| (take() as usize, take())).collect()),
        };
        Self {
            first_ns,
            last_ns,
            answer_ns,
            chunks,
        }
    }

    /// The slack of each chunk.
    pub fn of_chunks(&self, chunks_ns: &[u64]) -> Vec<u64> {
        match &self.chunks {
            ChunkSlack::Each(entries) => spread_slack(entries, chunks_ns),
            ChunkSlack::Largest(slack_ns) => vec![*slack_ns; chunks_ns.len()],
        }
    }
}

/// The slack of all requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slacks {
    is_known: Bits<bool>,
    /// Places in `bytes`, of the rows whose slack is not zero.
    starts: Copied<u32>,
    bytes: Vec<u8>,
    /// Number of chunk entries in `bytes`.
    entries: usize,
}

impl Slacks {
    /// Keeps the slack of a row.
    pub(crate) fn set(&mut self, row: u32, timing: &Timing) {
        let Some(entries) = &timing.arrival_slack_ns else {
            return;
        };
        self.is_known.set(row, true);
        if entries.is_empty() {
            return;
        }
        let each = spread_slack(entries, &timing.chunks_ns);
        let answer = timing
            .chunks_ns
            .iter()
            .position(|at_ns| Some(*at_ns) == timing.first_answer_ns);
        let largest = each.iter().copied().max().unwrap_or_default();
        let slack = ArrivalSlack {
            first_ns: each.first().copied().unwrap_or_default(),
            last_ns: each.last().copied().unwrap_or_default(),
            answer_ns: answer.map_or(largest, |chunk| each[chunk]),
            chunks: if self.entries < MAX_SLACK_ENTRIES {
                ChunkSlack::Each(entries.clone())
            } else {
                ChunkSlack::Largest(largest)
            },
        };
        self.entries += entries.len();
        // A place above 4 GiB would need a hundred million requests.
        let start = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        slack.append(&mut self.bytes);
        self.starts.set(row, Some(start));
    }

    /// The slack of a row; `None` if it is unknown.
    pub(crate) fn get(&self, row: u32) -> Option<ArrivalSlack> {
        let read = |start: u32| ArrivalSlack::read(&self.bytes[start as usize..]);
        self.is_known
            .get(row)
            .then(|| self.starts.get(row).map(read).unwrap_or_default())
    }
}

/// The encoded gaps of one request.
struct EncodedGaps<'b> {
    /// Starts with this request; the bytes of other requests follow.
    bytes: &'b [u8],
    /// The reference time of the first gap.
    from_ns: u64,
    chunks: usize,
}

/// Appends the chunks of a request: the number of chunks with token counts, the gaps, and the
/// tokens.
fn append(bytes: &mut Vec<u8>, timing: &Timing) {
    put(bytes, timing.chunk_tokens.len() as u64);
    put_steps(bytes, timing.sent_ns.unwrap_or(0), &timing.chunks_ns);
    put_steps(bytes, 0, &timing.chunk_tokens);
}

impl EncodedGaps<'_> {
    /// Decodes the times of chunks, and the cumulative tokens of each.
    fn read(mut self) -> (Vec<u64>, Vec<u64>) {
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
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Reads a LEB128 integer; 0 at the end of the bytes.
fn take(bytes: &mut &[u8]) -> u64 {
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

    #[derive(Debug)]
    struct TestSource;

    impl ChunkSource for TestSource {
        fn chunks(&self, case_index: usize, offset: u64) -> Option<ChunksAndTokens> {
            Some((vec![case_index as u64, offset], vec![]))
        }
    }

    #[test]
    fn chunks_above_the_limit_are_read_from_the_source() {
        let timing = Timing {
            sent_ns: Some(1),
            chunks_ns: vec![3, 4],
            ..Timing::default()
        };
        let mut times = ChunkTimes::new(Some(Arc::new(TestSource)));
        times.set(0, &timing);
        times.bytes.resize(MAX_GAP_BYTES, 0);
        times.set(1, &timing);
        let found = [0, 1].map(|row| times.get(row, 2, timing.sent_ns, (row as usize, 41)).0);
        assert_eq!(found, [timing.chunks_ns, vec![1, 41]]);
        assert!(times.get(2, 0, None, (2, 42)).0.is_empty());
    }
}
