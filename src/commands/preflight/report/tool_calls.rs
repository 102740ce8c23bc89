//! The section on tool calls: a table of demands, streamed and whole, and the reasons.

use super::page::{ANSWER_CHARS, class_with_cause};
use sobench_core::distinct::distinct;
use sobench_core::error_message::error_message;
use sobench_core::printable::{printable, printable_message};
use sobench_preflight::tool_calls::CallControl;
use sobench_preflight::{Class, Finding, ToolCell, ToolPreflight, ToolQuestion};
use sobench_render::{Document, Table};
use sobench_report::text::Detail;

/// Adds the section.
pub(super) fn add(document: &mut Document, found: &ToolPreflight, detail: Detail) {
    document.heading("Tool calls");
    document.table(table(found));
    document.gap();
    document.paragraph(format!(
        "without enforcement (auto): {}",
        control(&found.control)
    ));
    if found.calls_unasked == Some(true) {
        document.paragraph("the model also calls where it is asked for plain words");
    }
    let reasons = reasons(found, detail);
    if !reasons.is_empty() {
        document.gap();
        document.paragraphs(reasons);
    }
}

fn table(found: &ToolPreflight) -> Table {
    let streams = distinct(found.cells.iter().map(|cell| cell.stream));
    let heads = streams.iter().copied().map(mode);
    let mut table = Table::new(std::iter::once("demand").chain(heads), 1 + streams.len());
    for question in questions(found) {
        let cells = streams.iter().map(|stream| {
            cell_of(found, question, *stream).map_or_else(|| "-".to_owned(), cell_text)
        });
        table.row(std::iter::once(question.to_string()).chain(cells));
    }
    table
}

fn questions(found: &ToolPreflight) -> Vec<ToolQuestion> {
    distinct(found.cells.iter().map(|cell| cell.question))
}

fn cell_of(found: &ToolPreflight, question: ToolQuestion, stream: bool) -> Option<&ToolCell> {
    found
        .cells
        .iter()
        .find(|cell| cell.question == question && cell.stream == stream)
}

fn mode(stream: bool) -> &'static str {
    if stream { "streamed" } else { "whole" }
}

/// The class, with the wrong part of a partial call.
fn cell_text(cell: &ToolCell) -> String {
    match cell.part {
        Some(part) => format!("{} ({})", cell.finding.class.name(), part.name()),
        None => class_with_cause(&cell.finding),
    }
}

/// What the model does where nothing is enforced.
fn control(control: &CallControl) -> String {
    if let Some(failure) = &control.failure {
        return format!("{}: {}", class_with_cause(failure), shown_reason(failure));
    }
    let text = match control {
        CallControl { leaked: true, .. } => "the server leaves the call of the model as text",
        CallControl { calls: false, .. } => "the model does not call",
        CallControl { obeys: true, .. } => {
            "the model calls with the requested value, which the schemas of the demands forbid"
        }
        CallControl { .. } => {
            "the model calls, but not with the requested value, which the schemas forbid: the temptation is weak"
        }
    };
    text.to_owned()
}

/// A line for every demand that is not enforced, or whose evidence is weak; one for both response
/// modes if their results are alike.
fn reasons(found: &ToolPreflight, detail: Detail) -> Vec<String> {
    let mut lines = Vec::new();
    for question in questions(found) {
        let mut cells = found.cells.iter().filter(|cell| cell.question == question);
        let Some(first) = cells.next() else { continue };
        let result = |cell: &ToolCell| (cell.finding.class, cell.part);
        let others: Vec<&ToolCell> = cells.filter(|cell| result(cell) != result(first)).collect();
        let name = |cell: &ToolCell| match others.is_empty() {
            true => question.to_string(),
            false => format!("{question}, {}", mode(cell.stream)),
        };
        for cell in std::iter::once(first).chain(others.iter().copied()) {
            let is_plain = cell.finding.class == Class::Enforced && detail == Detail::Summary;
            if !is_plain && !cell.finding.reason.is_empty() {
                lines.push(reason(&name(cell), cell, detail));
            }
        }
    }
    lines
}

fn reason(name: &str, cell: &ToolCell, detail: Detail) -> String {
    let retry_note = if cell.asked_again {
        ", tested twice"
    } else {
        ""
    };
    let text = shown_reason(&cell.finding);
    let line = format!("{name}: {}{retry_note}: {text}", cell_text(cell));
    match (&cell.finding.answer, detail) {
        (Some(answer), Detail::Full) => {
            format!("{line}; answer: {}", printable(answer, ANSWER_CHARS))
        }
        _ => line,
    }
}

fn shown_reason(finding: &Finding) -> String {
    printable_message(&error_message(&finding.reason))
}
