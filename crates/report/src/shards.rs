//! The shards of a load that several clients carried: what each did, how its clock agreed, whether
//! it stood in the way. Knows no formula.

use serde::Serialize;

use super::text::figure;
use sobench_core::shard::{ClockOffset, Shard, Start};
use sobench_notices::notice::{LogNotice, Notice, OfShard};
use sobench_render::Table;
use sobench_results::metrics::Sample;
use sobench_results::metrics::client::{ClientPart, ClientVerdict};
use sobench_results::record::{Host, MergedShard, RunRecord};

/// One shard of a merged run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShardReport {
    /// From 1.
    pub number: usize,
    /// Requests of it that are in the figures.
    pub requests: usize,
    pub base_url: String,
    pub host: Host,
    /// When it began, in seconds from the begin of the run.
    pub begin_s: f64,
    pub start: Start,
    /// What its clock was off shard 1's before the run and after it; `None` where nobody measured
    /// it.
    pub clock_before: Option<ClockOffset>,
    pub clock_after: Option<ClockOffset>,
    /// The most that its instants may be off those of shard 1, drift during the run included.
    pub uncertainty_ns: Option<u64>,
    pub end: ShardEnding,
    /// `None` where it was killed.
    pub client: Option<ClientPart>,
}

/// How a shard ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ShardEnding {
    /// As planned.
    Whole,
    /// By the user.
    Interrupted,
    /// It gave up on the server.
    GaveUp,
    /// Nobody saw it.
    Killed,
}

impl ShardEnding {
    fn words(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Interrupted => "interrupted",
            Self::GaveUp => "gave up",
            Self::Killed => "killed",
        }
    }
}

/// A row a shard; `None` where there are none.
pub(crate) fn table(shards: &[ShardReport]) -> Option<Table> {
    let heads = [
        "shard",
        "requests",
        "ended",
        "began (ms)",
        "clock off shard 1's (ms)",
        "within (ms)",
        "own delay p99 (ms)",
        "CPU (%)",
        "memory (MiB)",
        "client",
    ];
    let mut table = Table::new(heads, 1).words(9);
    for shard in shards {
        let client = shard.client.as_ref();
        let delay = client.and_then(|it| it.own_delay_ms.at(99.0));
        table.row([
            shard.number.to_string(),
            shard.requests.to_string(),
            shard.end.words().to_owned(),
            format!("{:.3}", shard.begin_s * 1e3),
            milliseconds(shard.clock_before.map(|clock| clock.offset_ns as f64)),
            milliseconds(shard.uncertainty_ns.map(|ns| ns as f64)),
            figure(delay),
            figure(client.and_then(|it| it.cpu_percent)),
            figure(client.and_then(|it| it.cost.peak_memory_mib)),
            match client.map(|it| it.verdict) {
                Some(ClientVerdict::NotTheBottleneck) => "not the bottleneck",
                Some(ClientVerdict::DoNotTrust) => "do not trust",
                None => "not known",
            }
            .to_owned(),
        ]);
    }
    table.if_any()
}

fn milliseconds(ns: Option<f64>) -> String {
    ns.map_or_else(
        || "not measured".to_owned(),
        |ns| format!("{:.3}", ns / 1e6),
    )
}

/// What the reader has to know of figures that are of a part.
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

/// What the reader has to know of a log that was merged.
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
        let address = |shard: &MergedShard| OfShard {
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

/// Shards that did not begin together.
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
        .map(|it| Some((it.uncertainty_ns()?, it.number)))
        .collect();
    match known.and_then(|known| known.into_iter().max_by_key(|(ns, _)| *ns)) {
        Some((ns, shard)) => LogNotice::ShardClocks {
            within_ms: ns as f64 / 1e6,
            shard,
        },
        None => LogNotice::ShardClocksNotMeasured,
    }
}

/// Each shard of a merged log with its client's part in the figures.
pub(crate) fn reports(record: &RunRecord, samples: &[Sample<'_>]) -> Vec<ShardReport> {
    let of = record.merged.len();
    let report = |shard: &MergedShard| {
        let part = Shard {
            number: shard.number,
            of,
        };
        let own: Vec<Sample<'_>> = samples
            .iter()
            .filter(|it| part.takes(it.case_index()))
            .copied()
            .collect();
        ShardReport {
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
            client: shard.end.as_ref().map(|end| {
                ClientPart::of(&own, &record.settings.metrics, end.cost, shard.begin_ns)
            }),
        }
    };
    record.merged.iter().map(report).collect()
}

/// The worst of the clients: one that stood in the way makes the figures of all what they are.
pub(crate) fn worst_client(shards: &[ShardReport]) -> Option<ClientPart> {
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
