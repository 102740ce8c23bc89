//! A comparison as JSON; the contract is `schemas/contracts/comparison.schema.json`. Unknown values
//! are `null`.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde_json::Value;

use sobench_core::case::Arm;
use sobench_core::json_struct;
use sobench_plan::record::condition::Field;
use sobench_report::contenders::Figures;
use sobench_results::compare::changed_cases::{CaseResult, ChangedCase, ChangedCases};
use sobench_results::compare::conditions::{Condition, ConditionEffect};
use sobench_results::compare::gate::{
    ChangeRuling, GateSummary, GateVerdict, LimitRuling, Needs, Ruling, Undecided,
};
use sobench_results::compare::measure::Uncertainty;
use sobench_results::compare::pair_facts::{ENDED, ended_name};
use sobench_results::compare::pairing::Pairing;
use sobench_results::compare::pairs::{GroupBy, PairGroup, PairTable, PairedValues};
use sobench_results::compare::requests::Requests;
use sobench_results::compare::run_spread::DEFAULT_RUN_SPREAD;
use sobench_results::compare::side::{FileKind, Run, Side};
use sobench_results::compare::{
    Comparison, ComparisonMethod, DifferenceVerdict, Method, Row, SideComparison,
};
use sobench_results::metrics::registry::Figure;
use sobench_statistics::contrast::{BROKEN_BY_CHANCE, KEPT_LEVEL, RateContrast};
use sobench_statistics::paired::Pairs;

/// The version of the format. It increases when a key changes its meaning or is removed.
pub const FORMAT_VERSION: u32 = 1;

/// The contract of a comparison.
pub fn contract() -> Value {
    sobench_core::contract::written::<ComparisonFile<'_>>()
}

/// The whole comparison.
pub fn render(comparison: &Comparison) -> Value {
    serde_json::to_value(ComparisonFile::new(comparison))
        .expect("comparisons hold only strings, numbers and structs of them")
}

json_struct! {
    struct ComparisonFile<'a> = |comparison: &'a Comparison| [
        let gate = comparison.gate_summary();
        let undecided = comparison.gate.as_ref().and_then(|gate| gate.undecided);
    ] {
        format_version: u32 = FORMAT_VERSION,
        sides: Vec<SideEntry<'a>> = comparison.sides.iter().map(SideEntry::new).collect(),
        comparable: bool = comparison.is_comparable(),
        conditions: Vec<ConditionEntry<'a>> =
            comparison.conditions.iter().map(ConditionEntry::new).collect(),
        method: MethodEntry = MethodEntry::new(&comparison.method, undecided),
        against_first: Vec<AgainstEntry<'a>> =
            comparison.against.iter().map(AgainstEntry::new).collect(),
        gate: Option<GateEntry> = gate.as_ref().map(GateEntry::new),
        failed: bool = gate.is_some_and(|gate| gate.verdict == GateVerdict::Failed),
    }

    /// How differences are decided.
    struct MethodEntry = |method: & ComparisonMethod, undecided: Option<Undecided>| {
        level_percent: f64 = 100.0 * method.level,
        gate_level_percent: Option<f64> = method.gate_level.map(|level| 100.0 * level),
        gate_kept_level_percent: f64 = 100.0 * KEPT_LEVEL,
        gate_false_alarms_percent: f64 = 100.0 * BROKEN_BY_CHANCE,
        resamples: usize = method.resamples,
        seed: u64 = method.seed,
        run_spread_percent: f64 = method.run_spread.all().unwrap_or(DEFAULT_RUN_SPREAD),
        run_spread_is_given: bool = method.run_spread.all().is_some(),
        run_spread_percent_by_name: BTreeMap<String, f64> = method.run_spread.by_name().collect(),
        undecided: Option<Undecided> = undecided,
    }

    struct GateEntry = |gate: &GateSummary| {
        verdict: GateVerdict = gate.verdict,
        rules: usize = gate.rules.len(),
        broken: usize = gate.count(Ruling::is_failure),
        kept: usize = gate.count(|ruling| ruling == Ruling::Kept),
        undecided: usize = gate.count(Ruling::is_undecided),
        partial_runs: Vec<PartialRun> = gate.partial.iter().map(PartialRun::new).collect(),
        allow_partial: bool = gate.allow_partial,
    }

    struct PartialRun = |run: &(usize, String)| {
        side: usize = run.0,
        file: String = run.1.clone(),
    }

    struct SideEntry<'a> = |side: &'a Side| {
        name: &'a str = &side.name,
        runs: Vec<RunEntry<'a>> = side.runs.iter().map(RunEntry::new).collect(),
        /// As in a row of `sobench matrix`, with what the constraint adds in `control`.
        figures: Figures = Figures::of_side(side, false),
    }

    struct RunEntry<'a> = |run: &'a Run| {
        file: &'a str = &run.file,
        kind: FileKind = run.kind,
        requests: Option<usize> = run.requests.as_ref().map(Requests::len),
        partial: bool = run.is_partial,
        distrusted: Vec<&'a Figure> = run.distrusted.keys().collect(),
        notices: &'a [String] = &run.notices,
    }

    struct ConditionEntry<'a> = |condition: &'a Condition| {
        field: Field = condition.field,
        values: &'a [Option<String>] = &condition.values,
        finding: ConditionEffect = condition.effect,
    }

    struct AgainstEntry<'a> = |against: &'a SideComparison| {
        side: usize = against.other,
        pairing: &'static str = match against.pairing {
            Pairing::ByCase { .. } => "by_case",
            Pairing::ByPlace { .. } => "by_place",
            Pairing::None => "none",
        },
        figures: IndexMap<String, FigureEntry> =
            against.rows.iter().map(FigureEntry::named).collect(),
        #[serde(skip_serializing_if = "Option::is_none")]
        pairs: Option<PairTableEntry> =
            against.pairs.as_ref().map(|pairs| PairTableEntry::new(pairs, against.cause.as_ref())),
        changed: Option<ChangedEntry<'a>> = against.changed.as_ref().map(ChangedEntry::new),
        changes: Vec<ChangeEntry> = against.changes.iter().map(ChangeEntry::new).collect(),
        bounds: Vec<LimitEntry> = against.limits.iter().map(LimitEntry::new).collect(),
    }

    struct FigureEntry = |row: &Row| [
        let measured = &row.measured;
        let contrast = match &measured.spread {
            Uncertainty::Rates(contrast) => Some(contrast),
            _ => None,
        };
    ] {
        first: Option<f64> = measured.a,
        other: Option<f64> = measured.b,
        n: (Option<usize>, Option<usize>) = measured.n,
        difference: Option<f64> = measured.difference,
        unit: &'static str = measured.metric.unit_of_change(),
        interval: Option<(f64, f64)> = row.interval,
        interval_percent: Option<(f64, f64)> = row.relative,
        word: DifferenceVerdict = row.verdict,
        why_no_interval: Option<String> = match measured.spread {
            Uncertainty::None(reason) => reason.description(),
            _ => None,
        },
        method: Option<Method> = measured.spread.method(),
        mcnemar_p: Option<f64> = measured.spread.p_value(),
        pairs: Option<PairsEntry> =
            contrast.and_then(RateContrast::pairs).map(|sample| PairsEntry::new(&sample.pairs)),
        cannot_see: Option<String> =
            contrast.filter(|contrast| !contrast.has_runs()).map(|_| "variation between runs".to_owned()),
    }

    /// Numbers of cases that are correct on both sides, on one of them, or on neither.
    struct PairsEntry = |pairs: &Pairs| {
        both: usize = pairs.both,
        only_first: usize = pairs.only_a,
        only_other: usize = pairs.only_b,
        neither: usize = pairs.neither,
    }

    /// Pairs of requests that count in the correct rate on both sides, from run logs.
    struct PairTableEntry = |pairs: &PairTable, cause: Option<&PairGroup>| [
        let (low, high) = pairs.contrast.interval(0.95);
    ] {
        pairs: usize = pairs.pairs(),
        lost: usize = pairs.lost(),
        won: usize = pairs.won(),
        difference_points: f64 = 100.0 * pairs.contrast.difference,
        interval_points: (f64, f64) = (100.0 * low, 100.0 * high),
        mcnemar_p: Option<f64> = pairs.contrast.p_value(),
        constraints: Option<usize> = pairs.by_constraint.map(|(constraints, _)| constraints),
        /// With constraints as clusters.
        interval_points_of_constraints: Option<(f64, f64)> =
            pairs.by_constraint.map(|(_, (low, high))| (100.0 * low, 100.0 * high)),
        /// The number of pairs by the end on the first side, then on the other.
        ended: BTreeMap<&'static str, BTreeMap<&'static str, usize>> = ended(pairs),
        equal_answers: usize = pairs.equal_answers.hits,
        answered_pairs: usize = pairs.equal_answers.of,
        /// The group that the page names.
        cause: Option<GroupEntry> = cause.map(GroupEntry::new),
        groups: Vec<GroupEntry> = pairs.groups.iter().map(GroupEntry::new).collect(),
        /// Differences in pairs, the other side minus the first.
        values: Vec<PairedValuesEntry> = pairs.values.iter().map(PairedValuesEntry::new).collect(),
    }

    struct GroupEntry = |group: &PairGroup| {
        by: GroupBy = group.by,
        value: String = group.value.to_string(),
        pairs: usize = group.pairs,
        lost: usize = group.lost,
        won: usize = group.won,
        p: f64 = group.p_value,
    }

    struct PairedValuesEntry = |values: &PairedValues| {
        name: &'static str = values.name,
        unit: &'static str = values.unit,
        pairs: usize = values.pairs,
        median: f64 = values.median,
        interval: (Option<f64>, Option<f64>) = values.interval,
        larger: usize = values.larger.hits,
    }

    struct ChangedEntry<'a> = |changed: &'a ChangedCases| {
        worse: usize = changed.worse,
        better: usize = changed.better,
        judged: usize = changed.judged,
        cases: Vec<CaseEntry<'a>> = changed.cases.iter().map(CaseEntry::new).collect(),
    }

    struct CaseEntry<'a> = |case: &'a ChangedCase| {
        case: &'a str = &case.case,
        arm: Option<Arm> = case.arm,
        worse: bool = case.worse,
        first: SeenEntry<'a> = SeenEntry::new(&case.a),
        other: SeenEntry<'a> = SeenEntry::new(&case.b),
        /// Sends the request to the other side again.
        #[serde(skip_serializing_if = "Option::is_none")]
        curl: Option<&'a str> = case.curl.as_deref(),
    }

    struct SeenEntry<'a> = |seen: &'a CaseResult| {
        correct_runs: usize = seen.correct.hits,
        runs: usize = seen.correct.of,
        verdict: Option<&'a str> = seen.answer.as_ref().map(|answer| &*answer.verdict),
        text: Option<&'a str> = seen.answer.as_ref().map(|answer| &*answer.text),
    }

    struct ChangeEntry = |change: &ChangeRuling| {
        rule: String = change.rule.to_string(),
        metric: Figure = change.rule.metric,
        first: Option<f64> = change.a,
        other: Option<f64> = change.b,
        change: Option<f64> = change.change,
        unit: &'static str = change.rule.unit_name(),
        interval: Option<(f64, f64)> = change.interval,
        ruling: &'static str = ruling(change.ruling),
        words: String = change.result(),
        ruled_out: Option<f64> = change.ruled_out(),
        needs: Option<Needs> = change.needs,
    }

    struct LimitEntry = |limit: &LimitRuling| {
        rule: String = limit.rule.to_string(),
        metric: Figure = limit.rule.metric,
        value: Option<f64> = limit.value,
        ruling: &'static str = ruling(limit.ruling),
        words: String = limit.result(),
    }
}

impl FigureEntry {
    fn named(row: &Row) -> (String, Self) {
        (row.measured.metric.to_string(), Self::new(row))
    }
}

fn ended(pairs: &PairTable) -> BTreeMap<&'static str, BTreeMap<&'static str, usize>> {
    let row = |counts: &[usize]| {
        let named = ENDED.iter().zip(counts);
        named
            .map(|(end, count)| (ended_name(*end), *count))
            .collect()
    };
    let rows = ENDED.iter().zip(&pairs.ended);
    rows.map(|(end, counts)| (ended_name(*end), row(counts)))
        .collect()
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
