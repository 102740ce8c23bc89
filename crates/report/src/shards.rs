//! The shards of a merged run: their requests, clocks and client overhead.

use schemars::JsonSchema;
use serde::Serialize;

use super::text::figure;
use sobench_core::shard::{ClockOffset, Shard, Start};
use sobench_facts::Sample;
use sobench_notices::notice::{LogNotice, Notice, ShardValue};
use sobench_plan::record::{Host, MergedShard, RunRecord};
use sobench_render::Table;
use sobench_results::metrics::client_overhead::shard_overhead;
use sobench_results::metrics::client_overhead::{ClientOverhead, ClientVerdict};
use sobench_results::metrics::registry::Values;

/// One shard of a merged run.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
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
    /// Upper bound of the error of its timestamps against shard 1, with the drift during the run
    /// if its clock was measured after it.
    pub uncertainty_ns: Option<u64>,
    pub end: ShardEnding,
    /// `None` where the shard was killed, or its log is missing.
    pub client: Option<ClientOverhead>,
}

/// How a shard ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
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
    /// There is no log.
    Missing,
}

impl ShardEnding {
    fn label(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Interrupted => "interrupted",
            Self::GaveUp => "stopped by an error limit",
            Self::Killed => "killed",
            Self::Missing => "log missing",
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
            match shard.end {
                ShardEnding::Missing => "n/a".to_owned(),
                _ => format!("{:.3}", shard.begin_s * 1e3),
            },
            milliseconds(shard.clock_before.map(|clock| clock.offset_ns as f64)),
            clock_error(shard),
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

/// The error of a clock. Without the drift it is not a bound.
fn clock_error(shard: &ShardReport) -> String {
    let error = milliseconds(shard.uncertainty_ns.map(|ns| ns as f64));
    let is_bound = shard.number == 1 || shard.clock_after.is_some();
    if is_bound || shard.uncertainty_ns.is_none() {
        error
    } else {
        format!("at least {error}")
    }
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
    let (missing, shards): (Vec<_>, Vec<_>) = record.merged.iter().partition(|shard| shard.missing);
    let Some((first, others)) = shards.split_first() else {
        return Vec::new();
    };
    let of = record.merged.len();
    let requests = |shard: &&MergedShard| {
        let number = shard.number;
        let part = Shard { number, of };
        record.units().share(part, record.dataset.requests)
    };
    let missing = (!missing.is_empty()).then(|| LogNotice::ShardsMissing {
        shards: missing.iter().map(|shard| shard.number).collect(),
        requests: missing.iter().map(requests).sum(),
        all_requests: record.dataset.requests,
    });
    let killed = shards
        .iter()
        .filter(|shard| shard.end.is_none())
        .map(|shard| killed(shard, record));
    let is_elsewhere = others.iter().any(|shard| shard.base_url != first.base_url);
    let addresses = is_elsewhere.then(|| {
        let address = |shard: &&MergedShard| ShardValue {
            shard: shard.number,
            value: shard.base_url.clone(),
        };
        LogNotice::ShardAddresses {
            addresses: shards.iter().map(address).collect(),
        }
    });
    let clocks = (!others.is_empty()).then(|| clocks(&shards));
    missing
        .into_iter()
        .chain(killed)
        .chain(addresses)
        .chain(apart(&shards))
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
        prepared: record.units().share(part, record.dataset.requests),
    }
}

/// Notice on shards that started at different times.
fn apart(shards: &[&MergedShard]) -> Option<LogNotice> {
    let last = shards
        .iter()
        .max_by_key(|shard| shard.begin_ns)
        .filter(|shard| shard.begin_ns > 0)?;
    Some(LogNotice::ShardsStartedApart {
        last_shard: last.number,
        after_s: last.begin_ns as f64 / 1e9,
    })
}

fn clocks(shards: &[&MergedShard]) -> LogNotice {
    let known: Option<Vec<(u64, usize)>> = shards
        .iter()
        .map(|shard| Some((shard.uncertainty_ns()?, shard.number)))
        .collect();
    match known.and_then(|known| known.into_iter().max_by_key(|(ns, _)| *ns)) {
        Some((ns, shard)) => LogNotice::ShardClocks {
            within_ms: ns as f64 / 1e6,
            shard,
            drift_unknown: {
                let unknown = shards.iter().filter(|shard| !shard.has_drift());
                unknown.map(|shard| shard.number).collect()
            },
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
            None if shard.missing => ShardEnding::Missing,
            None => ShardEnding::Killed,
            Some(end) if end.interrupted => ShardEnding::Interrupted,
            Some(end) if end.broken_off.is_some() => ShardEnding::GaveUp,
            Some(_) => ShardEnding::Whole,
        },
        client: shard_overhead(record, shard, samples, values),
    };
    record.merged.iter().map(report).collect()
}

/// The worst client overhead of all shards; it is unknown if that of a shard is.
pub(crate) fn worst_client(shards: &[ShardReport]) -> Option<ClientOverhead> {
    let clients = shards.iter().filter_map(|shard| shard.client.as_ref());
    let worst = clients.reduce(|worst, other| {
        if other.severity() > worst.severity() {
            other
        } else {
            worst
        }
    });
    let mut worst = worst.cloned()?;
    if shards.iter().any(|shard| shard.client.is_none()) {
        worst.verdict = worst.verdict.max(ClientVerdict::Unknown);
    }
    Some(worst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_plan::record::testing::record;

    fn shard(number: usize, clock_after: Option<ClockOffset>) -> MergedShard {
        MergedShard {
            number,
            requests: 1,
            base_url: "http://a".to_owned(),
            host: Host::default(),
            started_unix_ns: 0,
            begin_ns: 0,
            start: Start::Coordinator,
            clock_before: Some(CLOCK),
            clock_after,
            end: None,
            missing: false,
        }
    }

    const CLOCK: ClockOffset = ClockOffset {
        offset_ns: 0,
        uncertainty_ns: 40_000,
        exchanges: 32,
    };

    fn report(number: usize, client: Option<ClientVerdict>) -> ShardReport {
        ShardReport {
            number,
            requests: 1,
            base_url: String::new(),
            host: Host::default(),
            begin_s: 0.0,
            start: Start::Own,
            clock_before: Some(CLOCK),
            clock_after: None,
            uncertainty_ns: Some(40_000),
            end: ShardEnding::Whole,
            client: client.map(|verdict| ClientOverhead {
                verdict,
                ..ClientOverhead::default()
            }),
        }
    }

    #[test]
    fn an_unknown_client_is_not_trusted() {
        use ClientVerdict::{DoNotTrust, NotTheBottleneck, Unknown};
        for (clients, expected) in [
            (
                &[Some(NotTheBottleneck), Some(NotTheBottleneck)][..],
                Some(NotTheBottleneck),
            ),
            (&[Some(NotTheBottleneck), None], Some(Unknown)),
            (&[None, Some(DoNotTrust)], Some(DoNotTrust)),
            (&[Some(Unknown), Some(NotTheBottleneck)], Some(Unknown)),
            (&[None], None),
        ] {
            let shards: Vec<_> = clients.iter().map(|client| report(1, *client)).collect();
            let worst = worst_client(&shards).map(|client| client.verdict);
            assert_eq!(worst, expected, "{clients:?}");
        }
    }

    #[test]
    fn drift_is_included_only_where_it_was_measured() {
        let of = |shards: &[MergedShard]| clocks(&shards.iter().collect::<Vec<_>>()).to_string();
        let measured = of(&[shard(1, None), shard(2, Some(CLOCK))]);
        assert!(
            measured.ends_with(
                "within 0.040 ms (shard 2, the largest; including drift during the run)"
            ),
            "{measured}"
        );
        let unknown = of(&[shard(1, Some(CLOCK)), shard(2, None), shard(3, Some(CLOCK))]);
        assert!(
            unknown.ends_with("drift during the run not measured for shards: 2)"),
            "{unknown}"
        );
        let rows = |number| clock_error(&report(number, None));
        assert_eq!([rows(1), rows(2)], ["0.040", "at least 0.040"]);
    }

    #[test]
    fn missing_shards_are_one_notice() {
        let mut record = record();
        record.dataset.requests = 10;
        let missing = |number| MergedShard {
            missing: true,
            ..shard(number, None)
        };
        let mut whole = shard(1, Some(CLOCK));
        whole.end = Some(sobench_plan::record::ShardEnd {
            duration_ns: 1,
            cost: Default::default(),
            interrupted: false,
            broken_off: None,
        });
        record.merged = vec![whole, missing(2), missing(3)];
        let notices: Vec<String> = merged_notices(&record)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            notices,
            [
                "partial: the logs of shards are missing: 2, 3; 6 of 10 requests are not in the figures"
            ]
        );
    }
}
