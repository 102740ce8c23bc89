//! Rules held against what was measured. Knows no wording.
//!
//! A change fails where its size *and* its interval say so: the estimate is past the rule's size,
//! and the whole interval is on the bad side of nothing; of times and throughput of single runs,
//! past what runs of the same server may be apart. Intervals are so wide that, were both sides the
//! same, at most [`FALSE_ALARMS`] of all gates would find any of their rules broken by chance: each
//! rule gets an equal part of that (Bonferroni), one-sided.

use std::fmt;

use std::cmp::Ordering;

use serde::Serialize;

use super::measure::{Measured, Resampling, Why, carried, measure};
use super::pairing::Pairing;
use super::rules::{Change, Limit, Unit, Way};
use super::side::Side;
use crate::metrics::registry::Figure;

/// The share of gates that may fail by chance where nothing changed, the spread from run to run
/// aside.
pub const FALSE_ALARMS: f64 = 0.01;

/// What a gate does where the samples cannot tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Undecided {
    #[default]
    Pass,
    Fail,
}

/// What became of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// Past its size, and not by chance; or a bound that is missed.
    Broken,
    /// Not past its size, and chance would not hide it; or a bound that is met.
    Kept,
    /// The interval reaches both past the rule's size and to nothing.
    TooFew,
    /// There is no interval.
    Unknown(Why),
    /// The user asked for a figure that a side does not have: no sample would bring it.
    Absent,
}

/// A change that was ruled on.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeRuling {
    pub rule: Change,
    pub a: Option<f64>,
    pub b: Option<f64>,
    /// In the rule's unit.
    pub change: Option<f64>,
    pub interval: Option<(f64, f64)>,
    pub ruling: Ruling,
}

/// A bound that was ruled on.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitRuling {
    pub rule: Limit,
    pub value: Option<f64>,
    pub ruling: Ruling,
}

impl fmt::Display for Ruling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken => f.write_str("BROKEN"),
            Self::Kept => f.write_str("kept"),
            Self::TooFew => f.write_str("too few samples to tell"),
            Self::Unknown(reason) => match reason.words() {
                Some(why) => write!(f, "cannot be told: {why}"),
                None => {
                    f.write_str("cannot be told: a run has it only once; --require can bound it")
                }
            },
            Self::Absent => f.write_str("NO SUCH FIGURE: a side has no value"),
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

/// A line for each bound that is not kept, and whether enough of them are.
pub fn bounds(rulings: &[LimitRuling], undecided: Undecided) -> (Vec<String>, bool) {
    let lines = rulings
        .iter()
        .filter(|ruled| ruled.ruling != Ruling::Kept)
        .map(|ruled| format!("require: {ruled}"));
    (
        lines.collect(),
        !rulings.iter().any(|ruled| ruled.ruling.fails(undecided)),
    )
}

/// The level of the intervals that `rules` changes are ruled on with.
pub fn level(rules: usize) -> f64 {
    1.0 - 2.0 * FALSE_ALARMS / rules.max(1) as f64
}

/// Rules on changes; `measured` has their metrics.
pub fn changes(rules: &[Change], measured: &[Measured], level: f64) -> Vec<ChangeRuling> {
    let of_metric = |metric: Figure| measured.iter().find(|it| it.metric == metric);
    rules
        .iter()
        .filter_map(|rule| Some(change(*rule, of_metric(rule.metric)?, level)))
        .collect()
}

/// Measures what the rules are about, and nothing else, and rules on it.
pub fn ruled(
    a: &Side,
    b: &Side,
    rules: &[Change],
    level: f64,
    resampling: Resampling,
) -> Vec<ChangeRuling> {
    let mut metrics: Vec<Figure> = rules.iter().map(|rule| rule.metric).collect();
    metrics.sort();
    metrics.dedup();
    changes(
        rules,
        &measure(a, b, &Pairing::of(a, b), &metrics, resampling),
        level,
    )
}

/// Rules on the bounds of one side.
pub fn limits(rules: &[Limit], side: &Side) -> Vec<LimitRuling> {
    let ruled = |rule: &Limit| {
        let found = carried(side, rule.metric);
        let ruling = match found {
            Ok(value) if rule.is_met(value) => Ruling::Kept,
            Ok(_) => Ruling::Broken,
            Err(Why::NoValue) => Ruling::Absent,
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
    /// Whether the gate fails for it.
    pub fn fails(self, undecided: Undecided) -> bool {
        match self {
            Self::Broken | Self::Absent => true,
            Self::Kept => false,
            Self::TooFew | Self::Unknown(_) => undecided == Undecided::Fail,
        }
    }
}

fn change(rule: Change, measured: &Measured, level: f64) -> ChangeRuling {
    let (change, interval) = match rule.unit {
        Unit::Own => (measured.difference, measured.spread.interval(level)),
        Unit::Percent => {
            let base = measured.a.filter(|base| *base > 0.0);
            let change = measured
                .difference
                .zip(base)
                .map(|(difference, base)| 100.0 * difference / base);
            (change, measured.spread.relative(level))
        }
    };
    let bad = if rule.way == Way::Up {
        Ordering::Greater
    } else {
        Ordering::Less
    };
    let is_absent = measured.a.is_none() || measured.b.is_none();
    let ruling = match (change, interval, &measured.spread) {
        _ if is_absent && !rule.is_default => Ruling::Absent,
        (_, _, super::measure::Spread::None(why)) => Ruling::Unknown(*why),
        (None, _, _) | (_, None, _) => Ruling::Unknown(Why::NoValue),
        (Some(change), Some(_), spread)
            if rule.is_past(change) && spread.sign(level, measured.floor) == Some(bad) =>
        {
            Ruling::Broken
        }
        (Some(_), Some((low, high)), _) => {
            let worst = if rule.way == Way::Up { high } else { low };
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
    use crate::compare::measure::Spread;
    use crate::compare::rates::Pairs;
    use crate::compare::side::Share;
    use crate::compare::testing::{request, side};
    use crate::metrics::testing::{made, with_samples};
    use crate::metrics::{MetricsOptions, summarise};
    use crate::record::testing::record;

    #[test]
    fn a_run_of_its_own_is_held_to_bounds() {
        let run: Vec<_> = (0..20).map(|_| made()).collect();
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
        let rules = rules.map(|rule| Limit::parse(rule).unwrap());
        let rulings = crate::compare::bounds(&record(), &metrics, &rules);
        let (lines, kept) = bounds(&rulings, Undecided::Pass);
        let expected = [
            "require: median_ttft_ms<=9: median_ttft_ms is 10.00",
            "require: p99_ttft_ms<=200: cannot be told: 20 < 662",
        ];
        assert_eq!((lines, kept), (expected.map(str::to_owned).to_vec(), false));
        assert!(
            bounds(&rulings[2..], Undecided::Pass).1 && !bounds(&rulings[2..], Undecided::Fail).1
        );
    }

    /// A change of a mean from 100, with a standard error on each side.
    fn ruled(rule: &str, to: f64, error: f64, floor: Option<f64>) -> Ruling {
        let rule = Change::parse(rule).unwrap();
        let spread = Spread::Normal {
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
        changes(&[rule], &[measured], level(1))[0].ruling
    }

    #[test]
    fn size_and_interval_have_to_agree() {
        let rule = "mean_ttft_ms>+10%";
        assert_eq!(ruled(rule, 115.0, 1.0, None), Ruling::Broken);
        assert_eq!(
            ruled(rule, 108.0, 1.0, None),
            Ruling::TooFew,
            "surely slower, and it may be by more than the rule allows"
        );
        assert_eq!(
            ruled(rule, 105.0, 1.0, None),
            Ruling::Kept,
            "surely slower, and surely by less than the rule allows"
        );
        assert_eq!(
            ruled(rule, 115.0, 20.0, None),
            Ruling::TooFew,
            "past the size, and it may be chance"
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
            "runs of the same server may be so far apart"
        );
        assert_eq!(ruled("mean_ttft_ms>+20ms", 115.0, 0.1, None), Ruling::Kept);
    }

    #[test]
    fn rates_change_in_points_and_pairs_are_tested() {
        let rule = Change::parse("correct_rate<-0.5pp").unwrap();
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
            let spread = Spread::Rates {
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
            changes(&[rule], &[measured], level(6))[0].ruling
        };
        assert_eq!(
            [0, 6, 20].map(ruling),
            [Ruling::TooFew, Ruling::TooFew, Ruling::Broken]
        );
    }

    #[test]
    fn a_figure_that_is_not_there_breaks_the_rule_that_names_it_and_no_default() {
        let named = Change::parse("correct_rate<-0.5pp").unwrap();
        let spread = Spread::None(Why::NoValue);
        let measured = [Measured {
            metric: named.metric,
            a: None,
            b: Some(98.0),
            difference: None,
            n: (None, None),
            floor: None,
            spread,
        }];
        let ruling = |rule: Change| changes(&[rule], &measured, level(1))[0].ruling;
        assert_eq!(ruling(named), Ruling::Absent);
        assert_eq!(
            ruling(Change {
                is_default: true,
                ..named
            }),
            Ruling::Unknown(Why::NoValue)
        );
    }

    #[test]
    fn more_rules_make_wider_intervals() {
        assert!((level(1) - 0.98).abs() < 1e-12 && (level(6) - 0.996_666_666).abs() < 1e-8);
    }

    #[test]
    fn a_bound_is_met_missed_or_not_to_be_told() {
        let side = side("a", vec![vec![request(); 20]]);
        let ruling = |rule: &str| limits(&[Limit::parse(rule).unwrap()], &side)[0].ruling;
        assert_eq!(ruling("correct_rate>=99.5"), Ruling::Kept);
        assert_eq!(ruling("median_ttft_ms<=9"), Ruling::Broken);
        assert_eq!(
            ruling("p99_ttft_ms<=200"),
            Ruling::Unknown(Why::TooFew { n: 20, needs: 662 })
        );
        assert_eq!(ruling("control_rate>=1"), Ruling::Absent);
        assert!(Ruling::Absent.fails(Undecided::Pass));
        assert!(Ruling::TooFew.fails(Undecided::Fail) && !Ruling::TooFew.fails(Undecided::Pass));
    }
}
