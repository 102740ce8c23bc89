//! A run as a comparison sees it, whichever tool wrote its file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::metrics::LatencyMetric;
use crate::metrics::registry::{Figure, Kind, Metric, RequestValues, Value, Values, latencies};
use crate::record::condition::Conditions;
use sobench_core::case::Arm;

/// One side of a comparison: runs that are held to be of the same thing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// What the user typed.
    pub name: String,
    /// At least one.
    pub runs: Vec<Run>,
}

/// One run, as far as its file tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Where it was read from.
    pub file: String,
    pub kind: FileKind,
    pub conditions: Conditions,
    /// Every request in the order of the file; `None` where the file has only sums.
    pub requests: Option<Vec<Request>>,
    pub duration_s: Option<f64>,
    /// What the file itself says, by the names of [`Figure`].
    pub figures: BTreeMap<String, f64>,
    /// Means of the file with their standard errors.
    pub means: BTreeMap<&'static Metric, SavedMean>,
    /// Hits and of how many, of each rate of the file.
    pub counts: BTreeMap<&'static Metric, Share>,
    /// What a reader of the comparison has to know about this run.
    pub notices: Vec<String>,
}

/// Who wrote a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// sobench's `--save-result`.
    #[default]
    SobenchResult,
    /// `sobench compare --write-baseline`.
    SobenchBaseline,
    /// sobench's run log.
    SobenchRunLog,
    /// `vllm bench serve --save-result`.
    VllmBenchServe,
    /// vLLM's `benchmark_serving_structured_output.py --save-results`.
    VllmScript,
}

/// One request, as far as its file tells. What is not known is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The case's id; the same id is the same question in every run with the same dataset.
    pub case: Option<String>,
    pub arm: Option<Arm>,
    /// Whether there is an answer, whole or cut.
    pub answered: bool,
    /// What it is in rates and distributions, whether or not it counts there ([`Request::in_rate`],
    /// [`Request::in_distribution`]).
    pub values: RequestValues,
    pub gaps: Gaps,
    /// Seconds from the beginning of the run.
    pub sent_s: Option<f64>,
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub answer: Option<Answer>,
}

/// The gaps between a request's chunks, in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub enum Gaps {
    Each(Vec<f64>),
    /// Only how many and what they add up to: enough for a mean, for no percentile.
    Sum {
        n: u64,
        total_ms: f64,
    },
}

/// What came, for a reader to look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub text: String,
    /// The verdict or the failure in words.
    pub verdict: String,
}

/// How many values a series of a file has, and how far its mean may be off by chance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedMean {
    pub n: usize,
    pub standard_error: Option<f64>,
}

/// Hits out of a count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    pub hits: usize,
    pub of: usize,
}

impl Share {
    /// The share of hits.
    pub fn count(hits: impl Iterator<Item = bool>) -> Self {
        hits.fold(Self::default(), |share, hit| Self {
            hits: share.hits + usize::from(hit),
            of: share.of + 1,
        })
    }

    /// In percent; `None` of nothing.
    pub fn percent(self) -> Option<f64> {
        (self.of > 0).then(|| 100.0 * self.hits as f64 / self.of as f64)
    }
}

impl Default for Gaps {
    fn default() -> Self {
        Self::Each(Vec::new())
    }
}

impl Gaps {
    /// How many, and what they add up to.
    pub fn sum(&self) -> (u64, f64) {
        match self {
            Self::Each(gaps) => (gaps.len() as u64, gaps.iter().sum()),
            Self::Sum { n, total_ms } => (*n, *total_ms),
        }
    }
}

impl Request {
    /// Whether it is a hit in a rate; `None` where it does not count.
    pub fn in_rate(&self, metric: &Metric) -> Option<bool> {
        match metric.kind {
            Kind::Rate { among, .. } => self
                .values
                .hit(metric)
                .filter(|_| among.counts(self.arm, self.answered)),
            _ => None,
        }
    }

    /// Its value in a distribution of one value a request; `None` where it does not count.
    pub fn in_distribution(&self, metric: &Metric) -> Option<f64> {
        match metric.kind {
            Kind::Distribution { among, .. } => self
                .values
                .value(metric)
                .filter(|_| among.counts(self.arm, self.answered)),
            _ => None,
        }
    }

    /// When its last content came, in seconds from the beginning of the run, if there is an answer.
    pub fn ended_s(&self) -> Option<f64> {
        Some(self.sent_s? + self.in_distribution(&latencies::E2EL)? / 1000.0)
    }
}

impl Run {
    /// Takes over every metric of a run: figures, means with their errors, and counts of rates.
    pub(super) fn set_values(&mut self, values: &Values) {
        self.figures.extend(
            Figure::all_of(values)
                .into_iter()
                .map(|(figure, value)| (figure.to_string(), value)),
        );
        let unknown = SavedMean {
            n: 0,
            standard_error: None,
        };
        self.means
            .extend(LatencyMetric::ALL.map(|latency| (latency.metric(), unknown)));
        for (metric, value) in values.iter() {
            match value {
                Value::Rate(rate) => {
                    self.counts.insert(
                        metric,
                        Share {
                            hits: rate.hits,
                            of: rate.of,
                        },
                    );
                }
                Value::Distribution(summary) => {
                    self.means.insert(
                        metric,
                        SavedMean {
                            n: summary.n,
                            standard_error: summary.standard_error,
                        },
                    );
                }
                Value::PerSecond(_) | Value::Total(_) => {}
            }
        }
    }
}

impl Side {
    /// Every request of every run, each with its run's number; `None` where a run has only sums.
    pub fn requests(&self) -> Option<Vec<(usize, &Request)>> {
        let mut all = Vec::new();
        for (number, run) in self.runs.iter().enumerate() {
            all.extend(
                run.requests
                    .as_ref()?
                    .iter()
                    .map(|request| (number, request)),
            );
        }
        Some(all)
    }
}
