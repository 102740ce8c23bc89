//! One figure on two sides: values, difference, and how far chance may carry it.

use std::cmp::Ordering;

use super::Method;
use super::bootstrap::{Pool, Which, bootstrap};
use super::pairing::Pairing;
use super::rates::{Pairs, independent};
use super::side::{SavedMean, Share, Side};
use super::throughput::{self, amount_of};
use crate::metrics::registry::{Figure, Kind, Metric, Stat};
use sobench_statistics::bootstrap::Replicates;
use sobench_statistics::distributions::z_of;
use sobench_statistics::samples_needed;

/// The fewest requests that a mean or a median of latencies is judged by: drawn again from
/// themselves, skewed values are too much alike below that, and their intervals too narrow.
pub const LEAST_REQUESTS: usize = 30;

/// The fewest requests that a difference of rates is judged by.
pub const LEAST_JUDGED: usize = 10;

/// The most steps that one bootstrap may take: some minutes.
pub const MAX_STEPS: usize = 40_000_000_000;

/// A figure on two sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    pub metric: Figure,
    pub a: Option<f64>,
    pub b: Option<f64>,
    /// Second less first, in the figure's unit; of pairs, where there are some.
    pub difference: Option<f64>,
    /// Requests that the two values are of, where they are known.
    pub n: (Option<usize>, Option<usize>),
    /// How far runs of the same server may be apart, in percent, where a side has one run and
    /// nothing says it: of times and throughput. Rates have none: what is right is counted, not
    /// timed.
    pub floor: Option<f64>,
    pub spread: Spread,
}

/// What there is to tell the difference from chance.
#[derive(Clone, Debug, PartialEq)]
pub enum Spread {
    /// Resamples.
    Drawn { drawn: Replicates, paired: bool },
    /// Throughput, drawn again in blocks of time.
    Blocks(Replicates),
    /// Two rates; `drawn` is there where there are several runs.
    Rates {
        pairs: Option<Pairs>,
        a: Share,
        b: Share,
        drawn: Option<Replicates>,
    },
    /// Two means with standard errors.
    Normal {
        a: f64,
        b: f64,
        error_a: f64,
        error_b: f64,
    },
    /// Nothing.
    None(Why),
}

/// Why there is nothing to tell the difference from chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A side has no value.
    NoValue,
    /// A side has fewer values than that takes.
    TooFew { n: usize, needs: usize },
    /// A file without requests: saved without `--save-detailed`.
    NoRequests,
    /// A baseline keeps of gaps only their number and sum.
    NoGaps,
    /// A file that does not tell when answers ended.
    NoTimes,
    /// The run is over before its answers are.
    TooShort,
    /// The wait before sending is in it: requests of a run wait for each other.
    Queued,
    /// Requests keep no values of it.
    NotKept,
    /// A figure that a run has only once.
    Once,
    /// [`MAX_STEPS`].
    TooLarge,
}

impl Why {
    /// In words; `None` where nothing could ever be said.
    pub fn words(self) -> Option<String> {
        Some(match self {
            Self::NoValue => "a side has no value".to_owned(),
            Self::TooFew { n, needs } => format!("{n} < {needs}"),
            Self::NoRequests => "a file has no requests (--save-detailed)".to_owned(),
            Self::NoGaps => "a baseline keeps no single gaps".to_owned(),
            Self::NoTimes => "a file has no instants".to_owned(),
            Self::TooShort => "the run is too short for its answers".to_owned(),
            Self::Queued => "requests wait for each other".to_owned(),
            Self::NotKept => "single values are not kept".to_owned(),
            Self::TooLarge => "too many values; give fewer --resamples".to_owned(),
            Self::Once => return None,
        })
    }
}

/// How resampling is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resampling {
    pub resamples: usize,
    pub seed: u64,
    /// In percent; see [`Measured::floor`].
    pub run_spread: f64,
}

/// Measures `metrics` on two sides, in their order.
pub fn measure(
    a: &Side,
    b: &Side,
    pairing: &Pairing,
    metrics: &[Figure],
    resampling: Resampling,
) -> Vec<Measured> {
    let mut measured: Vec<Measured> = metrics.iter().map(|metric| saved(a, b, *metric)).collect();
    if a.runs.len() < 2 || b.runs.len() < 2 {
        let timed = measured.iter_mut().filter(|it| {
            it.metric.metric.is_distribution() || amount_of(it.metric.metric).is_some()
        });
        timed.for_each(|it| it.floor = Some(resampling.run_spread));
    }
    if a.requests().is_none() || b.requests().is_none() {
        return measured;
    }
    latencies(a, b, pairing, &mut measured, resampling);
    for it in &mut measured {
        let flow = it.metric.metric;
        if amount_of(flow).is_some() {
            (it.a, it.b) = (
                throughput::value(a, flow).or(it.a),
                throughput::value(b, flow).or(it.b),
            );
            let drawn = throughput::bootstrap(a, b, flow, resampling.resamples, resampling.seed);
            it.spread = drawn.map_or_else(Spread::None, Spread::Blocks);
        }
    }
    for it in &mut measured {
        if it.a.is_none() || it.b.is_none() {
            it.spread = Spread::None(Why::NoValue);
        }
        let of_pairs = match &it.spread {
            Spread::Rates {
                pairs: Some(pairs), ..
            } => pairs.difference().map(|share| 100.0 * share),
            _ => None,
        };
        it.difference = of_pairs.or_else(|| Some(it.b? - it.a?));
    }
    measured
}

impl Spread {
    /// The interval of the difference, in the figure's unit (rates: percentage points).
    pub fn interval(&self, level: f64) -> Option<(f64, f64)> {
        match self {
            Self::Drawn { drawn, .. } | Self::Blocks(drawn) => drawn.interval(level),
            Self::Rates { pairs, a, b, drawn } => {
                let counted = match pairs {
                    Some(pairs) => pairs.interval(level),
                    None => independent(*a, *b, level),
                }?;
                // Several runs: no narrower than what their spread says, and no narrower than what
                // the counts do.
                let (low, high) = drawn
                    .as_ref()
                    .map_or(Some(counted), |drawn| drawn.interval(level))?;
                Some((100.0 * counted.0.min(low), 100.0 * counted.1.max(high)))
            }
            Self::Normal {
                a,
                b,
                error_a,
                error_b,
            } => {
                let half = z_of(level) * error_a.hypot(*error_b);
                Some((b - a - half, b - a + half))
            }
            Self::None(_) => None,
        }
    }

    /// The interval of the difference as a share of the first value, in percent. Rates have none:
    /// their difference is in points.
    pub fn relative(&self, level: f64) -> Option<(f64, f64)> {
        let (low, high) = match self {
            Self::Drawn { drawn, .. } | Self::Blocks(drawn) => drawn.relative(level)?,
            Self::Normal {
                a,
                b,
                error_a,
                error_b,
            } if *a > 0.0 && *b > 0.0 => {
                // Of the logarithm of the ratio, whose error is that of both relative ones.
                let half = z_of(level) * (error_a / a).hypot(error_b / b);
                ((b / a) * (-half).exp() - 1.0, (b / a) * half.exp() - 1.0)
            }
            Self::Rates { .. } | Self::Normal { .. } | Self::None(_) => return None,
        };
        Some((100.0 * low, 100.0 * high))
    }

    /// On which side of nothing the difference is: `None` where it may be nothing. Of pairs,
    /// McNemar's test has to agree.
    ///
    /// `floor` is how far, in percent, runs of the same thing may be apart where that is not known:
    /// the whole interval has to be past it.
    pub fn sign(&self, level: f64, floor: Option<f64>) -> Option<Ordering> {
        if self.p_value().is_some_and(|p| p > 1.0 - level) {
            return None;
        }
        let ((low, high), floor) = match floor.zip(self.relative(level)) {
            Some((floor, relative)) => (relative, floor),
            None => (self.interval(level)?, 0.0),
        };
        if low > floor {
            return Some(Ordering::Greater);
        }
        (high < -floor).then_some(Ordering::Less)
    }

    /// McNemar's, of one run a side.
    pub fn p_value(&self) -> Option<f64> {
        match self {
            Self::Rates {
                pairs: Some(pairs),
                drawn: None,
                ..
            } => Some(pairs.mcnemar()),
            _ => None,
        }
    }

    /// Where the interval is from.
    pub fn method(&self) -> Option<Method> {
        Some(match self {
            Self::Drawn { paired: true, .. } => Method::PairedBootstrap,
            Self::Drawn { paired: false, .. } => Method::Bootstrap,
            Self::Blocks(_) => Method::BlockBootstrap,
            Self::Rates {
                pairs: Some(_),
                drawn: None,
                ..
            } => Method::McnemarAndNewcombePaired,
            Self::Rates {
                pairs: None,
                drawn: None,
                ..
            } => Method::Newcombe,
            Self::Rates { drawn: Some(_), .. } => Method::NewcombeAndRuns,
            Self::Normal { .. } => Method::Welch,
            Self::None(_) => return None,
        })
    }
}

/// What can be said without requests: the files' own figures, counts and standard errors.
fn saved(a: &Side, b: &Side, figure: Figure) -> Measured {
    let (value_a, value_b) = (saved_value(a, figure), saved_value(b, figure));
    let (mut n, mut spread) = ((None, None), Spread::None(Why::NoRequests));
    let metric = figure.metric;
    match figure.stat {
        None if metric.is_rate() => {
            if let (Some(a), Some(b)) = (share(a, metric), share(b, metric)) {
                n = (Some(a.of), Some(b.of));
                // Several runs without their requests do not tell their spread apart from the
                // cases'.
                spread = Spread::Rates {
                    pairs: None,
                    a,
                    b,
                    drawn: None,
                };
            }
        }
        Some(Stat::Mean) => {
            if let (Some(first), Some(second), Some(of_a), Some(of_b)) =
                (mean(a, metric), mean(b, metric), value_a, value_b)
            {
                n = (Some(first.n), Some(second.n));
                if let (Some(error_a), Some(error_b)) =
                    (first.standard_error, second.standard_error)
                {
                    spread = Spread::Normal {
                        a: of_a,
                        b: of_b,
                        error_a,
                        error_b,
                    };
                }
            }
        }
        Some(Stat::Std) => spread = Spread::None(Why::Once),
        None if amount_of(metric).is_none() => spread = Spread::None(Why::Once),
        Some(Stat::Median | Stat::Percentile(_)) | None => {}
    }
    if let Some(n) = n.0.min(n.1).filter(|n| *n < LEAST_JUDGED) {
        spread = Spread::None(Why::TooFew {
            n,
            needs: LEAST_JUDGED,
        });
    }
    if matches!(metric.kind, Kind::Distribution { queued: true, .. }) {
        spread = Spread::None(Why::Queued);
    }
    if value_a.is_none() || value_b.is_none() {
        spread = Spread::None(Why::NoValue);
    }
    Measured {
        metric: figure,
        a: value_a,
        b: value_b,
        difference: value_a.zip(value_b).map(|(a, b)| b - a),
        n,
        floor: None,
        spread,
    }
}

/// A figure of one side by itself: of its requests where they are known, else as its files have it.
pub fn figure(side: &Side, figure: Figure) -> Option<f64> {
    let of_requests = match figure.stat {
        Some(_) => {
            Pool::of(side, &Pairing::None, Which::A, &[figure]).and_then(|pool| pool.value(figure))
        }
        None if figure.is_rate() => count(side, figure.metric).and_then(Share::percent),
        None => throughput::value(side, figure.metric),
    };
    of_requests.or_else(|| saved_value(side, figure))
}

/// The same, where the sample carries it.
///
/// # Errors
/// Why there is none, or why it says too little.
pub fn carried(side: &Side, asked: Figure) -> Result<f64, Why> {
    let value = figure(side, asked).ok_or(Why::NoValue)?;
    if let Figure {
        metric,
        stat: Some(stat),
    } = asked
    {
        let of_requests =
            Pool::of(side, &Pairing::None, Which::A, &[asked]).map(|pool| pool.size(metric).0);
        let n = match of_requests {
            Some(n) if n > 0 => Some(n),
            _ => side
                .runs
                .iter()
                .map(|run| run.means.get(metric).map(|mean| mean.n))
                .sum(),
        };
        let needs = values_needed(stat);
        if let Some((n, needs)) = n.zip(needs).filter(|(n, needs)| n < needs) {
            return Err(Why::TooFew { n, needs });
        }
    }
    Ok(value)
}

/// The mean of the runs' figures; of rates, the share of all their counts.
fn saved_value(side: &Side, figure: Figure) -> Option<f64> {
    if let Some(share) = share(side, figure.metric) {
        return share.percent();
    }
    let name = figure.to_string();
    let values = side
        .runs
        .iter()
        .map(|run| run.figures.get(&name).copied())
        .collect::<Option<Vec<f64>>>()?;
    sobench_statistics::mean(&values)
}

fn share(side: &Side, rate: &Metric) -> Option<Share> {
    side.runs
        .iter()
        .map(|run| run.counts.get(rate))
        .try_fold(Share::default(), |sum, share| {
            let share = share?;
            Some(Share {
                hits: sum.hits + share.hits,
                of: sum.of + share.of,
            })
        })
}

fn mean(side: &Side, series: &Metric) -> Option<SavedMean> {
    match side.runs.as_slice() {
        [run] => run.means.get(series).copied(),
        _ => None,
    }
}

/// Latencies and rates over requests, by one bootstrap for all of them.
fn latencies(
    a: &Side,
    b: &Side,
    pairing: &Pairing,
    measured: &mut [Measured],
    resampling: Resampling,
) {
    let several = a.runs.len() > 1 || b.runs.len() > 1;
    let is_of_requests = |figure: &Figure| figure.is_rate() || figure.metric.is_distribution();
    let asked: Vec<Figure> = measured
        .iter()
        .map(|it| it.metric)
        .filter(is_of_requests)
        .collect();
    let pools = (
        Pool::of(a, pairing, Which::A, &asked),
        Pool::of(b, pairing, Which::B, &asked),
    );
    let (Some(pool_a), Some(pool_b)) = pools else {
        return;
    };
    let mut drawable = Vec::new();
    for (place, it) in measured.iter_mut().enumerate() {
        let figure = it.metric;
        match figure.stat {
            Some(stat) => {
                let (n, m) = (pool_a.size(figure.metric).0, pool_b.size(figure.metric).0);
                let kept = (mean(a, figure.metric), mean(b, figure.metric));
                // Requests keep no values of it, and the files have its figures.
                if (n == 0 && kept.0.is_some_and(|mean| mean.n > 0))
                    || (m == 0 && kept.1.is_some_and(|mean| mean.n > 0))
                {
                    it.spread = Spread::None(Why::NotKept);
                    continue;
                }
                (it.a, it.b) = (pool_a.value(figure).or(it.a), pool_b.value(figure).or(it.b));
                it.n = (Some(n), Some(m));
                let why = why_not(&pool_a, figure.metric, stat)
                    .or_else(|| why_not(&pool_b, figure.metric, stat));
                match why {
                    Some(why) => it.spread = Spread::None(why),
                    None => drawable.push((place, figure)),
                }
            }
            None if figure.is_rate() => {
                let is_some = |share: Option<Share>| share.is_some_and(|share| share.of > 0);
                if [a, b].into_iter().any(|side| {
                    is_some(share(side, figure.metric)) && !is_some(count(side, figure.metric))
                }) {
                    continue;
                }
                it.spread = rates(a, b, pairing, figure.metric);
                (it.a, it.b, it.n) = (None, None, (None, None));
                if let Spread::Rates { a, b, .. } = it.spread {
                    (it.a, it.b) = (a.percent(), b.percent());
                    it.n = (Some(a.of), Some(b.of));
                    let n = a.of.min(b.of);
                    if n < LEAST_JUDGED {
                        it.spread = Spread::None(Why::TooFew {
                            n,
                            needs: LEAST_JUDGED,
                        });
                    } else if several {
                        drawable.push((place, figure));
                    }
                }
            }
            None => {}
        }
    }
    let steps = (pool_a.steps() + pool_b.steps()).saturating_mul(resampling.resamples);
    let asked: Vec<Figure> = drawable.iter().map(|(_, asked)| *asked).collect();
    if steps > MAX_STEPS {
        drawable
            .iter()
            .for_each(|(place, _)| measured[*place].spread = Spread::None(Why::TooLarge));
    } else if !asked.is_empty() {
        let drawn = bootstrap(
            &pool_a,
            &pool_b,
            pairing.cases(),
            &asked,
            resampling.resamples,
            resampling.seed,
        );
        for ((place, _), of_runs) in drawable.into_iter().zip(drawn) {
            match &mut measured[place].spread {
                Spread::Rates { drawn, .. } => *drawn = Some(of_runs),
                other => {
                    *other = Spread::Drawn {
                        drawn: of_runs,
                        paired: *pairing != Pairing::None,
                    }
                }
            }
        }
    }
}

/// Why a series of one side cannot be resampled for a figure.
fn why_not(pool: &Pool, series: &Metric, stat: Stat) -> Option<Why> {
    let ((values, whole), requests) = (pool.size(series), pool.requests_with(series));
    if values == 0 {
        return Some(Why::NoValue);
    }
    let needs = match stat {
        Stat::Std => return Some(Why::Once),
        _ if matches!(series.kind, Kind::Distribution { queued: true, .. }) => {
            return Some(Why::Queued);
        }
        Stat::Mean => LEAST_REQUESTS,
        Stat::Median | Stat::Percentile(_) if !whole => return Some(Why::NoGaps),
        Stat::Median | Stat::Percentile(_) => values_needed(stat)
            .unwrap_or(usize::MAX)
            .max(LEAST_REQUESTS),
    };
    // Gaps come with their request, so that they count as so many values, but their requests have
    // to be enough as well.
    if values < needs {
        return Some(Why::TooFew { n: values, needs });
    }
    (requests < LEAST_REQUESTS).then_some(Why::TooFew {
        n: requests,
        needs: LEAST_REQUESTS,
    })
}

/// Values that a percentile takes.
fn values_needed(stat: Stat) -> Option<usize> {
    usize::try_from(samples_needed(stat.percent()?)?).ok()
}

fn rates(a: &Side, b: &Side, pairing: &Pairing, rate: &Metric) -> Spread {
    let (of_a, of_b) = (
        count(a, rate).unwrap_or_default(),
        count(b, rate).unwrap_or_default(),
    );
    if of_a.of == 0 || of_b.of == 0 {
        return Spread::None(Why::NoValue);
    }
    let pairs = pairing
        .pairs(a, b, rate)
        .filter(|pairs| pairs.total() >= LEAST_JUDGED);
    Spread::Rates {
        pairs,
        a: of_a,
        b: of_b,
        drawn: None,
    }
}

/// How many requests of a side hit; `None` where a run has no requests.
fn count(side: &Side, rate: &Metric) -> Option<Share> {
    Some(Share::count(
        side.requests()?
            .into_iter()
            .filter_map(|(_, request)| request.in_rate(rate)),
    ))
}
