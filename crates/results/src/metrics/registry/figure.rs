//! Figures: single numbers of a run, named as the keys of saved results.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

use super::values::Value;
use super::{Better, Metric, Shown, Unit, rates};
use sobench_core::case::Arm;
use sobench_core::error::{Error, Result};
use sobench_facts::Sample;
use sobench_plan::metrics::MetricsSettings;
use sobench_statistics::Rate;

/// A figure of a run: a metric, and for a distribution one of its statistics. Its name is the key
/// in saved results, with another arm than the metric's own in parentheses:
/// `correct_rate(control)`. `correct_rate(%)` may be written without the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, schemars::JsonSchema)]
#[schemars(with = "String")]
pub struct Figure {
    pub metric: &'static Metric,
    /// The arm whose requests it is of, if that is not the metric's own.
    pub arm: Option<Arm>,
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
        Self::of(metric, None)
    }

    /// The figure of a metric with a single value over the requests of an arm; `None` for its own.
    pub fn of(metric: &'static Metric, arm: Option<Arm>) -> Self {
        Self {
            metric,
            arm: arm.filter(|_| metric.arm != arm && metric.arm.is_some()),
            stat: None,
        }
    }

    /// The figure of a metric with a single value, and those of other arms that tables show.
    pub fn all_of(metric: &'static Metric) -> impl Iterator<Item = Self> {
        let others = metric.also_of.iter();
        std::iter::once(Self::new(metric))
            .chain(others.map(move |arm| Self::of(metric, Some(*arm))))
    }

    /// A statistic of a distribution.
    pub fn from_distribution(metric: &'static Metric, stat: Stat) -> Self {
        Self {
            stat: Some(stat),
            ..Self::new(metric)
        }
    }

    /// Each rate of another arm that had a name of its own in older files, with this name.
    pub(super) fn old_names() -> impl Iterator<Item = (Self, String)> {
        let others = Metric::ALL
            .iter()
            .flat_map(|metric| Self::all_of(metric).skip(1));
        others.filter_map(|figure| {
            let arm = figure.arm?.flag().trim_end_matches("+constraint");
            let name = match figure.metric.name {
                "correct_rate" => "control_rate".to_owned(),
                "compliance" => "control_ended_rate".to_owned(),
                name => format!("{name}_{arm}"),
            };
            Some((figure, name))
        })
    }

    fn of_old_name(name: &str) -> Option<Self> {
        let found = Self::old_names().find(|(_, old)| old == name);
        found.map(|(figure, _)| figure)
    }

    /// The figures of tables, in order.
    pub fn in_tables() -> Vec<Self> {
        let figures_of = |metric: &'static Metric| -> Vec<Self> {
            let is_main = metric.vllm.is_some_and(|names| !names.queued);
            let stats: &[Stat] = if is_main { &MAIN_STATS } else { &OTHER_STATS };
            match metric.is_distribution() {
                true => stats
                    .iter()
                    .map(|stat| Self::from_distribution(metric, *stat))
                    .collect(),
                false => Self::all_of(metric).collect(),
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
        if let Some(figure) = of_arm(bare).or_else(|| Self::of_old_name(bare)) {
            return Ok(figure);
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

    /// Every figure with a value, in the order of the values; for distributions every statistic.
    pub fn all_known<'v>(values: impl Iterator<Item = (Self, &'v Value)>) -> Vec<(Self, f64)> {
        let mut figures = Vec::new();
        let in_tables = |(figure, _): &(Self, _)| !matches!(figure.metric.shown, Shown::InFiles);
        for (figure, value) in values.filter(in_tables) {
            let mut push = |stat: Option<Stat>, value: Option<f64>| {
                let known = value.filter(|value| value.is_finite());
                figures.extend(known.map(|value| (Self { stat, ..figure }, value)));
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

    /// Whether the requests of an arm count; those of an unknown one do in metrics of every arm.
    pub fn counts(self, arm: Option<Arm>) -> bool {
        let own = self.arm.or(self.metric.arm);
        own.is_none() || own == arm
    }

    /// Whether a request is a hit of a rate; `None` if it does not count.
    pub fn hit(self, sample: &Sample<'_>) -> Option<bool> {
        let hit = self.metric.hit(sample);
        hit.filter(|_| self.counts(Some(sample.arm())))
    }

    /// Whether a request is a hit, or its value in a distribution, as text; `None` if it does not
    /// count.
    pub fn of_request(self, sample: &Sample<'_>, options: &MetricsSettings) -> Option<String> {
        let value = || self.metric.value(sample, options);
        let hit = self.hit(sample).map(|hit| hit.to_string());
        hit.or_else(|| Some(value()?.to_string()))
    }

    /// The rate over requests, with an interval that counts copies once ([`Sample::copy_hash`]);
    /// `None` if none counts, or the metric is not a rate.
    pub fn rate<'s, 'a: 's>(
        self,
        samples: impl IntoIterator<Item = &'s Sample<'a>>,
    ) -> Option<Rate> {
        let counted = samples.into_iter();
        Rate::of_members(counted.filter_map(|sample| Some((self.hit(sample)?, sample.copy_hash()))))
    }

    /// The label in tables, without the unit.
    pub fn label(self) -> Cow<'static, str> {
        match self.arm {
            Some(arm) => format!("{}, {}", self.metric.label, arm.name()).into(),
            None => self.metric.label.into(),
        }
    }

    /// Its name in a sentence: `median TPOT`, `request throughput`.
    pub fn words(self) -> String {
        let stat = self
            .stat
            .map_or_else(String::new, |stat| format!("{stat} "));
        let label = self.label();
        match label.split_at_checked(1) {
            // An abbreviation stays as it is.
            Some((first, rest)) if rest.starts_with(char::is_lowercase) => {
                stat + &first.to_lowercase() + rest
            }
            _ => stat + &label,
        }
    }

    /// The label with the unit.
    pub fn title(self) -> String {
        match self.metric.unit {
            Unit::Count => self.label().into_owned(),
            unit => format!("{} ({})", self.label(), unit.name()),
        }
    }

    /// What a rate is of, in tables.
    pub fn of_what(self) -> Cow<'static, str> {
        match self.arm {
            Some(arm) => self
                .metric
                .of_what
                .replace("constrained", arm.name())
                .into(),
            None => self.metric.of_what.into(),
        }
    }

    /// Whether it is a rate of requests.
    pub fn is_rate(self) -> bool {
        self.metric.is_rate()
    }

    /// The direction of an improvement. How often answers are valid by a constraint that was not sent
    /// has none.
    pub fn better(self) -> Better {
        let is_of_prompt = self.arm.is_some_and(|arm| !arm.sends_constraint());
        let is_by_constraint = [&rates::CORRECT_RATE, &rates::COMPLIANCE].contains(&self.metric);
        if self.stat == Some(Stat::Std) || (is_of_prompt && is_by_constraint) {
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
        if let Some(stat) = self.stat {
            write!(f, "{stat}_")?;
        }
        f.write_str(self.metric.name)?;
        self.arm.map_or(Ok(()), |arm| write!(f, "({})", arm.name()))
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

/// The rate of `RATE(ARM)`; the arm is named as in files or as in `--arms`.
fn of_arm(name: &str) -> Option<Figure> {
    let (rate, arm) = name.strip_suffix(')')?.split_once('(')?;
    let mut arms = Arm::ALL.into_iter();
    let arm = arms.find(|own| [own.name(), own.flag()].contains(&arm))?;
    let metric = Metric::named(rate).filter(|metric| metric.is_rate())?;
    Some(Figure::of(metric, Some(arm)))
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
    use crate::metrics::registry::latencies;

    #[test]
    fn names_round_trip() {
        for figure in Figure::in_tables() {
            assert_eq!(Figure::parse(&figure.to_string()).unwrap(), figure);
        }
        for (name, expected) in [
            ("correct_rate(%)", Figure::new(&rates::CORRECT_RATE)),
            (
                "accuracy(prompt)",
                Figure::of(&rates::ACCURACY, Some(Arm::Control)),
            ),
            (
                "control_rate",
                Figure::of(&rates::CORRECT_RATE, Some(Arm::Control)),
            ),
            (
                "accuracy_constraint",
                Figure::of(&rates::ACCURACY, Some(Arm::ConstraintOnly)),
            ),
            ("accuracy(prompt+constraint)", Figure::new(&rates::ACCURACY)),
            (
                "truncated_rate(control)",
                Figure::of(&rates::TRUNCATED_RATE, Some(Arm::Control)),
            ),
            (
                "unparsed_rate_think",
                Figure::of(&rates::UNPARSED_RATE, Some(Arm::ThinkConstraint)),
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
                    sobench_core::error::ErrorKind::Usage
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
