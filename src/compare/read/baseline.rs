//! A run without its texts, small enough for a repository. Knows no other file.
//!
//! One JSON object a run, one after the other; a column a line, so that a change of the baseline is a change of a few lines. Latencies
//! are kept to a microsecond, instants to a millisecond. Of the gaps between chunks only their number and sum are kept: a mean can be
//! resampled from those, a percentile of gaps cannot.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::number;
use super::raw::Raw;
use crate::case::Arm;
use crate::compare::measure::figure;
use crate::compare::metric::{Metric, RateName};
use crate::compare::side::{FileKind, Gaps, Request, Run, SavedMean, Share, Side};
use crate::error::{Error, Result};
use crate::metrics::LatencyMetric;
use crate::record::condition::Conditions;

/// The member that only baselines have; its value is [`FORMAT_VERSION`].
pub(super) const MARK: &str = "sobench_baseline";

/// The version of the format, raised whenever a member changes its meaning or goes away.
pub const FORMAT_VERSION: u32 = 1;

/// The requests of a run by columns, all of one length. Verdicts are a letter each: `1` yes, `0` no, `-` not known.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Columns {
    case: Vec<Option<String>>,
    /// `c`onstrained, control (`u`nconstrained), `f`ree, `-` not known.
    arm: String,
    answered: String,
    correct: String,
    vllm_correct: String,
    complied: String,
    accepted: String,
    ttft_ms: Vec<Option<f64>>,
    tpot_ms: Vec<Option<f64>>,
    e2el_ms: Vec<Option<f64>>,
    gaps: Vec<u64>,
    gaps_total_ms: Vec<f64>,
    sent_s: Vec<Option<f64>>,
    input_tokens: Vec<Option<u64>>,
    output_tokens: Vec<Option<u64>>,
}

/// Writes runs, one after the other.
///
/// # Errors
/// A figure that is no JSON, which is a defect.
pub fn write(runs: &[Run]) -> Result<String> {
    let mut text = String::new();
    for run in runs {
        write_run(run, &mut text).map_err(|error| Error::internal(format!("the baseline is not JSON: {error}")))?;
    }
    Ok(text)
}

fn write_run(run: &Run, text: &mut String) -> serde_json::Result<()> {
    let side = Side { name: String::new(), runs: vec![run.clone()] };
    // What tables show, whether or not the file said it: of what is left out here (single gaps), nothing could be said later.
    let shown = Metric::shown().into_iter().filter_map(|metric| Some((metric.to_string(), figure(&side, metric)?)));
    let mut figures = run.figures.clone();
    figures.extend(shown);
    figures.values_mut().for_each(|value| *value = rounded(*value, 1e6));
    // The name alone: where it lay on somebody's machine is nobody's business.
    let name = Path::new(&run.file).file_name().map_or_else(|| run.file.clone(), |name| name.to_string_lossy().into_owned());
    let mut members: Vec<(&str, String)> = vec![
        (MARK, FORMAT_VERSION.to_string()),
        ("of", serde_json::to_string(&name)?),
        ("settings", lines(&serde_json::to_value(&run.conditions)?)?),
        ("notices", serde_json::to_string(&run.notices)?),
        ("duration_s", serde_json::to_string(&run.duration_s.map(|it| rounded(it, 1e6)))?),
        ("figures", lines(&serde_json::to_value(&figures)?)?),
        ("counts", lines(&serde_json::to_value(&run.counts)?)?),
        ("means", lines(&serde_json::to_value(&run.means)?)?),
    ];
    if let Some(requests) = &run.requests {
        members.push(("requests", lines(&serde_json::to_value(Columns::of(requests))?)?));
    }
    text.push_str("{\n");
    for (place, (key, value)) in members.iter().enumerate() {
        let comma = if place + 1 < members.len() { "," } else { "" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  \"{key}\": {value}{comma}");
    }
    text.push_str("}\n");
    Ok(())
}

/// An object with a member a line.
fn lines(value: &Value) -> serde_json::Result<String> {
    let members = value.as_object().cloned().unwrap_or_default();
    let line =
        |(key, value): (&String, &Value)| Ok(format!("    {}: {}", serde_json::to_string(key)?, serde_json::to_string(value)?));
    let lines = members.iter().map(line).collect::<serde_json::Result<Vec<String>>>()?;
    Ok(if lines.is_empty() { "{}".to_owned() } else { format!("{{\n{}\n  }}", lines.join(",\n")) })
}

pub(super) fn read(file: &str, mut raw: Raw) -> Result<Run> {
    let version = raw.rest.get(MARK).and_then(Value::as_u64);
    if version != Some(u64::from(FORMAT_VERSION)) {
        let version = version.map_or_else(|| "none".to_owned(), |version| version.to_string());
        return Err(Error::usage(format!("a baseline of version {version}, which this sobench cannot read: {file}"))
            .hint("write it again with --write-baseline"));
    }
    let broken =
        |what: &str| Error::usage(format!("a baseline with broken {what}: {file}")).hint("write it again with --write-baseline");
    let requests = match raw.requests.take() {
        Some(columns) => Some(columns.requests().ok_or_else(|| broken("requests"))?),
        None => None,
    };
    Ok(Run {
        file: file.to_owned(),
        kind: FileKind::SobenchBaseline,
        conditions: part::<Conditions>(&mut raw.rest, "settings").ok_or_else(|| broken("settings"))?,
        duration_s: raw.rest.get("duration_s").and_then(number),
        figures: part::<BTreeMap<String, f64>>(&mut raw.rest, "figures").ok_or_else(|| broken("figures"))?,
        means: part::<BTreeMap<LatencyMetric, SavedMean>>(&mut raw.rest, "means").ok_or_else(|| broken("means"))?,
        counts: part::<BTreeMap<RateName, Share>>(&mut raw.rest, "counts").ok_or_else(|| broken("counts"))?,
        notices: part::<Vec<String>>(&mut raw.rest, "notices").ok_or_else(|| broken("notices"))?,
        requests,
    })
}

fn part<T: for<'de> Deserialize<'de>>(rest: &mut Map<String, Value>, key: &str) -> Option<T> {
    serde_json::from_value(rest.remove(key)?).ok()
}

impl Columns {
    fn of(requests: &[Request]) -> Self {
        let letters = |of: fn(&Request) -> Option<bool>| requests.iter().map(|request| letter(of(request))).collect::<String>();
        let figures =
            |of: fn(&Request) -> Option<f64>| requests.iter().map(|it| of(it).map(|it| rounded(it, 1e3))).collect::<Vec<_>>();
        Self {
            case: requests.iter().map(|request| request.case.clone()).collect(),
            arm: requests.iter().map(|request| arm_letter(request.arm)).collect(),
            answered: letters(|request| Some(request.answered)),
            correct: letters(|request| request.correct),
            vllm_correct: letters(|request| request.vllm_correct),
            complied: letters(|request| request.complied),
            accepted: letters(|request| request.accepted),
            ttft_ms: figures(|request| request.ttft_ms),
            tpot_ms: figures(|request| request.tpot_ms),
            e2el_ms: figures(|request| request.e2el_ms),
            gaps: requests.iter().map(|request| request.gaps.sum().0).collect(),
            gaps_total_ms: requests.iter().map(|request| rounded(request.gaps.sum().1, 1e3)).collect(),
            sent_s: figures(|request| request.sent_s),
            input_tokens: requests.iter().map(|request| request.input_tokens).collect(),
            output_tokens: requests.iter().map(|request| request.output_tokens).collect(),
        }
    }

    /// How many requests there are.
    pub(super) fn len(&self) -> usize {
        self.case.len()
    }

    /// `None` where columns are of different lengths, or a letter is none.
    fn requests(self) -> Option<Vec<Request>> {
        let n = self.len();
        let letters = |text: &str| text.chars().map(bit).collect::<Option<Vec<_>>>().filter(|bits| bits.len() == n);
        let [answered, correct, vllm_correct, complied, accepted] =
            [&self.answered, &self.correct, &self.vllm_correct, &self.complied, &self.accepted].map(|text| letters(text));
        let (answered, correct, vllm_correct) = (answered?, correct?, vllm_correct?);
        let (complied, accepted) = (complied?, accepted?);
        let arms = self.arm.chars().map(arm_of).collect::<Option<Vec<_>>>()?;
        let figures = [&self.ttft_ms, &self.tpot_ms, &self.e2el_ms, &self.sent_s];
        let counts = [&self.input_tokens, &self.output_tokens];
        let same = figures.iter().all(|column| column.len() == n) && counts.iter().all(|column| column.len() == n);
        if !same || [arms.len(), self.gaps.len(), self.gaps_total_ms.len()] != [n; 3] {
            return None;
        }
        let request = |(place, case): (usize, Option<String>)| Request {
            case,
            arm: arms[place],
            correct: correct[place],
            vllm_correct: vllm_correct[place],
            complied: complied[place],
            accepted: accepted[place],
            answered: answered[place] == Some(true),
            ttft_ms: self.ttft_ms[place],
            tpot_ms: self.tpot_ms[place],
            e2el_ms: self.e2el_ms[place],
            gaps: Gaps::Sum { n: self.gaps[place], total_ms: self.gaps_total_ms[place] },
            sent_s: self.sent_s[place],
            input_tokens: self.input_tokens[place],
            output_tokens: self.output_tokens[place],
            answer: None,
        };
        Some(self.case.into_iter().enumerate().map(request).collect())
    }
}

fn rounded(value: f64, scale: f64) -> f64 {
    (value * scale).round() / scale
}

fn letter(bit: Option<bool>) -> char {
    match bit {
        Some(true) => '1',
        Some(false) => '0',
        None => '-',
    }
}

fn bit(letter: char) -> Option<Option<bool>> {
    match letter {
        '1' => Some(Some(true)),
        '0' => Some(Some(false)),
        '-' => Some(None),
        _ => None,
    }
}

fn arm_letter(arm: Option<Arm>) -> char {
    match arm {
        Some(Arm::Constrained) => 'c',
        Some(Arm::Control) => 'u',
        Some(Arm::Free) => 'f',
        None => '-',
    }
}

fn arm_of(letter: char) -> Option<Option<Arm>> {
    match letter {
        'c' => Some(Some(Arm::Constrained)),
        'u' => Some(Some(Arm::Control)),
        'f' => Some(Some(Arm::Free)),
        '-' => Some(None),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::read::runs;
    use crate::compare::testing::{request, run};

    #[test]
    fn a_baseline_reads_back_without_its_texts() {
        let odd = Request {
            arm: Some(Arm::Control),
            correct: None,
            complied: Some(false),
            ttft_ms: None,
            gaps: Gaps::Each(vec![1.5, 2.25]),
            ..request()
        };
        let exact = Request { ttft_ms: Some(1.234_567_8), ..request() };
        let mut first = run(vec![odd.clone(), exact, Request { case: None, arm: None, ..request() }]);
        first.file = "/somewhere/private/run.json".into();
        first.figures.insert("p99_ttft_ms".into(), 12.5);
        first.counts.insert(RateName::Correct, Share { hits: 3, of: 4 });
        first.means.insert(LatencyMetric::Ttft, SavedMean { n: 3, standard_error: Some(0.5) });
        let sums = Run { requests: None, ..first.clone() };
        let text = write(&[first.clone(), sums]).unwrap();
        assert!(!text.contains("{}\"") && !text.contains("private"), "{text}");
        assert_eq!(text, write(&[first.clone(), Run { requests: None, ..first.clone() }]).unwrap(), "the same bytes every time");
        let back = runs("base", text.as_bytes()).unwrap();
        assert_eq!((back.len(), back[1].requests.as_ref()), (2, None));
        let rows = back[0].requests.as_ref().unwrap();
        assert_eq!(rows[0], Request { gaps: Gaps::Sum { n: 2, total_ms: 3.75 }, answer: None, ..odd });
        assert_eq!((rows[1].ttft_ms, rows[2].case.as_ref(), rows[2].arm), (Some(1.235), None, None));
        assert_eq!((&back[0].conditions, &back[0].counts), (&first.conditions, &first.counts));
        let figures = ["p99_ttft_ms", "mean_itl_ms", "correct_rate"].map(|name| back[0].figures.get(name).copied());
        assert_eq!(figures[1..], [Some(1.875), Some(100.0)]);
        assert!(figures[0].is_some_and(|of_requests| (of_requests - 9.912).abs() < 0.001), "{figures:?}");
        assert_eq!(back[0].means, first.means);
    }

    #[test]
    fn a_broken_baseline_is_an_error() {
        let text = write(&[run(vec![request()])]).unwrap();
        for (from, to, what) in [
            (
                "\"sobench_baseline\": 1",
                "\"sobench_baseline\": 9",
                "a baseline of version 9, which this sobench cannot read: base",
            ),
            ("\"correct\": \"1\"", "\"correct\": \"x\"", "a baseline with broken requests: base"),
            ("\"correct\": \"1\"", "\"correct\": \"11\"", "a baseline with broken requests: base"),
            ("\"gaps\": [0]", "\"gaps\": []", "a baseline with broken requests: base"),
            ("\"model\"", "\"modell\"", "a baseline with broken settings: base"),
            ("\"notices\": []", "\"notices\": 3", "a baseline with broken notices: base"),
        ] {
            let broken = text.replace(from, to);
            assert_ne!(broken, text, "{from}");
            let error = runs("base", broken.as_bytes()).unwrap_err();
            assert_eq!((error.what.as_str(), error.exit_code()), (what, 2));
        }
    }
}
