//! The report of a survey: keyword, verdict, n and evidence. Several servers are compared in one
//! table, with the evidence below.

use sobench_core::error_message::error_message;
use sobench_core::printable::{NAME_CHARS, printable, printable_message};
use sobench_preflight::features::{FeatureResult, FeatureVerdict, ServerSurvey, Survey};
use sobench_render::{Document, Table};

/// The width of the table of one server.
const TABLE_WIDTH: usize = 120;

/// Minimum width of the evidence column.
const MIN_EVIDENCE_CHARS: usize = 40;

/// Width of a row besides its cells: three rules and the blanks around four cells.
const BETWEEN_CELLS: usize = 12;

const ANSWER_CHARS: usize = 90;

/// The report.
pub(crate) fn document(survey: &Survey) -> Document {
    let mut document = Document::new("sobench: JSON-Schema features");
    document.heading("JSON Schema enforcement");
    match survey.servers.as_slice() {
        [one] => document.table(with_evidence(one)),
        several => {
            document.table(side_by_side(several));
            several
                .iter()
                .for_each(|server| add_evidence(&mut document, server));
        }
    }
    document.heading("Summary");
    document.facts(
        survey
            .servers
            .iter()
            .map(|server| (label(server), counts(server))),
    );
    add_conditions(&mut document, survey);
    document.heading("Verdicts");
    let verdicts = FeatureVerdict::ALL
        .into_iter()
        .filter(|verdict: &FeatureVerdict| {
            survey
                .servers
                .iter()
                .any(|server| server.count(*verdict) > 0)
        })
        .map(|verdict| (verdict.name(), verdict.meaning()));
    document.definitions(verdicts.chain([(
        "n",
        "complete answers per request sent; if the first request fails, no more are sent. A truncated answer proves nothing unless it \
                 already breaks the schema",
    ),
    (
        "controls",
        "the same prompts without the keyword, or without any constraint: how many of the answers break the keyword",
    )]));
    document
}

/// The table of one server.
fn with_evidence(server: &ServerSurvey) -> Table {
    let width =
        |cell: fn(&FeatureResult) -> usize| server.found.iter().map(cell).max().unwrap_or(0);
    let beside = width(|found| found.id.chars().count())
        + width(|found| found.verdict.name().len())
        + width(|found| answer_counts(found).len());
    let room = TABLE_WIDTH
        .saturating_sub(beside + BETWEEN_CELLS)
        .max(MIN_EVIDENCE_CHARS);
    Table::new(["keyword", "verdict", "n", "evidence"], 4)
        .wrapped(3, room)
        .with_rows(server.found.iter().map(|found: &FeatureResult| {
            [
                found.id.clone(),
                found.verdict.name().to_owned(),
                answer_counts(found),
                evidence(found),
            ]
        }))
}

/// The table of several servers: one row per feature, one column per server.
fn side_by_side(servers: &[ServerSurvey]) -> Table {
    let heads = std::iter::once("keyword".to_owned()).chain(servers.iter().map(label));
    let mut table = Table::new(heads, 1 + servers.len());
    let ids = servers
        .first()
        .map_or(&[][..], |server| server.found.as_slice())
        .iter()
        .map(|found| found.id.as_str());
    for id in ids {
        let cell = |server: &ServerSurvey| {
            let found = server.found.iter().find(|found| found.id == id);
            found.map_or_else(String::new, |found| match found.verdict {
                FeatureVerdict::Enforced | FeatureVerdict::UnderEnforced => {
                    format!("{} {}", found.verdict.name(), answer_counts(found))
                }
                // The legend has the whole name, which is too wide for several columns.
                FeatureVerdict::NoViolationSeen => {
                    format!("no violation seen {}", answer_counts(found))
                }
                other => other.name().to_owned(),
            })
        };
        table.row(std::iter::once(id.to_owned()).chain(servers.iter().map(cell)));
    }
    table
}

/// The evidence for features that are not enforced, one line each.
fn add_evidence(document: &mut Document, server: &ServerSurvey) {
    document.heading(label(server));
    for found in server.found.iter().filter(|found| {
        !matches!(
            found.verdict,
            FeatureVerdict::Enforced | FeatureVerdict::NoViolationSeen
        )
    }) {
        let evidence = evidence(found);
        document.paragraph(format!(
            "{}: {}: {evidence}",
            found.id,
            found.verdict.name()
        ));
    }
}

/// The number of features with each verdict.
fn counts(server: &ServerSurvey) -> String {
    let counts = FeatureVerdict::ALL
        .into_iter()
        .map(|verdict| (verdict.name(), server.count(verdict)));
    let counts: Vec<String> = counts
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    format!("{} of {} features", counts.join(", "), server.found.len())
}

/// The invalid answer and its violation, or the server's message.
fn evidence(found: &FeatureResult) -> String {
    let duplicates = (found.duplicate_members > 0)
        .then(|| format!("{} with duplicate members", found.duplicate_members));
    let status = found
        .status
        .map(|status| format!("{status} "))
        .unwrap_or_default();
    let message = match &found.offending {
        Some(offending) => {
            let cut = if offending.cut { " (cut)" } else { "" };
            let (text, reason) = (
                printable(&offending.text, ANSWER_CHARS),
                printable_message(&offending.reason),
            );
            Some(format!(
                "{} of {}: {text}{cut} {reason}",
                found.invalid, found.asked
            ))
        }
        None if found.complete > 0 && found.words.is_empty() => Some(format!(
            "{} of {} controls break it",
            found.yielded, found.controls
        )),
        None if found.words.is_empty() => None,
        None => Some(format!(
            "{status}{}",
            printable_message(&error_message(&found.words))
        )),
    };
    message
        .into_iter()
        .chain(duplicates)
        .collect::<Vec<_>>()
        .join("; ")
}

fn answer_counts(found: &FeatureResult) -> String {
    format!("{}/{}", found.complete, found.asked)
}

fn label(server: &ServerSurvey) -> String {
    printable(&server.label, NAME_CHARS)
}

fn add_conditions(document: &mut Document, survey: &Survey) {
    let settings = &survey.settings;
    document.heading("Settings");
    for server in &survey.servers {
        document.facts([(label(server), conditions(server))]);
        document.notes(
            server
                .notices
                .iter()
                .map(|notice| printable(&notice.to_string(), 2 * NAME_CHARS))
                .collect(),
        );
    }
    document.paragraph(format!(
        "{} answers per feature at temperature 1, first seed {}, at most {} tokens and {} s each, concurrency {}",
        settings.samples, settings.seed, settings.output_len, settings.request_timeout_s, settings.max_concurrency
    ));
}

fn conditions(server: &ServerSurvey) -> String {
    let name = |text: &String| printable(text, NAME_CHARS);
    let facts = &server.facts;
    let version = facts
        .version
        .as_ref()
        .map(|version| format!(", version {}", name(version)));
    let engine = facts
        .engine
        .as_ref()
        .map(|engine| format!(", engine {}", name(engine)));
    format!(
        "{}{} as {}, model {}, in {}{}{}; {} requests",
        name(&server.base_url),
        name(&server.path),
        server.backend,
        name(&server.model),
        server.dialect,
        version.unwrap_or_default(),
        engine.unwrap_or_default(),
        server.requests
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::survey;
    use super::*;
    use sobench_render::text;

    #[test]
    fn one_server_has_its_evidence_in_the_table() {
        let mut one = survey();
        one.servers.truncate(1);
        insta::assert_snapshot!(text::render(&document(&one)));
    }

    #[test]
    fn several_servers_are_compared_in_one_table() {
        insta::assert_snapshot!(text::render(&document(&survey())));
    }

    #[test]
    fn a_page_has_no_control_characters() {
        let page = text::render(&document(&survey()));
        assert!(
            !page
                .chars()
                .any(|character| character.is_control() && character != '\n')
                && !page.contains('\u{202e}'),
            "{page}"
        );
        assert!(
            page.lines().all(|line| line.chars().count() <= TABLE_WIDTH),
            "{page}"
        );
    }
}
