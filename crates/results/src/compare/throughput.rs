//! Throughput and its block bootstrap over the time of a run.

use super::measure::NoInterval;
use super::requests::{RequestView, Requests};
use super::side::{Run, Side};
use crate::metrics::registry::{Metric, latencies, rates, totals};
use sobench_plan::record::condition::Field;
use sobench_statistics::bootstrap::{RandomSource, Replicates, SplitMix, draw_runs};

/// Number of blocks of a run. Except in short runs, a block is long enough that neighbouring blocks
/// are nearly independent.
const BLOCKS: usize = 20;

/// Minimum number of blocks for an interval.
pub const MIN_BLOCKS: usize = 5;

/// Number of possible start positions per block.
const SLICES_OF_BLOCK: usize = 10;

/// Minimum block length, as a multiple of the median request latency. Tokens of one answer are
/// correlated.
const ANSWERS_OF_BLOCK: f64 = 2.0;

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
const NEAR_RATE: f64 = 0.75;

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

/// Resamples the blocks of both sides: a circular block bootstrap (Politis and Romano, 1992) in
/// each drawn run. A resample draws the same times from every run, because runs start and end
/// without requests in flight on both sides.
///
/// # Errors
/// The reason why there is no interval.
pub fn bootstrap(
    a: &Side,
    b: &Side,
    metric: &Metric,
    resamples: usize,
    seed: u64,
) -> Result<Replicates, NoInterval> {
    let amount = amount_per_request(metric).ok_or(NoInterval::SingleValue)?;
    let mut blocks = BLOCKS;
    for run in a.runs.iter().chain(&b.runs) {
        blocks = blocks.min(blocks_of(run)?);
    }
    if blocks < MIN_BLOCKS {
        return Err(NoInterval::TooShort);
    }
    let timelines = |side: &Side| {
        side.runs
            .iter()
            .map(|run| Timeline::new(run, amount, blocks))
            .collect::<Result<Vec<_>, _>>()
    };
    let (a, b) = (timelines(a)?, timelines(b)?);
    let draw = |random: &mut SplitMix, (): &mut ()| {
        let starts: Vec<usize> = (0..blocks)
            .map(|_| random.below(blocks * SLICES_OF_BLOCK))
            .collect();
        let of_a = drawn(&a, &starts, random);
        of_a.zip(drawn(&b, &starts, random))
    };
    Ok(Replicates::new(
        SplitMix::resample(seed, resamples, draw).into_iter(),
    ))
}

/// The number of blocks for which a run is long enough.
fn blocks_of(run: &Run) -> Result<usize, NoInterval> {
    let seconds = run
        .duration_s
        .filter(|seconds| *seconds > 0.0)
        .ok_or(NoInterval::NoTimes)?;
    // Only answers count in it.
    let latencies_ms = run
        .requests
        .iter()
        .flat_map(|requests| requests.in_distribution(&latencies::E2EL));
    let mut durations: Vec<f64> = latencies_ms.flatten().map(|ms| ms / 1000.0).collect();
    durations.sort_by(f64::total_cmp);
    let median = durations.get(durations.len() / 2).copied().unwrap_or(0.0);
    Ok((seconds / (ANSWERS_OF_BLOCK * median)) as usize)
}

/// The amounts of a run by time slice.
struct Timeline {
    seconds: f64,
    /// Cumulative amounts before each slice, over two rounds of the run.
    before: Vec<f64>,
}

impl Timeline {
    fn new(run: &Run, amount: Amount, blocks: usize) -> Result<Self, NoInterval> {
        let seconds = run.duration_s.ok_or(NoInterval::NoTimes)?;
        let slices = blocks * SLICES_OF_BLOCK;
        let mut of_slice = vec![0.0; slices];
        for request in run
            .requests
            .iter()
            .flat_map(Requests::iter)
            .filter(RequestView::answered)
        {
            let (at_s, amount) = request
                .ended_s()
                .zip(amount(request))
                .ok_or(NoInterval::NoTimes)?;
            of_slice[((at_s / seconds * slices as f64) as usize).min(slices - 1)] += amount;
        }
        let mut before = vec![0.0];
        for amount in of_slice.iter().chain(&of_slice) {
            before.push(before[before.len() - 1] + amount);
        }
        Ok(Self { seconds, before })
    }

    fn drawn(&self, starts: &[usize]) -> f64 {
        starts
            .iter()
            .map(|start| self.before[start + SLICES_OF_BLOCK] - self.before[*start])
            .sum()
    }
}

fn drawn(timelines: &[Timeline], starts: &[usize], random: &mut SplitMix) -> Option<f64> {
    let mut weights = Vec::new();
    draw_runs(random, timelines.len(), &mut weights);
    let (mut total, mut seconds) = (0.0, 0.0);
    for (timeline, times) in timelines.iter().zip(weights) {
        total += f64::from(times) * timeline.drawn(starts);
        seconds += f64::from(times) * timeline.seconds;
    }
    (seconds > 0.0).then(|| total / seconds)
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
    fn constant_rate_has_a_narrow_interval() {
        let (a, b) = (
            side("a", vec![steady(|_| 4)]),
            side("b", vec![steady(|_| 5)]),
        );
        assert_eq!(
            (
                value(&a.runs, &totals::OUTPUT_THROUGHPUT),
                value(&b.runs, &totals::REQUEST_THROUGHPUT)
            ),
            (Some(40.0), Some(10.0))
        );
        let (low, high) = bootstrap(&a, &b, &totals::OUTPUT_THROUGHPUT, 500, 0)
            .unwrap()
            .interval(0.95)
            .unwrap();
        assert!(
            (low - 10.0).abs() < 1.0 && (high - 10.0).abs() < 1.0,
            "{low} to {high}"
        );
        let bursts = side(
            "b",
            vec![steady(|index| if index / 10 % 2 == 0 { 10 } else { 0 })],
        );
        let (low, high) = bootstrap(&a, &bursts, &totals::OUTPUT_THROUGHPUT, 500, 0)
            .unwrap()
            .interval(0.95)
            .unwrap();
        assert!(high - low > 10.0, "{low} to {high}: bursts are correlated");
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

    #[test]
    fn run_shorter_than_its_answers_has_no_interval() {
        let slow = steady(|_| 4)
            .into_iter()
            .map(|request| request.with(&latencies::E2EL, 2000.0))
            .collect::<Vec<_>>();
        let unknown = steady(|_| 4)
            .into_iter()
            .map(|request| Request {
                sent_s: None,
                ..request
            })
            .collect::<Vec<_>>();
        let a = side("a", vec![steady(|_| 4)]);
        assert_eq!(
            bootstrap(
                &a,
                &side("b", vec![slow]),
                &totals::REQUEST_THROUGHPUT,
                9,
                0
            ),
            Err(NoInterval::TooShort)
        );
        assert_eq!(
            bootstrap(
                &a,
                &side("b", vec![unknown]),
                &totals::REQUEST_THROUGHPUT,
                9,
                0
            ),
            Err(NoInterval::NoTimes)
        );
        let countless = side(
            "b",
            vec![vec![Request {
                output_tokens: None,
                ..request()
            }]],
        );
        assert_eq!(value(&countless.runs, &totals::OUTPUT_THROUGHPUT), None);
    }
}
