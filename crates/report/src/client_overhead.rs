//! Client overhead: its tables, and the verdict in a sentence.

use super::Report;
use super::text::{count, figure};
use sobench_plan::record::RunRecord;
use sobench_render::{Document, Table};
use sobench_results::metrics::client_overhead::{
    Bound, ClientOverhead, ClientVerdict, MAX_SHARE, MIN_LIMIT_MS, MIN_VALUES,
};

/// Adds the table with its title; nothing where nothing was measured.
pub(super) fn add(page: &mut Document, report: &Report, title: &str) {
    let Some(part) = &report.client else { return };
    let cost = &part.cost;
    let delay = |p: f64| part.send_delay_ms.at(p);
    let mut rows = vec![
        ("send delay (ready to sent): p50 / p99 / max (ms)", {
            let max = part.send_delay_ms.max;
            format!(
                "{} / {} / {}",
                figure(delay(50.0)),
                figure(delay(99.0)),
                figure(max)
            )
        }),
        (
            "send rate, deviation from schedule and cap (%)",
            figure(part.rate_deviation_percent),
        ),
        (
            "requests delayed by the concurrency cap",
            part.held_by_cap.to_string(),
        ),
    ];
    if let Some(burst) = part.burst {
        rows.push((
            "first burst: requests / sent within (ms)",
            format!("{} / {:.2}", burst.requests, burst.width_ms),
        ));
    }
    rows.extend([
        (
            "client CPU (s) / share of its threads (%)",
            format!("{} / {}", figure(cost.cpu_s), figure(part.cpu_percent)),
        ),
        (
            "CPU per million output tokens (s)",
            figure(part.cpu_s_per_million_output_tokens),
        ),
        (
            "machine CPU, all processes (%)",
            figure(cost.machine_busy_percent),
        ),
        ("peak memory (MiB)", figure(cost.peak_memory_mib)),
        ("connections opened", count(cost.connections_opened)),
        (
            "connections that a request waited for",
            count(cost.connections_waited_for),
        ),
    ]);
    // Rows without a known value are left out.
    rows.retain(|(_, value)| value.split(" / ").any(|figure| figure != "n/a"));
    page.heading(title);
    page.table(Table::from_pairs(rows));
    if cost.includes_server {
        page.paragraph("CPU and memory include the embedded server, which runs in this process");
    }
    if cost.other_runs > 0 {
        page.paragraph(format!(
            "CPU and memory include the concurrent runs of this process: {}",
            cost.other_runs
        ));
    }
    page.paragraph(format!(
        "{}{}",
        sentence_of(report, part),
        shared_machine_note(&report.record)
    ));
    page.titled_table("Bounds of the client's part", bounds_table(part));
}

/// The bounds of all figures.
fn bounds_table(part: &ClientOverhead) -> Option<Table> {
    let heads = ["figure", "value", "client may have added", "limit", ""];
    let mut table = Table::new(heads, 1).left_aligned(4);
    for bound in part.bounds.iter() {
        let Some(added) = bound.added else { continue };
        let status = if bound.distrusted { "not trusted" } else { "" };
        table.row([
            format!("{} ({})", bound.figure, bound.figure.metric.unit.name()),
            format!("{:.3}", bound.value),
            format!("{added:.3}"),
            format!("{:.3}", bound.limit()),
            status.to_owned(),
        ]);
    }
    table.non_empty()
}

/// The line of the summary.
pub(super) fn summary(report: &Report) -> String {
    let Some(part) = &report.client else {
        return "not measured".to_owned();
    };
    let note = shared_machine_note(&report.record);
    match part.verdict {
        // A note that is cut off at the end of the line is of no use.
        ClientVerdict::DoNotTrust if !part.is_too_short() => {
            format!("{NOT_TRUSTED}: {}", reasons(part, 1))
        }
        ClientVerdict::NotTheBottleneck => format!("trusted{note}"),
        _ => format!("{}{note}", sentence_of(report, part)),
    }
}

/// Whether the figures of a report are trusted, and why not. A shard that was killed has no client
/// figures.
pub(super) fn sentence_of(report: &Report, part: &ClientOverhead) -> String {
    let shards = report.shards.iter().filter(|shard| shard.client.is_none());
    let unknown: Vec<String> = shards.map(|shard| shard.number.to_string()).collect();
    match part.verdict {
        ClientVerdict::Unknown if !unknown.is_empty() => {
            format!(
                "unknown: shards without client figures: {}",
                unknown.join(", ")
            )
        }
        _ => sentence(part),
    }
}

/// Whether the figures are trusted, and why not.
pub fn sentence(part: &ClientOverhead) -> String {
    match part.verdict {
        ClientVerdict::NotTheBottleneck => {
            let percent = 100.0 * MAX_SHARE;
            format!(
                "trusted: the client can have added at most {percent:.0} % or {MIN_LIMIT_MS} ms to any figure"
            )
        }
        ClientVerdict::Unknown => UNKNOWN.to_owned(),
        ClientVerdict::DoNotTrust if part.is_too_short() => {
            format!("not judged: the run is too short (fewer than {MIN_VALUES} requests)")
        }
        ClientVerdict::DoNotTrust => format!("{NOT_TRUSTED}: {}", reasons(part, MAX_REASONS)),
    }
}

const NOT_TRUSTED: &str = "some figures are not trusted";
const UNKNOWN: &str = "unknown: the wait of packets was not measured";

/// Figures that [`sentence`] names.
const MAX_REASONS: usize = 3;

/// Why figures are not trusted: for each of `max` metrics the figure that exceeds its limit most.
pub fn reasons(part: &ClientOverhead, max: usize) -> String {
    // Rounded: throughputs have the same ratio, but for the last digits of a float. The sort keeps
    // the order of such figures.
    let ratio = |bound: &Bound| (1e6 * bound.added.unwrap_or_default() / bound.limit()).round();
    let mut distrusted: Vec<&Bound> = part.bounds.distrusted().collect();
    distrusted.sort_by(|a, b| ratio(b).total_cmp(&ratio(a)));
    let mut named: Vec<&Bound> = Vec::new();
    for bound in &distrusted {
        let is_new = named
            .iter()
            .all(|other| other.figure.metric != bound.figure.metric);
        if is_new && named.len() < max {
            named.push(bound);
        }
    }
    let clock = (part.disordered > 0).then(|| {
        format!(
            "{} requests have timestamps out of order or all the same (please report this)",
            part.disordered
        )
    });
    let more = match distrusted.len() - named.len() {
        0 => None,
        1 => Some("1 more figure".to_owned()),
        count => Some(format!("{count} more figures")),
    };
    let named = named.iter().map(ToString::to_string);
    let reasons: Vec<String> = clock.into_iter().chain(named).chain(more).collect();
    reasons.join("; ")
}

/// For the end of a sentence.
fn shared_machine_note(record: &RunRecord) -> &'static str {
    if record.server.is_on_this_machine() {
        "; server and client share this machine"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use sobench_results::metrics::client_overhead::{Bounds, Burst};

    #[test]
    fn the_worst_figure_of_each_metric_is_named() {
        let bounds: Bounds = serde_json::from_value(json!([
            {"figure": "mean_ttft_ms", "value": 15.0, "added": 2.0},
            {"figure": "p99_ttft_ms", "value": 20.1, "added": 3.21},
            {"figure": "mean_itl_ms", "value": 1.0, "added": 0.124},
            {"figure": "mean_e2el_ms", "value": 100.0, "added": 9.0},
            {"figure": "request_throughput", "value": 50.0, "added": 10.0},
        ]))
        .unwrap();
        let part = |requests: usize| ClientOverhead {
            verdict: ClientVerdict::DoNotTrust,
            bounds: bounds.clone(),
            burst: Some(Burst {
                requests,
                width_ms: 1.0,
            }),
            ..ClientOverhead::default()
        };
        assert_eq!(
            sentence(&part(9)),
            "not judged: the run is too short (fewer than 10 requests)"
        );
        let mut disordered = part(9);
        disordered.disordered = 1;
        assert!(sentence(&disordered).contains("1 requests have timestamps"));
        let part = part(10);
        assert_eq!(
            sentence(&part),
            "some figures are not trusted: Request throughput: client may have cost up to 20.0 %; TTFT p99: client may \
             have added up to 3.2 of 20.1 ms; ITL mean: client may have added up to 0.12 of 1.00 ms; \
             1 more figure"
        );
        assert_eq!(
            reasons(&part, 1),
            "Request throughput: client may have cost up to 20.0 %; 3 more figures"
        );
        assert_eq!(
            sentence(&ClientOverhead::default()),
            "trusted: the client can have added at most 10 % or 0.1 ms to any figure"
        );
    }
}
