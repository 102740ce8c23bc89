//! The capacity of contenders at the latency objectives, with and without the constraint, as found
//! by `--sweep`, and the steps of all sweeps.
//!
//! The capacity is the highest request rate that is sustained: the share of requests within the
//! objectives (constrained requests: also valid) reaches `--goodput-share`, and the answers keep up
//! with the requests. A sweep ends with a bracket, from the highest rate that is certainly
//! sustained to the lowest that is certainly not.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::cells::{NAME_CHARS, figure, median_and_tail, percent, two_lines};
use super::{Comparison, Load};
use sobench_core::case::Arm;
use sobench_core::distinct::distinct;
use sobench_core::printable::printable;
use sobench_render::Table;
use sobench_statistics::{Rate, Summary, percentile};

/// The capacity of a contender on a dataset.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct CapacityRow {
    pub dataset: String,
    pub contender: String,
    pub constrained: Capacity,
    /// `None` without a control arm.
    pub control: Option<Capacity>,
    /// The share of the control's capacity that the constraint costs.
    pub cost: Option<CapacityCost>,
}

/// The capacity of one arm, over the sweeps of all repeats.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Capacity {
    /// The median over repeats of the highest sustained rate, in requests per second; `None` if a
    /// repeat sustained no rate.
    pub sustained_rps: Option<f64>,
    /// The lowest over repeats of [`Sweep::low_rps`]; `None` if a repeat has none.
    pub low_rps: Option<f64>,
    /// The highest over repeats of [`Sweep::high_rps`]; `None` if a repeat has none.
    pub high_rps: Option<f64>,
    /// Means over repeats at the highest sustained rate: answers per second of the run's duration,
    /// and output tokens.
    pub achieved_rps: Option<f64>,
    pub output_tokens_per_s: Option<f64>,
    /// One for each repeat.
    pub sweeps: Vec<Sweep>,
}

/// The search of one repeat.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Sweep {
    /// From 1.
    pub repeat: usize,
    /// The highest sustained rate, by the observed figures.
    pub sustained_rps: Option<f64>,
    /// The lowest rate that was not sustained, by the observed figures.
    pub missed_rps: Option<f64>,
    /// The highest sustained rate of the decided runs.
    pub low_rps: Option<f64>,
    /// The lowest rate of the decided runs that was not sustained.
    pub high_rps: Option<f64>,
    pub end: SweepEnd,
    /// The runs, in the order of execution.
    pub steps: Vec<SweepStep>,
}

/// A run of a sweep.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct SweepStep {
    /// A request rate; a concurrency cap for the run that measures where to start.
    pub load: Load,
    pub requests: usize,
    /// Requests within the objectives (constrained: also valid), of those that were sent.
    pub share: Option<Rate>,
    /// Whether the share reaches `--goodput-share`, and the answers keep up with the requests.
    pub is_sustained: bool,
    /// Whether `is_sustained` is uncertain: the 95 % interval of the share contains
    /// `--goodput-share`, or the run is too short to distinguish a growing queue from chance.
    pub is_undecided: bool,
    /// Growth of the number of unfinished requests from near the start of the schedule to its end,
    /// in percent of the requests due between the two; `None` without a rate.
    pub backlog_growth_percent: Option<f64>,
    /// Whether that growth is neither small nor chance: the answers fall behind the requests.
    pub is_behind: bool,
    pub achieved_rps: Option<f64>,
    pub output_tokens_per_s: Option<f64>,
    pub ttft_ms: Summary,
    pub tpot_ms: Summary,
    /// TTFT of first and later uses of a constraint, as in the rows; without values for control runs.
    pub cold_ttft_ms: Summary,
    pub warm_ttft_ms: Summary,
    /// Whether the client distorted the latencies.
    pub is_distrusted: bool,
}

/// Why a sweep ended.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SweepEnd {
    /// The bracket is narrow enough.
    Narrow,
    /// The largest number of runs is reached.
    RunLimit,
    /// A run failed. The reason may quote the server.
    Failed { reason: String },
    /// The user stopped the comparison.
    Stopped,
}

/// The cost of a constraint, in percent of the control's capacity. A bound is `None` if the
/// brackets do not bound it.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct CapacityCost {
    pub percent: Option<f64>,
    pub low_percent: Option<f64>,
    pub high_percent: Option<f64>,
}

impl CapacityRow {
    pub fn new(
        dataset: String,
        contender: String,
        constrained: Capacity,
        control: Option<Capacity>,
    ) -> Self {
        let cost = control
            .as_ref()
            .and_then(|control| CapacityCost::new(&constrained, control));
        Self {
            dataset,
            contender,
            constrained,
            control,
            cost,
        }
    }

    /// The capacity of an arm.
    pub(super) fn of(&self, arm: Arm) -> Option<&Capacity> {
        match arm {
            Arm::Control => self.control.as_ref(),
            _ => Some(&self.constrained),
        }
    }

    /// A figure with the constraint and without it, side by side.
    fn side_by_side(&self, of: impl Fn(&Capacity) -> String) -> String {
        let control = self
            .control
            .as_ref()
            .map(|control| format!(" against {}", of(control)));
        format!("{}{}", of(&self.constrained), control.unwrap_or_default())
    }

    /// The runs at a rate, and those of them that are undecided.
    fn runs_and_undecided(&self) -> (usize, usize) {
        let capacities = std::iter::once(&self.constrained).chain(&self.control);
        let sweeps = capacities.flat_map(|capacity| &capacity.sweeps);
        let steps = sweeps.flat_map(|sweep| &sweep.steps);
        let at_rates = steps.filter(|step| matches!(step.load, Load::RequestRate(_)));
        at_rates.fold((0, 0), |(runs, undecided), step| {
            (runs + 1, undecided + usize::from(step.is_undecided))
        })
    }
}

impl Capacity {
    pub fn new(sweeps: Vec<Sweep>) -> Self {
        let ends = |end: fn(&Sweep) -> Option<f64>| -> Option<Vec<f64>> {
            sweeps.iter().map(end).collect()
        };
        let (lows, highs) = (ends(|sweep| sweep.low_rps), ends(|sweep| sweep.high_rps));
        let mut sustained = ends(|sweep| sweep.sustained_rps).unwrap_or_default();
        sustained.sort_by(f64::total_cmp);
        let mean = |value: fn(&SweepStep) -> Option<f64>| {
            let values: Option<Vec<f64>> = sweeps
                .iter()
                .map(|sweep| value(sweep.step_at_capacity()?))
                .collect();
            let values = values.filter(|values| !values.is_empty())?;
            Some(values.iter().sum::<f64>() / values.len() as f64)
        };
        Self {
            sustained_rps: percentile(&sustained, 50.0),
            low_rps: lows.and_then(|lows| lows.into_iter().reduce(f64::min)),
            high_rps: highs.and_then(|highs| highs.into_iter().reduce(f64::max)),
            achieved_rps: mean(|step| step.achieved_rps),
            output_tokens_per_s: mean(|step| step.output_tokens_per_s),
            sweeps,
        }
    }

    /// The highest sustained rate of the search, a step of it: `14`, or `at least 64` and `below 2` if
    /// all or none of the steps are sustained.
    fn sustained(&self) -> String {
        let is_open = self.sweeps.iter().any(|sweep| sweep.missed_rps.is_none());
        let missed = self.sweeps.iter().filter_map(|sweep| sweep.missed_rps);
        match (self.sustained_rps, missed.reduce(f64::min)) {
            (Some(rate), _) if is_open => format!("at least {rate}"),
            (Some(rate), _) => rate.to_string(),
            (None, Some(missed)) => format!("below {missed}"),
            (None, None) => "unknown".to_owned(),
        }
    }

    /// Why the capacity is not bounded, if a sweep failed or was stopped; otherwise empty.
    fn broken_off(&self) -> String {
        let end = |sweep: &Sweep| match &sweep.end {
            SweepEnd::Failed { reason } => Some(format!(" (the sweep ended early: {reason})")),
            SweepEnd::Stopped => Some(" (stopped before the sweep was complete)".to_owned()),
            SweepEnd::Narrow | SweepEnd::RunLimit => None,
        };
        self.sweeps.iter().find_map(end).unwrap_or_default()
    }
}

impl Sweep {
    /// The run at the highest sustained rate.
    fn step_at_capacity(&self) -> Option<&SweepStep> {
        let load = Load::RequestRate(self.sustained_rps?);
        self.steps.iter().find(|step| step.load == load)
    }
}

impl CapacityCost {
    /// Compares two brackets: the cost is lowest between the highest constrained capacity and the
    /// lowest of the control.
    fn new(constrained: &Capacity, control: &Capacity) -> Option<Self> {
        let cost = |with: f64, without: f64| 100.0 * (1.0 - with / without);
        let between = |with: Option<f64>, without: Option<f64>| Some(cost(with?, without?));
        let are_bounded = constrained.high_rps.is_some() && control.high_rps.is_some();
        let found = Self {
            percent: between(constrained.sustained_rps, control.sustained_rps)
                .filter(|_| are_bounded),
            low_percent: between(constrained.high_rps, control.low_rps),
            high_percent: between(constrained.low_rps, control.high_rps),
        };
        (found.low_percent.is_some() || found.high_percent.is_some()).then_some(found)
    }
}

/// The table of capacities: a row for each contender and dataset. `None` without a sweep.
pub(super) fn table(comparison: &Comparison) -> Option<Table> {
    let heads = [
        "dataset",
        "backend",
        "req/s",
        "answers/s",
        "out tok/s",
        "undecided\nruns",
    ];
    let rows = comparison.capacity.iter().map(|row| {
        let (runs, undecided) = row.runs_and_undecided();
        [
            printable(&row.dataset, NAME_CHARS),
            printable(&row.contender, NAME_CHARS),
            row.side_by_side(Capacity::sustained),
            row.side_by_side(|capacity| figure(capacity.achieved_rps)),
            row.side_by_side(|capacity| figure(capacity.output_tokens_per_s)),
            format!("{undecided} of {runs}"),
        ]
    });
    Table::new(heads, 2).with_rows(rows).non_empty()
}

impl fmt::Display for CapacityRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rates = self
            .side_by_side(|capacity| format!("{}{}", capacity.sustained(), capacity.broken_off()));
        let arms = match &self.control {
            Some(_) => "with and without the constraint",
            None => "with the constraint",
        };
        write!(
            f,
            "{}, {}: {rates} req/s sustained {arms}",
            self.contender, self.dataset
        )?;
        if self.control.is_some() {
            match self.cost {
                Some(cost) => write!(f, ". {cost}")?,
                None => write!(f, ". The cost of the constraint is unknown")?,
            }
            if self.cost.is_some() && self.constrained.sweeps.len() == 1 {
                write!(f, ", without the variation between searches: add --repeat")?;
            }
        }
        match self.runs_and_undecided() {
            (_, 0) => Ok(()),
            (runs, undecided) => write!(
                f,
                ". Undecided: {undecided} of {runs} runs; a longer --sweep-duration decides more"
            ),
        }
    }
}

impl fmt::Display for CapacityCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.low_percent, self.high_percent) {
            (Some(low), _) if low > 0.0 => {
                write!(
                    f,
                    "The constraint costs at least {low:.0} % of the capacity"
                )
            }
            (_, Some(high)) if high < 0.0 => {
                write!(
                    f,
                    "The capacity with the constraint is at least {:.0} % higher",
                    -high
                )
            }
            (_, Some(_)) => write!(f, "No cost of the constraint is visible at this resolution"),
            (_, None) => write!(f, "The cost of the constraint is unknown"),
        }
    }
}

/// The figures of an arm at a load.
pub(super) struct Step<'c> {
    pub(super) dataset: &'c str,
    pub(super) contender: &'c str,
    pub(super) arm: Arm,
    pub(super) found: SweepStep,
}

/// The steps of all searches at a rate, by rate; without a search, the arms of all rows.
pub(super) fn steps(comparison: &Comparison) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    for row in &comparison.capacity {
        for arm in [Arm::Constrained, Arm::Control] {
            let sweeps = row.of(arm).map(|capacity| &capacity.sweeps);
            let found = sweeps.into_iter().flatten().flat_map(|sweep| &sweep.steps);
            let mut found: Vec<SweepStep> = found.cloned().collect();
            found.retain(|step| matches!(step.load, Load::RequestRate(_)));
            found.sort_by(|one, other| one.load.size().total_cmp(&other.load.size()));
            steps.extend(found.into_iter().map(|found| Step {
                dataset: &row.dataset,
                contender: &row.contender,
                arm,
                found,
            }));
        }
    }
    for row in comparison
        .rows
        .iter()
        .filter(|_| comparison.capacity.is_empty())
    {
        let Some(figures) = row.figures() else {
            continue;
        };
        let mut add = |arm, found| {
            steps.push(Step {
                dataset: &row.dataset,
                contender: &row.contender,
                arm,
                found,
            });
        };
        let constrained = SweepStep {
            load: row.load,
            requests: figures.requests,
            share: figures.valid_within_objectives,
            output_tokens_per_s: figures.output_throughput,
            ttft_ms: figures.ttft_ms.clone(),
            tpot_ms: figures.tpot_ms.clone(),
            cold_ttft_ms: figures.cold_ttft_ms.clone(),
            warm_ttft_ms: figures.warm_ttft_ms.clone(),
            is_distrusted: figures.distrusted_runs > 0,
            ..SweepStep::default()
        };
        add(Arm::Constrained, constrained);
        if let Some(control) = &figures.control {
            let control = SweepStep {
                load: row.load,
                requests: control.requests,
                output_tokens_per_s: control.output_throughput,
                ttft_ms: control.ttft_ms.clone(),
                tpot_ms: control.tpot_ms.clone(),
                is_distrusted: figures.distrusted_runs > 0,
                ..SweepStep::default()
            };
            add(Arm::Control, control);
        }
    }
    steps
}

/// The table of the steps; `None` without steps.
pub(super) fn steps_table(comparison: &Comparison) -> Option<Table> {
    let steps = steps(comparison);
    let heads = "dataset;backend\narm;load;in obj.\n%;TTFT ms\np50/p99;TPOT ms\np50/p99;TTFT ms\ncold/warm;out\ntok/s;n;sustained";
    let uses = |step: &SweepStep| {
        let (cold, warm) = (step.cold_ttft_ms.median?, step.warm_ttft_ms.median?);
        Some(two_lines(&figure(Some(cold)), &figure(Some(warm))))
    };
    let cells = |step: &Step<'_>| {
        let found = &step.found;
        let latency = |summary| median_and_tail(summary, found.is_distrusted);
        let sustained = if found.is_sustained { "yes" } else { "no" };
        let undecided = if found.is_undecided {
            ",\nundecided"
        } else {
            ""
        };
        [
            printable(step.dataset, NAME_CHARS),
            two_lines(&printable(step.contender, NAME_CHARS), step.arm.name()),
            found.load.to_string(),
            percent(found.share),
            latency(&found.ttft_ms),
            latency(&found.tpot_ms),
            uses(found).unwrap_or_default(),
            figure(found.output_tokens_per_s),
            found.requests.to_string(),
            format!("{sustained}{undecided}"),
        ]
    };
    let mut table = Table::new(heads.split(';'), 2).with_rows(steps.iter().map(cells));
    let has_datasets = distinct(steps.iter().map(|step| step.dataset)).len() > 1;
    table.retain_columns(|column| match column.head.as_str() {
        "dataset" => has_datasets,
        "in obj.\n%" => steps.iter().any(|step| step.found.share.is_some()),
        "TTFT ms\ncold/warm" => steps.iter().any(|step| uses(&step.found).is_some()),
        "sustained" => !comparison.capacity.is_empty(),
        _ => true,
    });
    table.non_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity(brackets: &[(Option<f64>, Option<f64>)]) -> Capacity {
        let sweep =
            |(index, &(sustained_rps, missed_rps)): (usize, &(Option<f64>, Option<f64>))| {
                let step = |rate: Option<f64>, is_sustained: bool| {
                    Some(SweepStep {
                        load: Load::RequestRate(rate?),
                        requests: 100,
                        share: Rate::new(if is_sustained { 100 } else { 50 }, 100),
                        is_sustained,
                        achieved_rps: rate.map(|rate| 0.9 * rate),
                        output_tokens_per_s: rate.map(|rate| 100.0 * rate),
                        ..SweepStep::default()
                    })
                };
                Sweep {
                    repeat: index + 1,
                    sustained_rps,
                    missed_rps,
                    low_rps: sustained_rps,
                    high_rps: missed_rps,
                    end: SweepEnd::RunLimit,
                    steps: [step(sustained_rps, true), step(missed_rps, false)]
                        .into_iter()
                        .flatten()
                        .collect(),
                }
            };
        Capacity::new(brackets.iter().enumerate().map(sweep).collect())
    }

    fn sentence(
        with: &[(Option<f64>, Option<f64>)],
        without: &[(Option<f64>, Option<f64>)],
    ) -> String {
        let (dataset, contender) = ("json".to_owned(), "xgrammar".to_owned());
        let control = Some(capacity(without));
        CapacityRow::new(dataset, contender, capacity(with), control).to_string()
    }

    #[test]
    fn the_cost_is_bounded_by_both_brackets() {
        let found = |with, without| sentence(&[with], &[without]);
        assert_eq!(
            found((Some(14.0), Some(16.0)), (Some(20.0), Some(24.0))),
            "xgrammar, json: 14 against 20 req/s sustained with and without the constraint. The \
             constraint costs at least 20 % of the capacity, without the variation between searches: add \
             --repeat"
        );
        assert_eq!(
            found((Some(20.0), Some(24.0)), (Some(20.0), Some(24.0))),
            "xgrammar, json: 20 against 20 req/s sustained with and without the constraint. No cost of \
             the constraint is visible at this resolution, without the variation between searches: add \
             --repeat"
        );
        assert_eq!(
            found((None, Some(0.125)), (Some(20.0), None)),
            "xgrammar, json: below 0.125 against at least 20 req/s sustained with and without the \
             constraint. The constraint costs at least 99 % of the capacity, without the variation \
             between searches: add --repeat"
        );
        assert_eq!(
            found((Some(64.0), None), (Some(64.0), None)),
            "xgrammar, json: at least 64 against at least 64 req/s sustained with and without the \
             constraint. The cost of the constraint is unknown"
        );
    }

    #[test]
    fn overlapping_brackets_are_no_cost() {
        let cost = |with, without| {
            let text = sentence(&[with], &[without]);
            let cost = text.split(" without the constraint. ").nth(1).unwrap();
            cost.split(", without the variation")
                .next()
                .unwrap()
                .to_owned()
        };
        let rates = |low: f64, high: f64| (Some(low), Some(high));
        let hidden = "No cost of the constraint is visible at this resolution";
        for (with, without) in [
            (rates(14.0, 16.0), rates(15.0, 17.0)),
            (rates(14.0, 16.0), rates(16.0, 20.0)),
            (rates(14.0, 30.0), rates(15.0, 17.0)),
            (rates(16.0, 20.0), rates(10.0, 16.0)),
        ] {
            let found = cost(with, without);
            assert!(found.starts_with(hidden), "{with:?} {without:?}: {found}");
        }
        // One end is unknown.
        let unknown = "The cost of the constraint is unknown";
        assert_eq!(cost((None, Some(16.0)), (Some(15.0), None)), unknown);
        assert_eq!(cost((None, Some(16.0)), (Some(15.0), Some(17.0))), unknown);
        assert_eq!(cost((Some(14.0), None), rates(15.0, 17.5)), hidden);
        // No overlap.
        assert_eq!(
            cost(rates(20.0, 24.0), rates(10.0, 16.0)),
            "The capacity with the constraint is at least 25 % higher"
        );
        assert_eq!(
            cost((Some(20.0), None), rates(10.0, 16.0)),
            "The capacity with the constraint is at least 25 % higher"
        );
        assert_eq!(
            cost(rates(14.0, 16.0), rates(17.0, 18.0)),
            "The constraint costs at least 6 % of the capacity"
        );
    }

    #[test]
    fn undecided_runs_widen_the_cost_and_are_counted() {
        let mut with = capacity(&[(Some(14.0), Some(16.0))]);
        with.sweeps[0]
            .steps
            .iter_mut()
            .for_each(|step| step.is_undecided = true);
        (with.low_rps, with.high_rps) = (Some(8.0), Some(32.0));
        let control = Some(capacity(&[(Some(20.0), Some(24.0))]));
        let row = CapacityRow::new("json".to_owned(), "xgrammar".to_owned(), with, control);
        assert_eq!(
            row.to_string(),
            "xgrammar, json: 14 against 20 req/s sustained with and without the constraint. No cost of \
             the constraint is visible at this resolution, without the variation between searches: add \
             --repeat. Undecided: 2 of 4 runs; a longer --sweep-duration decides more"
        );
    }

    #[test]
    fn repeats_widen_the_bracket() {
        let found = capacity(&[
            (Some(14.0), Some(16.0)),
            (Some(18.0), Some(20.0)),
            (Some(13.0), Some(14.0)),
        ]);
        assert_eq!(
            (found.sustained_rps, found.low_rps, found.high_rps),
            (Some(14.0), Some(13.0), Some(20.0))
        );
        assert!((found.output_tokens_per_s.unwrap() - 1500.0).abs() < 1e-9);
        let unbounded = capacity(&[(Some(14.0), Some(16.0)), (Some(64.0), None)]);
        assert_eq!((unbounded.low_rps, unbounded.high_rps), (Some(14.0), None));
        assert_eq!(capacity(&[]).sustained(), "unknown");
    }

    #[test]
    fn a_failed_sweep_gives_its_reason() {
        let mut found = capacity(&[(Some(14.0), None)]);
        found.sweeps[0].end = SweepEnd::Failed {
            reason: "gone".to_owned(),
        };
        let row = CapacityRow::new("json".to_owned(), "xgrammar".to_owned(), found, None);
        assert_eq!(
            row.to_string(),
            "xgrammar, json: at least 14 (the sweep ended early: gone) req/s sustained with the constraint"
        );
    }
}
