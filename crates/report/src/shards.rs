//! The shards of a merged run: their requests, clocks and client overhead.

use serde::Serialize;

use super::text::figure;
use sobench_core::shard::{ClockOffset, Shard, Start};
use sobench_notices::notice::{LogNotice, Notice, ShardValue};
use sobench_render::Table;
use sobench_results::metrics::Sample;
use sobench_results::metrics::client_overhead::{ClientOverhead, ClientVerdict};
use sobench_results::metrics::registry::Values;
use sobench_results::record::{Host, MergedShard, RunRecord};
use sobench_results::runlog::shard_overhead;

/// One shard of a merged run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShardReport {
    /// From 1.
    pub number: usize,
    /// Requests of the shard that are in the figures.
    pub requests: usize,
    pub base_url: String,
    pub host: Host,
    /// Start of the shard, in seconds from the start of the run.
    pub begin_s: f64,
    pub start: Start,
    /// Clock offset to shard 1 before and after the run; `None` where it was not measured.
    pub clock_before: Option<ClockOffset>,
    pub clock_after: Option<ClockOffset>,
    /// Upper bound of the error of its timestamps against shard 1, drift during the run included.
    pub uncertainty_ns: Option<u64>,
    pub end: ShardEnding,
    /// `None` where the shard was killed.
    pub client: Option<ClientOverhead>,
}

/// How a shard ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ShardEnding {
    /// As planned.
    Whole,
    /// Interrupted by the user.
    Interrupted,
    /// Stopped by an error limit.
    GaveUp,
    /// The log has no end.
    Killed,
}

impl ShardEnding {
    fn label(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Interrupted => "interrupted",
            Self::GaveUp => "stopped by an error limit",
            Self::Killed => "killed",
        }
    }
}

/// A row per shard; `None` without shards.
pub(crate) fn table(shards: &[ShardReport]) -> Option<Table> {
    let heads = [
        "shard",
        "requests",
        "ended",
        "start (ms)",
        "clock offset (ms)",
        "clock error (ms)",
        "send delay p99 (ms)",
        "CPU (%)",
        "memory (MiB)",
        "client",
    ];
    let mut table = Table::new(heads, 1).left_aligned(9);
    for shard in shards {
        let client = shard.client.as_ref();
        let delay = client.and_then(|client| client.send_delay_ms.at(99.0));
        table.row([
            shard.number.to_string(),
            shard.requests.to_string(),
            shard.end.label().to_owned(),
            format!("{:.3}", shard.begin_s * 1e3),
            milliseconds(shard.clock_before.map(|clock| clock.offset_ns as f64)),
            milliseconds(shard.uncertainty_ns.map(|ns| ns as f64)),
            figure(delay),
            figure(client.and_then(|client| client.cpu_percent)),
            figure(client.and_then(|client| client.cost.peak_memory_mib)),
            match client.map(|client| client.verdict) {
                Some(ClientVerdict::NotTheBottleneck) => "trusted",
                Some(ClientVerdict::DoNotTrust) => "not trusted",
                Some(ClientVerdict::Unknown) | None => "unknown",
            }
            .to_owned(),
        ]);
    }
    table.non_empty()
}

fn milliseconds(ns: Option<f64>) -> String {
    ns.map_or_else(
        || "not measured".to_owned(),
        |ns| format!("{:.3}", ns / 1e6),
    )
}

/// Notice on figures of one shard only.
pub(crate) fn part_notice(record: &RunRecord) -> Option<Notice> {
    let shard = record.shard.as_ref()?;
    let (requests, all_requests) = (record.own_requests(), record.dataset.requests);
    Some(
        LogNotice::OneShard {
            shard: shard.number,
            shards: shard.of,
            requests,
            all_requests,
        }
        .into(),
    )
}

/// Notices on a merged log.
pub(crate) fn merged_notices(record: &RunRecord) -> Vec<Notice> {
    let shards = &record.merged[..];
    let Some((first, others)) = shards.split_first() else {
        return Vec::new();
    };
    let killed = shards
        .iter()
        .filter(|shard| shard.end.is_none())
        .map(|shard| killed(shard, record));
    let is_elsewhere = others.iter().any(|shard| shard.base_url != first.base_url);
    let addresses = is_elsewhere.then(|| {
        let address = |shard: &MergedShard| ShardValue {
            shard: shard.number,
            value: shard.base_url.clone(),
        };
        LogNotice::ShardAddresses {
            addresses: shards.iter().map(address).collect(),
        }
    });
    let clocks = (!others.is_empty()).then(|| clocks(shards));
    killed
        .chain(addresses)
        .chain(apart(shards))
        .chain(clocks)
        .map(Notice::from)
        .collect()
}

fn killed(shard: &MergedShard, record: &RunRecord) -> LogNotice {
    let part = Shard {
        number: shard.number,
        of: record.merged.len(),
    };
    LogNotice::ShardKilled {
        shard: shard.number,
        ended: shard.requests,
        prepared: part.share(record.dataset.requests),
    }
}

/// Notice on shards that started at different times.
fn apart(shards: &[MergedShard]) -> Option<LogNotice> {
    let last = shards
        .iter()
        .max_by_key(|shard| shard.begin_ns)
        .filter(|shard| shard.begin_ns > 0)?;
    Some(LogNotice::ShardsStartedApart {
        last_shard: last.number,
        after_s: last.begin_ns as f64 / 1e9,
    })
}

fn clocks(shards: &[MergedShard]) -> LogNotice {
    let known: Option<Vec<(u64, usize)>> = shards
        .iter()
        .map(|shard| Some((shard.uncertainty_ns()?, shard.number)))
        .collect();
    match known.and_then(|known| known.into_iter().max_by_key(|(ns, _)| *ns)) {
        Some((ns, shard)) => LogNotice::ShardClocks {
            within_ms: ns as f64 / 1e6,
            shard,
        },
        None => LogNotice::ShardClocksNotMeasured,
    }
}

/// Each shard of a merged log with its client overhead.
pub(crate) fn reports(
    record: &RunRecord,
    samples: &[Sample<'_>],
    values: &Values,
) -> Vec<ShardReport> {
    let report = |shard: &MergedShard| ShardReport {
        number: shard.number,
        requests: shard.requests,
        base_url: shard.base_url.clone(),
        host: shard.host.clone(),
        begin_s: shard.begin_ns as f64 / 1e9,
        start: shard.start,
        clock_before: shard.clock_before,
        clock_after: shard.clock_after,
        uncertainty_ns: shard.uncertainty_ns(),
        end: match &shard.end {
            None => ShardEnding::Killed,
            Some(end) if end.interrupted => ShardEnding::Interrupted,
            Some(end) if end.broken_off.is_some() => ShardEnding::GaveUp,
            Some(_) => ShardEnding::Whole,
        },
        client: shard_overhead(record, shard, samples, values),
    };
    record.merged.iter().map(report).collect()
}

/// The worst client overhead of all shards.
pub(crate) fn worst_client(shards: &[ShardReport]) -> Option<ClientOverhead> {
    let clients = shards.iter().filter_map(|shard| shard.client.as_ref());
    let worst = clients.reduce(|worst, other| {
        if other.severity() > worst.severity() {
            other
        } else {
            worst
        }
    });
    worst.cloned()
}
