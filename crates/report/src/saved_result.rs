//! A result file in any layout, as a value that a serialiser writes without copying the requests.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::ser::{Error as _, SerializeMap as _, SerializeSeq as _};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::json;
use super::view::View;
use sobench_core::answer::Answer;
use sobench_core::case::Arm;
use sobench_core::json_struct;
use sobench_core::observation::{Outcome, failure_message};
use sobench_core::verdict::Verdict;
use sobench_facts::latency::{RequestLatency, chunk_gaps_ms};
use sobench_facts::parity::Parity;
use sobench_facts::{Sample, Tokens};
use sobench_plan::metrics::MetricsSettings;
use sobench_results::metrics::judgement::is_correct;

pub(super) const MS_PER_S: f64 = 1000.0;
const NS_PER_S: f64 = 1e9;

/// The columns of the requests, in plan order, under vLLM's keys and in vLLM's units (seconds).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    InputLens,
    OutputLens,
    Ttfts,
    Itls,
    Latencies,
    StartTimes,
    QueueTimes,
    GeneratedTexts,
    Errors,
    /// One record per request.
    Outputs,
}

impl Column {
    /// Every column with its key, in vLLM's order.
    pub(super) const ALL: [(Self, &'static str); 10] = [
        (Self::InputLens, "input_lens"),
        (Self::OutputLens, "output_lens"),
        (Self::Ttfts, "ttfts"),
        (Self::Itls, "itls"),
        (Self::Latencies, "latencies"),
        (Self::StartTimes, "start_times"),
        (Self::QueueTimes, "queue_times"),
        (Self::GeneratedTexts, "generated_texts"),
        (Self::Errors, "errors"),
        (Self::Outputs, "outputs"),
    ];

    pub(super) fn key(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(column, _)| *column == self)
            .expect("every column is in the list")
            .1
    }
}

/// The types of the columns.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
pub(super) struct Columns {
    input_lens: Vec<Option<u64>>,
    output_lens: Vec<Option<u64>>,
    ttfts: Vec<Option<f64>>,
    itls: Vec<Vec<f64>>,
    latencies: Vec<Option<f64>>,
    start_times: Vec<Option<f64>>,
    queue_times: Vec<Option<f64>>,
    generated_texts: Vec<String>,
    errors: Vec<String>,
    outputs: Vec<Output<'static>>,
    /// Requests per second at each request of a ramp.
    request_rates: Vec<f64>,
}

/// The rules for missing values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// `null` where there is no value; records have everything that is known of a request.
    Sobench,
    /// 0 where a request has no answer; the script's records.
    Vllm,
}

/// A whole file.
pub struct SavedResult<'a> {
    pub(super) view: View<'a>,
    pub(super) layout: Layout,
    /// Every member in its place; `null` for a column.
    pub(super) members: Map<String, Value>,
}

impl<'a> SavedResult<'a> {
    pub(super) fn put(&mut self, key: &str, value: impl Serialize) {
        json::put(&mut self.members, key, value);
    }

    pub(super) fn columns(&mut self, columns: &[Column]) {
        self.members.extend(
            columns
                .iter()
                .map(|column| (column.key().to_owned(), Value::Null)),
        );
    }

    /// The requested latencies, in the order of vLLM's tools.
    pub(super) fn latencies(&mut self) {
        let report = self.view.report;
        for (metric, names) in report.printed().filter(|(_, names)| !names.queued) {
            let summary = report.metrics.values.summary(metric);
            json::add_latency(&mut self.members, names.key, summary);
        }
    }

    pub(super) fn options(&self) -> &'a MetricsSettings {
        &self.view.report.metrics.options
    }
}

impl Serialize for SavedResult<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.members.len()))?;
        for (key, value) in &self.members {
            match Column::ALL.into_iter().find(|(_, column)| column == key) {
                Some((column, _)) => map.serialize_entry(
                    key,
                    &Cells {
                        column,
                        document: self,
                    },
                )?,
                None => map.serialize_entry(key, value)?,
            }
        }
        map.end()
    }
}

/// A column with its data.
struct Cells<'a> {
    column: Column,
    document: &'a SavedResult<'a>,
}

impl Serialize for Cells<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let samples = self.document.view.samples;
        match self.column {
            Column::InputLens => {
                serializer.collect_seq(samples.iter().map(|sample| sample.tokens().input))
            }
            Column::OutputLens => {
                let is_answer = |sample: &Sample<'_>| {
                    self.document.layout == Layout::Sobench || sample.outcome().is_answer()
                };
                serializer.collect_seq(samples.iter().map(|sample| {
                    if is_answer(sample) {
                        sample.tokens().output
                    } else {
                        Some(0)
                    }
                }))
            }
            Column::Ttfts => self.seconds(serializer, |latency| latency.ttft_ms),
            Column::Itls => serializer.collect_seq(samples.iter().map(|sample| self.gaps(sample))),
            Column::Latencies => self.seconds(serializer, |latency| latency.e2el_ms),
            Column::StartTimes => {
                serializer.collect_seq(samples.iter().map(|sample: &Sample<'_>| {
                    self.or_zero(
                        sample,
                        sample
                            .request_times()
                            .sent_ns
                            .map(|at_ns| at_ns as f64 / NS_PER_S),
                    )
                }))
            }
            Column::QueueTimes => self.seconds(serializer, |latency| latency.schedule_lag_ms),
            Column::GeneratedTexts => self.each(serializer, |_, answer| answer.text().into()),
            Column::Errors => serializer.collect_seq(
                samples
                    .iter()
                    .map(|sample| failure_message(sample.outcome())),
            ),
            Column::Outputs => self.each(serializer, |sample, answer| self.output(sample, answer)),
        }
    }
}

impl Cells<'_> {
    /// Seconds from milliseconds of one latency.
    fn seconds<S: Serializer>(
        &self,
        serializer: S,
        of: fn(&RequestLatency) -> Option<f64>,
    ) -> std::result::Result<S::Ok, S::Error> {
        let options = self.document.options();
        let cell = |sample: &Sample<'_>| {
            self.or_zero(sample, of(&sample.latency(options)).map(|ms| ms / MS_PER_S))
        };
        serializer.collect_seq(self.document.view.samples.iter().map(cell))
    }

    fn gaps(&self, sample: &Sample<'_>) -> Vec<f64> {
        if sample.streamed(self.document.options()) {
            chunk_gaps_ms(&sample.chunks_ns())
                .map(|gap| gap / MS_PER_S)
                .collect()
        } else {
            Vec::new()
        }
    }

    /// The value; in vLLM's layouts 0 where a request without an answer has none.
    fn or_zero(&self, sample: &Sample<'_>, known: Option<f64>) -> Option<f64> {
        let is_zero = self.document.layout == Layout::Vllm && !sample.outcome().is_answer();
        known.or_else(|| is_zero.then_some(0.0))
    }

    /// The value of `cell` for each request and its answer.
    fn each<S: Serializer>(
        &self,
        serializer: S,
        cell: impl Fn(&Sample<'_>, &Answer) -> Value,
    ) -> std::result::Result<S::Ok, S::Error> {
        let samples = self.document.view.samples;
        let mut sequence = serializer.serialize_seq(Some(samples.len()))?;
        for (place, sample) in samples.iter().enumerate() {
            let answer = (self.document.view.answer)(place).map_err(S::Error::custom)?;
            sequence.serialize_element(&cell(sample, &answer))?;
        }
        sequence.end()
    }

    /// One request with its answer and its verdict. A refused or failed request is not correct;
    /// `null` is not judged.
    fn output(&self, sample: &Sample<'_>, answer: &Answer) -> Value {
        let generated = answer.text();
        let (expected, correctness) = (
            &sample.request_input().completion,
            is_correct(sample.verdict()),
        );
        if self.document.layout == Layout::Vllm {
            return json!({"generated": generated, "expected": expected, "correctness": correctness});
        }
        json::to_value(Output::new(sample, answer, self.document.options()))
    }
}

json_struct! {
    /// One request.
    pub(super) struct Output<'a> = |
        sample: &Sample<'a>, answer: &'a Answer, options: &MetricsSettings
    | [
        let latency = sample.latency(options);
    ] {
        generated: Cow<'a, str> = answer.text(),
        expected: &'a Option<String> = &sample.request_input().completion,
        correctness: Option<bool> = is_correct(sample.verdict()),
        /// vLLM's own `correctness`.
        vllm_correctness: Option<bool> = sample.vllm_correct(),
        case: String = sample.id(),
        arm: Arm = sample.arm(),
        outcome: &'a Outcome = sample.outcome(),
        verdict: &'a Verdict = sample.verdict(),
        finish_reason: Option<&'a str> = sample.finish_reason(),
        /// The reasoning before the answer, where the server returns it separately.
        reasoning: Option<&'a str> =
            Some(&*answer.reasoning).filter(|reasoning| !reasoning.is_empty()),
        /// Only streamed answers with reasoning have two TTFTs.
        #[serde(skip_serializing_if = "Option::is_none")]
        ttft_reasoning_ms: Option<f64> = latency.ttft_reasoning_ms,
        #[serde(skip_serializing_if = "Option::is_none")]
        ttft_answer_ms: Option<f64> = latency.ttft_answer_ms,
        #[serde(skip_serializing_if = "Option::is_none")]
        ttft_arguments_ms: Option<f64> = latency.ttft_arguments_ms,
        #[serde(skip_serializing_if = "Option::is_none")]
        accuracy: Option<&'static str> = sample.grade().map(|grade| grade.name()),
        #[serde(skip_serializing_if = "Option::is_none")]
        parity: Option<&'a Parity> = sample.parity(),
        tokens: Tokens = sample.tokens(),
        tags: &'a [String] = &sample.request_input().tags,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::testing::with_view;
    use sobench_core::observation::Outcome;
    use sobench_core::verdict::{NotScored, Verdict};
    use sobench_facts::testing::{TestRequest, test_request};
    use sobench_plan::record::testing::record;

    fn detailed(run: &[TestRequest<'_>]) -> Value {
        with_view(run, record(), |view| {
            json::to_value(json::document(view, true))
        })
    }

    #[test]
    fn columns_are_in_seconds_and_null_when_unknown() {
        let refused = TestRequest {
            outcome: Outcome::Rejected {
                status: 400,
                body: "no".into(),
                advice: None,
            },
            verdict: Verdict::NotScored {
                why: NotScored::Refused,
            },
            chunks: vec![],
            text: "",
            output: None,
            ..test_request()
        };
        let details = detailed(&[
            TestRequest {
                due: 500,
                sent: Some(1500),
                chunks: vec![1750, 2000],
                ..test_request()
            },
            refused,
        ]);
        assert_eq!(details["ttfts"], json!([0.25, null]));
        assert_eq!(details["itls"], json!([[0.25], []]));
        assert_eq!(details["latencies"], json!([0.5, null]));
        assert_eq!(details["start_times"], json!([1.5, 0.0]));
        assert_eq!(details["queue_times"], json!([1.0, 0.0]));
        assert_eq!(details["errors"], json!(["", "HTTP 400: no"]));
        let outputs = details["outputs"].as_array().unwrap();
        assert_eq!(
            outputs
                .iter()
                .map(|record| &record["correctness"])
                .collect::<Vec<_>>(),
            [&json!(true), &json!(false)]
        );
    }

    #[test]
    fn an_unstreamed_answer_has_only_its_end() {
        let details = detailed(&[TestRequest {
            streamed: false,
            chunks: vec![500, 500],
            ..test_request()
        }]);
        assert_eq!(
            (&details["ttfts"], &details["itls"]),
            (&json!([null]), &json!([[]]))
        );
        assert_eq!(details["latencies"], json!([0.5]));
    }

    #[test]
    fn unjudged_answers_have_null_correctness() {
        assert_eq!(
            is_correct(&Verdict::NotScored {
                why: NotScored::Limit {
                    what: "depth".into()
                }
            }),
            None
        );
        assert_eq!(
            is_correct(&Verdict::NotScored {
                why: NotScored::Cancelled
            }),
            None
        );
    }
}
