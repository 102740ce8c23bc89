//! Runs the parts of an acceptance.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::counts::Count;
use super::json::PartResult;
use super::plan::{FEATURE_FIGURES, PREFLIGHT_FIGURES, PartPlan, RunsPlan, Work};
use super::server::AcceptedServer;
use crate::commands::bench::options::RunLogPlan;
use crate::commands::bench::run::{RunContext, ServerHistory, run_in_context};
use crate::commands::preflight;
use crate::commands::preflight::options::PreflightPlan;
use crate::terminal::{self, LineTimer, ProgressPrefix};
use sobench_core::error::{Error, ErrorKind, Result};
use sobench_core::shard::Shard;
use sobench_data::dataset::DatasetName;
use sobench_preflight::Preflight;
use sobench_preflight::features::probe::NoSurvey;
use sobench_preflight::features::{FeatureVerdict, Survey};
use sobench_results::accept::{Decision, Design, RateRule, RuleResult, counted, decide_runs};
use sobench_results::compare::gate::ChangeRuling;
use sobench_results::compare::read::run_from_log;
use sobench_results::compare::rules::{CountRule, LimitRule};
use sobench_results::compare::side::{Run, Side};
use sobench_results::compare::{CompareSettings, Gate, compare};
use sobench_shutdown::Shutdown;
use sobench_statistics::sequential::Look;

/// Runs a part, and decides its rules. An error is in the result, and leaves rules undecided.
pub(super) fn part(
    part: &PartPlan,
    rules: usize,
    is_quiet: bool,
    shutdown: &Shutdown,
) -> PartResult {
    let mut result = PartResult {
        name: part.name.clone(),
        arguments: part.arguments.clone(),
        ..PartResult::default()
    };
    let done = match &part.work {
        _ if shutdown.is_requested() => Err(Error::interrupted("the acceptance")),
        Work::Runs(runs) => runs.run(&mut result, rules, shutdown),
        Work::Preflight { plan, rules } => check(plan, rules, &mut result, shutdown),
        Work::Limits { limits, rules } => {
            result.requests = limits.requests;
            result.planned = limits.requests;
            result.looks = 1;
            result.add_counts(rules, &limits.counts)
        }
    };
    if let Err(error) = done {
        result.error = Some(match error.kind {
            ErrorKind::Interrupted => "interrupted".to_owned(),
            _ => error.what,
        });
        for rule in part.work.rules() {
            if !result.rules.iter().any(|known| known.rule == rule) {
                let reason = Some("the run did not end".to_owned());
                result.rules.push(RuleResult::not_decided(rule, reason));
            }
        }
    }
    if !is_quiet {
        for rule in &result.rules {
            terminal::say(&format!(
                "{}: {}: {}",
                part.name,
                rule.rule,
                super::page::result(rule)
            ));
        }
    }
    result
}

impl RunsPlan {
    /// The number of requests of all runs.
    pub(super) fn requests(&self) -> usize {
        let dataset = &self.plan.settings.dataset;
        dataset.num_prompts * dataset.requests_per_row() * self.runs
    }

    fn run(&self, result: &mut PartResult, rules: usize, shutdown: &Shutdown) -> Result<()> {
        let planned = self.plan.settings.dataset.num_prompts;
        result.planned = self.requests();
        let design = Design { planned, rules };
        let rates: Vec<RateRule> = self.limits.iter().filter_map(RateRule::new).collect();
        let mut looks: Vec<Vec<Look>> = vec![Vec::new(); rates.len()];
        let mut runs: Vec<Side> = Vec::new();
        let is_sampled = self.plan.settings.request.sampling.temperature != Some(0.0);
        let (mut seen, mut sent) = (HashSet::new(), 0);
        let (mut is_last, mut failure) = (false, None);
        let steps = self.looks.max(self.runs);
        for step in 1..=steps {
            let part = Shard::new(step, self.looks).filter(|_| self.looks > 1);
            let run = match self.step(part, (step, steps), result, shutdown) {
                Ok(run) => run,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            };
            // Further runs of the same requests are not new ones.
            if step == 1 || self.looks > 1 {
                let counts = counted(&run, is_sampled, &mut seen);
                sent += counts.len();
                is_last = step == steps || self.looks == 1;
                for (rate, looks) in rates.iter().zip(&mut looks) {
                    let new = rate.count(&run, &counts);
                    let before = looks.last().copied().unwrap_or_default();
                    looks.push(Look {
                        hits: before.hits + new.hits,
                        of: before.of + new.of,
                    });
                }
            }
            runs.push(Side {
                runs: vec![run],
                ..Side::default()
            });
            let is_decided = |(rate, looks): (&RateRule, &Vec<Look>)| {
                rate.decision(looks, is_last, design) != Decision::NotDecided
            };
            if self.looks > 1 && rates.iter().zip(&looks).all(is_decided) {
                break;
            }
        }
        if !runs.is_empty() {
            let decided = rates.iter().zip(&looks);
            let decided = decided.map(|(rate, looks)| rate.decide(looks, is_last, design, sent));
            result.rules.extend(decided);
        }
        if let Some(error) = failure {
            return Err(error);
        }
        let others = |rule: &&LimitRule| RateRule::new(rule).is_none();
        for rule in self.limits.iter().filter(others) {
            result.rules.push(decide_runs(rule, &runs, rules));
        }
        if self.plan.settings.dataset.source.name() == DatasetName::Sessions {
            // The number of turns was not known.
            result.planned = result.requests;
        }
        let runs = runs.into_iter().flat_map(|side| side.runs).collect();
        result.rules.extend(self.compare(runs)?);
        Ok(())
    }

    /// One run, or a look at a part of its requests.
    fn step(
        &self,
        part: Option<Shard>,
        (step, steps): (usize, usize),
        result: &mut PartResult,
        shutdown: &Shutdown,
    ) -> Result<Run> {
        let mut plan = self.plan.clone();
        plan.look = part;
        if let RunLogPlan::At(path) = &plan.output.run_log {
            plan.output.run_log = RunLogPlan::At(log_of_step(path, &result.name, step));
        }
        let what = if part.is_some() { "look" } else { "run" };
        let text = match steps {
            1 => result.name.clone(),
            _ => format!("{}, {what} {step} of {steps}", result.name),
        };
        let context = RunContext {
            history: ServerHistory::default(),
            shutdown: shutdown.clone(),
            listens: false,
            concurrent: None,
            prefix: Some(ProgressPrefix {
                text,
                left: None,
                timer: Arc::new(LineTimer::default()),
            }),
        };
        let mut judged = None;
        let name = format!("{}, {what} {step}", result.name);
        let mut run = || {
            run_in_context(&plan, &context, &mut |log| {
                judged = Some((log.requests.len(), run_from_log(&name, log)));
            })
        };
        // Later steps have the same notes.
        let finished = match step {
            1 => run(),
            _ => terminal::collect_notes(run).0,
        }?;
        let (requests, run) = judged.ok_or_else(|| Error::internal("a run without a log"))?;
        result.add_run(&finished, requests);
        if finished.interrupted {
            shutdown.drain();
            return Err(Error::interrupted("the run"));
        }
        let unreachable = finished.report.metrics.issues.is_mostly_unreachable();
        let unreachable = unreachable.then(|| "the server was not reachable any more".to_owned());
        let problem = finished.failure().or(unreachable);
        match problem {
            Some(problem) => Err(Error::environment(problem)),
            None => run,
        }
    }

    /// The rules on changes from the baseline.
    fn compare(&self, runs: Vec<Run>) -> Result<Vec<RuleResult>> {
        let Some(baseline) = self.baseline.as_ref().filter(|_| !self.changes.is_empty()) else {
            return Ok(Vec::new());
        };
        let now = Side {
            name: "now".to_owned(),
            runs,
            controls: None,
        };
        let settings = CompareSettings {
            gate: Some(Gate {
                changes: self.changes.clone(),
                ..Gate::default()
            }),
            ..CompareSettings::default()
        };
        let comparison = compare(vec![baseline.clone(), now], &settings);
        if !comparison.is_comparable() {
            let reason = format!("{} was measured under other conditions", baseline.name);
            let rules = self.changes.iter().map(ToString::to_string);
            return Ok(rules
                .map(|rule| RuleResult::not_decided(rule, Some(reason.clone())))
                .collect());
        }
        let changes = comparison
            .against
            .iter()
            .flat_map(|against| &against.changes);
        Ok(changes.map(of_change).collect())
    }
}

/// The run log of a step: the name of `--run-log` with that of the part.
fn log_of_step(path: &Path, part: &str, step: usize) -> PathBuf {
    let is_kept = |character: char| character.is_ascii_alphanumeric();
    let part = part.replace(|character| !is_kept(character), "-");
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{part}-{step}.{extension}"))
}

fn of_change(change: &ChangeRuling) -> RuleResult {
    let decision = Decision::from(change.ruling);
    let reason = (decision == Decision::NotDecided).then(|| change.result());
    RuleResult {
        decision,
        value: change.b,
        unit: change.rule.metric.unit(),
        needs: change.needs,
        ..RuleResult::not_decided(change.rule.to_string(), reason)
    }
}

/// Runs a preflight, and decides the rules on its counts.
fn check(
    plan: &PreflightPlan,
    rules: &[CountRule],
    result: &mut PartResult,
    shutdown: &Shutdown,
) -> Result<()> {
    let counts = match &plan.features {
        Some(features) => match preflight::survey(plan, features, shutdown) {
            Ok(survey) => of_survey(&survey, result),
            Err(NoSurvey::NothingEnforced(found)) if found.silent_losses().next().is_some() => {
                of_ignored(&found, features.features.len(), result)
            }
            Err(error) => return Err(error.into()),
        },
        None => {
            let found = preflight::measure(plan)?;
            if found.control.failure.is_some() {
                return Err(Error::environment("the request without a constraint fails")
                    .hint("run sobench preflight for the answer of the server"));
            }
            result.requests = found.requests;
            let wire = found.wire.as_ref();
            let failed = wire.map_or(0, |wire| wire.failed());
            let others = usize::from(!found.passed() && failed == 0);
            let unknown = wire.map_or(0, |wire| wire.unknown());
            let results = wire.into_iter().flat_map(|wire| wire.results());
            let failing = results.filter(|result| !result.verdict.is_fine());
            vec![Count {
                examples: failing.map(|result| result.name.to_owned()).collect(),
                ..Count::new(PREFLIGHT_FIGURES[0], failed + others, unknown)
            }]
        }
    };
    result.planned = result.requests;
    result.looks = 1;
    result.add_counts(rules, &counts)
}

/// The counts of each verdict on keywords.
fn of_survey(survey: &Survey, result: &mut PartResult) -> Vec<Count> {
    let counted = |verdict| {
        let servers = survey.servers.iter();
        servers.map(|server| server.count(verdict)).sum()
    };
    let unknown: usize = counted(FeatureVerdict::Undecided) + counted(FeatureVerdict::NotAsked);
    let weak: usize = counted(FeatureVerdict::NoViolationSeen);
    result.server = survey.servers.first().map(|server| AcceptedServer {
        base_url: server.base_url.clone(),
        model: server.model.clone(),
        version: server.facts.version.clone(),
    });
    result.requests = survey.servers.iter().map(|server| server.requests).sum();
    let verdicts = [
        (FeatureVerdict::Enforced, unknown + weak),
        (FeatureVerdict::NoViolationSeen, unknown),
        (FeatureVerdict::UnderEnforced, unknown + weak),
        (FeatureVerdict::Rejected, unknown),
        (FeatureVerdict::Crashed, unknown),
    ];
    let all = FEATURE_FIGURES.into_iter().zip(verdicts);
    let examples = |verdict| {
        let features = survey.servers.iter().flat_map(|server| &server.found);
        let named = features.filter(move |feature| feature.verdict == verdict);
        named.map(|feature| feature.id.clone()).collect()
    };
    all.map(|(name, (verdict, unknown))| Count {
        examples: examples(verdict),
        ..Count::new(name, counted(verdict), unknown)
    })
    .collect()
}

/// The counts of a server that ignores JSON Schemas, so that its keywords cannot be tested: none is
/// enforced.
fn of_ignored(found: &Preflight, features: usize, result: &mut PartResult) -> Vec<Count> {
    result.server = Some(AcceptedServer {
        base_url: found.record.base_url.clone(),
        model: found.record.model.clone(),
        version: found.facts.version.clone(),
    });
    result.requests = found.requests;
    let known = |name| match name {
        "enforced" | "no_violation_seen" => Count::new(name, 0, 0),
        "under_enforced" => Count {
            examples: vec!["every JSON Schema is ignored".to_owned()],
            ..Count::new(name, 1, features.saturating_sub(1))
        },
        _ => Count::new(name, 0, features),
    };
    FEATURE_FIGURES.map(known).into()
}

impl PartResult {
    /// Decides the rules on counts.
    fn add_counts(&mut self, rules: &[CountRule], counts: &[Count]) -> Result<()> {
        for rule in rules {
            let Some(count) = counts.iter().find(|count| count.name == rule.name) else {
                return Err(Error::internal("a rule on an unknown count"));
            };
            let (decision, reason) = match [count.least, count.most].map(|end| rule.is_met(end)) {
                [true, true] => (Decision::Met, None),
                [false, false] => (Decision::NotMet, count.named()),
                _ => (Decision::NotDecided, Some(count.doubt.clone())),
            };
            self.rules.push(RuleResult {
                decision,
                value: Some(count.least as f64),
                ..RuleResult::not_decided(rule.to_string(), reason)
            });
        }
        Ok(())
    }
}
