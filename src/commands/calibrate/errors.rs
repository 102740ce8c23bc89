//! Compares the latencies that a client reported with those of the server.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use sobench_statistics::percentile;

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
}

/// Compares the reports with the records; `None` if they have no request in common.
pub fn compare(records: &[Record], reported: &[Reported]) -> Option<Compared> {
    let by_id: HashMap<u64, &Record> = records.iter().map(|record| (record.id, record)).collect();
    let mut errors = Vec::new();
    let (mut server_ttfts, mut server_itls, mut reported_itls) =
        (Vec::new(), Vec::new(), Vec::new());
    for report in reported {
        let Some((record, first)) = by_id
            .get(&report.id)
            .and_then(|record| Some((record, record.written_ns.first()?)))
        else {
            continue;
        };
        let ttft_ms = ms(record.arrived_ns, *first);
        errors.push(report.ttft_ms - ttft_ms);
        server_ttfts.push(ttft_ms);
        server_itls.extend(
            record
                .written_ns
                .windows(2)
                .map(|pair| ms(pair[0], pair[1])),
        );
        reported_itls.extend_from_slice(&report.itls_ms);
    }
    let matched = errors.len();
    let (reported_p99, server_p99) = (p99(&mut reported_itls), p99(&mut server_itls));
    Some(Compared {
        matched,
        missing: records.len().saturating_sub(matched),
        itl_p99_difference_ms: reported_p99
            .zip(server_p99)
            .map(|(report, server)| report - server),
        ttft_error: Spread::from_values(errors)?,
        server_ttft: Spread::from_values(server_ttfts)?,
    })
}

/// Reads a client's saved result: `ttfts` and `itls` in seconds, and the texts as `generated_texts`
/// or `outputs[].generated`, as `vllm bench serve`, vllm-bench and sobench write them. The error is
/// a message.
pub fn read_reports(saved: &Value) -> Result<Vec<Reported>, String> {
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
    Ok(ttfts
        .iter()
        .zip(itls)
        .zip(&texts)
        .filter_map(parse)
        .collect())
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
        let compared = compare(&records, &read_reports(&saved).unwrap()).unwrap();
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
        assert_eq!(compare(&records, &[]), None);
    }

    #[test]
    fn results_of_every_client_are_read() {
        let vllm = json!({"ttfts": [0.5], "itls": [[]], "generated_texts": [format!("{}x", first_token(7))]});
        assert_eq!(
            read_reports(&vllm),
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
            assert_eq!(read_reports(&saved), Err(expected.to_owned()));
        }
    }
}
