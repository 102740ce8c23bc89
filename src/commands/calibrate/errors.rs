//! Compares the latencies that a client reported with those of the server.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use sobench_results::metrics::client_overhead::Bounds;
use sobench_results::metrics::registry::{Figure, Metric, latencies, totals};
use sobench_statistics::{Summary, percentile};

use super::Load;

/// The server's record of one request. Instants are by its clock, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The id at the start of the answer's text, so that any client that saves texts can be
    /// compared.
    pub id: u64,
    /// When the last byte of the request arrived.
    pub arrived_ns: u64,
    /// When each token was written.
    pub written_ns: Vec<u64>,
    /// When the end of the answer was written.
    pub ended_ns: u64,
}

/// The client's report of one request, in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Reported {
    pub id: u64,
    pub ttft_ms: f64,
    pub itls_ms: Vec<f64>,
}

/// Mean and percentiles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

/// Reported minus true values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Requests in both the report and the log.
    pub matched: usize,
    /// Requests that the server answered and the client did not report.
    pub missing: usize,
    /// Reported TTFT minus the server's, per request.
    pub ttft_error: Spread,
    /// The server's TTFT, for scale.
    pub server_ttft: Spread,
    /// 99th percentile of all reported ITLs minus that of the server's.
    pub itl_p99_difference_ms: Option<f64>,
    /// The bounds of figures whose true value is known; empty for other clients.
    pub bounds: Vec<CheckedBound>,
}

/// The bound of a figure, and its real error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CheckedBound {
    pub figure: Figure,
    /// The most that the client can have added, as it reported.
    pub bound: f64,
    /// The reported value minus that of the server.
    pub error: f64,
}

/// What a client saved.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Saved {
    pub requests: Vec<Reported>,
    /// Empty for other clients.
    pub bounds: Bounds,
}

impl CheckedBound {
    /// Whether the bound covers the error.
    pub fn covers(&self) -> bool {
        self.error.abs() <= self.bound
    }
}

/// Compares the reports with the records; `None` if they have no request in common.
pub fn compare(records: &[Record], saved: &Saved, load: Load) -> Option<Compared> {
    let by_id: HashMap<u64, &Record> = records.iter().map(|record| (record.id, record)).collect();
    let mut errors = Vec::new();
    let (mut server, mut reported_itls) = (Truth::default(), Vec::new());
    for report in &saved.requests {
        let Some((record, first)) = by_id
            .get(&report.id)
            .and_then(|record| Some((record, record.written_ns.first()?)))
        else {
            continue;
        };
        errors.push(report.ttft_ms - ms(record.arrived_ns, *first));
        server.add(record);
        reported_itls.extend_from_slice(&report.itls_ms);
    }
    let matched = errors.len();
    let bounds = server.check(&saved.bounds, load);
    let (reported_p99, server_p99) = (p99(&mut reported_itls), p99(&mut server.itls_ms));
    Some(Compared {
        matched,
        missing: records.len().saturating_sub(matched),
        itl_p99_difference_ms: reported_p99
            .zip(server_p99)
            .map(|(report, server)| report - server),
        ttft_error: Spread::from_values(errors)?,
        server_ttft: Spread::from_values(server.ttfts_ms)?,
        bounds,
    })
}

/// The server's own latencies.
#[derive(Default)]
struct Truth {
    ttfts_ms: Vec<f64>,
    e2els_ms: Vec<f64>,
    tpots_ms: Vec<f64>,
    itls_ms: Vec<f64>,
    /// Arrival and duration of each request.
    requests_ns: Vec<(u64, u64)>,
}

impl Truth {
    fn add(&mut self, record: &Record) {
        let Record {
            arrived_ns,
            written_ns,
            ended_ns,
            ..
        } = record;
        let duration_ns = ended_ns.saturating_sub(*arrived_ns);
        self.requests_ns.push((*arrived_ns, duration_ns));
        let (Some(first), Some(last)) = (written_ns.first(), written_ns.last()) else {
            return;
        };
        self.ttfts_ms.push(ms(*arrived_ns, *first));
        self.e2els_ms.push(ms(*arrived_ns, *last));
        let gaps = written_ns.windows(2).map(|pair| ms(pair[0], pair[1]));
        self.itls_ms.extend(gaps);
        if written_ns.len() > 1 {
            let gaps = (written_ns.len() - 1) as f64;
            self.tpots_ms.push(ms(*first, *last) / gaps);
        }
    }

    /// The duration of all requests, in the order of their arrival, without gaps in any stream.
    fn busy_ns(&self, streams: usize) -> u64 {
        let mut requests_ns = self.requests_ns.clone();
        requests_ns.sort_unstable();
        let mut free_ns: BinaryHeap<Reverse<u64>> = vec![Reverse(0); streams].into();
        let mut busy_ns = 0;
        for (_, duration_ns) in requests_ns {
            let start_ns = free_ns.pop().map_or(0, |Reverse(ns)| ns);
            busy_ns = busy_ns.max(start_ns + duration_ns);
            free_ns.push(Reverse(start_ns + duration_ns));
        }
        busy_ns
    }

    /// The known bounds of the figures whose true value is known.
    fn check(&self, bounds: &Bounds, load: Load) -> Vec<CheckedBound> {
        let checked = bounds.iter().filter_map(|bound| {
            Some(CheckedBound {
                figure: bound.figure,
                bound: bound.added?,
                error: bound.value - self.figure(bound.figure, load)?,
            })
        });
        checked.collect()
    }

    /// The figure of a client that adds nothing; `None` if it is unknown.
    ///
    /// With a rate, each request is sent when it is due, so that latencies from due are those from
    /// sent. With streams, each request is sent when another one ends.
    fn figure(&self, figure: Figure, load: Load) -> Option<f64> {
        let is = |metrics: &[&Metric]| metrics.contains(&figure.metric);
        if is(&[&totals::REQUEST_THROUGHPUT]) {
            let Load::Streams(streams) = load else {
                return None;
            };
            let busy_s = self.busy_ns(streams) as f64 / 1e9;
            return (busy_s > 0.0).then(|| self.requests_ns.len() as f64 / busy_s);
        }
        let with_due = matches!(load, Load::PerSecond(_));
        let values = if is(&[&latencies::TTFT]) || with_due && is(&[&latencies::TTFT_FROM_DUE]) {
            &self.ttfts_ms
        } else if is(&[&latencies::E2EL]) || with_due && is(&[&latencies::E2EL_FROM_DUE]) {
            &self.e2els_ms
        } else if is(&[&latencies::TPOT]) {
            &self.tpots_ms
        } else if is(&[&latencies::ITL]) {
            &self.itls_ms
        } else {
            return None;
        };
        let percent = figure.stat?.percent();
        let summary = Summary::new(values.clone(), percent.as_slice());
        match percent {
            Some(percent) => summary.at(percent),
            None => summary.mean,
        }
    }
}

/// Reads a client's saved result: `ttfts` and `itls` in seconds, and the texts as `generated_texts`
/// or `outputs[].generated`, as `vllm bench serve`, vllm-bench and sobench write them. The error is
/// a message.
pub fn read_saved(saved: &Value) -> Result<Saved, String> {
    let list = |name: &str| {
        saved
            .get(name)
            .and_then(Value::as_array)
            .ok_or_else(|| format!("the saved result has no list {name}"))
    };
    let (ttfts, itls) = (list("ttfts")?, list("itls")?);
    let texts: Vec<Option<&str>> = match saved.get("generated_texts").and_then(Value::as_array) {
        Some(texts) => texts.iter().map(Value::as_str).collect(),
        None => list("outputs")?
            .iter()
            .map(|output| output.get("generated").and_then(Value::as_str))
            .collect(),
    };
    if ttfts.len() != itls.len() || ttfts.len() != texts.len() {
        return Err(format!(
            "the saved result has {} ttfts, {} itls and {} texts",
            ttfts.len(),
            itls.len(),
            texts.len()
        ));
    }
    let parse = |((ttft, itls), text): ((&Value, &Value), &Option<&str>)| {
        let itls = itls
            .as_array()?
            .iter()
            .filter_map(Value::as_f64)
            .map(|itl_s| itl_s * 1e3)
            .collect();
        Some(Reported {
            id: id_in((*text)?)?,
            ttft_ms: ttft.as_f64()? * 1e3,
            itls_ms: itls,
        })
    };
    let bounds = saved.pointer("/sobench/client/bounds").cloned();
    Ok(Saved {
        requests: ttfts
            .iter()
            .zip(itls)
            .zip(&texts)
            .filter_map(parse)
            .collect(),
        bounds: bounds
            .and_then(|bounds| serde_json::from_value(bounds).ok())
            .unwrap_or_default(),
    })
}

/// The first token of an answer, which contains the id.
pub fn first_token(id: u64) -> String {
    format!("#{id} ")
}

fn id_in(text: &str) -> Option<u64> {
    text.trim_start()
        .strip_prefix('#')?
        .split(' ')
        .next()?
        .parse()
        .ok()
}

impl Spread {
    /// `None` without values.
    pub fn from_values(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        Some(Self {
            mean_ms: values.iter().sum::<f64>() / values.len() as f64,
            p50_ms: percentile(&values, 50.0)?,
            p99_ms: percentile(&values, 99.0)?,
            max_ms: *values.last()?,
        })
    }
}

fn p99(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    percentile(values, 99.0)
}

fn ms(from_ns: u64, to_ns: u64) -> f64 {
    (to_ns as f64 - from_ns as f64) / 1e6
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(id: u64, arrived_ms: u64, written_ms: &[u64]) -> Record {
        let ns = |ms: &u64| ms * 1_000_000;
        Record {
            id,
            arrived_ns: ns(&arrived_ms),
            written_ns: written_ms.iter().map(ns).collect(),
            ended_ns: written_ms.iter().max().map_or(0, ns),
        }
    }

    #[test]
    fn errors_are_reported_minus_true_values() {
        let records = [
            record(0, 10, &[60, 70, 80]),
            record(1, 20, &[80, 90]),
            record(2, 20, &[70]),
        ];
        let saved = json!({
            "ttfts": [0.0625, 0.051, null],
            "itls": [[0.010], [0.010, 0.012], []],
            "outputs": [{"generated": "#1 a"}, {"generated": "#0 a b"}, {"generated": ""}],
        });
        let load = Load::Streams(2);
        let compared = compare(&records, &read_saved(&saved).unwrap(), load).unwrap();
        assert_eq!((compared.matched, compared.missing), (2, 1));
        assert!(
            (compared.ttft_error.mean_ms - 1.75).abs() < 1e-9,
            "{compared:?}"
        );
        assert!(
            (compared.ttft_error.max_ms - 2.5).abs() < 1e-9,
            "{compared:?}"
        );
        assert!(
            (compared.itl_p99_difference_ms.unwrap() - 1.96).abs() < 1e-9,
            "{compared:?}"
        );
        assert_eq!(compared.server_ttft.p50_ms, 55.0);
        assert_eq!(compare(&records, &Saved::default(), load), None);
    }

    #[test]
    fn bounds_are_compared_with_the_server() {
        let records = [record(0, 10, &[60, 70, 80]), record(1, 20, &[72, 80])];
        let bound = |figure: &str, value: f64, added: f64| json!({"figure": figure, "value": value, "added": added});
        let saved = json!({
            "ttfts": [0.0625, 0.051],
            "itls": [[0.010], [0.010, 0.012]],
            "outputs": [{"generated": "#1 a"}, {"generated": "#0 a b"}],
            "sobench": {"client": {"bounds": [
                bound("mean_ttft_ms", 51.5, 0.4),
                bound("median_itl_ms", 10.25, 0.3),
                bound("p99_e2el_ms", 71.0, 2.0),
                bound("mean_ttft_from_due_ms", 52.0, 2.0),
                bound("request_throughput", 15.0, 1.0),
            ]}},
        });
        let checked = |load| {
            let compared = compare(&records, &read_saved(&saved).unwrap(), load).unwrap();
            let rows = compared.bounds.iter();
            let shown = rows.map(|one| (one.figure.to_string(), one.error, one.covers()));
            shown.collect::<Vec<_>>()
        };
        let own = |figure: &str, error: f64, covered| (figure.to_owned(), error, covered);
        let latencies = [
            own("mean_ttft_ms", 0.5, false),
            own("median_itl_ms", 0.25, true),
            own("p99_e2el_ms", 71.0 - 69.9, true),
        ];
        let near = |found: Vec<(String, f64, bool)>, expected: &[(String, f64, bool)]| {
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert_eq!((&found.0, found.2), (&expected.0, expected.2));
                assert!((found.1 - expected.1).abs() < 1e-9, "{found:?}");
            }
        };
        // One stream that is busy for 130 ms.
        let streams = own("request_throughput", 15.0 - 2.0 / 0.13, true);
        near(
            checked(Load::Streams(1)),
            &[&latencies[..], &[streams]].concat(),
        );
        let from_due = own("mean_ttft_from_due_ms", 1.0, true);
        near(
            checked(Load::PerSecond(5.0)),
            &[&latencies[..], &[from_due]].concat(),
        );
    }

    #[test]
    fn results_of_every_client_are_read() {
        let vllm = json!({"ttfts": [0.5], "itls": [[]], "generated_texts": [format!("{}x", first_token(7))]});
        assert_eq!(
            read_saved(&vllm).map(|saved| saved.requests),
            Ok(vec![Reported {
                id: 7,
                ttft_ms: 500.0,
                itls_ms: vec![]
            }])
        );
        for (saved, expected) in [
            (json!({}), "the saved result has no list ttfts"),
            (
                json!({"ttfts": [], "itls": []}),
                "the saved result has no list outputs",
            ),
            (
                json!({"ttfts": [1], "itls": [], "generated_texts": []}),
                "the saved result has 1 ttfts, 0 itls and 0 texts",
            ),
        ] {
            assert_eq!(read_saved(&saved), Err(expected.to_owned()));
        }
    }
}
