//! The names of what can be compared: those of the saved file. Knows what is better, and no statistics.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::metrics::LatencyMetric;

/// A figure of a run. Its name is the saved file's key; `correct_rate(%)` may be written without the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    Rate(RateName),
    Latency(LatencyMetric, Stat),
    Flow(Flow),
    Plain(Plain),
}

/// A share of requests, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateName {
    Correct,
    Compliance,
    Coverage,
    Control,
    Vllm,
}

/// What is taken of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stat {
    Mean,
    Median,
    /// In thousandths of a percent, above 0 and below 100 000.
    Percentile(u32),
    Std,
}

/// What came per second of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flow {
    Requests,
    Output,
    Total,
    Valid,
}

/// A figure that one run has once: it has a value, and nothing to tell its noise from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plain {
    Duration,
    Completed,
    Failed,
    InputTokens,
    OutputTokens,
    Goodput,
    ValidGoodput,
    MaxTokens,
    MaxChunks,
    MaxConcurrent,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    Up,
    Down,
    Neither,
}

/// Thousandths in a percent.
const PER_PERCENT: f64 = 1000.0;

impl Metric {
    /// What a table shows of every run, in its order.
    pub fn shown() -> Vec<Self> {
        let rates = RateName::ALL.map(Self::Rate).into_iter();
        let latencies = LatencyMetric::ALL.into_iter().flat_map(|series| Stat::SHOWN.map(|stat| Self::Latency(series, stat)));
        rates.chain(latencies).chain(Flow::ALL.map(Self::Flow)).chain(Plain::ALL.map(Self::Plain)).collect()
    }

    /// Reads a name.
    ///
    /// # Errors
    /// No such name; the hint has those that look most alike.
    pub fn parse(name: &str) -> Result<Self> {
        let bare = name.strip_suffix("(%)").unwrap_or(name);
        let known = |it: &Self| it.to_string() == bare;
        Self::shown()
            .into_iter()
            .chain(LatencyMetric::ALL.map(|series| Self::Latency(series, Stat::Std)))
            .find(known)
            .or_else(|| percentile(bare))
            .ok_or_else(|| {
                Error::usage(format!("no such figure: {name}"))
                    .hint(format!("the nearest names are {}", nearest(bare).join(", ")))
            })
    }

    /// Which way is better.
    pub fn better(self) -> Better {
        match self {
            Self::Rate(RateName::Control) | Self::Latency(_, Stat::Std) => Better::Neither,
            Self::Rate(_) | Self::Flow(_) | Self::Plain(Plain::Goodput | Plain::ValidGoodput | Plain::Completed) => Better::Up,
            Self::Latency(..) | Self::Plain(Plain::Failed) => Better::Down,
            Self::Plain(_) => Better::Neither,
        }
    }

    /// The unit of its values, after a space in tables; empty for counts.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Rate(_) => "%",
            Self::Latency(..) => "ms",
            Self::Flow(Flow::Requests | Flow::Valid) | Self::Plain(Plain::Goodput | Plain::ValidGoodput) => "req/s",
            Self::Flow(Flow::Output | Flow::Total) | Self::Plain(Plain::MaxTokens) => "tok/s",
            Self::Plain(Plain::MaxChunks) => "chunks/s",
            Self::Plain(Plain::Duration) => "s",
            Self::Plain(_) => "",
        }
    }

    /// A value of it as a text, `n/a` where there is none.
    pub fn text(self, value: Option<f64>) -> String {
        let whole = matches!(
            self,
            Self::Plain(
                Plain::Completed
                    | Plain::Failed
                    | Plain::InputTokens
                    | Plain::OutputTokens
                    | Plain::MaxConcurrent
                    | Plain::MaxChunks
            )
        );
        match value {
            None => "n/a".to_owned(),
            Some(value) if whole => format!("{value:.0}"),
            Some(value) => format!("{value:.2}"),
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(rate) => f.write_str(rate.name()),
            Self::Latency(series, stat) => {
                match stat {
                    Stat::Mean => f.write_str("mean")?,
                    Stat::Median => f.write_str("median")?,
                    Stat::Std => f.write_str("std")?,
                    Stat::Percentile(_) => write!(f, "p{}", stat.percent().unwrap_or_default())?,
                }
                write!(f, "_{}_ms", series.key())
            }
            Self::Flow(flow) => f.write_str(flow.name()),
            Self::Plain(plain) => f.write_str(plain.name()),
        }
    }
}

impl Serialize for Metric {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl RateName {
    pub const ALL: [Self; 5] = [Self::Correct, Self::Compliance, Self::Coverage, Self::Control, Self::Vllm];

    /// The name in rules and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Correct => "correct_rate",
            Self::Compliance => "compliance",
            Self::Coverage => "coverage",
            Self::Control => "control_rate",
            Self::Vllm => "vllm_correct_rate",
        }
    }
}

impl Stat {
    /// What tables show of a latency.
    pub const SHOWN: [Self; 4] = [Self::Mean, Self::Median, Self::Percentile(90_000), Self::Percentile(99_000)];

    /// The percentile that it is, 0 to 100.
    pub fn percent(self) -> Option<f64> {
        match self {
            Self::Mean | Self::Std => None,
            Self::Median => Some(50.0),
            Self::Percentile(thousandths) => Some(f64::from(thousandths) / PER_PERCENT),
        }
    }
}

impl Flow {
    pub const ALL: [Self; 4] = [Self::Requests, Self::Output, Self::Total, Self::Valid];

    /// The file's key.
    pub fn name(self) -> &'static str {
        match self {
            Self::Requests => "request_throughput",
            Self::Output => "output_throughput",
            Self::Total => "total_token_throughput",
            Self::Valid => "valid_throughput",
        }
    }
}

impl Plain {
    pub const ALL: [Self; 10] = [
        Self::Goodput,
        Self::ValidGoodput,
        Self::MaxTokens,
        Self::MaxChunks,
        Self::MaxConcurrent,
        Self::Completed,
        Self::Failed,
        Self::InputTokens,
        Self::OutputTokens,
        Self::Duration,
    ];

    /// The file's key.
    pub fn name(self) -> &'static str {
        match self {
            Self::Duration => "duration",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::InputTokens => "total_input_tokens",
            Self::OutputTokens => "total_output_tokens",
            Self::Goodput => "request_goodput",
            Self::ValidGoodput => "valid_goodput",
            Self::MaxTokens => "max_output_tokens_per_s",
            Self::MaxChunks => "max_output_chunks_per_s",
            Self::MaxConcurrent => "max_concurrent_requests",
        }
    }
}

/// `p99.9_ttft_ms`.
fn percentile(name: &str) -> Option<Metric> {
    let (percent, rest) = name.strip_prefix('p')?.split_once('_')?;
    let series = LatencyMetric::ALL.into_iter().find(|series| rest == format!("{}_ms", series.key()))?;
    let thousandths = percent.parse::<f64>().ok()? * PER_PERCENT;
    let within = thousandths > 0.0 && thousandths < 100.0 * PER_PERCENT && thousandths.fract().abs() < 1e-6;
    within.then(|| Metric::Latency(series, Stat::Percentile(thousandths.round() as u32)))
}

/// The three names that look most like one.
fn nearest(name: &str) -> Vec<String> {
    let mut names: Vec<String> = Metric::shown().iter().map(Metric::to_string).collect();
    names.sort_by(|a, b| strsim::jaro_winkler(b, name).total_cmp(&strsim::jaro_winkler(a, name)));
    names.truncate(3);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for metric in Metric::shown() {
            assert_eq!(Metric::parse(&metric.to_string()).unwrap(), metric);
        }
        for (name, expected) in [
            ("correct_rate(%)", Metric::Rate(RateName::Correct)),
            ("p99.9_ttft_ms", Metric::Latency(LatencyMetric::Ttft, Stat::Percentile(99_900))),
            ("p50_itl_ms", Metric::Latency(LatencyMetric::Itl, Stat::Percentile(50_000))),
            ("std_e2el_ms", Metric::Latency(LatencyMetric::E2el, Stat::Std)),
        ] {
            assert_eq!(Metric::parse(name).unwrap(), expected);
        }
    }

    #[test]
    fn an_unknown_name_is_told_its_neighbours() {
        for (name, neighbour) in [("corect_rate", "correct_rate"), ("p99_ttft", "p99_ttft_ms"), ("p101_ttft_ms", "p99_ttft_ms")] {
            let error = Metric::parse(name).unwrap_err();
            assert_eq!((error.what, error.kind), (format!("no such figure: {name}"), crate::error::Kind::Usage));
            assert!(error.hint.unwrap().contains(neighbour), "{name}");
        }
    }
}
