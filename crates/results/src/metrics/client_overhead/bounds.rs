//! Bounds: how much of each latency and throughput the client can have added.
//!
//! - *Sending.* A request left this machine between `sent` and the end of the system call that sent
//!   it. Latencies that count from sent contain at most that call.
//! - *Arrival.* The kernel stamps arrivals. The packets of one read share the stamp of the last
//!   one, and some have no stamp. How long the first of them can have waited is measured
//!   ([`sobench_core::observation::Timing::arrival_slack_ns`]).
//! - *Lost slots.* Figures that count from due, and throughput, contain the time for which a due
//!   request and a free slot waited for the client. The next requests of that slot start later by
//!   as much.
//!
//! A figure of shifted values minus the figure itself is the bound. Values are shifted by the most
//! that is possible for each, in either direction.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::metrics::in_flight::order_of_sending;
use crate::metrics::pooled::Pooled;
use crate::metrics::registry::{Figure, Metric, MetricKind, Stat, Unit, Values, latencies};
use crate::metrics::token_gaps::spread_over_tokens;
use sobench_facts::Sample;
use sobench_facts::latency::tokens_per_chunk;
use sobench_plan::metrics::MetricsSettings;
use sobench_statistics::Summary;

const NS_PER_MS: f64 = 1e6;

/// A figure is not trusted if the client can have added more than this share of it.
pub const MAX_SHARE: f64 = 0.1;

/// Latency bounds up to this value do not count, in milliseconds. Answers from a cache or a test
/// server take less time than a wake-up of a thread.
pub const MIN_LIMIT_MS: f64 = 0.1;

/// The resolution of every latency, in milliseconds: the kernel's stamps and the client's clock are
/// compared within 0.01 ms, and the path from a stamp to a wake-up takes as much.
const RESOLUTION_MS: f64 = 0.02;

/// How much of a figure the client can have added.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Bound {
    pub figure: Figure,
    /// The value of the figure, in its unit.
    pub value: f64,
    /// The most that the client can have added to a latency, or taken from a throughput, in the
    /// same unit; `None` if unknown.
    pub added: Option<f64>,
    /// Whether it is more than [`MAX_SHARE`] of the value.
    pub distrusted: bool,
}

/// The bounds of a run, in the order of the metrics.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
#[serde(transparent)]
pub struct Bounds(Vec<Bound>);

/// Requests of one client, and what limits them.
pub(super) struct Client<'c, 'a> {
    pub(super) samples: &'c [Sample<'a>],
    pub(super) options: &'c MetricsSettings,
    /// The concurrency cap.
    pub(super) max_concurrency: Option<usize>,
    /// The start of the client, relative to the start of the run.
    pub(super) start_ns: u64,
}

/// What the client can have added to one request, in milliseconds.
#[derive(Clone, Copy)]
struct Added {
    /// Before the request was sent: lost slots.
    before: f64,
    /// In the system call that sent it.
    sending: f64,
    /// The slack of the first and last chunk, and of the first chunk of the answer.
    first: f64,
    last: f64,
    answer: f64,
}

/// The values of a metric, each with the least and the most that it can be.
#[derive(Default)]
struct Shifted<T> {
    value: T,
    least: T,
    most: T,
}

impl Bound {
    fn new(figure: Figure, value: f64, added: Option<f64>) -> Self {
        let limit = limit(figure, value);
        Self {
            figure,
            value,
            added,
            distrusted: added.is_some_and(|added| added > limit),
        }
    }

    /// The largest bound of a trusted figure.
    pub fn limit(&self) -> f64 {
        limit(self.figure, self.value)
    }
}

fn limit(figure: Figure, value: f64) -> f64 {
    let share = value * MAX_SHARE;
    match figure.metric.unit {
        Unit::Milliseconds => share.max(MIN_LIMIT_MS),
        _ => share,
    }
}

/// "TTFT p99: client may have added up to 3.2 of 20.1 ms".
impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { figure, value, .. } = self;
        match figure.stat {
            Some(stat) => write!(f, "{} {stat}", figure.metric.label)?,
            None => f.write_str(figure.metric.label)?,
        }
        match self.added {
            None => f.write_str(": the client's part is unknown"),
            Some(added) if figure.metric.unit == Unit::Milliseconds && added > *value => {
                // A gap can be too short, because the chunk before it was read late.
                let digits = digits(added);
                write!(
                    f,
                    ": {value:.digits$} ms, which the client may have changed by up to {added:.digits$} ms"
                )
            }
            Some(added) if figure.metric.unit == Unit::Milliseconds => {
                let digits = digits(added);
                write!(
                    f,
                    ": client may have added up to {added:.digits$} of {value:.digits$} ms"
                )
            }
            Some(added) => {
                let percent = 100.0 * added / value;
                write!(f, ": client may have cost up to {percent:.1} %")
            }
        }
    }
}

/// Decimals that show two significant digits.
fn digits(value: f64) -> usize {
    match value {
        _ if value < 0.1 => 3,
        _ if value < 1.0 => 2,
        _ => 1,
    }
}

impl Bounds {
    pub(super) fn new(client: &Client<'_, '_>, values: &Values) -> Self {
        let lost = lost_before_sent(client);
        // Computed again for each metric, so that a million requests take less memory.
        let added = || {
            let all = client.samples.iter().zip(&lost.by_sample);
            all.map(|(sample, before_ns)| Added::new(sample, *before_ns))
        };
        let is_known = added().all(|added| added.is_some());
        let mut bounds = Vec::new();
        for (metric, _) in values.iter() {
            match metric.kind {
                // The schedule lag has the wait for the server and the client's delay by design;
                // the send delay is the client's part.
                MetricKind::Distribution { .. } | MetricKind::Pooled(_)
                    if *metric == latencies::SCHEDULE_LAG => {}
                MetricKind::Distribution { .. } | MetricKind::Pooled(_) => {
                    let known = is_known.then(|| added().flatten());
                    bounds.extend(latency_bounds(client, known, metric, values));
                }
                MetricKind::PerSecond(_) => {
                    let value = values.number(metric).filter(|value| *value > 0.0);
                    bounds.extend(value.map(|value| {
                        let lost = lost.share.map(|share| share * value);
                        Bound::new(Figure::new(metric), value, lost)
                    }));
                }
                MetricKind::Rate(_) | MetricKind::Total(_) => {}
            }
        }
        Self(bounds)
    }

    /// Every bound.
    pub fn iter(&self) -> impl Iterator<Item = &Bound> {
        self.0.iter()
    }

    /// The bounds of the figures that are not trusted.
    pub fn distrusted(&self) -> impl Iterator<Item = &Bound> {
        self.iter().filter(|bound| bound.distrusted)
    }

    /// The figures that are not trusted, with their bounds.
    pub fn distrusted_figures(&self) -> impl Iterator<Item = (Figure, Option<f64>)> {
        self.distrusted().map(|bound| (bound.figure, bound.added))
    }

    /// Whether the client can have added more than [`MAX_SHARE`] of a figure; false if unknown.
    pub fn is_distrusted(&self, figure: Figure) -> bool {
        self.distrusted().any(|bound| bound.figure == figure)
    }

    /// Whether the bound of a latency is unknown, as in logs of older versions.
    pub(super) fn has_unknown(&self) -> bool {
        self.iter().any(|bound| bound.added.is_none())
    }
}

/// Ignores figures that a later version may write.
impl<'de> Deserialize<'de> for Bounds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Read {
            figure: String,
            value: f64,
            added: Option<f64>,
        }
        let read: Vec<Read> = Deserialize::deserialize(deserializer)?;
        let bounds = read.into_iter().filter_map(|bound| {
            let figure = Figure::parse(&bound.figure).ok()?;
            Some(Bound::new(figure, bound.value, bound.added))
        });
        Ok(Self(bounds.collect()))
    }
}

impl Added {
    /// `None` if the request has an answer, and it is unknown how late its packets were read.
    fn new(sample: &Sample<'_>, before_ns: u64) -> Option<Self> {
        let ms = |ns: u64| ns as f64 / NS_PER_MS;
        let before = ms(before_ns);
        if !sample.outcome().is_answer() {
            return Some(Self {
                before,
                sending: 0.0,
                first: 0.0,
                last: 0.0,
                answer: 0.0,
            });
        }
        let slack = sample.arrival_slack()?;
        Some(Self {
            before,
            sending: ms(sample.send_call_ns()?),
            first: ms(slack.first_ns),
            last: ms(slack.last_ns),
            answer: ms(slack.answer_ns),
        })
    }

    /// By how much one value of a metric can be too high and too low; `None` for pooled metrics.
    fn to_value(self, metric: &Metric, sample: &Sample<'_>) -> Option<(f64, f64)> {
        let Self {
            before,
            sending,
            first,
            last,
            answer,
        } = self;
        let all: [(&Metric, f64); 6] = [
            (&latencies::TTFT, sending + first),
            (&latencies::TTFT_REASONING, sending + first),
            (&latencies::TTFT_ANSWER, sending + answer),
            (&latencies::E2EL, sending + last),
            (&latencies::TTFT_FROM_DUE, before + sending + first),
            (&latencies::E2EL_FROM_DUE, before + sending + last),
        ];
        if *metric == latencies::TPOT {
            let gaps = sample.tokens().output?.checked_sub(1)?.max(1) as f64;
            return Some((last / gaps, first / gaps));
        }
        let (_, too_high) = all.into_iter().find(|(own, _)| *own == metric)?;
        Some((too_high, 0.0))
    }
}

/// The bounds of every statistic of a latency.
fn latency_bounds(
    client: &Client<'_, '_>,
    added: Option<impl Iterator<Item = Added> + Clone>,
    metric: &'static Metric,
    values: &Values,
) -> Vec<Bound> {
    let reported = values.summary(metric);
    let shifted = added.map(|added| match metric.kind {
        MetricKind::Pooled(_) => pooled(client, metric),
        _ => of_requests(client, &added, metric),
    });
    let mut stats = vec![(Stat::Mean, reported.mean), (Stat::Median, reported.median)];
    stats.extend(
        reported
            .percentiles
            .iter()
            .filter_map(|percentile| Some((Stat::from_percent(percentile.p)?, percentile.value))),
    );
    let known = stats
        .into_iter()
        .filter_map(|(stat, value)| Some((stat, value?)));
    known
        .map(|(stat, value)| {
            let added = shifted
                .as_ref()
                .map(|summaries| RESOLUTION_MS + largest_shift(summaries, stat));
            Bound::new(Figure::from_distribution(metric, stat), value, added)
        })
        .collect()
}

/// By how much the least and the most of a statistic differ from it.
fn largest_shift([value, least, most]: &[Summary; 3], stat: Stat) -> f64 {
    let of = |summary: &Summary| match stat {
        Stat::Mean => summary.mean,
        Stat::Std => summary.std,
        Stat::Median => summary.median,
        Stat::Percentile(_) => summary.at(stat.percent()?),
    };
    let distance = |other: &Summary| Some((of(value)? - of(other)?).abs());
    let distances = [distance(least), distance(most)];
    distances.into_iter().flatten().fold(0.0, f64::max)
}

fn of_requests(
    client: &Client<'_, '_>,
    added: &(impl Iterator<Item = Added> + Clone),
    metric: &Metric,
) -> [Summary; 3] {
    let shifted = || {
        let with_added = client.samples.iter().zip(added.clone());
        with_added.filter_map(|(sample, added)| {
            let value = metric.value(sample, client.options)?;
            let (too_high, too_low) = added.to_value(metric, sample)?;
            Some(Shifted {
                value,
                least: (value - too_high).max(0.0),
                most: value + too_low,
            })
        })
    };
    // One list of values at a time.
    let summary = |values: Vec<f64>| Summary::new(values, &client.options.percentiles);
    [
        summary(shifted().map(|shifted| shifted.value).collect()),
        summary(shifted().map(|shifted| shifted.least).collect()),
        summary(shifted().map(|shifted| shifted.most).collect()),
    ]
}

/// The gaps between chunks. The client can have read the chunk before a gap too late, so that the
/// gap is too short, and the chunk after it, so that it is too long. The gaps of an answer sum to the
/// time from its first chunk to its last, so only these two change the mean.
fn pooled(client: &Client<'_, '_>, metric: &Metric) -> [Summary; 3] {
    let answers = || {
        client
            .samples
            .iter()
            .filter(|sample| sample.outcome().is_answer() && sample.streamed(client.options))
    };
    // Without slack nothing is shifted, and the chunks of long runs are not read again.
    if answers().all(|sample| sample.arrival_slack().is_some_and(|slack| slack.is_none())) {
        return Default::default();
    }
    let mut all = [Pooled::default(), Pooled::default(), Pooled::default()];
    let (mut sum_too_long, mut sum_too_short) = (0.0, 0.0);
    for sample in answers() {
        let (chunks_ns, counts) = sample.counted_chunks();
        let slack = sample
            .arrival_slack()
            .map(|slack| slack.of_chunks(&chunks_ns))
            .unwrap_or_default();
        let mut gaps = Shifted::<Vec<f64>>::default();
        let ms = |ns: u64| ns as f64 / NS_PER_MS;
        for (chunks, slack) in chunks_ns.windows(2).zip(slack.windows(2)) {
            let gap = ms(chunks[1].saturating_sub(chunks[0]));
            gaps.value.push(gap);
            gaps.least.push((gap - ms(slack[1])).max(0.0));
            gaps.most.push(gap + ms(slack[0]));
        }
        let share = if *metric == latencies::ITL_PER_TOKEN {
            let tokens = sample.tokens().output.unwrap_or_default();
            tokens_per_chunk(tokens, chunks_ns.len() as u64).recip()
        } else {
            1.0
        };
        if chunks_ns.len() > 1 {
            sum_too_long += share * slack.last().map_or(0.0, |ns| ms(*ns));
            sum_too_short += share * slack.first().map_or(0.0, |ns| ms(*ns));
        }
        let of_metric = |gaps: Vec<f64>| {
            if *metric == latencies::ITL_PER_TOKEN {
                gaps.into_iter().map(|gap| gap * share).collect()
            } else if *metric == latencies::ITL_COUNTED {
                spread_over_tokens(&gaps, &counts).unwrap_or_default()
            } else {
                gaps
            }
        };
        let Shifted { value, least, most } = gaps;
        for (pooled, gaps) in all.iter_mut().zip([value, least, most]) {
            pooled.add(of_metric(gaps));
        }
    }
    let [value, mut least, mut most] =
        all.map(|pooled| pooled.summary(&client.options.percentiles));
    let shifted = |sum: f64| Some(value.mean? + sum / value.n as f64);
    least.mean = shifted(-sum_too_long);
    most.mean = shifted(sum_too_short);
    [value, least, most]
}

/// Time that requests lost to the client before they were sent.
struct Lost {
    /// In nanoseconds; 0 for requests that were not sent.
    by_sample: Vec<u64>,
    /// By how much throughput can have been higher, as a share of itself; `None` if unknown.
    share: Option<f64>,
}

/// Replays the run with a client that adds nothing: each request takes the slot that is free first,
/// is sent as soon as it is due, and keeps the slot without what the client can have added. Without
/// a cap each request has a slot of its own.
fn lost_before_sent(client: &Client<'_, '_>) -> Lost {
    let mut by_sample = vec![0; client.samples.len()];
    // When each used slot would be free.
    let mut slots: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
    let (mut end_ns, mut end_without_loss_ns) = (client.start_ns, client.start_ns);
    for index in order_of_sending(client.samples) {
        let index = index as usize;
        let times = client.samples[index].request_times();
        let sent_ns = times.sent_ns.unwrap_or_default();
        let due_ns = times.due_ns.max(client.start_ns);
        let is_full = client.max_concurrency.is_some_and(|cap| slots.len() >= cap);
        let slot = if is_full { slots.pop() } else { None };
        let free_ns = slot.map_or(due_ns, |Reverse(free_ns)| free_ns);
        let earliest_ns = due_ns.max(free_ns).min(sent_ns);
        by_sample[index] = sent_ns - earliest_ns;
        let ended_ns = times.end_ns.unwrap_or(sent_ns);
        let taken_ns = ended_ns
            .saturating_sub(sent_ns)
            .saturating_sub(added_to_slot_ns(&client.samples[index]));
        if client.max_concurrency.is_some() {
            slots.push(Reverse(earliest_ns + taken_ns));
        }
        end_ns = end_ns.max(ended_ns);
        end_without_loss_ns = end_without_loss_ns.max(earliest_ns + taken_ns);
    }
    let least_ns = end_without_loss_ns.saturating_sub(client.start_ns);
    let lost_ns = end_ns.saturating_sub(end_without_loss_ns);
    let share = (least_ns > 0).then(|| lost_ns as f64 / least_ns as f64);
    Lost { by_sample, share }
}

/// By how much a request can have kept its slot too long, in nanoseconds.
fn added_to_slot_ns(sample: &Sample<'_>) -> u64 {
    let slack_ns = sample.arrival_slack().map_or(0, |slack| slack.last_ns);
    let resolution_ns = (RESOLUTION_MS * NS_PER_MS) as u64;
    sample.send_call_ns().unwrap_or_default() + slack_ns + resolution_ns
}

#[cfg(test)]
mod tests;
