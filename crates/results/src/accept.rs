//! Whether a server meets requirements: each rule is met, not met, or not decided.
//!
//! A rule on a rate is an exact sequential test ([`sobench_statistics::sequential`]). A rule on a time or a
//! throughput is decided by Student's interval over runs. Each rule is met by chance with at most
//! [`KEPT_BY_CHANCE`]; all rules together are not met by chance with at most
//! [`BROKEN_BY_CHANCE`](sobench_statistics::contrast::BROKEN_BY_CHANCE), an equal part for each.
//! Counts and peaks are compared with their limit as they are.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Serialize;

use crate::compare::gate::{LimitRuling, Needs, Ruling, evaluate_limits};
use crate::compare::requests::{RequestView, Requests};
use crate::compare::rules::{Comparator, LimitRule};
use crate::compare::side::{Run, Side};
use crate::metrics::registry::{Figure, MetricKind, rates, totals};
use sobench_statistics::contrast::{KEPT_BY_CHANCE, KEPT_LEVEL, MIN_RUNS, broken_level};
use sobench_statistics::distributions::t_score;
use sobench_statistics::mean;
use sobench_statistics::sequential::{Look, RateTest};

/// The most runs that a rule on a time is said to need.
const MAX_RUNS: usize = 1000;

/// What the runs say of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Met,
    NotMet,
    NotDecided,
}

/// The result of a rule.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct RuleResult {
    /// As in the file.
    pub rule: String,
    pub decision: Decision,
    /// The figure, in its unit; of a rate in percent.
    pub value: Option<f64>,
    /// The unit of the figure and of `shown`; empty for counts.
    pub unit: &'static str,
    /// Of a rate: the requests that are hits, and those that count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hits: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<usize>,
    /// Of a time or throughput: the number of runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<usize>,
    /// The limit that the requests would show to be met, at one-sided 95 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<f64>,
    /// About what would decide a rule that is not decided, if the figure stays as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs: Option<Needs>,
    /// Why it is not decided, where more requests would not help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl RuleResult {
    #[must_use]
    pub fn with_reason(self, reason: Option<String>) -> Self {
        Self { reason, ..self }
    }
}

/// A rule on a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateRule {
    /// The rate, which is the share of hits.
    pub figure: Figure,
    /// Whether the rule limits the rate from above, so that requests that are no hit count for it.
    is_upper: bool,
    /// The share that must be exceeded: of the hits, or of the others with `is_upper`.
    pub threshold: f64,
}

impl RateRule {
    /// `None` if the rule is not on a rate.
    pub fn new(rule: &LimitRule) -> Option<Self> {
        if rule.other.is_some() {
            return None;
        }
        let share = rule.value / 100.0;
        // F1 is 2 q / (1 + q) of the share q of calls that were both due and made, among those that
        // were one of them.
        let (figure, share) = match rule.metric.metric {
            metric if *metric == totals::TRIGGER_F1 => (
                Figure::of(&rates::TRIGGER_AGREEMENT, rule.metric.arm),
                share / (2.0 - share),
            ),
            metric if metric.is_rate() => (rule.metric, share),
            _ => return None,
        };
        let is_upper = matches!(rule.comparator, Comparator::AtMost | Comparator::Below);
        Some(Self {
            figure,
            is_upper,
            threshold: if is_upper { 1.0 - share } else { share },
        })
    }

    /// Whether no number of requests can show that the rule is met.
    pub fn is_beyond_proof(&self) -> bool {
        self.threshold >= 1.0
    }

    /// The requests for and against the rule in a run, of those that count.
    pub fn count(&self, run: &Run, counts: &[bool]) -> Look {
        let requests = run.requests.iter();
        let hits = requests.flat_map(|requests| requests.in_rate(self.figure));
        let counted = hits.zip(counts).filter(|(_, counts)| **counts);
        counted
            .filter_map(|(hit, _)| hit)
            .fold(Look::default(), |look, hit| Look {
                hits: look.hits + usize::from(hit != self.is_upper),
                of: look.of + 1,
            })
    }

    /// The requests that show that the rule is met, if all of them are for it.
    pub fn fewest_requests(&self) -> Option<usize> {
        self.test(1, 1).trials_needed(1.0, 1)
    }

    fn test(&self, planned: usize, rules: usize) -> RateTest {
        RateTest {
            threshold: self.threshold,
            above_error: KEPT_BY_CHANCE,
            below_error: (1.0 - broken_level(rules)) / 2.0,
            planned,
        }
    }

    /// Decides by the looks so far, of `planned` requests. `rules` is the number of all rules of the file.
    pub fn decision(
        &self,
        looks: &[Look],
        planned: usize,
        rules: usize,
        is_last: bool,
    ) -> Decision {
        match self.test(planned, rules).decide(looks, is_last) {
            Some(true) => Decision::Met,
            Some(false) => Decision::NotMet,
            None => Decision::NotDecided,
        }
    }

    /// [`RateRule::decision`], with the figure and what it shows.
    pub fn decide(
        &self,
        rule: &LimitRule,
        looks: &[Look],
        planned: usize,
        rules: usize,
        is_last: bool,
    ) -> RuleResult {
        let test = self.test(planned, rules);
        let look = looks.last().copied().unwrap_or_default();
        let decision = self.decision(looks, planned, rules, is_last);
        let share = (look.of > 0).then(|| look.hits as f64 / look.of as f64);
        let is_open = decision == Decision::NotDecided;
        let needs = share
            .filter(|_| is_open)
            .and_then(|share| test.trials_needed(share, looks.len()));
        let bound = (look.of > 0).then(|| test.lower_bound(looks, is_last));
        RuleResult {
            rule: rule.to_string(),
            decision,
            value: share.map(|share| self.percent(rule, share)),
            unit: "%",
            hits: Some(if self.is_upper {
                look.of - look.hits
            } else {
                look.hits
            }),
            of: Some(look.of),
            runs: None,
            shown: bound.map(|bound| self.percent(rule, bound)),
            needs: needs.map(Needs::Requests),
            reason: (is_open && needs.is_none()).then(|| match share {
                None => "no request counts in this figure".to_owned(),
                Some(_) => "the figure is at its limit".to_owned(),
            }),
        }
    }

    /// A share for the rule as the figure of the rule, in percent.
    fn percent(&self, rule: &LimitRule, share: f64) -> f64 {
        let share = if self.is_upper { 1.0 - share } else { share };
        match *rule.metric.metric == totals::TRIGGER_F1 {
            true => 100.0 * 2.0 * share / (1.0 + share),
            false => 100.0 * share,
        }
    }
}

/// Which requests of a run count in rates: all but copies of earlier ones, if a copy says nothing new
/// because the server does not sample.
pub fn counted(run: &Run, is_sampled: bool, seen: &mut HashSet<u64>) -> Vec<bool> {
    let requests = run.requests.iter().flat_map(Requests::iter);
    let is_new = |request: RequestView<'_>| match request.copy() {
        Some(copy) if !is_sampled => seen.insert(copy),
        _ => true,
    };
    requests.map(is_new).collect()
}

/// Decides a rule that is not on a rate, by whole runs of the same requests.
pub fn decide_runs(rule: &LimitRule, runs: &[Run], rules: usize) -> RuleResult {
    let ruled: Vec<LimitRuling> = runs.iter().map(|run| of_run(rule, run, rules)).collect();
    let unit = rule.metric.unit();
    let result = |decision, value, reason: Option<String>| RuleResult {
        rule: rule.to_string(),
        decision,
        value,
        unit,
        hits: None,
        of: None,
        runs: Some(runs.len()),
        shown: None,
        needs: None,
        reason,
    };
    let varies = matches!(
        rule.metric.metric.kind,
        MetricKind::Distribution { .. } | MetricKind::Pooled(_) | MetricKind::PerSecond(_)
    );
    let unknown = ruled
        .iter()
        .find(|ruled| ruled.ruling.is_undecided() || ruled.ruling == Ruling::Absent);
    if let Some(unknown) = unknown.filter(|_| rule.other.is_none()) {
        return result(
            Decision::NotDecided,
            unknown.value,
            Some(unknown.ruling.to_string()),
        );
    }
    if !varies {
        let first_not_kept = ruled.iter().find(|ruled| ruled.ruling != Ruling::Kept);
        let Some(worst) = first_not_kept.or(ruled.first()) else {
            return result(
                Decision::NotDecided,
                None,
                Some("no run has ended".to_owned()),
            );
        };
        let (decision, reason) = match worst.ruling {
            Ruling::Kept => (Decision::Met, None),
            Ruling::Broken => (Decision::NotMet, None),
            _ => (Decision::NotDecided, Some(worst.result())),
        };
        return result(decision, worst.value, reason);
    }
    let values: Vec<f64> = ruled.iter().filter_map(|ruled| ruled.value).collect();
    let Some(average) = mean(&values) else {
        return result(
            Decision::NotDecided,
            None,
            Some("no run has this figure".to_owned()),
        );
    };
    if values.len() < MIN_RUNS {
        return RuleResult {
            needs: Some(Needs::Runs(MIN_RUNS)),
            ..result(Decision::NotDecided, Some(average), None)
        };
    }
    let squares = values.iter().map(|value| (value - average).powi(2));
    let deviation = (squares.sum::<f64>() / (values.len() - 1) as f64).sqrt();
    let margin =
        |level: f64, runs: usize| t_score(level, runs - 1) * deviation / (runs as f64).sqrt();
    let is_upper = matches!(rule.comparator, Comparator::AtMost | Comparator::Below);
    let sign = if is_upper { 1.0 } else { -1.0 };
    let bound = |level: f64, runs: usize| average + sign * margin(level, runs);
    let shown = bound(KEPT_LEVEL, values.len());
    let opposite = average - sign * margin(broken_level(rules), values.len());
    let decision = match (rule.is_met(shown), rule.is_met(opposite)) {
        (true, _) => Decision::Met,
        (false, false) => Decision::NotMet,
        (false, true) => Decision::NotDecided,
    };
    let is_met = rule.is_met(average);
    let decides = |runs: &usize| match is_met {
        true => rule.is_met(bound(KEPT_LEVEL, *runs)),
        false => !rule.is_met(average - sign * margin(broken_level(rules), *runs)),
    };
    let needs = (values.len() + 1..=MAX_RUNS).find(decides);
    RuleResult {
        shown: Some(shown),
        needs: needs
            .filter(|_| decision == Decision::NotDecided)
            .map(Needs::Runs),
        ..result(decision, Some(average), None)
    }
}

fn of_run(rule: &LimitRule, run: &Run, rules: usize) -> LimitRuling {
    let side = Side {
        runs: vec![run.clone()],
        ..Side::default()
    };
    evaluate_limits(std::slice::from_ref(rule), &side, broken_level(rules)).remove(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::testing::request;
    use crate::metrics::registry::latencies;

    fn rule(text: &str) -> LimitRule {
        LimitRule::parse(text).unwrap()
    }

    fn look(hits: usize, of: usize) -> Vec<Look> {
        vec![Look { hits, of }]
    }

    #[test]
    fn rates_are_met_not_met_or_not_decided_with_what_they_need() {
        let lower = rule("correct_rate>=99");
        let rate = RateRule::new(&lower).unwrap();
        let decide = |looks: &[Look]| rate.decide(&lower, looks, 300, 5, true);
        assert_eq!(rate.fewest_requests(), Some(299));
        let met = decide(&look(300, 300));
        assert_eq!((met.decision, met.value), (Decision::Met, Some(100.0)));
        assert!((met.shown.unwrap() - 99.0).abs() < 0.1, "{met:?}");
        assert_eq!(decide(&look(200, 300)).decision, Decision::NotMet);
        let open = decide(&look(299, 300));
        assert_eq!(open.decision, Decision::NotDecided);
        let Some(Needs::Requests(needs)) = open.needs else {
            panic!("{open:?}");
        };
        assert!((400..1200).contains(&needs), "{needs}");
        let none = decide(&look(0, 0));
        assert_eq!(
            none.reason.as_deref(),
            Some("no request counts in this figure")
        );
    }

    #[test]
    fn upper_limits_count_the_requests_that_are_no_hits() {
        let upper = rule("missed_calls<=2");
        let rate = RateRule::new(&upper).unwrap();
        // One of 300 is a missed call.
        let result = rate.decide(&upper, &look(299, 300), 300, 1, true);
        assert_eq!(result.decision, Decision::Met);
        assert_eq!((result.hits, result.of), (Some(1), Some(300)));
        assert!(result.shown.unwrap() < 2.0, "{result:?}");
        assert!(
            RateRule::new(&rule("failed_rate<=0"))
                .unwrap()
                .is_beyond_proof()
        );
    }

    #[test]
    fn f1_is_tested_by_the_share_of_agreeing_calls() {
        let f1 = rule("trigger_f1>=98");
        let rate = RateRule::new(&f1).unwrap();
        assert!((rate.threshold - 0.98 / 1.02).abs() < 1e-12);
        let result = rate.decide(&f1, &look(100, 104), 104, 1, true);
        // 2 * 100 / (2 * 100 + 4)
        assert!((result.value.unwrap() - 100.0 * 200.0 / 204.0).abs() < 1e-9);
    }

    /// Runs whose median TTFTs are these.
    fn runs(ttft_ms: &[f64]) -> Vec<Run> {
        let run = |ttft_ms: &f64| Run {
            requests: Some(
                (0..20)
                    .map(|_| request().with(&latencies::TTFT, *ttft_ms))
                    .collect(),
            ),
            ..Run::default()
        };
        ttft_ms.iter().map(run).collect()
    }

    #[test]
    fn times_are_decided_over_runs() {
        let limit = rule("median_ttft_ms<=100");
        let decide = |ttft_ms: &[f64]| decide_runs(&limit, &runs(ttft_ms), 2);
        assert_eq!(decide(&[80.0, 81.0, 79.0]).decision, Decision::Met);
        assert_eq!(decide(&[180.0, 181.0, 179.0]).decision, Decision::NotMet);
        let open = decide(&[90.0, 99.0, 95.0]);
        assert_eq!(open.decision, Decision::NotDecided);
        assert!(matches!(open.needs, Some(Needs::Runs(4..=10))), "{open:?}");
        assert_eq!(decide(&[80.0, 81.0]).needs, Some(Needs::Runs(MIN_RUNS)));
        let tail = decide_runs(&rule("p99_ttft_ms<=100"), &runs(&[80.0; 3]), 2);
        assert_eq!(tail.decision, Decision::NotDecided);
        assert!(tail.reason.is_some(), "{tail:?}");
    }
}
