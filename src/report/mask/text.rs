//! What a person reads on the console. Knows no terminal: it returns a string, and every figure in it comes from the tables.

use std::fmt::Write as _;

use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::width::Wrap;
use tabled::settings::{Alignment, Modify, Style};

use super::Summary;
use super::definitions::DEFINITIONS;
use super::number::{bytes, count};
use super::outcome::SchemaOutcome;
use super::tables::{self, Section};
use crate::printable::printable;

/// The width that sentences are wrapped at; tables of three engines keep to it.
const PAGE_WIDTH: usize = 110;

/// The most characters of a name or a sentence that came from outside.
const NAME_MAX_CHARS: usize = 200;
const NOTICE_MAX_CHARS: usize = 600;

/// How much of a hash tells two corpora apart at a glance; the file has the whole.
const HASH_SHOWN_CHARS: usize = 12;

/// The whole console output, with a final line feed.
pub fn render(summary: &Summary) -> String {
    let mut page = String::new();
    for section in tables::all(summary) {
        let separator = if page.is_empty() { "" } else { "\n" };
        let _ = write!(page, "{separator}{}\n{}\n", section.title, table(&section));
        section.notes.iter().for_each(|note| add_wrapped(&mut page, note));
    }
    page.push('\n');
    for (name, condition) in conditions(summary) {
        add_wrapped(&mut page, &format!("{name}: {condition}"));
    }
    let notes = notes(summary);
    if !notes.is_empty() {
        page.push('\n');
        notes.iter().for_each(|note| add_wrapped(&mut page, &format!("note: {note}")));
    }
    page.push_str("\nWhat the words mean\n");
    DEFINITIONS.iter().for_each(|(name, meaning)| add_wrapped(&mut page, &format!("{name}: {meaning}")));
    page
}

/// Under which conditions the numbers hold, a name and a line each.
pub(super) fn conditions(summary: &Summary) -> Vec<(&'static str, String)> {
    let measurement = &summary.measurement;
    let about = &measurement.about;
    let name = |text: &str| printable(text, NAME_MAX_CHARS);
    let mut lines = Vec::new();
    let date = measurement.date.as_deref().map(|it| format!(", at {}", name(it))).unwrap_or_default();
    lines.push(("sobench", format!("{}{date}", name(&measurement.sobench_version))));
    for corpus in &about.corpora {
        let unreadable =
            if corpus.unreadable > 0 { format!(", {} unreadable", count(corpus.unreadable as u64)) } else { String::new() };
        lines.push((
            "corpus",
            format!(
                "{} ({}), {} schemas, {} instances{unreadable}, sha256 {}",
                name(&corpus.source),
                corpus.kind.name(),
                count(corpus.entries as u64),
                count(corpus.instances as u64),
                printable(&corpus.sha256, HASH_SHOWN_CHARS)
            ),
        ));
    }
    let filter = about.filter.as_deref().map(|it| format!(", filter {}", name(it))).unwrap_or_default();
    let limit = about.limit.map(|it| format!(", limit {it}")).unwrap_or_default();
    lines.push(("selected", format!("{} schemas{filter}{limit}", count(about.selected as u64))));
    let spellings: Vec<&str> = about.spellings.iter().map(|it| it.name()).collect();
    let formats = if about.assert_formats { "asserted" } else { "not asserted" };
    let walks = if about.warm { "cold and warm" } else { "cold only" };
    lines.push(("spellings", format!("{}; walks {walks}; format {formats}", spellings.join(", "))));
    lines.push(("vocabulary", format!("{}, {} ids", name(&about.vocabulary.name), count(about.vocabulary.ids as u64))));
    let memory = about.memory_limit_bytes.map(|it| format!(", {} of address space", bytes(Some(it)))).unwrap_or_default();
    lines.push(("limits", format!("{} ms a row{memory}; child processes at a time: {}", count(about.timeout_ms), about.jobs)));
    let host = &about.host;
    let cpu = host.cpu.as_deref().map(|it| format!(", {}", name(it))).unwrap_or_default();
    lines.push((
        "machine",
        format!(
            "{} {}{cpu}, {} threads; reading the clock takes {} ns, which is part of every duration",
            name(&host.os),
            name(&host.arch),
            host.threads,
            host.clock_ns
        ),
    ));
    if let Some(ns) = measurement.wall_ns {
        lines.push(("wall time", format!("{:.1} s", ns as f64 / 1e9)));
    }
    lines
}

/// The caller's notices, and holes in the data.
pub(super) fn notes(summary: &Summary) -> Vec<String> {
    let measurement = &summary.measurement;
    let mut notes: Vec<String> = measurement.notices.iter().map(|it| printable(it, NOTICE_MAX_CHARS)).collect();
    if measurement.interrupted {
        notes.push("the measurement was stopped before its end".to_owned());
    }
    let selected = measurement.about.selected as u64;
    for engine in summary.engines.iter().filter(|it| it.schemas != selected) {
        notes.push(format!("{} has rows of {} of {} schemas", engine.engine.name(), count(engine.schemas), count(selected)));
    }
    for engine in &summary.engines {
        let ours = engine.stops.schemas(SchemaOutcome::NotJudged);
        if ours > 0 {
            let (name, ours) = (engine.engine.name(), count(ours));
            notes.push(format!(
                "sobench's own evaluator was stopped on schemas of {name}; faults found before stand, and the rest is not \
                 judged: {ours}"
            ));
        }
    }
    if summary.common_schemas == 0 {
        notes.push("the common set is empty: no schema is passed by every engine".to_owned());
    }
    if summary.engines.len() == 1 {
        notes.push("with one engine the common set is what it passes itself".to_owned());
    }
    if summary.tags.rows_left_out() > 0 {
        notes.push(format!("tags that were too many to tell apart: {} of rows", count(summary.tags.rows_left_out())));
    }
    notes
}

fn table(section: &Section) -> String {
    let mut builder = Builder::default();
    builder.push_record(&section.head);
    section.rows.iter().for_each(|row| builder.push_record(row));
    let mut table = builder.build();
    table.with(Style::psql()).with(Modify::new(Columns::new(section.word_columns..)).with(Alignment::right()));
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Adds a sentence, wrapped at the page's width.
pub(in crate::report) fn add_wrapped(page: &mut String, sentence: &str) {
    let wrapped = Wrap::wrap(sentence, PAGE_WIDTH, true);
    for line in wrapped.lines() {
        let _ = writeln!(page, "{}", line.trim());
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{eventful, measurement, row};
    use super::*;
    use crate::engine::EngineName;
    use crate::error::Result;
    use crate::mask::row::{Row, Spelling, Stage, StopCause};

    #[test]
    fn a_page_shows_every_figure_with_unit_and_count() {
        insta::assert_snapshot!(render(&eventful()));
    }

    #[test]
    fn a_page_about_nothing_has_no_zeros_for_unknowns() {
        let nothing = Summary::build(measurement(&[EngineName::Guidance]), || Ok(Vec::<Result<Row>>::new())).unwrap();
        let page = render(&nothing);
        assert!(page.contains("n/a") && !page.contains("NaN") && !page.contains("inf"), "{page}");
        assert!(page.contains("has rows of 0 of 5 schemas"));
    }

    #[test]
    fn without_warm_walks_no_figure_is_called_warm() {
        let mut measurement = measurement(&[EngineName::Guidance]);
        measurement.about.warm = false;
        let stage = Stage::Instance { index: 0, spelling: Spelling::Maskbench };
        let rows = [row(0, EngineName::Guidance), row(1, EngineName::Guidance).stopped_at(StopCause::Timeout, stage)];
        let summary = Summary::build(measurement, || Ok(rows.iter().cloned().map(Ok))).unwrap();
        assert_eq!(summary.engines[0].headline().masks.own.warm.mask.n(), 0);
        let page = render(&summary);
        let tables = page.split("What the words mean").next().unwrap();
        assert!(!tables.contains("warm") && tables.contains("What one core carries (cold;"), "{page}");
    }

    #[test]
    fn a_failure_of_our_own_is_told() {
        let stopped = || row(0, EngineName::Guidance).stopped_at(StopCause::Crash, Stage::Oracle);
        let summary = Summary::build(measurement(&[EngineName::Guidance]), || Ok([Ok(stopped())])).unwrap();
        assert!(notes(&summary).iter().any(|it| it.starts_with("sobench's own evaluator was stopped") && it.ends_with(": 1")));
    }

    #[test]
    fn pages_keep_to_their_width_and_carry_nothing_that_a_terminal_obeys() {
        let engines = EngineName::ALL;
        let long = "\u{1b}[2J\u{202e}".repeat(300);
        let rows = || {
            Ok(engines.map(|engine| {
                let mut row = row(0, engine).declined_with(&long);
                row.entry.clone_from(&long);
                row.tags = vec![long.clone()];
                Ok(row)
            }))
        };
        let mut loud = measurement(&engines);
        loud.notices = vec![long.clone()];
        loud.about.corpora[0].source.clone_from(&long);
        loud.about.engines[0].version.clone_from(&long);
        for summary in [eventful(), Summary::build(loud, rows).unwrap()] {
            let page = render(&summary);
            assert!(!page.chars().any(|it| it.is_control() && it != '\n') && !page.contains('\u{202e}'), "{page}");
            for line in page.lines() {
                assert!(line.chars().count() <= if summary.engines.len() > 3 { 190 } else { PAGE_WIDTH + 10 }, "{line}");
            }
        }
    }
}
