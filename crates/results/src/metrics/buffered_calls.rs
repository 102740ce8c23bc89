//! Servers that withhold the arguments of tool calls and send them at the end of the answer.
//!
//! An answer counts as buffered if nearly all bytes of its arguments came in the last 100 ms, after
//! a long silence. A silence after other chunks is in the answer itself. If nothing came before the
//! arguments, the silence may be the queue or the prefill; it counts only where answers without tool
//! calls show how long these take. Short answers and servers that generate a whole answer within
//! the window are never buffered.

use super::drift::median;
use sobench_core::answer::Channel;
use sobench_core::case::Arm;
use sobench_core::channel_timing::LATE_WINDOW_NS;
use sobench_facts::Sample;
use sobench_plan::metrics::MetricsSettings;

/// Minimum silence before the arguments.
pub const MIN_SILENCE_NS: u64 = 500_000_000;

/// Minimum bytes of arguments, about 16 tokens. Fewer can be one step of the server.
pub const MIN_ARGUMENT_BYTES: u64 = 64;

/// Minimum share of late bytes of the arguments.
pub const MIN_LATE_SHARE: f64 = 0.9;

/// Minimum number of answers that are long enough.
pub const MIN_ANSWERS: usize = 5;

/// Minimum share of buffered answers among them. Single stalls of a server are below it.
pub const MIN_BUFFERED_SHARE: f64 = 0.5;

/// How many times longer the silence before an answer is than the median TTFT of answers without
/// tool calls.
pub const MIN_TTFT_FACTOR: f64 = 3.0;

/// A server that buffers tool calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BufferedCalls {
    pub constrained: BufferedCount,
    /// `None` without long answers with tool calls in the control arm.
    pub control: Option<BufferedCount>,
    /// Median silence before the arguments of buffered answers.
    pub silence_ns: u64,
}

/// Buffered answers of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferedCount {
    pub buffered: usize,
    /// Answers with tool calls that are long enough.
    pub answers: usize,
}

impl BufferedCalls {
    /// `None` unless the requests that are not controls show a server that buffers.
    pub fn new(samples: &[Sample<'_>], options: &MetricsSettings) -> Option<Self> {
        if samples.iter().all(|sample| sample.channels().is_none()) {
            return None;
        }
        let reference_ns = usual_ttft_ns(samples, options);
        let (mut constrained, mut control) = (Vec::new(), Vec::new());
        for sample in samples {
            if let Some(arguments) = Arguments::new(sample, options, reference_ns) {
                match sample.arm() {
                    Arm::Control => control.push(arguments),
                    _ => constrained.push(arguments),
                }
            }
        }
        let count = |answers: &[Arguments]| BufferedCount {
            buffered: answers.iter().filter_map(Arguments::silence_ns).count(),
            answers: answers.len(),
        };
        let found = count(&constrained);
        let is_buffering = found.answers >= MIN_ANSWERS
            && found.buffered as f64 >= MIN_BUFFERED_SHARE * found.answers as f64;
        let silences: Vec<f64> = constrained
            .iter()
            .filter_map(Arguments::silence_ns)
            .map(|silence_ns| silence_ns as f64)
            .collect();
        Some(Self {
            constrained: found,
            control: Some(count(&control)).filter(|control| control.answers > 0),
            silence_ns: median(silences).filter(|_| is_buffering)? as u64,
        })
    }
}

/// How the arguments of an answer that is long enough arrived.
enum Arguments {
    Streamed,
    /// At the end, after this silence.
    Buffered {
        silence_ns: u64,
    },
}

impl Arguments {
    /// `None` for answers that are too short. `usual_ttft_ns` is the TTFT of answers without
    /// tool calls, if known.
    fn new(
        sample: &Sample<'_>,
        options: &MetricsSettings,
        usual_ttft_ns: Option<f64>,
    ) -> Option<Self> {
        let is_counted = sample.outcome().is_answer() && sample.streamed(options);
        let channels = sample.channels().filter(|_| is_counted)?;
        let all = channels.bytes.of_channel(Channel::ToolCalls);
        let times = sample.request_times();
        let (sent_ns, last_ns) = (times.sent_ns?, times.last_content_ns?);
        let is_long = last_ns.saturating_sub(sent_ns) >= MIN_SILENCE_NS + LATE_WINDOW_NS;
        if all < MIN_ARGUMENT_BYTES || !is_long {
            return None;
        }
        let late = channels.late_bytes.of_channel(Channel::ToolCalls);
        if (late as f64) < MIN_LATE_SHARE * all as f64 {
            return Some(Self::Streamed);
        }
        let chunks_ns = sample.chunks_ns();
        let window_from_ns = last_ns.saturating_sub(LATE_WINDOW_NS);
        let first_late = chunks_ns.partition_point(|at_ns| *at_ns < window_from_ns);
        let late_ns = *chunks_ns.get(first_late)?;
        let (before_ns, least_ns) = match first_late.checked_sub(1) {
            Some(before) => (chunks_ns[before], MIN_SILENCE_NS as f64),
            None => (
                sent_ns,
                (MIN_TTFT_FACTOR * usual_ttft_ns?).max(MIN_SILENCE_NS as f64),
            ),
        };
        let silence_ns = late_ns.saturating_sub(before_ns);
        Some(if silence_ns as f64 >= least_ns {
            Self::Buffered { silence_ns }
        } else {
            Self::Streamed
        })
    }

    fn silence_ns(&self) -> Option<u64> {
        match self {
            Self::Streamed => None,
            Self::Buffered { silence_ns } => Some(*silence_ns),
        }
    }
}

/// Median TTFT of answers without tool calls that came token by token; `None` with fewer than
/// [`MIN_ANSWERS`].
fn usual_ttft_ns(samples: &[Sample<'_>], options: &MetricsSettings) -> Option<f64> {
    let ttft_ns = |sample: &Sample<'_>| {
        let has_calls = sample
            .channels()
            .is_some_and(|channels| channels.first_chunk(Channel::ToolCalls).is_some());
        let is_counted = sample.outcome().is_answer() && sample.streamed(options) && !has_calls;
        let times = Some(sample.request_times()).filter(|_| is_counted)?;
        let (first_ns, last_ns) = (times.first_content_ns?, times.last_content_ns?);
        let is_spread = last_ns.saturating_sub(first_ns) >= MIN_SILENCE_NS;
        is_spread.then_some(first_ns.saturating_sub(times.sent_ns?) as f64)
    };
    let known: Vec<f64> = samples.iter().filter_map(ttft_ns).collect();
    (known.len() >= MIN_ANSWERS)
        .then(|| median(known))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::channel_timing::ChunkPart;
    use sobench_facts::testing::{TestRequest, test_request, with_samples};

    /// An answer with the name of a function in its first chunk and 90 bytes of arguments in the
    /// others.
    fn call(chunks: &[u64]) -> TestRequest<'static> {
        let bytes = 90 / (chunks.len() - 1);
        let part = |chunk: usize| ChunkPart {
            chunk,
            channel: Channel::ToolCalls,
            bytes: if chunk == 0 { 0 } else { bytes },
        };
        TestRequest {
            chunks: chunks.to_vec(),
            parts: (0..chunks.len()).map(part).collect(),
            ..test_request()
        }
    }

    fn found(run: &[TestRequest<'_>]) -> Option<BufferedCalls> {
        with_samples(run, |samples| {
            BufferedCalls::new(samples, &MetricsSettings::default())
        })
    }

    fn count(buffered: usize, answers: usize) -> BufferedCount {
        BufferedCount { buffered, answers }
    }

    #[test]
    fn arguments_after_a_silence_are_buffered() {
        let buffered = call(&[50, 1950, 1951, 1960]);
        let streamed = call(&[50, 400, 800, 1200]);
        let control = TestRequest {
            arm: Arm::Control,
            ..streamed.clone()
        };
        let run = [vec![buffered.clone(); 4], vec![streamed.clone()]].concat();
        let with_control = [run.clone(), vec![control]].concat();
        assert_eq!(
            found(&with_control),
            Some(BufferedCalls {
                constrained: count(4, 5),
                control: Some(count(0, 1)),
                silence_ns: 1_900_000_000,
            })
        );
        assert_eq!(found(&run[..4]), None, "too few answers");
        let few = [vec![buffered; 2], vec![streamed; 3]].concat();
        assert_eq!(found(&few), None, "most answers are streamed");
    }

    #[test]
    fn short_and_instant_answers_are_never_buffered() {
        for (chunks, why) in [
            (&[5, 6, 7, 8][..], "an instant server"),
            (&[50, 100, 120, 140], "a short answer"),
            (
                &[900, 901, 902, 903],
                "a slow prefill, then an instant answer",
            ),
            (&[50, 450, 460, 470], "a silence below the minimum"),
        ] {
            assert_eq!(found(&vec![call(chunks); 20]), None, "{why}");
        }
        let few_bytes = TestRequest {
            parts: (0..3)
                .map(|chunk| ChunkPart {
                    chunk,
                    channel: Channel::ToolCalls,
                    bytes: 10,
                })
                .collect(),
            ..call(&[50, 1950, 1951])
        };
        assert_eq!(found(&vec![few_bytes; 20]), None);
    }

    #[test]
    fn whole_calls_are_buffered_where_other_answers_are_streamed() {
        let whole = call(&[1900, 1901, 1902]);
        let text = |first: u64| TestRequest {
            chunks: vec![first, first + 400, first + 800],
            ..test_request()
        };
        let run = |first: u64| [vec![whole.clone(); 10], vec![text(first); 5]].concat();
        let quick = found(&run(60)).unwrap();
        assert_eq!(quick.constrained, count(10, 10));
        assert_eq!(quick.silence_ns, 1_900_000_000);
        assert_eq!(found(&run(1500)), None, "every answer starts late");
    }
}
