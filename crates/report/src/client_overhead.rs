//! Client overhead: its table, and its verdict in a sentence.

use super::Report;
use super::text::{count, figure};
use sobench_render::{Document, Table};
use sobench_results::metrics::client_overhead::{
    ClientOverhead, ClientVerdict, ExceededLimit, Measure,
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
    page.paragraph(sentence(part));
}

/// Whether the latencies are trusted, and why, in one line.
pub(super) fn summary(part: &ClientOverhead) -> String {
    if part.verdict == ClientVerdict::DoNotTrust {
        let doubts: Vec<String> = part.exceeded.iter().map(short_doubt).collect();
        return format!("not trusted: {}", doubts.join(", "));
    }
    let measured = [
        part.send_delay_ms
            .at(99.0)
            .map(|delay_ms| format!("send delay p99 {delay_ms:.2} ms")),
        part.burst
            .filter(|burst| burst.requests > 1)
            .map(|burst| format!("first burst sent within {:.2} ms", burst.width_ms)),
        part.cpu_percent
            .filter(|_| !part.cost.includes_server)
            .map(|percent| format!("CPU {percent:.0} %")),
        part.cost
            .includes_server
            .then(|| "CPU not judged (shared with the embedded server)".to_owned()),
    ];
    let measured: Vec<String> = measured.into_iter().flatten().collect();
    if measured.is_empty() {
        "trusted".to_owned()
    } else {
        format!("trusted: {}", measured.join(", "))
    }
}

fn short_doubt(doubt: &ExceededLimit) -> String {
    let ExceededLimit {
        measure,
        value,
        limit,
    } = doubt;
    match measure {
        Measure::SendDelayP99Ms => format!("send delay p99 {value:.1} ms > {limit:.1} ms"),
        Measure::BurstWidthMs => format!("first burst {value:.1} ms > {limit:.1} ms"),
        Measure::RateDeviationPercent => format!("send rate off {value:.1} % > {limit:.1} %"),
        Measure::CpuPercent => format!("client CPU {value:.0} % > {limit:.0} %"),
        Measure::DisorderedRequests => format!("{value:.0} timestamps out of order"),
        Measure::MachineBusyPercent => format!("machine CPU {value:.0} % > {limit:.0} %"),
    }
}

/// The verdict as a sentence.
pub fn sentence(part: &ClientOverhead) -> String {
    match part.verdict {
        ClientVerdict::NotTheBottleneck if part.cost.includes_server => {
            "the client sent on time; its CPU load is not judged, because the embedded server shares this machine".to_owned()
        }
        ClientVerdict::NotTheBottleneck => "client overhead is negligible".to_owned(),
        ClientVerdict::DoNotTrust => {
            let doubts: Vec<String> = part.exceeded.iter().map(doubt_text).collect();
            format!("do not trust these latencies: {}", doubts.join(", "))
        }
    }
}

fn doubt_text(doubt: &ExceededLimit) -> String {
    let ExceededLimit {
        measure,
        value,
        limit,
    } = doubt;
    match measure {
        Measure::SendDelayP99Ms => {
            format!("client send delay p99 {value:.1} ms (limit {limit:.1} ms)")
        }
        Measure::BurstWidthMs => {
            format!("first burst sent within {value:.1} ms (limit {limit:.1} ms)")
        }
        Measure::RateDeviationPercent => {
            format!("send rate off by {value:.1} % (limit {limit:.1} %)")
        }
        Measure::CpuPercent => format!("client CPU {value:.0} % (limit {limit:.0} %)"),
        Measure::DisorderedRequests => {
            format!("{value:.0} requests have timestamps out of order (please report this)")
        }
        Measure::MachineBusyPercent => {
            format!("machine CPU {value:.0} % busy (limit {limit:.0} %)")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_results::metrics::client_overhead::ClientCost;

    #[test]
    fn the_verdict_names_every_exceeded_limit() {
        let doubt = |measure, value, limit| ExceededLimit {
            measure,
            value,
            limit,
        };
        let doubts = vec![
            doubt(Measure::SendDelayP99Ms, 31.04, 2.0),
            doubt(Measure::BurstWidthMs, 80.0, 50.0),
            doubt(Measure::RateDeviationPercent, 1.26, 0.5),
            doubt(Measure::CpuPercent, 97.4, 85.0),
            doubt(Measure::MachineBusyPercent, 99.9, 90.0),
        ];
        let part = ClientOverhead {
            verdict: ClientVerdict::DoNotTrust,
            exceeded: doubts,
            ..ClientOverhead::default()
        };
        assert_eq!(
            sentence(&part),
            "do not trust these latencies: client send delay p99 31.0 ms (limit 2.0 ms), first burst sent \
             within 80.0 ms (limit 50.0 ms), send rate off by 1.3 % (limit 0.5 %), client CPU 97 % \
             (limit 85 %), machine CPU 100 % busy (limit 90 %)"
        );
        assert_eq!(
            sentence(&ClientOverhead::default()),
            "client overhead is negligible"
        );
        let cost = ClientCost {
            includes_server: true,
            ..ClientCost::default()
        };
        assert!(
            sentence(&ClientOverhead {
                cost,
                ..ClientOverhead::default()
            })
            .contains("not judged")
        );
    }
}
