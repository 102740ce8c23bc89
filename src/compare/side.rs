//! What a comparison knows of a run, whoever wrote its file. Knows no file format and no statistics.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::metric::RateName;
use crate::case::Arm;
use crate::metrics::LatencyMetric;
use crate::record::condition::Conditions;

/// One side of a comparison: runs that are held to be of the same thing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// What the user typed.
    pub name: String,
    /// At least one.
    pub runs: Vec<Run>,
}

/// One run, as far as its file tells.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Where it was read from.
    pub file: String,
    pub kind: FileKind,
    pub conditions: Conditions,
    /// Every request in the order of the file; `None` where the file has only sums.
    pub requests: Option<Vec<Request>>,
    pub duration_s: Option<f64>,
    /// What the file itself says, by the names of [`super::metric::Metric`].
    pub figures: BTreeMap<String, f64>,
    /// Means of the file with their standard errors.
    pub means: BTreeMap<LatencyMetric, SavedMean>,
    /// Hits and of how many, of each rate of the file.
    pub counts: BTreeMap<RateName, Share>,
    /// What a reader of the comparison has to know about this run.
    pub notices: Vec<String>,
}

/// Who wrote a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// sobench's `--save-result`.
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
    /// Whether it counts as correct in the correct rate (`metrics::quality::is_correct`).
    pub correct: Option<bool>,
    /// The vLLM script's opinion.
    pub vllm_correct: Option<bool>,
    /// Valid or not, of answers that ended by themselves and can be judged.
    pub complied: Option<bool>,
    /// Whether the server took it up, of those that were not stopped before.
    pub accepted: Option<bool>,
    /// Whether there is an answer, whole or cut; only then its latencies count.
    pub answered: bool,
    pub ttft_ms: Option<f64>,
    pub tpot_ms: Option<f64>,
    pub e2el_ms: Option<f64>,
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
    /// What it counts as in a rate; `None` where it does not.
    pub fn in_rate(&self, rate: RateName) -> Option<bool> {
        let constrained = self.arm == Some(Arm::Constrained);
        match rate {
            RateName::Correct => self.correct.filter(|_| constrained),
            RateName::Compliance => self.complied.filter(|_| constrained),
            RateName::Coverage => self.accepted.filter(|_| constrained),
            RateName::Control => self.correct.filter(|_| self.arm == Some(Arm::Control)),
            RateName::Vllm => self.vllm_correct,
        }
    }

    /// Its value in a series of one value a request.
    pub fn latency_ms(&self, series: LatencyMetric) -> Option<f64> {
        let value = match series {
            LatencyMetric::Ttft => self.ttft_ms,
            LatencyMetric::Tpot => self.tpot_ms,
            LatencyMetric::E2el => self.e2el_ms,
            LatencyMetric::Itl => None,
        };
        value.filter(|_| self.answered)
    }

    /// When its last content came, in seconds from the beginning of the run, if there is an answer.
    pub fn ended_s(&self) -> Option<f64> {
        Some(self.sent_s? + self.e2el_ms.filter(|_| self.answered)? / 1000.0)
    }
}

impl Side {
    /// Every request of every run, each with its run's number; `None` where a run has only sums.
    pub fn requests(&self) -> Option<Vec<(usize, &Request)>> {
        let mut all = Vec::new();
        for (number, run) in self.runs.iter().enumerate() {
            all.extend(run.requests.as_ref()?.iter().map(|request| (number, request)));
        }
        Some(all)
    }
}
