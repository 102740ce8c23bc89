//! Tables of the channels of answers: timing, reasoning, and parity of streamed and whole answers.

use super::Report;
use super::accuracy::arm_name;
use super::tables::{percentile_cell, rate_cells};
use super::text::figure;
use sobench_core::printable::printable;
use sobench_render::{Document, Table};
use sobench_results::metrics::Metrics;
use sobench_results::metrics::registry::{Figure, Metric, latencies, rates, totals};
use sobench_results::metrics::stream_parity::{PartDifferences, StreamParity};

pub(crate) const TIMING: &str = "Timing by channel";
pub(crate) const REASONING: &str = "Reasoning by arm (answers)";
pub(crate) const PARITY: &str = "Streamed and whole answers that differ, by part";

/// Width of a column of excerpts.
const EXCERPT_WIDTH: usize = 30;

/// Characters at most of an excerpt.
const EXCERPT_MAX_CHARS: usize = 80;

/// The latencies of channels, in table order.
const LATENCIES: [&Metric; 7] = [
    &latencies::TTFT_REASONING,
    &latencies::TTFT_CONTENT,
    &latencies::TTFT_CALL,
    &latencies::ITL_REASONING,
    &latencies::ITL_CONTENT,
    &latencies::ITL_CALL,
    &latencies::DEAD_AIR,
];

/// The shares of late bytes, in table order.
const LATE: [&Metric; 3] = [
    &totals::LATE_REASONING,
    &totals::LATE_CONTENT,
    &totals::LATE_ARGUMENTS,
];

/// Adds every table that has rows to the full text report.
pub(crate) fn add(page: &mut Document, report: &Report) {
    page.titled_table(TIMING, timing(&report.metrics));
    page.titled_table(REASONING, reasoning(&report.metrics));
    if let Some(sentence) = token_sentence(&report.metrics) {
        page.paragraph(sentence);
    }
    if let Some(parity) = &report.metrics.stream_parity {
        page.heading("Stream parity");
        page.paragraph(parity_sentence(parity, &report.metrics));
        page.titled_table(PARITY, self::parity(&report.metrics));
    }
}

/// Timing by channel; `None` for answers with content only.
pub(crate) fn timing(metrics: &Metrics) -> Option<Table> {
    let values = &metrics.values;
    // Logs of older versions have the TTFT of the reasoning only.
    if !LATENCIES[1..]
        .iter()
        .any(|metric| values.get(metric).is_some())
    {
        return None;
    }
    let percentiles = &values.summary(&latencies::E2EL).percentiles;
    let names = percentiles
        .iter()
        .map(|percentile| format!("p{}", percentile.label()));
    let heads = ["", "n", "mean", "median"].map(str::to_owned);
    let mut table = Table::new(heads.into_iter().chain(names), 1);
    for metric in LATENCIES {
        let summary = values.summary(metric);
        if summary.n == 0 {
            continue;
        }
        let row = [
            Figure::new(metric).title(),
            summary.n.to_string(),
            figure(summary.mean),
            figure(summary.median),
        ];
        let percentiles =
            (0..summary.percentiles.len()).map(|place| percentile_cell(summary, place));
        table.row(row.into_iter().chain(percentiles));
    }
    for metric in LATE {
        if let Some(percent) = values.number(metric) {
            let row = [
                Figure::new(metric).title(),
                String::new(),
                figure(Some(percent)),
            ];
            let none = (0..=percentiles.len()).map(|_| String::new());
            table.row(row.into_iter().chain(none));
        }
    }
    table.non_empty()
}

/// Reasoning by arm; `None` without reasoning.
pub(crate) fn reasoning(metrics: &Metrics) -> Option<Table> {
    let reasoning = metrics.reasoning.as_ref()?;
    let rates = [
        &rates::REASONED,
        &rates::THINKING_BUDGET,
        &rates::JSON_IN_REASONING,
        &rates::END_MARKER,
        &rates::THINKING_SUPPRESSED,
    ];
    let rows = rates.into_iter().flat_map(|metric| {
        reasoning.arms.iter().filter_map(move |of_arm| {
            let rate = metrics.rate(Figure::of(metric, Some(of_arm.arm)))?;
            let arm = arm_name(metrics, of_arm.arm);
            let [name, percent, interval, count, _] = rate_cells(metric.label, Some(rate), "");
            Some([name, arm.to_owned(), percent, interval, count])
        })
    });
    let table = Table::new(["rate", "arm", "%", "95 % interval", "count"], 2);
    table.with_rows(rows).non_empty()
}

/// Reasoning tokens with and without the constraint.
pub(crate) fn token_sentence(metrics: &Metrics) -> Option<String> {
    let reasoning = metrics.reasoning.as_ref()?;
    let arms: Vec<String> = reasoning
        .arms
        .iter()
        .filter_map(|arm| {
            let name = arm_name(metrics, arm.arm);
            Some(format!("{name} {:.1}", arm.mean_tokens?))
        })
        .collect();
    if arms.is_empty() {
        return None;
    }
    let difference = reasoning.tokens.map_or_else(String::new, |found| {
        let Some((low, high)) = found.low.zip(found.high) else {
            return "; too few values for a difference".to_owned();
        };
        let pairs = if found.is_paired() {
            format!(" over {} pairs", found.n)
        } else {
            String::new()
        };
        format!(
            "; difference {:+.1} (95 % interval {low:.1} to {high:.1}){pairs}",
            found.difference
        )
    });
    Some(format!(
        "mean reasoning tokens of answers: {}{difference}",
        arms.join(", ")
    ))
}

/// The results of requests that were sent again.
pub(crate) fn parity_sentence(parity: &StreamParity, metrics: &Metrics) -> String {
    let StreamParity {
        requests,
        equal,
        different,
        not_deterministic,
        repeat_equals_whole,
        unconfirmed,
        not_compared,
        ..
    } = *parity;
    let mut parts = vec![format!("{equal} equal"), format!("{different} different")];
    if not_deterministic > 0 {
        let intermittent = match repeat_equals_whole {
            0 => String::new(),
            count => format!(" (of {count} the stream sent again equals the whole answer)"),
        };
        parts.push(format!(
            "{not_deterministic} undecided because the server is not deterministic{intermittent}"
        ));
    }
    for (count, name) in [
        (unconfirmed, "different and not confirmed"),
        (not_compared, "without two answers"),
    ] {
        if count > 0 {
            parts.push(format!("{count} {name}"));
        }
    }
    let what: Vec<String> = parity
        .by_part
        .iter()
        .filter(|found| found.different > 0)
        .map(|found| format!("{} {}", found.part.label(), found.different))
        .collect();
    let what = if what.is_empty() {
        String::new()
    } else {
        format!("; what differs: {}", what.join(", "))
    };
    let rate = metrics.values.rate(&rates::STREAM_PARITY);
    let rate = rate.map_or_else(String::new, |rate| {
        format!(
            "; parity {:.2} % (95 % interval {:.2} to {:.2})",
            rate.percent, rate.low_percent, rate.high_percent
        )
    });
    format!(
        "of {requests} answers, streamed and whole: {}{what}{rate}",
        parts.join(", ")
    )
}

/// What differs between streamed and whole answers; `None` if nothing does.
pub(crate) fn parity(metrics: &Metrics) -> Option<Table> {
    let parity = metrics.stream_parity.as_ref()?;
    let heads = [
        "part",
        "different",
        "undecided",
        "byte",
        "first in",
        "streamed",
        "whole",
    ];
    Table::new(heads, 1)
        .left_aligned(4)
        .left_aligned(5)
        .left_aligned(6)
        .wrapped(5, EXCERPT_WIDTH)
        .wrapped(6, EXCERPT_WIDTH)
        .with_rows(parity.by_part.iter().map(part_row))
        .non_empty()
}

fn part_row(found: &PartDifferences) -> [String; 7] {
    let first = &found.first;
    let call = first
        .call
        .map_or_else(String::new, |call| format!(", call {}", call + 1));
    let shown = |text: &str| printable(text, EXCERPT_MAX_CHARS);
    [
        found.part.label().to_owned(),
        found.different.to_string(),
        found.undecided.to_string(),
        first.byte.map_or_else(String::new, |byte| byte.to_string()),
        format!("{}{call}", shown(&found.first_case)),
        shown(&first.streamed),
        shown(&first.whole),
    ]
}
