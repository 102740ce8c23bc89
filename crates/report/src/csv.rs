//! One CSV line per request (RFC 4180, with a header, UTF-8). A cell without data is empty. Texts
//! of answers are in the run log and in the JSON of `--save-detailed`.

use std::io::Write;

use super::view::View;
use crate::format::cannot_write;
use sobench_core::error::Result;
use sobench_core::observation::failure_message;
use sobench_core::printable::cut;
use sobench_core::verdict::Verdict;
use sobench_facts::RequestTimes;
use sobench_facts::latency::{RequestLatency, chunk_gaps_ms};
use sobench_facts::{Sample, TokenSource, Tokens};
use sobench_plan::metrics::MetricsSettings;
use sobench_render::csv::{write_row, writer};
use sobench_results::metrics::registry::{Figure, Metric, MetricKind};

/// The data of one line.
struct Line<'s, 'a> {
    sample: &'s Sample<'a>,
    timing: RequestTimes,
    latency: RequestLatency,
    tokens: Tokens,
    /// Gaps between chunks, in milliseconds.
    gaps: Vec<f64>,
    /// The name of the verdict, the name of its reason, and the message.
    verdict: (&'static str, &'static str, String),
}

type Cell = fn(&Line<'_, '_>) -> String;

/// The type of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    Text,
    Integer,
    Number,
    Boolean,
}

use ColumnType::{Boolean, Integer, Number, Text};

/// The fixed columns (documented in docs/reports.md); the other metrics follow ([`metrics`]).
const COLUMNS: [(&str, ColumnType, Cell); 29] = [
    ("index", Integer, |line| {
        line.sample.case_index().to_string()
    }),
    ("case", Text, |line| line.sample.id()),
    ("arm", Text, |line| line.sample.arm().name().to_owned()),
    ("kind", Text, |line| {
        line.sample
            .constraint()
            .map(|constraint| constraint.kind().to_owned())
            .unwrap_or_default()
    }),
    ("tags", Text, |line| {
        line.sample.request_input().tags.join(";")
    }),
    ("outcome", Text, |line| {
        line.sample.outcome().name().to_owned()
    }),
    ("verdict", Text, |line| line.verdict.0.to_owned()),
    ("reason", Text, |line| line.verdict.1.to_owned()),
    ("detail", Text, |line| {
        cut(&line.verdict.2, DETAIL_MAX_BYTES).to_owned()
    }),
    ("finish_reason", Text, |line| {
        line.sample.finish_reason().unwrap_or_default().to_owned()
    }),
    ("streamed", Boolean, |line| line.timing.streamed.to_string()),
    ("due_s", Number, |line| seconds(Some(line.timing.due_ns))),
    ("sent_s", Number, |line| seconds(line.timing.sent_ns)),
    ("end_s", Number, |line| seconds(line.timing.end_ns)),
    ("ttft_ms", Number, |line| number(line.latency.ttft_ms)),
    ("tpot_ms", Number, |line| number(line.latency.tpot_ms)),
    ("itl_mean_ms", Number, |line| number(line.mean_gap())),
    ("itl_max_ms", Number, |line| {
        number(line.gaps.iter().copied().reduce(f64::max))
    }),
    ("e2el_ms", Number, |line| number(line.latency.e2el_ms)),
    ("ttft_from_due_ms", Number, |line| {
        number(line.latency.ttft_from_due_ms)
    }),
    ("e2el_from_due_ms", Number, |line| {
        number(line.latency.e2el_from_due_ms)
    }),
    ("schedule_lag_ms", Number, |line| {
        number(line.latency.schedule_lag_ms)
    }),
    ("chunks", Integer, |line| line.timing.chunks.to_string()),
    ("input_tokens", Integer, |line| number(line.tokens.input)),
    ("input_tokens_source", Text, |line| {
        source(line.tokens.input_source).to_owned()
    }),
    ("output_tokens", Integer, |line| number(line.tokens.output)),
    ("output_tokens_source", Text, |line| {
        source(line.tokens.output_source).to_owned()
    }),
    ("item", Integer, |line| number(line.sample.item())),
    ("grade", Text, |line| {
        line.sample
            .grade()
            .map_or_else(String::new, |grade| grade.name().to_owned())
    }),
];

/// Names of the fixed columns, in order.
pub fn column_names() -> impl Iterator<Item = &'static str> {
    COLUMNS.iter().map(|(name, ..)| *name)
}

/// All columns, in order, with the types of their values.
pub fn columns() -> Vec<(String, ColumnType)> {
    let fixed = COLUMNS
        .iter()
        .map(|(name, kind, _)| ((*name).to_owned(), *kind));
    let others = metrics()
        .into_iter()
        .map(|(figure, name)| match figure.metric.kind {
            MetricKind::Rate(_) => (name, Boolean),
            _ => (name, Number),
        });
    fixed.chain(others).collect()
}

/// Bytes at most of a failure message.
const DETAIL_MAX_BYTES: usize = 400;

/// Writes every request, in plan order.
///
/// # Errors
/// The output cannot be written.
pub fn write(view: &View<'_>, out: &mut dyn Write) -> Result<()> {
    let mut file = writer(out);
    let gave_out = |error: csv::Error| cannot_write(&error.into());
    let metrics = metrics();
    let names = metrics.iter().map(|(_, name)| name.clone());
    write_row(&mut file, column_names().map(str::to_owned).chain(names)).map_err(gave_out)?;
    let options = &view.report.metrics.options;
    for sample in view.samples {
        let line = Line::new(sample, options);
        let values = metrics
            .iter()
            .map(|(figure, _)| figure.of_request(sample, options).unwrap_or_default());
        let fixed = COLUMNS.into_iter().map(|(_, _, cell)| cell(&line));
        write_row(&mut file, fixed.chain(values)).map_err(gave_out)?;
    }
    file.flush().map_err(|error| cannot_write(&error))
}

/// Metrics of single requests that no fixed column has, with their column names. A pooled metric is
/// the mean of its values.
fn metrics() -> Vec<(Figure, String)> {
    let name = |figure: Figure| match figure.metric.kind {
        MetricKind::Rate(_) | MetricKind::Distribution { .. } => Some(figure.to_string()),
        MetricKind::Pooled(_) => Some(format!(
            "{}_mean_ms",
            figure.metric.name.trim_end_matches("_ms")
        )),
        MetricKind::PerSecond(_) | MetricKind::Total(_) => None,
    };
    let figures = Metric::ALL.iter().flat_map(|metric| Figure::all_of(metric));
    let named = figures.filter_map(|figure| Some((figure, name(figure)?)));
    named
        .filter(|(_, name)| column_names().all(|column| column != name))
        .collect()
}

impl<'s, 'a> Line<'s, 'a> {
    fn new(sample: &'s Sample<'a>, options: &MetricsSettings) -> Self {
        Self {
            sample,
            timing: sample.request_times(),
            latency: sample.latency(options),
            tokens: sample.tokens(),
            gaps: if sample.streamed(options) {
                chunk_gaps_ms(&sample.chunks_ns()).collect()
            } else {
                Vec::new()
            },
            verdict: verdict(sample),
        }
    }

    fn mean_gap(&self) -> Option<f64> {
        (!self.gaps.is_empty()).then(|| self.gaps.iter().sum::<f64>() / self.gaps.len() as f64)
    }
}

/// The name of the verdict, the name of its reason, and the message.
fn verdict(sample: &Sample<'_>) -> (&'static str, &'static str, String) {
    let failure = failure_message(sample.outcome());
    let or_failure = |message: String| {
        if failure.is_empty() {
            message
        } else {
            failure.clone()
        }
    };
    match sample.verdict() {
        Verdict::Valid => ("valid", "", String::new()),
        Verdict::Invalid { reason } => ("invalid", reason.name(), or_failure(reason.to_string())),
        Verdict::NotScored { why } => ("not_scored", why.name(), or_failure(why.to_string())),
    }
}

fn source(source: TokenSource) -> &'static str {
    match source {
        TokenSource::Server => "server",
        TokenSource::Tokenizer => "tokenizer",
        TokenSource::OtherTokenizer => "other_tokenizer",
        TokenSource::Unknown => "",
    }
}

/// The shortest decimal that parses to the same number.
fn number(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn seconds(at_ns: Option<u64>) -> String {
    number(at_ns.map(|ns| ns as f64 / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::testing::with_view;
    use sobench_core::case::Arm;
    use sobench_core::observation::Outcome;
    use sobench_core::verdict::{NotScored, Reason};
    use sobench_facts::testing::{TestRequest, test_request};
    use sobench_plan::record::testing::record;

    fn rendered(run: &[TestRequest<'_>]) -> String {
        let mut out = Vec::new();
        with_view(run, record(), |view| write(&view, &mut out)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_request_is_a_line() {
        let schema = Reason::Schema {
            keyword: "maximum".into(),
            instance_path: "/a".into(),
            schema_path: "/maximum".into(),
            message: "7, \"too\" large".into(),
        };
        let run = [
            TestRequest {
                due: 5,
                sent: Some(10),
                chunks: vec![20, 30, 60],
                end: Some(61),
                ..test_request()
            },
            TestRequest {
                verdict: Verdict::Invalid { reason: schema },
                finish_reason: None,
                ..test_request()
            },
            TestRequest {
                arm: Arm::Control,
                outcome: Outcome::Rejected {
                    status: 400,
                    body: "no\nno".into(),
                    advice: None,
                },
                verdict: Verdict::NotScored {
                    why: NotScored::Refused,
                },
                chunks: vec![],
                output: None,
                ..test_request()
            },
            TestRequest {
                arm: Arm::Free,
                streamed: false,
                chunks: vec![30, 30],
                verdict: Verdict::NotScored {
                    why: NotScored::NoConstraint,
                },
                ..test_request()
            },
        ];
        let file = rendered(&run);
        let lines: Vec<&str> = file.split("\r\n").collect();
        assert_eq!(lines[0].split(',').count(), COLUMNS.len() + metrics().len());
        assert_eq!(
            lines[1],
            "0,case-0,constrained,regex,,completed,valid,,,stop,true,0.005,0.01,0.061,10,20,20,30,50,15,55,5,3,7,server,3,server,,,true,,true,,true,true,,,,,,,,,,,,,,,,,,,,,,false,false,false,false,false,false,false,false,false,false,false,false,,,,,,false,,,,,,,,,,20,,,,,"
        );
        assert_eq!(
            lines[2..5],
            [
                "1,case-1,constrained,regex,,completed,invalid,schema,\"breaks `maximum` at /a: 7, \"\"too\"\" large\",,true,0,0,0.031,10,10,10,10,30,10,30,0,3,7,server,3,server,,,false,,false,,true,true,,,,,,,,,,,,,,,,,,,,,,false,false,true,false,false,false,false,false,false,false,false,false,,,,,,false,,,,,,,,,,10,,,,,",
                "2,case-2,control,regex,,rejected,not_scored,refused,\"HTTP 400: no\nno\",stop,true,0,0,0.031,,,,,,,,0,0,7,server,,,,,,false,,,,true,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,",
                "3,case-3,free,,,completed,not_scored,no_constraint,the case has no constraint,stop,false,0,0,0.031,,,,,30,,30,0,2,7,server,3,server,,,,,,,,true,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,",
            ]
        );
    }

    #[test]
    fn a_run_without_requests_has_a_header() {
        assert!(rendered(&[]).starts_with(&format!(
            "{},correct_rate,",
            column_names().collect::<Vec<_>>().join(",")
        )));
    }

    #[test]
    fn every_metric_of_requests_has_a_column() {
        let header = rendered(&[]);
        let columns: Vec<&str> = header.trim_end().split(',').collect();
        for metric in Metric::ALL
            .iter()
            .filter(|metric| metric.is_rate() || metric.is_distribution())
        {
            let of_pooled = format!("{}_mean_ms", metric.name.trim_end_matches("_ms"));
            assert!(
                columns.contains(&metric.name) || columns.contains(&of_pooled.as_str()),
                "{metric:?}"
            );
        }
    }
}
