//! Text for figures, differences and rulings.

use std::path::Path;

use sobench_core::distinct::distinct;
use sobench_core::printable::printable;
use sobench_plan::record::condition::Field;
use sobench_results::compare::conditions::SEVERAL;
use sobench_results::compare::gate::{ChangeRuling, GateSummary, GateVerdict, NotCounted, Ruling};
use sobench_results::compare::measure::{Measured, Uncertainty};
use sobench_results::compare::run_spread::RunVariation;
use sobench_results::compare::side::{FileKind, Run, Side};
use sobench_results::compare::{DifferenceVerdict, Method, Row};
use sobench_results::metrics::registry::Figure;
use sobench_statistics::contrast::MIN_RUNS;

/// Maximum number of characters of a shown answer.
pub(super) const ANSWER_CHARS: usize = 160;

/// Maximum number of characters of a file name.
const FILE_CHARS: usize = 60;

/// The longest name of a side in a sentence.
const MAX_NAME: usize = 24;

/// Digits of the hash of a dataset that are shown.
const HASH_CHARS: usize = 8;

/// The datasets of a side: their names, the number of requests, and the start of their hashes, which
/// cover the requests.
pub(super) fn dataset(side: &Side) -> String {
    let of_run = |run: &Run| {
        let value = |field: Field, chars: usize| {
            let value = run.conditions.get(&field)?;
            Some(printable(value, FILE_CHARS).chars().take(chars).collect())
        };
        let requests = value(Field::NumPrompts, FILE_CHARS);
        let parts: [Option<String>; 3] = [
            value(Field::DatasetName, FILE_CHARS),
            requests.map(|requests| format!("{requests} requests")),
            value(Field::Dataset, HASH_CHARS),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    };
    distinct(side.runs.iter().map(of_run)).join(SEVERAL)
}

/// The verdict of the gate in two words.
pub(super) fn gate_title(gate: &GateSummary) -> &'static str {
    match gate.verdict {
        GateVerdict::Passed => "gate passed",
        GateVerdict::Failed => "gate failed",
        GateVerdict::Undecided => "gate undecided",
    }
}

/// The verdict of the gate in one line, partial runs first.
pub(super) fn gate(gate: &GateSummary) -> String {
    let files: Vec<String> = gate
        .partial
        .iter()
        .map(|(side, file)| format!("{} ({})", self::side(*side), printable(file, FILE_CHARS)))
        .collect();
    let partial = match files.len() {
        0 => String::new(),
        1 => format!("partial run {}, ", files[0]),
        _ => format!("partial runs {}, ", files.join(" and ")),
    };
    let has_sides = gate.rules.windows(2).any(|rules| rules[0].0 != rules[1].0);
    let name = |side: usize, rule: &str| match has_sides {
        true => format!("{}: {rule}", self::side(side)),
        false => rule.to_owned(),
    };
    let list = |what: &str, is: &dyn Fn(Ruling) -> bool| {
        let rules = gate.rules.iter().filter(|(.., ruling)| is(*ruling));
        let names: Vec<String> = rules.map(|(side, rule, _)| name(*side, rule)).collect();
        match &names[..] {
            [] => String::new(),
            names => format!(", {what}: {}", names.join(", ")),
        }
    };
    let not_counted: String = NotCounted::ALL
        .iter()
        .map(|why| {
            list(&format!("not counted ({why})"), &|ruling| {
                ruling == Ruling::NotCounted(*why)
            })
        })
        .collect();
    let is_about_times = gate.rules.iter().any(|(_, rule, _)| rule.contains("_ms"));
    let no_times = match gate.verdict {
        GateVerdict::Passed if !is_about_times => "; no rule is about times",
        _ => "",
    };
    format!(
        "{}: {partial}{} of {} rules broken{}, {} kept{}{not_counted}{no_times}",
        gate_title(gate),
        gate.count(Ruling::is_failure),
        gate.rules.len(),
        list("broken", &Ruling::is_failure).replacen(", broken: ", ": ", 1),
        gate.count(|ruling| ruling == Ruling::Kept),
        list("undecided", &Ruling::is_undecided),
    )
}

/// What to do about a gate that failed for lack of data.
pub(super) fn gate_hint(gate: &GateSummary) -> Option<String> {
    match gate.verdict {
        GateVerdict::Undecided => Some(format!(
            "give more requests, {MIN_RUNS} runs a side for times, or a larger change in the rule; --undecided pass accepts this"
        )),
        GateVerdict::Failed if !gate.partial.is_empty() && !gate.allow_partial => {
            Some("repeat the partial run, or accept it with --allow-partial".to_owned())
        }
        GateVerdict::Failed | GateVerdict::Passed => None,
    }
}

/// The letter of a side: A, B, C ...
pub(super) fn side(index: usize) -> String {
    u8::try_from(index)
        .ok()
        .filter(|index| *index < 26)
        .map_or_else(
            || format!("side {}", index + 1),
            |index| char::from(b'A' + index).to_string(),
        )
}

/// The sides in sentences: the ends of their paths if these are short and differ, else their letters.
pub(super) fn names(sides: &[Side]) -> Vec<String> {
    let stem = |side: &Side| {
        let stem = Path::new(&side.name).file_stem()?.to_str()?;
        let is_name = stem.len() <= MAX_NAME && stem.chars().any(char::is_alphabetic);
        is_name.then(|| printable(stem, MAX_NAME))
    };
    let stems: Option<Vec<String>> = sides.iter().map(stem).collect();
    stems
        .filter(|stems| distinct(stems.iter()).len() == stems.len())
        .unwrap_or_else(|| (0..sides.len()).map(lettered).collect())
}

/// The end of a side's path, if the sides differ in it, otherwise its path.
pub(super) fn shortest<'a>(sides: &'a [Side], side: &'a Side) -> &'a str {
    fn end(side: &Side) -> Option<&str> {
        Path::new(&side.name).file_name()?.to_str()
    }
    match distinct(sides.iter().filter_map(end)).len() == sides.len() {
        true => end(side).unwrap_or(&side.name),
        false => &side.name,
    }
}

/// `side A`.
pub(super) fn lettered(index: usize) -> String {
    format!("side {}", side(index).trim_start_matches("side "))
}

/// The difference in the figure's unit, and in percent if the first value is positive.
pub(super) fn difference(measured: &Measured) -> String {
    let Some(difference) = measured.difference else {
        return String::new();
    };
    match (measured.metric, measured.a) {
        (metric, _) if metric.is_rate() => format!("{difference:+.2} pp"),
        (metric, Some(base)) if base > 0.0 => {
            format!(
                "{} ({:+.1} %)",
                signed(metric, difference),
                100.0 * difference / base
            )
        }
        (metric, _) => signed(metric, difference),
    }
}

fn signed(metric: Figure, difference: f64) -> String {
    if metric.is_count() {
        format!("{difference:+.0}")
    } else {
        format!("{difference:+.2}")
    }
}

/// The interval: rates in percentage points, other figures in percent of the first value if
/// possible, otherwise in their unit.
pub(super) fn interval(row: &Row) -> String {
    match (row.measured.metric, row.interval, row.relative) {
        (metric, Some((low, high)), _) if metric.is_rate() => format!("{low:+.2} to {high:+.2} pp"),
        (_, _, Some((low, high))) => format!("{low:+.1} to {high:+.1} %"),
        (metric, Some((low, high)), None) => format!("{low:+.2} to {high:+.2} {}", metric.unit()),
        (_, None, None) => String::new(),
    }
}

pub(super) fn verdict(row: &Row) -> String {
    let is_assumed = matches!(row.measured.variation, RunVariation::Assumed(_));
    let verdict = match row.verdict {
        DifferenceVerdict::Better if is_assumed => "better in these runs",
        DifferenceVerdict::Worse if is_assumed => "worse in these runs",
        DifferenceVerdict::Better => "better",
        DifferenceVerdict::Worse => "worse",
        DifferenceVerdict::Differs => "differs",
        DifferenceVerdict::NoDifferenceSeen => "no significant difference",
        DifferenceVerdict::WithinRunSpread => "within run variation",
        DifferenceVerdict::TooFewSamples => "too few samples",
        DifferenceVerdict::NotTested => "not tested",
    };
    match &row.measured.spread {
        Uncertainty::None(reason) => match reason.description() {
            Some(why) => format!("{verdict}: {why}"),
            None => verdict.to_owned(),
        },
        spread => match spread.p_value() {
            Some(p) => format!("{verdict} ({})", p_value(p)),
            None => verdict.to_owned(),
        },
    }
}

/// A p-value in a sentence.
pub(super) fn p_value(p: f64) -> String {
    match p {
        ..0.001 => "p < 0.001".to_owned(),
        p => format!("p = {p:.3}"),
    }
}

/// The kind of file of a run.
pub(super) fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::SobenchResult => "sobench result",
        FileKind::SobenchBaseline => "sobench baseline",
        FileKind::SobenchRunLog => "sobench run log",
        FileKind::VllmBenchServe => "vllm bench serve result",
        FileKind::VllmScript => "vLLM script result",
        FileKind::Aiperf => "AIPerf export",
        FileKind::Guidellm => "GuideLLM export",
    }
}

/// The statistical method of intervals.
pub(super) fn method(method: Method) -> &'static str {
    match method {
        Method::PairedBootstrap => {
            "latencies: bootstrap over cases, the same cases on both sides; gaps are drawn with their request"
        }
        Method::Bootstrap => {
            "latencies: bootstrap over the requests of each side; gaps are drawn with their request"
        }
        Method::McnemarAndNewcombePaired => {
            "rates: McNemar's exact test on the same cases, and Newcombe's interval for paired proportions (1998, method 10)"
        }
        Method::Newcombe => {
            "rates: Newcombe's interval for independent proportions (1998, method 10)"
        }
        Method::NewcombeAndRuns => {
            "rates: Newcombe's interval and the sign test over cases; runs that vary more than their requests explain count less"
        }
        Method::StudentOfRuns => {
            "times and throughput: Student's interval of the logarithms of the runs' figures, with pooled variance"
        }
        Method::StudentOfRunsAndBootstrap => {
            "times and throughput: the wider of Student's interval of the runs' figures and a bootstrap over requests, because the cases differ"
        }
        Method::Welch => "means of files without requests: from their standard errors",
    }
}

/// The change in the rule's unit.
pub(super) fn change(ruling: &ChangeRuling) -> String {
    ruling
        .change
        .map(|change| format!("{change:+.2} {}", ruling.rule.unit_name()))
        .unwrap_or_default()
}

pub(super) fn change_interval(ruling: &ChangeRuling) -> String {
    ruling
        .interval
        .map(|(low, high)| format!("{low:+.2} to {high:+.2} {}", ruling.rule.unit_name()))
        .unwrap_or_default()
}

/// One line about a rule that is not kept.
pub(super) fn broken_change(change: &ChangeRuling) -> String {
    let metric = change.rule.metric;
    let (a, b) = (metric.text(change.a), metric.text(change.b));
    match change.ruling {
        Ruling::Broken => {
            format!(
                "{}: {metric} changed from {a} to {b}: {}, interval {}",
                change.rule,
                self::change(change),
                change_interval(change)
            )
        }
        _ => format!("{}: {}", change.rule, change.result()),
    }
}

/// A fraction in percent, without trailing zeros.
pub(super) fn percent(share: f64) -> String {
    let text = format!("{:.2}", 100.0 * share);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
