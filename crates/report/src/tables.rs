//! The tables of the full text report, in reading order.

use super::text::figure;
use super::{Report, confidence};
use sobench_core::case::Arm;
use sobench_core::printable::printable;
use sobench_core::verdict::NotScored;
use sobench_render::{Document, Table};
use sobench_results::metrics::examples::{Example, Group};
use sobench_results::metrics::quality::Quality;
use sobench_results::metrics::{Answers, ArmMetrics, LatencyMetric, Metrics, registry};
use sobench_statistics::{Percentile, Rate, Summary};

/// Width of a column of group names.
const NAME_WIDTH: usize = 16;

/// Width of a column of examples.
const EXAMPLE_WIDTH: usize = 44;

/// Characters at most of an answer, and of a message, in an example.
const EXAMPLE_MAX_CHARS: usize = 160;

/// Column heads of the rates.
pub const RATE_COLUMNS: [&str; 5] = ["rate", "%", "95 % interval", "count", "of what"];

const CLIENT_OVERHEAD: &str = "Client overhead";
const WORST_CLIENT_OVERHEAD: &str = "Client overhead of the worst shard";

/// Adds every table that has rows, with its title.
pub(crate) fn add_all(page: &mut Document, report: &Report) {
    let quality = &report.metrics.quality;
    page.titled_table("Answer quality", is_judged(report).then(|| rates(quality)));
    page.titled_table(
        "Invalid constrained answers by reason (share of constrained requests)",
        reasons(quality),
    );
    page.titled_table(
        "Constrained requests without a verdict (share of constrained requests)",
        unjudged(quality),
    );
    page.titled_table(
        "Failed requests by outcome, all arms (share of all requests)",
        groups(
            &report.metrics.failures,
            "outcome",
            report.metrics.overall.requests,
        ),
    );
    page.titled_table(
        "Disagreements with the vLLM script's formula (share of scored requests)",
        disagreements(quality),
    );
    add_reasoning(page, report);
    page.titled_table("By arm", arms(report));
    page.titled_table("By dataset", parts(report));
    page.titled_table(confidence::TITLE, confidence::table(report));
    add_schedule(page, report);
    page.titled_table(
        "Other metrics",
        metrics_table(&report.metrics, registry::Page::Console).non_empty(),
    );
    super::client_overhead::add(
        page,
        report,
        if report.shards.is_empty() {
            CLIENT_OVERHEAD
        } else {
            WORST_CLIENT_OVERHEAD
        },
    );
    page.titled_table("Shards", super::shards::table(&report.shards));
    if let Some(load) = &report.load {
        load.add_tables(page, &report.record);
    }
}

/// Whether requests have constraints, sent or not, that answers are judged by.
pub(crate) fn is_judged(report: &Report) -> bool {
    let arms = &report.metrics.arms;
    arms.constrained.is_some() || arms.control.is_some() || arms.free.is_none()
}

/// The table of the rates.
pub(crate) fn rates(quality: &Quality) -> Table {
    Table::new(RATE_COLUMNS, 1)
        .left_aligned(4)
        .with_rows(rate_rows(quality))
}

/// Every rate with its interval, under [`RATE_COLUMNS`].
pub(crate) fn rate_rows(quality: &Quality) -> Vec<[String; 5]> {
    let constrained = quality.constrained;
    let share = |hits: usize| Rate::new(hits, constrained);
    let judged = if quality.judged == constrained {
        "valid, of constrained"
    } else {
        "valid, of constrained, judged"
    };
    let mut rows = Vec::new();
    let mut push =
        |name: &str, rate: Option<Rate>, of_what: &str| rows.push(rate_cells(name, rate, of_what));
    push("correct rate", quality.correct_rate, judged);
    push(
        "compliance",
        quality.compliance,
        "valid, of answers that ended",
    );
    push("coverage", quality.coverage, "accepted by the server");
    push(
        "control rate",
        quality.control_rate,
        "valid, of unconstrained",
    );
    if quality.right_calls.is_some() {
        push(
            "right calls",
            quality.right_calls,
            "as the reference, of constrained",
        );
    }
    push(
        "truncated",
        share(quality.truncated),
        "constrained, cut at the token limit",
    );
    push(
        "refused",
        share(quality.refused),
        "constrained, by the server",
    );
    if quality.overloaded > 0 {
        push(
            "refused for load",
            share(quality.overloaded),
            "constrained, by status 429",
        );
    }
    push(
        "failed",
        share(quality.failed),
        "constrained, no complete answer",
    );
    if quality.cancelled > 0 {
        push(
            "cancelled",
            share(quality.cancelled),
            "constrained, the run stopped",
        );
    }
    if quality.not_sent > 0 {
        push(
            "not sent",
            share(quality.not_sent),
            "constrained, no local connection",
        );
    }
    push(
        "not judged",
        share(quality.unjudged()),
        "constrained, in no rate",
    );
    let script = if quality.vllm.correct_rate.is_some() {
        "its script, all arms"
    } else {
        "its script scores none"
    };
    push("vLLM's formula", quality.vllm.correct_rate, script);
    rows
}

pub fn rate_cells(name: &str, rate: Option<Rate>, of_what: &str) -> [String; 5] {
    let (percent, interval, count) = match rate {
        Some(rate) => (
            format!("{:.2}", rate.percent),
            format!("{:.2} to {:.2}", rate.low_percent, rate.high_percent),
            format!("{}/{}", rate.hits, rate.of),
        ),
        None => ("n/a".to_owned(), String::new(), "none".to_owned()),
    };
    [
        name.to_owned(),
        percent,
        interval,
        count,
        of_what.to_owned(),
    ]
}

pub fn reasons(quality: &Quality) -> Option<Table> {
    groups(&quality.reasons, "reason", quality.constrained)
}

/// Requests without a verdict that the correct rate leaves out. Refused, failed, cancelled and
/// unsent requests are in the table of failed requests.
pub fn unjudged(quality: &Quality) -> Option<Table> {
    let elsewhere = [
        NotScored::Refused,
        NotScored::Failed,
        NotScored::Cancelled,
        NotScored::NotSent,
    ]
    .map(|reason| reason.name());
    let unjudged: Vec<Group> = quality
        .not_scored
        .iter()
        .filter(|group| !elsewhere.contains(&group.name))
        .cloned()
        .collect();
    groups(&unjudged, "why", quality.constrained)
}

pub fn disagreements(quality: &Quality) -> Option<Table> {
    let only_script = Group {
        name: "valid for the script only",
        ..quality.vllm.only_script.clone()
    };
    let only_ours = Group {
        name: "valid for sobench only",
        ..quality.vllm.only_ours.clone()
    };
    let differing: Vec<Group> = [only_script, only_ours]
        .into_iter()
        .filter(|group| group.count > 0)
        .collect();
    groups(
        &differing,
        "answers",
        quality.vllm.correct_rate.map_or(0, |rate| rate.of),
    )
}

/// A table of groups with one example each; `None` without groups.
pub fn groups(groups: &[Group], name: &str, whole: usize) -> Option<Table> {
    let row = |group: &Group| {
        let share = figure(Rate::new(group.count, whole).map(|rate| rate.percent));
        let example = group.examples.first().map(example).unwrap_or_default();
        [
            group.name.to_owned(),
            group.count.to_string(),
            share,
            example,
        ]
    };
    Table::new([name, "count", "share %", "first example"], 1)
        .left_aligned(3)
        .wrapped(0, NAME_WIDTH)
        .wrapped(3, EXAMPLE_WIDTH)
        .with_rows(groups.iter().map(row))
        .non_empty()
}

/// The case, the answer, and the error, one line each.
fn example(excerpt: &Example) -> String {
    let case = printable(&excerpt.case_id, EXAMPLE_MAX_CHARS);
    let message = printable(&excerpt.message, EXAMPLE_MAX_CHARS);
    let arm = match excerpt.arm {
        Arm::Constrained => "",
        Arm::Control => " (control arm)",
        Arm::Free => " (without constraint)",
    };
    let mut first = vec![format!("{case}{arm}")];
    first.extend(
        excerpt
            .finish_reason
            .as_deref()
            .map(|reason| format!("finish reason {}", printable(reason, EXAMPLE_MAX_CHARS))),
    );
    first.extend((excerpt.text_bytes > 0).then(|| format!("{} bytes", excerpt.text_bytes)));
    let mut lines = vec![first.join(", ")];
    if excerpt.text_bytes > 0 {
        let cut = if excerpt.text.len() < excerpt.text_bytes {
            "…"
        } else {
            ""
        };
        let text = printable(&excerpt.text, EXAMPLE_MAX_CHARS);
        lines.push(if text.ends_with('…') {
            text
        } else {
            text + cut
        });
    }
    if !message.is_empty() {
        lines.push(format!("-> {message}"));
    }
    lines.join("\n")
}

/// The arms side by side; `None` where the constrained arm is the only one, or answers are
/// computed.
fn arms(report: &Report) -> Option<Table> {
    let arms: Vec<(&str, &ArmMetrics)> = report.metrics.arms.iter().collect();
    let is_alone = arms.iter().all(|(name, _)| *name == "constrained")
        || report.metrics.options.answers == Answers::Computed;
    if is_alone {
        return None;
    }
    Some(columns(report, "arm", &arms, &[]))
}

/// A rate of a quality.
type RateOf = fn(&Quality) -> Option<Rate>;

/// The datasets of a mix side by side; `None` without a mix.
fn parts(report: &Report) -> Option<Table> {
    if report.parts.is_empty() {
        return None;
    }
    let percent = |rate: Option<Rate>| {
        rate.map_or_else(
            || "n/a".to_owned(),
            |rate| format!("{:.2} ({}/{})", rate.percent, rate.hits, rate.of),
        )
    };
    let quality: [(&str, RateOf); 2] = [
        ("correct %", |quality| quality.correct_rate),
        ("compliance %", |quality| quality.compliance),
    ];
    let rows = quality.map(|(name, rate)| {
        std::iter::once(name.to_owned())
            .chain(report.parts.iter().map(|part| percent(rate(&part.quality))))
            .collect()
    });
    let datasets: Vec<(&str, &ArmMetrics)> = report
        .parts
        .iter()
        .map(|part| (part.name.as_str(), &part.metrics))
        .collect();
    Some(columns(report, "dataset", &datasets, &rows))
}

/// Groups of requests side by side, one column each, with the rows of `more` at the end.
fn columns(
    report: &Report,
    head: &str,
    arms: &[(&str, &ArmMetrics)],
    more: &[Vec<String>],
) -> Table {
    let mut table = Table::new(
        std::iter::once(head).chain(arms.iter().map(|(name, _)| *name)),
        1,
    );
    let mut push = |name: String, cell: &dyn Fn(&ArmMetrics) -> String| {
        table.row(std::iter::once(name).chain(arms.iter().map(|(_, arm)| cell(arm))));
    };
    push("requests".to_owned(), &|arm| arm.requests.to_string());
    push("answers".to_owned(), &|arm| arm.completed.to_string());
    push("truncated".to_owned(), &|arm| arm.truncated.to_string());
    push("refused or failed".to_owned(), &|arm| {
        arm.failed.to_string()
    });
    for metric in [
        LatencyMetric::Ttft,
        LatencyMetric::Tpot,
        LatencyMetric::E2el,
    ] {
        let name = metric.label();
        push(format!("{name} mean (ms)"), &|arm| {
            figure(arm.latency.summary(metric).mean)
        });
        push(format!("{name} median (ms)"), &|arm| {
            figure(arm.latency.summary(metric).median)
        });
        for (place, percentile) in report
            .metrics
            .overall
            .latency
            .summary(metric)
            .percentiles
            .iter()
            .enumerate()
        {
            push(format!("{name} p{} (ms)", percentile.label()), &|arm| {
                percentile_cell(arm.latency.summary(metric), place)
            });
        }
    }
    push("output tok/s".to_owned(), &|arm| {
        figure(arm.throughput.output_throughput)
    });
    more.iter().for_each(|row| table.row(row));
    table
}

/// Adds TTFT of reasoning and of answers; nothing without reasoning.
fn add_reasoning(page: &mut Document, report: &Report) {
    let Some(reasoning) = &report.metrics.overall.latency.reasoning else {
        return;
    };
    page.heading("Reasoning");
    page.table(summaries(&[
        ("TTFT of the reasoning (ms)", &reasoning.ttft_reasoning_ms),
        ("TTFT of the answer (ms)", &reasoning.ttft_answer_ms),
    ]));
    let (answers, alone) = (reasoning.answers, reasoning.without_answer);
    page.paragraph(format!(
        "answers with reasoning: {answers}, with reasoning only: {alone}"
    ));
}

/// Every metric that has a value.
pub(crate) fn all_metrics(metrics: &Metrics) -> Table {
    metrics_table(metrics, registry::Page::Whole)
}

fn metrics_table(metrics: &Metrics, page: registry::Page) -> Table {
    Table::new(registry::ROW_COLUMNS, 1)
        .left_aligned(2)
        .with_rows(registry::rows(metrics, page))
}

/// One row per summary.
fn summaries(rows: &[(&str, &Summary)]) -> Table {
    let percentiles = rows
        .iter()
        .take(1)
        .flat_map(|(_, summary)| &summary.percentiles)
        .map(|percentile| format!("p{}", percentile.label()));
    let heads = ["", "n", "mean", "median"]
        .map(str::to_owned)
        .into_iter()
        .chain(percentiles);
    Table::new(heads, 1).with_rows(rows.iter().map(|(name, summary)| {
        let figures = [
            (*name).to_owned(),
            summary.n.to_string(),
            figure(summary.mean),
            figure(summary.median),
        ];
        let percentiles =
            (0..summary.percentiles.len()).map(|place| percentile_cell(summary, place));
        figures.into_iter().chain(percentiles).collect::<Vec<_>>()
    }))
}

/// A percentile in a narrow cell, marked where the sample is too small.
pub(crate) fn percentile_cell(summary: &Summary, place: usize) -> String {
    match summary.percentiles.get(place) {
        Some(
            percentile @ Percentile {
                enough: false,
                value: Some(_),
                ..
            },
        ) => {
            format!("{} (n<{})", figure(percentile.value), percentile.needs)
        }
        Some(percentile) => figure(percentile.value),
        None => figure(None),
    }
}

/// Adds schedule lag, and latencies from the due time.
fn add_schedule(page: &mut Document, report: &Report) {
    let overall = &report.metrics.overall;
    let latency = &overall.latency;
    let mut rows = vec![("schedule lag: due to sent (ms)", &latency.schedule_lag_ms)];
    if report.metrics.options.answers == Answers::Generated {
        rows.push(("TTFT from due (ms)", &latency.ttft_from_due_ms));
    }
    rows.push(("E2EL from due (ms)", &latency.e2el_from_due_ms));
    if latency.multi_token_chunk_answers > 0 {
        rows.push(("ITL spread over tokens (ms)", &latency.itl_per_token_ms));
    }
    if latency.itl_counted_ms.n > 0 {
        rows.push(("ITL of counted tokens (ms)", &latency.itl_counted_ms));
    }
    page.heading("Schedule lag and latency from the due time");
    page.table(summaries(&rows));
    let in_flight = overall
        .throughput
        .max_in_flight
        .map_or_else(|| "n/a".to_owned(), |count| count.to_string());
    let label = registry::totals::MAX_IN_FLIGHT.label;
    page.paragraph(format!("{label}: {in_flight}"));
}
