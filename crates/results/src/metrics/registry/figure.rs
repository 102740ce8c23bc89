//! One number of a run: a metric, and of a distribution one of its statistics. The names are the
//! keys of saved results.

use std::fmt;

use serde::Serialize;

use super::values::{Value, Values};
use super::{Better, Metric, Unit, latencies};
use sobench_core::error::{Error, Result};

/// A number of a run. Its name is the saved file's key; `correct_rate(%)` may be written without
/// the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Figure {
    pub metric: &'static Metric,
    /// Of distributions.
    pub stat: Option<Stat>,
}

/// What is taken of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stat {
    Mean,
    Median,
    /// In thousandths of a percent, above 0 and below 100 000.
    Percentile(u32),
    Std,
}

/// Thousandths in a percent.
const PER_PERCENT: f64 = 1000.0;

/// What tables show of the latencies that vLLM prints.
const OF_MAIN: [Stat; 4] = [
    Stat::Mean,
    Stat::Median,
    Stat::Percentile(90_000),
    Stat::Percentile(99_000),
];

/// What tables show of other distributions.
const OF_OTHERS: [Stat; 2] = [Stat::Mean, Stat::Percentile(99_000)];

impl Figure {
    /// The number of a metric that has one.
    pub fn new(metric: &'static Metric) -> Self {
        Self { metric, stat: None }
    }

    /// A statistic of a distribution.
    pub fn of_distribution(metric: &'static Metric, stat: Stat) -> Self {
        Self {
            metric,
            stat: Some(stat),
        }
    }

    /// What a table shows of every run, in its order.
    pub fn shown() -> Vec<Self> {
        let is_main = |metric: &Metric| {
            [
                &latencies::TTFT,
                &latencies::TPOT,
                &latencies::ITL,
                &latencies::E2EL,
            ]
            .contains(&metric)
        };
        let of_metric = |metric: &'static Metric| -> Vec<Self> {
            let stats: &[Stat] = if is_main(metric) {
                &OF_MAIN
            } else {
                &OF_OTHERS
            };
            match metric.is_distribution() {
                true => stats
                    .iter()
                    .map(|stat| Self::of_distribution(metric, *stat))
                    .collect(),
                false => vec![Self::new(metric)],
            }
        };
        Metric::ALL
            .iter()
            .flat_map(|metric| of_metric(metric))
            .collect()
    }

    /// Reads a name.
    ///
    /// # Errors
    /// No such name; the hint has those that look most alike.
    pub fn parse(name: &str) -> Result<Self> {
        let bare = name.strip_suffix("(%)").unwrap_or(name);
        let single = Metric::named(bare)
            .filter(|metric| !metric.is_distribution())
            .map(Self::new);
        let of_distribution = || {
            let (stat, metric) = bare.split_once('_')?;
            let metric = Metric::named(metric).filter(|metric| metric.is_distribution())?;
            Some(Self::of_distribution(metric, Stat::parse(stat)?))
        };
        single.or_else(of_distribution).ok_or_else(|| {
            Error::usage(format!("no such figure: {name}")).hint(format!(
                "the nearest names are {}",
                nearest(bare).join(", ")
            ))
        })
    }

    /// Every number that values hold, in order: of distributions every statistic.
    pub fn all_of(values: &Values) -> Vec<(Self, f64)> {
        let mut figures = Vec::new();
        for (metric, value) in values.iter() {
            let mut push = |stat: Option<Stat>, value: Option<f64>| {
                let known = value.filter(|value| value.is_finite());
                figures.extend(known.map(|value| (Self { metric, stat }, value)));
            };
            match value {
                Value::Rate(rate) => push(None, Some(rate.percent)),
                Value::PerSecond(rate) => push(None, Some(rate.per_second)),
                Value::Total(value) => push(None, Some(*value)),
                Value::Distribution(summary) => {
                    push(Some(Stat::Mean), summary.mean);
                    push(Some(Stat::Median), summary.median);
                    push(Some(Stat::Std), summary.std);
                    for percentile in &summary.percentiles {
                        if let Some(stat) = Stat::from_percent(percentile.p) {
                            push(Some(stat), percentile.value);
                        }
                    }
                }
            }
        }
        figures
    }

    /// Whether it is a share of requests.
    pub fn is_rate(self) -> bool {
        self.metric.is_rate()
    }

    /// Which way is better.
    pub fn better(self) -> Better {
        if self.stat == Some(Stat::Std) {
            Better::Neither
        } else {
            self.metric.better
        }
    }

    /// The unit of its values, after a space in tables; empty for counts.
    pub fn unit(self) -> &'static str {
        self.metric.unit.name()
    }

    /// The unit of a difference of two of its values: of rates, percentage points.
    pub fn unit_of_change(self) -> &'static str {
        if self.is_rate() { "pp" } else { self.unit() }
    }

    /// Whether its values are whole numbers that nothing is divided by.
    pub fn is_count(self) -> bool {
        self.metric.unit == Unit::Count
    }

    /// A value of it as a text, `n/a` where there is none.
    pub fn text(self, value: Option<f64>) -> String {
        match value {
            None => "n/a".to_owned(),
            Some(value) if matches!(self.metric.unit, Unit::Count | Unit::ChunksPerSecond) => {
                format!("{value:.0}")
            }
            Some(value) => format!("{value:.2}"),
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.stat {
            Some(stat) => write!(f, "{stat}_{}", self.metric.name),
            None => f.write_str(self.metric.name),
        }
    }
}

impl Serialize for Figure {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Stat {
    /// A percentile above 0 and below 100, in steps of a thousandth.
    pub fn from_percent(percent: f64) -> Option<Self> {
        let thousandths = percent * PER_PERCENT;
        let within = thousandths > 0.0
            && thousandths < 100.0 * PER_PERCENT
            && thousandths.fract().abs() < 1e-6;
        within.then(|| Self::Percentile(thousandths.round() as u32))
    }

    /// The percentile that it is, 0 to 100.
    pub fn percent(self) -> Option<f64> {
        match self {
            Self::Mean | Self::Std => None,
            Self::Median => Some(50.0),
            Self::Percentile(thousandths) => Some(f64::from(thousandths) / PER_PERCENT),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "mean" => Some(Self::Mean),
            "median" => Some(Self::Median),
            "std" => Some(Self::Std),
            _ => Self::from_percent(text.strip_prefix('p')?.parse().ok()?),
        }
    }
}

impl fmt::Display for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mean => f.write_str("mean"),
            Self::Median => f.write_str("median"),
            Self::Std => f.write_str("std"),
            Self::Percentile(_) => write!(f, "p{}", self.percent().unwrap_or_default()),
        }
    }
}

/// The three names that look most like one.
fn nearest(name: &str) -> Vec<String> {
    let mut names: Vec<String> = Figure::shown().iter().map(Figure::to_string).collect();
    names.sort_by(|a, b| strsim::jaro_winkler(b, name).total_cmp(&strsim::jaro_winkler(a, name)));
    names.truncate(3);
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::registry::rates;

    #[test]
    fn every_name_reads_back() {
        for figure in Figure::shown() {
            assert_eq!(Figure::parse(&figure.to_string()).unwrap(), figure);
        }
        for (name, expected) in [
            ("correct_rate(%)", Figure::new(&rates::CORRECT_RATE)),
            (
                "p99.9_ttft_ms",
                Figure::of_distribution(&latencies::TTFT, Stat::Percentile(99_900)),
            ),
            (
                "p50_itl_ms",
                Figure::of_distribution(&latencies::ITL, Stat::Percentile(50_000)),
            ),
            (
                "std_e2el_ms",
                Figure::of_distribution(&latencies::E2EL, Stat::Std),
            ),
            (
                "p90_ttft_from_due_ms",
                Figure::of_distribution(&latencies::TTFT_FROM_DUE, Stat::Percentile(90_000)),
            ),
        ] {
            assert_eq!(Figure::parse(name).unwrap(), expected);
        }
    }

    #[test]
    fn an_unknown_name_is_told_its_neighbours() {
        for (name, neighbour) in [
            ("corect_rate", "correct_rate"),
            ("p99_ttft", "p99_ttft_ms"),
            ("p101_ttft_ms", "p99_ttft_ms"),
        ] {
            let error = Figure::parse(name).unwrap_err();
            assert_eq!(
                (error.what, error.kind),
                (
                    format!("no such figure: {name}"),
                    sobench_core::error::Kind::Usage
                )
            );
            assert!(error.hint.unwrap().contains(neighbour), "{name}");
        }
        assert!(
            Figure::parse("ttft_ms").is_err(),
            "a distribution is no number"
        );
    }
}
