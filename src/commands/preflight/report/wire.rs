//! The section on requests that must fail, prompts that must count, and second turns.

use sobench_core::printable::printable;
use sobench_preflight::{WirePreflight, WireResult, WireVerdict};
use sobench_render::{Document, Table};
use sobench_report::text::Detail;

/// Width of the column of the server's words.
const WORDS_CHARS: usize = 50;

/// Adds the section: the answer, then the tests that are not fine, or all.
pub(super) fn add(document: &mut Document, found: &WirePreflight, detail: Detail) {
    document.heading("Requests");
    let count = |results: &[WireResult]| {
        let fine = results
            .iter()
            .filter(|result| result.verdict == WireVerdict::Fine);
        format!("{} of {}", fine.count(), results.len())
    };
    document.paragraph(format!(
        "{} requests that must fail are refused with 400 and a message; {} tests of prompts and second turns are fine",
        count(&found.negative),
        count(&found.prompts)
    ));
    let is_shown =
        |result: &&WireResult| detail == Detail::Full || result.verdict != WireVerdict::Fine;
    let shown: Vec<&WireResult> = found.results().filter(is_shown).collect();
    if shown.is_empty() {
        return;
    }
    let mut table =
        Table::new(["test", "verdict", "the server's words"], 3).wrapped(2, WORDS_CHARS);
    for result in &shown {
        table.row([
            result.name.to_owned(),
            result.verdict.name().to_owned(),
            printable(&result.words, 3 * WORDS_CHARS),
        ]);
    }
    document.table(table);
    if detail == Detail::Full {
        document.gap();
        let body = |result: &&WireResult| format!("{}: {}", result.name, result.request);
        document.paragraphs(shown.iter().map(body).collect::<Vec<_>>());
    }
}
