//! The client's own part on the console, and the sentence on it. Knows no formula.

use super::Report;
use super::text::{count, figure};
use sobench_render::{Document, Table};
use sobench_results::metrics::client::{ClientPart, ClientVerdict, Doubt, Measure};

/// Adds the table under its title; nothing where nothing was measured.
pub(super) fn add(page: &mut Document, report: &Report, title: &str) {
    let Some(part) = &report.client else { return };
    let cost = &part.cost;
    let delay = |p: f64| part.own_delay_ms.at(p);
    let mut rows = vec![
        ("own delay, ready to sent: p50 / p99 / max (ms)", {
            let max = part.own_delay_ms.max;
            format!(
                "{} / {} / {}",
                figure(delay(50.0)),
                figure(delay(99.0)),
                figure(max)
            )
        }),
        (
            "rate, off what schedule and cap allowed (%)",
            figure(part.rate_deviation_percent),
        ),
        (
            "requests held back by the cap",
            part.held_by_cap.to_string(),
        ),
    ];
    if let Some(burst) = part.burst {
        rows.push((
            "ready at the begin: requests / last left after (ms)",
            format!("{} / {:.2}", burst.requests, burst.width_ms),
        ));
    }
    rows.extend([
        (
            "CPU (s) / of what its threads can have (%)",
            format!("{} / {}", figure(cost.cpu_s), figure(part.cpu_percent)),
        ),
        (
            "CPU per million output tokens (s)",
            figure(part.cpu_s_per_million_output_tokens),
        ),
        (
            "machine busy, by whomever (%)",
            figure(cost.machine_busy_percent),
        ),
        ("peak memory (MiB)", figure(cost.peak_memory_mib)),
        ("connections opened", count(cost.connections_opened)),
        (
            "of them while a request waited",
            count(cost.connections_waited_for),
        ),
    ]);
    // What this run or this system does not tell takes no line.
    rows.retain(|(_, value)| value.split(" / ").any(|figure| figure != "n/a"));
    page.heading(title);
    page.table(Table::of_names_and_values(rows));
    if cost.includes_server {
        page.paragraph("CPU and memory include the embedded server, which runs in this process");
    }
    if cost.other_runs > 0 {
        page.paragraph(format!(
            "CPU and memory include the other runs of this process at the same time: {}",
            cost.other_runs
        ));
    }
    page.paragraph(sentence(part));
}

/// The verdict in words, for console and stderr.
pub fn sentence(part: &ClientPart) -> String {
    match part.verdict {
        ClientVerdict::NotTheBottleneck if part.cost.includes_server => {
            "the client sent in time; how busy this machine was is not judged, since the embedded server is on it".to_owned()
        }
        ClientVerdict::NotTheBottleneck => "the client was not the bottleneck".to_owned(),
        ClientVerdict::DoNotTrust => {
            let doubts: Vec<String> = part.doubts.iter().map(words).collect();
            format!("do not trust these latencies: {}", doubts.join(", "))
        }
    }
}

fn words(doubt: &Doubt) -> String {
    let Doubt {
        measure,
        value,
        limit,
    } = doubt;
    match measure {
        Measure::OwnDelayP99Ms => format!(
            "the client sent late by its own doing, p99 {value:.1} ms (at most {limit:.1} ms)"
        ),
        Measure::BurstWidthMs => {
            format!("the burst took {value:.1} ms to leave (at most {limit:.1} ms)")
        }
        Measure::RateDeviationPercent => {
            format!("the sending rate was off by {value:.1} % (at most {limit:.1} %)")
        }
        Measure::CpuPercent => {
            format!("client CPU {value:.0} % of what its threads can have (at most {limit:.0} %)")
        }
        Measure::DisorderedRequests => {
            format!("{value:.0} requests have instants out of order (please report this)")
        }
        Measure::MachineBusyPercent => {
            format!("the machine was {value:.0} % busy (at most {limit:.0} %)")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_results::metrics::client::ClientCost;

    #[test]
    fn the_verdict_names_every_measure_that_is_past_its_bound() {
        let doubt = |measure, value, limit| Doubt {
            measure,
            value,
            limit,
        };
        let doubts = vec![
            doubt(Measure::OwnDelayP99Ms, 31.04, 2.0),
            doubt(Measure::BurstWidthMs, 80.0, 50.0),
            doubt(Measure::RateDeviationPercent, 1.26, 0.5),
            doubt(Measure::CpuPercent, 97.4, 85.0),
            doubt(Measure::MachineBusyPercent, 99.9, 90.0),
        ];
        let part = ClientPart {
            verdict: ClientVerdict::DoNotTrust,
            doubts,
            ..ClientPart::default()
        };
        assert_eq!(
            sentence(&part),
            "do not trust these latencies: the client sent late by its own doing, p99 31.0 ms (at most 2.0 ms), the burst took 80.0 ms \
             to leave (at most 50.0 ms), the sending rate was off by 1.3 % (at most 0.5 %), client CPU 97 % of what its threads can have (at most 85 %), \
             the machine was 100 % busy (at most 90 %)"
        );
        assert_eq!(
            sentence(&ClientPart::default()),
            "the client was not the bottleneck"
        );
        let cost = ClientCost {
            includes_server: true,
            ..ClientCost::default()
        };
        assert!(
            sentence(&ClientPart {
                cost,
                ..ClientPart::default()
            })
            .contains("not judged")
        );
    }
}
