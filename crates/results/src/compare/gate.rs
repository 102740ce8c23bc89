//! Evaluates the rules of a gate.
//!
//! A change rule is broken if the estimate exceeds the threshold and the whole interval is on the
//! bad side of zero; for times and throughput of single runs, beyond the assumed variation between
//! runs. Intervals are one-sided with Bonferroni correction: if both sides are equal, at most
//! [`FALSE_ALARMS`] of all gates have any broken rule.

use std::fmt;

use std::cmp::Ordering;

use serde::Serialize;

use super::measure::{Measured, NoInterval, Resampling, measure, reliable_figure};
use super::pairing::Pairing;
use super::rules::{ChangeRule, ChangeUnit, Direction, LimitRule};
use super::side::Side;
use crate::metrics::registry::Figure;

/// Maximum share of gates that fail by chance if nothing changed, apart from the variation between
/// runs.
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
    /// There is no interval.
    Unknown(NoInterval),
    /// A side has no value of a figure that the user named; more samples would not help.
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
    pub value: Option<f64>,
    pub ruling: Ruling,
}

impl fmt::Display for Ruling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken => f.write_str("BROKEN"),
            Self::Kept => f.write_str("kept"),
            Self::TooFew => f.write_str("undecided: too few samples"),
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
            ruling,
        } = self;
        match ruling {
            Ruling::Broken => write!(f, "{rule}: {} is {}", rule.metric, rule.metric.text(*value)),
            other => write!(f, "{rule}: {other}"),
        }
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
    resampling: Resampling,
) -> Vec<ChangeRuling> {
    let mut metrics: Vec<Figure> = rules.iter().map(|rule| rule.metric).collect();
    metrics.sort();
    metrics.dedup();
    evaluate_changes(
        rules,
        &measure(a, b, &Pairing::new(a, b), &metrics, resampling),
        level,
    )
}

/// Evaluates limit rules on one side.
pub fn evaluate_limits(rules: &[LimitRule], side: &Side) -> Vec<LimitRuling> {
    let ruled = |rule: &LimitRule| {
        let found = reliable_figure(side, rule.metric);
        let ruling = match found {
            Ok(value) if rule.is_met(value) => Ruling::Kept,
            Ok(_) => Ruling::Broken,
            Err(NoInterval::NoValue) => Ruling::Absent,
            Err(why) => Ruling::Unknown(why),
        };
        LimitRuling {
            rule: *rule,
            value: found.ok(),
            ruling,
        }
    };
    rules.iter().map(ruled).collect()
}

impl Ruling {
    /// Whether the gate fails because of this ruling.
    pub fn fails(self, undecided: Undecided) -> bool {
        match self {
            Self::Broken | Self::Absent => true,
            Self::Kept => false,
            Self::TooFew | Self::Unknown(_) => undecided == Undecided::Fail,
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
    let is_absent = measured.a.is_none() || measured.b.is_none();
    let ruling = match (change, interval, &measured.spread) {
        _ if is_absent && !rule.is_default => Ruling::Absent,
        (_, _, super::measure::Uncertainty::None(why)) => Ruling::Unknown(*why),
        (None, _, _) | (_, None, _) => Ruling::Unknown(NoInterval::NoValue),
        (Some(change), Some(_), spread)
            if rule.is_past(change) && spread.sign(level, measured.floor) == Some(bad) =>
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
    use crate::compare::rates::Pairs;
    use crate::compare::side::Share;
    use crate::compare::testing::{request, side};
    use crate::metrics::testing::{test_request, with_samples};
    use crate::metrics::{MetricsOptions, summarise};
    use crate::record::testing::record;

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
        let rulings = crate::compare::check_limits(&record(), &metrics, &rules);
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
    fn ruled(rule: &str, to: f64, error: f64, floor: Option<f64>) -> Ruling {
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
            floor,
            spread,
        };
        evaluate_changes(&[rule], &[measured], interval_level(1))[0].ruling
    }

    #[test]
    fn broken_needs_estimate_and_interval() {
        let rule = "mean_ttft_ms>+10%";
        assert_eq!(ruled(rule, 115.0, 1.0, None), Ruling::Broken);
        assert_eq!(
            ruled(rule, 108.0, 1.0, None),
            Ruling::TooFew,
            "certainly slower, but not certain to exceed the threshold"
        );
        assert_eq!(
            ruled(rule, 105.0, 1.0, None),
            Ruling::Kept,
            "certainly slower, but within the threshold"
        );
        assert_eq!(
            ruled(rule, 115.0, 20.0, None),
            Ruling::TooFew,
            "the estimate exceeds the threshold, but may be chance"
        );
        assert_eq!(ruled(rule, 80.0, 1.0, None), Ruling::Kept);
        assert_eq!(
            ruled("mean_ttft_ms>+10ms", 115.0, 1.0, None),
            Ruling::Broken
        );
        assert_eq!(ruled(rule, 115.0, 4.0, None), Ruling::Broken);
        assert_eq!(
            ruled(rule, 115.0, 4.0, Some(5.0)),
            Ruling::TooFew,
            "within the variation between runs"
        );
        assert_eq!(ruled("mean_ttft_ms>+20ms", 115.0, 0.1, None), Ruling::Kept);
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
                floor: None,
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
    fn missing_figure_breaks_only_rules_that_the_user_named() {
        let named = ChangeRule::parse("correct_rate<-0.5pp").unwrap();
        let spread = Uncertainty::None(NoInterval::NoValue);
        let measured = [Measured {
            metric: named.metric,
            a: None,
            b: Some(98.0),
            difference: None,
            n: (None, None),
            floor: None,
            spread,
        }];
        let ruling =
            |rule: ChangeRule| evaluate_changes(&[rule], &measured, interval_level(1))[0].ruling;
        assert_eq!(ruling(named), Ruling::Absent);
        assert_eq!(
            ruling(ChangeRule {
                is_default: true,
                ..named
            }),
            Ruling::Unknown(NoInterval::NoValue)
        );
    }

    #[test]
    fn more_rules_make_wider_intervals() {
        assert!(
            (interval_level(1) - 0.98).abs() < 1e-12
                && (interval_level(6) - 0.996_666_666).abs() < 1e-8
        );
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
