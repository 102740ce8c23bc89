//! A run in few lines, for the comment on a pull request: what ran, how right, how fast, what went wrong, and whether the client can be
//! trusted. GitHub's Markdown. What strangers said is code, so that it calls nobody and is no markup. Knows no request.

use std::fmt::Write as _;

use super::conditions::{lines, notes};
use super::escape::{markdown_code, markdown_text};
use super::tables::{RATE_COLUMNS, is_judged, rate_rows};
use super::text::figure;
use super::{Report, by_arm, client_sentence};
use crate::metrics::excerpt::{Excerpt, Group};
use crate::metrics::registry;
use crate::statistics::Rate;

/// The most characters of a name, and of an example of an answer.
const NAME_MAX_CHARS: usize = 80;
const EXAMPLE_MAX_CHARS: usize = 120;

/// The most notes that are shown: a comment is to be read, and GitHub takes 65,536 characters.
const NOTES_MAX: usize = 12;

/// The whole comment.
pub fn render(report: &Report) -> String {
    let mut page = String::new();
    add_title(&mut page, report);
    if is_judged(report) {
        add_quality(&mut page, report);
    }
    add_latency(&mut page, report);
    let (quality, metrics) = (&report.metrics.quality, &report.metrics);
    add_groups(&mut page, "Why constrained answers are not valid", &quality.reasons, quality.constrained);
    add_groups(&mut page, "Requests without an answer, in all arms", &metrics.failures, metrics.overall.requests);
    if let Some(part) = &report.client {
        let _ = writeln!(page, "**Client:** {}\n", markdown_text(&client_sentence(part)));
    }
    add_notes(&mut page, report);
    add_metrics(&mut page, report);
    page.push_str("<details><summary>What ran</summary>\n\n");
    for (name, known) in lines(report) {
        let _ = writeln!(page, "- {name}: {}", markdown_text(&known));
    }
    page.push_str("\n</details>\n");
    page
}

fn add_title(page: &mut String, report: &Report) {
    let record = &report.record;
    let model = markdown_code(&record.server.model_id, NAME_MAX_CHARS);
    let dataset = markdown_code(record.settings.dataset.name.name(), NAME_MAX_CHARS);
    let _ = writeln!(page, "### sobench: {model} on {dataset}\n");
    if let Some(stamp) = record.enforcement.stamp() {
        let _ = writeln!(page, "> **{}**\n", markdown_text(&stamp));
    }
    if report.partial {
        page.push_str("> **Partial:** the run did not come to its end\n\n");
    }
    let overall = &report.metrics.overall;
    let seconds = report.metrics.duration_ns as f64 / 1e9;
    let _ = write!(page, "{} requests in {seconds:.2} s", overall.requests);
    let _ = write!(page, ", {} answered, {} refused or failed", overall.completed, overall.failed);
    let rates = [("answers/s", overall.throughput.request_throughput), ("output tokens/s", overall.throughput.output_throughput)];
    for (unit, rate) in rates {
        if let Some(rate) = rate {
            let _ = write!(page, ", {rate:.2} {unit}");
        }
    }
    page.push_str("\n\n");
}

fn add_quality(page: &mut String, report: &Report) {
    add_row(page, &RATE_COLUMNS.map(str::to_owned));
    page.push_str("|---|--:|--:|--:|---|\n");
    for row in rate_rows(&report.metrics.quality).iter().filter(|row| row[1] != "n/a") {
        add_row(page, row);
    }
    page.push('\n');
}

fn add_latency(page: &mut String, report: &Report) {
    let (head, rows) = by_arm::latencies(report);
    if rows.is_empty() {
        return;
    }
    add_row(page, &head);
    let _ = writeln!(page, "|---|{}", "--:|".repeat(head.len() - 1));
    rows.iter().for_each(|row| add_row(page, row));
    page.push('\n');
}

/// Every metric, for those who look for one.
fn add_metrics(page: &mut String, report: &Report) {
    page.push_str("<details><summary>All metrics</summary>\n\n");
    add_row(page, &registry::ROW_COLUMNS.map(str::to_owned));
    page.push_str("|---|--:|---|\n");
    registry::rows(&report.metrics, registry::Page::Whole).iter().for_each(|row| add_row(page, row));
    page.push_str("\n</details>\n\n");
}

fn add_groups(page: &mut String, title: &str, groups: &[Group], whole: usize) {
    if groups.is_empty() {
        return;
    }
    let _ = writeln!(page, "**{title}**\n\n| | count | share % | the first one |\n|---|--:|--:|---|");
    for group in groups {
        let share = figure(Rate::of(group.count, whole).map(|rate| rate.percent));
        let example = group.excerpts.first().map(example).unwrap_or_default();
        let _ = writeln!(page, "| {} | {} | {share} | {example} |", markdown_text(group.name), group.count);
    }
    page.push('\n');
}

fn example(excerpt: &Excerpt) -> String {
    let parts = [(excerpt.case_id.as_str(), true), (&excerpt.words, true), (&excerpt.text, excerpt.text_bytes > 0)];
    let shown = parts.into_iter().filter(|(text, is_there)| *is_there && !text.is_empty());
    shown.map(|(text, _)| markdown_code(text, EXAMPLE_MAX_CHARS)).collect::<Vec<_>>().join("<br>")
}

fn add_notes(page: &mut String, report: &Report) {
    let notes = notes(report);
    for note in notes.iter().take(NOTES_MAX) {
        let _ = writeln!(page, "- {}", markdown_text(note));
    }
    if notes.len() > NOTES_MAX {
        let _ = writeln!(page, "- and {} more notes, in the other forms of this report", notes.len() - NOTES_MAX);
    }
    if !notes.is_empty() {
        page.push('\n');
    }
}

/// Cells of ours: figures and fixed words, of which a bound may have a sign.
fn add_row(page: &mut String, cells: &[String]) {
    let _ = writeln!(page, "| {} |", cells.iter().map(|it| it.replace('<', "&lt;")).collect::<Vec<_>>().join(" | "));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Arm;
    use crate::metrics::client::ClientPart;
    use crate::metrics::testing::{Made, made};
    use crate::observation::Outcome;
    use crate::record::RunRecord;
    use crate::record::testing::record;
    use crate::report::view::testing::with_view;
    use crate::verdict::{NotScored, Reason, Verdict};

    fn rendered(run: &[Made<'_>], record: RunRecord, partial: bool) -> String {
        with_view(run, record, |view| render(&Report { client: Some(ClientPart::default()), partial, ..view.report.clone() }))
    }

    #[test]
    fn a_comment_says_what_ran_how_well_and_why_not() {
        let mut odd = record();
        odd.server.model_id = "m|`x`".into();
        odd.notices = vec!["the server said @everyone <b>".into()];
        let invalid = Verdict::Invalid { reason: Reason::ExtraText { byte: 2 } };
        let refused = Outcome::Rejected { status: 400, body: "no | @you".into(), advice: None };
        let run = [
            made(),
            Made { verdict: invalid.clone(), text: "{} | `<script>`\n@me", ..made() },
            Made { outcome: refused, verdict: Verdict::NotScored { why: NotScored::Refused }, ..made() },
            Made { arm: Arm::Control, verdict: invalid, ..made() },
        ];
        insta::assert_snapshot!(rendered(&run, odd, true));
    }

    #[test]
    fn many_notes_are_counted() {
        let notices = (0..40).map(|it| format!("note {it}")).collect();
        let page = rendered(&[made()], RunRecord { notices, ..record() }, false);
        assert!(page.contains("- note 11\n- and 28 more notes"), "{page}");
    }

    #[test]
    fn nothing_is_not_a_table() {
        let page = rendered(&[], record(), false);
        assert!(page.starts_with("### sobench: `m` on `json`") && !page.contains("latency (ms)"), "{page}");
    }
}
