//! A report as a value, and its renderings. Pure: it asks neither clock nor environment, and
//! printing never computes.
//!
//! [`from_log`] makes it from a run log; [`sobench_results::metrics`] has the numbers.
//! [`text::render`] is what a person reads, [`json::document`] what is saved, under the name that
//! [`filename`] gives it.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod breakdown;
mod by_arm;
mod certainty;
pub mod client;
mod cold;
pub mod conditions;
pub mod csv;
pub mod curl;
pub mod enforcement;
pub mod failures;
mod filename;
pub mod format;
pub mod from_log;
pub mod html;
pub mod json;
pub mod junit;
pub mod lengths_page;
mod load;
pub mod markdown;
pub mod place;
pub mod plot;
pub mod pytorch;
pub mod requests_page;
pub mod saved;
mod saved_result;
pub mod shards;
pub mod tables;
pub mod text;
pub mod timeline;
pub mod view;
pub mod vllm;

pub use self::client::sentence as client_sentence;
pub use self::filename::filename;
pub use self::load::{LoadFigures, RampFigures, RpsChange};
pub use self::saved_result::SavedResult;
use self::shards::ShardReport;
use sobench_notices::notice::Notice;
use sobench_results::metrics::client::ClientPart;
use sobench_results::metrics::parts::Part;
use sobench_results::metrics::probe::Probed;
use sobench_results::metrics::spec_decode::SpecDecode;
use sobench_results::metrics::{LatencyMetric, Metrics, QueueMetric};
use sobench_results::record::{Engine, RunRecord};

/// The version of the saved file's own part (`sobench`), raised whenever a key changes its meaning
/// or goes away.
pub const FORMAT_VERSION: u32 = 1;

/// Everything that is known of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub record: RunRecord,
    /// Requests that the run came to.
    pub requests: usize,
    /// The decoding engine with what it did in the run, where it is sobench's own.
    pub engine: Option<Engine>,
    /// Whether the run was stopped before its end.
    pub partial: bool,
    /// What a reader of the figures has to know.
    pub notices: Vec<Notice>,
    pub metrics: Metrics,
    /// Figures of the load; `None` where only totals are known.
    pub load: Option<LoadFigures>,
    /// The client's own part in the figures, and whether it limited the run.
    pub client: Option<ClientPart>,
    /// The shards that carried the load, where several did.
    pub shards: Vec<ShardReport>,
    /// The datasets of a mix, each by itself.
    pub parts: Vec<Part>,
    /// The small requests beside the run, where they were asked for.
    pub probe: Option<Probed>,
    /// What speculative decoding did, where the server reports it.
    pub spec_decode: Option<SpecDecode>,
}

impl Report {
    /// A report of a record and its figures, without those that need more than totals.
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
            shards: Vec::new(),
            parts: Vec::new(),
            probe: None,
            spec_decode: None,
        }
    }

    /// The latencies that the console shows.
    pub fn percentile_metrics(&self) -> &[LatencyMetric] {
        &self.record.settings.report.percentile_metrics
    }

    /// The wait before sending as latencies of its own, where it was asked for.
    pub fn queue_metrics(&self) -> &[QueueMetric] {
        &self.record.settings.report.queue_metrics
    }
}
