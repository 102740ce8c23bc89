//! Compares runs: differences of conditions and figures, their significance, and the gate. Only
//! [`files`] accesses the file system.
//!
//! [`compare`] is the entry point. A [`Side`] is one or several runs of the same configuration; the
//! first side is the baseline of all others.

pub mod bootstrap;
pub mod changed_cases;
pub mod conditions;
pub mod contrast;
pub mod files;
pub mod gate;
pub mod measure;
pub mod pair_facts;
pub mod pairing;
pub mod pairs;
pub mod read;
pub mod requests;
pub mod rules;
pub mod run_spread;
pub mod side;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used)]
pub mod testing;
pub mod throughput;

use std::cmp::Ordering;

use schemars::JsonSchema;
use serde::Serialize;

use self::changed_cases::{ChangedCases, changed_cases};
use self::conditions::{Condition, conditions, is_comparable};
use self::gate::{ChangeRuling, GateSummary, LimitRuling, Ruling, Undecided};
use self::measure::{Measured, Resampling, Uncertainty, measure};
use self::pairing::Pairing;
use self::pairs::{LOSS_BY_CHANCE, PairGroup, PairTable};
use self::rules::{ChangeRule, LimitRule};
use self::run_spread::RunSpread;
use self::side::Run;
pub use self::side::Side;
use crate::metrics::Metrics;
use crate::metrics::client_overhead::{Bounds, ClientOverhead};
use crate::metrics::registry::{Better, Figure, Stat, Unit, latencies, rates, totals};
use sobench_plan::record::RunRecord;
use sobench_plan::record::condition::Field;
use sobench_statistics::bootstrap::resamples_for;
use sobench_statistics::contrast::{broken_level, holm};

/// Minimum number of resamples.
pub const MIN_RESAMPLES: usize = 1000;

/// Maximum number of resamples.
pub const MAX_RESAMPLES: usize = 1_000_000;

/// Settings of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct CompareSettings {
    /// Confidence level of the reported intervals, between 0 and 1.
    pub level: f64,
    /// `None` for as many as the widest interval needs.
    pub resamples: Option<usize>,
    pub seed: u64,
    /// Variation between runs of the same server, if a side has too few runs to measure it.
    pub run_spread: RunSpread,
    /// Conditions that may differ.
    pub allowed: Vec<Field>,
    /// Maximum number of changed cases to keep.
    pub changed: usize,
    pub gate: Option<Gate>,
}

/// Confidence level of the reported intervals, unless another one is requested.
pub const LEVEL: f64 = 0.99;

impl Default for CompareSettings {
    /// Without changed cases, and without a gate.
    fn default() -> Self {
        Self {
            level: LEVEL,
            resamples: None,
            seed: 0,
            run_spread: RunSpread::default(),
            allowed: Vec::new(),
            changed: 0,
            gate: None,
        }
    }
}

/// The rules of a gate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gate {
    pub changes: Vec<ChangeRule>,
    pub limits: Vec<LimitRule>,
    /// `None`: a gate with an undecided rule is undecided.
    pub undecided: Option<Undecided>,
    /// Whether partial runs may pass.
    pub allow_partial: bool,
}

/// The result of a comparison.
#[derive(Clone, Debug)]
pub struct Comparison {
    pub sides: Vec<Side>,
    pub conditions: Vec<Condition>,
    pub method: ComparisonMethod,
    /// Each later side compared with the first; empty if they are not comparable.
    pub against: Vec<SideComparison>,
    pub gate: Option<Gate>,
}

/// The statistical parameters of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparisonMethod {
    pub level: f64,
    /// Confidence level of the intervals of broken rules, if there are change rules.
    pub gate_level: Option<f64>,
    pub resamples: usize,
    pub seed: u64,
    /// See [`CompareSettings::run_spread`].
    pub run_spread: RunSpread,
}

/// One side compared with the first.
#[derive(Clone, Debug, PartialEq)]
pub struct SideComparison {
    /// Index in [`Comparison::sides`].
    pub other: usize,
    pub pairing: Pairing,
    pub rows: Vec<Row>,
    /// The indices of the rows of leading figures ([`leading`]) that differ.
    pub claims: Vec<usize>,
    /// How many more tokens the answers of this side have, in percent, if the request rate sets the
    /// throughput of both sides and the numbers differ.
    pub tokens_percent: Option<f64>,
    /// `None` if requests are not paired.
    pub changed: Option<ChangedCases>,
    /// `None` if requests are not paired, and without run logs.
    pub pairs: Option<PairTable>,
    /// Where the second side lost or won, if the sentences at the head of a page can claim it.
    pub cause: Option<PairGroup>,
    pub changes: Vec<ChangeRuling>,
    /// Limits of this side; the first side has none.
    pub limits: Vec<LimitRuling>,
}

/// One compared figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub measured: Measured,
    pub interval: Option<(f64, f64)>,
    /// Interval of the difference in percent of the first value; rates have none.
    pub relative: Option<(f64, f64)>,
    pub verdict: DifferenceVerdict,
}

/// The verdict on a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceVerdict {
    Better,
    Worse,
    /// Significant, without a better direction.
    Differs,
    NoDifferenceSeen,
    /// Significant within these runs, but within the variation between runs.
    WithinRunSpread,
    TooFewSamples,
    /// There is no interval.
    NotTested,
}

impl DifferenceVerdict {
    /// Whether the sides differ.
    pub fn is_difference(self) -> bool {
        matches!(self, Self::Better | Self::Worse | Self::Differs)
    }
}

/// The statistical method of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    PairedBootstrap,
    Bootstrap,
    McnemarAndNewcombePaired,
    Newcombe,
    NewcombeAndRuns,
    StudentOfRuns,
    StudentOfRunsAndBootstrap,
    Welch,
}

/// Compares each later side with the first.
pub fn compare(sides: Vec<Side>, options: &CompareSettings) -> Comparison {
    let conditions = conditions(&sides, &options.allowed);
    let others = sides.len().saturating_sub(1);
    let rules = options
        .gate
        .as_ref()
        .map_or(0, |gate| gate.changes.len() * others);
    let widest = match rules {
        0 => options.level,
        rules => broken_level(rules).max(options.level),
    };
    let resamples = options
        .resamples
        .unwrap_or_else(|| resamples_for(widest).clamp(MIN_RESAMPLES, MAX_RESAMPLES));
    let mut method = ComparisonMethod {
        level: options.level,
        gate_level: None,
        resamples,
        seed: options.seed,
        run_spread: options.run_spread.clone(),
    };
    let mut against = Vec::new();
    if is_comparable(&conditions) {
        let measured: Vec<(Pairing, Vec<Measured>)> = (1..sides.len())
            .map(|other| measured(&sides[0], &sides[other], &method, options))
            .collect();
        if let Some(gate) = options.gate.as_ref().filter(|_| rules > 0) {
            let figures = measured.iter().map(|(_, figures)| &figures[..]);
            method.gate_level = Some(gate::level(&gate.changes, figures));
        }
        against.extend(
            measured.into_iter().enumerate().map(|(index, measured)| {
                self::against(&sides, index + 1, measured, &method, options)
            }),
        );
    }
    claim(&mut against);
    Comparison {
        sides,
        conditions,
        method,
        against,
        gate: options.gate.clone(),
    }
}

/// The chance that any sentence of a page claims a difference of equal sides.
pub const CLAIMED_BY_CHANCE: f64 = 0.05;

/// The figures that the sentences at the head of a page are about.
pub fn leading_figures() -> Vec<Figure> {
    let rates = [&rates::CORRECT_RATE, &rates::ACCURACY].map(Figure::new);
    let times = [&latencies::TTFT, &latencies::TPOT, &latencies::E2EL]
        .map(|metric| Figure::from_distribution(metric, Stat::Median));
    let throughput = [&totals::REQUEST_THROUGHPUT, &totals::VALID_THROUGHPUT].map(Figure::new);
    [&rates[..], &times, &throughput].concat()
}

/// For each of several figures, whether the sentences at the head of a page are about it: it is one of
/// [`leading_figures`] with an interval. Requests per second count only if valid ones are not known,
/// which would say the same.
pub fn leading<'m>(measured: impl Iterator<Item = &'m Measured> + Clone) -> Vec<bool> {
    let figures = leading_figures();
    let known = measured.map(|measured| {
        let is_known = !matches!(measured.spread, Uncertainty::None(_));
        (
            measured.metric,
            is_known && figures.contains(&measured.metric),
        )
    });
    let (all, valid) = (known.clone(), Figure::new(&totals::VALID_THROUGHPUT));
    let has_valid = all.into_iter().any(|known| known == (valid, true));
    let requests = Figure::new(&totals::REQUEST_THROUGHPUT);
    known
        .map(|(figure, leads)| leads && !(has_valid && figure == requests))
        .collect()
}

/// Finds the differences that lead the page. With pairs, a loss of the second side comes first, with
/// an error of its own; the other claims share the rest, and all of it once that loss is claimed.
fn claim(against: &mut [SideComparison]) {
    /// A row of a side, or its groups of pairs together.
    enum Test {
        Row(usize, usize),
        Groups(usize),
    }
    let correct_rate = Figure::new(&rates::CORRECT_RATE);
    let mut error = CLAIMED_BY_CHANCE;
    if let [only] = against
        && let Some(pairs) = &only.pairs
    {
        if pairs.is_loss() {
            only.cause = pairs.cause_of_loss().cloned();
            let rows = only.rows.iter();
            let row = rows
                .map(|row| row.measured.metric)
                .position(|metric| metric == correct_rate);
            if let Some(row) = row {
                only.claims.push(row);
                only.rows[row].verdict = DifferenceVerdict::Worse;
            }
        } else {
            error -= LOSS_BY_CHANCE;
        }
    }
    let tests: Vec<Test> = against
        .iter()
        .enumerate()
        .flat_map(|(side, found)| {
            let leading = leading(found.rows.iter().map(|row| &row.measured));
            let rows = leading.into_iter().enumerate();
            let rows = rows.filter(|(row, leads)| *leads && !found.claims.contains(row));
            let groups = found.pairs.iter().filter(|_| found.claims.is_empty());
            let groups = groups.map(move |_| Test::Groups(side));
            rows.map(move |(row, _)| Test::Row(side, row)).chain(groups)
        })
        .collect();
    let cause = |side: usize, level: f64| against[side].pairs.as_ref()?.cause(level).cloned();
    let (held, level) = holm(&tests, error, |test, level| match test {
        Test::Row(side, row) => {
            let measured = &against[*side].rows[*row].measured;
            let sign = measured.spread.sign(level, measured.variation.floor());
            sign.is_some()
        }
        Test::Groups(side) => cause(*side, level).is_some(),
    });
    let causes: Vec<Option<PairGroup>> =
        (0..against.len()).map(|side| cause(side, level)).collect();
    for (test, _) in tests.into_iter().zip(held).filter(|(_, held)| *held) {
        match test {
            Test::Row(side, row) => {
                let found = &mut against[side];
                found.claims.push(row);
                // Which the interval of the table may not show.
                let of_row = &mut found.rows[row];
                of_row.verdict = Row::new(of_row.measured.clone(), level).verdict;
            }
            Test::Groups(side) => against[side].cause.clone_from(&causes[side]),
        }
    }
}

impl Comparison {
    /// Whether no condition prevents the comparison.
    pub fn is_comparable(&self) -> bool {
        is_comparable(&self.conditions)
    }

    /// The gate's verdict and counts; `None` without rules, or if the sides are not comparable.
    pub fn gate_summary(&self) -> Option<GateSummary> {
        let gate = self.gate.as_ref().filter(|_| self.is_comparable())?;
        let rulings = self
            .against
            .iter()
            .map(|against| (against.other, against.rulings()));
        let partial = self.sides.iter().enumerate().flat_map(|(side, of_side)| {
            let runs = of_side.runs.iter().filter(|run| run.is_partial);
            runs.map(move |run| (side, run.file.clone()))
        });
        Some(GateSummary::new(gate, rulings.collect(), partial.collect()))
    }
}

impl SideComparison {
    fn rulings(&self) -> Vec<(String, Ruling)> {
        let changes = self.changes.iter();
        let changes = changes.map(|change| (change.rule.to_string(), change.ruling));
        let limits = self.limits.iter();
        changes
            .chain(limits.map(|limit| (limit.rule.to_string(), limit.ruling)))
            .collect()
    }
}

/// Evaluates limit rules on a finished run.
pub fn check_limits(
    record: &RunRecord,
    metrics: &Metrics,
    client: Option<&ClientOverhead>,
    rules: &[LimitRule],
) -> Vec<LimitRuling> {
    let bounds = client.map(|client| &client.bounds);
    let run = Run {
        distrusted: bounds
            .into_iter()
            .flat_map(Bounds::distrusted_figures)
            .collect(),
        ..read::run_from_metrics("this run", record, metrics)
    };
    let side = Side {
        runs: vec![run],
        ..Side::default()
    };
    gate::evaluate_limits(rules, &side, broken_level(1))
}

/// The pairing of two sides, and the figures of the tables and of the rules.
fn measured(
    a: &Side,
    b: &Side,
    method: &ComparisonMethod,
    options: &CompareSettings,
) -> (Pairing, Vec<Measured>) {
    let pairing = Pairing::new(a, b);
    let mut metrics = Figure::in_tables();
    let named = options
        .gate
        .iter()
        .flat_map(|gate| gate.changes.iter().map(|rule| rule.metric));
    for metric in named {
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    let resampling = Resampling {
        resamples: method.resamples,
        seed: method.seed,
    };
    let measured = measure(a, b, &pairing, &metrics, &method.run_spread, resampling);
    (pairing, measured)
}

fn against(
    sides: &[Side],
    other: usize,
    (pairing, measured): (Pairing, Vec<Measured>),
    method: &ComparisonMethod,
    options: &CompareSettings,
) -> SideComparison {
    let (a, b) = (&sides[0], &sides[other]);
    let (changes, limits) = match &options.gate {
        Some(gate) => {
            let level = method.gate_level.unwrap_or(method.level);
            (
                gate::evaluate_changes(&gate.changes, (a, b), &measured, level),
                gate::evaluate_limits(&gate.limits, b, broken_level(1)),
            )
        }
        None => (Vec::new(), Vec::new()),
    };
    let mut tokens_percent = None;
    let lengths = [a, b].map(tokens_per_answer);
    let mut measured = measured;
    for row in &mut measured {
        let metric = row.metric.metric;
        if ![a, b]
            .into_iter()
            .all(|side| throughput::follows_rate(side, metric))
        {
            continue;
        }
        let differs = row
            .spread
            .sign(method.level, row.variation.floor())
            .is_some();
        if differs && *metric == totals::OUTPUT_THROUGHPUT {
            tokens_percent = tokens_percent_of(&lengths);
        }
        row.spread = Uncertainty::None(measure::NoInterval::FollowsRate);
    }
    SideComparison {
        other,
        rows: measured
            .into_iter()
            .filter(|row: &Measured| (row.a.is_some() || row.b.is_some()) && !is_idle(row))
            .map(|measured| Row::new(measured, method.level))
            .collect(),
        claims: Vec::new(),
        tokens_percent,
        changed: changed_cases(a, b, &pairing, options.changed),
        pairs: PairTable::new(a, b, &pairing),
        cause: None,
        pairing,
        changes,
        limits,
    }
}

/// Whether it is a count that is zero on both sides. Failures and the correct rate of the control
/// arm stay, because readers look for them.
fn is_idle(measured: &Measured) -> bool {
    let metric = measured.metric.metric;
    let is_always_shown = measured.metric.better() == Better::Up
        || [&rates::CORRECT_RATE, &totals::FAILED].contains(&metric);
    let is_count = metric.is_rate() || metric.unit == Unit::Count;
    is_count && !is_always_shown && (measured.a, measured.b) == (Some(0.0), Some(0.0))
}

impl Row {
    fn new(measured: Measured, level: f64) -> Self {
        let spread = &measured.spread;
        let verdict = match (
            spread,
            spread.sign(level, measured.variation.floor()),
            measured.metric.better(),
        ) {
            (
                Uncertainty::None(
                    measure::NoInterval::TooFew { .. } | measure::NoInterval::FewRuns,
                ),
                ..,
            ) => DifferenceVerdict::TooFewSamples,
            (Uncertainty::None(_), ..) => DifferenceVerdict::NotTested,
            (spread, None, _) if spread.sign(level, None).is_some() => {
                DifferenceVerdict::WithinRunSpread
            }
            (_, None, _) => DifferenceVerdict::NoDifferenceSeen,
            (_, Some(_), Better::Neither) => DifferenceVerdict::Differs,
            (_, Some(Ordering::Greater), Better::Up) | (_, Some(Ordering::Less), Better::Down) => {
                DifferenceVerdict::Better
            }
            (_, Some(_), Better::Up | Better::Down) => DifferenceVerdict::Worse,
        };
        Self {
            interval: spread.interval(level),
            relative: spread.relative(level),
            verdict,
            measured,
        }
    }
}

/// The mean number of output tokens of a side's answers; `None` if a file does not have it.
fn tokens_per_answer(side: &Side) -> Option<f64> {
    let (mut answers, mut tokens) = (0_u64, 0_u64);
    for run in &side.runs {
        let requests = run.requests.as_ref()?.iter();
        for count in requests.filter_map(|request| request.output_tokens()) {
            answers += 1;
            tokens += count;
        }
    }
    Some(tokens as f64 / answers as f64)
}

/// How many more tokens the second side's answers have, if it is 1 % or more: throughput also falls
/// if the last answers take longer.
fn tokens_percent_of(lengths: &[Option<f64>; 2]) -> Option<f64> {
    let [a, b] = *lengths;
    let percent = 100.0 * (b? / a? - 1.0);
    (percent.is_finite() && percent.abs() >= 1.0).then_some(percent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::testing::steady;

    #[test]
    fn at_a_rate_that_both_sides_sustain_lengths_are_named_and_throughput_is_not_compared() {
        let options = CompareSettings {
            resamples: Some(1),
            ..CompareSettings::default()
        };
        let compared = |rate: &str| {
            let found = compare(vec![steady(4, rate), steady(5, rate)], &options);
            let against = &found.against[0];
            let is_output = |row: &&Row| *row.measured.metric.metric == totals::OUTPUT_THROUGHPUT;
            let row = against.rows.iter().find(is_output).unwrap();
            (row.verdict, against.tokens_percent)
        };
        assert_eq!(compared("10"), (DifferenceVerdict::NotTested, Some(25.0)));
        assert_eq!(compared("inf"), (DifferenceVerdict::Better, None));
    }
}
