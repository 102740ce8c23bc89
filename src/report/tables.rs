//! The tables under vLLM's block: rates, reasons, failures, arms, the client's own part. Knows how to lay out; the only
//! sums it does are shares of the counts it is given.

use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::width::Wrap;
use tabled::settings::{Alignment, Modify, Style, Width};

use super::text::figure;
use super::{Report, certainty};
use crate::case::Arm;
use crate::metrics::LatencyMetric;
use crate::metrics::excerpt::{Excerpt, Group};
use crate::metrics::quality::Quality;
use crate::metrics::registry;
use crate::metrics::{Answers, ArmMetrics};
use crate::printable::printable;
use crate::statistics::{Percentile, Rate, Summary};
use crate::verdict::NotScored;

/// The width of a column of examples.
const EXAMPLE_WIDTH: usize = 44;

/// The most characters of an answer, and of the words about it, in an example on the console.
const EXAMPLE_MAX_CHARS: usize = 160;

/// What the columns of the rates are.
pub(crate) const RATE_COLUMNS: [&str; 5] = ["rate", "%", "95 % interval", "count", "of what"];

/// What stands above what a client took: of one, and of the worst of several.
const CLIENT: &str = "What the client took, and whether it stood in the way";
const WORST_CLIENT: &str = "What the worst of the shards' clients took, and whether it stood in the way";

/// Every table that has something to say, with its title, in reading order.
pub(crate) fn all(report: &Report) -> Vec<(&'static str, String)> {
    let quality = &report.metrics.quality;
    let load = report.load.iter().flat_map(|load| load.tables(&report.record));
    let tables = [
        ("Quality of the answers", is_judged(report).then(|| rates(quality))),
        ("Why constrained answers are not valid (share of the constrained requests)", reasons(quality)),
        ("Constrained requests that could not be judged (share of the constrained requests)", unjudged(quality)),
        (
            "Requests without an answer, in all arms (share of all requests)",
            groups(&report.metrics.failures, "outcome", report.metrics.overall.requests),
        ),
        ("Where the vLLM script's formula says something else (share of those it scores)", disagreements(quality)),
        ("Reasoning before the answers", reasoning(report)),
        ("By arm", arms(report)),
        ("By dataset of the mix", parts(report)),
        (certainty::TITLE, certainty::table(report)),
        ("The client's own part", Some(client(report))),
        ("Other metrics", other_metrics(report)),
        (if report.shards.is_empty() { CLIENT } else { WORST_CLIENT }, super::client::table(report)),
        ("The shards, each with its client", super::shards::table(&report.shards)),
    ];
    tables.into_iter().chain(load).filter_map(|(title, table)| Some((title, trimmed(&table?)))).collect()
}

/// Whether requests have constraints, sent or not, that answers are judged by.
pub(crate) fn is_judged(report: &Report) -> bool {
    let arms = &report.metrics.arms;
    arms.constrained.is_some() || arms.control.is_some() || arms.free.is_none()
}

/// The table without the padding at the end of its lines.
pub(crate) fn trimmed(table: &str) -> String {
    table.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn rates(quality: &Quality) -> String {
    let mut builder = Builder::default();
    builder.push_record(RATE_COLUMNS);
    rate_rows(quality).into_iter().for_each(|row| builder.push_record(row));
    let mut table = builder.build();
    table.with(Style::psql()).with(Modify::new(Columns::new(1..4)).with(Alignment::right()));
    table.to_string()
}

/// Every rate with its interval, under [`RATE_COLUMNS`].
pub(crate) fn rate_rows(quality: &Quality) -> Vec<[String; 5]> {
    let constrained = quality.constrained;
    let share = |hits: usize| Rate::of(hits, constrained);
    let judged = if quality.judged == constrained { "valid, of constrained" } else { "valid, of constrained, judged" };
    let mut rows = Vec::new();
    let mut push = |name: &str, rate: Option<Rate>, of_what: &str| rows.push(rate_cells(name, rate, of_what));
    push("correct rate", quality.correct_rate, judged);
    push("compliance", quality.compliance, "valid, of answers that ended");
    push("coverage", quality.coverage, "accepted, applied or not");
    push("control rate", quality.control_rate, "valid, of unconstrained");
    if quality.right_calls.is_some() {
        push("right calls", quality.right_calls, "the reference's, of constrained");
    }
    push("truncated", share(quality.truncated), "constrained, cut at the limit");
    push("refused", share(quality.refused), "constrained, by the server");
    if quality.overloaded > 0 {
        push("refused for load", share(quality.overloaded), "constrained, by status 429");
    }
    push("failed", share(quality.failed), "constrained, on the way");
    if quality.cancelled > 0 {
        push("cancelled", share(quality.cancelled), "constrained, by stopping");
    }
    if quality.not_sent > 0 {
        push("not sent", share(quality.not_sent), "constrained, no connection from here");
    }
    push("not judged", share(quality.unjudged()), "constrained, in no rate");
    let script = if quality.vllm.correct_rate.is_some() { "its script, all arms" } else { "its script scores none" };
    push("vLLM's formula", quality.vllm.correct_rate, script);
    rows
}

pub(crate) fn rate_cells(name: &str, rate: Option<Rate>, of_what: &str) -> [String; 5] {
    let (percent, interval, count) = match rate {
        Some(it) => (
            format!("{:.2}", it.percent),
            format!("{:.2} to {:.2}", it.low_percent, it.high_percent),
            format!("{}/{}", it.hits, it.of),
        ),
        None => ("n/a".to_owned(), String::new(), "none".to_owned()),
    };
    [name.to_owned(), percent, interval, count, of_what.to_owned()]
}

pub(crate) fn reasons(quality: &Quality) -> Option<String> {
    groups(&quality.reasons, "reason", quality.constrained)
}

/// Why there is no verdict, where the correct rate leaves the request out. The refused, the failed, the cancelled and the unsent are in
/// the table of requests without an answer.
pub(crate) fn unjudged(quality: &Quality) -> Option<String> {
    let elsewhere = [NotScored::Refused, NotScored::Failed, NotScored::Cancelled, NotScored::NotSent].map(|it| it.name());
    let unjudged: Vec<Group> = quality.not_scored.iter().filter(|it| !elsewhere.contains(&it.name)).cloned().collect();
    groups(&unjudged, "why", quality.constrained)
}

pub(crate) fn disagreements(quality: &Quality) -> Option<String> {
    let only_script = Group { name: "only the script says correct", ..quality.vllm.only_script.clone() };
    let only_ours = Group { name: "only sobench says valid", ..quality.vllm.only_ours.clone() };
    let differing: Vec<Group> = [only_script, only_ours].into_iter().filter(|it| it.count > 0).collect();
    groups(&differing, "answers", quality.vllm.correct_rate.map_or(0, |rate| rate.of))
}

/// A table of groups with one example each; `None` where there are no groups.
pub(crate) fn groups(groups: &[Group], name: &str, whole: usize) -> Option<String> {
    if groups.is_empty() {
        return None;
    }
    let mut builder = Builder::default();
    builder.push_record([name, "count", "share %", "the first one"]);
    for group in groups {
        let share = figure(Rate::of(group.count, whole).map(|rate| rate.percent));
        let example = group.excerpts.first().map(example).unwrap_or_default();
        builder.push_record([group.name.to_owned(), group.count.to_string(), share, example]);
    }
    let mut table = builder.build();
    table
        .with(Style::psql())
        .with(Modify::new(Columns::one(0)).with(Width::wrap(16).keep_words(true)))
        .with(Modify::new(Columns::new(1..3)).with(Alignment::right()));
    Some(table.to_string())
}

/// Where it is from, what was said, and what is wrong with it. Each line is wrapped by itself: wrapping the cell as a whole would
/// count a line's width from the line before.
fn example(excerpt: &Excerpt) -> String {
    let case = printable(&excerpt.case_id, EXAMPLE_MAX_CHARS);
    let words = printable(&excerpt.words, EXAMPLE_MAX_CHARS);
    let arm = match excerpt.arm {
        Arm::Constrained => "",
        Arm::Control => " (control arm)",
        Arm::Free => " (without constraint)",
    };
    let mut first = vec![format!("{case}{arm}")];
    first.extend(excerpt.finish_reason.as_deref().map(|it| format!("finish reason {}", printable(it, EXAMPLE_MAX_CHARS))));
    first.extend((excerpt.text_bytes > 0).then(|| format!("{} bytes", excerpt.text_bytes)));
    let mut lines = vec![first.join(", ")];
    if excerpt.text_bytes > 0 {
        let cut = if excerpt.text.len() < excerpt.text_bytes { "…" } else { "" };
        let text = printable(&excerpt.text, EXAMPLE_MAX_CHARS);
        lines.push(if text.ends_with('…') { text } else { text + cut });
    }
    if !words.is_empty() {
        lines.push(format!("-> {words}"));
    }
    let wrapped: Vec<String> = lines.iter().map(|line| Wrap::wrap(line, EXAMPLE_WIDTH, true)).collect();
    wrapped.iter().flat_map(|line| line.lines()).map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// The arms side by side, unless the constrained one is the only one, or no arm can be: the other tables have its figures.
fn arms(report: &Report) -> Option<String> {
    let arms: Vec<(&str, &ArmMetrics)> = report.metrics.arms.iter().collect();
    let is_alone = arms.iter().all(|(name, _)| *name == "constrained") || report.metrics.options.answers == Answers::Computed;
    if is_alone {
        return None;
    }
    Some(columns(report, "arm", &arms, &[]))
}

/// One of the rates of a quality.
type RateOf = fn(&Quality) -> Option<Rate>;

/// The datasets of a mix beside each other; nothing of a run that has one.
fn parts(report: &Report) -> Option<String> {
    if report.parts.is_empty() {
        return None;
    }
    let percent =
        |rate: Option<Rate>| rate.map_or_else(|| "n/a".to_owned(), |it| format!("{:.2} ({}/{})", it.percent, it.hits, it.of));
    let quality: [(&str, RateOf); 2] = [("correct %", |it| it.correct_rate), ("compliance %", |it| it.compliance)];
    let rows = quality.map(|(name, rate)| {
        std::iter::once(name.to_owned()).chain(report.parts.iter().map(|part| percent(rate(&part.quality)))).collect()
    });
    let datasets: Vec<(&str, &ArmMetrics)> = report.parts.iter().map(|part| (part.name.as_str(), &part.metrics)).collect();
    Some(columns(report, "dataset", &datasets, &rows))
}

/// Groups of requests beside each other, a column each; `more` rows come last.
fn columns(report: &Report, head: &str, arms: &[(&str, &ArmMetrics)], more: &[Vec<String>]) -> String {
    let mut builder = Builder::default();
    let mut push = |name: String, cell: &dyn Fn(&ArmMetrics) -> String| {
        builder.push_record(std::iter::once(name).chain(arms.iter().map(|(_, arm)| cell(arm))));
    };
    push("requests".to_owned(), &|arm| arm.requests.to_string());
    push("answers".to_owned(), &|arm| arm.completed.to_string());
    push("answers cut at the token limit".to_owned(), &|arm| arm.truncated.to_string());
    push("refused or failed".to_owned(), &|arm| arm.failed.to_string());
    for metric in [LatencyMetric::Ttft, LatencyMetric::Tpot, LatencyMetric::E2el] {
        let name = metric.name();
        push(format!("{name} mean (ms)"), &|arm| figure(arm.latency.summary(metric).mean));
        push(format!("{name} median (ms)"), &|arm| figure(arm.latency.summary(metric).median));
        for (place, percentile) in report.metrics.overall.latency.summary(metric).percentiles.iter().enumerate() {
            push(format!("{name} p{} (ms)", percentile.word()), &|arm| percentile_cell(arm.latency.summary(metric), place));
        }
    }
    push("output tok/s of the whole run".to_owned(), &|arm| figure(arm.throughput.output_throughput));
    more.iter().for_each(|row| builder.push_record(row.clone()));
    builder.insert_record(0, std::iter::once(head.to_owned()).chain(arms.iter().map(|(name, _)| (*name).to_owned())));
    let mut table = builder.build();
    table.with(Style::psql()).with(Modify::new(Columns::new(1..)).with(Alignment::right()));
    table.to_string()
}

/// When reasoning began and when answers did; nothing where no answer has reasoning.
fn reasoning(report: &Report) -> Option<String> {
    let reasoning = report.metrics.overall.latency.reasoning.as_ref()?;
    let table = summaries(&[
        ("TTFT of the reasoning (ms)", &reasoning.ttft_reasoning_ms),
        ("TTFT of the answer (ms)", &reasoning.ttft_answer_ms),
    ]);
    let counts =
        format!("answers with reasoning: {}, without anything behind it: {}", reasoning.answers, reasoning.without_answer);
    Some(format!("{table}\n{counts}"))
}

/// Metrics that no other table has.
fn other_metrics(report: &Report) -> Option<String> {
    let rows = registry::rows(&report.metrics, registry::Page::Console);
    if rows.is_empty() {
        return None;
    }
    let mut builder = Builder::default();
    builder.push_record(registry::ROW_COLUMNS);
    rows.into_iter().for_each(|row| builder.push_record(row));
    let mut table = builder.build();
    table.with(Style::psql()).with(Modify::new(Columns::one(1)).with(Alignment::right()));
    Some(table.to_string())
}

/// A line for each summary.
fn summaries(rows: &[(&str, &Summary)]) -> String {
    let mut builder = Builder::default();
    let percentiles = rows.iter().take(1).flat_map(|(_, summary)| &summary.percentiles).map(|it| format!("p{}", it.word()));
    builder.push_record(["", "n", "mean", "median"].map(str::to_owned).into_iter().chain(percentiles));
    for (name, summary) in rows {
        let figures = [(*name).to_owned(), summary.n.to_string(), figure(summary.mean), figure(summary.median)];
        let percentiles = (0..summary.percentiles.len()).map(|place| percentile_cell(summary, place));
        builder.push_record(figures.into_iter().chain(percentiles));
    }
    let mut table = builder.build();
    table.with(Style::psql()).with(Modify::new(Columns::new(1..)).with(Alignment::right()));
    table.to_string()
}

/// A percentile in a narrow cell, marked where the sample is too small for it.
pub(crate) fn percentile_cell(summary: &Summary, place: usize) -> String {
    match summary.percentiles.get(place) {
        Some(percentile @ Percentile { enough: false, value: Some(_), .. }) => {
            format!("{} (n<{})", figure(percentile.value), percentile.needs)
        }
        Some(percentile) => figure(percentile.value),
        None => figure(None),
    }
}

/// What happened between the schedule and the wire, and the figures that count from the schedule.
fn client(report: &Report) -> String {
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
    let table = summaries(&rows);
    let in_flight = overall.throughput.max_in_flight.map_or_else(|| "n/a".to_owned(), |it| it.to_string());
    format!("{table}\nmost requests under way at one instant: {in_flight}")
}
