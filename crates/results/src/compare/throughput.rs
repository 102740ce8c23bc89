//! Throughput of runs.

use super::requests::{RequestView, Requests};
use super::side::{Run, Side};
use crate::metrics::registry::{Metric, rates, totals};
use sobench_plan::record::condition::Field;

/// The throughput of runs: total amount over total time. `None` if a count or a time is unknown.
pub fn value(runs: &[Run], metric: &Metric) -> Option<f64> {
    let amount = amount_per_request(metric)?;
    if *metric == totals::VALID_THROUGHPUT && is_unjudged(runs) {
        return None;
    }
    let mut total = 0.0;
    let mut seconds = 0.0;
    for run in runs {
        seconds += run.duration_s.filter(|seconds| *seconds > 0.0)?;
        for request in run.requests.as_ref()?.iter().filter(RequestView::answered) {
            total += amount(request)?;
        }
    }
    (seconds > 0.0).then(|| total / seconds)
}

/// The share of the request rate from which on requests were answered as fast as they were sent.
pub const NEAR_RATE: f64 = 0.75;

/// Whether the request rate sets this throughput of a side: requests were sent at a fixed rate, and
/// answered as fast. A slower server has the same throughput then.
pub fn follows_rate(side: &Side, metric: &Metric) -> bool {
    let is_set_by_rate = [
        &totals::REQUEST_THROUGHPUT,
        &totals::OUTPUT_THROUGHPUT,
        &totals::TOTAL_TOKEN_THROUGHPUT,
    ];
    let follows = |run: &Run| {
        let condition = |field: Field| run.conditions.get(&field)?.parse::<f64>().ok();
        let rate = condition(Field::RequestRate).filter(|rate| rate.is_finite())?;
        let requests = match &run.requests {
            Some(requests) => requests.len() as f64,
            None => condition(Field::NumPrompts)?,
        };
        Some(requests >= NEAR_RATE * rate * run.duration_s?)
    };
    is_set_by_rate.contains(&metric) && side.runs.iter().all(|run| follows(run) == Some(true))
}

/// Whether there are answers and none was judged.
fn is_unjudged(runs: &[Run]) -> bool {
    let mut answered = runs
        .iter()
        .filter_map(|run| run.requests.as_ref())
        .flat_map(Requests::iter)
        .filter(RequestView::answered)
        .peekable();
    answered.peek().is_some() && answered.all(|request| request.hit(&rates::CORRECT_RATE).is_none())
}

/// What a request adds to a total.
type Amount = fn(RequestView<'_>) -> Option<f64>;

/// What an answered request adds to a throughput metric; `None` for other metrics.
pub fn amount_per_request(metric: &Metric) -> Option<Amount> {
    let sums: [(&Metric, Amount); 4] = [
        (&totals::REQUEST_THROUGHPUT, |_| Some(1.0)),
        (&totals::VALID_THROUGHPUT, |request| {
            Some(f64::from(u8::from(
                request.hit(&rates::CORRECT_RATE) == Some(true),
            )))
        }),
        (&totals::OUTPUT_THROUGHPUT, |request| {
            request.output_tokens().map(|tokens| tokens as f64)
        }),
        (&totals::TOTAL_TOKEN_THROUGHPUT, |request| {
            Some(
                request
                    .output_tokens()?
                    .saturating_add(request.input_tokens()?) as f64,
            )
        }),
    ];
    sums.into_iter()
        .find(|(own, _)| *own == metric)
        .map(|(_, amount)| amount)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::requests::Request;
    use crate::compare::testing::{request, side};
    use crate::metrics::registry::latencies;

    /// Ten requests per second for ten seconds, each with `tokens`.
    fn steady(tokens: impl Fn(u32) -> u64) -> Vec<Request> {
        let one = |index: u32| Request {
            sent_s: Some(f64::from(index) * 0.1),
            output_tokens: Some(tokens(index)),
            ..request().with(&latencies::E2EL, 25.0)
        };
        (0..100).map(one).collect()
    }

    #[test]
    fn amounts_are_divided_by_the_duration() {
        let runs = side("a", vec![steady(|_| 4)]).runs;
        let [tokens, requests] = [&totals::OUTPUT_THROUGHPUT, &totals::REQUEST_THROUGHPUT]
            .map(|metric| value(&runs, metric));
        assert_eq!((tokens, requests), (Some(40.0), Some(10.0)));
        let unknown = Request {
            output_tokens: None,
            ..request()
        };
        let countless = side("b", vec![vec![unknown]]);
        assert_eq!(value(&countless.runs, &totals::OUTPUT_THROUGHPUT), None);
    }

    #[test]
    fn valid_throughput_is_unknown_without_verdicts() {
        let unjudged = steady(|_| 4)
            .into_iter()
            .map(|request| request.with_correct(None))
            .collect();
        assert_eq!(
            value(&side("a", vec![unjudged]).runs, &totals::VALID_THROUGHPUT),
            None
        );
        assert_eq!(
            value(
                &side("a", vec![steady(|_| 4)]).runs,
                &totals::VALID_THROUGHPUT
            ),
            Some(10.0)
        );
    }
}
