//! The plan of an acceptance, checked before the first request.

use super::limits::Limits;
use super::requirements::{Part, PartFlags, Requirements};
use crate::commands::bench::options::RunPlan;
use crate::commands::flags::environment;
use crate::commands::matrix::options::Benchmark;
use crate::commands::preflight::options::PreflightPlan;
use crate::commands::report::verdicts;
use crate::terminal::InputProgress;
use sobench_core::error::{Error, Result};
use sobench_data::dataset::DatasetName;
use sobench_notices::enforcement::UnenforcedPolicy;
use sobench_results::accept::{RateRule, varies};
use sobench_results::compare::files;
use sobench_results::compare::rules::{ChangeRule, CountRule, LimitRule};
use sobench_results::compare::side::Side;

/// Looks at the answers of a run, and runs of a rule on a time, unless the file says otherwise.
const LOOKS: usize = 5;
const RUNS: usize = 5;

/// The figures of a preflight, of keywords and of other kinds.
pub(super) const FEATURE_FIGURES: [&str; 5] = [
    "enforced",
    "no_violation_seen",
    "under_enforced",
    "rejected",
    "crashed",
];
pub(super) const PREFLIGHT_FIGURES: [&str; 1] = ["failed"];

/// The plan of an acceptance.
pub(super) struct AcceptPlan {
    pub(super) name: String,
    pub(super) sha256: String,
    pub(super) parts: Vec<PartPlan>,
    /// The number of rules of all parts, which share the error of *not met*.
    pub(super) rules: usize,
}

pub(super) struct PartPlan {
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
    pub(super) work: Work,
}

pub(super) enum Work {
    Runs(Box<RunsPlan>),
    Preflight {
        plan: Box<PreflightPlan>,
        rules: Vec<CountRule>,
    },
    Limits {
        limits: Box<Limits>,
        rules: Vec<CountRule>,
    },
}

/// Runs of the same requests, or looks at parts of one run.
pub(super) struct RunsPlan {
    pub(super) plan: RunPlan,
    pub(super) limits: Vec<LimitRule>,
    pub(super) changes: Vec<ChangeRule>,
    pub(super) baseline: Option<Side>,
    pub(super) runs: usize,
    /// Above 1 only with one run.
    pub(super) looks: usize,
}

impl AcceptPlan {
    /// # Errors
    /// Flags or rules contradict each other, or a rule names an unknown figure.
    pub(super) fn new(requirements: Requirements) -> Result<Self> {
        let parts = requirements.parts.into_iter().map(|part| {
            let name = part.name.clone();
            PartPlan::new(part).map_err(|error| Error {
                what: format!("{name}: {}", error.what),
                ..error
            })
        });
        let parts = parts.collect::<Result<Vec<PartPlan>>>()?;
        Ok(Self {
            name: requirements.name,
            sha256: requirements.sha256,
            rules: parts.iter().map(|part| part.work.rules().len()).sum(),
            parts,
        })
    }
}

impl PartPlan {
    fn new(part: Part) -> Result<Self> {
        let work = match &part.flags {
            PartFlags::Run(_) => Work::Runs(Box::new(RunsPlan::new(&part)?)),
            PartFlags::Preflight(flags) => {
                let plan = PreflightPlan::new(flags, environment::api_key)?;
                let is_other = !part.fail_on.is_empty()
                    || part.baseline.is_some()
                    || part.runs.or(part.looks).is_some();
                if is_other {
                    return Err(Error::usage("a preflight has no baseline, runs and looks")
                        .hint("leave out baseline, fail-on, runs and looks, or write [[run]]"));
                }
                let names: &[&str] = match plan.features {
                    Some(_) => &FEATURE_FIGURES,
                    None => &PREFLIGHT_FIGURES,
                };
                Work::Preflight {
                    rules: count_rules(&part, names)?,
                    plan: Box::new(plan),
                }
            }
            PartFlags::Limits(path) => {
                let limits = Limits::read(path)?;
                let names: Vec<&str> = limits.counts.iter().map(|count| &*count.name).collect();
                Work::Limits {
                    rules: count_rules(&part, &names)?,
                    limits: Box::new(limits),
                }
            }
        };
        Ok(Self {
            name: part.name,
            arguments: part.arguments,
            work,
        })
    }
}

/// The rules of a part on counts.
fn count_rules(part: &Part, names: &[&str]) -> Result<Vec<CountRule>> {
    let rules = part.require.iter();
    rules.map(|rule| CountRule::parse(rule, names)).collect()
}

impl Work {
    /// The rules as texts.
    pub(super) fn rules(&self) -> Vec<String> {
        match self {
            Self::Runs(runs) => {
                let limits = runs.limits.iter().map(ToString::to_string);
                let changes = runs.changes.iter().map(ToString::to_string);
                limits.chain(changes).collect()
            }
            Self::Preflight { rules, .. } | Self::Limits { rules, .. } => {
                rules.iter().map(ToString::to_string).collect()
            }
        }
    }
}

impl RunsPlan {
    fn new(part: &Part) -> Result<Self> {
        let PartFlags::Run(flags) = &part.flags else {
            return Err(Error::internal("a run without flags"));
        };
        let Benchmark::Run(mut plan) = Benchmark::new(flags, false)? else {
            return Err(Error::usage("this is a comparison of several runs")
                .hint("give one engine, dataset and load to each [[run]]"));
        };
        // A server that ignores constraints is to be not met, with its figures.
        if let Some(policy) = &mut plan.settings.constraint.preflight {
            *policy = UnenforcedPolicy::Allow;
        }
        let limits = part.require.iter().map(|rule| LimitRule::parse(rule));
        let limits = limits.collect::<Result<Vec<LimitRule>>>()?;
        let changes = part.fail_on.iter().map(|rule| ChangeRule::parse(rule));
        let changes = changes.collect::<Result<Vec<ChangeRule>>>()?;
        limits.iter().try_for_each(refuse_certainty)?;
        refuse_contradictions(&limits)?;
        match (&part.baseline, changes.first()) {
            (None, Some(rule)) => {
                return Err(Error::usage(format!("{rule} without a baseline"))
                    .hint("add baseline = \"FILE\": a run log, a result or a baseline"));
            }
            (Some(baseline), None) => {
                return Err(
                    Error::usage(format!("the baseline has no rule: {baseline}"))
                        .hint("add fail-on = [\"correct_rate<-1pp\"]"),
                );
            }
            _ => {}
        }
        let is_sequential = changes.is_empty()
            && limits.iter().all(|rule| RateRule::new(rule).is_some())
            && plan.settings.dataset.source.name() != DatasetName::Sessions
            && part.runs.unwrap_or(1) == 1;
        if let Some(looks) = part.looks.filter(|_| !is_sequential) {
            return Err(
                Error::usage(format!("looks = {looks}, but not every rule is on a rate")).hint(
                    "stopping early would change the load: put rates into a [[run]] of their own",
                ),
            );
        }
        let runs = part
            .runs
            .unwrap_or(if limits.iter().any(varies) { RUNS } else { 1 });
        Ok(Self {
            looks: if is_sequential {
                part.looks.unwrap_or(LOOKS)
            } else {
                1
            },
            baseline: part.baseline.as_deref().map(read_baseline).transpose()?,
            runs,
            plan: *plan,
            limits,
            changes,
        })
    }
}

fn read_baseline(files: &str) -> Result<Side> {
    let progress = InputProgress::of_files();
    files::read_side(files, |log| verdicts(log, &progress), &progress)
}

/// Refuses a rule that no number of requests can show to be met.
fn refuse_certainty(rule: &LimitRule) -> Result<()> {
    match RateRule::new(rule) {
        Some(rate) if rate.is_beyond_proof() => {
            let example = match rule.value >= 100.0 {
                true => format!("{}>=99", rule.metric),
                false => format!("{}<=1", rule.metric),
            };
            Err(
                Error::usage(format!("no number of requests can show {rule}")).hint(format!(
                    "write {example}, which 299 requests show if all of them meet it"
                )),
            )
        }
        _ => Ok(()),
    }
}

/// Refuses two limits of a figure that exclude each other.
fn refuse_contradictions(limits: &[LimitRule]) -> Result<()> {
    let is_upper = |rule: &LimitRule| rule.comparator.is_upper();
    for upper in limits
        .iter()
        .filter(|rule| is_upper(rule) && rule.other.is_none())
    {
        let lower = limits.iter().find(|lower| {
            lower.metric == upper.metric
                && lower.other.is_none()
                && !is_upper(lower)
                && lower.value > upper.value
        });
        if let Some(lower) = lower {
            return Err(
                Error::usage(format!("{lower} and {upper} contradict each other"))
                    .hint("leave one of them out"),
            );
        }
    }
    Ok(())
}
