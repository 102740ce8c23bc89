//! Runs held against each other: is it comparable, what differs, and is it more than chance. Pure
//! but for [`files`], which reads and writes, and [`command`], which calls it: no network, no
//! clock, no rendering.
//!
//! [`compare`] is the door. A [`Side`] is one or several runs that are held to be of the same
//! thing; the first side is the one that the others are held against.

pub mod bootstrap;
pub mod changed;
pub mod comparable;
pub mod files;
pub mod gate;
pub mod measure;
pub mod pairing;
pub mod rates;
pub mod read;
pub mod rules;
pub mod side;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used)]
pub mod testing;
pub mod throughput;

use std::cmp::Ordering;

use serde::Serialize;

use self::changed::{Changed, changed};
use self::comparable::{Condition, comparable, conditions};
use self::gate::{ChangeRuling, LimitRuling, Ruling, Undecided};
use self::measure::{Measured, Resampling, Spread, measure};
use self::pairing::Pairing;
use self::rules::{Change, Limit};
pub use self::side::Side;
use crate::metrics::Metrics;
use crate::metrics::registry::rates::CONTROL_RATE;
use crate::metrics::registry::{Better, Figure, Unit, totals};
use crate::record::RunRecord;
use crate::record::condition::Field;
use sobench_statistics::bootstrap::resamples_for;

/// How far runs of the same server are taken to be apart where nothing says it, in percent of times
/// and throughput. Servers on a quiet machine are nearer to each other; those on shared ones are
/// not.
pub const DEFAULT_RUN_SPREAD: f64 = 5.0;

/// The fewest resamples.
pub const LEAST_RESAMPLES: usize = 1000;

/// The most resamples.
pub const MAX_RESAMPLES: usize = 1_000_000;

/// How to compare.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The level of shown intervals, above 0 and below 1.
    pub level: f64,
    /// `None` for as many as the widest interval takes.
    pub resamples: Option<usize>,
    pub seed: u64,
    /// How far, in percent, times and throughput of two runs of the same server are taken to be
    /// apart where a side has one run.
    pub run_spread: f64,
    /// Differences that the user knows of.
    pub allowed: Vec<Field>,
    /// How many changed cases are kept.
    pub changed: usize,
    pub gate: Option<Gate>,
}

/// What must not happen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gate {
    pub changes: Vec<Change>,
    pub limits: Vec<Limit>,
    pub undecided: Undecided,
}

/// Everything that is said about some sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    pub sides: Vec<Side>,
    pub conditions: Vec<Condition>,
    pub method: ComparisonMethod,
    /// Each later side against the first; empty where they are not comparable.
    pub against: Vec<Against>,
    pub undecided: Undecided,
}

/// How figures were held against each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComparisonMethod {
    pub level: f64,
    /// The level of the gate's intervals, where there is one with changes.
    pub gate_level: Option<f64>,
    pub resamples: usize,
    pub seed: u64,
    /// In percent; see [`Options::run_spread`].
    pub run_spread: f64,
}

/// One side against the first.
#[derive(Clone, Debug, PartialEq)]
pub struct Against {
    /// Its place in [`Comparison::sides`].
    pub other: usize,
    pub pairing: Pairing,
    pub rows: Vec<Row>,
    /// `None` where it is not known which requests are the same case.
    pub changed: Option<Changed>,
    pub changes: Vec<ChangeRuling>,
    /// Of the other side; the first one is what was.
    pub limits: Vec<LimitRuling>,
}

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub measured: Measured,
    pub interval: Option<(f64, f64)>,
    /// Of the difference in percent of the first value; rates have none.
    pub relative: Option<(f64, f64)>,
    pub word: Word,
}

/// What a difference is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    Better,
    Worse,
    /// More than chance, and neither way is better.
    Differs,
    NoDifferenceSeen,
    /// More than chance within these two runs, and no more than runs of the same server may be
    /// apart.
    WithinRunSpread,
    TooFewSamples,
    /// There is nothing to tell it from chance.
    NotTested,
}

/// Where an interval is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    PairedBootstrap,
    Bootstrap,
    BlockBootstrap,
    McnemarAndNewcombePaired,
    Newcombe,
    NewcombeAndRuns,
    Welch,
}

/// Compares the first of at least two sides with each of the others.
pub fn compare(sides: Vec<Side>, options: &Options) -> Comparison {
    let conditions = conditions(&sides, &options.allowed);
    let others = sides.len().saturating_sub(1);
    let rules = options
        .gate
        .as_ref()
        .map_or(0, |gate| gate.changes.len() * others);
    let gate_level = (rules > 0).then(|| gate::level(rules));
    let widest = gate_level.unwrap_or(options.level).max(options.level);
    let resamples = options
        .resamples
        .unwrap_or_else(|| resamples_for(widest).clamp(LEAST_RESAMPLES, MAX_RESAMPLES));
    let method = ComparisonMethod {
        level: options.level,
        gate_level,
        resamples,
        seed: options.seed,
        run_spread: options.run_spread,
    };
    let against = if comparable(&conditions) {
        (1..sides.len())
            .map(|other| against(&sides, other, method, options))
            .collect()
    } else {
        Vec::new()
    };
    let undecided = options
        .gate
        .as_ref()
        .map(|gate| gate.undecided)
        .unwrap_or_default();
    Comparison {
        sides,
        conditions,
        method,
        against,
        undecided,
    }
}

impl Comparison {
    /// Whether the sides were asked the same.
    pub fn is_comparable(&self) -> bool {
        comparable(&self.conditions)
    }

    /// Whether a rule of the gate was broken.
    pub fn is_failed(&self) -> bool {
        let rulings = |it: &Against| {
            let changes = it.changes.iter().map(|it| it.ruling);
            changes
                .chain(it.limits.iter().map(|it| it.ruling))
                .collect::<Vec<Ruling>>()
        };
        self.against
            .iter()
            .flat_map(rulings)
            .any(|ruling| ruling.fails(self.undecided))
    }
}

/// Rules on the bounds of one run that is over.
pub fn bounds(record: &RunRecord, metrics: &Metrics, rules: &[Limit]) -> Vec<LimitRuling> {
    let side = Side {
        name: String::new(),
        runs: vec![read::of_metrics("this run", record, metrics)],
    };
    gate::limits(rules, &side)
}

fn against(sides: &[Side], other: usize, method: ComparisonMethod, options: &Options) -> Against {
    let (a, b) = (&sides[0], &sides[other]);
    let pairing = Pairing::of(a, b);
    let mut metrics = Figure::shown();
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
        run_spread: method.run_spread,
    };
    let measured = measure(a, b, &pairing, &metrics, resampling);
    let (changes, limits) = match &options.gate {
        Some(gate) => {
            let level = method.gate_level.unwrap_or(method.level);
            (
                gate::changes(&gate.changes, &measured, level),
                gate::limits(&gate.limits, b),
            )
        }
        None => (Vec::new(), Vec::new()),
    };
    let known = |it: &Measured| (it.a.is_some() || it.b.is_some()) && !is_idle(it);
    Against {
        other,
        rows: measured
            .into_iter()
            .filter(known)
            .map(|measured| Row::of(measured, method.level))
            .collect(),
        changed: changed(a, b, &pairing, options.changed),
        pairing,
        changes,
        limits,
    }
}

/// Whether it counts what happened on neither side. Failures and the control arm are looked for,
/// and stay.
fn is_idle(measured: &Measured) -> bool {
    let metric = measured.metric.metric;
    let is_looked_for =
        metric.better == Better::Up || [&CONTROL_RATE, &totals::FAILED].contains(&metric);
    let is_count = metric.is_rate() || metric.unit == Unit::Count;
    is_count && !is_looked_for && (measured.a, measured.b) == (Some(0.0), Some(0.0))
}

impl Row {
    fn of(measured: Measured, level: f64) -> Self {
        let spread = &measured.spread;
        let word = match (
            spread,
            spread.sign(level, measured.floor),
            measured.metric.better(),
        ) {
            (Spread::None(measure::Why::TooFew { .. } | measure::Why::TooShort), ..) => {
                Word::TooFewSamples
            }
            (Spread::None(_), ..) => Word::NotTested,
            (spread, None, _) if spread.sign(level, None).is_some() => Word::WithinRunSpread,
            (_, None, _) => Word::NoDifferenceSeen,
            (_, Some(_), Better::Neither) => Word::Differs,
            (_, Some(Ordering::Greater), Better::Up) | (_, Some(Ordering::Less), Better::Down) => {
                Word::Better
            }
            (_, Some(_), Better::Up | Better::Down) => Word::Worse,
        };
        Self {
            interval: spread.interval(level),
            relative: spread.relative(level),
            word,
            measured,
        }
    }
}
