//! What figures, differences and rulings are called. Knows no layout.

use sobench_results::compare::gate::{ChangeRuling, Ruling};
use sobench_results::compare::measure::Measured;
use sobench_results::compare::rules::Unit;
use sobench_results::compare::side::FileKind;
use sobench_results::compare::{Method, Row, Word};
use sobench_results::metrics::registry::Figure;

/// The most characters of an answer that is shown.
pub(super) const ANSWER_CHARS: usize = 160;

/// A, B, C ...
pub(super) fn side(place: usize) -> String {
    u8::try_from(place).ok().filter(|it| *it < 26).map_or_else(
        || format!("side {}", place + 1),
        |it| char::from(b'A' + it).to_string(),
    )
}

/// The difference in the figure's unit, and in percent where that has a meaning.
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

/// The interval: rates in points, others in percent of the first value where they have that, else
/// in their unit.
pub(super) fn interval(row: &Row) -> String {
    match (row.measured.metric, row.interval, row.relative) {
        (metric, Some((low, high)), _) if metric.is_rate() => format!("{low:+.2} to {high:+.2} pp"),
        (_, _, Some((low, high))) => format!("{low:+.1} to {high:+.1} %"),
        (metric, Some((low, high)), None) => format!("{low:+.2} to {high:+.2} {}", metric.unit()),
        (_, None, None) => String::new(),
    }
}

pub(super) fn word(row: &Row) -> String {
    let word = match row.word {
        Word::Better => "better",
        Word::Worse => "worse",
        Word::Differs => "differs",
        Word::NoDifferenceSeen => "no difference seen",
        Word::WithinRunSpread => "within run spread",
        Word::TooFewSamples => "too few samples",
        Word::NotTested => "not tested",
    };
    match &row.measured.spread {
        sobench_results::compare::measure::Spread::None(reason) => match reason.words() {
            Some(why) => format!("{word}: {why}"),
            None => word.to_owned(),
        },
        spread => match spread.p_value() {
            Some(p) if p < 0.001 => format!("{word} (p < 0.001)"),
            Some(p) => format!("{word} (p = {p:.3})"),
            None => word.to_owned(),
        },
    }
}

/// Why there is no interval; `None` for figures that never have one.
pub(super) fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::SobenchResult => "result of sobench",
        FileKind::SobenchBaseline => "baseline of sobench",
        FileKind::SobenchRunLog => "run log of sobench",
        FileKind::VllmBenchServe => "result of vllm bench serve",
        FileKind::VllmScript => "result of vLLM's script",
    }
}

/// How intervals of a kind came about.
pub(super) fn method(method: Method) -> &'static str {
    match method {
        Method::PairedBootstrap => {
            "latencies: bootstrap over cases, the same for both sides, gaps with their request"
        }
        Method::Bootstrap => {
            "latencies: bootstrap over the requests of each side, gaps with their request"
        }
        Method::BlockBootstrap => "throughput: bootstrap over blocks of the run's time",
        Method::McnemarAndNewcombePaired => {
            "rates: McNemar's exact test on the same cases, with Newcombe's interval for paired shares (1998, method 10)"
        }
        Method::Newcombe => "rates: Newcombe's interval for independent shares (1998, method 10)",
        Method::NewcombeAndRuns => {
            "rates: the wider of Newcombe's interval and a bootstrap over runs"
        }
        Method::Welch => "means of files without requests: their standard errors",
    }
}

/// The change in the rule's unit.
pub(super) fn change(ruling: &ChangeRuling) -> String {
    ruling
        .change
        .map(|change| format!("{change:+.2} {}", unit(ruling)))
        .unwrap_or_default()
}

pub(super) fn change_interval(ruling: &ChangeRuling) -> String {
    ruling
        .interval
        .map(|(low, high)| format!("{low:+.2} to {high:+.2} {}", unit(ruling)))
        .unwrap_or_default()
}

pub(super) fn unit(ruling: &ChangeRuling) -> &'static str {
    match (ruling.rule.unit, ruling.rule.metric) {
        (Unit::Percent, _) => "%",
        (Unit::Own, metric) => metric.unit_of_change(),
    }
}

/// What a rule found, in a line.
pub(super) fn broken_change(it: &ChangeRuling) -> String {
    let metric = it.rule.metric;
    let (a, b) = (metric.text(it.a), metric.text(it.b));
    match it.ruling {
        Ruling::Broken => {
            format!(
                "{}: {metric} went from {a} to {b}: {}, interval {}",
                it.rule,
                change(it),
                change_interval(it)
            )
        }
        other => format!("{}: {other}", it.rule),
    }
}
