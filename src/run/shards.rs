//! What a report says of shards: of the part that one log is of, and of the parts that a log was merged from. Knows no server and no clock.

use crate::metrics::Sample;
use crate::metrics::client::ClientPart;
use crate::report::shards::{ShardEnding, ShardReport};
use crate::runlog::{Header, MergedShard};
use crate::shard::Shard;

/// What the reader has to know of figures that are of a part.
pub(super) fn part_notice(header: &Header) -> Option<String> {
    let shard = header.shard.as_ref()?;
    let (own, all) = (header.own_requests(), header.load.requests);
    Some(format!(
        "shard {} of {}: {own} of {all} requests, and every figure is of this part alone: rate, throughput and cap are its own, and which \
         uses of a constraint were the first is not known of a part; sobench merge makes one run of the logs of all shards",
        shard.number, shard.of
    ))
}

/// What the reader has to know of a log that was merged.
pub(super) fn merged_notices(header: &Header) -> Vec<String> {
    let shards = &header.merged[..];
    let Some((first, others)) = shards.split_first() else { return Vec::new() };
    let killed = shards.iter().filter(|shard| shard.end.is_none()).map(|shard| killed(shard, header));
    let is_elsewhere = others.iter().any(|shard| shard.base_url != first.base_url);
    let addresses = is_elsewhere.then(|| {
        let name = |shard: &MergedShard| format!("{} (shard {})", shard.base_url.as_deref().unwrap_or("unknown"), shard.number);
        format!("the shards sent to different addresses: {}", shards.iter().map(name).collect::<Vec<_>>().join(", "))
    });
    killed.chain(addresses).chain(apart(shards)).chain((!others.is_empty()).then(|| clocks(shards))).collect()
}

fn killed(shard: &MergedShard, header: &Header) -> String {
    let part = Shard { number: shard.number, of: header.merged.len() };
    format!(
        "partial: the log of shard {} has no end, as of a run that was killed; {} of its {} requests had ended, what was under way is lost, \
         and of its client's own part nothing is known",
        shard.number,
        shard.requests,
        part.share(header.load.requests)
    )
}

/// Shards that did not begin together.
fn apart(shards: &[MergedShard]) -> Option<String> {
    let last = shards.iter().max_by_key(|shard| shard.begin_ns).filter(|shard| shard.begin_ns > 0)?;
    Some(format!(
        "the shards did not begin at one instant: shard {} began {:.3} s after the first, and its requests were due so much later; the load \
         was not quite the plan's (--coordinator and --start-at give a common begin)",
        last.number,
        last.begin_ns as f64 / 1e9
    ))
}

fn clocks(shards: &[MergedShard]) -> String {
    let known: Option<Vec<(u64, usize)>> = shards.iter().map(|it| Some((it.uncertainty_ns()?, it.number))).collect();
    match known.and_then(|known| known.into_iter().max_by_key(|(ns, _)| *ns)) {
        Some((ns, number)) => format!(
            "the clocks of the shards were measured against shard 1's: instants of different shards are comparable within {:.3} ms (shard \
             {number}, the largest; drift during the run included)",
            ns as f64 / 1e6
        ),
        None => "the clocks of the shards were not measured against each other, which --coordinator does: what compares instants of different \
             shards, such as peak concurrency and tokens in one second, is as good as the clocks of their machines"
            .to_owned(),
    }
}

/// Each shard of a merged log with its client's part in the figures.
pub(super) fn reports(header: &Header, samples: &[Sample<'_>]) -> Vec<ShardReport> {
    let of = header.merged.len();
    let report = |shard: &MergedShard| {
        let part = Shard { number: shard.number, of };
        let own: Vec<Sample<'_>> = samples.iter().filter(|it| part.takes(it.case_index())).copied().collect();
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
            client: shard.end.as_ref().map(|end| ClientPart::of(&own, &header.metrics, end.cost, shard.begin_ns)),
        }
    };
    header.merged.iter().map(report).collect()
}

/// The worst of the clients: one that stood in the way makes the figures of all what they are.
pub(super) fn worst_client(shards: &[ShardReport]) -> Option<ClientPart> {
    let clients = shards.iter().filter_map(|shard| shard.client.as_ref());
    let worst = clients.reduce(|worst, other| if other.severity() > worst.severity() { other } else { worst });
    worst.cloned()
}
