//! The section on the reasoning boundary: the four answers, the verdicts and what to do.

use super::page::{ANSWER_CHARS, class_with_cause};
use sobench_core::error_message::error_message;
use sobench_core::printable::{printable, printable_message};
use sobench_preflight::reasoning::ReasoningAnswer;
use sobench_preflight::{ReasoningPreflight, ReasoningResult};
use sobench_render::{Document, Table};
use sobench_report::text::Detail;

/// Maximum characters of a text in the table.
const CELL_CHARS: usize = 28;

/// Adds the section.
pub(super) fn add(document: &mut Document, found: &ReasoningPreflight, detail: Detail) {
    document.heading("Reasoning boundary");
    if !found.answers.is_empty() {
        document.table(table(found));
        document.gap();
    }
    for result in &found.results {
        document.paragraph(line(result));
        document.paragraph(format!("  {}", result.advice));
    }
    if detail == Detail::Full {
        document.gap();
        document.paragraphs(answers(found));
    }
}

fn on_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

fn table(found: &ReasoningPreflight) -> Table {
    let heads = ["thinking", "constraint", "reasoning", "content"];
    let mut table = Table::new(heads, heads.len());
    for answer in &found.answers {
        let [reasoning, content] = cells(answer);
        table.row([
            on_off(answer.thinking).to_owned(),
            on_off(answer.constrained).to_owned(),
            reasoning,
            content,
        ]);
    }
    table
}

/// The length of the reasoning with its start, and the start of the content.
fn cells(answer: &ReasoningAnswer) -> [String; 2] {
    if let Some(failure) = &answer.failure {
        return [class_with_cause(failure), "-".to_owned()];
    }
    let shown = |text: Option<&String>| match text.map(|text| text.trim()) {
        None | Some("") => "none".to_owned(),
        Some(text) => printable(text, CELL_CHARS),
    };
    let mut content = shown(answer.content.as_ref());
    if answer.cut {
        content.push_str(" (cut)");
    }
    [shown(answer.reasoning.as_ref()), content]
}

fn line(result: &ReasoningResult) -> String {
    let reason = match result.reason.as_str() {
        "" => String::new(),
        reason => format!(": {}", printable_message(&error_message(reason))),
    };
    format!(
        "thinking {}: {}{reason}",
        on_off(result.thinking),
        result.verdict
    )
}

/// The texts of every answer.
fn answers(found: &ReasoningPreflight) -> Vec<String> {
    let text = |text: Option<&String>| {
        text.map_or_else(|| "none".to_owned(), |text| printable(text, ANSWER_CHARS))
    };
    let mut lines: Vec<String> = found
        .switch
        .map(|switch| format!("thinking is turned on and off by {}", switch.field()))
        .into_iter()
        .collect();
    lines.extend(found.answers.iter().map(|answer| match &answer.failure {
        Some(failure) => format!(
            "{}: {}: {}",
            answer.label(),
            class_with_cause(failure),
            printable_message(&error_message(&failure.reason))
        ),
        None => format!(
            "{}: reasoning: {}; content: {}",
            answer.label(),
            text(answer.reasoning.as_ref()),
            text(answer.content.as_ref())
        ),
    }));
    lines
}
