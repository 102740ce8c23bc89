//! One figure on two sides: values, difference and statistical uncertainty.

use std::cmp::Ordering;

use super::Method;
use super::bootstrap::{Pool, SideId, bootstrap};
use super::contrast::contrast;
use super::pairing::Pairing;
use super::requests::{GapsKept, MAX_GAPS_KEPT};
use super::run_spread::{RunSpread, RunVariation};
use super::side::{SavedMean, Side};
use super::throughput::{self, amount_per_request};
use crate::metrics::registry::{Figure, Metric, MetricKind, Stat, Unit};
use sobench_statistics::bootstrap::Replicates;
use sobench_statistics::contrast::{MIN_JUDGED, MIN_RUNS, RateContrast, RunRatio, Share};
use sobench_statistics::distributions::z_score;
use sobench_statistics::samples_needed;

/// Minimum number of requests for an interval of a mean or median latency. With fewer, resamples of
/// skewed values vary too little, and intervals are too narrow.
pub const MIN_REQUESTS: usize = 30;

/// Maximum number of steps of one bootstrap, which takes some minutes.
pub const MAX_STEPS: usize = 40_000_000_000;

/// A figure on two sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    pub metric: Figure,
    pub a: Option<f64>,
    pub b: Option<f64>,
    /// Second minus first, in the figure's unit; over pairs if there are any.
    pub difference: Option<f64>,
    /// Number of requests behind each value, if known.
    pub n: (Option<usize>, Option<usize>),
    pub variation: RunVariation,
    pub spread: Uncertainty,
}

/// The statistical uncertainty of a difference.
#[derive(Clone, Debug, PartialEq)]
pub enum Uncertainty {
    /// Bootstrap over requests.
    Drawn { drawn: Replicates, paired: bool },
    /// Two rates.
    Rates(RateContrast),
    /// The figures of several runs a side.
    Runs {
        ratio: RunRatio,
        /// The value of the first side, which scales the ratio.
        base: f64,
        /// If the sides have different cases: a bootstrap of them, because runs do not show how
        /// cases vary.
        drawn: Option<Replicates>,
    },
    /// Two means with standard errors.
    Normal {
        a: f64,
        b: f64,
        error_a: f64,
        error_b: f64,
    },
    /// Another uncertainty, and what the clients may have added to the difference or taken from it.
    Doubted {
        of: Box<Uncertainty>,
        down: f64,
        up: f64,
        /// The value of the first side, which scales them.
        base: f64,
    },
    /// No interval.
    None(NoInterval),
}

/// The reason why a difference has no interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoInterval {
    /// A side has no value.
    NoValue,
    /// A side has fewer values than the statistic needs.
    TooFew { n: usize, needs: usize },
    /// A file has no requests: saved without `--save-detailed`.
    NoRequests,
    /// A baseline keeps only the number and sum of gaps.
    NoGaps,
    /// A run has more gaps than are kept in memory.
    TooManyGaps,
    /// A throughput is one value a run, and a side has too few runs.
    FewRuns,
    /// The figure includes the wait before sending, which is correlated between requests.
    Queued,
    /// Requests do not keep values of the metric.
    NotKept,
    /// A run has only one value of the figure.
    SingleValue,
    /// The bootstrap would exceed [`MAX_STEPS`].
    TooLarge,
    /// One of several runs has no value above 0.
    RunWithoutValue,
    /// The client may have distorted the figure, and it is unknown by how much.
    Distrusted,
    /// The request rate sets the throughput of both sides.
    FollowsRate,
    /// No item has requests in both arms.
    NoItems,
    /// Several runs of a side have the same items.
    SeveralRuns,
    /// The margin is at least the accuracy of the arm that is compared with.
    NothingToLose,
}

impl NoInterval {
    /// A description; `None` for a figure that never has an interval.
    pub fn description(self) -> Option<String> {
        Some(match self {
            Self::NoValue => "a side has no value".to_owned(),
            Self::TooFew { n, needs } => format!("{n} < {needs}"),
            Self::NoRequests => "a file has no requests (--save-detailed)".to_owned(),
            Self::NoGaps => "a baseline has no single gaps".to_owned(),
            Self::TooManyGaps => format!("a run has more than {MAX_GAPS_KEPT} gaps"),
            Self::FewRuns => format!("needs {MIN_RUNS} runs a side"),
            Self::Queued => "requests wait for each other".to_owned(),
            Self::NotKept => "single values are not saved".to_owned(),
            Self::TooLarge => "too many values; use fewer --resamples".to_owned(),
            Self::RunWithoutValue => "a run has no value above 0".to_owned(),
            Self::Distrusted => "the client may have distorted it".to_owned(),
            Self::FollowsRate => "it follows the request rate".to_owned(),
            Self::NoItems => "no item has requests in both arms".to_owned(),
            Self::SeveralRuns => "arms are compared in one run; this side has several".to_owned(),
            Self::NothingToLose => {
                "the accuracy of the other arm is within the margin, so nothing can be lost"
                    .to_owned()
            }
            Self::SingleValue => return None,
        })
    }
}

/// Parameters of the bootstrap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resampling {
    pub resamples: usize,
    pub seed: u64,
}

/// Two sides whose figures are measured.
struct Sides<'s> {
    a: &'s Side,
    b: &'s Side,
    pairing: &'s Pairing,
    /// `None` if a side has no requests.
    pools: Option<(Pool<'s>, Pool<'s>)>,
}

impl Sides<'_> {
    /// Whether the runs of both sides show how much runs vary.
    fn have_runs(&self) -> bool {
        self.a.runs.len() >= MIN_RUNS && self.b.runs.len() >= MIN_RUNS
    }

    /// Whether the figures of runs replace a bootstrap: the runs of both sides have the same cases.
    fn need_no_bootstrap(&self) -> bool {
        self.have_runs() && *self.pairing != Pairing::None
    }

    /// The ratio of a timed figure from its value in each run.
    fn run_ratio(&self, figure: Figure) -> Option<RunRatio> {
        let pools = self.pools.as_ref();
        let a = run_values(self.a, pools.map(|(pool, _)| pool), figure)?;
        let b = run_values(self.b, pools.map(|(_, pool)| pool), figure)?;
        RunRatio::new(&a, &b)
    }
}

/// Measures figures on two sides, in the given order.
pub fn measure(
    a: &Side,
    b: &Side,
    pairing: &Pairing,
    metrics: &[Figure],
    run_spread: &RunSpread,
    resampling: Resampling,
) -> Vec<Measured> {
    let of_requests: Vec<Figure> = metrics
        .iter()
        .copied()
        .filter(|figure| figure.metric.is_distribution())
        .collect();
    let sides = Sides {
        a,
        b,
        pairing,
        pools: Pool::new(a, pairing, SideId::A, &of_requests).zip(Pool::new(
            b,
            pairing,
            SideId::B,
            &of_requests,
        )),
    };
    let mut measured: Vec<Measured> = metrics.iter().map(|metric| saved(a, b, *metric)).collect();
    if let Some(pools) = &sides.pools {
        latencies(&sides, pools, &mut measured, resampling);
        throughputs(&sides, &mut measured);
    }
    for figure in &mut measured {
        figure.complete(&sides, run_spread);
    }
    measured
}

/// Throughput from requests.
fn throughputs(sides: &Sides<'_>, measured: &mut [Measured]) {
    let (a, b) = (sides.a, sides.b);
    for figure in measured {
        let metric = figure.metric.metric;
        if amount_per_request(metric).is_none() {
            continue;
        }
        (figure.a, figure.b) = (
            throughput::value(&a.runs, metric).or(figure.a),
            throughput::value(&b.runs, metric).or(figure.b),
        );
        figure.spread = Uncertainty::None(NoInterval::FewRuns);
    }
}

/// The figure of each run of a side; `None` if one has none.
fn run_values(side: &Side, pool: Option<&Pool<'_>>, figure: Figure) -> Option<Vec<f64>> {
    let of_requests = |index: usize| match figure.stat {
        Some(_) => pool?.value_of_run(figure, index),
        None => throughput::value(&side.runs[index..=index], figure.metric),
    };
    let name = figure.to_string();
    side.runs
        .iter()
        .enumerate()
        .map(|(index, run)| of_requests(index).or_else(|| run.figures.get(&name).copied()))
        .collect()
}

impl Measured {
    /// A time of each run that requests do not have.
    pub fn of_runs(metric: Figure, [a, b]: [&Side; 2], [of_a, of_b]: [&[f64]; 2]) -> Option<Self> {
        let ratio = RunRatio::new(of_a, of_b)?;
        let [value_a, value_b] = [of_a, of_b].map(sobench_statistics::mean);
        let mut measured = Self {
            metric,
            a: value_a,
            b: value_b,
            difference: value_a.zip(value_b).map(|(a, b)| b - a),
            n: (Some(of_a.len()), Some(of_b.len())),
            variation: RunVariation::Measured,
            spread: Uncertainty::Runs {
                ratio,
                base: value_a?,
                drawn: None,
            },
        };
        measured.take_off_doubts(a, b);
        Some(measured)
    }

    /// Whether it is a time or a throughput, which varies between runs of the same server.
    fn is_timed(&self) -> bool {
        match self.metric.stat {
            Some(stat) => stat != Stat::Std,
            None => amount_per_request(self.metric.metric).is_some(),
        }
    }

    /// Whether a rule on it can be broken.
    pub fn can_be_broken(&self) -> bool {
        match &self.spread {
            Uncertainty::None(_) => false,
            Uncertainty::Rates(contrast) => contrast.can_differ(),
            _ => !matches!(self.variation, RunVariation::Assumed(_)),
        }
    }

    /// Sets the difference and what both sides' runs say about its uncertainty.
    fn complete(&mut self, sides: &Sides<'_>, run_spread: &RunSpread) {
        if self.is_timed() {
            if sides.have_runs() {
                self.variation = RunVariation::Measured;
                self.compare_runs(sides);
            } else {
                self.variation = run_spread.variation(self.metric);
            }
        }
        self.take_off_doubts(sides.a, sides.b);
        if self.a.is_none() || self.b.is_none() {
            self.spread = Uncertainty::None(NoInterval::NoValue);
        }
        self.difference = match &self.spread {
            Uncertainty::Rates(contrast) => Some(100.0 * contrast.difference),
            _ => self.a.zip(self.b).map(|(a, b)| b - a),
        };
    }

    /// Widens the interval by what the clients may have added to a time or taken from a throughput.
    fn take_off_doubts(&mut self, a: &Side, b: &Side) {
        let doubts = a.doubt(self.metric).zip(b.doubt(self.metric));
        let spread = std::mem::replace(&mut self.spread, Uncertainty::None(NoInterval::Distrusted));
        self.spread = match (doubts, spread) {
            (_, none @ Uncertainty::None(_)) => none,
            (Some((a, b)), spread) if a.max(b) == 0.0 => spread,
            (Some((a, b)), spread) => {
                let is_time = self.metric.metric.unit == Unit::Milliseconds;
                let (down, up) = if is_time { (b, a) } else { (a, b) };
                Uncertainty::Doubted {
                    of: Box::new(spread),
                    down,
                    up,
                    base: self.a.unwrap_or_default(),
                }
            }
            (None, _) => Uncertainty::None(NoInterval::Distrusted),
        };
    }

    /// Replaces the interval by that of the runs' figures, if there are enough values.
    fn compare_runs(&mut self, sides: &Sides<'_>) {
        let drawn =
            match std::mem::replace(&mut self.spread, Uncertainty::None(NoInterval::NoValue)) {
                few @ Uncertainty::None(NoInterval::TooFew { .. } | NoInterval::NotKept) => {
                    self.spread = few;
                    return;
                }
                Uncertainty::Drawn { drawn, .. } => Some(drawn),
                _ => None,
            };
        self.spread = match (sides.run_ratio(self.metric), self.a) {
            (Some(ratio), Some(base)) => Uncertainty::Runs { ratio, base, drawn },
            _ => Uncertainty::None(NoInterval::RunWithoutValue),
        };
    }
}

impl Uncertainty {
    /// The interval of the difference, in the figure's unit (rates: percentage points).
    pub fn interval(&self, level: f64) -> Option<(f64, f64)> {
        match self {
            Self::Drawn { drawn, .. } => drawn.interval(level),
            Self::Runs { ratio, base, drawn } => {
                let (low, high) = wider(ratio, drawn.as_ref(), level)?;
                Some((base * low, base * high))
            }
            Self::Rates(contrast) => Some(percent(contrast.interval(level))),
            Self::Normal {
                a,
                b,
                error_a,
                error_b,
            } => {
                let half = z_score(level) * error_a.hypot(*error_b);
                Some((b - a - half, b - a + half))
            }
            Self::Doubted { of, down, up, .. } => {
                let (low, high) = of.interval(level)?;
                Some((low - down, high + up))
            }
            Self::None(_) => None,
        }
    }

    /// An interval for one-sided decisions: each end has at most its error probability.
    pub fn bounds(&self, level: f64) -> Option<(f64, f64)> {
        match self {
            Self::Rates(contrast) => Some(percent(contrast.bounds(level))),
            _ => self.interval(level),
        }
    }

    /// The interval of the difference relative to the first value, in percent. Rates have none:
    /// their difference is in percentage points.
    pub fn relative(&self, level: f64) -> Option<(f64, f64)> {
        let (low, high) = match self {
            Self::Drawn { drawn, .. } => drawn.relative(level)?,
            Self::Runs { ratio, drawn, .. } => wider(ratio, drawn.as_ref(), level)?,
            Self::Normal {
                a,
                b,
                error_a,
                error_b,
            } if *a > 0.0 && *b > 0.0 => {
                // From the logarithm of the ratio: the relative errors add in quadrature.
                let half = z_score(level) * (error_a / a).hypot(error_b / b);
                ((b / a) * (-half).exp() - 1.0, (b / a) * half.exp() - 1.0)
            }
            Self::Doubted { of, down, up, base } if *base > 0.0 => {
                let (low, high) = of.relative(level)?;
                return Some((low - 100.0 * down / base, high + 100.0 * up / base));
            }
            Self::Rates(_) | Self::Normal { .. } | Self::Doubted { .. } | Self::None(_) => {
                return None;
            }
        };
        Some(percent((low, high)))
    }

    /// The sign of a significant difference; `None` if the difference may be zero. For pairs,
    /// McNemar's test has to agree.
    ///
    /// `floor` is the assumed variation between runs, in percent: the whole interval has to be
    /// beyond it.
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

    /// The p-value of a rate ([`RateContrast::p_value`]).
    pub fn p_value(&self) -> Option<f64> {
        match self {
            Self::Rates(contrast) => contrast.p_value(),
            _ => None,
        }
    }

    /// The method of the interval.
    pub fn method(&self) -> Option<Method> {
        Some(match self {
            Self::Drawn { paired: true, .. } => Method::PairedBootstrap,
            Self::Drawn { paired: false, .. } => Method::Bootstrap,
            Self::Runs { drawn: None, .. } => Method::StudentOfRuns,
            Self::Runs { drawn: Some(_), .. } => Method::StudentOfRunsAndBootstrap,
            Self::Rates(contrast) if contrast.has_runs() => Method::NewcombeAndRuns,
            Self::Rates(contrast) if contrast.pairs().is_some() => Method::McnemarAndNewcombePaired,
            Self::Rates(_) => Method::Newcombe,
            Self::Normal { .. } => Method::Welch,
            Self::Doubted { of, .. } => return of.method(),
            Self::None(_) => return None,
        })
    }
}

fn percent((low, high): (f64, f64)) -> (f64, f64) {
    (100.0 * low, 100.0 * high)
}

/// The interval of a ratio minus 1 that covers both the runs and the resampled cases.
fn wider(ratio: &RunRatio, drawn: Option<&Replicates>, level: f64) -> Option<(f64, f64)> {
    let (low, high) = ratio.interval(level);
    match drawn {
        None => Some((low, high)),
        Some(drawn) => drawn
            .relative(level)
            .map(|(drawn_low, drawn_high)| (low.min(drawn_low), high.max(drawn_high))),
    }
}

/// Measures a figure without requests, from the figures, counts and standard errors of the files.
fn saved(a: &Side, b: &Side, figure: Figure) -> Measured {
    let (value_a, value_b) = (saved_value(a, figure), saved_value(b, figure));
    let (mut n, mut spread) = ((None, None), Uncertainty::None(NoInterval::NoRequests));
    let metric = figure.metric;
    match figure.stat {
        None if metric.is_rate() => {
            if let (Some(a), Some(b)) = (share(a, figure), share(b, figure)) {
                n = (Some(a.of), Some(b.of));
                // Without requests, the variation between several runs cannot be separated from
                // that between cases.
                spread = RateContrast::of_counts(a, b)
                    .map_or(Uncertainty::None(NoInterval::NoValue), Uncertainty::Rates);
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
                    spread = Uncertainty::Normal {
                        a: of_a,
                        b: of_b,
                        error_a,
                        error_b,
                    };
                }
            }
        }
        Some(Stat::Std) => spread = Uncertainty::None(NoInterval::SingleValue),
        None if amount_per_request(metric).is_none() => {
            spread = Uncertainty::None(NoInterval::SingleValue);
        }
        Some(Stat::Median | Stat::Percentile(_)) | None => {}
    }
    if let Some(n) = n.0.min(n.1).filter(|n| *n < MIN_JUDGED) {
        spread = Uncertainty::None(NoInterval::TooFew {
            n,
            needs: MIN_JUDGED,
        });
    }
    if matches!(metric.kind, MetricKind::Distribution { queued: true, .. }) {
        spread = Uncertainty::None(NoInterval::Queued);
    }
    if value_a.is_none() || value_b.is_none() {
        spread = Uncertainty::None(NoInterval::NoValue);
    }
    Measured {
        metric: figure,
        a: value_a,
        b: value_b,
        difference: value_a.zip(value_b).map(|(a, b)| b - a),
        n,
        variation: RunVariation::NotTimed,
        spread,
    }
}

/// A figure of one side, computed from its requests if known, otherwise from its files.
pub fn figure(side: &Side, figure: Figure) -> Option<f64> {
    let of_requests = match figure.stat {
        Some(_) => Pool::new(side, &Pairing::None, SideId::A, &[figure])
            .and_then(|pool| pool.value(figure)),
        None if figure.is_rate() => count(side, figure).and_then(Share::percent),
        None => throughput::value(&side.runs, figure.metric),
    };
    of_requests.or_else(|| saved_value(side, figure))
}

/// A figure of one side, if it has enough samples.
///
/// # Errors
/// The side has no value, or too few samples.
pub fn reliable_figure(side: &Side, requested: Figure) -> Result<f64, NoInterval> {
    let value = figure(side, requested).ok_or(NoInterval::NoValue)?;
    if let Figure {
        metric,
        stat: Some(stat),
        ..
    } = requested
    {
        let of_requests = Pool::new(side, &Pairing::None, SideId::A, &[requested])
            .map(|pool| pool.size(metric).0);
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
            return Err(NoInterval::TooFew { n, needs });
        }
    }
    Ok(value)
}

/// The mean of the runs' figures; for rates, the share over all runs.
fn saved_value(side: &Side, figure: Figure) -> Option<f64> {
    if let Some(share) = share(side, figure) {
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

/// The share over all runs of a side; `None` if a run lacks it.
pub fn share(side: &Side, rate: Figure) -> Option<Share> {
    let shares = side.runs.iter().map(|run| run.counts.get(&rate).copied());
    shares.sum()
}

fn mean(side: &Side, series: &Metric) -> Option<SavedMean> {
    match side.runs.as_slice() {
        [run] => run.means.get(series).copied(),
        _ => None,
    }
}

/// Latencies and rates from requests, with one bootstrap for all.
fn latencies(
    sides: &Sides<'_>,
    (pool_a, pool_b): &(Pool<'_>, Pool<'_>),
    measured: &mut [Measured],
    resampling: Resampling,
) {
    let (a, b, pairing) = (sides.a, sides.b, sides.pairing);
    let mut drawable = Vec::new();
    for (index, row) in measured.iter_mut().enumerate() {
        let figure = row.metric;
        match figure.stat {
            Some(stat) => {
                let (n, m) = (pool_a.size(figure.metric).0, pool_b.size(figure.metric).0);
                let kept = (mean(a, figure.metric), mean(b, figure.metric));
                // Requests have no values of the metric, but the files have its figures.
                if (n == 0 && kept.0.is_some_and(|mean| mean.n > 0))
                    || (m == 0 && kept.1.is_some_and(|mean| mean.n > 0))
                {
                    row.spread = Uncertainty::None(NoInterval::NotKept);
                    continue;
                }
                // Where a side has no single gaps, the figures of the runs stand for both.
                let has_gaps = [pool_a, pool_b]
                    .iter()
                    .all(|pool| pool.size(figure.metric).1 == GapsKept::All);
                if has_gaps || stat == Stat::Mean {
                    (row.a, row.b) = (
                        pool_a.value(figure).or(row.a),
                        pool_b.value(figure).or(row.b),
                    );
                }
                row.n = (Some(n), Some(m));
                let why = why_not(pool_a, figure.metric, stat)
                    .or_else(|| why_not(pool_b, figure.metric, stat));
                match why {
                    Some(why) => row.spread = Uncertainty::None(why),
                    None if sides.need_no_bootstrap() => {}
                    None => drawable.push((index, figure)),
                }
            }
            None if figure.is_rate() => {
                let is_some = |share: Option<Share>| share.is_some_and(|share| share.of > 0);
                if [a, b]
                    .into_iter()
                    .any(|side| is_some(share(side, figure)) && !is_some(count(side, figure)))
                {
                    continue;
                }
                let counts = [a, b].map(|side| count(side, figure));
                [row.a, row.b] = counts.map(|share| share?.percent());
                let [n, m] = counts.map(|share| Some(share?.of).filter(|of| *of > 0));
                row.n = (n, m);
                row.spread = match (n.min(m), contrast(figure, a, b, pairing)) {
                    (Some(n), Some(_)) if n < MIN_JUDGED => Uncertainty::None(NoInterval::TooFew {
                        n,
                        needs: MIN_JUDGED,
                    }),
                    (_, Some(contrast)) => Uncertainty::Rates(contrast),
                    (_, None) => Uncertainty::None(NoInterval::NoValue),
                };
            }
            None => {}
        }
    }
    let steps = (pool_a.steps() + pool_b.steps()).saturating_mul(resampling.resamples);
    let figures: Vec<Figure> = drawable.iter().map(|(_, figure)| *figure).collect();
    if steps > MAX_STEPS {
        drawable.iter().for_each(|(index, _)| {
            measured[*index].spread = Uncertainty::None(NoInterval::TooLarge);
        });
    } else if !figures.is_empty() {
        let drawn = bootstrap(
            pool_a,
            pool_b,
            pairing.cases(),
            &figures,
            resampling.resamples,
            resampling.seed,
        );
        for ((index, _), of_runs) in drawable.into_iter().zip(drawn) {
            measured[index].spread = Uncertainty::Drawn {
                drawn: of_runs,
                paired: *pairing != Pairing::None,
            };
        }
    }
}

/// The reason why a distribution of one side cannot be resampled for a statistic.
fn why_not(pool: &Pool<'_>, series: &Metric, stat: Stat) -> Option<NoInterval> {
    let ((values, kept), requests) = (pool.size(series), pool.requests_with(series));
    if values == 0 {
        return Some(NoInterval::NoValue);
    }
    let needs = match stat {
        Stat::Std => return Some(NoInterval::SingleValue),
        _ if matches!(series.kind, MetricKind::Distribution { queued: true, .. }) => {
            return Some(NoInterval::Queued);
        }
        Stat::Mean => MIN_REQUESTS,
        Stat::Median | Stat::Percentile(_) if kept != GapsKept::All => {
            return Some(match kept {
                GapsKept::TooMany => NoInterval::TooManyGaps,
                GapsKept::OnlySums | GapsKept::All => NoInterval::NoGaps,
            });
        }
        Stat::Median | Stat::Percentile(_) => {
            values_needed(stat).unwrap_or(usize::MAX).max(MIN_REQUESTS)
        }
    };
    // Gaps are drawn with their request, so both gaps and requests have to be enough.
    if values < needs {
        return Some(NoInterval::TooFew { n: values, needs });
    }
    (requests < MIN_REQUESTS).then_some(NoInterval::TooFew {
        n: requests,
        needs: MIN_REQUESTS,
    })
}

/// Number of values that a percentile needs.
fn values_needed(stat: Stat) -> Option<usize> {
    usize::try_from(samples_needed(stat.percent()?)?).ok()
}

/// Hits among the requests of a side; `None` if a run has no requests.
fn count(side: &Side, rate: Figure) -> Option<Share> {
    let runs = side.run_requests()?.into_iter();
    let hits = runs.flat_map(|requests| requests.in_rate(rate));
    Some(Share::count(hits.flatten()))
}
