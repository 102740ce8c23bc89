//! Baselines: runs without texts, small enough for a repository (`sobench compare
//! --write-baseline`).
//!
//! One JSON object per run, with one line per column, so that changes give short diffs. Latencies
//! are rounded to a microsecond, times to a millisecond. Only the number and sum of gaps are kept,
//! which is enough to resample a mean, but not a percentile of gaps.

use std::collections::BTreeMap;
use std::path::Path;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::number;
use super::raw::Raw;
use crate::compare::measure::figure;
use crate::compare::requests::{Gaps, Request, RequestView, Requests};
use crate::compare::side::{FileKind, Run, SavedMean, Side};
use crate::metrics::registry::{Figure, Metric, MetricKind, RequestValues, rates};
use sobench_core::case::Arm;
use sobench_core::error::{Error, Result};
use sobench_core::json_struct;
use sobench_plan::record::condition::Conditions;
use sobench_statistics::contrast::Share;

/// The key that identifies baselines; its value is [`FORMAT_VERSION`].
pub(super) const MARK: &str = "sobench_baseline";

/// The version of the format. It increases when a member changes its meaning or is removed.
pub const FORMAT_VERSION: u32 = 1;

/// Columns whose names differ from the metric's name for compatibility.
const OLD_COLUMNS: [(&Metric, &str); 4] = [
    (&rates::CORRECT_RATE, "correct"),
    (&rates::VLLM_CORRECT_RATE, "vllm_correct"),
    (&rates::COMPLIANCE, "complied"),
    (&rates::COVERAGE, "accepted"),
];

/// Members of `counts` whose names differ from the figure's name for compatibility.
const OLD_COUNTS: [(&str, &str); 3] = [
    ("correct_rate", "correct"),
    ("correct_rate(control)", "control"),
    ("vllm_correct_rate", "vllm"),
];

/// Letters of columns and their meanings.
const BITS: [(char, Option<bool>); 3] = [('1', Some(true)), ('0', Some(false)), ('-', None)];
const ARMS: [(char, Option<Arm>); 8] = [
    ('c', Some(Arm::Constrained)),
    ('u', Some(Arm::Control)),
    ('f', Some(Arm::Free)),
    ('o', Some(Arm::ConstraintOnly)),
    ('t', Some(Arm::ThinkConstraint)),
    ('m', Some(Arm::Compact)),
    ('x', Some(Arm::Flexible)),
    ('-', None),
];

/// The requests of a run as columns of equal length.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(super) struct Columns {
    case: Vec<Option<String>>,
    /// `c`onstrained, control (`u`nconstrained), `f`ree, `-` unknown.
    arm: String,
    answered: String,
    /// See [`Request::later_use`]; empty if it is not known of any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    later_use: String,
    /// One column per metric with values of single requests; when reading, also unknown members.
    #[serde(flatten)]
    metrics: Map<String, Value>,
    gaps: Vec<u64>,
    gaps_total_ms: Vec<f64>,
    sent_s: Vec<Option<f64>>,
    input_tokens: Vec<Option<u64>>,
    output_tokens: Vec<Option<u64>>,
}

/// Writes runs one after the other.
///
/// # Errors
/// A figure that is not valid JSON, which is a bug.
pub fn write(runs: &[Run]) -> Result<String> {
    let mut text = String::new();
    for run in runs {
        write_run(run, &mut text)
            .map_err(|error| Error::internal(format!("the baseline is not JSON: {error}")))?;
    }
    Ok(text)
}

json_struct! {
    /// A run without texts.
    struct Baseline<'a> = |run: &'a Run| [
        let side = Side {
            name: String::new(),
            runs: vec![run.clone()],
            ..Side::default()
        };
        // The shown figures are computed from the requests now, because single gaps are not kept.
        let shown = Figure::in_tables()
            .into_iter()
            .filter_map(|shown| Some((shown.to_string(), figure(&side, shown)?)));
        let figures = run.figures.clone().into_iter().chain(shown);
        // Only the file name: the path is private.
        let name = Path::new(&run.file).file_name();
    ] {
        sobench_baseline: u32 = FORMAT_VERSION,
        of: String =
            name.map_or_else(|| run.file.clone(), |name| name.to_string_lossy().into_owned()),
        settings: &'a Conditions = &run.conditions,
        notices: &'a [String] = &run.notices,
        duration_s: Option<f64> = run.duration_s.map(|seconds| rounded(seconds, 1e6)),
        figures: BTreeMap<String, f64> =
            figures.map(|(name, value)| (name, rounded(value, 1e6))).collect(),
        counts: IndexMap<String, &'a Share> =
            run.counts.iter().map(|(figure, share)| (count_name(*figure), share)).collect(),
        means: IndexMap<&'static str, &'a SavedMean> =
            run.means.iter().map(|(metric, mean)| (mean_name(metric), mean)).collect(),
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        partial: bool = run.is_partial,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        distrusted: Vec<&'a Figure> = run.distrusted.keys().collect(),
        #[serde(skip_serializing_if = "Option::is_none")]
        requests: Option<Columns> = run.requests.as_ref().map(Columns::new),
    }
}

/// The contract of a baseline.
pub fn contract() -> Value {
    sobench_core::contract::written::<Baseline<'_>>()
}

/// The members of the file, and those of its objects, are on lines of their own.
fn write_run(run: &Run, text: &mut String) -> serde_json::Result<()> {
    let file = serde_json::to_value(Baseline::new(run))?;
    let members = file.as_object().into_iter().flatten().map(|(key, value)| {
        let value = if value.is_object() {
            lines(value)?
        } else {
            value.to_string()
        };
        Ok(format!("  \"{key}\": {value}"))
    });
    let members = members.collect::<serde_json::Result<Vec<String>>>()?;
    text.push_str(&format!("{{\n{}\n}}\n", members.join(",\n")));
    Ok(())
}

/// An object with one member per line.
fn lines(value: &Value) -> serde_json::Result<String> {
    let members = value.as_object().cloned().unwrap_or_default();
    let lines = members
        .iter()
        .map(|(key, value): (&String, &Value)| {
            Ok(format!(
                "    {}: {}",
                serde_json::to_string(key)?,
                serde_json::to_string(value)?
            ))
        })
        .collect::<serde_json::Result<Vec<String>>>()?;
    Ok(if lines.is_empty() {
        "{}".to_owned()
    } else {
        format!("{{\n{}\n  }}", lines.join(",\n"))
    })
}

pub(super) fn read(file: &str, mut raw: Raw) -> Result<Run> {
    let version = raw.rest.get(MARK).and_then(Value::as_u64);
    if version != Some(u64::from(FORMAT_VERSION)) {
        let version = version.map_or_else(|| "none".to_owned(), |version| version.to_string());
        return Err(
            Error::usage(format!("unsupported baseline version {version}: {file}"))
                .hint("write it again with --write-baseline"),
        );
    }
    let invalid = |what: &str| {
        Error::usage(format!("invalid {what} in baseline: {file}"))
            .hint("write it again with --write-baseline")
    };
    let requests = raw
        .requests
        .take()
        .map(|columns| columns.requests().ok_or_else(|| invalid("requests")))
        .transpose()?;
    Ok(Run {
        file: file.to_owned(),
        kind: FileKind::SobenchBaseline,
        conditions: part::<Conditions>(&mut raw.rest, "settings")
            .ok_or_else(|| invalid("settings"))?,
        duration_s: raw.rest.get("duration_s").and_then(number),
        figures: part::<BTreeMap<String, f64>>(&mut raw.rest, "figures")
            .ok_or_else(|| invalid("figures"))?,
        means: means(&mut raw.rest).ok_or_else(|| invalid("means"))?,
        counts: counts(&mut raw.rest).ok_or_else(|| invalid("counts"))?,
        // Items of arms are not part of a baseline.
        arm_pairs: Vec::new(),
        notices: part::<Vec<String>>(&mut raw.rest, "notices").ok_or_else(|| invalid("notices"))?,
        is_partial: raw.rest.get("partial") == Some(&Value::Bool(true)),
        distrusted: part::<Vec<String>>(&mut raw.rest, "distrusted")
            .unwrap_or_default()
            .iter()
            .filter_map(|name| Some((Figure::parse(name).ok()?, None)))
            .collect(),
        requests,
        ..Run::default()
    })
}

/// Hits and totals by figure; unknown names are ignored.
fn counts(rest: &mut Map<String, Value>) -> Option<BTreeMap<Figure, Share>> {
    let members: BTreeMap<String, Share> = part(rest, "counts")?;
    let named = members.into_iter().filter_map(|(name, share)| {
        let old = OLD_COUNTS.iter().find(|(_, old)| *old == name);
        let name = old.map_or(&name[..], |(name, _)| name);
        Some((Figure::parse(name).ok()?, share))
    });
    Some(named.collect())
}

/// Means by metric; unknown names are ignored.
fn means(rest: &mut Map<String, Value>) -> Option<BTreeMap<&'static Metric, SavedMean>> {
    let mut members: BTreeMap<String, SavedMean> = part(rest, "means")?;
    let named = Metric::ALL
        .iter()
        .filter_map(|metric| Some((*metric, members.remove(mean_name(metric))?)));
    Some(named.collect())
}

fn part<T: for<'de> Deserialize<'de>>(rest: &mut Map<String, Value>, key: &str) -> Option<T> {
    serde_json::from_value(rest.remove(key)?).ok()
}

/// The column of a metric: for a rate one letter per request (`1` yes, `0` no, `-` unknown), for a
/// distribution one number per request.
fn column_name(metric: &Metric) -> &'static str {
    OLD_COLUMNS
        .iter()
        .find(|(own, _)| *own == metric)
        .map_or(metric.name, |(_, name)| name)
}

/// The name of a rate in `counts`.
fn count_name(figure: Figure) -> String {
    let name = figure.to_string();
    let old = OLD_COUNTS.iter().find(|(own, _)| *own == name);
    old.map_or(name, |(_, old)| (*old).to_owned())
}

/// The name of a distribution in `means`.
fn mean_name(metric: &Metric) -> &'static str {
    metric.name.trim_end_matches("_ms")
}

impl Columns {
    fn new(requests: &Requests) -> Self {
        let rounded_column = |value: fn(&RequestView<'_>) -> Option<f64>| {
            requests
                .iter()
                .map(|request| value(&request).map(millis))
                .collect()
        };
        let mut metrics = Map::new();
        for metric in Metric::ALL {
            let column = match metric.kind {
                MetricKind::Rate(_) => {
                    let hits = requests.iter().map(|request| request.hit(metric));
                    let letters: String = hits.map(|hit| letter(&BITS, hit)).collect();
                    letters.contains(['0', '1']).then(|| Value::from(letters))
                }
                MetricKind::Distribution { .. } => {
                    let values = requests.iter().map(|request| request.value(metric));
                    let values: Vec<_> = values.map(|value| value.map(millis)).collect();
                    let is_known = values.iter().any(Option::is_some);
                    is_known.then(|| Value::from(values))
                }
                MetricKind::Pooled(_) | MetricKind::PerSecond(_) | MetricKind::Total(_) => None,
            };
            metrics.extend(column.map(|column| (column_name(metric).to_owned(), column)));
        }
        Self {
            case: requests.iter().map(|request| request.case()).collect(),
            arm: requests
                .iter()
                .map(|request| letter(&ARMS, request.arm()))
                .collect(),
            answered: requests
                .iter()
                .map(|request| letter(&BITS, Some(request.answered())))
                .collect(),
            later_use: match requests.iter().any(|request| request.later_use()) {
                true => requests
                    .iter()
                    .map(|request| letter(&BITS, Some(request.later_use())))
                    .collect(),
                false => String::new(),
            },
            metrics,
            gaps: requests.iter().map(|request| request.gaps().0).collect(),
            gaps_total_ms: requests
                .iter()
                .map(|request| millis(request.gaps().1))
                .collect(),
            sent_s: rounded_column(|request| request.sent_s()),
            input_tokens: requests
                .iter()
                .map(|request| request.input_tokens())
                .collect(),
            output_tokens: requests
                .iter()
                .map(|request| request.output_tokens())
                .collect(),
        }
    }

    /// Number of requests.
    pub(super) fn len(&self) -> usize {
        self.case.len()
    }

    /// `None` if columns have different lengths or unknown letters.
    fn requests(mut self) -> Option<Requests> {
        let n = self.len();
        let answered = meanings(&BITS, &self.answered, n)?;
        let arms = meanings(&ARMS, &self.arm, n)?;
        let later_use = match self.later_use.is_empty() {
            true => vec![None; n],
            false => meanings(&BITS, &self.later_use, n)?,
        };
        let lengths = [self.sent_s.len(), self.gaps.len(), self.gaps_total_ms.len()];
        if lengths != [n; 3] || [self.input_tokens.len(), self.output_tokens.len()] != [n; 2] {
            return None;
        }
        let mut values = vec![RequestValues::default(); n];
        for metric in Metric::ALL {
            match (metric.kind, self.metrics.get_mut(column_name(metric))) {
                (MetricKind::Rate(_), Some(column)) => {
                    let hits = meanings(&BITS, column.as_str()?, n)?;
                    values
                        .iter_mut()
                        .zip(hits)
                        .for_each(|(values, hit)| values.set_hit(metric, hit));
                }
                (MetricKind::Distribution { .. }, Some(column)) => {
                    let column: Vec<Option<f64>> = serde_json::from_value(column.take()).ok()?;
                    if column.len() != n {
                        return None;
                    }
                    values
                        .iter_mut()
                        .zip(column)
                        .for_each(|(values, value)| values.set_value(metric, value));
                }
                // Baselines of older versions lack the columns of newer metrics.
                (_, _) => {}
            }
        }
        // Older versions have a column for controls that ended, and count those that were cut in the
        // other one.
        if let Some(ended) = self.metrics.get("control_ended_rate") {
            let ended = meanings(&BITS, ended.as_str()?, n)?.into_iter().zip(&arms);
            for (values, (hit, arm)) in values.iter_mut().zip(ended) {
                if *arm == Some(Arm::Control) {
                    values.set_hit(&rates::COMPLIANCE, hit);
                }
            }
        }
        let request = |((index, case), values): ((usize, Option<String>), RequestValues)| Request {
            case,
            arm: arms[index],
            answered: answered[index] == Some(true),
            later_use: later_use[index] == Some(true),
            values,
            gaps: Gaps::Sum {
                n: self.gaps[index],
                total_ms: self.gaps_total_ms[index],
            },
            sent_s: self.sent_s[index],
            input_tokens: self.input_tokens[index],
            output_tokens: self.output_tokens[index],
            ..Request::default()
        };
        Some(
            self.case
                .into_iter()
                .enumerate()
                .zip(values)
                .map(request)
                .collect(),
        )
    }
}

/// The meanings of the letters of a column; `None` if it has another length or an unknown letter.
fn meanings<T: Copy>(alphabet: &[(char, T)], letters: &str, n: usize) -> Option<Vec<T>> {
    letters
        .chars()
        .map(|letter: char| {
            alphabet
                .iter()
                .find(|(own, _)| *own == letter)
                .map(|(_, meaning)| *meaning)
        })
        .collect::<Option<Vec<_>>>()
        .filter(|meanings| meanings.len() == n)
}

fn letter<T: Copy + PartialEq>(alphabet: &[(char, T)], meaning: T) -> char {
    alphabet
        .iter()
        .find(|(_, own)| *own == meaning)
        .map_or('-', |(letter, _)| *letter)
}

/// Rounds to a thousandth.
fn millis(value: f64) -> f64 {
    rounded(value, 1e3)
}

fn rounded(value: f64, scale: f64) -> f64 {
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::read::parse_runs;
    use crate::compare::testing::{request, run};
    use crate::metrics::registry::{Stat, latencies};

    #[test]
    fn baseline_round_trips_without_texts() {
        let odd = Request {
            arm: Some(Arm::Control),
            gaps: Gaps::Each(vec![1.5, 2.25]),
            ..request().with_correct(None).with(&latencies::TTFT, None)
        };
        let exact = request()
            .with(&latencies::TTFT, 1.234_567_8)
            .with(&latencies::SCHEDULE_LAG, 2.5);
        let mut first = run(vec![
            odd.clone(),
            exact,
            Request {
                case: None,
                arm: None,
                ..request()
            },
        ]);
        first.file = "/somewhere/private/run.json".into();
        first.figures.insert("p99_ttft_ms".into(), 12.5);
        first
            .counts
            .insert(Figure::new(&rates::CORRECT_RATE), Share { hits: 3, of: 4 });
        first.means.insert(
            &latencies::TTFT,
            SavedMean {
                n: 3,
                standard_error: Some(0.5),
            },
        );
        first.is_partial = true;
        first.distrusted = BTreeMap::from([
            (
                Figure::from_distribution(&latencies::TTFT, Stat::Mean),
                None,
            ),
            (
                Figure::from_distribution(&latencies::E2EL, Stat::Median),
                None,
            ),
        ]);
        let sums = Run {
            requests: None,
            ..first.clone()
        };
        let text = write(&[first.clone(), sums]).unwrap();
        assert!(
            !text.contains("{}\"") && !text.contains("private"),
            "{text}"
        );
        assert_eq!(
            text,
            write(&[
                first.clone(),
                Run {
                    requests: None,
                    ..first.clone()
                }
            ])
            .unwrap(),
            "output is deterministic"
        );
        let back = parse_runs("base", text.as_bytes()).unwrap();
        assert_eq!((back.len(), back[1].requests.is_none()), (2, true));
        let rows = back[0].requests.as_ref().unwrap();
        let first_row = rows.get(0);
        assert_eq!(
            (first_row.case(), first_row.arm(), first_row.gaps()),
            (odd.case, odd.arm, (2, 3.75))
        );
        assert_eq!(
            (
                first_row.verdict(),
                first_row.hit(&rates::CORRECT_RATE),
                first_row.value(&latencies::TTFT)
            ),
            (None, None, None)
        );
        assert_eq!(
            (
                rows.get(1).value(&latencies::TTFT),
                rows.get(2).case(),
                rows.get(2).arm()
            ),
            (Some(1.235), None, None)
        );
        assert_eq!(
            (&back[0].conditions, &back[0].counts),
            (&first.conditions, &first.counts)
        );
        let figures = ["p99_ttft_ms", "mean_itl_ms", "correct_rate"]
            .map(|name| back[0].figures.get(name).copied());
        assert_eq!(figures[1..], [Some(1.875), Some(100.0)]);
        assert!(
            figures[0].is_some_and(|of_requests| (of_requests - 9.912).abs() < 0.001),
            "{figures:?}"
        );
        assert_eq!(back[0].means, first.means);
        assert_eq!(
            (back[0].is_partial, &back[0].distrusted),
            (true, &first.distrusted)
        );
    }

    #[test]
    fn a_baseline_of_several_runs_has_their_figures() {
        use crate::compare::measure::{Resampling, measure};
        use crate::compare::pairing::Pairing;
        use crate::compare::run_spread::RunSpread;
        let with_gaps = |gap: f64, median: f64| {
            let request = Request {
                gaps: Gaps::Each(vec![gap, gap, 9.0 * gap]),
                ..request()
            };
            let mut of_gaps = run(vec![request; 40]);
            of_gaps.figures.insert("median_itl_ms".into(), median);
            of_gaps
        };
        let runs = vec![with_gaps(1.0, 1.0), with_gaps(2.0, 2.0)];
        let baseline = parse_runs("base", write(&runs).unwrap().as_bytes()).unwrap();
        let [a, b] = [runs, baseline].map(|runs| Side {
            runs,
            ..Side::default()
        });
        let figure = Figure::from_distribution(&latencies::ITL, Stat::Median);
        let resampling = Resampling {
            resamples: 1,
            seed: 0,
        };
        let (pairing, spread) = (Pairing::new(&a, &b), RunSpread::default());
        let found = &measure(&a, &b, &pairing, &[figure], &spread, resampling)[0];
        assert_eq!((found.a, found.b), (Some(1.5), Some(1.5)));
    }

    #[test]
    fn invalid_baseline_is_an_error() {
        let text = write(&[run(vec![request()])]).unwrap();
        for (from, to, what) in [
            (
                "\"sobench_baseline\": 1",
                "\"sobench_baseline\": 9",
                "unsupported baseline version 9: base",
            ),
            (
                "\"correct\": \"1\"",
                "\"correct\": \"x\"",
                "invalid requests in baseline: base",
            ),
            (
                "\"correct\": \"1\"",
                "\"correct\": \"11\"",
                "invalid requests in baseline: base",
            ),
            (
                "\"gaps\": [0]",
                "\"gaps\": []",
                "invalid requests in baseline: base",
            ),
            (
                "\"model\"",
                "\"modell\"",
                "invalid settings in baseline: base",
            ),
            (
                "\"notices\": []",
                "\"notices\": 3",
                "invalid notices in baseline: base",
            ),
        ] {
            let invalid = text.replace(from, to);
            assert_ne!(invalid, text, "{from}");
            let error = parse_runs("base", invalid.as_bytes()).unwrap_err();
            assert_eq!((error.what.as_str(), error.exit_code()), (what, 2));
        }
    }
}
