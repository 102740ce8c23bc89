//! The rows of a comparison from the sides of `sobench compare`.

use std::collections::BTreeMap;

use super::charts::{Curves, Distributions, InvalidReason, Quantiles};
use super::{Causes, Comparison, Control, Figures, Load, MatrixConditions, Row, RowResult};
use sobench_core::case::Arm;
use sobench_results::compare::bootstrap::SideId;
use sobench_results::compare::contrast::rate;
use sobench_results::compare::measure::{figure, share};
use sobench_results::compare::pairing::Pairing;
use sobench_results::compare::requests::{RequestView, Requests};
use sobench_results::compare::side::Side;
use sobench_results::metrics::constraint_overhead::Added;
use sobench_results::metrics::registry::{
    Figure, Metric, Stat, Value, Values, latencies, rates, totals,
};
use sobench_statistics::contrast::Hits;
use sobench_statistics::{Percentile, Rate, Summary, contrast, mean, samples_needed};

/// The percentile that tables show.
pub const TAIL: f64 = 99.0;

impl Comparison {
    /// The rows of sides with these names; with curves for charts, which take a while.
    pub fn of_sides(names: &[String], sides: &[Side], has_charts: bool) -> Self {
        let row = |(name, side): (&String, &Side)| Row {
            dataset: String::new(),
            contender: name.clone(),
            load: Load::AsGiven,
            result: RowResult::Measured(Box::new(Figures::of_side(side, has_charts))),
        };
        let rows: Vec<Row> = names.iter().zip(sides).map(row).collect();
        let has_control = |row: &Row| row.figures().is_some_and(|found| found.control.is_some());
        Self {
            record: MatrixConditions {
                control: rows.iter().any(has_control),
                ..MatrixConditions::default()
            },
            rows,
            ..Self::default()
        }
    }
}

impl Figures {
    /// The figures of the runs of a side, with those of its control runs or of the controls within
    /// its runs. Those that requests or files do not have are unknown.
    pub fn of_side(side: &Side, has_charts: bool) -> Self {
        let of_rate = |figure: Figure| rate_of(figure, side);
        let number = |metric: &'static Metric| figure(side, Figure::new(metric));
        // The one metric of the table that has no field of its own.
        let right = |metric: &'static Metric| {
            let is_shown = *metric == rates::ACCURACY;
            is_shown.then(|| of_rate(Figure::new(metric)).map(Value::Rate))?
        };
        Self {
            runs: side.runs.len(),
            requests: side.request_count().unwrap_or_default(),
            correct_rate: of_rate(Figure::new(&rates::CORRECT_RATE)),
            causes: causes(side),
            reasons: InvalidReason::merged(side.runs.iter().flat_map(|run| &run.reasons)),
            compliance: of_rate(Figure::new(&rates::COMPLIANCE)),
            coverage: of_rate(Figure::new(&rates::COVERAGE)),
            ttft_ms: summary(side, &latencies::TTFT),
            tpot_ms: summary(side, &latencies::TPOT),
            e2el_ms: summary(side, &latencies::E2EL),
            request_throughput: number(&totals::REQUEST_THROUGHPUT),
            output_throughput: number(&totals::OUTPUT_THROUGHPUT),
            valid_throughput: number(&totals::VALID_THROUGHPUT),
            control: Control::of_side(side),
            distributions: match has_charts {
                true => Distributions {
                    ttft_ms: curves(side, &latencies::TTFT),
                    tpot_ms: curves(side, &latencies::TPOT),
                },
                false => Distributions::default(),
            },
            metrics: Values::from_fn(right),
            ..Self::default()
        }
    }
}

impl Control {
    fn of_side(side: &Side) -> Option<Self> {
        let mut requests = side.requests().into_iter().flatten();
        let controls = match &side.controls {
            Some(controls) => controls,
            None if requests.any(|(_, request)| is_control(request)) => side,
            None => return None,
        };
        let correct = Figure::of(&rates::CORRECT_RATE, Some(Arm::Control));
        let of_controls =
            |metric| -> Vec<f64> { values(controls, metric, Some(Arm::Control)).concat() };
        let summary = |metric| Summary::new(of_controls(metric), &[TAIL]);
        let arms = Arms {
            side,
            controls,
            pairing: Pairing::of_arms(controls, side),
        };
        let (ttft, later) = (&latencies::TTFT, Some(true));
        let has_own_runs = side.controls.is_some();
        let number = |metric| figure(controls, Figure::new(metric)).filter(|_| has_own_runs);
        Some(Self {
            runs: controls.runs.len(),
            requests: of_controls(&latencies::E2EL).len(),
            control_rate: rate_of(correct, controls),
            ttft_ms: summary(&latencies::TTFT),
            tpot_ms: summary(&latencies::TPOT),
            output_throughput: number(&totals::OUTPUT_THROUGHPUT),
            ttft_added: arms.added(ttft, later).or_else(|| arms.added(ttft, None)),
            first_ttft_added: arms.added(ttft, Some(false)),
            tpot_added: arms.added(&latencies::TPOT, None),
            e2el_added: arms.added(&latencies::E2EL, None),
            ..Self::default()
        })
    }
}

fn is_control(request: RequestView<'_>) -> bool {
    request.arm() == Some(Arm::Control)
}

/// Over requests if they are known, else from the counts of the files.
fn rate_of(figure: Figure, side: &Side) -> Option<Rate> {
    rate(figure, side).or_else(|| {
        let share = share(side, figure)?;
        Rate::new(share.hits, share.of)
    })
}

/// The values of an arm, or of all, in each run.
fn values(side: &Side, metric: &'static Metric, arm: Option<Arm>) -> Vec<Vec<f64>> {
    let of_run = |requests: &Requests| {
        let values = requests.iter().zip(requests.in_distribution(metric));
        let of_arm = values.filter(|(request, _)| arm.is_none() || request.arm() == arm);
        of_arm.filter_map(|(_, value)| value).collect()
    };
    let runs = side.runs.iter().filter_map(|run| run.requests.as_ref());
    runs.map(of_run).collect()
}

fn summary(side: &Side, metric: &'static Metric) -> Summary {
    let values = values(side, metric, None).concat();
    if !values.is_empty() {
        return Summary::new(values, &[TAIL]);
    }
    let of = |stat: Stat| figure(side, Figure::from_distribution(metric, stat));
    let n = side
        .runs
        .iter()
        .filter_map(|run| Some(run.means.get(metric)?.n))
        .sum();
    let tail = Stat::from_percent(TAIL).and_then(of);
    let needs = samples_needed(TAIL).unwrap_or(u64::MAX);
    Summary {
        n,
        mean: of(Stat::Mean),
        median: of(Stat::Median),
        percentiles: vec![Percentile {
            p: TAIL,
            value: tail,
            enough: n as u64 >= needs,
            needs,
            low: None,
            high: None,
        }],
        ..Summary::default()
    }
}

fn curves(side: &Side, metric: &'static Metric) -> Curves {
    let of = |side: &Side| Quantiles::new(values(side, metric, None).concat().into_iter());
    Curves {
        constrained: of(side),
        control: side.controls.as_deref().map(of).unwrap_or_default(),
    }
}

/// Why requests are not correct; `None` if the files do not say it.
fn causes(side: &Side) -> Option<Causes> {
    let hit = |request: RequestView<'_>, metric: &'static Metric| request.hit(metric) == Some(true);
    let cause = |request: RequestView<'_>| -> Option<usize> {
        request
            .in_rate(Figure::new(&rates::CORRECT_RATE))
            .filter(|is_correct| !is_correct)?;
        let known = [
            hit(request, &rates::TRUNCATED_RATE),
            hit(request, &rates::REFUSED_RATE) && !hit(request, &rates::OVERLOADED_RATE),
            hit(request, &rates::FAILED_RATE) || hit(request, &rates::OVERLOADED_RATE),
        ];
        Some(
            known
                .iter()
                .position(|is_so| *is_so)
                .map_or(0, |place| place + 1),
        )
    };
    let share = |wanted: usize| {
        let mut hits = Hits::default();
        for requests in side.run_requests()? {
            let judged = requests.in_rate(Figure::new(&rates::CORRECT_RATE));
            let run = requests.iter().zip(judged).enumerate();
            let run = run.filter(|(_, (_, judged))| judged.is_some());
            hits.add_run(
                run.map(|(place, (request, _))| (place, None, cause(request) == Some(wanted))),
            );
        }
        contrast::rate(&hits)
    };
    let is_known = side
        .requests()?
        .any(|(_, request)| request.hit(&rates::TRUNCATED_RATE).is_some());
    if !is_known {
        return None;
    }
    Some(Causes {
        invalid: share(0)?,
        truncated: share(1)?,
        refused: share(2)?,
        failed: share(3)?,
    })
}

/// The requests with a constraint and those without it.
struct Arms<'s> {
    side: &'s Side,
    controls: &'s Side,
    /// Of the controls with the others, by case.
    pairing: Pairing,
}

impl Arms<'_> {
    /// What the constraint adds to a time: over the cases that both arms have, or over all requests
    /// of each arm if they have different cases. `later_use` selects constrained requests.
    fn added(&self, metric: &'static Metric, later_use: Option<bool>) -> Option<Added> {
        let figure = Figure::from_distribution(metric, Stat::Mean);
        let doubts = self.side.doubt(figure).zip(self.controls.doubt(figure));
        let counts = |request: RequestView<'_>| {
            let is_wanted = |later_use| request.later_use() == later_use;
            !is_control(request) && later_use.is_none_or(is_wanted)
        };
        let mut with = self.values(self.side, SideId::B, metric, counts);
        let mut without = self.values(self.controls, SideId::A, metric, is_control);
        let is_paired = |(one, other): (&BTreeMap<u32, f64>, &BTreeMap<u32, f64>)| {
            one.keys().any(|case| other.contains_key(case))
        };
        if self.pairing != Pairing::None && with.iter().zip(&without).any(is_paired) {
            for (one, other) in with.iter_mut().zip(&mut without) {
                one.retain(|case, _| other.contains_key(case));
                other.retain(|case, _| one.contains_key(case));
            }
        }
        let n = with.iter().map(BTreeMap::len).sum();
        let [with, without] = [with, without].map(|runs| -> Vec<f64> {
            let values = runs
                .iter()
                .map(|run| run.values().copied().collect::<Vec<_>>());
            values.filter_map(|values| mean(&values)).collect()
        });
        Added::new(&with, &without, n, doubts.map(|(one, other)| one + other))
    }

    /// The values of the requests that count in each run, by case.
    fn values(
        &self,
        side: &Side,
        which: SideId,
        metric: &'static Metric,
        counts: impl Fn(RequestView<'_>) -> bool,
    ) -> Vec<BTreeMap<u32, f64>> {
        let mut cases = self.pairing.case_numbers(which).iter();
        let runs = side.runs.iter().filter_map(|run| run.requests.as_ref());
        runs.map(|requests| {
            let values = requests
                .iter()
                .zip(requests.in_distribution(metric))
                .enumerate();
            let run = values.filter_map(|(place, (request, value))| {
                let case = cases.next().map_or(place as u32, |case| *case);
                Some((case, value.filter(|_| counts(request))?))
            });
            run.collect()
        })
        .collect()
    }
}
