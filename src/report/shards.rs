//! The shards of a load that several clients carried: what each did, how its clock agreed, whether it stood in the way. Knows no formula.

use serde::Serialize;
use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Modify, Style};

use super::Host;
use super::text::figure;
use crate::metrics::client::{ClientPart, ClientVerdict};
use crate::shard::{ClockAbout, Start};

/// One shard of a merged run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShardReport {
    /// From 1.
    pub number: usize,
    /// Requests of it that are in the figures.
    pub requests: usize,
    pub base_url: Option<String>,
    pub host: Host,
    /// When it began, in seconds from the begin of the run.
    pub begin_s: f64,
    pub start: Start,
    /// What its clock was off shard 1's before the run and after it; `None` where nobody measured it.
    pub clock_before: Option<ClockAbout>,
    pub clock_after: Option<ClockAbout>,
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
pub(super) fn table(shards: &[ShardReport]) -> Option<String> {
    shards.first()?;
    let mut builder = Builder::default();
    builder.push_record([
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
    ]);
    for shard in shards {
        let client = shard.client.as_ref();
        let delay = client.and_then(|it| it.own_delay_ms.percentiles.iter().find(|it| it.p == 99.0)?.value);
        builder.push_record([
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
    let mut table = builder.build();
    table.with(Style::psql()).with(Modify::new(Columns::new(1..9)).with(Alignment::right()));
    Some(table.to_string())
}

fn milliseconds(ns: Option<f64>) -> String {
    ns.map_or_else(|| "not measured".to_owned(), |ns| format!("{:.3}", ns / 1e6))
}
