//! The saved result in the layouts of vLLM's two tools, key for key, in their order and units, so that what reads their files reads
//! these. Knows no file.
//!
//! Both were read in vLLM 0.32 and 0.33: [`serve`] is `vllm bench serve` (`vllm/benchmarks/serve.py`), [`structured`] the script
//! (`benchmarks/benchmark_serving_structured_output.py`). Three rules where their figures would mislead:
//!
//! - A figure over a run that is not known is `null`; the tools write 0.
//! - A column says 0 for a request without an answer, as theirs do, since its entry in `errors` says so beside it; it says `null` where
//!   an answer has no such figure.
//! - Verdicts are ours: [`structured`] says what they are under the script's keys.

mod describe;
pub mod serve;
pub mod structured;

use serde::ser::{Error as _, SerializeMap as _, SerializeSeq as _};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::json;
use super::view::View;
use crate::metrics::LatencyMetric;
use crate::metrics::latency::{RequestLatency, chunk_gaps_ms};
use crate::metrics::quality::is_correct;
use crate::metrics::{MetricsOptions, Sample};
use crate::observation::failure_words;
use crate::statistics::Summary;

const MS_PER_S: f64 = 1000.0;
const NS_PER_S: f64 = 1e9;

/// What a file holds of every request, in plan order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    InputLens,
    OutputLens,
    Ttfts,
    Itls,
    Latencies,
    StartTimes,
    QueueTimes,
    GeneratedTexts,
    Errors,
    /// The script's records.
    Outputs,
}

impl Column {
    const ALL: [Self; 10] = [
        Self::InputLens,
        Self::OutputLens,
        Self::Ttfts,
        Self::Itls,
        Self::Latencies,
        Self::StartTimes,
        Self::QueueTimes,
        Self::GeneratedTexts,
        Self::Errors,
        Self::Outputs,
    ];

    fn key(self) -> &'static str {
        match self {
            Self::InputLens => "input_lens",
            Self::OutputLens => "output_lens",
            Self::Ttfts => "ttfts",
            Self::Itls => "itls",
            Self::Latencies => "latencies",
            Self::StartTimes => "start_times",
            Self::QueueTimes => "queue_times",
            Self::GeneratedTexts => "generated_texts",
            Self::Errors => "errors",
            Self::Outputs => "outputs",
        }
    }
}

/// A whole file, to be written by a serialiser: what it holds of every request is not copied.
pub struct Document<'a> {
    view: View<'a>,
    /// Every member in its place; `null` where it is a column.
    members: Map<String, Value>,
    columns: Vec<Column>,
}

impl<'a> Document<'a> {
    fn new(view: View<'a>) -> Self {
        Self { view, members: Map::new(), columns: Vec::new() }
    }

    fn put(&mut self, key: &str, value: impl Serialize) {
        json::put(&mut self.members, key, value);
    }

    fn column(&mut self, column: Column) {
        self.columns.push(column);
        self.members.insert(column.key().to_owned(), Value::Null);
    }

    /// Mean, median, deviation and percentiles under one name.
    fn latency(&mut self, key: &str, summary: &Summary) {
        json::add_latency(&mut self.members, key, summary);
    }

    /// The latencies that were asked for, in the tools' order.
    fn latencies(&mut self) {
        let report = self.view.report;
        for metric in LatencyMetric::ALL.into_iter().filter(|it| report.percentile_metrics().contains(it)) {
            self.latency(metric.key(), report.metrics.overall.latency.summary(metric));
        }
    }

    fn options(&self) -> &'a MetricsOptions {
        &self.view.report.metrics.options
    }
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.members.len()))?;
        for (key, value) in &self.members {
            map.serialize_key(key)?;
            match self.columns.iter().find(|column| column.key() == key) {
                Some(&column) => map.serialize_value(&Cells { column, view: self.view })?,
                None => map.serialize_value(value)?,
            }
        }
        map.end()
    }
}

/// A column with what it is made from.
struct Cells<'a> {
    column: Column,
    view: View<'a>,
}

impl Cells<'_> {
    /// Seconds from milliseconds of one latency; 0 where there was no answer.
    fn seconds<S: Serializer>(&self, serializer: S, of: fn(&RequestLatency) -> Option<f64>) -> Result<S::Ok, S::Error> {
        let options = &self.view.report.metrics.options;
        let cell = |sample: &Sample<'_>| or_zero(sample, of(&sample.latency(options)).map(|ms| ms / MS_PER_S));
        serializer.collect_seq(self.view.samples.iter().map(cell))
    }

    fn gaps<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let options = &self.view.report.metrics.options;
        let gaps = |sample: &Sample<'_>| -> Vec<f64> {
            if sample.streamed(options) {
                chunk_gaps_ms(&sample.chunks_ns()).map(|gap| gap / MS_PER_S).collect()
            } else {
                Vec::new()
            }
        };
        serializer.collect_seq(self.view.samples.iter().map(gaps))
    }

    fn texts<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sequence = serializer.serialize_seq(Some(self.view.samples.len()))?;
        for place in 0..self.view.samples.len() {
            sequence.serialize_element(&self.answer(place).map_err(S::Error::custom)?)?;
        }
        sequence.end()
    }

    /// The script's records, with today's verdicts.
    fn outputs<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Output<'a> {
            generated: String,
            expected: Option<&'a str>,
            correctness: Option<bool>,
        }
        let mut sequence = serializer.serialize_seq(Some(self.view.samples.len()))?;
        for (place, sample) in self.view.samples.iter().enumerate() {
            let generated = self.answer(place).map_err(S::Error::custom)?;
            let expected = sample.question().completion.as_deref();
            sequence.serialize_element(&Output { generated, expected, correctness: is_correct(sample.verdict()) })?;
        }
        sequence.end()
    }

    fn answer(&self, place: usize) -> Result<String, crate::error::Error> {
        (self.view.answer)(place)
    }
}

impl Serialize for Cells<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let samples = self.view.samples;
        match self.column {
            Column::InputLens => serializer.collect_seq(samples.iter().map(|it| it.tokens().input)),
            Column::OutputLens => {
                let tokens = |it: &Sample<'_>| if it.outcome().is_answer() { it.tokens().output } else { Some(0) };
                serializer.collect_seq(samples.iter().map(tokens))
            }
            Column::Ttfts => self.seconds(serializer, |it| it.ttft_ms),
            Column::Itls => self.gaps(serializer),
            Column::Latencies => self.seconds(serializer, |it| it.e2el_ms),
            Column::StartTimes => {
                let sent = |it: &Sample<'_>| or_zero(it, it.moments().sent_ns.map(|at_ns| at_ns as f64 / NS_PER_S));
                serializer.collect_seq(samples.iter().map(sent))
            }
            Column::QueueTimes => self.seconds(serializer, |it| it.schedule_lag_ms),
            Column::GeneratedTexts => self.texts(serializer),
            Column::Errors => serializer.collect_seq(samples.iter().map(|it| failure_words(it.outcome()))),
            Column::Outputs => self.outputs(serializer),
        }
    }
}

/// What is known; 0 where a request without an answer left nothing to know.
fn or_zero(sample: &Sample<'_>, known: Option<f64>) -> Option<f64> {
    known.or_else(|| (!sample.outcome().is_answer()).then_some(0.0))
}

/// Requests that got an answer.
fn answered<'s, 'a>(samples: &'s [Sample<'a>]) -> impl Iterator<Item = &'s Sample<'a>> {
    samples.iter().filter(|it| it.outcome().is_answer())
}
