//! Latencies by channel: reasoning, content and tool calls. They cover streamed answers that have
//! more than content ([`ChannelTiming`](sobench_core::channel_timing::ChannelTiming)).

use sobench_core::answer::Channel;
use sobench_facts::Sample;
use sobench_facts::latency::chunk_gaps_ms;
use sobench_plan::metrics::MetricsSettings;
use sobench_statistics::mean;

/// Minimum E2EL of an answer for the share of its late bytes: five times the window. All bytes of a
/// shorter answer may be late although the server sends each token at once.
pub const MIN_LATE_E2EL_MS: f64 = 500.0;

/// Sent to the first chunk of a channel.
pub fn ttft_ms(sample: &Sample<'_>, options: &MetricsSettings, channel: Channel) -> Option<f64> {
    let channels = sample.channels().filter(|_| sample.streamed(options))?;
    let chunks_ns = sample.chunks_ns();
    let first_ns = *chunks_ns.get(channels.first_chunk(channel)?)?;
    chunk_gaps_ms(&[sample.request_times().sent_ns?, first_ns]).next()
}

/// The gaps between consecutive chunks that both have the channel.
pub fn gaps_ms(sample: &Sample<'_>, options: &MetricsSettings, channel: Channel) -> Vec<f64> {
    let Some(channels) = sample.channels().filter(|_| sample.streamed(options)) else {
        return Vec::new();
    };
    let chunks_ns = sample.chunks_ns();
    let sets = channels.of_chunks(chunks_ns.len());
    sets.windows(2)
        .zip(chunk_gaps_ms(&chunks_ns))
        .filter(|(pair, _)| pair.iter().all(|set| set.has(channel)))
        .map(|(_, gap_ms)| gap_ms)
        .collect()
}

/// Dead air: the longest gap between consecutive chunks of an answer, also of different channels.
pub fn dead_air_ms(sample: &Sample<'_>, options: &MetricsSettings) -> Option<f64> {
    sample.channels().filter(|_| sample.streamed(options))?;
    chunk_gaps_ms(&sample.chunks_ns()).reduce(f64::max)
}

/// Mean over answers of the percentage of the channel's bytes that arrived in the last 100 ms before
/// the last chunk; `None` without answers of at least [`MIN_LATE_E2EL_MS`].
pub fn late_percent(
    samples: &[&Sample<'_>],
    options: &MetricsSettings,
    channel: Channel,
) -> Option<f64> {
    let of_answer = |sample: &&Sample<'_>| {
        let is_counted = sample.outcome().is_answer() && sample.streamed(options);
        let channels = sample.channels().filter(|_| is_counted)?;
        let all = channels.bytes.of_channel(channel);
        let e2el_ms = sample.latency(options).e2el_ms?;
        (all > 0 && e2el_ms >= MIN_LATE_E2EL_MS)
            .then(|| 100.0 * channels.late_bytes.of_channel(channel) as f64 / all as f64)
    };
    let shares: Vec<f64> = samples.iter().filter_map(of_answer).collect();
    mean(&shares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Channel::{Content, Reasoning, ToolCalls};
    use sobench_core::channel_timing::ChunkPart;
    use sobench_facts::testing::{TestRequest, test_request, with_samples};

    fn part(chunk: usize, channel: Channel, bytes: usize) -> ChunkPart {
        ChunkPart {
            chunk,
            channel,
            bytes,
        }
    }

    /// Two chunks of reasoning, two of content, and the name and the arguments of a call.
    fn mixed() -> TestRequest<'static> {
        TestRequest {
            sent: Some(100),
            chunks: vec![150, 160, 200, 230, 240, 740],
            parts: vec![
                part(0, Reasoning, 4),
                part(1, Reasoning, 4),
                part(2, Content, 2),
                part(3, Content, 2),
                part(4, ToolCalls, 0),
                part(5, ToolCalls, 30),
            ],
            end: Some(741),
            ..test_request()
        }
    }

    #[test]
    fn channels_have_their_own_latencies() {
        let options = MetricsSettings::default();
        with_samples(&[mixed(), test_request()], |samples| {
            let [mixed, plain] = samples else {
                unreachable!()
            };
            let ttft = Channel::ALL.map(|channel| ttft_ms(mixed, &options, channel));
            assert_eq!(ttft, [Some(50.0), Some(100.0), Some(140.0)]);
            let gaps = Channel::ALL.map(|channel| gaps_ms(mixed, &options, channel));
            assert_eq!(gaps, [vec![10.0], vec![30.0], vec![500.0]]);
            assert_eq!(dead_air_ms(mixed, &options), Some(500.0));
            let all: Vec<_> = samples.iter().collect();
            let late = Channel::ALL.map(|channel| late_percent(&all, &options, channel));
            assert_eq!(late, [Some(0.0), Some(0.0), Some(100.0)]);
            // An answer with content only has its latencies in the metrics of all answers.
            assert_eq!(ttft_ms(plain, &options, Content), None);
            assert!(gaps_ms(plain, &options, Content).is_empty());
            assert_eq!(dead_air_ms(plain, &options), None);
            let unstreamed = MetricsSettings {
                streamed: false,
                ..options.clone()
            };
            assert_eq!(dead_air_ms(mixed, &unstreamed), None);
        });
    }

    #[test]
    fn short_answers_have_no_share_of_late_bytes() {
        let short = TestRequest {
            sent: Some(0),
            chunks: vec![5, 6, 7],
            parts: vec![
                part(0, ToolCalls, 0),
                part(1, ToolCalls, 9),
                part(2, ToolCalls, 9),
            ],
            ..test_request()
        };
        with_samples(&[short], |samples| {
            let all: Vec<_> = samples.iter().collect();
            assert_eq!(
                late_percent(&all, &MetricsSettings::default(), ToolCalls),
                None
            );
        });
    }
}
