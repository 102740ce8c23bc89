//! What came per second, and how much of it chance may be: the run's time is cut into blocks, and
//! blocks are drawn again.

use super::measure::Why;
use super::side::{Request, Run, Side};
use crate::metrics::registry::{Metric, latencies, rates, totals};
use sobench_statistics::bootstrap::{RandomSource, Replicates, SplitMix, runs};

/// Blocks that a run's time is cut into: long enough, in all but short runs, for what happens in
/// one to be over in the next.
const BLOCKS: usize = 20;

/// Fewer blocks than this say too little of what else might have come.
pub const LEAST_BLOCKS: usize = 5;

/// Places in a block at which the next one may begin.
const SLICES_OF_BLOCK: usize = 10;

/// Requests and tokens that hang together come within the time of an answer: a block is at least so
/// many times the median of it.
const ANSWERS_OF_BLOCK: f64 = 2.0;

/// What a side comes to: all that came over all its time. `None` where a count or a time is not
/// known.
pub fn value(side: &Side, metric: &Metric) -> Option<f64> {
    let amount = amount_of(metric)?;
    if *metric == totals::VALID_THROUGHPUT && is_unjudged(side) {
        return None;
    }
    let mut total = 0.0;
    let mut seconds = 0.0;
    for run in &side.runs {
        seconds += run.duration_s.filter(|seconds| *seconds > 0.0)?;
        for request in run
            .requests
            .as_ref()?
            .iter()
            .filter(|request| request.answered)
        {
            total += amount(request)?;
        }
    }
    (seconds > 0.0).then(|| total / seconds)
}

/// Whether answers came, and none of them was judged.
fn is_unjudged(side: &Side) -> bool {
    let mut answered = side
        .runs
        .iter()
        .filter_map(|run| run.requests.as_ref())
        .flatten()
        .filter(|it| it.answered)
        .peekable();
    answered.peek().is_some() && answered.all(|it| it.values.hit(&rates::CORRECT_RATE).is_none())
}

/// Draws the blocks of both sides again: a circular block bootstrap (Politis and Romano, 1992) in
/// each drawn run. A resample draws the same times of every run: a run begins and ends with nothing
/// in flight, and that is common to both sides.
///
/// # Errors
/// Why it cannot be done.
pub fn bootstrap(
    a: &Side,
    b: &Side,
    metric: &Metric,
    resamples: usize,
    seed: u64,
) -> Result<Replicates, Why> {
    let amount = amount_of(metric).ok_or(Why::Once)?;
    let mut blocks = BLOCKS;
    for run in a.runs.iter().chain(&b.runs) {
        blocks = blocks.min(blocks_of(run)?);
    }
    if blocks < LEAST_BLOCKS {
        return Err(Why::TooShort);
    }
    let timelines = |side: &Side| {
        side.runs
            .iter()
            .map(|run| Timeline::of(run, amount, blocks))
            .collect::<Result<Vec<_>, _>>()
    };
    let (a, b) = (timelines(a)?, timelines(b)?);
    let draw = |random: &mut SplitMix, (): &mut ()| {
        let begins: Vec<usize> = (0..blocks)
            .map(|_| random.below(blocks * SLICES_OF_BLOCK))
            .collect();
        let of_a = drawn(&a, &begins, random);
        of_a.zip(drawn(&b, &begins, random))
    };
    Ok(Replicates::new(
        SplitMix::resample(seed, resamples, draw).into_iter(),
    ))
}

/// How many blocks a run's time is long enough for.
fn blocks_of(run: &Run) -> Result<usize, Why> {
    let seconds = run
        .duration_s
        .filter(|seconds| *seconds > 0.0)
        .ok_or(Why::NoTimes)?;
    let answers = run
        .requests
        .iter()
        .flatten()
        .filter(|request| request.answered);
    let mut durations: Vec<f64> = answers
        .filter_map(|request| Some(request.in_distribution(&latencies::E2EL)? / 1000.0))
        .collect();
    durations.sort_by(f64::total_cmp);
    let median = durations.get(durations.len() / 2).copied().unwrap_or(0.0);
    Ok((seconds / (ANSWERS_OF_BLOCK * median)) as usize)
}

/// A run's time in slices.
struct Timeline {
    seconds: f64,
    /// What came before each slice, over two rounds of the run.
    before: Vec<f64>,
}

impl Timeline {
    fn of(run: &Run, amount: Amount, blocks: usize) -> Result<Self, Why> {
        let seconds = run.duration_s.ok_or(Why::NoTimes)?;
        let slices = blocks * SLICES_OF_BLOCK;
        let mut of_slice = vec![0.0; slices];
        for request in run
            .requests
            .iter()
            .flatten()
            .filter(|request| request.answered)
        {
            let (at_s, amount) = request.ended_s().zip(amount(request)).ok_or(Why::NoTimes)?;
            of_slice[((at_s / seconds * slices as f64) as usize).min(slices - 1)] += amount;
        }
        let mut before = vec![0.0];
        for amount in of_slice.iter().chain(&of_slice) {
            before.push(before[before.len() - 1] + amount);
        }
        Ok(Self { seconds, before })
    }

    fn drawn(&self, begins: &[usize]) -> f64 {
        begins
            .iter()
            .map(|begin| self.before[begin + SLICES_OF_BLOCK] - self.before[*begin])
            .sum()
    }
}

fn drawn(timelines: &[Timeline], begins: &[usize], random: &mut SplitMix) -> Option<f64> {
    let mut weights = Vec::new();
    runs(random, timelines.len(), &mut weights);
    let (mut total, mut seconds) = (0.0, 0.0);
    for (timeline, times) in timelines.iter().zip(weights) {
        total += f64::from(times) * timeline.drawn(begins);
        seconds += f64::from(times) * timeline.seconds;
    }
    (seconds > 0.0).then(|| total / seconds)
}

/// What a request adds to a sum.
type Amount = fn(&Request) -> Option<f64>;

/// What an answered request adds to a metric that is a sum over them, per second; `None` for other
/// metrics.
pub fn amount_of(metric: &Metric) -> Option<Amount> {
    let sums: [(&Metric, Amount); 4] = [
        (&totals::REQUEST_THROUGHPUT, |_| Some(1.0)),
        (&totals::VALID_THROUGHPUT, |request| {
            Some(f64::from(u8::from(
                request.values.hit(&rates::CORRECT_RATE) == Some(true),
            )))
        }),
        (&totals::OUTPUT_THROUGHPUT, |request| {
            request.output_tokens.map(|tokens| tokens as f64)
        }),
        (&totals::TOTAL_TOKEN_THROUGHPUT, |request| {
            Some(request.output_tokens?.saturating_add(request.input_tokens?) as f64)
        }),
    ];
    sums.into_iter()
        .find(|(own, _)| *own == metric)
        .map(|(_, amount)| amount)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::testing::{request, side};

    /// A request a tenth of a second for ten seconds, `tokens` each.
    fn steady(tokens: impl Fn(u32) -> u64) -> Vec<Request> {
        let one = |place: u32| Request {
            sent_s: Some(f64::from(place) * 0.1),
            output_tokens: Some(tokens(place)),
            ..request().with(&latencies::E2EL, 25.0)
        };
        (0..100).map(one).collect()
    }

    #[test]
    fn what_comes_evenly_has_next_to_no_spread() {
        let (a, b) = (
            side("a", vec![steady(|_| 4)]),
            side("b", vec![steady(|_| 5)]),
        );
        assert_eq!(
            (
                value(&a, &totals::OUTPUT_THROUGHPUT),
                value(&b, &totals::REQUEST_THROUGHPUT)
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
            vec![steady(|place| if place / 10 % 2 == 0 { 10 } else { 0 })],
        );
        let (low, high) = bootstrap(&a, &bursts, &totals::OUTPUT_THROUGHPUT, 500, 0)
            .unwrap()
            .interval(0.95)
            .unwrap();
        assert!(
            high - low > 10.0,
            "{low} to {high}: seconds come and go together"
        );
    }

    #[test]
    fn of_answers_that_nobody_judged_no_number_is_valid() {
        let unjudged = steady(|_| 4)
            .into_iter()
            .map(|request| request.with_correct(None))
            .collect();
        assert_eq!(
            value(&side("a", vec![unjudged]), &totals::VALID_THROUGHPUT),
            None
        );
        assert_eq!(
            value(&side("a", vec![steady(|_| 4)]), &totals::VALID_THROUGHPUT),
            Some(10.0)
        );
    }

    #[test]
    fn a_run_shorter_than_its_answers_has_no_interval() {
        let slow = steady(|_| 4)
            .into_iter()
            .map(|request| request.with(&latencies::E2EL, 2000.0))
            .collect::<Vec<_>>();
        let unknown = steady(|_| 4)
            .into_iter()
            .map(|it| Request { sent_s: None, ..it })
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
            Err(Why::TooShort)
        );
        assert_eq!(
            bootstrap(
                &a,
                &side("b", vec![unknown]),
                &totals::REQUEST_THROUGHPUT,
                9,
                0
            ),
            Err(Why::NoTimes)
        );
        let countless = side(
            "b",
            vec![vec![Request {
                output_tokens: None,
                ..request()
            }]],
        );
        assert_eq!(value(&countless, &totals::OUTPUT_THROUGHPUT), None);
    }
}
