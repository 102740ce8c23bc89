//! The report of limits: a summary for each server, and a table of its ladders.

use super::charts::charts;
use super::sentences::{
    after_cancel, end, memory_growth, outcome, seconds, summary, verdicts, worst_neighbour_ms,
};
use crate::limits::{End, Ladder, ProcessSource, ServerLimits, StepOutcome, Verdict};
use sobench_core::printable::{NAME_CHARS, printable, printable_message, thousands};
use sobench_render::{Block, Document, Table};
use sobench_report::text::Detail;

const FIRST_COLUMN_CHARS: usize = 80;

/// The widths of text columns.
const END_CHARS: usize = 22;
const VERDICT_CHARS: usize = 24;
const CANCEL_CHARS: usize = 26;

/// The report. HTML has charts, and the steps in any detail.
pub(crate) fn document(servers: &[ServerLimits], detail: Detail) -> Document {
    let mut document = Document::new("sobench: limits of constraints");
    document.heading("Limits of constraints");
    document.facts(
        servers
            .iter()
            .map(|server| (label(server), summary(server))),
    );
    if let Some(charts) = charts(servers) {
        document.push(Block::Charts(charts));
    }
    for server in servers {
        document.heading(label(server));
        document.table(ladders(server));
        add_messages(&mut document, server);
        if detail == Detail::Full {
            add_steps(&mut document, server, "Steps of ");
        } else {
            let mut hidden = Document::default();
            add_steps(&mut hidden, server, "");
            document.push(Block::Details {
                summary: format!("Steps of {}", label(server)),
                blocks: hidden.blocks,
            });
        }
    }
    document.heading("Settings");
    document.facts(
        servers
            .iter()
            .map(|server| (label(server), conditions(server))),
    );
    document.heading("Verdicts");
    let meanings = Verdict::ALL
        .into_iter()
        .filter(|verdict: &Verdict| {
            servers
                .iter()
                .flat_map(|server| &server.ladders)
                .any(|ladder| ladder.verdicts.contains(verdict))
        })
        .map(|verdict| (verdict.name(), verdict.meaning()));
    document.definitions(meanings.chain([
        (
            "others",
            "the worst latency of small requests without a constraint, one after the other beside the steps",
        ),
        (
            "after a cancel",
            "the connection of a slow step is closed by the client: when a small constraint is answered within its usual time, and how long the server works on",
        ),
    ]));
    document
}

/// Adds the steps of each ladder that was climbed, under its name after `title`.
fn add_steps(document: &mut Document, server: &ServerLimits, title: &str) {
    let climbed = server.ladders.iter();
    for ladder in climbed.filter(|ladder| !ladder.steps.is_empty()) {
        document.minor_heading(format!("{title}{}", ladder.ladder));
        document.table(steps(ladder));
    }
}

/// One row for each ladder.
fn ladders(server: &ServerLimits) -> Table {
    let dash = || "-".to_owned();
    Table::new(
        [
            "ladder",
            "verdict",
            "ended by",
            "after a cancel",
            "largest",
            "first token",
            "others",
            "memory",
        ],
        4,
    )
    .wrapped(1, VERDICT_CHARS)
    .wrapped(2, END_CHARS)
    .wrapped(3, CANCEL_CHARS)
    .with_rows(server.ladders.iter().map(|ladder: &Ladder| {
        let largest = ladder.largest();
        let ttft_ms = largest.and_then(|step| step.ttft_ms);
        [
            ladder.ladder.name().to_owned(),
            verdicts(ladder, &server.small_constraint),
            end(ladder),
            ladder.cancelled.as_ref().map_or_else(dash, after_cancel),
            largest.map_or_else(dash, |step| thousands(step.size)),
            ttft_ms.map_or_else(dash, seconds),
            worst_neighbour_ms(ladder).map_or_else(dash, seconds),
            memory_growth(ladder).unwrap_or_else(dash),
        ]
    }))
}

/// One row for each step.
fn steps(ladder: &Ladder) -> Table {
    let megabytes = |bytes: Option<u64>| {
        bytes.map_or_else(
            || "-".to_owned(),
            |bytes| format!("{:.0}", bytes as f64 / 1e6),
        )
    };
    let rows = ladder.steps.iter().map(|step| {
        [
            outcome(step),
            thousands(step.size),
            thousands(step.request_bytes as u64),
            step.neighbours
                .map_or_else(|| "-".to_owned(), |neighbours| seconds(neighbours.worst_ms)),
            megabytes(step.memory_before_bytes),
            megabytes(step.memory_after_bytes),
        ]
    });
    Table::new(
        [
            "outcome",
            "size",
            "request bytes",
            "others",
            "MB before",
            "MB after",
        ],
        1,
    )
    .wrapped(0, FIRST_COLUMN_CHARS)
    .with_rows(rows)
}

/// The messages of steps that were not accepted, and why ladders were not tested.
fn add_messages(document: &mut Document, server: &ServerLimits) {
    for ladder in &server.ladders {
        let last = ladder
            .steps
            .last()
            .filter(|step| !matches!(step.outcome, StepOutcome::Accepted | StepOutcome::TimedOut));
        if let Some(step) = last {
            let message = printable_message(&step.message);
            document.paragraph(format!(
                "{} {}: {message}",
                ladder.ladder,
                thousands(step.size)
            ));
        }
        if let Some(reason) = &ladder.reason {
            let name = if ladder.end == End::NotCarried {
                "not supported"
            } else {
                "not tested"
            };
            document.paragraph(format!(
                "{}: {name}: {}",
                ladder.ladder,
                printable_message(reason)
            ));
        }
    }
}

fn label(server: &ServerLimits) -> String {
    printable(&server.label, NAME_CHARS)
}

fn conditions(server: &ServerLimits) -> String {
    let name = |text: &String| printable(text, NAME_CHARS);
    let known = |what: &str, text: &Option<String>| {
        text.as_ref()
            .map(|text| format!(", {what} {}", name(text)))
            .unwrap_or_default()
    };
    let process = match server.process {
        None => "memory unknown",
        Some(ProcessSource::Proc) => "memory and CPU time of its processes from /proc",
        Some(ProcessSource::Metrics) => "memory and CPU time from its /metrics",
    };
    format!(
        "{}{} as {}, model {}, schemas in {}{}{}; {} s a step; {} requests; before: a small request {} (worst {}), a small constraint {} (worst {}); {process}",
        name(&server.base_url),
        name(&server.endpoint),
        server.backend,
        name(&server.model),
        server.constraint_dialect,
        known("version", &server.version),
        known("engine", &server.engine),
        server.step_timeout_s,
        server.requests,
        seconds(server.neighbour.median_ms),
        seconds(server.neighbour.worst_ms),
        seconds(server.small_constraint.median_ms),
        seconds(server.small_constraint.worst_ms),
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::servers;
    use super::*;
    use sobench_render::{html, text};

    #[test]
    fn a_summary_has_a_row_for_each_ladder() {
        insta::assert_snapshot!(text::render(&document(&servers(), Detail::Summary)));
    }

    #[test]
    fn a_full_report_has_every_step() {
        let page = text::render(&document(&servers(), Detail::Full));
        let (_, steps) = page.split_once("Steps of enum-size").unwrap();
        assert!(
            steps.contains("refused after") && steps.contains("10,000"),
            "{page}"
        );
    }

    #[test]
    fn html_has_a_chart_for_each_ladder_with_a_line_for_each_server() {
        let page = html::render(&document(&servers(), Detail::Summary));
        assert_eq!(page.matches("<svg viewBox=\"0 0 540").count(), 3, "{page}");
        assert!(page.contains("10,000 refused after"), "{page}");
        assert!(!page.contains("<b>odd"), "text of a server is escaped");
    }

    #[test]
    fn a_page_has_no_control_characters() {
        let page = text::render(&document(&servers(), Detail::Full));
        let is_control = |character: char| character.is_control() && character != '\n';
        assert!(
            !page.chars().any(is_control) && !page.contains('\u{202e}'),
            "{page}"
        );
    }
}
