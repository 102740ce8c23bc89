//! The channels of a streamed answer over time: which chunks belong to which channel, and how many
//! bytes of each channel arrived just before the end.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::Channel;

/// Bytes that arrive within this time before the last chunk of an answer are late.
pub const LATE_WINDOW_NS: u64 = 100_000_000;

/// Maximum number of runs of chunks. An answer that changes its channel more often has no timing by
/// channel.
pub const MAX_CHANNEL_RUNS: usize = 1024;

/// The part of one chunk in one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPart {
    /// Index among the chunks with content.
    pub chunk: usize,
    pub channel: Channel,
    /// Bytes of text. The name of a tool call has none, its arguments have.
    pub bytes: usize,
}

/// The channels of the chunks of a streamed answer that has more than content.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ChannelTiming {
    /// Runs of chunks with the same channels: the index of the first chunk, and the channels.
    pub runs: Vec<(usize, ChannelSet)>,
    /// Bytes of the answer.
    pub bytes: ChannelBytes,
    /// Those that arrived within [`LATE_WINDOW_NS`] before the last chunk.
    pub late_bytes: ChannelBytes,
}

/// Channels of one chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(from = "Vec<Channel>", into = "Vec<Channel>")]
pub struct ChannelSet(u8);

/// A number of bytes for each channel. Tool calls count their arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct ChannelBytes {
    #[serde(skip_serializing_if = "is_zero")]
    pub reasoning: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub content: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub tool_calls: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl ChannelSet {
    /// The set with one more channel.
    #[must_use]
    pub fn with(self, channel: Channel) -> Self {
        Self(self.0 | (1 << channel as u8))
    }

    /// Whether a channel is in the set.
    pub fn has(self, channel: Channel) -> bool {
        self.0 & (1 << channel as u8) != 0
    }
}

impl From<Vec<Channel>> for ChannelSet {
    fn from(channels: Vec<Channel>) -> Self {
        channels.into_iter().fold(Self::default(), Self::with)
    }
}

impl From<ChannelSet> for Vec<Channel> {
    fn from(set: ChannelSet) -> Self {
        Channel::ALL
            .into_iter()
            .filter(|channel| set.has(*channel))
            .collect()
    }
}

impl ChannelBytes {
    /// The bytes of a channel.
    pub fn of_channel(self, channel: Channel) -> u64 {
        match channel {
            Channel::Reasoning => self.reasoning,
            Channel::Content => self.content,
            Channel::ToolCalls => self.tool_calls,
        }
    }

    fn add(&mut self, channel: Channel, bytes: usize) {
        *match channel {
            Channel::Reasoning => &mut self.reasoning,
            Channel::Content => &mut self.content,
            Channel::ToolCalls => &mut self.tool_calls,
        } += bytes as u64;
    }
}

impl ChannelTiming {
    /// The timing of an answer. `parts` are in order of their chunks, and `chunks_ns` are the
    /// instants of all chunks. `None` for an answer with content only, and above
    /// [`MAX_CHANNEL_RUNS`].
    pub fn new(parts: &[ChunkPart], chunks_ns: &[u64]) -> Option<Self> {
        if parts.iter().all(|part| part.channel == Channel::Content) {
            return None;
        }
        let late_from_ns = chunks_ns.last()?.saturating_sub(LATE_WINDOW_NS);
        let mut timing = Self::default();
        for of_chunk in parts.chunk_by(|one, other| one.chunk == other.chunk) {
            let chunk = of_chunk[0].chunk;
            let set = of_chunk
                .iter()
                .fold(ChannelSet::default(), |set, part| set.with(part.channel));
            if timing.runs.last().is_none_or(|(_, last)| *last != set) {
                if timing.runs.len() == MAX_CHANNEL_RUNS {
                    return None;
                }
                timing.runs.push((chunk, set));
            }
            let is_late = chunks_ns
                .get(chunk)
                .is_some_and(|at_ns| *at_ns >= late_from_ns);
            for part in of_chunk {
                timing.bytes.add(part.channel, part.bytes);
                if is_late {
                    timing.late_bytes.add(part.channel, part.bytes);
                }
            }
        }
        Some(timing)
    }

    /// The channels of each of this many chunks.
    pub fn of_chunks(&self, chunks: usize) -> Vec<ChannelSet> {
        let mut sets = vec![ChannelSet::default(); chunks];
        let ends = self.runs.iter().skip(1).map(|(first, _)| *first);
        for ((first, set), end) in self.runs.iter().zip(ends.chain([chunks])) {
            // The indices of a file are not trusted.
            if let Some(run) = sets.get_mut(*first..end.min(chunks)) {
                run.fill(*set);
            }
        }
        sets
    }

    /// The first chunk of a channel.
    pub fn first_chunk(&self, channel: Channel) -> Option<usize> {
        let run = self.runs.iter().find(|(_, set)| set.has(channel));
        run.map(|(first, _)| *first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Channel::{Content, Reasoning, ToolCalls};

    const MS: u64 = 1_000_000;

    fn part(chunk: usize, channel: Channel, bytes: usize) -> ChunkPart {
        ChunkPart {
            chunk,
            channel,
            bytes,
        }
    }

    fn set(channels: &[Channel]) -> ChannelSet {
        channels.to_vec().into()
    }

    #[test]
    fn chunks_are_runs_of_channels() {
        let parts = [
            part(0, Reasoning, 4),
            part(1, Reasoning, 5),
            part(2, Reasoning, 1),
            part(2, Content, 2),
            part(3, ToolCalls, 0),
            part(4, ToolCalls, 7),
        ];
        let chunks_ns = [0, 10 * MS, 20 * MS, 30 * MS, 130 * MS];
        let timing = ChannelTiming::new(&parts, &chunks_ns).unwrap();
        assert_eq!(
            timing.runs,
            [
                (0, set(&[Reasoning])),
                (2, set(&[Reasoning, Content])),
                (3, set(&[ToolCalls]))
            ]
        );
        let bytes = |bytes: ChannelBytes| Channel::ALL.map(|channel| bytes.of_channel(channel));
        assert_eq!(bytes(timing.bytes), [10, 2, 7]);
        // The window starts at 30 ms.
        assert_eq!(bytes(timing.late_bytes), [0, 0, 7]);
        assert_eq!(
            timing.of_chunks(5),
            [
                set(&[Reasoning]),
                set(&[Reasoning]),
                set(&[Reasoning, Content]),
                set(&[ToolCalls]),
                set(&[ToolCalls])
            ]
        );
        let first = Channel::ALL.map(|channel| timing.first_chunk(channel));
        assert_eq!(first, [Some(0), Some(2), Some(3)]);
    }

    #[test]
    fn answers_with_content_only_have_no_channels() {
        assert_eq!(ChannelTiming::new(&[part(0, Content, 1)], &[5]), None);
        assert_eq!(ChannelTiming::new(&[], &[]), None);
    }

    #[test]
    fn too_many_runs_are_unknown() {
        let parts = |chunks: usize| -> Vec<ChunkPart> {
            (0..chunks)
                .map(|chunk| part(chunk, [Reasoning, Content][chunk % 2], 1))
                .collect()
        };
        let times = vec![0; MAX_CHANNEL_RUNS + 1];
        assert!(ChannelTiming::new(&parts(MAX_CHANNEL_RUNS), &times).is_some());
        assert_eq!(
            ChannelTiming::new(&parts(MAX_CHANNEL_RUNS + 1), &times),
            None
        );
    }

    #[test]
    fn wrong_indices_of_a_file_are_ignored() {
        let timing = ChannelTiming {
            runs: vec![(7, set(&[Reasoning])), (3, set(&[Content]))],
            ..ChannelTiming::default()
        };
        let none = ChannelSet::default();
        assert_eq!(timing.of_chunks(4), [none, none, none, set(&[Content])]);
        assert_eq!(timing.of_chunks(0), []);
    }

    #[test]
    fn timings_round_trip() {
        let timing = ChannelTiming {
            runs: vec![(0, set(&[Reasoning])), (3, set(&[Content, ToolCalls]))],
            bytes: ChannelBytes {
                reasoning: 9,
                content: 4,
                tool_calls: 2,
            },
            late_bytes: ChannelBytes {
                tool_calls: 2,
                ..ChannelBytes::default()
            },
        };
        let text = serde_json::to_string(&timing).unwrap();
        assert_eq!(
            text,
            r#"{"runs":[[0,["reasoning"]],[3,["content","tool_calls"]]],"bytes":{"reasoning":9,"content":4,"tool_calls":2},"late_bytes":{"tool_calls":2}}"#
        );
        assert_eq!(
            serde_json::from_str::<ChannelTiming>(&text).unwrap(),
            timing
        );
    }
}
