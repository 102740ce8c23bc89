//! The metrics of several runs as those of one.

use super::{Done, TAIL};
use sobench_core::case::Arm;
use sobench_results::metrics::pooled::Pooled;
use sobench_results::metrics::registry::{Among, Kind, Metric, PerSecond, Value, Values};
use sobench_statistics::{Rate, Summary};

/// Every metric over all runs: rates by their counts, distributions over the values of all,
/// throughput over the time of all, and other totals as the mean of the runs. What one of the runs
/// does not know is not known. Rates of the control arm are those of `control`.
pub(super) fn values_of(
    runs: &[Done],
    control: &[Done],
    pooled: &[(&'static Metric, Pooled)],
) -> Values {
    Values::from_fn(|metric| match metric.kind {
        Kind::Rate {
            among: Among::Arm(Arm::Control),
            ..
        } => added(control, |run| run.values.rate(metric)).map(Value::Rate),
        Kind::Rate { .. } => added(runs, |run| run.values.rate(metric)).map(Value::Rate),
        Kind::Distribution { among, .. } => {
            let requests = runs.iter().flat_map(|run| &run.seen.requests);
            let counted = requests.filter(|request| among.counts(None, request.answered));
            let values: Vec<f64> = counted
                .filter_map(|request| request.values.value(metric))
                .collect();
            (!values.is_empty()).then(|| Value::Distribution(Summary::of(values, &TAIL)))
        }
        Kind::Pooled(_) => {
            let (_, values) = pooled.iter().find(|(own, _)| *own == metric)?;
            Some(values.clone().sum_up(&TAIL))
                .filter(|summary| summary.n > 0)
                .map(Value::Distribution)
        }
        Kind::PerSecond(_) => {
            let seconds: f64 = runs.iter().map(|run| run.duration_s).sum();
            let count = |run: &Done| match run.values.get(metric)? {
                Value::PerSecond(rate) => rate.count,
                _ => None,
            };
            let count: u64 = runs.iter().map(count).sum::<Option<u64>>()?;
            let rate = PerSecond {
                per_second: count as f64 / seconds,
                count: Some(count),
            };
            (seconds > 0.0).then_some(Value::PerSecond(rate))
        }
        Kind::Total(_) => {
            let sum: f64 = runs
                .iter()
                .map(|run| run.values.number(metric))
                .sum::<Option<f64>>()?;
            (!runs.is_empty()).then(|| Value::Total(sum / runs.len() as f64))
        }
    })
}

/// A distribution, empty where nothing is known.
pub(super) fn summary(values: &Values, metric: &Metric) -> Summary {
    values
        .summary(metric)
        .cloned()
        .unwrap_or_else(|| Summary::of(Vec::new(), &TAIL))
}

/// The rate over all runs; `None` where one does not know it.
pub(super) fn added(runs: &[Done], rate: impl Fn(&Done) -> Option<Rate>) -> Option<Rate> {
    let rates: Vec<Rate> = runs.iter().map(rate).collect::<Option<_>>()?;
    Rate::of(
        rates.iter().map(|rate| rate.hits).sum(),
        rates.iter().map(|rate| rate.of).sum(),
    )
}
