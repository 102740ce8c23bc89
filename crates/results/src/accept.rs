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
use crate::compare::measure::NoInterval;
use crate::compare::requests::{RequestView, Requests};
use crate::compare::rules::LimitRule;
use crate::compare::side::{Run, Side};
use crate::metrics::registry::{Figure, MetricKind, rates, totals};
use sobench_statistics::Summary;
use sobench_statistics::contrast::{KEPT_BY_CHANCE, KEPT_LEVEL, MIN_RUNS, broken_level};
use sobench_statistics::distributions::t_score;
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
    /// As in the file, in its short form.
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
    /// Why it is not decided, where more requests would not help; of a count that is not met, what was
    /// counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The size of a file of requirements, which the errors of its rules depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Design {
    /// The planned requests of the run.
    pub planned: usize,
    /// The rules of the file, which share the error of *not met*.
    pub rules: usize,
}

impl From<Ruling> for Decision {
    fn from(ruling: Ruling) -> Self {
        match ruling {
            Ruling::Kept => Self::Met,
            Ruling::Broken => Self::NotMet,
            _ => Self::NotDecided,
        }
    }
}

impl RuleResult {
    /// A rule without a figure. The reason may be the result of a gate.
    pub fn not_decided(rule: String, reason: Option<String>) -> Self {
        let own = |reason: String| match reason.strip_prefix("undecided: ") {
            Some(reason) => reason.to_owned(),
            None => reason,
        };
        let reason = reason.map(own);
        Self {
            rule,
            decision: Decision::NotDecided,
            value: None,
            unit: "",
            hits: None,
            of: None,
            runs: None,
            shown: None,
            needs: None,
            reason,
        }
    }
}

/// Whether a figure varies between runs of the same requests, so that a rule on it takes several.
pub fn varies(rule: &LimitRule) -> bool {
    matches!(
        rule.metric.metric.kind,
        MetricKind::Distribution { .. } | MetricKind::Pooled(_) | MetricKind::PerSecond(_)
    )
}

/// A rule on a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateRule {
    rule: LimitRule,
    /// The rate, which is the share of hits.
    pub figure: Figure,
    /// The share that must be exceeded: of the hits, or of the others if the rule limits the rate from
    /// above.
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
            metric if metric.is_rate() || totals::OF_SESSIONS.contains(&metric) => {
                (rule.metric, share)
            }
            _ => return None,
        };
        Some(Self {
            rule: *rule,
            figure,
            threshold: if rule.comparator.is_upper() {
                1.0 - share
            } else {
                share
            },
        })
    }

    /// Whether no number of requests can show that the rule is met.
    pub fn is_beyond_proof(&self) -> bool {
        self.threshold >= 1.0
    }

    /// The requests for the rule in a run, of those that count.
    pub fn count(&self, run: &Run, counts: &[bool]) -> Look {
        let is_upper = self.rule.comparator.is_upper();
        if !self.figure.is_rate() {
            // Of sessions.
            let share = run.counts.get(&self.figure).copied().unwrap_or_default();
            let hits = if is_upper {
                share.of - share.hits
            } else {
                share.hits
            };
            return Look { hits, of: share.of };
        }
        let requests = run.requests.iter();
        let hits = requests.flat_map(|requests| requests.in_rate(self.figure));
        let counted = hits.zip(counts).filter(|(_, counts)| **counts);
        counted
            .filter_map(|(hit, _)| hit)
            .fold(Look::default(), |look, hit| Look {
                hits: look.hits + usize::from(hit != is_upper),
                of: look.of + 1,
            })
    }

    /// The requests that show that the rule is met, if all of them are for it.
    pub fn fewest_requests(&self) -> Option<usize> {
        let design = Design {
            planned: 1,
            rules: 1,
        };
        self.test(design).trials_needed(1.0, 1)
    }

    fn test(&self, design: Design) -> RateTest {
        RateTest {
            threshold: self.threshold,
            above_error: KEPT_BY_CHANCE,
            below_error: (1.0 - broken_level(design.rules)) / 2.0,
            planned: design.planned,
        }
    }

    /// Decides by the looks so far.
    pub fn decision(&self, looks: &[Look], is_last: bool, design: Design) -> Decision {
        match self.test(design).decide(looks, is_last) {
            Some(true) => Decision::Met,
            Some(false) => Decision::NotMet,
            None => Decision::NotDecided,
        }
    }

    /// [`RateRule::decision`], with the figure and what it shows. `sent` is the number of requests, of
    /// which some may not count in the rate.
    pub fn decide(&self, looks: &[Look], is_last: bool, design: Design, sent: usize) -> RuleResult {
        let test = self.test(design);
        let decision = self.decision(looks, is_last, design);
        let result = RuleResult {
            decision,
            unit: "%",
            ..RuleResult::not_decided(self.rule.to_string(), None)
        };
        let Some(look) = looks.last().filter(|look| look.of > 0) else {
            return RuleResult {
                hits: Some(0),
                of: Some(0),
                reason: Some("no request counts in this figure".to_owned()),
                ..result
            };
        };
        let share = look.hits as f64 / look.of as f64;
        let is_open = decision == Decision::NotDecided;
        let needs = is_open.then(|| test.trials_needed(share, looks.len()));
        let needs = needs.flatten();
        // `--num-prompts` counts sessions, so that each is one request of it.
        let sent = if self.figure.is_rate() { sent } else { look.of };
        let sent_for_each = sent as f64 / look.of as f64;
        let hits = match self.rule.comparator.is_upper() {
            true => look.of - look.hits,
            false => look.hits,
        };
        RuleResult {
            value: Some(self.percent(share)),
            hits: Some(hits),
            of: Some(look.of),
            shown: Some(self.percent(test.lower_bound(looks, is_last))),
            needs: needs
                .map(|needs| Needs::Requests((needs as f64 * sent_for_each).ceil() as usize)),
            reason: (is_open && needs.is_none()).then(|| "the figure is at its limit".to_owned()),
            ..result
        }
    }

    /// A share for the rule as the figure of the rule, in percent.
    fn percent(&self, share: f64) -> f64 {
        let share = match self.rule.comparator.is_upper() {
            true => 1.0 - share,
            false => share,
        };
        match *self.rule.metric.metric == totals::TRIGGER_F1 {
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

/// Decides a rule that is not on a rate, by whole runs of the same requests: a side for each.
pub fn decide_runs(rule: &LimitRule, runs: &[Side], rules: usize) -> RuleResult {
    let level = broken_level(rules);
    let ruled = |run: &Side| evaluate_limits(std::slice::from_ref(rule), run, level).remove(0);
    let ruled: Vec<LimitRuling> = runs.iter().map(ruled).collect();
    let result = |decision, value, reason: Option<String>| RuleResult {
        decision,
        value,
        unit: rule.metric.unit(),
        runs: Some(runs.len()),
        ..RuleResult::not_decided(rule.to_string(), reason)
    };
    let unknown = ruled
        .iter()
        .find(|ruled| ruled.ruling.is_undecided() || ruled.ruling == Ruling::Absent);
    if let Some(unknown) = unknown.filter(|_| rule.other.is_none()) {
        if let Ruling::Unknown(NoInterval::TooFew { needs, .. }) = unknown.ruling {
            return RuleResult {
                needs: Some(Needs::Requests(needs)),
                ..result(Decision::NotDecided, None, None)
            };
        }
        let reason = Some(unknown.ruling.to_string());
        return result(Decision::NotDecided, unknown.value, reason);
    }
    if !varies(rule) {
        let first_not_kept = ruled.iter().find(|ruled| ruled.ruling != Ruling::Kept);
        let Some(worst) = first_not_kept.or(ruled.first()) else {
            let reason = Some("no run has ended".to_owned());
            return result(Decision::NotDecided, None, reason);
        };
        let decision = Decision::from(worst.ruling);
        let reason = (decision == Decision::NotDecided).then(|| worst.result());
        return result(decision, worst.value, reason);
    }
    let values: Vec<f64> = ruled.iter().filter_map(|ruled| ruled.value).collect();
    let values = Summary::new(values, &[]);
    let Some(average) = values.mean else {
        let reason = Some("no run has this figure".to_owned());
        return result(Decision::NotDecided, None, reason);
    };
    let Some(error) = values.standard_error.filter(|_| values.n >= MIN_RUNS) else {
        return RuleResult {
            needs: Some(Needs::Runs(MIN_RUNS)),
            ..result(Decision::NotDecided, Some(average), None)
        };
    };
    // An end of the interval of this many runs with the same deviation: the worse one of *met*, and the
    // better one of *not met*.
    let toward_limit = if rule.comparator.is_upper() {
        1.0
    } else {
        -1.0
    };
    let end = |sign: f64, level: f64, runs: usize| {
        let error = error * (values.n as f64 / runs as f64).sqrt();
        average + sign * t_score(level, runs - 1) * error
    };
    let worse = |runs: usize| end(toward_limit, KEPT_LEVEL, runs);
    let better = |runs: usize| end(-toward_limit, level, runs);
    let decision = |runs: usize| match (rule.is_met(worse(runs)), rule.is_met(better(runs))) {
        (true, _) => Decision::Met,
        (false, false) => Decision::NotMet,
        (false, true) => Decision::NotDecided,
    };
    let found = decision(values.n);
    let needs = (values.n + 1..=MAX_RUNS).find(|runs| decision(*runs) != Decision::NotDecided);
    RuleResult {
        shown: Some(worse(values.n)),
        needs: needs
            .filter(|_| found == Decision::NotDecided)
            .map(Needs::Runs),
        ..result(found, Some(average), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::testing::{request, side};
    use crate::metrics::registry::latencies;

    fn rule(text: &str) -> LimitRule {
        LimitRule::parse(text).unwrap()
    }

    const ONE_RULE: Design = Design {
        planned: 300,
        rules: 1,
    };

    fn look(hits: usize, of: usize) -> Vec<Look> {
        vec![Look { hits, of }]
    }

    #[test]
    fn rates_are_met_not_met_or_not_decided_with_what_they_need() {
        let lower = rule("correct_rate>=99");
        let rate = RateRule::new(&lower).unwrap();
        let design = Design {
            planned: 300,
            rules: 5,
        };
        let decide = |looks: &[Look]| rate.decide(looks, true, design, 300);
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
        let ruled = Some("undecided: too few".to_owned());
        let ruled = RuleResult::not_decided(String::new(), ruled);
        assert_eq!(ruled.reason.as_deref(), Some("too few"));
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
        let result = rate.decide(&look(299, 300), true, ONE_RULE, 300);
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
    fn needed_requests_include_those_that_do_not_count() {
        let lower = rule("correct_rate>=99");
        let rate = RateRule::new(&lower).unwrap();
        let needs = |sent: usize| match rate.decide(&look(20, 20), true, ONE_RULE, sent).needs {
            Some(Needs::Requests(requests)) => requests,
            other => panic!("{other:?}"),
        };
        assert_eq!((needs(20), needs(200)), (299, 2990));
    }

    #[test]
    fn f1_is_tested_by_the_share_of_agreeing_calls() {
        let f1 = rule("trigger_f1>=98");
        let rate = RateRule::new(&f1).unwrap();
        assert!((rate.threshold - 0.98 / 1.02).abs() < 1e-12);
        let result = rate.decide(&look(100, 104), true, ONE_RULE, 104);
        // 2 * 100 / (2 * 100 + 4)
        assert!((result.value.unwrap() - 100.0 * 200.0 / 204.0).abs() < 1e-9);
    }

    /// Runs whose median TTFTs are these.
    fn runs(ttft_ms: &[f64]) -> Vec<Side> {
        let run = |ttft_ms: &f64| {
            let request = request().with(&latencies::TTFT, *ttft_ms);
            side("run", vec![vec![request; 20]])
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
        assert_eq!(tail.needs, Some(Needs::Requests(662)));
    }
}
