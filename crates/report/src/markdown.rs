//! The report as a short Markdown comment for a pull request.

use super::conditions::{self, lines, notice_text, notices};
use super::tables::{self, all_metrics, is_judged, rates};
use super::text::figure;
use super::{
    Report, accuracy, canaries, client_sentence, count_marks, latency_table, map, sessions, verdict,
};
use sobench_core::case::Arm;
use sobench_core::printable::{printable, printable_message};
use sobench_render::{self as render, Block, Cell, Document, Table, Text};
use sobench_results::metrics::examples::{Example, Group};
use sobench_results::metrics::registry::totals;
use sobench_statistics::Rate;

/// Characters at most of a name, and of an example of an answer.
const NAME_MAX_CHARS: usize = 80;
const EXAMPLE_MAX_CHARS: usize = 120;

/// Notices at most: GitHub takes 65,536 characters in a comment.
const NOTES_MAX: usize = 12;

/// The comment.
pub fn render(report: &Report) -> String {
    render::markdown::render(&document(report), 3)
}

fn document(report: &Report) -> Document {
    let record = &report.record;
    let (model, dataset) = (
        &record.server.model_id,
        record.settings.dataset.source.name.as_str(),
    );
    let [model, dataset] = [model, dataset].map(|name| printable(name, NAME_MAX_CHARS));
    let mut page = Document::new(
        Text::default()
            .plain("sobench: ")
            .code(model)
            .plain(" on ")
            .code(dataset),
    );
    page.push(verdict::block(report));
    add_summary(&mut page, report);
    if is_judged(report) {
        let mut rates = rates(&report.metrics);
        rates.rows.retain(|row| row[1] != Cell::from("n/a"));
        page.table(rates);
    }
    page.paragraphs(tables::sentences(report));
    canaries::add(&mut page, &report.metrics);
    map::add(&mut page, &report.metrics, false);
    sessions::add(&mut page, &report.metrics);
    accuracy::add(&mut page, report);
    if let Some(latencies) = latency_table::latencies(report) {
        page.table(latencies);
        page.paragraphs(count_marks::footnotes(report));
    }
    let metrics = &report.metrics;
    add_groups(
        &mut page,
        "Invalid constrained answers by reason",
        &metrics.findings.reasons,
        metrics.requests_of(Arm::Constrained),
    );
    add_groups(
        &mut page,
        "Failed requests by outcome, all arms",
        &metrics.failures,
        metrics.values.count(&totals::REQUESTS),
    );
    tables::add_quality(&mut page, metrics, false);
    if let Some(part) = &report.client {
        page.paragraph(
            Text::default()
                .strong("Client:")
                .plain(format!(" {}", client_sentence(part))),
        );
    }
    add_notes(&mut page, report);
    page.push(Block::Details {
        summary: "All metrics".to_owned(),
        blocks: vec![Block::Table(all_metrics(&report.metrics))],
    });
    let facts = lines(report)
        .into_iter()
        .map(|(name, known)| (name.to_owned(), known))
        .collect();
    page.push(Block::Details {
        summary: "Conditions".to_owned(),
        blocks: vec![Block::Facts(facts)],
    });
    page
}

fn add_summary(page: &mut Document, report: &Report) {
    if let Some(stamp) = conditions::warning(report) {
        page.alarm(stamp);
    }
    if report.partial {
        page.alarm(
            Text::default()
                .strong("Partial:")
                .plain(" the run stopped early"),
        );
    }
    let values = &report.metrics.values;
    let seconds = report.metrics.duration_ns as f64 / 1e9;
    let mut summary = format!(
        "{} requests in {seconds:.2} s, {} answered, {} refused or failed",
        values.count(&totals::REQUESTS),
        values.count(&totals::COMPLETED),
        values.count(&totals::FAILED)
    );
    tables::add_throughput(&mut summary, &report.metrics);
    page.paragraph(summary);
}

fn add_groups(page: &mut Document, title: &str, groups: &[Group], whole: usize) {
    if groups.is_empty() {
        return;
    }
    page.minor_heading(title);
    page.table(
        Table::new(["", "count", "share %", "first example"], 1)
            .left_aligned(3)
            .with_rows(groups.iter().map(|group| {
                let share = figure(Rate::new(group.count, whole).map(|rate| rate.percent));
                let examples = group.examples.first().map_or_else(Vec::new, example);
                [
                    group.name.into(),
                    group.count.to_string().into(),
                    share.into(),
                    Cell::Code(examples),
                ]
            })),
    );
}

fn example(excerpt: &Example) -> Vec<String> {
    let mut parts = vec![
        printable(&excerpt.case_id, NAME_MAX_CHARS),
        printable_message(&excerpt.message),
        printable(&excerpt.text, EXAMPLE_MAX_CHARS),
    ];
    parts.retain(|part| !part.is_empty());
    parts
}

fn add_notes(page: &mut Document, report: &Report) {
    let mut notes: Vec<String> = notices(report).iter().map(notice_text).collect();
    let more = notes.len().saturating_sub(NOTES_MAX);
    notes.truncate(NOTES_MAX);
    if more > 0 {
        notes.push(format!(
            "and {more} more notes, in the other formats of this report"
        ));
    }
    page.notes(notes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::testing::with_view;
    use sobench_core::case::Arm;
    use sobench_core::observation::Outcome;
    use sobench_core::verdict::{NotScored, Reason, Verdict};
    use sobench_facts::TokenSource;
    use sobench_facts::testing::{TestRequest, test_request};
    use sobench_notices::notice::Notice;
    use sobench_plan::record::RunRecord;
    use sobench_plan::record::testing::record;
    use sobench_results::metrics::client_overhead::ClientOverhead;

    fn rendered(run: &[TestRequest<'_>], record: RunRecord, partial: bool) -> String {
        with_view(run, record, |view| {
            render(&Report {
                client: Some(ClientOverhead::default()),
                partial,
                ..view.report.clone()
            })
        })
    }

    #[test]
    fn a_comment_has_conditions_figures_and_reasons() {
        let mut odd = record();
        odd.server.model_id = "m|`x`".into();
        odd.notices = vec![Notice::Other("the server said @everyone <b>".into())];
        let invalid = Verdict::Invalid {
            reason: Reason::ExtraText {
                byte: 2,
                kind: sobench_core::verdict::ExtraText::Unknown,
                valid_if_stripped: false,
            },
        };
        let refused = Outcome::Rejected {
            status: 400,
            body: "no | @you".into(),
            advice: None,
        };
        let run = [
            test_request(),
            TestRequest {
                verdict: invalid.clone(),
                text: "{} | `<script>`\n@me",
                ..test_request()
            },
            TestRequest {
                outcome: refused,
                verdict: Verdict::NotScored {
                    why: NotScored::Refused,
                },
                ..test_request()
            },
            TestRequest {
                arm: Arm::Control,
                verdict: invalid,
                ..test_request()
            },
        ];
        insta::assert_snapshot!(rendered(&run, odd, true));
    }

    #[test]
    fn doubtful_token_counts_are_marked() {
        let run = [TestRequest {
            source: TokenSource::OtherTokenizer,
            ..test_request()
        }];
        let page = rendered(&run, record(), false);
        for text in [
            "1.50 output tokens/s \\[out\\]",
            "| TPOT \\[out\\] |",
            "\\[out\\] token counts of 1 answers",
        ] {
            assert!(page.contains(text), "{text}\n{page}");
        }
    }

    #[test]
    fn many_notes_are_counted() {
        let notices = (0..40)
            .map(|number| Notice::Other(format!("note {number}")))
            .collect();
        let page = rendered(
            &[test_request()],
            RunRecord {
                notices,
                ..record()
            },
            false,
        );
        assert!(page.contains("- note 11\n- and 28 more notes"), "{page}");
    }

    #[test]
    fn a_run_without_requests_has_no_table() {
        let page = rendered(&[], record(), false);
        assert!(
            page.starts_with("### sobench: `m` on `json`") && !page.contains("latency (ms)"),
            "{page}"
        );
    }
}
