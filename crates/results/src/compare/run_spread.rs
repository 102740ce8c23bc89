//! The variation between runs of the same server, for sides with too few runs to measure it.

use crate::metrics::registry::{Figure, Metric};
use sobench_core::error::{Error, Result};

/// Assumed variation of times and throughput between runs of the same server, in percent. Quiet
/// machines vary less, shared ones more.
pub const DEFAULT_RUN_SPREAD: f64 = 5.0;

/// The largest differences between two runs of the same server, in percent, as the user gives them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunSpread {
    all: Option<f64>,
    named: Vec<(Scope, f64)>,
}

/// What a spread of the user applies to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scope {
    Metric(&'static Metric),
    Figure(Figure),
}

/// How the variation between runs enters the comparison of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RunVariation {
    /// It does not apply: correctness and counts are not timed.
    NotTimed,
    /// The interval includes it, because each side has enough runs.
    Measured,
    /// The user gave it, in percent.
    Given(f64),
    /// It is unknown. The value in percent is assumed, which is not enough for a rule.
    Assumed(f64),
}

impl RunVariation {
    /// The variation in percent that a difference has to exceed.
    pub fn floor(self) -> Option<f64> {
        match self {
            Self::Given(percent) | Self::Assumed(percent) => Some(percent),
            Self::NotTimed | Self::Measured => None,
        }
    }
}

impl RunSpread {
    /// Parses the values of `--run-spread`: `5`, `5%`, `ttft=8%`, `p99_ttft_ms=20`. A figure comes
    /// before its metric, and a metric before the value for all.
    ///
    /// # Errors
    /// Usage errors that name the value.
    pub fn parse(values: &[String]) -> Result<Self> {
        let mut spread = Self::default();
        for value in values {
            match value.rsplit_once('=') {
                None => spread.all = Some(percent(value, value)?),
                Some((name, number)) => {
                    let percent = percent(number, value)?;
                    spread.named.push((Scope::parse(name.trim())?, percent));
                }
            }
        }
        Ok(spread)
    }

    /// The value for figures that are not named.
    pub fn all(&self) -> Option<f64> {
        self.all
    }

    /// The values for metrics and figures, by name.
    pub fn by_name(&self) -> impl Iterator<Item = (String, f64)> + '_ {
        self.named.iter().map(|(scope, percent)| match scope {
            Scope::Metric(metric) => (metric.name.to_owned(), *percent),
            Scope::Figure(figure) => (figure.to_string(), *percent),
        })
    }

    /// The variation of a timed figure.
    pub fn variation(&self, figure: Figure) -> RunVariation {
        let find = |wanted: Scope| {
            let mut named = self.named.iter().rev();
            named
                .find(|(scope, _)| *scope == wanted)
                .map(|(_, percent)| *percent)
        };
        find(Scope::Figure(figure))
            .or_else(|| find(Scope::Metric(figure.metric)))
            .or(self.all)
            .map_or(
                RunVariation::Assumed(DEFAULT_RUN_SPREAD),
                RunVariation::Given,
            )
    }
}

impl Scope {
    fn parse(name: &str) -> Result<Self> {
        Metric::named(name)
            .or_else(|| Metric::named(&format!("{name}_ms")))
            .map_or_else(
                || Figure::parse(name).map(Self::Figure),
                |metric| Ok(Self::Metric(metric)),
            )
    }
}

/// A percentage with or without its sign; `whole` is the value of the flag.
fn percent(text: &str, whole: &str) -> Result<f64> {
    text.trim()
        .trim_end_matches('%')
        .trim_end()
        .parse::<f64>()
        .ok()
        .filter(|percent| (0.0..=100.0).contains(percent))
        .ok_or_else(|| {
            Error::usage(format!("invalid --run-spread: {whole}"))
                .hint("give a percentage from 0 to 100 such as 5, or ttft=8% for one metric")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_specific_value_applies() {
        let values = ["4", "ttft=8%", "p99_ttft_ms=20", "output_throughput = 3 %"];
        let spread = RunSpread::parse(&values.map(str::to_owned)).unwrap();
        let found = [
            "median_ttft_ms",
            "p99_ttft_ms",
            "median_tpot_ms",
            "output_throughput",
        ]
        .map(|name| spread.variation(Figure::parse(name).unwrap()).floor());
        assert_eq!(found, [Some(8.0), Some(20.0), Some(4.0), Some(3.0)]);
        let figure = Figure::parse("median_ttft_ms").unwrap();
        assert_eq!(
            RunSpread::default().variation(figure),
            RunVariation::Assumed(DEFAULT_RUN_SPREAD)
        );
    }

    #[test]
    fn invalid_values_are_usage_errors() {
        for (value, what) in [
            ("-1", "invalid --run-spread: -1"),
            ("nan", "invalid --run-spread: nan"),
            ("ttft=", "invalid --run-spread: ttft="),
            ("ttft=101%", "invalid --run-spread: ttft=101%"),
            ("speed=5", "unknown figure: speed"),
        ] {
            let error = RunSpread::parse(&[value.to_owned()]).unwrap_err();
            assert_eq!((error.what.as_str(), error.exit_code()), (what, 2));
        }
    }
}
