//! Evaluates the rules of a gate.
//!
//! A change rule is broken if the estimate exceeds the threshold and the whole interval is on the
//! bad side of zero. Rules on times and throughput need [`MIN_RUNS`] runs a side, whose intervals
//! include the variation between runs, or a variation that the user gives: then the whole interval
//! has to be beyond it. Intervals are one-sided with Bonferroni correction: if both sides are equal,
//! at most [`FALSE_ALARMS`] of all gates have any broken rule.
//!
//! A limit between the accuracy of two arms is a test of non-inferiority over items: it is met if
//! the lower bound of the difference is at least minus the margin, and missed if the upper bound is
//! below it. Each bound has an error probability of [`FALSE_ALARMS`]
//! ([`sobench_statistics::paired::PairedSample::one_sided_bounds`]). Otherwise it is undecided.

use std::fmt;

use std::cmp::Ordering;

use serde::Serialize;

use super::Gate;
use super::measure::{Measured, NoInterval, Resampling, measure, reliable_figure};
use super::pairing::Pairing;
use super::rules::{ChangeRule, ChangeUnit, Direction, LimitRule};
use super::run_ratio::MIN_RUNS;
use super::run_spread::{RunSpread, RunVariation};
use super::side::Side;
use crate::metrics::registry::{Figure, Metric, Unit};
use sobench_core::case::Arm;

/// Maximum share of gates that fail by chance if nothing changed.
pub const FALSE_ALARMS: f64 = 0.01;

/// How a gate treats rules with too few samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Undecided {
    #[default]
    Pass,
    Fail,
}

/// The result of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// The change is significant and exceeds its threshold, or a value misses its threshold.
    Broken,
    /// The change is certainly within its threshold, or a value meets its threshold.
    Kept,
    /// The interval extends beyond the threshold, but the change is not certain to exceed it.
    TooFew,
    /// The variation of a time or throughput between runs is unknown.
    TooFewRuns,
    /// There is no interval.
    Unknown(NoInterval),
    /// The later side has no value of a figure that the first one has, or a side has none of a
    /// figure that the user named. More samples would not help.
    Absent,
}

/// The result of a change rule.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeRuling {
    pub rule: ChangeRule,
    pub a: Option<f64>,
    pub b: Option<f64>,
    /// The change, in the rule's unit.
    pub change: Option<f64>,
    pub interval: Option<(f64, f64)>,
    pub ruling: Ruling,
}

/// The result of a limit rule.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitRuling {
    pub rule: LimitRule,
    /// Between two arms, the difference in percentage points.
    pub value: Option<f64>,
    /// The interval of the difference between two arms, with an error probability of
    /// [`FALSE_ALARMS`] at each end.
    pub interval: Option<(f64, f64)>,
    pub ruling: Ruling,
}

impl fmt::Display for Ruling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken => f.write_str("BROKEN"),
            Self::Kept => f.write_str("kept"),
            Self::TooFew => f.write_str("undecided: too few samples"),
            Self::TooFewRuns => write!(
                f,
                "undecided: needs {MIN_RUNS} runs a side, or --run-spread"
            ),
            Self::Unknown(reason) => match reason.description() {
                Some(why) => write!(f, "undecided: {why}"),
                None => {
                    f.write_str("undecided: one value per run; use --require to set a threshold")
                }
            },
            Self::Absent => f.write_str("NO VALUE: a side does not have this figure"),
        }
    }
}

impl fmt::Display for LimitRuling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rule,
            value,
            interval,
            ruling,
        } = self;
        match ruling {
            Ruling::Broken if interval.is_none() => {
                write!(f, "{rule}: {} is {}", rule.metric, rule.metric.text(*value))
            }
            _ => write!(f, "{rule}: {}", self.result()),
        }
    }
}

impl LimitRuling {
    /// The ruling; between two arms with the difference.
    pub fn result(&self) -> String {
        let (Some(difference), Some((low, high))) = (self.value, self.interval) else {
            return self.ruling.to_string();
        };
        let ruling = match self.ruling {
            Ruling::Kept => "met",
            Ruling::Broken => "NOT MET",
            _ => "undecided: too few items",
        };
        format!(
            "{ruling}; the difference is {difference:+.2} pp ({low:+.2} to {high:+.2}, 98 % interval)"
        )
    }
}

/// A line for each limit that is not kept, and whether the run passes.
pub fn failed_limits(rulings: &[LimitRuling], undecided: Undecided) -> (Vec<String>, bool) {
    let lines = rulings
        .iter()
        .filter(|ruled| ruled.ruling != Ruling::Kept)
        .map(|ruled| format!("require: {ruled}"));
    (
        lines.collect(),
        !rulings.iter().any(|ruled| ruled.ruling.fails(undecided)),
    )
}

/// The confidence level for a number of change rules.
pub fn interval_level(rules: usize) -> f64 {
    1.0 - 2.0 * FALSE_ALARMS / rules.max(1) as f64
}

/// Evaluates change rules; `measured` contains their figures.
pub fn evaluate_changes(
    rules: &[ChangeRule],
    measured: &[Measured],
    level: f64,
) -> Vec<ChangeRuling> {
    let find = |metric: Figure| measured.iter().find(|row| row.metric == metric);
    rules
        .iter()
        .filter_map(|rule| Some(change(*rule, find(rule.metric)?, level)))
        .collect()
}

/// Measures only the figures of the rules, and evaluates them.
pub fn evaluate_rules(
    a: &Side,
    b: &Side,
    rules: &[ChangeRule],
    level: f64,
    run_spread: &RunSpread,
    resampling: Resampling,
) -> Vec<ChangeRuling> {
    let mut metrics: Vec<Figure> = rules.iter().map(|rule| rule.metric).collect();
    metrics.sort();
    metrics.dedup();
    evaluate_changes(
        rules,
        &measure(a, b, &Pairing::new(a, b), &metrics, run_spread, resampling),
        level,
    )
}

/// Evaluates limit rules on one side.
pub fn evaluate_limits(rules: &[LimitRule], side: &Side) -> Vec<LimitRuling> {
    let ruled = |rule: &LimitRule| {
        if let Some((from, to)) = rule.arms() {
            return compare_arms(rule, side, from, to);
        }
        let found = reliable_figure(side, rule.metric);
        let ruling = match found {
            Ok(value) if rule.is_met(value) => Ruling::Kept,
            Ok(value) if may_be_met_without_client(rule, value, side) => {
                Ruling::Unknown(NoInterval::Distrusted)
            }
            Ok(_) => Ruling::Broken,
            Err(NoInterval::NoValue) => Ruling::Absent,
            Err(why) => Ruling::Unknown(why),
        };
        LimitRuling {
            rule: *rule,
            value: found.ok(),
            interval: None,
            ruling,
        }
    };
    rules.iter().map(ruled).collect()
}

/// Evaluates a limit between the accuracy of two arms. Several runs of a side have the same items,
/// so that the rule has to be decided in one.
fn compare_arms(rule: &LimitRule, side: &Side, from: Arm, to: Arm) -> LimitRuling {
    let undecided = |ruling| LimitRuling {
        rule: *rule,
        value: None,
        interval: None,
        ruling,
    };
    let [run] = &side.runs[..] else {
        return undecided(Ruling::Unknown(NoInterval::SeveralRuns));
    };
    let is_known = |metric: &Metric| run.counts.contains_key(metric);
    if !is_known(rule.metric.metric) || !rule.other.is_some_and(|other| is_known(other.metric)) {
        return undecided(Ruling::Absent);
    }
    let found = run.accuracy_difference(from, to, interval_level(1));
    let Some((difference, low, high)) = found else {
        return undecided(Ruling::Unknown(NoInterval::NoItems));
    };
    let ruling = match non_inferiority((low, high), -rule.value) {
        Some(true) => Ruling::Kept,
        Some(false) => Ruling::Broken,
        None => Ruling::TooFew,
    };
    LimitRuling {
        rule: *rule,
        value: Some(difference),
        interval: Some((low, high)),
        ruling,
    }
}

/// Whether a difference with this interval is certainly not below minus the margin; `Some(false)` if
/// it certainly is below, `None` if that is undecided.
pub fn non_inferiority((low, high): (f64, f64), margin: f64) -> Option<bool> {
    if low >= -margin {
        Some(true)
    } else if high < -margin {
        Some(false)
    } else {
        None
    }
}

/// Whether a value that misses a limit may meet it without what the client can have added. A client
/// makes times longer and throughput lower.
fn may_be_met_without_client(rule: &LimitRule, value: f64, side: &Side) -> bool {
    let bounds = side
        .runs
        .iter()
        .filter_map(|run| run.distrusted.get(&rule.metric));
    let mut best = None;
    for added in bounds {
        let Some(added) = added else { return true };
        best = Some(added.max(best.unwrap_or(0.0)));
    }
    best.is_some_and(|added| match rule.metric.metric.unit {
        Unit::Milliseconds => rule.is_met(value - added),
        _ => rule.is_met(value + added),
    })
}

impl Ruling {
    /// Whether the gate fails because of this ruling.
    pub fn fails(self, undecided: Undecided) -> bool {
        match self {
            Self::Broken | Self::Absent => true,
            Self::Kept => false,
            Self::TooFew | Self::TooFewRuns | Self::Unknown(_) => undecided == Undecided::Fail,
        }
    }

    /// Whether the samples do not decide the rule.
    pub fn is_undecided(self) -> bool {
        matches!(self, Self::TooFew | Self::TooFewRuns | Self::Unknown(_))
    }
}

/// The verdict of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GateVerdict {
    Passed,
    Failed,
    /// All rules of a side are undecided. The exit code is that of a failed gate.
    Undecided,
}

/// The verdict of a gate, with its reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateSummary {
    pub verdict: GateVerdict,
    pub rules: usize,
    pub broken: usize,
    pub undecided: usize,
    /// The side and file of each partial run.
    pub partial: Vec<(usize, String)>,
    /// Whether partial runs may pass.
    pub allow_partial: bool,
    /// How undecided rules count, after the verdict.
    pub treatment: Undecided,
}

impl GateSummary {
    /// From the rulings of each later side and the partial runs of all sides.
    pub fn new(gate: &Gate, rulings: &[Vec<Ruling>], partial: Vec<(usize, String)>) -> Self {
        let all = || rulings.iter().flatten();
        let treatment = gate.undecided.unwrap_or_default();
        let is_failed = all().any(|ruling| ruling.fails(treatment));
        let is_vacuous = rulings
            .iter()
            .any(|of_side| of_side.iter().all(|ruling| ruling.is_undecided()));
        let verdict = if is_failed || (!partial.is_empty() && !gate.allow_partial) {
            GateVerdict::Failed
        } else if is_vacuous && gate.undecided.is_none() {
            GateVerdict::Undecided
        } else {
            GateVerdict::Passed
        };
        Self {
            verdict,
            rules: all().count(),
            broken: all()
                .filter(|ruling| matches!(ruling, Ruling::Broken | Ruling::Absent))
                .count(),
            undecided: all().filter(|ruling| ruling.is_undecided()).count(),
            partial,
            allow_partial: gate.allow_partial,
            treatment: if verdict == GateVerdict::Undecided {
                Undecided::Fail
            } else {
                treatment
            },
        }
    }
}

fn change(rule: ChangeRule, measured: &Measured, level: f64) -> ChangeRuling {
    let (change, interval) = match rule.unit {
        ChangeUnit::Own => (measured.difference, measured.spread.interval(level)),
        ChangeUnit::Percent => {
            let base = measured.a.filter(|base| *base > 0.0);
            let change = measured
                .difference
                .zip(base)
                .map(|(difference, base)| 100.0 * difference / base);
            (change, measured.spread.relative(level))
        }
    };
    let bad = if rule.direction == Direction::Up {
        Ordering::Greater
    } else {
        Ordering::Less
    };
    let is_absent = match (measured.a, measured.b) {
        (Some(_), Some(_)) => false,
        (Some(_), None) => true,
        (None, _) => !rule.is_default,
    };
    let ruling = match (change, interval, &measured.spread) {
        _ if is_absent => Ruling::Absent,
        (_, _, super::measure::Uncertainty::None(why)) => Ruling::Unknown(*why),
        (None, _, _) | (_, None, _) => Ruling::Unknown(NoInterval::NoValue),
        _ if matches!(measured.variation, RunVariation::Assumed(_)) => Ruling::TooFewRuns,
        (Some(change), Some(_), spread)
            if rule.is_past(change)
                && spread.sign(level, measured.variation.floor()) == Some(bad) =>
        {
            Ruling::Broken
        }
        (Some(_), Some((low, high)), _) => {
            let worst = if rule.direction == Direction::Up {
                high
            } else {
                low
            };
            if rule.is_past(worst) {
                Ruling::TooFew
            } else {
                Ruling::Kept
            }
        }
    };
    ChangeRuling {
        rule,
        a: measured.a,
        b: measured.b,
        change,
        interval,
        ruling,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::measure::Uncertainty;
    use crate::compare::side::Share;
    use crate::compare::testing::{request, side};
    use crate::metrics::accuracy::ArmPairs;
    use crate::metrics::registry::rates;
    use crate::metrics::testing::{test_request, with_samples};
    use crate::metrics::{MetricsOptions, summarise};
    use crate::record::testing::record;
    use sobench_statistics::paired::{PairedSample, Pairs};

    #[test]
    fn single_run_is_checked_against_limits() {
        let run: Vec<_> = (0..20).map(|_| test_request()).collect();
        let metrics = with_samples(&run, |samples| {
            summarise(samples, 1_000_000_000, &MetricsOptions::default())
        });
        let rules = [
            "correct_rate>=99.5",
            "median_ttft_ms<=9",
            "p99_ttft_ms<=200",
            "completed>=20",
            "valid_throughput>=20",
        ];
        let rules = rules.map(|rule| LimitRule::parse(rule).unwrap());
        let rulings = crate::compare::check_limits(&record(), &metrics, None, &rules);
        let (lines, kept) = failed_limits(&rulings, Undecided::Pass);
        let expected = [
            "require: median_ttft_ms<=9: median_ttft_ms is 10.00",
            "require: p99_ttft_ms<=200: undecided: 20 < 662",
        ];
        assert_eq!((lines, kept), (expected.map(str::to_owned).to_vec(), false));
        assert!(
            failed_limits(&rulings[2..], Undecided::Pass).1
                && !failed_limits(&rulings[2..], Undecided::Fail).1
        );
    }

    /// The ruling for a mean that changes from 100, with a standard error on each side.
    fn ruled(rule: &str, to: f64, error: f64, variation: RunVariation) -> Ruling {
        let rule = ChangeRule::parse(rule).unwrap();
        let spread = Uncertainty::Normal {
            a: 100.0,
            b: to,
            error_a: error,
            error_b: error,
        };
        let measured = Measured {
            metric: rule.metric,
            a: Some(100.0),
            b: Some(to),
            difference: Some(to - 100.0),
            n: (None, None),
            variation,
            spread,
        };
        evaluate_changes(&[rule], &[measured], interval_level(1))[0].ruling
    }

    #[test]
    fn broken_needs_estimate_and_interval() {
        use RunVariation::{Assumed, Given, Measured};
        let rule = "mean_ttft_ms>+10%";
        assert_eq!(ruled(rule, 115.0, 1.0, Measured), Ruling::Broken);
        assert_eq!(
            ruled(rule, 108.0, 1.0, Measured),
            Ruling::TooFew,
            "certainly slower, but not certain to exceed the threshold"
        );
        assert_eq!(
            ruled(rule, 105.0, 1.0, Measured),
            Ruling::Kept,
            "certainly slower, but within the threshold"
        );
        assert_eq!(
            ruled(rule, 115.0, 20.0, Measured),
            Ruling::TooFew,
            "the estimate exceeds the threshold, but may be chance"
        );
        assert_eq!(ruled(rule, 80.0, 1.0, Measured), Ruling::Kept);
        assert_eq!(
            ruled("mean_ttft_ms>+10ms", 115.0, 1.0, Measured),
            Ruling::Broken
        );
        assert_eq!(ruled(rule, 115.0, 4.0, Measured), Ruling::Broken);
        assert_eq!(
            ruled(rule, 115.0, 4.0, Given(5.0)),
            Ruling::TooFew,
            "within the variation between runs"
        );
        assert_eq!(
            ruled(rule, 300.0, 0.1, Assumed(5.0)),
            Ruling::TooFewRuns,
            "the variation between runs is unknown"
        );
        assert_eq!(
            ruled("mean_ttft_ms>+20ms", 115.0, 0.1, Measured),
            Ruling::Kept
        );
    }

    #[test]
    fn rates_change_in_percentage_points_and_pairs_are_tested() {
        let rule = ChangeRule::parse("correct_rate<-0.5pp").unwrap();
        let ruling = |only_a: usize| {
            let pairs = Pairs {
                both: 990 - only_a,
                only_a,
                only_b: 0,
                neither: 10,
            };
            let (a, b) = (
                Share {
                    hits: 990,
                    of: 1000,
                },
                Share {
                    hits: 990 - only_a,
                    of: 1000,
                },
            );
            let difference = pairs.difference().map(|share| 100.0 * share);
            let spread = Uncertainty::Rates {
                pairs: Some(pairs),
                a,
                b,
                drawn: None,
            };
            let measured = Measured {
                metric: rule.metric,
                a: Some(99.0),
                b: Some(98.0),
                difference,
                n: (None, None),
                variation: RunVariation::NotTimed,
                spread,
            };
            evaluate_changes(&[rule], &[measured], interval_level(6))[0].ruling
        };
        assert_eq!(
            [0, 6, 20].map(ruling),
            [Ruling::TooFew, Ruling::TooFew, Ruling::Broken]
        );
    }

    #[test]
    fn figure_that_only_the_first_side_has_breaks_every_rule() {
        let named = ChangeRule::parse("correct_rate<-0.5pp").unwrap();
        let default = ChangeRule {
            is_default: true,
            ..named
        };
        let ruling = |rule: ChangeRule, a: Option<f64>, b: Option<f64>| {
            let measured = Measured {
                metric: rule.metric,
                a,
                b,
                difference: None,
                n: (None, None),
                variation: RunVariation::NotTimed,
                spread: Uncertainty::None(NoInterval::NoValue),
            };
            evaluate_changes(&[rule], &[measured], interval_level(1))[0].ruling
        };
        let unknown = Ruling::Unknown(NoInterval::NoValue);
        for (a, b, of_named, of_default) in [
            (Some(98.0), None, Ruling::Absent, Ruling::Absent),
            (None, Some(98.0), Ruling::Absent, unknown),
            (None, None, Ruling::Absent, unknown),
        ] {
            assert_eq!(
                (ruling(named, a, b), ruling(default, a, b)),
                (of_named, of_default)
            );
        }
    }

    #[test]
    fn gate_passes_only_if_something_was_decided_on_whole_runs() {
        let verdict = |gate: &Gate, rulings: &[&[Ruling]], partial: bool| {
            let rulings: Vec<Vec<Ruling>> = rulings.iter().map(|side| side.to_vec()).collect();
            let partial = partial.then(|| (1, "b.jsonl".to_owned()));
            GateSummary::new(gate, &rulings, partial.into_iter().collect()).verdict
        };
        let default = Gate::default();
        let undecided = |undecided: Undecided| Gate {
            undecided: Some(undecided),
            ..Gate::default()
        };
        let allowed = Gate {
            allow_partial: true,
            ..Gate::default()
        };
        let (kept, few, runs) = (Ruling::Kept, Ruling::TooFew, Ruling::TooFewRuns);
        for (gate, rulings, is_partial, expected) in [
            (
                &default,
                &[&[kept, few][..]][..],
                false,
                GateVerdict::Passed,
            ),
            (&default, &[&[few, runs]], false, GateVerdict::Undecided),
            (&default, &[&[kept], &[few]], false, GateVerdict::Undecided),
            (
                &default,
                &[&[few], &[Ruling::Broken]],
                false,
                GateVerdict::Failed,
            ),
            (&default, &[&[kept]], true, GateVerdict::Failed),
            (&allowed, &[&[kept]], true, GateVerdict::Passed),
            (&allowed, &[&[Ruling::Absent]], true, GateVerdict::Failed),
            (
                &undecided(Undecided::Pass),
                &[&[few, runs]],
                false,
                GateVerdict::Passed,
            ),
            (
                &undecided(Undecided::Fail),
                &[&[kept, few]],
                false,
                GateVerdict::Failed,
            ),
        ] {
            assert_eq!(verdict(gate, rulings, is_partial), expected, "{rulings:?}");
        }
    }

    #[test]
    fn more_rules_make_wider_intervals() {
        assert!(
            (interval_level(1) - 0.98).abs() < 1e-12
                && (interval_level(6) - 0.996_666_666).abs() < 1e-8
        );
    }

    #[test]
    fn limit_that_may_be_met_without_the_client_is_undecided() {
        let mut side = side("a", vec![vec![request(); 20]]);
        let rule = LimitRule::parse("median_ttft_ms<=9").unwrap();
        let mut ruling = |added: Option<f64>| {
            side.runs[0].distrusted = [(rule.metric, added)].into();
            evaluate_limits(&[rule], &side)[0].ruling
        };
        // The value is 10 ms.
        let undecided = Ruling::Unknown(NoInterval::Distrusted);
        assert_eq!(
            [Some(0.5), Some(1.5), None].map(&mut ruling),
            [Ruling::Broken, undecided, undecided]
        );
    }

    #[test]
    fn accuracy_of_two_arms_is_compared_over_items() {
        let with_pairs = |both: usize, only_a: usize, only_b: usize| {
            let mut side = side("a", vec![vec![request(); 20]]);
            let share = Share {
                hits: both,
                of: 400,
            };
            for metric in [&rates::ACCURACY, &rates::ACCURACY_PROMPT] {
                side.runs[0].counts.insert(metric, share);
            }
            let clusters = [
                vec![(true, true); both],
                vec![(true, false); only_a],
                vec![(false, true); only_b],
                vec![(false, false); 400 - both - only_a - only_b],
            ]
            .concat();
            let clusters: Vec<Pairs> = clusters
                .into_iter()
                .map(|(a, b)| {
                    let mut pairs = Pairs::default();
                    pairs.add(a, b);
                    pairs
                })
                .collect();
            side.runs[0].arm_pairs = vec![ArmPairs {
                from: Arm::Control,
                to: Arm::Constrained,
                sample: PairedSample::from_clusters(&clusters),
            }];
            side
        };
        let ruled = |rule: &str, side: &Side| {
            evaluate_limits(&[LimitRule::parse(rule).unwrap()], side).remove(0)
        };
        let rule = "accuracy(prompt+constraint)>=accuracy(prompt)-3pp";
        let equal = with_pairs(300, 5, 5);
        assert_eq!(ruled(rule, &equal).ruling, Ruling::Kept);
        let worse = ruled(rule, &with_pairs(250, 60, 2));
        assert_eq!(worse.ruling, Ruling::Broken);
        assert!(
            worse.to_string().starts_with(
                "accuracy>=accuracy_prompt-3pp: NOT MET; the difference is -14.50 pp (-1"
            ),
            "{worse}"
        );
        let unclear = ruled(rule, &with_pairs(250, 30, 20));
        assert_eq!(unclear.ruling, Ruling::TooFew);
        assert!(unclear.to_string().contains("undecided: too few items"));
        // The other way round.
        let reversed = "accuracy(prompt)>=accuracy(prompt+constraint)-3pp";
        let reversed = ruled(reversed, &with_pairs(250, 60, 2));
        let difference = reversed.value.unwrap();
        assert_eq!(reversed.ruling, Ruling::Kept);
        assert!((difference - 14.5).abs() < 1e-9, "{difference}");
        let other = "accuracy(free)>=accuracy(prompt)-3pp";
        assert_eq!(ruled(other, &equal).ruling, Ruling::Absent);
        let mut without = equal.clone();
        without.runs[0].arm_pairs.clear();
        let no_items = Ruling::Unknown(NoInterval::NoItems);
        assert_eq!(ruled(rule, &without).ruling, no_items);
        let mut several = equal;
        several.runs.push(several.runs[0].clone());
        let several_runs = Ruling::Unknown(NoInterval::SeveralRuns);
        assert_eq!(ruled(rule, &several).ruling, several_runs);
    }

    #[test]
    fn limit_is_met_missed_or_undecided() {
        let side = side("a", vec![vec![request(); 20]]);
        let ruling =
            |rule: &str| evaluate_limits(&[LimitRule::parse(rule).unwrap()], &side)[0].ruling;
        assert_eq!(ruling("correct_rate>=99.5"), Ruling::Kept);
        assert_eq!(ruling("median_ttft_ms<=9"), Ruling::Broken);
        assert_eq!(
            ruling("p99_ttft_ms<=200"),
            Ruling::Unknown(NoInterval::TooFew { n: 20, needs: 662 })
        );
        assert_eq!(ruling("control_rate>=1"), Ruling::Absent);
        assert!(Ruling::Absent.fails(Undecided::Pass));
        assert!(Ruling::TooFew.fails(Undecided::Fail) && !Ruling::TooFew.fails(Undecided::Pass));
    }
}
