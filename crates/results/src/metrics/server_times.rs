//! Times that the server reports with each answer, beside the client's.

use serde::Serialize;

use sobench_facts::Sample;
use sobench_plan::metrics::MetricsSettings;
use sobench_statistics::mean;

/// Means over the answers with times of the server, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, schemars::JsonSchema, Serialize)]
pub struct ServerTimesSummary {
    /// Answers with times.
    pub answers: usize,
    /// In the queue.
    pub queue_ms: Option<f64>,
    /// From the end of the queue to the first token.
    pub first_token_ms: Option<f64>,
    /// From the first token to the last.
    pub generation_ms: Option<f64>,
    /// The client's TTFT of the answers with a time to the first token.
    pub client_ttft_ms: Option<f64>,
    /// The client's time from the first chunk to the last, of the answers with a time of generation.
    pub client_generation_ms: Option<f64>,
}

impl ServerTimesSummary {
    /// `None` if no answer has times.
    pub(super) fn new(samples: &[Sample<'_>], options: &MetricsSettings) -> Option<Self> {
        let ms = |ns: u64| ns as f64 / 1e6;
        let answers: Vec<_> = samples
            .iter()
            .filter(|sample| sample.outcome().is_answer())
            .filter_map(|sample| Some((sample, sample.server_times()?)))
            .collect();
        if answers.is_empty() {
            return None;
        }
        let streamed = || {
            answers
                .iter()
                .filter(|(sample, _)| sample.streamed(options))
        };
        let of = |values: Vec<f64>| mean(&values);
        Some(Self {
            answers: answers.len(),
            queue_ms: of(answers
                .iter()
                .filter_map(|(_, times)| times.queue_ns.map(ms))
                .collect()),
            first_token_ms: of(answers
                .iter()
                .filter_map(|(_, times)| times.first_token_ns.map(ms))
                .collect()),
            generation_ms: of(answers
                .iter()
                .filter_map(|(_, times)| times.generation_ns.map(ms))
                .collect()),
            client_ttft_ms: of(streamed()
                .filter(|(_, times)| times.first_token_ns.is_some())
                .filter_map(|(sample, _)| sample.latency(options).ttft_ms)
                .collect()),
            client_generation_ms: of(streamed()
                .filter(|(_, times)| times.generation_ns.is_some())
                .filter_map(|(sample, _)| {
                    let times = sample.request_times();
                    let span = times
                        .last_content_ns?
                        .checked_sub(times.first_content_ns?)?;
                    Some(ms(span))
                })
                .collect()),
        })
    }

    /// The client's TTFT less the server's queue and computation: network, front end and client.
    pub fn outside_ms(&self) -> Option<f64> {
        let inside_ms = self.first_token_ms? + self.queue_ms.unwrap_or(0.0);
        Some(self.client_ttft_ms? - inside_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::observation::ServerTimes;
    use sobench_facts::testing::{TestRequest, test_request, with_samples};

    #[test]
    fn means_are_of_the_answers_with_times() {
        let times = |queue_ms: u64, first_ms: u64| TestRequest {
            server_times: Some(ServerTimes {
                queue_ns: Some(queue_ms * 1_000_000),
                first_token_ns: Some(first_ms * 1_000_000),
                generation_ns: None,
            }),
            ..test_request()
        };
        let run = [times(1, 4), times(3, 6), test_request()];
        with_samples(&run, |samples| {
            let options = MetricsSettings::default();
            let found = ServerTimesSummary::new(samples, &options).unwrap();
            assert_eq!((found.answers, found.queue_ms), (2, Some(2.0)));
            assert_eq!(found.first_token_ms, Some(5.0));
            assert_eq!(
                (found.generation_ms, found.client_generation_ms),
                (None, None)
            );
            assert_eq!(found.client_ttft_ms, Some(10.0));
            assert_eq!(found.outside_ms(), Some(3.0));
            assert_eq!(ServerTimesSummary::new(&samples[2..], &options), None);
        });
    }
}
