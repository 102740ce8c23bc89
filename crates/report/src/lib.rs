//! The report of a run, and its output formats.
//!
//! [`from_log`] makes a report from a run log, from the figures of [`sobench_results::metrics`].
//! [`summary::render`] and [`text::render`] print it, [`json::document`] is saved under the name
//! that `filename` gives.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod accuracy;
pub mod arm_difference;
mod breakdown;
mod canaries;
mod channels;
pub mod client_overhead;
pub mod conditions;
mod confidence;
pub mod contenders;
mod count_marks;
pub mod csv;
pub mod curl;
mod departures;
pub mod enforcement;
pub mod error_span;
pub mod failures;
mod filename;
mod first_use_tables;
pub mod format;
mod free_choices;
pub mod from_log;
pub mod html;
pub mod json;
pub mod junit;
mod latency_table;
pub mod lengths_page;
mod load;
mod map;
pub mod markdown;
pub mod plot;
pub mod pytorch;
pub mod refusals;
pub mod requests_page;
pub mod result_layout;
mod saved_result;
mod server_metrics;
pub mod sessions;
mod shards;
pub mod summary;
pub mod tables;
pub mod text;
pub mod timeline;
pub mod verdict;
pub mod view;
pub mod vllm;

use self::arm_difference::ArmDifferences;
pub use self::client_overhead::{reasons as client_reasons, sentence as client_sentence};
pub use self::filename::filename;
pub use self::load::{LoadFigures, RampFigures, RpsChange};
pub use self::saved_result::SavedResult;
use self::shards::ShardReport;
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_plan::record::{Engine, RunRecord};
use sobench_results::metrics::Metrics;
use sobench_results::metrics::client_overhead::ClientOverhead;
use sobench_results::metrics::registry::{Metric, VllmNames, rates, totals};
use sobench_results::to_explain::ToExplain;
use sobench_runlog::probe::ProbeResults;
use sobench_runlog::recovery::Recovery;
use sobench_runlog::spec_decode::SpecDecode;

/// Version of the `sobench` object in the result file, raised when a key changes its meaning or is
/// removed.
pub const FORMAT_VERSION: u32 = 2;

/// The record, figures and notices of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub record: RunRecord,
    /// Requests that the run reached.
    pub requests: usize,
    /// sobench's own decoding engine, with its work in the run.
    pub engine: Option<Engine>,
    /// Whether the run stopped early.
    pub partial: bool,
    /// Notices for the reader.
    pub notices: Vec<Notice>,
    pub metrics: Metrics,
    /// Figures of the load; `None` where only totals are known.
    pub load: Option<LoadFigures>,
    /// Client overhead, and whether it limited the run.
    pub client: Option<ClientOverhead>,
    /// Constrained latencies minus control latencies; `None` without both arms.
    pub differences: Option<ArmDifferences>,
    /// The shards of a merged run.
    pub shards: Vec<ShardReport>,
    /// Results of the probe requests (`--probe-request-rate`).
    pub probe: Option<ProbeResults>,
    /// Whether the server serves as before after the abandoned requests; `None` without any.
    pub recovery: Option<Recovery>,
    /// Speculative decoding, where the server reports it.
    pub spec_decode: Option<SpecDecode>,
    /// A sentence on the constraints that the server refused.
    pub refusals: Option<String>,
    /// A request whose failure can be explained.
    pub to_explain: Option<ToExplain>,
}

impl Report {
    /// A report without figures that need more than totals.
    pub fn new(record: RunRecord, metrics: Metrics) -> Self {
        Self {
            requests: metrics.outcomes.total(),
            engine: record.server.engine.clone(),
            partial: false,
            notices: record.notices.clone(),
            record,
            metrics,
            load: None,
            client: None,
            differences: None,
            shards: Vec::new(),
            probe: None,
            recovery: None,
            spec_decode: None,
            refusals: None,
            to_explain: None,
        }
    }

    /// The notice on a refused constraint, if no constrained request has an answer.
    pub fn constraint_refusal(&self) -> Option<&BenchNotice> {
        let is_refusal =
            |notice: &&BenchNotice| matches!(notice, BenchNotice::ConstraintRefused { .. });
        let of_bench = self.notices.iter().filter_map(|notice| match notice {
            Notice::Bench(notice) => Some(notice),
            _ => None,
        });
        let refused = self.metrics.values.rate(&rates::REFUSED_RATE);
        let has_none = refused.is_some_and(|rate| rate.hits > 0 && rate.hits == rate.of);
        of_bench.filter(|_| has_none).find(is_refusal)
    }

    /// Whether the server has recovered from abandoned requests, in a sentence.
    pub fn recovery_sentence(&self) -> Option<String> {
        let recovery = self.recovery.as_ref()?;
        Some(recovery.sentence(self.metrics.values.count(&totals::ABANDONED)))
    }

    /// The latencies that the run prints, with vLLM's names.
    pub fn printed(&self) -> impl Iterator<Item = (&'static Metric, VllmNames)> {
        let settings = &self.record.settings.report;
        Metric::of_vllm().filter(|(_, names)| {
            let keys = match names.queued {
                true => &settings.queue_metrics,
                false => &settings.percentile_metrics,
            };
            keys.iter().any(|key| key == names.key)
        })
    }
}
