//! The tables of the full text report, in reading order.

use super::text::figure;
use super::view::View;
use super::{
    Report, accuracy, breakdown, canaries, channels, confidence, count_marks, departures,
    free_choices, map, server_metrics, sessions,
};
use sobench_core::case::Arm;
use sobench_core::printable::{printable, printable_message};
use sobench_core::verdict::NotScored;
use sobench_plan::metrics::Answers;
use sobench_render::{Document, Table};
use sobench_results::metrics::examples::{Example, Group};
use sobench_results::metrics::findings::{ExtraTextCount, Findings};
use sobench_results::metrics::registry::rates as share;
use sobench_results::metrics::registry::{
    Better, Figure, GroupValues, Metric, Values, latencies, totals,
};
use sobench_results::metrics::repetition::Repetition;
use sobench_results::metrics::{Metrics, registry};
use sobench_statistics::{Percentile, Rate, Summary};

/// Width of a column of group names.
const NAME_WIDTH: usize = 16;

/// Width of a column of examples.
const EXAMPLE_WIDTH: usize = 44;

/// Characters at most of an answer, and of a message, in an example.
const EXAMPLE_MAX_CHARS: usize = 160;

/// Column heads of the rates.
pub const RATE_COLUMNS: [&str; 5] = ["rate", "%", "95 % interval", "count", "of what"];

pub(crate) const ERRORS: &str = "Errors by message, all arms (share of all requests)";
pub(crate) const CONTROL_REASONS: &str =
    "Invalid control answers by reason (share of control requests)";
pub(crate) const BY_IN_FLIGHT: &str = "Validity of ended answers by requests in flight when sent";
pub(crate) const OVER_TIME: &str = "Validity of ended answers over time";

const CLIENT_OVERHEAD: &str = "Client overhead";
const WORST_CLIENT_OVERHEAD: &str = "Client overhead of the worst shard";

/// Adds every table that has rows, with its title.
pub(crate) fn add_all(page: &mut Document, view: &View<'_>) {
    let report = view.report;
    let (metrics, findings) = (&report.metrics, &report.metrics.findings);
    let constrained = metrics.requests_of(Arm::Constrained);
    page.titled_table(
        "Answer quality",
        is_judged(report).then(|| rates(&report.metrics)),
    );
    page.paragraphs(sentences(report));
    accuracy::add(page, report);
    page.titled_table(TOOL_CALLS, tool_calls(metrics));
    page.titled_table(
        "Invalid constrained answers by reason (share of constrained requests)",
        reasons(findings, constrained),
    );
    page.titled_table(
        "Text around JSON (share of constrained requests)",
        extra_text(findings, constrained),
    );
    page.titled_table(
        "Constrained requests without a verdict (share of constrained requests)",
        unjudged(findings, constrained),
    );
    page.titled_table(
        "Failed requests by outcome, all arms (share of all requests)",
        groups(
            &report.metrics.failures,
            "outcome",
            metrics.values.count(&totals::REQUESTS),
        ),
    );
    page.titled_table(ERRORS, errors(&report.metrics));
    page.titled_table(departures::TITLE, departures::table(&report.metrics));
    page.titled_table(
        departures::CLIENTS,
        departures::clients_table(&report.metrics),
    );
    page.titled_table(CONTROL_REASONS, control_reasons(&report.metrics));
    page.titled_table(BY_IN_FLIGHT, validity_by_in_flight(&report.metrics));
    page.titled_table(OVER_TIME, validity_over_time(&report.metrics));
    page.titled_table(
        "Disagreements with the vLLM script's formula (share of scored requests)",
        disagreements(findings, scored_by_vllm(metrics)),
    );
    canaries::add(page, &report.metrics);
    map::add(page, &report.metrics, false);
    sessions::add(page, &report.metrics);
    add_reasoning(page, report);
    channels::add(page, report);
    page.titled_table(
        free_choices::FREE_CHOICES,
        free_choices::table(&report.metrics),
    );
    page.titled_table("By arm", arms(report));
    page.titled_table("By dataset", parts(report));
    page.titled_table("By kind of constraint", several(breakdown::by_kind(view).0));
    page.titled_table("By tag", several(breakdown::by_tag(view).0));
    for (title, table) in breakdown::by_size(view) {
        page.titled_table(&title, several(table));
    }
    page.titled_table(
        "Speculative decoding by arm (from tokens per chunk)",
        acceptance(report),
    );
    page.titled_table(confidence::TITLE, confidence::table(report));
    add_schedule(page, report);
    server_metrics::add(page, &report.metrics);
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

/// Figures of groups without percentiles, for which text has no room; `None` with one group.
fn several(mut table: Table) -> Option<Table> {
    table.retain_columns(|column| !column.head.contains(" p"));
    (table.rows.len() > 1).then_some(table)
}

/// Sentences below the figures of quality.
pub(crate) fn sentences(report: &Report) -> impl Iterator<Item = String> {
    let repetition = repetition(&report.metrics.repetition);
    let sentences = [
        report.refusals.clone(),
        repetition,
        report.recovery_sentence(),
    ];
    sentences.into_iter().flatten()
}

/// Sentence on distinct requests and answers; `None` if no answer repeats another.
fn repetition(repetition: &Repetition) -> Option<String> {
    let Repetition {
        requests,
        distinct_requests,
        answers,
        distinct_answers,
        effective_answers,
    } = *repetition;
    (distinct_answers < answers).then(|| {
        format!(
            "distinct requests: {distinct_requests} of {requests}, distinct answers: {distinct_answers} of {answers}; intervals of \
             rates count copies of an answer to a request once: all answers are worth {effective_answers:.1}"
        )
    })
}

/// Errors by message; `None` if the table by outcome already shows each.
pub(crate) fn errors(metrics: &Metrics) -> Option<Table> {
    let errors = &metrics.errors;
    let mut by_outcome: Vec<&str> = errors.groups.iter().map(|group| group.outcome).collect();
    by_outcome.sort_unstable();
    by_outcome.dedup();
    if by_outcome.len() == errors.groups.len() {
        return None;
    }
    let whole = metrics.values.count(&totals::REQUESTS);
    let share = |count: usize| figure(Rate::new(count, whole).map(|rate| rate.percent));
    let mut table = Table::new(["outcome", "count", "share %", "message", "first in"], 1)
        .left_aligned(3)
        .left_aligned(4)
        .wrapped(3, EXAMPLE_WIDTH)
        .with_rows(errors.groups.iter().map(|group| {
            [
                group.outcome.to_owned(),
                group.count.to_string(),
                share(group.count),
                printable_message(&group.message),
                printable(&group.first_request, NAME_WIDTH),
            ]
        }));
    if errors.more_groups > 0 {
        table.row([
            "others".to_owned(),
            errors.more_requests.to_string(),
            share(errors.more_requests),
            format!("{} other messages", errors.more_groups),
            String::new(),
        ]);
    }
    Some(table)
}

/// Adds the tables on the quality of answers, without the least important ones unless the page has
/// room.
pub(crate) fn add_quality(page: &mut Document, metrics: &Metrics, has_room: bool) {
    for (title, table, is_short) in [
        (TOOL_CALLS, tool_calls(metrics), true),
        (ERRORS, errors(metrics), true),
        (departures::TITLE, departures::table(metrics), true),
        (
            departures::CLIENTS,
            departures::clients_table(metrics),
            true,
        ),
        (CONTROL_REASONS, control_reasons(metrics), false),
        (BY_IN_FLIGHT, validity_by_in_flight(metrics), true),
        (OVER_TIME, validity_over_time(metrics), false),
        (channels::TIMING, channels::timing(metrics), true),
        (channels::REASONING, channels::reasoning(metrics), true),
        (channels::PARITY, channels::parity(metrics), true),
        (
            free_choices::FREE_CHOICES,
            free_choices::table(metrics),
            false,
        ),
    ] {
        if let Some(table) = table.filter(|_| has_room || is_short) {
            page.minor_heading(title);
            page.table(table);
        }
    }
}

/// Reasons of invalid answers of the control arm.
pub(crate) fn control_reasons(metrics: &Metrics) -> Option<Table> {
    let controls = metrics.requests_of(Arm::Control);
    groups(&metrics.findings.control_reasons, "reason", controls)
}

/// Validity by requests in flight; `None` if every answer is valid.
pub(crate) fn validity_by_in_flight(metrics: &Metrics) -> Option<Table> {
    let validity = metrics.validity.as_ref();
    let validity = validity.filter(|found| found.has_invalid())?;
    let rows = validity.by_in_flight.iter().map(|bin| {
        let name = if bin.from == bin.to {
            bin.to.to_string()
        } else {
            format!("{} to {}", bin.from, bin.to)
        };
        validity_row(name, bin.valid, bin.answers)
    });
    Some(validity_table("in flight").with_rows(rows))
}

/// Validity over time; `None` if every answer is valid.
pub(crate) fn validity_over_time(metrics: &Metrics) -> Option<Table> {
    let validity = metrics.validity.as_ref();
    let validity = validity.filter(|found| found.has_invalid())?;
    let rows = validity.over_time.iter().map(|bin| {
        let name = format!("{:.2} to {:.2}", bin.from_s, bin.to_s);
        validity_row(name, bin.valid, bin.answers)
    });
    Some(validity_table("sent (s)").with_rows(rows))
}

fn validity_table(first: &str) -> Table {
    Table::new([first, "valid %", "95 % interval", "valid"], 1)
}

fn validity_row(name: String, valid: usize, answers: usize) -> [String; 4] {
    let [_, percent, interval, count, _] = rate_cells("", Rate::new(valid, answers), "");
    [name, percent, interval, count]
}

/// Acceptance of drafts by arm; `None` without speculative decoding.
fn acceptance(report: &Report) -> Option<Table> {
    report.spec_decode.as_ref()?;
    let row = |(arm, values): (Arm, &Values)| {
        let per_step = values.number(&totals::TOKENS_PER_STEP)?;
        Some([arm.name().to_owned(), figure(Some(per_step))])
    };
    Table::new(["arm", "tokens per step"], 1)
        .with_rows(report.metrics.arms().filter_map(row))
        .non_empty()
}

/// Whether requests have constraints, sent or not, that answers are judged by.
pub(crate) fn is_judged(report: &Report) -> bool {
    let mut arms = report.metrics.arms().map(|(arm, _)| arm).peekable();
    arms.peek().is_none() || arms.any(|arm| arm != Arm::Free)
}

/// The table of the rates.
pub(crate) fn rates(metrics: &Metrics) -> Table {
    Table::new(RATE_COLUMNS, 1)
        .left_aligned(4)
        .with_rows(rate_rows(metrics))
}

/// Every rate with its interval, under [`RATE_COLUMNS`].
pub(crate) fn rate_rows(metrics: &Metrics) -> Vec<[String; 5]> {
    let is_shown = |figure: &Figure| match figure.arm {
        None => figure.metric.is_shown(&metrics.values),
        // Controls that were not judged have a row as well.
        Some(arm) => metrics.arm(arm).is_some_and(|values| {
            arm == Arm::Control && figure.better() == Better::Neither
                || values.rate(figure.metric).is_some()
        }),
    };
    let row = |figure: Figure| {
        let rate = metrics.rate(figure);
        let of_what = match rate {
            None if *figure.metric == share::VLLM_CORRECT_RATE => "its script scores none".into(),
            _ => figure.of_what(),
        };
        let judged = rate.map_or(0, |rate| rate.of);
        let is_part = figure == Figure::new(&share::CORRECT_RATE)
            && judged != metrics.requests_of(Arm::Constrained);
        let judged = if is_part { ", judged" } else { "" };
        rate_cells(&figure.label(), rate, &format!("{of_what}{judged}"))
    };
    let rates = Metric::ALL.iter().filter(|metric| metric.is_rate());
    let figures = rates.flat_map(|metric| Figure::all_of(metric));
    figures.filter(is_shown).map(row).collect()
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
    let (name, of_what) = (name.to_owned(), of_what.to_owned());
    [name, percent, interval, count, of_what]
}

pub fn reasons(findings: &Findings, constrained: usize) -> Option<Table> {
    groups(&findings.reasons, "reason", constrained)
}

/// Title of [`tool_calls`].
pub(crate) const TOOL_CALLS: &str = "Tool calls by tool_choice (constrained requests)";

/// Rates of requests with tools, by `tool_choice`.
pub(crate) fn tool_calls(metrics: &Metrics) -> Option<Table> {
    let shown: [&Metric; 6] = [
        &share::CORRECT_RATE,
        &share::CALL_VALIDITY,
        &share::RIGHT_CALLS,
        &share::MISSED_CALLS,
        &share::FORBIDDEN_CALLS,
        &share::LEAKED_MARKUP_RATE,
    ];
    let rows = metrics
        .groups
        .iter()
        .flat_map(|GroupValues { group, values }| {
            shown.into_iter().filter_map(|metric| {
                let rate = values.rate(metric)?;
                let [name, percent, interval, count, _] = rate_cells(metric.label, Some(rate), "");
                let tool_choice = group.tool_choice?.to_owned();
                Some([tool_choice, name, percent, interval, count])
            })
        });
    let table = Table::new(["tool_choice", "rate", "%", "95 % interval", "count"], 2);
    table.with_rows(rows).non_empty()
}

/// Kinds of text around JSON.
pub fn extra_text(findings: &Findings, constrained: usize) -> Option<Table> {
    Table::new(["text", "count", "share %", "valid if stripped"], 1)
        .with_rows(findings.extra_text.iter().map(|kind: &ExtraTextCount| {
            let share = Rate::new(kind.count, constrained).map(|rate| rate.percent);
            [
                kind.kind.name().to_owned(),
                kind.count.to_string(),
                figure(share),
                kind.valid_if_stripped.to_string(),
            ]
        }))
        .non_empty()
}

/// Requests without a verdict that the correct rate leaves out. Refused, failed, cancelled,
/// abandoned and unsent requests are in the table of failed requests.
pub fn unjudged(findings: &Findings, constrained: usize) -> Option<Table> {
    let elsewhere = [
        NotScored::Refused,
        NotScored::Failed,
        NotScored::Cancelled,
        NotScored::Abandoned,
        NotScored::NotSent,
    ]
    .map(|reason| reason.name());
    let unjudged: Vec<Group> = findings
        .not_scored
        .iter()
        .filter(|group| !elsewhere.contains(&group.name))
        .cloned()
        .collect();
    groups(&unjudged, "why", constrained)
}

/// Requests that vLLM's script scores.
fn scored_by_vllm(metrics: &Metrics) -> usize {
    let rate = metrics.values.rate(&share::VLLM_CORRECT_RATE);
    rate.map_or(0, |rate| rate.of)
}

pub fn disagreements(findings: &Findings, scored: usize) -> Option<Table> {
    let only_script = Group {
        name: "valid for the script only",
        ..findings.vllm.only_script.clone()
    };
    let only_ours = Group {
        name: "valid for sobench only",
        ..findings.vllm.only_ours.clone()
    };
    let differing: Vec<Group> = [only_script, only_ours]
        .into_iter()
        .filter(|group| group.count > 0)
        .collect();
    groups(&differing, "answers", scored)
}

/// A table of groups with one example each; `None` without groups.
pub fn groups(groups: &[Group], name: &str, whole: usize) -> Option<Table> {
    Table::new([name, "count", "share %", "first example"], 1)
        .left_aligned(3)
        .wrapped(0, NAME_WIDTH)
        .wrapped(3, EXAMPLE_WIDTH)
        .with_rows(groups.iter().map(|group: &Group| {
            let share = figure(Rate::new(group.count, whole).map(|rate| rate.percent));
            let example = group.examples.first().map(example).unwrap_or_default();
            let (name, count) = (group.name.to_owned(), group.count.to_string());
            [name, count, share, example]
        }))
        .non_empty()
}

/// The case, the answer, and the error, one line each.
fn example(excerpt: &Example) -> String {
    let case = printable(&excerpt.case_id, EXAMPLE_MAX_CHARS);
    let message = printable_message(&excerpt.message);
    let arm = match excerpt.arm {
        Arm::Constrained => String::new(),
        Arm::Free => " (without constraint)".to_owned(),
        arm => format!(" ({} arm)", arm.name()),
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
        let text = printable(&excerpt.text, EXAMPLE_MAX_CHARS);
        let is_cut = excerpt.text.len() < excerpt.text_bytes && !text.ends_with('…');
        lines.push(text + if is_cut { "…" } else { "" });
    }
    if !message.is_empty() {
        lines.push(format!("-> {message}"));
    }
    lines.join("\n")
}

/// The arms side by side; `None` where the constrained arm is the only one, or answers are
/// computed.
fn arms(report: &Report) -> Option<Table> {
    let arms: Vec<(&str, &Values)> = arm_columns(report);
    let is_alone = arms
        .iter()
        .all(|(name, _)| *name == Arm::Constrained.name())
        || report.metrics.options.answers == Answers::Computed;
    if is_alone {
        return None;
    }
    Some(columns(report, "arm", &arms, &[]))
}

/// The arms with requests, by their names.
pub(super) fn arm_columns(report: &Report) -> Vec<(&'static str, &Values)> {
    let arms = report.metrics.arms();
    arms.map(|(arm, values)| (accuracy::arm_name(&report.metrics, arm), values))
        .collect()
}

/// The datasets of a mix side by side; `None` without a mix.
fn parts(report: &Report) -> Option<Table> {
    let groups = report.metrics.groups.iter();
    let datasets: Vec<(&str, &Values)> = groups
        .filter_map(|found| Some((found.group.dataset.as_deref()?, &found.values)))
        .collect();
    if datasets.is_empty() {
        return None;
    }
    let percent = |rate: Option<Rate>| {
        rate.map_or_else(
            || "n/a".to_owned(),
            |rate| format!("{:.2} ({}/{})", rate.percent, rate.hits, rate.of),
        )
    };
    let rates: [(&str, &Metric); 2] = [
        ("correct %", &share::CORRECT_RATE),
        ("compliance %", &share::COMPLIANCE),
    ];
    let rows = rates.map(|(name, metric)| {
        let cells = datasets
            .iter()
            .map(|(_, values)| percent(values.rate(metric)));
        std::iter::once(name.to_owned()).chain(cells).collect()
    });
    Some(columns(report, "dataset", &datasets, &rows))
}

/// Groups of requests side by side, one column each, with the rows of `more` at the end.
fn columns(report: &Report, head: &str, arms: &[(&str, &Values)], more: &[Vec<String>]) -> Table {
    let mut table = Table::new(
        std::iter::once(head).chain(arms.iter().map(|(name, _)| *name)),
        1,
    );
    let mut push = |name: String, cell: &dyn Fn(&Values) -> String| {
        table.row(std::iter::once(name).chain(arms.iter().map(|(_, values)| cell(values))));
    };
    for (name, metric) in [
        ("requests", &totals::REQUESTS),
        ("answers", &totals::COMPLETED),
        ("truncated", &totals::TRUNCATED),
        ("refused or failed", &totals::FAILED),
    ] {
        push(name.to_owned(), &|values| values.count(metric).to_string());
    }
    for metric in [&latencies::TTFT, &latencies::TPOT, &latencies::E2EL] {
        let name = count_marks::marked(metric.label, &report.metrics, metric);
        push(format!("{name} mean (ms)"), &|values| {
            figure(values.summary(metric).mean)
        });
        push(format!("{name} median (ms)"), &|values| {
            figure(values.summary(metric).median)
        });
        let percentiles = report.metrics.values.summary(metric).percentiles.iter();
        for (place, percentile) in percentiles.enumerate() {
            push(format!("{name} p{} (ms)", percentile.label()), &|values| {
                percentile_cell(values.summary(metric), place)
            });
        }
    }
    let name = count_marks::marked("output tok/s", &report.metrics, &totals::OUTPUT_THROUGHPUT);
    push(name, &|values| {
        figure(values.number(&totals::OUTPUT_THROUGHPUT))
    });
    more.iter().for_each(|row| table.row(row));
    table
}

/// Adds TTFT of reasoning and of answers; nothing without reasoning.
fn add_reasoning(page: &mut Document, report: &Report) {
    let values = &report.metrics.values;
    let answers = values.count(&totals::REASONED_ANSWERS);
    if answers == 0 {
        return;
    }
    page.heading("Reasoning");
    page.table(summaries(&[
        (
            "TTFT of the reasoning (ms)",
            values.summary(&latencies::TTFT_REASONING),
        ),
        (
            "TTFT of the answer (ms)",
            values.summary(&latencies::TTFT_ANSWER),
        ),
    ]));
    let alone = values.count(&totals::REASONING_ONLY_ANSWERS);
    page.paragraph(format!(
        "answers with reasoning: {answers}, with reasoning only: {alone}"
    ));
}

/// Adds answers and output tokens per second, if they are known.
pub(crate) fn add_throughput(sentence: &mut String, metrics: &Metrics) {
    let output = &totals::OUTPUT_THROUGHPUT;
    let output_unit = count_marks::marked("output tokens/s", metrics, output);
    for (metric, unit) in [
        (&totals::REQUEST_THROUGHPUT, "answers/s"),
        (output, &*output_unit),
    ] {
        if let Some(rate) = metrics.values.number(metric) {
            sentence.push_str(&format!(", {rate:.2} {unit}"));
        }
    }
}

/// Every metric that has a value.
pub(crate) fn all_metrics(metrics: &Metrics) -> Table {
    metrics_table(metrics, registry::Page::Whole)
}

fn metrics_table(metrics: &Metrics, page: registry::Page) -> Table {
    let rows = registry::rows(metrics, page).into_iter();
    Table::new(registry::ROW_COLUMNS, 1)
        .left_aligned(2)
        .with_rows(rows.map(|(metric, [name, value, details])| {
            [count_marks::marked(name, metrics, metric), value, details]
        }))
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
    let values = &report.metrics.values;
    let summary = |metric| values.summary(metric);
    let mut rows = vec![(
        "schedule lag: due to sent (ms)",
        summary(&latencies::SCHEDULE_LAG),
    )];
    if report.metrics.options.answers == Answers::Generated {
        rows.push(("TTFT from due (ms)", summary(&latencies::TTFT_FROM_DUE)));
    }
    rows.push(("E2EL from due (ms)", summary(&latencies::E2EL_FROM_DUE)));
    if values.count(&totals::MULTI_TOKEN_CHUNK_ANSWERS) > 0 {
        let spread = summary(&latencies::ITL_PER_TOKEN);
        rows.push(("ITL spread over tokens (ms)", spread));
    }
    let counted = summary(&latencies::ITL_COUNTED);
    if counted.n > 0 {
        rows.push(("ITL of counted tokens (ms)", counted));
    }
    page.heading("Schedule lag and latency from the due time");
    page.table(summaries(&rows));
    let in_flight = values.number(&totals::MAX_IN_FLIGHT);
    let in_flight = in_flight.map_or_else(|| "n/a".to_owned(), |count| format!("{count:.0}"));
    let label = totals::MAX_IN_FLIGHT.label;
    page.paragraph(format!("{label}: {in_flight}"));
}
