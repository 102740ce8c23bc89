//! The capacity of contenders at the latency objectives, with and without the constraint, as found
//! by `--sweep`.
//!
//! The capacity is the highest request rate that is sustained: the share of requests within the
//! objectives (constrained requests: also valid) reaches `--goodput-share`, and the answers keep up
//! with the requests. A sweep ends with a bracket, from the highest rate that is certainly
//! sustained to the lowest that is certainly not.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::cells::NAME_CHARS;
use super::{Comparison, Load, Treatment};
use sobench_core::printable::printable;
use sobench_render::Table;
use sobench_statistics::Rate;

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

/// The capacity of one treatment, over the sweeps of all repeats.
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
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
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
    pub(in crate::commands::matrix) fn new(
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
}

impl Capacity {
    pub(in crate::commands::matrix) fn new(sweeps: Vec<Sweep>) -> Self {
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
            sustained_rps: median(&sustained),
            low_rps: lows.and_then(|lows| lows.into_iter().reduce(f64::min)),
            high_rps: highs.and_then(|highs| highs.into_iter().reduce(f64::max)),
            achieved_rps: mean(|step| step.achieved_rps),
            output_tokens_per_s: mean(|step| step.output_tokens_per_s),
            sweeps,
        }
    }

    /// The runs at a rate, and those of them that are undecided.
    fn runs_and_undecided(&self) -> (usize, usize) {
        let steps = self.sweeps.iter().flat_map(|sweep| &sweep.steps);
        let at_rates = steps.filter(|step| matches!(step.load, Load::RequestRate(_)));
        at_rates.fold((0, 0), |(runs, undecided), step| {
            (runs + 1, undecided + usize::from(step.is_undecided))
        })
    }

    /// Why the capacity is not bounded, if a sweep failed or was stopped.
    fn broken_off(&self) -> Option<&SweepEnd> {
        self.sweeps
            .iter()
            .map(|sweep| &sweep.end)
            .find(|end| matches!(end, SweepEnd::Failed { .. } | SweepEnd::Stopped))
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

fn median(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

/// The table of capacities: a row for each contender, dataset and treatment. `None` without a
/// sweep.
pub(super) fn table(comparison: &Comparison) -> Option<Table> {
    let heads = [
        "dataset",
        "backend",
        "arm",
        "req/s",
        "bracket",
        "answers/s",
        "out tok/s",
        "runs",
        "undecided",
    ];
    let number = |value: Option<f64>| value.map_or_else(|| "n/a".to_owned(), shown);
    let row = |row: &CapacityRow, treatment: Treatment, capacity: &Capacity| {
        let runs: usize = capacity.sweeps.iter().map(|sweep| sweep.steps.len()).sum();
        [
            printable(&row.dataset, NAME_CHARS),
            printable(&row.contender, NAME_CHARS),
            treatment.name().to_owned(),
            number(capacity.sustained_rps),
            bracket(capacity),
            number(capacity.achieved_rps),
            number(capacity.output_tokens_per_s),
            runs.to_string(),
            capacity.runs_and_undecided().1.to_string(),
        ]
    };
    let rows = comparison.capacity.iter().flat_map(|capacity| {
        let control = capacity.control.as_ref();
        let control = control.map(|control| row(capacity, Treatment::Control, control));
        std::iter::once(row(capacity, Treatment::Constrained, &capacity.constrained)).chain(control)
    });
    Table::new(heads, 3).with_rows(rows).non_empty()
}

/// A sentence for each contender and dataset.
pub(super) fn sentences(comparison: &Comparison) -> Vec<String> {
    comparison
        .capacity
        .iter()
        .map(ToString::to_string)
        .collect()
}

impl fmt::Display for CapacityRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {}: {} with the constraint",
            self.contender, self.dataset, self.constrained
        )?;
        if let Some(control) = &self.control {
            write!(f, "; {control} without it. ")?;
            match self.cost {
                Some(cost) => write!(f, "{cost}")?,
                None => write!(f, "The cost of the constraint is unknown")?,
            }
            if self.cost.is_some() && self.constrained.sweeps.len() == 1 {
                write!(f, ", without the variation between searches: add --repeat")?;
            }
        }
        let counts = [Some(&self.constrained), self.control.as_ref()];
        let counts = counts
            .into_iter()
            .flatten()
            .map(Capacity::runs_and_undecided);
        match counts.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1)) {
            (_, 0) => Ok(()),
            (runs, undecided) => write!(
                f,
                ". Undecided: {undecided} of {runs} runs. They do not narrow the brackets; a longer --sweep-duration decides more"
            ),
        }
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_open = self.sweeps.iter().any(|sweep| sweep.missed_rps.is_none());
        match (self.sustained_rps, self.low_rps, self.high_rps) {
            (Some(_), Some(_), None) if is_open => write!(f, "{} req/s", bracket(self))?,
            (Some(rate), None, None) => write!(f, "{} req/s (undecided)", shown(rate))?,
            (Some(rate), _, _) => write!(f, "{} req/s ({})", shown(rate), bracket(self))?,
            (None, _, Some(high)) => write!(f, "less than {} req/s", shown(high))?,
            (None, _, None) => write!(f, "capacity unknown")?,
        }
        match self.broken_off() {
            Some(end) => write!(f, " ({end})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for CapacityCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HIDDEN: &str = "No cost of the constraint is visible at this resolution";
        match (self.percent, self.low_percent, self.high_percent) {
            (_, Some(low), Some(high)) if low <= 0.0 && high >= 0.0 => {
                write!(f, "{HIDDEN} ({low:.0} to {high:.0} % of the capacity)")
            }
            (Some(percent), Some(low), Some(high)) if high < 0.0 => write!(
                f,
                "The capacity with the constraint is {:.0} % higher ({:.0} to {:.0})",
                -percent, -high, -low
            ),
            (Some(percent), Some(low), Some(high)) => write!(
                f,
                "The constraint costs {percent:.0} % of the capacity ({low:.0} to {high:.0})"
            ),
            (_, Some(low), _) if low > 0.0 => {
                write!(
                    f,
                    "The constraint costs at least {low:.0} % of the capacity"
                )
            }
            (_, None, Some(high)) if high < 0.0 => write!(
                f,
                "The capacity with the constraint is at least {:.0} % higher",
                -high
            ),
            (_, None, Some(high)) => {
                write!(f, "{HIDDEN} (at most {high:.0} % of the capacity)")
            }
            (_, Some(_) | None, _) => write!(f, "The cost of the constraint is unknown"),
        }
    }
}

impl fmt::Display for SweepEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Narrow => write!(f, "the bracket is narrow enough"),
            Self::RunLimit => write!(f, "the largest number of runs is reached"),
            Self::Failed { reason } => write!(f, "the sweep ended early: {reason}"),
            Self::Stopped => write!(f, "stopped before the sweep was complete"),
        }
    }
}

/// The bracket in requests per second: `14 to 16`, `at least 64`, `below 2`.
fn bracket(capacity: &Capacity) -> String {
    match (capacity.low_rps, capacity.high_rps) {
        (Some(low), Some(high)) => format!("{} to {}", shown(low), shown(high)),
        (Some(low), None) => format!("at least {}", shown(low)),
        (None, Some(high)) => format!("below {}", shown(high)),
        (None, None) => "n/a".to_owned(),
    }
}

/// A rate with three significant digits, without trailing zeros.
fn shown(rate: f64) -> String {
    let digits = (2.0 - rate.abs().max(1e-9).log10().floor()).clamp(0.0, 6.0) as usize;
    let text = format!("{rate:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
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
                        is_undecided: false,
                        backlog_growth_percent: None,
                        is_behind: false,
                        achieved_rps: rate.map(|rate| 0.9 * rate),
                        output_tokens_per_s: rate.map(|rate| 100.0 * rate),
                        is_distrusted: false,
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
            "xgrammar, json: 14 req/s (14 to 16) with the constraint; 20 req/s (20 to 24) without it. \
             The constraint costs 30 % of the capacity (20 to 42), without the variation between \
             searches: add --repeat"
        );
        assert_eq!(
            found((Some(20.0), Some(24.0)), (Some(20.0), Some(24.0))),
            "xgrammar, json: 20 req/s (20 to 24) with the constraint; 20 req/s (20 to 24) without it. \
             No cost of the constraint is visible at this resolution (-20 to 17 % of the capacity), \
             without the variation between searches: add --repeat"
        );
        assert_eq!(
            found((None, Some(0.125)), (Some(20.0), None)),
            "xgrammar, json: less than 0.125 req/s with the constraint; at least 20 req/s without it. \
             The constraint costs at least 99 % of the capacity, without the variation between \
             searches: add --repeat"
        );
        assert_eq!(
            found((Some(64.0), None), (Some(64.0), None)),
            "xgrammar, json: at least 64 req/s with the constraint; at least 64 req/s without it. \
             The cost of the constraint is unknown"
        );
    }

    #[test]
    fn overlapping_brackets_are_no_cost() {
        let cost = |with, without| {
            let text = sentence(&[with], &[without]);
            let cost = text.split(" without it. ").nth(1).unwrap();
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
        assert_eq!(
            cost((Some(14.0), None), rates(15.0, 17.5)),
            format!("{hidden} (at most 20 % of the capacity)")
        );
        // No overlap.
        assert_eq!(
            cost(rates(20.0, 24.0), rates(10.0, 16.0)),
            "The capacity with the constraint is 100 % higher (25 to 140)"
        );
        assert_eq!(
            cost((Some(20.0), None), rates(10.0, 16.0)),
            "The capacity with the constraint is at least 25 % higher"
        );
        assert!(
            cost(rates(14.0, 16.0), rates(17.0, 18.0)).starts_with("The constraint costs 18 %")
        );
    }

    #[test]
    fn undecided_runs_widen_the_bracket_and_are_counted() {
        let mut with = capacity(&[(Some(14.0), Some(16.0))]);
        with.sweeps[0]
            .steps
            .iter_mut()
            .for_each(|step| step.is_undecided = true);
        let [low, high] = [Some(8.0), Some(32.0)];
        let shown = |low_rps, high_rps| {
            let mut sweep = with.sweeps[0].clone();
            (sweep.low_rps, sweep.high_rps) = (low_rps, high_rps);
            Capacity::new(vec![sweep]).to_string()
        };
        assert_eq!(shown(low, high), "14 req/s (8 to 32)");
        assert_eq!(shown(low, None), "14 req/s (at least 8)");
        assert_eq!(shown(None, high), "14 req/s (below 32)");
        assert_eq!(shown(None, None), "14 req/s (undecided)");
        let control = Some(capacity(&[(Some(20.0), Some(24.0))]));
        (with.low_rps, with.high_rps) = (low, high);
        let row = CapacityRow::new("json".to_owned(), "xgrammar".to_owned(), with, control);
        assert_eq!(
            row.to_string(),
            "xgrammar, json: 14 req/s (8 to 32) with the constraint; 20 req/s (20 to 24) without it. \
             No cost of the constraint is visible at this resolution (-60 to 67 % of the capacity), \
             without the variation between searches: add --repeat. Undecided: 2 of 4 runs. They do \
             not narrow the brackets; a longer --sweep-duration decides more"
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
        assert_eq!(capacity(&[]).to_string(), "capacity unknown");
    }

    #[test]
    fn a_failed_sweep_gives_its_reason() {
        let mut found = capacity(&[(Some(14.0), None)]);
        found.sweeps[0].end = SweepEnd::Failed {
            reason: "gone".to_owned(),
        };
        assert_eq!(
            found.to_string(),
            "at least 14 req/s (the sweep ended early: gone)"
        );
    }
}
