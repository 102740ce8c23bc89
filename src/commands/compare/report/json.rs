//! A comparison as JSON; the contract is `schemas/contracts/comparison.schema.json`. Unknown values
//! are `null`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use sobench_results::compare::changed_cases::{CaseResult, ChangedCase, ChangedCases};
use sobench_results::compare::conditions::Condition;
use sobench_results::compare::contrast::{BROKEN_BY_CHANCE, Contrast, KEPT_LEVEL};
use sobench_results::compare::gate::{ChangeRuling, GateSummary, GateVerdict, LimitRuling, Ruling};
use sobench_results::compare::measure::Uncertainty;
use sobench_results::compare::pairing::Pairing;
use sobench_results::compare::requests::Requests;
use sobench_results::compare::run_spread::DEFAULT_RUN_SPREAD;
use sobench_results::compare::side::Side;
use sobench_results::compare::{Comparison, Row, SideComparison};

/// The version of the format. It increases when a key changes its meaning or is removed.
pub const FORMAT_VERSION: u32 = 1;

/// The whole comparison.
pub fn render(comparison: &Comparison) -> Value {
    let method = &comparison.method;
    let gate = comparison.gate_summary();
    json!({
        "format_version": FORMAT_VERSION,
        "sides": comparison.sides.iter().map(side).collect::<Vec<_>>(),
        "comparable": comparison.is_comparable(),
        "conditions": comparison.conditions.iter().map(condition).collect::<Vec<_>>(),
        "method": {
            "level_percent": 100.0 * method.level,
            "gate_level_percent": method.gate_level.map(|level| 100.0 * level),
            "gate_kept_level_percent": 100.0 * KEPT_LEVEL,
            "gate_false_alarms_percent": 100.0 * BROKEN_BY_CHANCE,
            "resamples": method.resamples,
            "seed": method.seed,
            "run_spread_percent": method.run_spread.all().unwrap_or(DEFAULT_RUN_SPREAD),
            "run_spread_is_given": method.run_spread.all().is_some(),
            "run_spread_percent_by_name": method.run_spread.by_name().collect::<BTreeMap<_, _>>(),
            "undecided": comparison.gate.as_ref().and_then(|gate| gate.undecided),
        },
        "against_first": comparison.against.iter().map(against).collect::<Vec<_>>(),
        "gate": gate.as_ref().map(summary),
        "failed": gate.is_some_and(|gate| gate.verdict == GateVerdict::Failed),
    })
}

fn summary(gate: &GateSummary) -> Value {
    json!({
        "verdict": gate.verdict,
        "rules": gate.rules.len(),
        "broken": gate.count(Ruling::is_failure),
        "kept": gate.count(|ruling| ruling == Ruling::Kept),
        "undecided": gate.count(Ruling::is_undecided),
        "partial_runs": gate.partial.iter().map(|(side, file)| json!({"side": side, "file": file})).collect::<Vec<_>>(),
        "allow_partial": gate.allow_partial,
    })
}

fn side(side: &Side) -> Value {
    let run = |run: &sobench_results::compare::side::Run| {
        json!({
            "file": run.file,
            "kind": run.kind,
            "requests": run.requests.as_ref().map(Requests::len),
            "partial": run.is_partial,
            "distrusted": run.distrusted.keys().collect::<Vec<_>>(),
            "notices": run.notices,
        })
    };
    json!({"name": side.name, "runs": side.runs.iter().map(run).collect::<Vec<_>>()})
}

fn condition(condition: &Condition) -> Value {
    json!({"field": condition.field.name(), "values": condition.values, "finding": condition.effect})
}

fn against(against: &SideComparison) -> Value {
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
    let reason = match measured.spread {
        Uncertainty::None(reason) => reason.description(),
        _ => None,
    };
    let contrast = match &measured.spread {
        Uncertainty::Rates(contrast) => Some(contrast),
        _ => None,
    };
    let pairs = contrast.and_then(Contrast::pairs).map(|sample| {
        let pairs = sample.pairs;
        json!({"both": pairs.both, "only_first": pairs.only_a, "only_other": pairs.only_b, "neither": pairs.neither})
    });
    json!({
        "first": measured.a,
        "other": measured.b,
        "n": measured.n,
        "difference": measured.difference,
        "unit": measured.metric.unit_of_change(),
        "interval": row.interval,
        "interval_percent": row.relative,
        "word": row.verdict,
        "why_no_interval": reason,
        "method": measured.spread.method(),
        "mcnemar_p": measured.spread.p_value(),
        "pairs": pairs,
        "cannot_see": contrast.and_then(Contrast::unseen).map(|unseen| unseen.to_string()),
    })
}

fn changed(changed: &ChangedCases) -> Value {
    let seen = |seen: &CaseResult| {
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

fn change(change: &ChangeRuling) -> Value {
    json!({
        "rule": change.rule.to_string(),
        "metric": change.rule.metric,
        "first": change.a,
        "other": change.b,
        "change": change.change,
        "unit": change.rule.unit_name(),
        "interval": change.interval,
        "ruling": ruling(change.ruling),
        "words": change.result(),
        "ruled_out": change.ruled_out(),
        "needs": change.needs,
    })
}

fn limit(limit: &LimitRuling) -> Value {
    json!({
        "rule": limit.rule.to_string(),
        "metric": limit.rule.metric,
        "value": limit.value,
        "ruling": ruling(limit.ruling),
        "words": limit.result(),
    })
}

fn ruling(ruling: Ruling) -> &'static str {
    match ruling {
        Ruling::Broken => "broken",
        Ruling::Kept => "kept",
        Ruling::TooFew | Ruling::TooFewRuns | Ruling::Unknown(_) => "undecided",
        Ruling::Absent => "absent",
        Ruling::NotCounted(_) => "not_counted",
    }
}
