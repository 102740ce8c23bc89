//! What a person reads on the console. Knows no terminal: it returns a string, and every figure in it comes from the tables.

use std::fmt::Write as _;

use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Modify, Style};

use super::definitions::spoken_of;
use super::number::{bytes, count};
use super::outcome::SchemaOutcome;
use super::tables::{self, Section};
use super::{EngineSummary, Summary};
use crate::mask::record::{MaskRecord, RESERVED_BYTES};
use crate::mask::row::Spelling;
use crate::notice::{MaskNotice, Notice};
use crate::printable::printable;
use crate::report::wrap::add_wrapped;

/// The most characters of a name or a sentence that came from outside.
const NAME_MAX_CHARS: usize = 200;
const NOTICE_MAX_CHARS: usize = 600;

/// How much of a hash tells two corpora apart at a glance; the file has the whole.
const HASH_SHOWN_CHARS: usize = 12;

/// The whole console output, with a final line feed.
pub fn render(summary: &Summary) -> String {
    let mut page = String::new();
    if let Some(partial) = partial(summary) {
        add_wrapped(&mut page, &partial);
        page.push('\n');
    }
    for (place, section) in tables::all(summary).into_iter().enumerate() {
        let separator = if place == 0 { "" } else { "\n" };
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
        notes.iter().for_each(|note| add_wrapped(&mut page, &format!("note: {}", note_text(note))));
    }
    let mut words = String::from("\nWhat the words mean\n");
    spoken_of(&page).for_each(|(name, meaning)| add_wrapped(&mut words, &format!("{name}: {meaning}")));
    page + &words
}

/// Under which conditions the numbers hold, a name and a line each.
pub(super) fn conditions(summary: &Summary) -> Vec<(&'static str, String)> {
    let measurement = &summary.measurement;
    let mut lines = conditions_of(&measurement.about, &measurement.sobench_version, measurement.date.as_deref());
    if let Some(ns) = measurement.wall_ns {
        lines.push(("wall time", format!("{:.1} s", ns as f64 / 1e9)));
    }
    lines
}

/// As [`conditions`], for whatever was done with engines over a corpus.
pub fn conditions_of(about: &MaskRecord, version: &str, date: Option<&str>) -> Vec<(&'static str, String)> {
    let name = |text: &str| printable(text, NAME_MAX_CHARS);
    let mut lines = Vec::new();
    let date = date.map(|it| format!(", at {}", name(it))).unwrap_or_default();
    lines.push(("sobench", format!("{}{date}", name(version))));
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
    let sample =
        about.sample.map(|it| format!(", a sample of {} by seed {}", count(it.entries as u64), it.seed)).unwrap_or_default();
    lines.push(("selected", format!("{} schemas{filter}{limit}{sample}", count(about.selected as u64))));
    let spellings: Vec<&str> = about.spellings.iter().map(|it| it.name()).collect();
    let formats = if about.assert_formats { "asserted" } else { "not asserted" };
    let walks = if about.warm { "cold and warm" } else { "cold only" };
    lines.push(("spellings", format!("{}; walks {walks}; format {formats}", spellings.join(", "))));
    lines.push(("vocabulary", format!("{}, {} ids", name(&about.vocabulary.name), count(about.vocabulary.ids as u64))));
    let memory = about.memory_limit_bytes.map(address_space).unwrap_or_default();
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
    lines
}

/// What a child process really has: the limit that was asked for, and what everybody is granted beyond it.
fn address_space(limit: u64) -> String {
    let [whole, granted] = [limit.saturating_add(RESERVED_BYTES), RESERVED_BYTES].map(|it| bytes(Some(it)));
    format!(", {whole} of address space ({} asked for, and {granted} for stacks and threads)", bytes(Some(limit)))
}

/// The line that stands before every figure of a measurement that was stopped.
pub(super) fn partial(summary: &Summary) -> Option<String> {
    let wanted = summary.measurement.about.selected as u64 * summary.engines.len() as u64;
    let done: u64 = summary.engines.iter().map(|it| it.schemas).sum();
    let words = "PARTIAL: stopped before its end, with";
    summary.measurement.interrupted.then(|| format!("{words} {} of {} rows; see the notes", count(done), count(wanted)))
}

/// The caller's notices, and holes in the data.
pub(super) fn notes(summary: &Summary) -> Vec<Notice> {
    let measurement = &summary.measurement;
    let selected = measurement.about.selected as u64;
    let mut notes = Vec::new();
    for engine in summary.engines.iter().filter(|engine| engine.schemas != selected) {
        let name = engine.engine.name().to_owned();
        notes.push(MaskNotice::SchemasMissing { engine: name, rows: engine.schemas, schemas: selected });
    }
    for engine in &summary.engines {
        let ours = engine.stops.schemas(SchemaOutcome::NotJudged);
        if ours > 0 {
            notes.push(MaskNotice::EvaluatorStopped { engine: engine.engine.name().to_owned(), schemas: ours });
        }
    }
    if summary.common_schemas == 0 {
        let passes = |it: &&EngineSummary| it.headline().schemas.get(SchemaOutcome::Pass) > 0;
        let none = summary.engines.iter().filter(|it| !passes(it)).map(|it| it.engine.name().to_owned());
        notes.push(MaskNotice::NoCommonSchema { passing_none: none.collect() });
    }
    if summary.engines.len() == 1 {
        notes.push(MaskNotice::OneEngine);
    }
    if summary.headline == Spelling::Verbatim {
        notes.push(MaskNotice::NoJsonInstance);
    } else if summary.written.text > 0 {
        notes.push(MaskNotice::TextInstances);
    }
    if summary.tags.rows_left_out() > 0 {
        notes.push(MaskNotice::TagsLeftOut { rows: summary.tags.rows_left_out() });
    }
    measurement.notices.iter().cloned().chain(notes.into_iter().map(Notice::from)).collect()
}

/// The sentence of a note, fit to be shown.
pub(super) fn note_text(note: &Notice) -> String {
    printable(&note.to_string(), NOTICE_MAX_CHARS)
}

fn table(section: &Section) -> String {
    let mut builder = Builder::default();
    builder.push_record(&section.head);
    section.rows.iter().for_each(|row| builder.push_record(row));
    let mut table = builder.build();
    table.with(Style::psql()).with(Modify::new(Columns::new(section.word_columns..)).with(Alignment::right()));
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{eventful, measurement, row};
    use super::*;
    use crate::commands::mask::report::Measurement;
    use crate::engine::EngineName;
    use crate::error::Result;
    use crate::mask::row::{RouteRow, Row, Stage, StopCause};

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
    fn a_child_s_address_space_is_told_as_it_is() {
        let page = render(&eventful()).replace('\n', " ");
        assert!(page.contains("4.50 GiB of address space (4.00 GiB asked for, and 512 MiB for stacks and threads)"), "{page}");
    }

    #[test]
    fn spellings_in_which_nothing_was_written_are_in_no_table() {
        let text = |index| {
            let mut row = row(index, EngineName::Guidance);
            row.instances.truncate(1);
            row.times.truncate(1);
            row.instances[0].spelling = Spelling::Verbatim;
            row.times[0].spelling = Spelling::Verbatim;
            row
        };
        let page = |rows: &[Row]| {
            let rows = || Ok(rows.iter().cloned().map(Ok));
            render(&Summary::build(measurement(&[EngineName::Guidance]), rows).unwrap())
        };
        let (alone, mixed) = (page(&[text(0), text(1)]), page(&[text(0), row(1, EngineName::Guidance)]));
        assert!(alone.contains("spelling: verbatim)") && alone.contains("note: no instance is JSON"), "{alone}");
        assert!(!alone.contains("in the other spellings") && !alone.contains("spelling: maskbench"), "{alone}");
        let walked = alone.lines().find(|line| line.contains("warm mask n (tokens)")).unwrap();
        assert!(walked.ends_with(" 6"), "the walks are there: {walked}");
        assert!(mixed.contains("spelling: maskbench)") && mixed.contains("note: some instances are text"), "{mixed}");
        assert!(mixed.contains("in the other spellings"), "{mixed}");
    }

    #[test]
    fn a_measurement_that_was_stopped_says_so_before_its_figures() {
        let stopped = Measurement { interrupted: true, ..measurement(&[EngineName::Guidance]) };
        let summary = Summary::build(stopped, || Ok([Ok(row(0, EngineName::Guidance))])).unwrap();
        let first = "PARTIAL: stopped before its end, with 1 of 5 rows; see the notes";
        assert_eq!(render(&summary).lines().next(), Some(first));
        let html = super::super::html::render(&summary);
        assert!(html.find(first).unwrap() < html.find("<h2>").unwrap(), "{html}");
        assert!(!render(&eventful()).contains("PARTIAL"));
    }

    #[test]
    fn without_a_common_set_there_is_no_column_of_it_and_the_note_says_whose_doing_it_is() {
        let engines = [EngineName::Guidance, EngineName::Outlines];
        let rows = [row(0, engines[0]), row(0, engines[1]).declined_with("no")];
        let page = render(&Summary::build(measurement(&engines), || Ok(rows.iter().cloned().map(Ok))).unwrap());
        assert!(page.contains("no schema is passed by every engine; none at all by outlines"), "{page}");
        assert!(!page.contains("common: ") && !page.contains("Masks in the other spellings"), "{page}");
        assert!(
            !page.contains("common set: schemas") && page.contains("own set: "),
            "only what is spoken of is explained: {page}"
        );
        assert!(page.lines().all(|line| !line.trim_end().ends_with("| common")), "{page}");
    }

    #[test]
    fn what_no_engine_took_is_among_the_routes() {
        let route = Some(RouteRow { engine: EngineName::Xgrammar, why: "it can".into() });
        let rows = [Row { route, ..row(0, EngineName::Auto) }, row(1, EngineName::Auto).declined_with("no")];
        let page = render(&Summary::build(measurement(&[EngineName::Auto]), || Ok(rows.iter().cloned().map(Ok))).unwrap());
        let routes: Vec<&str> = page.split("Where auto sent schemas").nth(1).unwrap().lines().skip(3).take(2).collect();
        assert!(routes[0].starts_with(" xgrammar ") && routes[0].ends_with(" 1"), "{routes:?}");
        assert!(routes[1].starts_with(" none ") && routes[1].ends_with(" 1"), "{routes:?}");
    }

    #[test]
    fn a_failure_of_our_own_is_told() {
        let stopped = || row(0, EngineName::Guidance).stopped_at(StopCause::Crash, Stage::Oracle);
        let summary = Summary::build(measurement(&[EngineName::Guidance]), || Ok([Ok(stopped())])).unwrap();
        assert!(
            notes(&summary)
                .iter()
                .map(note_text)
                .any(|it| it.starts_with("sobench's own evaluator was stopped") && it.ends_with(": 1"))
        );
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
        loud.notices = vec![Notice::Other(long.clone())];
        loud.about.corpora[0].source.clone_from(&long);
        loud.about.engines[0].version.clone_from(&long);
        for summary in [eventful(), Summary::build(loud, rows).unwrap()] {
            let page = render(&summary);
            assert!(!page.chars().any(|it| it.is_control() && it != '\n') && !page.contains('\u{202e}'), "{page}");
            for line in page.lines() {
                assert!(
                    line.chars().count() <= if summary.engines.len() > 3 { 190 } else { crate::report::wrap::PAGE_WIDTH + 10 },
                    "{line}"
                );
            }
        }
    }
}
