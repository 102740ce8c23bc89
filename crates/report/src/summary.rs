//! The report on one screen: the verdict, vLLM's block, the arms side by side, why answers
//! are invalid, the conditions, and the command that shows the rest.

use super::arm_difference::ArmDifferences;
use super::tables::is_judged;
use super::view::{Requirements, View};
use super::{
    Report, accuracy, canaries, channels, client_overhead, conditions, count_marks, departures,
    error_span, sessions, text, verdict,
};
use sobench_core::case::Arm;
use sobench_core::error::Result;
use sobench_core::printable::{printable, printable_message};
use sobench_core::verdict::{Reason, Verdict};
use sobench_facts::Sample;
use sobench_notices::notice::{BenchNotice, FigureNotice, Notice, PreflightNotice};
use sobench_plan::metrics::Answers;
use sobench_render::{self as render, Block, Document, Table, Text};
use sobench_results::compare::gate::GateVerdict;
use sobench_results::metrics::accuracy::AccuracySummary;
use sobench_results::metrics::error_groups::ErrorGroup;
use sobench_results::metrics::examples::Group;
use sobench_results::metrics::registry::{Figure, Metric, Values, latencies, rates, totals};
use sobench_results::to_explain::shell_word;
use sobench_statistics::contrast::Difference;
use sobench_statistics::{Rate, Summary};

/// Lines of a summary with one arm and with several, for the default latencies and percentiles. A
/// longer first notice or message is shown whole all the same.
pub const MAX_LINES_ONE_ARM: usize = 55;
pub const MAX_LINES: usize = 66;

/// The widest line.
pub const WIDTH: usize = render::text::WIDTH;

/// Reasons that are shown with an example; the others are counted in one line.
const MAX_REASONS: usize = 3;

/// Indentation of an example, and of the lines of a reason after the first one.
const EXAMPLE_INDENT: usize = 4;

/// The widest name of a row, cell of an arm, and difference; wider ones wrap.
const MAX_NAME_CHARS: usize = 24;
const MAX_CELL_CHARS: usize = 21;
const MAX_DIFFERENCE_CHARS: usize = 24;

/// The name that text puts before a notice.
const NOTE: &str = "note: ";

/// The percentile in the table of arms, where the run has it.
const SHOWN_PERCENTILE: f64 = 99.0;

/// The mark of a percentile of too few samples.
const TOO_FEW: &str = "*";

/// The summary as text, with a final line feed.
///
/// # Errors
/// An answer that is shown as an example cannot be read from the log.
pub fn render(view: &View<'_>) -> Result<String> {
    Ok(render::text::render(&document(view)?))
}

/// The summary.
///
/// # Errors
/// As `render`.
pub fn document(view: &View<'_>) -> Result<Document> {
    let report = view.report;
    let mut page = Document::default();
    page.push(verdict::block(report));
    if report.partial {
        page.alarm("partial run: it stopped early");
    }
    if let Some(requirements) = view.requirements {
        page.paragraph(requirements_line(requirements));
    }
    if let Some(warning) = conditions::warning(report) {
        page.alarm(warning);
    }
    if let Some(line) = one_request(report) {
        page.paragraph(line);
    }
    page.push(Block::Preformatted(text::vllm_block(report)));
    page.paragraphs(count_marks::footnotes(report));
    if let Some(sentence) = report.recovery_sentence() {
        page.paragraph(sentence);
    }
    add_arms(&mut page, view);
    add_accuracy(&mut page, report);
    if let Some(canaries) = &report.metrics.canaries {
        page.gap();
        page.paragraphs(canaries::summary(canaries));
    }
    page.paragraphs(sessions::summary(&report.metrics));
    departures::add_summary(&mut page, &report.metrics, WIDTH - EXAMPLE_INDENT);
    departures::add_clients(&mut page, &report.metrics, WIDTH - EXAMPLE_INDENT);
    let mut end = Document::default();
    end.facts(facts(report));
    end.push(Block::Preformatted(full_report(view)));
    if let (Some(path), Some(found)) = (view.run_log, &report.to_explain) {
        end.push(Block::Preformatted(found.line(path)));
    }
    let notices = notices(report);

    let max_lines = if report.metrics.arms().count() > 1 {
        MAX_LINES
    } else {
        MAX_LINES_ONE_ARM
    };
    // The first notice, and the line that counts the others.
    let first_notice = notices
        .first()
        .map_or(0, |notice| lines_of(notice, NOTE).len())
        + usize::from(notices.len() > 1);
    let room = max_lines.saturating_sub(lines(&page) + 1 + lines(&end) + first_notice);
    add_reasons(&mut page, view, room)?;
    page.gap();
    page.blocks.append(&mut end.blocks);
    let room = max_lines.saturating_sub(lines(&page));
    page.notes(fitting_notices(&notices, room));
    Ok(page)
}

fn lines(page: &Document) -> usize {
    render::text::render(page).lines().count()
}

/// The datasets that read `--prompt-variants`.
pub const WITH_PROMPT_VARIANTS: [&str; 5] = ["json", "json-unique", "grammar", "regex", "choice"];

/// The line of a run that sent one request several times.
fn one_request(report: &Report) -> Option<String> {
    let repetition = &report.metrics.repetition;
    let is_generated = report.metrics.options.answers == Answers::Generated;
    if !is_generated || !repetition.has_one_request() || repetition.answers == 0 {
        return None;
    }
    let dataset = report.record.settings.dataset.source.name.as_str();
    let flag = if WITH_PROMPT_VARIANTS.contains(&dataset) {
        " (--prompt-variants varies the prompt)"
    } else {
        ""
    };
    let (requests, answers) = (repetition.requests, repetition.answers);
    let found = match repetition.distinct_answers {
        distinct if distinct == answers => "all answers differ".to_owned(),
        distinct => {
            let plural = if distinct == 1 { "" } else { "s" };
            let worth = repetition.effective_answers;
            format!("{distinct} distinct answer{plural} (intervals count {answers} as {worth:.0})")
        }
    };
    Some(format!(
        "note: all {requests} requests have the same prompt; {found}{flag}"
    ))
}

fn requirements_line(requirements: &Requirements) -> String {
    let notes: Vec<&str> = requirements
        .notes
        .iter()
        .map(|note| note.strip_prefix("require: ").unwrap_or(note))
        .collect();
    let rules = requirements.rules;
    let kept = rules.saturating_sub(notes.len());
    let verdict = match requirements.verdict {
        GateVerdict::Passed => "passed",
        GateVerdict::Undecided => "undecided",
        GateVerdict::Failed => "FAILED",
    };
    let mut line = format!("requirements {verdict}: {kept} of {rules} kept");
    if !notes.is_empty() {
        line.push_str(&format!("; {}", notes.join("; ")));
    }
    line
}

/// An arm that has requests.
struct ArmColumn<'r> {
    arm: Arm,
    name: &'r str,
    values: &'r Values,
}

fn arm_columns<'r>(view: &View<'r>) -> Vec<ArmColumn<'r>> {
    let accuracy = view.report.metrics.accuracy.as_ref();
    let has_items = accuracy.is_some_and(AccuracySummary::has_items);
    let arms = view.report.metrics.arms();
    arms.map(|(arm, values)| ArmColumn {
        arm,
        name: match arm {
            Arm::Free if !has_items => "without constraint",
            arm => accuracy::arm_name(&view.report.metrics, arm),
        },
        values,
    })
    .collect()
}

/// The arms side by side, a column each. With two arms, their differences are in a column of their
/// own.
fn add_arms(page: &mut Document, view: &View<'_>) {
    let report = view.report;
    let columns = arm_columns(view);
    let title = match &columns[..] {
        [] => return,
        [only] => match only.arm {
            Arm::Control => "Control requests",
            Arm::Free => "Requests",
            _ => "Constrained requests",
        },
        [_, _] => "Constrained vs control",
        _ => "Arms",
    };
    let has_differences = columns
        .iter()
        .map(|column| column.arm)
        .eq([Arm::Constrained, Arm::Control]);
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut push = |name: &str, cells: Vec<String>, difference: Option<String>| {
        if cells.iter().any(|cell| !cell.is_empty()) {
            let mut row = vec![name.to_owned()];
            row.extend(cells);
            row.extend(has_differences.then(|| difference.unwrap_or_default()));
            rows.push(row);
        }
    };
    let cells = |cell: &dyn Fn(&ArmColumn<'_>) -> String| columns.iter().map(cell).collect();
    let values = &report.metrics.values;
    let rate = |arm| {
        report
            .metrics
            .rate(Figure::of(&rates::CORRECT_RATE, Some(arm)))
    };
    let correct_rate = rate(Arm::Constrained);
    push(
        "requests",
        cells(&|column| column.values.count(&totals::REQUESTS).to_string()),
        None,
    );
    if is_judged(report) {
        push(
            "correct rate (%)",
            cells(&|column| match column.arm {
                arm @ (Arm::Constrained | Arm::Control) => percent(rate(arm)),
                _ => String::new(),
            }),
            correct_rate
                .zip(rate(Arm::Control))
                .map(|(correct, control)| format!("{:+.2}", correct.percent - control.percent)),
        );
        push(
            "compliance (%)",
            cells(&|column| match column.arm {
                Arm::Constrained => percent(values.rate(&rates::COMPLIANCE)),
                _ => String::new(),
            }),
            None,
        );
    }
    let (name, counts) = without_answer(&columns);
    push(&name, counts, None);
    let differences = report.differences.clone().unwrap_or_default();
    for metric in [&latencies::TTFT, &latencies::TPOT] {
        push(
            &latency_name(report, metric),
            cells(&|column| latency(column.values.summary(metric))),
            mean_difference(&columns, metric, &differences),
        );
    }
    let is_computed = report.metrics.options.answers == Answers::Computed;
    let name = if is_computed {
        latency_name(report, &latencies::E2EL)
    } else {
        "E2EL mean (ms)".to_owned()
    };
    push(
        &name,
        cells(&|column| {
            let summary = column.values.summary(&latencies::E2EL);
            if is_computed {
                latency(summary)
            } else {
                summary.mean.map(short).unwrap_or_default()
            }
        }),
        mean_difference(&columns, &latencies::E2EL, &differences),
    );
    push(
        &count_marks::marked("output tok/s", &report.metrics, &totals::OUTPUT_THROUGHPUT),
        cells(&|column| {
            let throughput = column.values.number(&totals::OUTPUT_THROUGHPUT);
            throughput.map(short).unwrap_or_default()
        }),
        None,
    );
    let has_marks = rows.iter().flatten().any(|cell| cell.ends_with(TOO_FEW));
    let legend = match (is_judged(report), has_marks) {
        (true, true) => " (95 % interval; * too few samples for the percentile)",
        (true, false) => " (95 % interval)",
        (false, true) => " (* too few samples for the percentile)",
        (false, false) => "",
    };
    page.heading(format!("{title}{legend}"));
    page.table(table(&columns, has_differences, rows));
}

/// Accuracy by arm, and what it says.
fn add_accuracy(page: &mut Document, report: &Report) {
    let Some(accuracy) = &report.metrics.accuracy else {
        return;
    };
    page.heading(accuracy::summary_title(accuracy));
    if let Some(table) = accuracy::summary_table(report) {
        page.table(table);
    }
    for sentence in accuracy::sentences(accuracy) {
        page.paragraph(sentence);
    }
}

/// A row of the counts that are not zero in every arm: its name, and its cells.
fn without_answer(columns: &[ArmColumn<'_>]) -> (String, Vec<String>) {
    type Count = fn(&ArmColumn<'_>) -> usize;
    let counts: [(&str, Count); 3] = [
        ("truncated", |column| {
            column.values.count(&totals::TRUNCATED)
        }),
        ("refused", |column| {
            column.values.count(&rates::REFUSED_RATE)
        }),
        ("failed", |column| {
            let failed = column.values.count(&totals::FAILED);
            failed.saturating_sub(column.values.count(&rates::REFUSED_RATE))
        }),
    ];
    let (names, counts): (Vec<_>, Vec<_>) = counts
        .into_iter()
        .filter(|(_, count)| columns.iter().any(|column| count(column) > 0))
        .unzip();
    let cell = |column: &ArmColumn<'_>| {
        let counts: Vec<String> = counts
            .iter()
            .map(|count| count(column).to_string())
            .collect();
        counts.join("/")
    };
    (names.join("/"), columns.iter().map(cell).collect())
}

fn table(columns: &[ArmColumn<'_>], has_differences: bool, rows: Vec<Vec<String>>) -> Table {
    let heads: Vec<&str> = match columns {
        [_] => vec!["", ""],
        _ => std::iter::once("")
            .chain(columns.iter().map(|column| column.name))
            .chain(has_differences.then_some("difference"))
            .collect(),
    };
    let mut table = Table::new(heads, 1).wrapped(0, MAX_NAME_CHARS);
    for column in 1..=columns.len() {
        table = table.wrapped(column, MAX_CELL_CHARS);
    }
    if has_differences {
        table = table.wrapped(columns.len() + 1, MAX_DIFFERENCE_CHARS);
    }
    table.with_rows(rows)
}

fn percent(rate: Option<Rate>) -> String {
    rate.map_or_else(
        || "n/a".to_owned(),
        |rate| {
            let percent = if rate.hits == rate.of {
                "100".to_owned()
            } else {
                format!("{:.2}", rate.percent)
            };
            let (low, high) = (rate.low_percent, rate.high_percent);
            format!("{percent} ({low:.1} to {high:.1})")
        },
    )
}

/// A figure with about four digits.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// p99 where the run has it, else the last percentile that is not the median.
fn shown_percentile(summary: &Summary) -> Option<&sobench_statistics::Percentile> {
    let p99 = summary
        .percentiles
        .iter()
        .find(|percentile| percentile.p == SHOWN_PERCENTILE);
    p99.or_else(|| {
        summary
            .percentiles
            .iter()
            .rfind(|percentile| percentile.p != 50.0)
    })
}

fn latency_name(report: &Report, metric: &Metric) -> String {
    let summary = report.metrics.values.summary(metric);
    let percentile = shown_percentile(summary)
        .map(|percentile| format!("/p{}", percentile.label()))
        .unwrap_or_default();
    let name = count_marks::marked(metric.label, &report.metrics, metric);
    format!("{name} mean/p50{percentile} (ms)")
}

fn latency(summary: &Summary) -> String {
    let Some((mean, median)) = summary.mean.zip(summary.median) else {
        return String::new();
    };
    let percentile = shown_percentile(summary).and_then(|percentile| {
        let mark = if percentile.enough { "" } else { TOO_FEW };
        Some(format!("/{}{mark}", short(percentile.value?)))
    });
    format!(
        "{}/{}{}",
        short(mean),
        short(median),
        percentile.unwrap_or_default()
    )
}

/// The constrained mean less the control mean, with the interval that the report has.
fn mean_difference(
    columns: &[ArmColumn<'_>],
    metric: &Metric,
    differences: &ArmDifferences,
) -> Option<String> {
    if let Some(found) = differences.get(metric) {
        return Some(difference(&found));
    }
    let mut means = columns
        .iter()
        .map(|column| column.values.summary(metric).mean);
    let (constrained, control) = (means.next()??, means.next()??);
    Some(signed(constrained - control))
}

/// A difference of few values, which has no interval, may be that of two single requests.
fn difference(found: &Difference) -> String {
    match found.low.zip(found.high) {
        Some((low, high)) => {
            let difference = signed(found.difference);
            format!("{difference} ({} to {})", short(low), short(high))
        }
        None => "too few".to_owned(),
    }
}

fn signed(value: f64) -> String {
    let sign = if value < 0.0 { "" } else { "+" };
    format!("{sign}{}", short(value))
}

/// Adds reasons with their first example, then requests without an answer, in `room` lines. One is
/// always shown.
fn add_reasons(page: &mut Document, view: &View<'_>, room: usize) -> Result<()> {
    let metrics = &view.report.metrics;
    let reasons = &metrics.findings.reasons;
    let errors = &metrics.errors;
    let title = match (reasons.is_empty(), errors.groups.is_empty()) {
        (true, true) => return Ok(()),
        (false, true) => "Why answers are invalid",
        (true, false) => "Why requests have no answer",
        (false, false) => "Why answers are invalid or missing",
    };
    let mut items: Vec<(Text, Vec<Text>)> = Vec::new();
    for group in reasons.iter().take(MAX_REASONS) {
        items.push(reason_item(view, group)?);
    }
    items.extend(errors.groups.iter().map(error_item));

    let mut counts: Vec<(usize, &str)> = reasons
        .iter()
        .map(|group| (group.count, group.name))
        .collect();
    // Reasons beyond the shown ones come after the errors, which are shown first.
    let other_reasons = counts.split_off(counts.len().min(MAX_REASONS));
    counts.extend(
        errors
            .groups
            .iter()
            .map(|group| (group.count, group.outcome)),
    );
    counts.extend(other_reasons);
    if errors.more_requests > 0 {
        counts.push((errors.more_requests, "with other errors"));
    }
    // The heading and the blank line above it.
    let used = |shown: usize| {
        let lines: usize = items[..shown]
            .iter()
            .map(|(_, below)| 1 + below.len())
            .sum();
        2 + lines + usize::from(shown < counts.len())
    };
    let shown = (1..=items.len()).rev().find(|shown| used(*shown) <= room);
    if shown.is_none() {
        items[0].1.clear();
    }
    let shown = shown.unwrap_or(1);
    page.heading(title);
    items.truncate(shown);
    for (text, below) in items {
        page.push(Block::Item { text, below });
    }
    let others: Vec<String> = counts[shown..]
        .iter()
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    if !others.is_empty() {
        let (text, below) = text::item(
            &format!("also {}", others.join(", ")),
            WIDTH - EXAMPLE_INDENT,
            Vec::new(),
        );
        page.push(Block::Item { text, below });
    }
    Ok(())
}

/// A reason, and below it its first example.
fn reason_item(view: &View<'_>, group: &Group) -> Result<(Text, Vec<Text>)> {
    let first = view
        .samples
        .iter()
        .enumerate()
        .find_map(|(index, sample)| Some((index, sample, broken(sample, group.name)?)));
    let Some((index, sample, reason)) = first else {
        return Ok(failure_item(group));
    };
    let line = reason_line(group, &sample.id(), &reason.to_string());
    let example = example(&(view.answer)(index)?.text(), reason);
    Ok(text::item(&line, WIDTH - EXAMPLE_INDENT, example))
}

fn failure_item(group: &Group) -> (Text, Vec<Text>) {
    let line = group.examples.first().map_or_else(
        || format!("{} {}", group.count, group.name),
        |excerpt| reason_line(group, &excerpt.case_id, &excerpt.message),
    );
    text::item(&line, WIDTH - EXAMPLE_INDENT, Vec::new())
}

fn error_item(group: &ErrorGroup) -> (Text, Vec<Text>) {
    let line = format!(
        "{} {}, first in {}: {}",
        group.count, group.outcome, group.first_request, group.message
    );
    text::item(&line, WIDTH - EXAMPLE_INDENT, Vec::new())
}

/// The reason of a constrained answer that is invalid by the reason of this name.
fn broken<'s>(sample: &Sample<'s>, name: &str) -> Option<&'s Reason> {
    match sample.verdict() {
        Verdict::Invalid { reason }
            if sample.arm() == Arm::Constrained && reason.name() == name =>
        {
            Some(reason)
        }
        _ => None,
    }
}

fn reason_line(group: &Group, id: &str, message: &str) -> String {
    let (count, name) = (group.count, group.name);
    let message = printable_message(message);
    format!("{count} {name}, first in {id}: {message}")
}

fn example(answer: &str, reason: &Reason) -> Vec<Text> {
    if answer.is_empty() {
        return Vec::new();
    }
    vec![quoted(answer, reason, WIDTH - EXAMPLE_INDENT).into()]
}

/// The answer around its error, in quotes and with the error between `>>>` and `<<<`, in at most
/// `width` characters.
fn quoted(answer: &str, reason: &Reason, width: usize) -> String {
    let found = error_span::mark(answer, reason, width);
    let (open, close) = if found.marked.is_empty() {
        ("", "")
    } else {
        (">>>", "<<<")
    };
    let end = if found.ended_early {
        " <- ends here"
    } else {
        ""
    };
    // Two quotes and three ellipses at most.
    let room = width - open.len() - close.len() - end.len() - 5;
    let marked = printable(found.marked, room / 3);
    let room = room.saturating_sub(marked.chars().count());
    let [before, after] = [found.before, found.after].map(escaped);
    let after_chars: usize = after.iter().map(|shown| shown.chars().count()).sum();
    let before_room = (room / 2).max(room.saturating_sub(after_chars));
    let (mut before, cut_before) = fitting(before.iter().rev(), before_room);
    before.reverse();
    let before = before.concat();
    let (after, cut_after) = fitting(after.iter(), room - before.chars().count().min(room));
    let ellipsis = |is_cut: bool| if is_cut { "…" } else { "" };
    format!(
        "\"{}{before}{open}{marked}{close}{}{}\"{end}",
        ellipsis(cut_before || found.cut_before > 0),
        after.concat(),
        ellipsis(cut_after || found.cut_after > 0),
    )
}

/// Each character as a terminal may show it.
fn escaped(text: &str) -> Vec<String> {
    text.chars()
        .map(|character| printable(character.encode_utf8(&mut [0; 4]), usize::MAX))
        .collect()
}

/// The first of `shown` that fit into `room` characters, and whether others are left out.
fn fitting<'s>(shown: impl Iterator<Item = &'s String>, room: usize) -> (Vec<&'s str>, bool) {
    let (mut fitting, mut used) = (Vec::new(), 0);
    for piece in shown {
        used += piece.chars().count();
        if used > room {
            return (fitting, true);
        }
        fitting.push(piece.as_str());
    }
    (fitting, false)
}

/// A line each on the client, the server and the constraint.
fn facts(report: &Report) -> Vec<(&'static str, String)> {
    let mut lines = vec![("client", client_overhead::summary(report))];
    lines.push(("server", conditions::server_line(report)));
    lines.push(("constraint", conditions::constraint_line(report)));
    let metrics = &report.metrics;
    let parity = metrics.stream_parity.as_ref();
    let parity = parity.map(|parity| channels::parity_sentence(parity, metrics));
    lines.extend(parity.map(|sentence| ("parity", sentence)));
    lines
}

/// The command that shows the full report of this run.
fn full_report(view: &View<'_>) -> String {
    let Some(path) = view.run_log else {
        let flag = if view.report.record.merged.is_empty() {
            "--run-log"
        } else {
            "--output"
        };
        return format!("all figures: --detail full; no run log was kept, {flag} PATH keeps one");
    };
    let path = shell_word(&path.display().to_string());
    let line = format!("all figures: sobench report {path} --detail full");
    if line.chars().count() <= WIDTH {
        line
    } else {
        format!("all figures: sobench report --detail full \\\n{path}")
    }
}

/// The notices that a reader of the summary needs.
fn notices(report: &Report) -> Vec<String> {
    conditions::notices(report)
        .iter()
        .filter(|notice| is_needed(notice))
        .map(conditions::notice_text)
        .collect()
}

/// The first notices that fit into `room` lines, and the number of the others. The first one is
/// always shown.
fn fitting_notices(notices: &[String], mut room: usize) -> Vec<String> {
    let mut shown = Vec::new();
    for (place, notice) in notices.iter().enumerate() {
        let lines = lines_of(notice, NOTE).len();
        // The line that counts the others needs room, too.
        let others = usize::from(place + 1 < notices.len());
        if place > 0 && lines + others > room {
            break;
        }
        room = room.saturating_sub(lines);
        shown.push(notice.clone());
    }
    let others = notices.len() - shown.len();
    if others > 0 {
        shown.push(format!("{others} more with --detail full"));
    }
    shown
}

/// Whether a notice is a warning that the rest of the summary does not state already.
fn is_needed(notice: &Notice) -> bool {
    !matches!(
        notice,
        Notice::Figure(
            FigureNotice::RoundedItl { .. }
                | FigureNotice::NotJudged { .. }
                | FigureNotice::Goodput { .. }
                | FigureNotice::MultiTokenChunks { .. }
                | FigureNotice::BrokenConstraints {
                    seen_enforced: false,
                    ..
                }
        ) | Notice::Bench(
            BenchNotice::FlagWithoutEffect { .. }
                | BenchNotice::ResultFlagsUnused
                | BenchNotice::ChatTemplateKwargsUnused { .. }
                | BenchNotice::SyntheticModel { embedded: true }
                | BenchNotice::EngineDeclared { .. }
                | BenchNotice::LoraModules { .. }
                | BenchNotice::ColdSchemas { .. }
                | BenchNotice::FirstUse { .. }
        ) | Notice::Preflight(PreflightNotice::Enforced { .. })
    )
}

/// The lines that text is wrapped into behind `name`.
fn lines_of(sentence: &str, name: &str) -> Vec<String> {
    let wrapped = render::text::wrap(&format!("{name}{sentence}"), WIDTH, "  ");
    wrapped.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
