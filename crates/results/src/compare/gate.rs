//! Evaluates the rules of a gate. The levels of its two errors are in [`super::contrast`].
//!
//! A change rule is broken if the estimate exceeds the threshold and the whole interval is on the
//! bad side of zero. Rules on times and throughput need [`MIN_RUNS`] runs a side, whose intervals
//! include the variation between runs, or a variation that the user gives: then the whole interval
//! has to be beyond it. It is kept if the interval does not reach the threshold, and undecided
//! otherwise.
//!
//! A limit between the accuracy of two arms is a test of non-inferiority over items: it is met if
//! the lower bound of the difference is at least minus the margin, and missed if the upper bound is
//! below it ([`sobench_statistics::paired::PairedSample::one_sided_bounds`]). Otherwise it is
//! undecided.
//!
//! A gate passes if every rule that counts is kept, fails if one is broken, and is undecided
//! otherwise. Rules that cannot say anything do not count ([`NotCounted`]), and a gate without any
//! kept rule is undecided.

use std::cmp::Ordering;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::Gate;
use super::measure::{Measured, NoInterval, Uncertainty, reliable_figure};
use super::rules::{ChangeRule, ChangeUnit, Direction, LimitRule, RuleOrigin};
use super::run_spread::RunVariation;
use super::side::Side;
use super::throughput::follows_rate;
use crate::metrics::registry::{Figure, Unit};
use sobench_core::case::Arm;
use sobench_core::exit_codes::{CHECK_FAILED, SUCCESS, UNDECIDED};
use sobench_statistics::contrast::{KEPT_LEVEL, MIN_RUNS, broken_level};

/// How a gate treats undecided rules. Without it, the gate is undecided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Undecided {
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
    /// The rule says nothing about these sides, and the gate does not count it.
    NotCounted(NotCounted),
}

/// Why a rule does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotCounted {
    /// The request rate sets the throughput of both sides.
    FollowsRate,
    /// Neither side has the figure of a default rule.
    NoValue,
    /// A default rule on a time or throughput, whose variation between runs is unknown.
    FewRuns,
}

/// The size of a sample that decides a rule if nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    Requests(usize),
    Runs(usize),
}

/// The result of a change rule.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeRuling {
    pub rule: ChangeRule,
    pub a: Option<f64>,
    pub b: Option<f64>,
    /// The change, in the rule's unit.
    pub change: Option<f64>,
    /// The interval that decides: of a broken rule at the level of all rules, otherwise of
    /// [`KEPT_LEVEL`].
    pub interval: Option<(f64, f64)>,
    pub ruling: Ruling,
    /// The size a side that decides an undecided rule.
    pub needs: Option<Needs>,
}

/// The result of a limit rule.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitRuling {
    pub rule: LimitRule,
    /// Between two arms, the difference in percentage points.
    pub value: Option<f64>,
    /// Between two arms, the interval of the difference that decides, as in [`ChangeRuling`].
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
            Self::NotCounted(why) => write!(f, "not counted: {why}"),
        }
    }
}

impl NotCounted {
    pub const ALL: [Self; 3] = [Self::FollowsRate, Self::NoValue, Self::FewRuns];
}

impl fmt::Display for NotCounted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FollowsRate => f.write_str("follows the request rate"),
            Self::NoValue => f.write_str("no values"),
            Self::FewRuns => write!(f, "needs {MIN_RUNS} runs a side"),
        }
    }
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requests(count) => write!(f, "{} requests", two_digits_up(*count as f64)),
            Self::Runs(count) => write!(f, "{count} runs"),
        }
    }
}

impl ChangeRuling {
    /// The ruling; of an undecided rule with the change that the samples rule out, and the size that
    /// the rule needs.
    pub fn result(&self) -> String {
        let Some(ruled_out) = self.ruled_out().filter(|_| self.ruling == Ruling::TooFew) else {
            return self.ruling.to_string();
        };
        let rule = &self.rule;
        let change = match (rule.metric.is_rate(), rule.direction) {
            (true, Direction::Down) => "a loss",
            (false, Direction::Down) => "a decrease",
            (_, Direction::Up) => "an increase",
        };
        let unit = rule.unit_name();
        let mut text = format!(
            "undecided: rules out {change} over {} {unit}",
            two_digits_up(ruled_out)
        );
        if let Some(needs) = self.needs {
            text += &format!("; {} {unit} needs about {needs} a side", rule.size);
        }
        text
    }

    /// The smallest change in the direction of the rule that the samples rule out.
    pub fn ruled_out(&self) -> Option<f64> {
        let (low, high) = self.interval.filter(|_| self.ruling != Ruling::Broken)?;
        Some(match self.rule.direction {
            Direction::Up => high.max(0.0),
            Direction::Down => (-low).max(0.0),
        })
    }
}

/// A number above 0 rounded up to two significant digits.
fn two_digits_up(number: f64) -> String {
    let unit = 10_f64.powi((number.max(1e-9).log10().floor() as i32 - 1).max(-2));
    // Without the error of the division.
    let rounded = (number / unit - 1e-9).ceil() * unit + 0.0;
    let decimals = usize::from(unit < 1.0) + usize::from(unit < 0.1);
    format!("{rounded:.decimals$}")
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
        let (ruling, level) = match self.ruling {
            Ruling::Kept => ("met".to_owned(), KEPT_LEVEL),
            Ruling::Broken => ("NOT MET".to_owned(), broken_level(1)),
            _ => {
                let ruled_out = two_digits_up((-low).max(0.0));
                let text =
                    format!("undecided: too few items, which rule out a loss over {ruled_out} pp");
                (text, KEPT_LEVEL)
            }
        };
        format!(
            "{ruling}; the difference is {difference:+.2} pp ({low:+.2} to {high:+.2}, {:.0} % interval)",
            100.0 * level
        )
    }
}

/// A line for each limit that is not kept, and the verdict on all.
pub fn failed_limits(
    rulings: &[LimitRuling],
    undecided: Option<Undecided>,
) -> (Vec<String>, GateVerdict) {
    let lines = rulings
        .iter()
        .filter(|ruled| ruled.ruling != Ruling::Kept)
        .map(|ruled| format!("require: {ruled}"));
    let verdict = GateVerdict::new(rulings.iter().map(|ruled| ruled.ruling), undecided);
    (lines.collect(), verdict)
}

/// The level at which change rules are broken, from the figures of each later side. Only rules that
/// can be broken share the error.
pub fn level<'m>(rules: &[ChangeRule], measured: impl IntoIterator<Item = &'m [Measured]>) -> f64 {
    let sides = measured.into_iter();
    let at_risk = sides.map(|side| {
        let figures = rules.iter().filter_map(|rule| figure(side, rule.metric));
        figures.filter(|figure| figure.can_be_broken()).count()
    });
    broken_level(at_risk.sum())
}

fn figure(measured: &[Measured], metric: Figure) -> Option<&Measured> {
    measured.iter().find(|row| row.metric == metric)
}

/// Evaluates change rules; `measured` contains their figures.
pub fn evaluate_changes(
    rules: &[ChangeRule],
    (a, b): (&Side, &Side),
    measured: &[Measured],
    level: f64,
) -> Vec<ChangeRuling> {
    let changes = rules
        .iter()
        .filter_map(|rule| Some(change(*rule, figure(measured, rule.metric)?, level)));
    changes
        .map(|mut change| {
            let follows = || {
                let metric = change.rule.metric.metric;
                [a, b].into_iter().all(|side| follows_rate(side, metric))
            };
            if !change.ruling.is_failure() && follows() {
                change.ruling = Ruling::NotCounted(NotCounted::FollowsRate);
            }
            change
        })
        .collect()
}

/// Evaluates limit rules on one side. `broken` is the level at which a rule between two arms is missed.
pub fn evaluate_limits(rules: &[LimitRule], side: &Side, broken: f64) -> Vec<LimitRuling> {
    let ruled = |rule: &LimitRule| {
        if let Some((from, to)) = rule.arms() {
            return compare_arms(rule, side, (from, to), broken);
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
fn compare_arms(rule: &LimitRule, side: &Side, (from, to): (Arm, Arm), broken: f64) -> LimitRuling {
    let undecided = |ruling| LimitRuling {
        rule: *rule,
        value: None,
        interval: None,
        ruling,
    };
    let [run] = &side.runs[..] else {
        return undecided(Ruling::Unknown(NoInterval::SeveralRuns));
    };
    let accuracy = |figure: Figure| run.counts.get(&figure)?.percent();
    let Some(other) = accuracy(rule.metric).and(rule.other.and_then(accuracy)) else {
        return undecided(Ruling::Absent);
    };
    if other <= -rule.value {
        return undecided(Ruling::Unknown(NoInterval::NothingToLose));
    }
    let [kept, broken] = [KEPT_LEVEL, broken].map(|level| run.accuracy_difference(from, to, level));
    let (Some((difference, low, high)), Some((_, widest_low, widest_high))) = (kept, broken) else {
        return undecided(Ruling::Unknown(NoInterval::NoItems));
    };
    let (ruling, interval) = match non_inferiority(low, widest_high, -rule.value) {
        Some(true) => (Ruling::Kept, (low, high)),
        Some(false) => (Ruling::Broken, (widest_low, widest_high)),
        None => (Ruling::TooFew, (low, high)),
    };
    LimitRuling {
        rule: *rule,
        value: Some(difference),
        interval: Some(interval),
        ruling,
    }
}

/// Whether a difference is certainly not below minus the margin, by its bound at the level of kept
/// rules; `Some(false)` if it certainly is below, by its bound at that of broken ones, `None` if that
/// is undecided.
pub fn non_inferiority(low: f64, high: f64, margin: f64) -> Option<bool> {
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
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Broken | Self::Absent)
    }

    /// Whether the samples do not decide the rule.
    pub fn is_undecided(self) -> bool {
        matches!(self, Self::TooFew | Self::TooFewRuns | Self::Unknown(_))
    }
}

/// The verdict of a gate, the better one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GateVerdict {
    Passed,
    /// A rule is undecided, or none counts.
    Undecided,
    Failed,
}

impl GateVerdict {
    /// From the rulings on one side.
    pub fn new(rulings: impl Iterator<Item = Ruling>, undecided: Option<Undecided>) -> Self {
        let rulings: Vec<Ruling> = rulings.collect();
        let has = |is: fn(Ruling) -> bool| rulings.iter().any(|ruling| is(*ruling));
        if has(Ruling::is_failure) {
            return Self::Failed;
        }
        let is_decided = !has(Ruling::is_undecided) && has(|ruling| ruling == Ruling::Kept);
        match undecided {
            _ if is_decided => Self::Passed,
            None => Self::Undecided,
            Some(Undecided::Pass) => Self::Passed,
            Some(Undecided::Fail) => Self::Failed,
        }
    }

    /// The exit code of a program with this verdict.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Passed => SUCCESS,
            Self::Undecided => UNDECIDED,
            Self::Failed => CHECK_FAILED,
        }
    }
}

/// The verdict of a gate, with its reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateSummary {
    pub verdict: GateVerdict,
    /// Every rule of every later side, with the index of the side.
    pub rules: Vec<(usize, String, Ruling)>,
    /// The side and file of each partial run.
    pub partial: Vec<(usize, String)>,
    /// Whether partial runs may pass.
    pub allow_partial: bool,
}

impl GateSummary {
    /// From the rulings of each later side and the partial runs of all sides.
    pub fn new(
        gate: &Gate,
        sides: Vec<(usize, Vec<(String, Ruling)>)>,
        partial: Vec<(usize, String)>,
    ) -> Self {
        let of_side = |(_, rules): &(usize, Vec<(String, Ruling)>)| {
            GateVerdict::new(rules.iter().map(|(_, ruling)| *ruling), gate.undecided)
        };
        let of_rules = sides.iter().map(of_side).max();
        let verdict = if !partial.is_empty() && !gate.allow_partial {
            GateVerdict::Failed
        } else {
            of_rules.unwrap_or(GateVerdict::Undecided)
        };
        let rules = sides.into_iter().flat_map(|(side, rules)| {
            rules
                .into_iter()
                .map(move |(rule, ruling)| (side, rule, ruling))
        });
        Self {
            verdict,
            rules: rules.collect(),
            partial,
            allow_partial: gate.allow_partial,
        }
    }

    /// The number of rules with such a ruling.
    pub fn count(&self, is: impl Fn(Ruling) -> bool) -> usize {
        self.rules.iter().filter(|(.., ruling)| is(*ruling)).count()
    }
}

fn change(rule: ChangeRule, measured: &Measured, level: f64) -> ChangeRuling {
    let spread = &measured.spread;
    let (change, widest, interval) = match rule.unit {
        ChangeUnit::Own => (
            measured.difference,
            spread.interval(level),
            spread.bounds(KEPT_LEVEL),
        ),
        ChangeUnit::Percent => {
            let base = measured.a.filter(|base| *base > 0.0);
            let change = measured
                .difference
                .zip(base)
                .map(|(difference, base)| 100.0 * difference / base);
            (change, spread.relative(level), spread.relative(KEPT_LEVEL))
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
        (None, _) => rule.origin != RuleOrigin::Default,
    };
    let is_assumed = matches!(measured.variation, RunVariation::Assumed(_));
    let ruling = match (change, interval, spread) {
        _ if is_absent => Ruling::Absent,
        _ if measured.a.is_none() => Ruling::NotCounted(NotCounted::NoValue),
        _ if is_assumed && rule.origin == RuleOrigin::Default => {
            Ruling::NotCounted(NotCounted::FewRuns)
        }
        (_, _, Uncertainty::None(why)) => Ruling::Unknown(*why),
        (None, _, _) | (_, None, _) => Ruling::Unknown(NoInterval::NoValue),
        _ if is_assumed => Ruling::TooFewRuns,
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
        interval: if ruling == Ruling::Broken {
            widest
        } else {
            interval
        },
        ruling,
        needs: (ruling == Ruling::TooFew)
            .then(|| needs(&rule, measured))
            .flatten(),
    }
}

/// The size a side with which the rule would be kept if nothing changed, if it is known.
fn needs(rule: &ChangeRule, measured: &Measured) -> Option<Needs> {
    match &measured.spread {
        Uncertainty::Rates(contrast) => contrast
            .requests_needed(rule.size / 100.0, KEPT_LEVEL)
            .map(Needs::Requests),
        Uncertainty::Runs {
            ratio,
            base,
            drawn: None,
        } => {
            let size = match rule.unit {
                ChangeUnit::Own => rule.size / base,
                ChangeUnit::Percent => rule.size / 100.0,
            };
            let size = match rule.direction {
                Direction::Up => size,
                Direction::Down => -size,
            };
            ratio.runs_needed(size, KEPT_LEVEL).map(Needs::Runs)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::measure::Resampling;
    use crate::compare::run_spread::RunSpread;
    use crate::compare::testing::{evaluate_rules, request, side, steady};
    use crate::metrics::accuracy::ArmPairs;
    use crate::metrics::registry::rates as registry_rates;
    use crate::metrics::summarise;
    use sobench_facts::testing::{test_request, with_samples};
    use sobench_plan::metrics::MetricsSettings;
    use sobench_plan::record::testing::record;
    use sobench_statistics::contrast::{Hits, RateContrast, Share};
    use sobench_statistics::paired::{PairedSample, Pairs};

    #[test]
    fn single_run_is_checked_against_limits() {
        let run: Vec<_> = (0..20).map(|_| test_request()).collect();
        let metrics = with_samples(&run, |samples| {
            summarise(samples, 1_000_000_000, &MetricsSettings::default())
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
        let (lines, verdict) = failed_limits(&rulings, Some(Undecided::Pass));
        let expected = [
            "require: median_ttft_ms<=9: median_ttft_ms is 10.00",
            "require: p99_ttft_ms<=200: undecided: 20 < 662",
        ];
        assert_eq!(lines, expected);
        assert_eq!(verdict, GateVerdict::Failed);
        for (undecided, expected) in [
            (None, GateVerdict::Undecided),
            (Some(Undecided::Pass), GateVerdict::Passed),
            (Some(Undecided::Fail), GateVerdict::Failed),
        ] {
            assert_eq!(failed_limits(&rulings[2..], undecided).1, expected);
        }
        assert_eq!(failed_limits(&rulings[3..], None).1, GateVerdict::Passed);
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
        change(rule, &measured, broken_level(1)).ruling
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

    /// The rate of two sides, with this many cases that only the first side has right.
    fn rates(rule: &str, cases: usize, only_a: usize) -> ChangeRuling {
        let rule = ChangeRule::parse(rule).unwrap();
        let hits = |failed: usize| {
            let mut hits = Hits::default();
            hits.add_run((0..cases).map(|case| (case, None, case >= failed)));
            hits
        };
        let contrast = RateContrast::paired(&hits(0), &hits(only_a)).unwrap();
        let measured = Measured {
            metric: rule.metric,
            a: Some(100.0),
            b: Some(100.0 - 100.0 * only_a as f64 / cases as f64),
            difference: Some(100.0 * contrast.difference),
            n: (None, None),
            variation: RunVariation::NotTimed,
            spread: Uncertainty::Rates(contrast),
        };
        change(rule, &measured, broken_level(6))
    }

    #[test]
    fn rates_change_in_percentage_points_and_say_what_they_rule_out() {
        let rule = "correct_rate<-0.5pp";
        let found = [0, 6, 20].map(|only_a| rates(rule, 1000, only_a).ruling);
        assert_eq!(found, [Ruling::Kept, Ruling::TooFew, Ruling::Broken]);
        let few = rates(rule, 200, 0);
        assert_eq!(few.needs, Some(Needs::Requests(598)));
        assert_eq!(
            few.result(),
            "undecided: rules out a loss over 1.5 pp; 0.5 pp needs about 600 requests a side"
        );
        assert_eq!(rates("correct_rate<-2pp", 200, 0).ruling, Ruling::Kept);
        assert_eq!(rates(rule, 600, 0).ruling, Ruling::Kept);
        let (low, _) = rates(rule, 1000, 20).interval.unwrap();
        let (kept_low, _) = rates("correct_rate<-2.5pp", 1000, 20).interval.unwrap();
        assert!(low < kept_low, "the level of all rules, and that of one");
    }

    #[test]
    fn numbers_are_rounded_up() {
        let found = [0.0, 0.494, 0.5, 1.41, 12.3, 60.0, 598.0, 1701.0].map(two_digits_up);
        let expected = ["0.00", "0.50", "0.50", "1.5", "13", "60", "600", "1800"];
        assert_eq!(found, expected);
    }

    #[test]
    fn only_rules_that_can_be_broken_share_the_error() {
        let spread = |spread: Uncertainty, variation: RunVariation, metric: &str| Measured {
            metric: Figure::parse(metric).unwrap(),
            a: Some(100.0),
            b: Some(100.0),
            difference: Some(0.0),
            n: (None, None),
            variation,
            spread,
        };
        let normal = || Uncertainty::Normal {
            a: 100.0,
            b: 100.0,
            error_a: 1.0,
            error_b: 1.0,
        };
        let clean = rates("correct_rate<-2pp", 200, 0);
        let rules = [
            "coverage<-2pp",
            "mean_ttft_ms>+10%",
            "mean_tpot_ms>+10%",
            "failed>+1",
        ];
        let rules: Vec<ChangeRule> = rules
            .iter()
            .map(|rule| ChangeRule::parse(rule).unwrap())
            .collect();
        let mut hits = Hits::default();
        hits.add_run((0..200).map(|case| (case, None, true)));
        let same = RateContrast::paired(&hits, &hits).unwrap();
        let measured = [
            spread(Uncertainty::Rates(same), RunVariation::NotTimed, "coverage"),
            spread(normal(), RunVariation::Measured, "mean_ttft_ms"),
            spread(normal(), RunVariation::Assumed(5.0), "mean_tpot_ms"),
            spread(
                Uncertainty::None(NoInterval::SingleValue),
                RunVariation::NotTimed,
                "failed",
            ),
        ];
        assert_eq!(level(&rules, [&measured[..]]), broken_level(1));
        assert_eq!(
            level(&rules, [&measured[..], &measured[..]]),
            broken_level(2)
        );
        assert_eq!(clean.ruling, Ruling::Kept);
    }

    #[test]
    fn throughput_at_a_request_rate_does_not_count() {
        let rule = ChangeRule::parse("output_throughput<-10%").unwrap();
        let ruling = |rate: &str, tokens: u64| {
            let resampling = Resampling {
                resamples: 1000,
                seed: 0,
            };
            let (a, b) = (steady(4, rate), steady(tokens, rate));
            evaluate_rules(&a, &b, &[rule], &RunSpread::default(), resampling)[0].ruling
        };
        let follows = Ruling::NotCounted(NotCounted::FollowsRate);
        assert_eq!(ruling("10", 4), follows);
        assert_eq!(ruling("inf", 4), Ruling::Kept);
        // The server answers half of the offered rate.
        assert_eq!(ruling("20", 4), Ruling::Kept);
        // Shorter answers are a change at every load.
        assert_eq!(ruling("10", 2), Ruling::Broken);
    }

    #[test]
    fn default_rules_on_times_do_not_count_without_runs() {
        let named = ChangeRule::parse("mean_ttft_ms>+10%").unwrap();
        let default = ChangeRule {
            origin: RuleOrigin::Default,
            ..named
        };
        let measured = Measured {
            metric: named.metric,
            a: Some(10.0),
            b: Some(10.0),
            difference: Some(0.0),
            n: (None, None),
            variation: RunVariation::Assumed(5.0),
            spread: Uncertainty::Normal {
                a: 10.0,
                b: 10.0,
                error_a: 0.1,
                error_b: 0.1,
            },
        };
        let found =
            |measured: &Measured| [named, default].map(|rule| change(rule, measured, 0.98).ruling);
        let not_counted = Ruling::NotCounted(NotCounted::FewRuns);
        assert_eq!(found(&measured), [Ruling::TooFewRuns, not_counted]);
        let distrusted = Measured {
            spread: Uncertainty::None(NoInterval::Distrusted),
            ..measured
        };
        let unknown = Ruling::Unknown(NoInterval::Distrusted);
        assert_eq!(found(&distrusted), [unknown, not_counted]);
        assert_eq!(not_counted.to_string(), "not counted: needs 3 runs a side");
    }

    #[test]
    fn figure_that_only_the_first_side_has_breaks_every_rule() {
        let named = ChangeRule::parse("correct_rate<-0.5pp").unwrap();
        let default = ChangeRule {
            origin: RuleOrigin::Default,
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
            change(rule, &measured, broken_level(1)).ruling
        };
        let unknown = Ruling::NotCounted(NotCounted::NoValue);
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
    fn gate_passes_only_if_every_rule_that_counts_is_kept_on_whole_runs() {
        let verdict = |gate: &Gate, sides: &[&[Ruling]], partial: bool| {
            let named = |ruling: &Ruling| ("rule".to_owned(), *ruling);
            let sides = sides
                .iter()
                .map(|side| (1, side.iter().map(named).collect()));
            let partial = partial.then(|| (1, "b.jsonl".to_owned()));
            GateSummary::new(gate, sides.collect(), partial.into_iter().collect()).verdict
        };
        let gate = |undecided: Option<Undecided>, allow_partial: bool| Gate {
            undecided,
            allow_partial,
            ..Gate::default()
        };
        let (default, allowed) = (gate(None, false), gate(None, true));
        let [pass, fail] = [Undecided::Pass, Undecided::Fail].map(|what| gate(Some(what), false));
        let (kept, few, runs) = (Ruling::Kept, Ruling::TooFew, Ruling::TooFewRuns);
        let idle = Ruling::NotCounted(NotCounted::FollowsRate);
        use GateVerdict::{Failed, Passed, Undecided as NotDecided};
        for (gate, rulings, is_partial, expected) in [
            (&default, &[&[kept, kept, idle][..]][..], false, Passed),
            (&default, &[&[kept, few]], false, NotDecided),
            (&default, &[&[idle]], false, NotDecided),
            (&default, &[&[few, runs]], false, NotDecided),
            (&default, &[&[kept], &[few]], false, NotDecided),
            (&default, &[&[few], &[Ruling::Broken]], false, Failed),
            (&default, &[&[kept]], true, Failed),
            (&allowed, &[&[kept]], true, Passed),
            (&allowed, &[&[Ruling::Absent]], true, Failed),
            (&pass, &[&[few, runs]], false, Passed),
            (&pass, &[&[few, Ruling::Broken]], false, Failed),
            (&fail, &[&[kept, few]], false, Failed),
            (&fail, &[&[kept, idle]], false, Passed),
        ] {
            assert_eq!(verdict(gate, rulings, is_partial), expected, "{rulings:?}");
        }
        let codes = [Passed, NotDecided, Failed].map(GateVerdict::exit_code);
        assert_eq!(codes, [0, 5, 1]);
    }

    #[test]
    fn limit_that_may_be_met_without_the_client_is_undecided() {
        let mut side = side("a", vec![vec![request(); 20]]);
        let rule = LimitRule::parse("median_ttft_ms<=9").unwrap();
        let mut ruling = |added: Option<f64>| {
            side.runs[0].distrusted = [(rule.metric, added)].into();
            evaluate_limits(&[rule], &side, broken_level(1))[0].ruling
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
            for arm in [Arm::Constrained, Arm::Control] {
                let accuracy = Figure::of(&registry_rates::ACCURACY, Some(arm));
                side.runs[0].counts.insert(accuracy, share);
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
            evaluate_limits(&[LimitRule::parse(rule).unwrap()], side, broken_level(1)).remove(0)
        };
        let rule = "accuracy(prompt+constraint)>=accuracy(prompt)-3pp";
        let equal = with_pairs(300, 5, 5);
        assert_eq!(ruled(rule, &equal).ruling, Ruling::Kept);
        let worse = ruled(rule, &with_pairs(250, 60, 2));
        assert_eq!(worse.ruling, Ruling::Broken);
        assert!(
            worse.to_string().starts_with(
                "accuracy>=accuracy(control)-3pp: NOT MET; the difference is -14.50 pp (-1"
            ),
            "{worse}"
        );
        let unclear = ruled(rule, &with_pairs(250, 30, 20));
        assert_eq!(unclear.ruling, Ruling::TooFew);
        assert_eq!(
            unclear.to_string(),
            "accuracy>=accuracy(control)-3pp: undecided: too few items, which rule out a loss over 5.5 pp; the difference is -2.50 pp (-5.50 to +0.43, 90 % interval)"
        );
        // The other way round.
        let reversed = "accuracy(prompt)>=accuracy(prompt+constraint)-3pp";
        let reversed = ruled(reversed, &with_pairs(250, 60, 2));
        let difference = reversed.value.unwrap();
        assert_eq!(reversed.ruling, Ruling::Kept);
        assert!((difference - 14.5).abs() < 1e-9, "{difference}");
        let other = "accuracy(free)>=accuracy(prompt)-3pp";
        assert_eq!(ruled(other, &equal).ruling, Ruling::Absent);
        let rarely_right = with_pairs(4, 0, 3);
        let nothing_to_lose = Ruling::Unknown(NoInterval::NothingToLose);
        assert_eq!(ruled(rule, &rarely_right).ruling, nothing_to_lose);
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
        let ruling = |rule: &str| {
            evaluate_limits(&[LimitRule::parse(rule).unwrap()], &side, broken_level(1))[0].ruling
        };
        assert_eq!(ruling("correct_rate>=99.5"), Ruling::Kept);
        assert_eq!(ruling("median_ttft_ms<=9"), Ruling::Broken);
        assert_eq!(
            ruling("p99_ttft_ms<=200"),
            Ruling::Unknown(NoInterval::TooFew { n: 20, needs: 662 })
        );
        assert_eq!(ruling("control_rate>=1"), Ruling::Absent);
    }
}
