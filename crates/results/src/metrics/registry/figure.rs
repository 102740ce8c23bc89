//! Figures: single numbers of a run, named as the keys of saved results.

use std::fmt;

use serde::Serialize;

use super::values::{Value, Values};
use super::{Better, Metric, Shown, Unit, latencies, rates};
use sobench_core::case::Arm;
use sobench_core::error::{Error, Result};

/// A figure of a run: a metric, and for a distribution one of its statistics. Its name is the key
/// in saved results; `correct_rate(%)` may be written without the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, schemars::JsonSchema)]
#[schemars(with = "String")]
pub struct Figure {
    pub metric: &'static Metric,
    /// Set for distributions.
    pub stat: Option<Stat>,
}

/// A statistic of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stat {
    Mean,
    Median,
    /// In thousandths of a percent, between 0 and 100 000.
    Percentile(u32),
    Std,
}

/// Thousandths per percent.
const PER_PERCENT: f64 = 1000.0;

/// Statistics of the main latencies in tables.
const MAIN_STATS: [Stat; 4] = [
    Stat::Mean,
    Stat::Median,
    Stat::Percentile(90_000),
    Stat::Percentile(99_000),
];

/// Statistics of other distributions in tables.
const OTHER_STATS: [Stat; 2] = [Stat::Mean, Stat::Percentile(99_000)];

impl Figure {
    /// The figure of a metric with a single value.
    pub fn new(metric: &'static Metric) -> Self {
        Self { metric, stat: None }
    }

    /// A statistic of a distribution.
    pub fn from_distribution(metric: &'static Metric, stat: Stat) -> Self {
        Self {
            metric,
            stat: Some(stat),
        }
    }

    /// The figures of tables, in order.
    pub fn in_tables() -> Vec<Self> {
        let is_main = |metric: &Metric| {
            [
                &latencies::TTFT,
                &latencies::TPOT,
                &latencies::ITL,
                &latencies::E2EL,
            ]
            .contains(&metric)
        };
        let figures_of = |metric: &'static Metric| -> Vec<Self> {
            let stats: &[Stat] = if is_main(metric) {
                &MAIN_STATS
            } else {
                &OTHER_STATS
            };
            match metric.is_distribution() {
                true => stats
                    .iter()
                    .map(|stat| Self::from_distribution(metric, *stat))
                    .collect(),
                false => vec![Self::new(metric)],
            }
        };
        Metric::in_tables().flat_map(figures_of).collect()
    }

    /// Parses a name.
    ///
    /// # Errors
    /// The name is unknown; the hint lists similar names.
    pub fn parse(name: &str) -> Result<Self> {
        let bare = name.strip_suffix("(%)").unwrap_or(name);
        if let Some(metric) = metric_of_arm(bare) {
            return Ok(Self::new(metric));
        }
        let single = Metric::named(bare)
            .filter(|metric| !metric.is_distribution())
            .map(Self::new);
        let distribution = || {
            let (stat, metric) = bare.split_once('_')?;
            let metric = Metric::named(metric).filter(|metric| metric.is_distribution())?;
            Some(Self::from_distribution(metric, Stat::parse(stat)?))
        };
        single.or_else(distribution).ok_or_else(|| {
            Error::usage(format!("unknown figure: {name}")).hint(format!(
                "check the name; the nearest names are {}",
                nearest(bare).join(", ")
            ))
        })
    }

    /// Every figure with a value, in order; for distributions every statistic.
    pub fn all_known(values: &Values) -> Vec<(Self, f64)> {
        let mut figures = Vec::new();
        let in_tables = |(metric, _): &(&Metric, _)| !matches!(metric.shown, Shown::InFiles);
        for (metric, value) in values.iter().filter(in_tables) {
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

    /// Whether it is a rate of requests.
    pub fn is_rate(self) -> bool {
        self.metric.is_rate()
    }

    /// The direction of an improvement.
    pub fn better(self) -> Better {
        if self.stat == Some(Stat::Std) {
            Better::Neither
        } else {
            self.metric.better
        }
    }

    /// The unit of its values; empty for counts.
    pub fn unit(self) -> &'static str {
        self.metric.unit.name()
    }

    /// The unit of a change; percentage points for rates.
    pub fn unit_of_change(self) -> &'static str {
        if self.is_rate() { "pp" } else { self.unit() }
    }

    /// Whether its values are counts.
    pub fn is_count(self) -> bool {
        self.metric.unit == Unit::Count
    }

    /// A value as text, `n/a` without a value.
    pub fn text(self, value: Option<f64>) -> String {
        match value {
            None => "n/a".to_owned(),
            Some(value)
                if matches!(
                    self.metric.unit,
                    Unit::Count | Unit::ChunksPerSecond | Unit::Bytes
                ) =>
            {
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
    /// A percentile between 0 and 100, in steps of a thousandth.
    pub fn from_percent(percent: f64) -> Option<Self> {
        let thousandths = percent * PER_PERCENT;
        let within = thousandths > 0.0
            && thousandths < 100.0 * PER_PERCENT
            && thousandths.fract().abs() < 1e-6;
        within.then(|| Self::Percentile(thousandths.round() as u32))
    }

    /// The percentile, 0 to 100.
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

/// The metric of `accuracy(ARM)` or `unparsed_rate(ARM)`, with an arm of `--arms`.
fn metric_of_arm(name: &str) -> Option<&'static Metric> {
    let (rate, arm) = name.strip_suffix(')')?.split_once('(')?;
    let arm = Arm::ALL.into_iter().find(|own| own.flag() == arm)?;
    let [accuracy, unparsed] = rates::accuracy_of(arm);
    match rate {
        "accuracy" => Some(accuracy),
        "unparsed_rate" => Some(unparsed),
        _ => None,
    }
}

/// The three most similar names.
fn nearest(name: &str) -> Vec<String> {
    let mut names: Vec<String> = Figure::in_tables().iter().map(Figure::to_string).collect();
    names.sort_by(|a, b| strsim::jaro_winkler(b, name).total_cmp(&strsim::jaro_winkler(a, name)));
    names.truncate(3);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for figure in Figure::in_tables() {
            assert_eq!(Figure::parse(&figure.to_string()).unwrap(), figure);
        }
        for (name, expected) in [
            ("correct_rate(%)", Figure::new(&rates::CORRECT_RATE)),
            (
                "accuracy(prompt)",
                Figure::new(rates::accuracy_of(Arm::Control)[0]),
            ),
            ("accuracy(prompt+constraint)", Figure::new(&rates::ACCURACY)),
            (
                "unparsed_rate(think+constraint)",
                Figure::new(rates::accuracy_of(Arm::ThinkConstraint)[1]),
            ),
            (
                "p99.9_ttft_ms",
                Figure::from_distribution(&latencies::TTFT, Stat::Percentile(99_900)),
            ),
            (
                "p50_itl_ms",
                Figure::from_distribution(&latencies::ITL, Stat::Percentile(50_000)),
            ),
            (
                "std_e2el_ms",
                Figure::from_distribution(&latencies::E2EL, Stat::Std),
            ),
            (
                "p90_ttft_from_due_ms",
                Figure::from_distribution(&latencies::TTFT_FROM_DUE, Stat::Percentile(90_000)),
            ),
        ] {
            assert_eq!(Figure::parse(name).unwrap(), expected);
        }
    }

    #[test]
    fn unknown_name_lists_similar_names() {
        for (name, neighbour) in [
            ("corect_rate", "correct_rate"),
            ("p99_ttft", "p99_ttft_ms"),
            ("p101_ttft_ms", "p99_ttft_ms"),
            ("accuracy(all)", "accuracy"),
        ] {
            let error = Figure::parse(name).unwrap_err();
            assert_eq!(
                (error.what, error.kind),
                (
                    format!("unknown figure: {name}"),
                    sobench_core::error::Kind::Usage
                )
            );
            assert!(error.hint.unwrap().contains(neighbour), "{name}");
        }
        assert!(
            Figure::parse("ttft_ms").is_err(),
            "a distribution is not a figure"
        );
    }
}
