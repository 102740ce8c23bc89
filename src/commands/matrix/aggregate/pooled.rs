//! Pools the metrics of several runs.

use super::FinishedRun;
use sobench_report::contenders::sides::TAIL;
use sobench_results::metrics::pooled::Pooled;
use sobench_results::metrics::registry::{Figure, Metric, MetricKind, PerSecond, Value, Values};
use sobench_statistics::contrast::{self, Hits};
use sobench_statistics::{Rate, Summary};

/// Every metric over all runs: rates by their counts, distributions over all values, throughput
/// over the total time, and other totals as the mean of the runs. A metric that is unknown in one
/// run is unknown.
pub(super) fn pooled_values(runs: &[FinishedRun], pooled: &[(&'static Metric, Pooled)]) -> Values {
    Values::from_fn(|metric| match metric.kind {
        MetricKind::Rate(_) => {
            let pooled = pooled_rate(runs, |run| run.values.rate(metric));
            let counted = rate_of_runs(runs, Figure::new(metric));
            // The interval is known only if every request is.
            let is_whole = |one: &Rate, other: &Rate| (one.hits, one.of) == (other.hits, other.of);
            let counted = counted
                .zip(pooled)
                .filter(|(one, other)| is_whole(one, other));
            counted.map(|(rate, _)| rate).or(pooled).map(Value::Rate)
        }
        MetricKind::Distribution { .. } => {
            let values = runs.iter().flat_map(|run| run.samples.values(metric));
            let values: Vec<f64> = values.collect();
            (!values.is_empty()).then(|| Value::Distribution(Summary::new(values, &[TAIL])))
        }
        MetricKind::Pooled(_) => {
            let (_, values) = pooled.iter().find(|(own, _)| *own == metric)?;
            Some(values.clone().summary(&[TAIL]))
                .filter(|summary| summary.n > 0)
                .map(Value::Distribution)
        }
        MetricKind::PerSecond(_) => {
            let seconds: f64 = runs.iter().map(|run| run.duration_s).sum();
            let count = |run: &FinishedRun| match run.values.get(metric)? {
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
        MetricKind::Total(_) => {
            let sum: f64 = runs
                .iter()
                .map(|run| run.values.number(metric))
                .sum::<Option<f64>>()?;
            (!runs.is_empty()).then(|| Value::Total(sum / runs.len() as f64))
        }
    })
}

/// A distribution; empty if it is unknown.
pub(super) fn summary(values: &Values, metric: &Metric) -> Summary {
    match values.summary(metric) {
        known if known.n > 0 => known.clone(),
        _ => Summary::new(Vec::new(), &[TAIL]),
    }
}

/// The rate over all runs; `None` if it is unknown in one of them.
pub(super) fn pooled_rate(
    runs: &[FinishedRun],
    rate: impl Fn(&FinishedRun) -> Option<Rate>,
) -> Option<Rate> {
    let rates: Vec<Rate> = runs.iter().map(rate).collect::<Option<_>>()?;
    Rate::new(
        rates.iter().map(|rate| rate.hits).sum(),
        rates.iter().map(|rate| rate.of).sum(),
    )
}

/// The share of hits over several runs of the same requests, with its 95 % interval. Requests are
/// the trials: repeats of a request and copies count as far as they vary. `None` if no request
/// counts.
fn rate_of_runs(runs: &[FinishedRun], rate: Figure) -> Option<Rate> {
    let mut hits = Hits::default();
    for run in runs {
        let found = run.samples.found();
        hits.add_run(found.filter_map(|(request, found)| {
            Some((found.case, Some(found.copy), request.in_rate(rate)?))
        }));
    }
    contrast::rate(&hits)
}
