//! A comparison as JSON; the contract is `schemas/contracts/comparison.schema.json`. What is not
//! known is `null`.

use serde_json::{Map, Value, json};

use super::words;
use sobench_results::compare::changed::{Changed, ChangedCase, Seen};
use sobench_results::compare::comparable::Condition;
use sobench_results::compare::gate::{ChangeRuling, FALSE_ALARMS, LimitRuling, Ruling};
use sobench_results::compare::measure::Spread;
use sobench_results::compare::pairing::Pairing;
use sobench_results::compare::side::Side;
use sobench_results::compare::{Against, Comparison, Row};

/// The version of the format, raised whenever a key changes its meaning or goes away.
pub const FORMAT_VERSION: u32 = 1;

/// The whole comparison.
pub fn render(comparison: &Comparison) -> Value {
    let method = comparison.method;
    json!({
        "format_version": FORMAT_VERSION,
        "sides": comparison.sides.iter().map(side).collect::<Vec<_>>(),
        "comparable": comparison.is_comparable(),
        "conditions": comparison.conditions.iter().map(condition).collect::<Vec<_>>(),
        "method": {
            "level_percent": 100.0 * method.level,
            "gate_level_percent": method.gate_level.map(|level| 100.0 * level),
            "gate_false_alarms_percent": 100.0 * FALSE_ALARMS,
            "resamples": method.resamples,
            "seed": method.seed,
            "run_spread_percent": method.run_spread,
            "undecided": comparison.undecided,
        },
        "against_first": comparison.against.iter().map(against).collect::<Vec<_>>(),
        "failed": comparison.is_failed(),
    })
}

fn side(side: &Side) -> Value {
    let run = |run: &sobench_results::compare::side::Run| {
        json!({
            "file": run.file,
            "kind": run.kind,
            "requests": run.requests.as_ref().map(Vec::len),
            "notices": run.notices,
        })
    };
    json!({"name": side.name, "runs": side.runs.iter().map(run).collect::<Vec<_>>()})
}

fn condition(condition: &Condition) -> Value {
    json!({"field": condition.field.name(), "values": condition.values, "finding": condition.finding})
}

fn against(against: &Against) -> Value {
    let pairing = match against.pairing {
        Pairing::ByCase { .. } => "by_case",
        Pairing::ByPlace { .. } => "by_place",
        Pairing::None => "none",
    };
    json!({
        "side": against.other,
        "pairing": pairing,
        "figures": against.rows.iter().map(|row| (row.measured.metric.to_string(), figure(row))).collect::<Map<_, _>>(),
        "changed": against.changed.as_ref().map(changed),
        "changes": against.changes.iter().map(change).collect::<Vec<_>>(),
        "bounds": against.limits.iter().map(limit).collect::<Vec<_>>(),
    })
}

fn figure(row: &Row) -> Value {
    let measured = &row.measured;
    let why = match measured.spread {
        Spread::None(why) => why.words(),
        _ => None,
    };
    let (pairs, p_value) = match &measured.spread {
        Spread::Rates {
            pairs: Some(pairs), ..
        } => (
            Some(
                json!({"both": pairs.both, "only_first": pairs.only_a, "only_other": pairs.only_b, "neither": pairs.neither}),
            ),
            measured.spread.p_value(),
        ),
        _ => (None, None),
    };
    json!({
        "first": measured.a,
        "other": measured.b,
        "n": measured.n,
        "difference": measured.difference,
        "unit": measured.metric.unit_of_change(),
        "interval": row.interval,
        "interval_percent": row.relative,
        "word": row.word,
        "why_no_interval": why,
        "method": measured.spread.method(),
        "mcnemar_p": p_value,
        "pairs": pairs,
    })
}

fn changed(changed: &Changed) -> Value {
    let seen = |seen: &Seen| {
        json!({
            "correct_runs": seen.correct.hits,
            "runs": seen.correct.of,
            "verdict": seen.answer.as_ref().map(|answer| &answer.verdict),
            "text": seen.answer.as_ref().map(|answer| &answer.text),
        })
    };
    let case = |case: &ChangedCase| json!({"case": case.case, "arm": case.arm, "worse": case.worse, "first": seen(&case.a), "other": seen(&case.b)});
    json!({
        "worse": changed.worse,
        "better": changed.better,
        "judged": changed.judged,
        "cases": changed.cases.iter().map(case).collect::<Vec<_>>(),
    })
}

fn change(it: &ChangeRuling) -> Value {
    json!({
        "rule": it.rule.to_string(),
        "metric": it.rule.metric,
        "first": it.a,
        "other": it.b,
        "change": it.change,
        "unit": words::unit(it),
        "interval": it.interval,
        "ruling": ruling(it.ruling),
        "words": it.ruling.to_string(),
    })
}

fn limit(it: &LimitRuling) -> Value {
    json!({
        "rule": it.rule.to_string(),
        "metric": it.rule.metric,
        "value": it.value,
        "ruling": ruling(it.ruling),
        "words": it.ruling.to_string(),
    })
}

fn ruling(ruling: Ruling) -> &'static str {
    match ruling {
        Ruling::Broken => "broken",
        Ruling::Kept => "kept",
        Ruling::TooFew | Ruling::Unknown(_) => "undecided",
        Ruling::Absent => "absent",
    }
}
