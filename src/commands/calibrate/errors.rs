//! Compares the latencies that a client reported with those of the server.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::iter::zip;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use sobench_results::metrics::client_overhead::Bounds;
use sobench_results::metrics::registry::{Figure, Metric, latencies, totals};
use sobench_statistics::{Summary, percentile};

use super::Load;
use super::server::Timetable;

/// The server's record of one request. Instants are by its clock, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The id at the start of the answer's text, so that any client that saves texts can be
    /// compared.
    pub id: u64,
    /// When the last byte of the request arrived.
    pub arrived_ns: u64,
    /// Whether the kernel took that instant.
    pub is_arrival_stamped: bool,
    /// Right before the system call that wrote each token.
    pub written_ns: Vec<u64>,
    /// Right after that call. The token left in between.
    pub write_ends_ns: Vec<u64>,
    /// Right before and right after the system call that wrote the end of the answer.
    pub ended_ns: u64,
    pub end_written_ns: u64,
}

impl Record {
    /// The time from when each token was due until the call that wrote it.
    pub fn late_ms(&self, timetable: Timetable) -> impl Iterator<Item = f64> + '_ {
        let written = self.written_ns.iter().enumerate();
        written.map(move |(number, at_ns)| ms(self.arrived_ns, *at_ns) - timetable.due_ms(number))
    }
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
    /// 99th percentile of the absolute errors of single ITLs, from the nearest value that agrees
    /// with the server's record.
    pub itl_error_p99_ms: Option<f64>,
    /// Share of the ITLs, 0 to 1, that were reported as less than `JOINED_SHARE` of the server's.
    pub joined: Option<f64>,
    /// The bounds of figures whose true value is known; empty for other clients.
    pub bounds: Vec<CheckedBound>,
}

/// The bound of a figure, and its real error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CheckedBound {
    pub figure: Figure,
    /// The most that the client can have added, as it reported.
    pub bound: f64,
    /// The reported value minus the nearest one that agrees with the server's record.
    pub error: f64,
}

/// A token that is reported within this share of the server's ITL after the one before was read
/// together with it.
const JOINED_SHARE: f64 = 0.1;

/// ITLs of the server that are shorter are not counted as apart.
const APART_MS: f64 = 1.0;

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
    let mut gaps = Gaps::default();
    for report in &saved.requests {
        let Some((record, first)) = by_id
            .get(&report.id)
            .and_then(|record| Some((record, record.written_ns.first()?)))
        else {
            continue;
        };
        errors.push(report.ttft_ms - ms(record.arrived_ns, *first));
        server.add(record);
        gaps.add(&report.itls_ms, record);
        reported_itls.extend_from_slice(&report.itls_ms);
    }
    let matched = errors.len();
    let bounds = server.check(&saved.bounds, load);
    let (reported_p99, server_p99) = (p99(&mut reported_itls), p99(&mut server.starts_itl_ms));
    Some(Compared {
        matched,
        missing: records.len().saturating_sub(matched),
        itl_p99_difference_ms: reported_p99
            .zip(server_p99)
            .map(|(report, server)| report - server),
        itl_error_p99_ms: p99(&mut gaps.errors_ms),
        joined: (gaps.apart > 0).then(|| gaps.joined as f64 / gaps.apart as f64),
        ttft_error: Spread::from_values(errors)?,
        server_ttft: Spread::from_values(server.ttfts.least_ms)?,
        bounds,
    })
}

/// The gaps between tokens, one by one.
#[derive(Default)]
struct Gaps {
    errors_ms: Vec<f64>,
    /// Gaps of at least [`APART_MS`] at the server.
    apart: usize,
    /// Those that the client reported as nearly none.
    joined: usize,
}

impl Gaps {
    /// Adds the gaps of one request, unless the client reported another number of them.
    fn add(&mut self, reported_ms: &[f64], record: &Record) {
        let ranges_ms = gap_ranges_ms(record);
        if reported_ms.len() != ranges_ms.len() {
            return;
        }
        for (reported_ms, [least_ms, most_ms]) in zip(reported_ms, ranges_ms) {
            let nearest_ms = reported_ms.clamp(least_ms, most_ms);
            self.errors_ms.push((reported_ms - nearest_ms).abs());
            if least_ms >= APART_MS {
                self.apart += 1;
                self.joined += usize::from(*reported_ms < JOINED_SHARE * least_ms);
            }
        }
    }
}

/// The least and the most that each gap between two tokens can be, in milliseconds: from the end of
/// one call to the start of the next one, and the other way round.
fn gap_ranges_ms(record: &Record) -> Vec<[f64; 2]> {
    let (starts, ends) = (&record.written_ns, &record.write_ends_ns);
    let next = zip(starts, ends).skip(1);
    zip(zip(starts, ends), next)
        .map(|((start, end), (next_start, next_end))| {
            [ms(*end, *next_start), ms(*start, *next_end)]
        })
        .collect()
}

/// The server's own latencies. A token leaves during a system call, so each has a range.
#[derive(Default)]
struct Truth {
    ttfts: Ranges,
    e2els: Ranges,
    tpots: Ranges,
    itls: Ranges,
    /// From the start of a call to the start of the next one.
    starts_itl_ms: Vec<f64>,
    /// Arrival, and the least and the most that the request can have taken.
    requests_ns: Vec<(u64, [u64; 2])>,
}

/// The least and the most that each value can be, in milliseconds.
#[derive(Default)]
struct Ranges {
    least_ms: Vec<f64>,
    most_ms: Vec<f64>,
}

impl Ranges {
    fn push(&mut self, least_ms: f64, most_ms: f64) {
        self.least_ms.push(least_ms);
        self.most_ms.push(most_ms);
    }

    /// The range of a statistic, which grows with each value.
    fn statistic(&self, percent: Option<f64>) -> Option<(f64, f64)> {
        let of = |values: &[f64]| {
            let summary = Summary::new(values.to_vec(), percent.as_slice());
            match percent {
                Some(percent) => summary.at(percent),
                None => summary.mean,
            }
        };
        of(&self.least_ms).zip(of(&self.most_ms))
    }
}

impl Truth {
    fn add(&mut self, record: &Record) {
        let Record {
            arrived_ns,
            written_ns,
            write_ends_ns,
            ended_ns,
            end_written_ns,
            ..
        } = record;
        let durations_ns = [ended_ns, end_written_ns].map(|ns| ns.saturating_sub(*arrived_ns));
        self.requests_ns.push((*arrived_ns, durations_ns));
        let tokens: Vec<(u64, u64)> = zip(written_ns, write_ends_ns)
            .map(|(start, end)| (*start, *end))
            .collect();
        let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else {
            return;
        };
        self.ttfts
            .push(ms(*arrived_ns, first.0), ms(*arrived_ns, first.1));
        self.e2els
            .push(ms(*arrived_ns, last.0), ms(*arrived_ns, last.1));
        for [least_ms, most_ms] in gap_ranges_ms(record) {
            self.itls.push(least_ms, most_ms);
        }
        self.starts_itl_ms
            .extend(tokens.windows(2).map(|pair| ms(pair[0].0, pair[1].0)));
        if tokens.len() > 1 {
            let gaps = (tokens.len() - 1) as f64;
            self.tpots
                .push(ms(first.1, last.0) / gaps, ms(first.0, last.1) / gaps);
        }
    }

    /// The duration of all requests, in the order of their arrival, without gaps in any stream: the
    /// least (`end` 0) or the most (`end` 1).
    fn busy_ns(&self, streams: usize, end: usize) -> u64 {
        let mut requests_ns = self.requests_ns.clone();
        requests_ns.sort_unstable();
        let mut free_ns: BinaryHeap<Reverse<u64>> = vec![Reverse(0); streams].into();
        let mut busy_ns = 0;
        for (_, durations_ns) in requests_ns {
            let duration_ns = durations_ns[end];
            let start_ns = free_ns.pop().map_or(0, |Reverse(ns)| ns);
            busy_ns = busy_ns.max(start_ns + duration_ns);
            free_ns.push(Reverse(start_ns + duration_ns));
        }
        busy_ns
    }

    /// The known bounds of the figures whose true value is known.
    fn check(&self, bounds: &Bounds, load: Load) -> Vec<CheckedBound> {
        let checked = bounds.iter().filter_map(|bound| {
            let (least, most) = self.figure(bound.figure, load)?;
            Some(CheckedBound {
                figure: bound.figure,
                bound: bound.added?,
                error: bound.value - bound.value.clamp(least, most),
            })
        });
        checked.collect()
    }

    /// The range of the figure of a client that adds nothing; `None` if it is unknown.
    ///
    /// With a rate, each request is sent when it is due, so that latencies from due are those from
    /// sent. With streams, each request is sent when another one ends.
    fn figure(&self, figure: Figure, load: Load) -> Option<(f64, f64)> {
        let is = |metrics: &[&Metric]| metrics.contains(&figure.metric);
        if is(&[&totals::REQUEST_THROUGHPUT]) {
            let Load::Streams(streams) = load else {
                return None;
            };
            let per_second = [1, 0].map(|end| {
                let busy_s = self.busy_ns(streams, end) as f64 / 1e9;
                self.requests_ns.len() as f64 / busy_s
            });
            let is_known = per_second.iter().all(|value| value.is_finite());
            return is_known.then_some(per_second.into());
        }
        let with_due = matches!(load, Load::PerSecond(_));
        let ranges = if is(&[&latencies::TTFT]) || with_due && is(&[&latencies::TTFT_FROM_DUE]) {
            &self.ttfts
        } else if is(&[&latencies::E2EL]) || with_due && is(&[&latencies::E2EL_FROM_DUE]) {
            &self.e2els
        } else if is(&[&latencies::TPOT]) {
            &self.tpots
        } else if is(&[&latencies::ITL]) {
            &self.itls
        } else {
            return None;
        };
        ranges.statistic(figure.stat?.percent())
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

/// The 99th percentile; sorts the values.
pub fn p99(values: &mut [f64]) -> Option<f64> {
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
            is_arrival_stamped: true,
            written_ns: written_ms.iter().map(ns).collect(),
            write_ends_ns: written_ms.iter().map(ns).collect(),
            ended_ns: written_ms.iter().max().map_or(0, ns),
            end_written_ns: written_ms.iter().max().map_or(0, ns),
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
    fn gaps_are_compared_one_by_one() {
        let mut records = [record(0, 10, &[60, 70, 80]), record(1, 10, &[60, 70])];
        records[1].write_ends_ns[1] = 72_000_000;
        let saved = |itls: Value| {
            let texts = [0, 1].map(|id| json!({"generated": first_token(id)}));
            read_saved(&json!({"ttfts": [0.05, 0.05], "itls": itls, "outputs": texts})).unwrap()
        };
        let compared = |itls| compare(&records, &saved(itls), Load::Streams(2)).unwrap();
        // The second token was read with the third one; 11 ms agree with a call of 2 ms.
        let found = compared(json!([[0.020, 0.0], [0.011]]));
        assert!((found.itl_error_p99_ms.unwrap() - 10.0).abs() < 1e-9);
        assert_eq!(found.joined, Some(1.0 / 3.0));
        // A client that reports fewer tokens than were sent has no single gaps to compare.
        let found = compared(json!([[0.020], []]));
        assert_eq!((found.itl_error_p99_ms, found.joined), (None, None));
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
    fn values_that_agree_with_a_record_are_no_errors() {
        let mut records = [record(0, 10, &[60, 70])];
        records[0].write_ends_ns = vec![62_000_000, 75_000_000];
        records[0].end_written_ns = 80_000_000;
        let error = |figure: &str, value: f64| {
            let saved = json!({
                "ttfts": [0.05],
                "itls": [[0.010]],
                "outputs": [{"generated": "#0 a"}],
                "sobench": {"client": {"bounds": [{"figure": figure, "value": value, "added": 1.0}]}},
            });
            let saved = read_saved(&saved).unwrap();
            let compared = compare(&records, &saved, Load::Streams(1)).unwrap();
            compared.bounds[0].error
        };
        for (figure, value, expected) in [
            ("mean_ttft_ms", 51.0, 0.0),
            ("mean_ttft_ms", 54.0, 2.0),
            ("mean_ttft_ms", 49.0, -1.0),
            ("median_e2el_ms", 66.0, 1.0),
            ("median_itl_ms", 7.0, -1.0),
            ("median_itl_ms", 15.0, 0.0),
            ("mean_tpot_ms", 16.0, 1.0),
            ("request_throughput", 1e3 / 65.0, 0.0),
            ("request_throughput", 1e3 / 50.0, 1e3 / 50.0 - 1e3 / 60.0),
        ] {
            let found = error(figure, value);
            assert!((found - expected).abs() < 1e-9, "{figure} {value}: {found}");
        }
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
