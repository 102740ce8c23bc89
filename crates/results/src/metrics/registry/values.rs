//! The values of all metrics of a run.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{DeserializeOwned, Deserializer};
use serde::{Deserialize, Serialize, Serializer};

use super::{Figure, Metric, MetricKind, RunSamples};
use sobench_statistics::{Rate, Summary};

/// The value of a metric.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[serde(untagged)]
pub enum Value {
    Rate(Rate),
    Distribution(Summary),
    PerSecond(PerSecond),
    Total(f64),
}

/// A count per second of the run.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct PerSecond {
    pub per_second: f64,
    /// `None` if a file does not have it.
    pub count: Option<u64>,
}

/// The values of [`Metric::ALL`] in order; in files an object with one member per known metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values(Vec<Option<Value>>);

impl Values {
    /// Computes every metric.
    pub fn new(run: &RunSamples<'_>) -> Self {
        Self(
            Metric::ALL
                .iter()
                .map(|metric| Value::new(metric, run))
                .collect(),
        )
    }

    /// Builds values from a function.
    pub fn from_fn(find: impl Fn(&'static Metric) -> Option<Value>) -> Self {
        Self(Metric::ALL.iter().map(|metric| find(metric)).collect())
    }

    /// Computes some metrics.
    pub fn selected(metrics: &[&'static Metric], run: &RunSamples<'_>) -> Self {
        Self::from_fn(|metric| metrics.contains(&metric).then(|| Value::new(metric, run))?)
    }

    /// Every metric with a value.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Metric, &Value)> {
        let all = Metric::ALL.iter();
        all.filter_map(|metric| Some((*metric, self.get(metric)?)))
    }

    /// The value of a metric.
    pub fn get(&self, metric: &Metric) -> Option<&Value> {
        let value = self.0.get(metric.index())?.as_ref();
        value.filter(|value| !matches!(value, Value::Distribution(summary) if summary.n == 0))
    }

    /// The value of a rate.
    pub fn rate(&self, metric: &Metric) -> Option<Rate> {
        match self.get(metric)? {
            Value::Rate(rate) => Some(*rate),
            _ => None,
        }
    }

    /// The value of a metric with a single number.
    pub fn number(&self, metric: &Metric) -> Option<f64> {
        match self.get(metric)? {
            Value::Rate(rate) => Some(rate.percent),
            Value::PerSecond(rate) => Some(rate.per_second),
            Value::Total(value) => Some(*value),
            Value::Distribution(_) => None,
        }
    }

    /// The number of a metric that counts, or the hits of a rate.
    pub fn known_count(&self, metric: &Metric) -> Option<u64> {
        match self.get(metric)? {
            Value::Rate(rate) => Some(rate.hits as u64),
            _ => self.number(metric).map(|count| count as u64),
        }
    }

    /// As [`Values::known_count`]; 0 if it is unknown.
    pub fn count(&self, metric: &Metric) -> usize {
        self.known_count(metric).unwrap_or_default() as usize
    }

    /// The value of a distribution; without values, only its percentiles are known.
    pub fn summary(&self, metric: &Metric) -> &Summary {
        static UNKNOWN: LazyLock<Summary> = LazyLock::new(Summary::default);
        match self.0.get(metric.index()) {
            Some(Some(Value::Distribution(summary))) => summary,
            _ => &UNKNOWN,
        }
    }
}

impl Value {
    /// `None` if unknown: no request counts, or the duration is zero.
    fn new(metric: &'static Metric, run: &RunSamples<'_>) -> Option<Self> {
        match metric.kind {
            MetricKind::Rate(_) => Figure::of(metric, run.arm)
                .rate(run.samples.iter().copied())
                .map(Self::Rate),
            MetricKind::Distribution { .. } | MetricKind::Pooled(_) => {
                Some(Self::Distribution(metric.summary(run.samples, run.options)))
            }
            MetricKind::PerSecond(count) => {
                let seconds = run.duration_ns as f64 / 1e9;
                let count = count(run).filter(|_| run.duration_ns > 0)?;
                Some(Self::PerSecond(PerSecond {
                    per_second: count as f64 / seconds,
                    count: Some(count),
                }))
            }
            MetricKind::Total(value) => value(run).map(Self::Total),
        }
    }

    /// Parses a value of a file; `None` if it is invalid.
    pub fn read(metric: &Metric, json: &serde_json::Value) -> Option<Self> {
        fn typed<T: DeserializeOwned>(json: &serde_json::Value) -> Option<T> {
            serde_json::from_value(json.clone()).ok()
        }
        /// The counts of a rate, from which everything else follows.
        #[derive(Deserialize)]
        struct Counts {
            hits: usize,
            of: usize,
            effective: Option<f64>,
        }
        match metric.kind {
            MetricKind::Rate(_) => {
                let counts = typed::<Counts>(json).filter(|counts| counts.hits <= counts.of)?;
                let effective = counts.effective.unwrap_or(counts.of as f64);
                Rate::with_effective(counts.hits, counts.of, effective).map(Self::Rate)
            }
            MetricKind::Distribution { .. } | MetricKind::Pooled(_) => {
                typed(json).map(Self::Distribution)
            }
            MetricKind::PerSecond(_) => match json.as_f64() {
                Some(per_second) => Some(Self::PerSecond(PerSecond {
                    per_second,
                    count: None,
                })),
                None => typed(json).map(Self::PerSecond),
            },
            MetricKind::Total(_) => json.as_f64().map(Self::Total),
        }
    }
}

impl JsonSchema for Values {
    fn schema_name() -> Cow<'static, str> {
        "Values".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        // Older versions write `null` for an unknown metric, and have metrics of other arms.
        let value = generator.subschema_for::<Option<Value>>();
        let old: Vec<String> = Figure::old_names().map(|(_, name)| name).collect();
        let names = Metric::ALL.iter().map(|metric| metric.name);
        let names = names.chain(old.iter().map(String::as_str));
        sobench_core::contract::members(names.map(|name| (name, false)), &value)
    }
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(metric, value)| (metric.name, value)))
    }
}

/// Ignores unknown metrics, which a later version may write.
impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let members: BTreeMap<String, serde_json::Value> = Deserialize::deserialize(deserializer)?;
        Ok(Self::from_fn(|metric| {
            Value::read(metric, members.get(metric.name)?)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::registry::{latencies, rates, totals};
    use crate::metrics::summarise;
    use sobench_core::observation::Outcome;
    use sobench_facts::testing::{TestRequest, test_request, with_samples};
    use sobench_plan::metrics::MetricsSettings;

    fn values(run: &[TestRequest<'_>]) -> Values {
        with_samples(run, |samples| {
            summarise(samples, 2_000_000_000, &MetricsSettings::default()).values
        })
    }

    #[test]
    fn each_kind_of_metric_has_its_value() {
        let run = [
            test_request(),
            TestRequest {
                outcome: Outcome::Truncated,
                finish_reason: Some("length"),
                ..test_request()
            },
        ];
        let values = values(&run);
        let truncated = values.rate(&rates::TRUNCATED_RATE).unwrap();
        assert_eq!((truncated.hits, truncated.of), (1, 2));
        assert_eq!(values.summary(&latencies::TTFT).n, 2);
        assert_eq!(values.get(&latencies::TTFT_REASONING), None);
        assert_eq!(
            values.summary(&latencies::TTFT_REASONING).percentiles.len(),
            1
        );
        let throughput = Value::PerSecond(PerSecond {
            per_second: 1.0,
            count: Some(2),
        });
        assert_eq!(values.get(&totals::REQUEST_THROUGHPUT), Some(&throughput));
        assert_eq!(values.get(&totals::COMPLETED), Some(&Value::Total(2.0)));
        assert_eq!(values.count(&totals::COMPLETED), 2);
    }

    #[test]
    fn every_metric_has_a_value_in_the_eventful_run() {
        let values = crate::metrics::registry::testing::values();
        let unknown: Vec<_> = Metric::ALL
            .iter()
            .filter(|metric| values.get(metric).is_none())
            .collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn values_round_trip() {
        let values = values(&[test_request(), test_request()]);
        let text = serde_json::to_string(&values).unwrap();
        let read = serde_json::from_str::<Values>(&text).unwrap();
        assert!(read.iter().eq(values.iter()));
        assert_eq!(
            serde_json::from_str::<Values>(r#"{"of_tomorrow": 3}"#)
                .unwrap()
                .iter()
                .count(),
            0
        );
    }
}
