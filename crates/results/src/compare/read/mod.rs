//! Reads result files: results and baselines of sobench, and results of vLLM's two tools.

mod baseline;
mod exports;
mod outputs;
mod raw;
mod runlog;
mod sobench;
mod text;
mod texts;
mod vllm;

pub use baseline::{FORMAT_VERSION, contract as baseline_contract, write as write_baseline};
pub use runlog::{run_from_log, run_from_metrics};

use std::collections::{HashMap, HashSet};
use std::io::Read;

use serde_json::{Map, Value};

use self::raw::{NumberLists, Raw};
use self::text::JsonText;
use super::side::{FileKind, Run};
use crate::metrics::registry::{Figure, RequestValues, latencies};
use sobench_core::error::{Error, Result};
use sobench_core::input::json::DuplicateKeys;
use sobench_notices::notice::DatasetNotice;
use sobench_plan::record::condition::{Conditions, Field};

const MS_PER_S: f64 = 1000.0;

/// Maximum number of runs of one file (`--append-result` writes a line each).
pub const MAX_RUNS: usize = 1000;

/// Maximum number of requests of one run.
pub const MAX_REQUESTS: usize = 5_000_000;

/// Maximum number of gaps of one run.
pub const MAX_GAPS: usize = 100_000_000;

/// Reads the runs of a text; `file` is the name of its file for messages.
///
/// # Errors
/// Usage errors that name the file: not JSON, not a result, or above a limit.
pub fn parse_runs(file: &str, text: impl Read) -> Result<Vec<Run>> {
    let mut text = JsonText::new(text);
    let mut found = Vec::new();
    for raw in text.deserializer().into_iter::<Raw>() {
        let raw = raw.map_err(|error| no_result(file, &error.to_string()))?;
        if found.len() == MAX_RUNS {
            return Err(too_much(file, "runs", MAX_RUNS));
        }
        let number = found.len();
        found.push(Run {
            number,
            ..run(file, raw)?
        });
    }
    if found.is_empty() {
        return Err(Error::usage(format!("no result in this file: {file}"))
            .hint("check that the run was saved completely"));
    }
    let mut repeated = DuplicateKeys::default();
    repeated.add_scanned(text.into_keys(), |line| format!("{file}, line {line}"));
    found[0]
        .notices
        .extend(DatasetNotice::repeated_members(repeated).map(|notice| notice.to_string()));
    Ok(found)
}

/// The texts of the wanted answers of run `number` of a text, by their index.
///
/// # Errors
/// Usage error that names the file: it is no longer a result.
pub fn texts_of_run(
    file: &str,
    text: impl Read,
    number: usize,
    wanted: &HashSet<usize>,
) -> Result<HashMap<usize, String>> {
    texts::texts(text, number, wanted).map_err(|error| no_result(file, &error.to_string()))
}

/// The error for a file that is not a result.
pub(super) fn no_result(file: &str, why: &str) -> Error {
    Error::usage(format!("not a result ({why}): {file}")).hint(
        "give a run log, a file written by --save-result or --write-baseline, or a result of vLLM's tools",
    )
}

fn run(file: &str, raw: Raw) -> Result<Run> {
    let requests = raw.longest();
    let gaps = raw.itls.as_ref().map_or(0, NumberLists::count);
    if requests > MAX_REQUESTS || gaps > MAX_GAPS {
        let (what, limit) = if requests > MAX_REQUESTS {
            ("requests", MAX_REQUESTS)
        } else {
            ("gaps", MAX_GAPS)
        };
        return Err(too_much(file, what, limit));
    }
    match kind(&raw.rest, &raw) {
        Some(FileKind::SobenchBaseline) => baseline::read(file, raw),
        Some(FileKind::SobenchResult) => sobench::read(file, raw),
        Some(kind @ (FileKind::VllmBenchServe | FileKind::VllmScript)) => Ok(vllm::read(file, raw, kind)),
        Some(FileKind::Aiperf) => Ok(exports::read_aiperf(file, &raw.rest)),
        Some(FileKind::Guidellm) => exports::read_guidellm(file, &raw.rest),
        Some(FileKind::SobenchRunLog) | None => Err(Error::usage(format!("unknown result format: {file}"))
            .hint("give a result of sobench, of vLLM's benchmarks, of AIPerf (profile_export_aiperf.json) or of GuideLLM (benchmarks.json)")),
    }
}

/// Detects the tool that wrote a file from its keys.
fn kind(rest: &Map<String, Value>, raw: &Raw) -> Option<FileKind> {
    let has = |key: &str| rest.contains_key(key);
    if has(baseline::MARK) {
        return Some(FileKind::SobenchBaseline);
    }
    if rest.get("sobench").is_some_and(Value::is_object) {
        return Some(FileKind::SobenchResult);
    }
    if let Some(kind) = exports::kind(rest) {
        return Some(kind);
    }
    if !has("request_throughput") || !has("duration") {
        return None;
    }
    let script = has("correct_rate(%)") || raw.outputs.is_some() || has("ttft_description");
    Some(if script {
        FileKind::VllmScript
    } else {
        FileKind::VllmBenchServe
    })
}

fn too_much(file: &str, what: &str, limit: usize) -> Error {
    Error::usage(format!("more than {limit} {what}: {file}")).hint("compare fewer")
}

/// The top-level figures of a result, by the names of metrics.
fn figures(rest: &Map<String, Value>) -> std::collections::BTreeMap<String, f64> {
    let named = |(key, value): (&String, &Value)| {
        Some((Figure::parse(key).ok()?.to_string(), number(value)?))
    };
    rest.iter().filter_map(named).collect()
}

/// The conditions that a file has.
fn known(conditions: impl IntoIterator<Item = (Field, Option<String>)>) -> Conditions {
    let known = conditions.into_iter();
    known
        .filter_map(|(field, value)| Some((field, value?)))
        .collect()
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite())
}

/// A normalized setting: numbers as `f64` prints them, so that 1 and 1.0 are equal; `None` for
/// `null`.
fn normalized(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(
            number
                .as_f64()
                .map_or_else(|| number.to_string(), |number| number.to_string()),
        ),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => Some(value.to_string()),
    }
}

/// Sets the latencies of a request from its times in seconds; TPOT needs more than one token.
fn set_times(
    values: &mut RequestValues,
    ttft_s: Option<f64>,
    e2el_s: Option<f64>,
    tokens: Option<u64>,
) {
    let tpot_s = match (ttft_s, e2el_s, tokens) {
        (Some(first), Some(last), Some(tokens)) if tokens > 1 => {
            Some((last - first) / (tokens - 1) as f64)
        }
        _ => None,
    };
    for (metric, seconds) in [
        (&latencies::TTFT, ttft_s),
        (&latencies::TPOT, tpot_s),
        (&latencies::E2EL, e2el_s),
    ] {
        values.set_value(metric, seconds.map(|seconds| seconds * MS_PER_S));
    }
}
