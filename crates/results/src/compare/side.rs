//! Runs and sides of a comparison, independent of the tool that wrote their files.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tempfile::TempPath;

use super::requests::{RequestView, Requests};
use crate::metrics::accuracy::ArmPairs;
use crate::metrics::examples::Group;
use crate::metrics::registry::{Figure, Metric, Value};
use crate::to_explain::ToExplain;
use sobench_core::case::Arm;
use sobench_plan::record::condition::Conditions;
use sobench_statistics::contrast::Share;

/// One side of a comparison: runs of the same configuration.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// The command-line argument.
    pub name: String,
    /// At least one.
    pub runs: Vec<Run>,
    /// Its runs of the control arm alone, if they are beside others.
    pub controls: Option<Box<Side>>,
}

/// One run, as far as its file describes it.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The path of the file, for messages.
    pub file: String,
    /// The file, if it is there to be read again.
    pub path: Option<PathBuf>,
    /// That file, if it is a temporary one.
    pub unpacked: Option<Arc<TempPath>>,
    /// The number of the run in the file, from 0.
    pub number: usize,
    pub kind: FileKind,
    pub conditions: Conditions,
    /// Every request in file order; `None` if the file has only summaries.
    pub requests: Option<Requests>,
    pub duration_s: Option<f64>,
    /// The figures in the file, by the names of [`Figure`].
    pub figures: BTreeMap<String, f64>,
    /// Sample sizes and standard errors of means in the file.
    pub means: BTreeMap<&'static Metric, SavedMean>,
    /// Hits and totals of the rates in the file.
    pub counts: BTreeMap<Figure, Share>,
    /// The items of each two arms, in a run with several arms of each item.
    pub arm_pairs: Vec<ArmPairs>,
    /// Notices about the run for the reader of the comparison.
    pub notices: Vec<String>,
    /// Reasons of invalid answers, in a run log.
    pub reasons: Vec<Group>,
    /// A request whose failure can be explained, in a run log.
    pub to_explain: Option<ToExplain>,
    /// Whether the run ended early.
    pub is_partial: bool,
    /// Figures of which the client can have added too much, or taken from a throughput, and how
    /// much, in their units; `None` in baselines.
    pub distrusted: BTreeMap<Figure, Option<f64>>,
}

/// The kind of file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
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
    /// AIPerf's `profile_export_aiperf.json`.
    Aiperf,
    /// GuideLLM's `benchmarks.json`.
    Guidellm,
}

/// An answer to show to the reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub text: String,
    /// The verdict or the failure as text.
    pub verdict: String,
}

/// Sample size and standard error of a saved mean.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct SavedMean {
    pub n: usize,
    pub standard_error: Option<f64>,
}

impl Run {
    /// Sets the figures, means and counts from the metrics of a run.
    pub(super) fn set_values<'v>(&mut self, values: impl Iterator<Item = (Figure, &'v Value)>) {
        let values: Vec<_> = values.collect();
        let known = Figure::all_known(values.iter().copied()).into_iter();
        let named = known.map(|(figure, value)| (figure.to_string(), value));
        self.figures.extend(named);
        // Totals that no table shows can have rules too.
        let in_files = values.iter().filter_map(|(figure, value)| match value {
            Value::Total(value) => Some((figure.to_string(), *value)),
            _ => None,
        });
        self.figures.extend(in_files);
        let unknown = SavedMean {
            n: 0,
            standard_error: None,
        };
        let printed = Metric::of_vllm().filter(|(_, names)| !names.queued);
        self.means
            .extend(printed.map(|(metric, _)| (metric, unknown)));
        for (figure, value) in values {
            match value {
                Value::Rate(rate) => {
                    self.counts.insert(
                        figure,
                        Share {
                            hits: rate.hits,
                            of: rate.of,
                        },
                    );
                }
                Value::Distribution(summary) => {
                    self.means.insert(
                        figure.metric,
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

impl Run {
    /// The accuracy of `to` minus that of `from` over the items of both, in percentage points, with
    /// bounds for one-sided decisions; `None` without items.
    pub fn accuracy_difference(&self, from: Arm, to: Arm, level: f64) -> Option<(f64, f64, f64)> {
        let mut pairs = self.arm_pairs.iter();
        let found =
            pairs.find(|pairs| [(from, to), (to, from)].contains(&(pairs.from, pairs.to)))?;
        let difference = 100.0 * found.sample.pairs.difference()?;
        let (low, high) = found.sample.one_sided_bounds(level)?;
        let (low, high) = (100.0 * low, 100.0 * high);
        Some(if found.from == from {
            (difference, low, high)
        } else {
            (-difference, -high, -low)
        })
    }
}

impl Side {
    /// Every request of every run, with the index of its run; `None` if a run has no requests.
    pub fn requests(&self) -> Option<impl Iterator<Item = (usize, RequestView<'_>)>> {
        let runs = self.run_requests()?;
        let numbered = runs.into_iter().enumerate();
        Some(
            numbered.flat_map(|(run, requests)| requests.iter().map(move |request| (run, request))),
        )
    }

    /// The requests of each run; `None` if a run has none.
    pub fn run_requests(&self) -> Option<Vec<&Requests>> {
        self.runs.iter().map(|run| run.requests.as_ref()).collect()
    }

    /// What the clients may have added to a time or taken from a throughput; `None` if it is unknown.
    pub fn doubt(&self, figure: Figure) -> Option<f64> {
        let doubts = self.runs.iter();
        let doubts = doubts.filter_map(|run| run.distrusted.get(&figure).copied());
        doubts
            .reduce(|one, other| Some(one?.max(other?)))
            .unwrap_or(Some(0.0))
    }

    /// Number of requests of all runs; `None` if a run has no requests.
    pub fn request_count(&self) -> Option<usize> {
        let runs = self.run_requests()?;
        Some(runs.into_iter().map(Requests::len).sum())
    }
}
